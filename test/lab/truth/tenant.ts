// Tenants who own their cgroups, and make of them what they like.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import { clock, until } from '../scene.ts';
import { clear } from './resist.ts';
import { DATABASE, DATABASE_MIB, evictionsOf, HOG, type TruthScene } from './truth.ts';

const NODE_MIB = 768;
const EVICTION = 'evictionHard: { memory.available: "100Mi" }';
const CHOSEN_MS = 120_000;
const SOON_MS = 5_000;
const JAIL_MIB = 48;
const RATE = 200;

/** More than a look searches in /proc when the kernel does not kill. */
const CROWD = 1_500;

const churn: TruthScene = {
  name: 'a tenant that creates cgroups as fast as it can while the kernel kills in them',
  spec: { pods: [HOG, DATABASE], memoryMiB: NODE_MIB, pids: 2_000, config: [EVICTION] },
  culprits: [HOG.name],
  isLimitHit: true,
  body: async (scene) => {
    await scene.play(DATABASE.name, `memory ${DATABASE_MIB}`);
    const hog = await scene.play(HOG.name, 'memory 1');
    try {
      hog.write(`churn ${scene.cgroups(HOG.name).join(',')} ${JAIL_MIB}`);
      await until('the kernel kills in its cgroup', () => scene.kernelOomKills() > 0 || null);
      hog.write(`grow ${NODE_MIB} ${RATE}`);
      // On two processors that its children share with it, it may take long to come to the threshold.
      await until('the tenant is chosen', () => evictionsOf(scene)[0] ?? null, CHOSEN_MS);
      const startMs = clock.monoMs();
      const isEmpty = (): boolean => membersBelow(scene.cgroups(HOG.name)[0] ?? '').length === 0;
      await until('nobody of it is left', () => isEmpty() || null, SOON_MS);
      const ms = clock.monoMs() - startMs;
      return `gone ${Math.round(ms)} ms after the decision`;
    } finally {
      clear(scene, HOG.name);
    }
  },
};

const crowded: TruthScene = {
  ...churn,
  name: `${churn.name}, on a machine with ${CROWD} other processes`,
  body: async (scene, run) => {
    // Older than all others, so that /proc shows them first.
    const crowd = spawn('perl', ['-e', `for (2 .. ${CROWD}) { fork or last } close STDOUT; sleep`], {
      detached: true,
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    try {
      await once(crowd.stdout, 'end');
      return await churn.body(scene, run);
    } finally {
      if (crowd.pid !== undefined) process.kill(-crowd.pid, 'SIGKILL');
    }
  },
};

/** By /proc: the directories may be locked. */
function membersBelow(directory: string): readonly string[] {
  const path = directory.slice(directory.indexOf('/nodewarden'));
  assert(path.startsWith('/nodewarden'), `${directory} is not where a scene has its cgroups`);
  return fs.readdirSync('/proc').filter((name) => {
    if (!/^[1-9]\d*$/.test(name)) return false;
    try {
      return fs.readFileSync(`/proc/${name}/cgroup`, 'latin1').includes(path);
    } catch {
      return false; // It ended.
    }
  });
}

export const tenantScenes: readonly TruthScene[] = [churn, crowded];
