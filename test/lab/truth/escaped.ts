// Victims whose processes leave their cgroup in the grace period: nobody within its request goes for what they still hold.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { sleep } from '../../../src/host/clock.ts';
import type { Workload } from '../../../src/host/process/workload.ts';
import { clock, type Scene, until } from '../scene.ts';
import {
  DATABASE,
  DATABASE_MIB,
  evictionsOf,
  goneAndOver,
  HOG,
  has,
  isOver,
  noRename,
  type TruthScene,
  untilGone,
} from './truth.ts';

const NODE_MIB = 512;
const HOG_MIB = 300;
const GRACE_S = 2;
const CONFIG = [
  'evictionSoft: { memory.available: "200Mi" }',
  'evictionSoftGracePeriod: { memory.available: 200ms }',
  `evictionMaxPodGracePeriod: ${GRACE_S}`,
];
/** Grace, 10 s to the proof, 30 s of clean-up (D15): then the next one would be chosen. */
const NEXT_MS = (GRACE_S + 10 + 30 + 4) * 1_000;

/** Directories of a cgroup of nobody in the node, to be joined. */
function elsewhere(scene: Scene): readonly string[] {
  const directories = scene.cgroups(HOG.name).map((one) => path.join(path.dirname(one), 'elsewhere'));
  for (const one of directories) fs.mkdirSync(one, { recursive: true });
  return directories;
}

function move(pid: number, directories: readonly string[]): void {
  for (const one of directories) fs.writeFileSync(path.join(one, 'cgroup.procs'), String(pid));
}

async function hogUnderStop(scene: Scene, ...commands: readonly string[]): Promise<Workload> {
  await scene.play(DATABASE.name, `memory ${DATABASE_MIB}`);
  const hog = await scene.play(HOG.name, ...commands, `memory ${HOG_MIB}`);
  await until('the hog is told to stop', () => evictionsOf(scene)[0] ?? null);
  return hog;
}

/** It gets no SIGKILL, nobody within its request goes for what it holds, and that is told as long as it lives. */
async function livesOnTold(scene: Scene, hog: Workload): Promise<string> {
  const isTold = (text: string): boolean =>
    text.includes('survived its eviction') && /MiB charged to \S+\/hog are still in use/.test(text);
  const record = await until('its eviction is over', () => evictionsOf(scene).find(isOver) ?? null);
  assert(has('survived', record), `the record says ${JSON.stringify(record.outcomes)}`);
  await until(
    'it is told',
    async () => (await scene.status()).findings.some(({ text }) => isTold(text)) || null,
    5_000,
  );
  await sleep(clock, NEXT_MS);
  assert(hog.isAlive(), 'it was killed outside the cgroup of the victim');
  const { findings } = await scene.status();
  assert(
    findings.some(({ text }) => isTold(text)),
    'it is not told any more, and lives',
  );
  assert(
    findings.some(({ id }) => id === 'no-candidate/memory.available'),
    'it is not told why nobody is chosen',
  );
  hog.kill('SIGKILL');
  await until(
    'it is told no more',
    async () => !(await scene.status()).findings.some(({ text }) => isTold(text)) || null,
    10_000,
  );
  return 'left alone, and told';
}

const leaves = (name: string, body: TruthScene['body']): TruthScene => ({
  name,
  mostlyWaits: true,
  mostRuns: 5,
  mayOutlast: true,
  spec: { pods: [HOG, DATABASE], memoryMiB: NODE_MIB, config: CONFIG },
  culprits: [HOG.name],
  body,
});
const moved = leaves(
  'a victim that root moves out of its cgroup in its grace period, beside a database within its request',
  async (scene) => {
    const hog = await hogUnderStop(scene, 'stubborn');
    move(hog.pid, elsewhere(scene));
    return livesOnTold(scene, hog);
  },
);
const fled = leaves(
  'a victim that leaves its cgroup when it is told to stop, beside a database within its request',
  async (scene) => livesOnTold(scene, await hogUnderStop(scene, `flee ${elsewhere(scene).join(',')}`)),
);
const amongOthers = leaves(
  'a victim that root moves into the cgroup of the database in its grace period',
  async (scene) => {
    const hog = await hogUnderStop(scene, 'stubborn');
    move(hog.pid, scene.cgroups(DATABASE.name));
    return livesOnTold(scene, hog);
  },
);

/** Its memory stays, but its main thread is in no cgroup any more. */
const headless: TruthScene = {
  name: 'a victim without a main thread, whose other threads root moves into the cgroup of the database in its grace period',
  mostlyWaits: true,
  missing: () => (noRename() === null ? null : 'cgroup v2 moves no single thread to another pod'),
  mostRuns: 3,
  mayOutlast: true,
  spec: { pods: [HOG, DATABASE], memoryMiB: NODE_MIB, config: CONFIG },
  culprits: [HOG.name],
  body: async (scene) => {
    await scene.play(DATABASE.name, `memory ${DATABASE_MIB}`);
    const hog = await scene.play(HOG.name, 'stubborn', 'headless');
    hog.write(`memory ${HOG_MIB}`);
    await until('the hog is told to stop', () => evictionsOf(scene)[0] ?? null);
    const threads = fs.readdirSync(`/proc/${hog.pid}/task`).filter((tid) => tid !== String(hog.pid));
    for (const one of scene.cgroups(DATABASE.name))
      for (const tid of threads) fs.writeFileSync(path.join(one, 'tasks'), tid);
    return livesOnTold(scene, hog);
  },
};

const ADMINISTRATOR = 'administrator';
/** It is in the victim's cgroup when that is told to stop, and leaves. `end`: of the victim. */
const passing = (
  scene: Pick<TruthScene, 'name'> & Partial<TruthScene>,
  shellMiB: number,
  end: (scene: Scene, hog: Workload) => Promise<string>,
): TruthScene => ({
  mayOutlast: true,
  spec: { pods: [HOG, DATABASE], memoryMiB: NODE_MIB, config: CONFIG },
  culprits: [HOG.name],
  ...scene,
  body: async (played) => {
    await played.play(DATABASE.name, `memory ${DATABASE_MIB}`);
    const shell = await played.playOutside(ADMINISTRATOR, 'stubborn', `memory ${shellMiB}`);
    const hog = await played.play(HOG.name, 'stubborn', 'memory 1');
    const inside = played.cgroups(HOG.name);
    move(shell.pid, inside);
    hog.write(`memory ${HOG_MIB}`);
    await until('the hog is told to stop', () => evictionsOf(played)[0] ?? null);
    move(
      shell.pid,
      inside.map((one) => path.join(one, '../..')),
    );
    const said = await end(played, hog);
    assert(shell.isAlive(), "the administrator's process was killed");
    return said;
  },
});
const looking = passing(
  {
    name: 'an administrator looks into the cgroup of a victim, is there when it is told to stop, and leaves again',
  },
  64,
  async (scene, hog) => `gone ${await goneAndOver(scene, 'the hog', hog)} ms after it was told`,
);
const leaving = passing(
  {
    name: 'an administrator leaves the cgroup of a victim, whose processes root moves to a cgroup of nobody',
    mostlyWaits: true,
    mostRuns: 3,
  },
  40,
  async (scene, hog) => {
    move(hog.pid, elsewhere(scene));
    return livesOnTold(scene, hog);
  },
);

const renamed: TruthScene = {
  name: 'a victim in a cgroup below its own, which its owner renames in the grace period, and makes another one of that name',
  missing: noRename,
  spec: { pods: [HOG, DATABASE], memoryMiB: NODE_MIB, config: CONFIG },
  culprits: [HOG.name],
  body: async (scene) => {
    const directories = scene.cgroups(HOG.name);
    const hog = await hogUnderStop(scene, 'stubborn', `enter ${directories.map((one) => `${one}/below`).join(',')}`);
    await sleep(clock, 500);
    for (const one of directories) {
      fs.renameSync(one, `${one}-gone`);
      fs.mkdirSync(one);
    }
    await scene.play(HOG.name, 'memory 5');
    return `gone ${await goneAndOver(scene, 'the hog', hog)} ms after it was told`;
  },
};

const replaced: TruthScene = {
  name: 'the owner of a victim leaves one process elsewhere, makes its cgroup anew in the grace period, and grows in it again',
  mostlyWaits: true,
  missing: noRename,
  mayOutlast: true,
  evictions: { least: 2, most: 2 },
  spec: { pods: [HOG, DATABASE], memoryMiB: NODE_MIB, config: CONFIG },
  culprits: [HOG.name],
  body: async (scene) => {
    const helper = await scene.play(HOG.name, 'stubborn', 'memory 2');
    const hog = await hogUnderStop(scene, 'stubborn');
    move(helper.pid, elsewhere(scene));
    hog.kill('SIGKILL');
    await until('it has ended', () => hog.ended());
    for (const one of scene.cgroups(HOG.name)) {
      await until('its cgroup is empty', () => isRemoved(one) || null);
      fs.mkdirSync(one);
    }
    const again = await scene.play(HOG.name, 'stubborn', `memory ${HOG_MIB}`);
    const ms = await untilGone(scene, 'the second hog', again);
    await until('both are over', () => evictionsOf(scene).filter(isOver).length === 2 || null);
    return `the second one gone after ${Math.round(ms)} ms`;
  },
};

function isRemoved(directory: string): boolean {
  try {
    fs.rmdirSync(directory);
    return true;
  } catch {
    return false; // The kernel has not taken the dead out of it yet.
  }
}

export const escapedScenes: readonly TruthScene[] = [
  moved,
  fled,
  amongOthers,
  headless,
  looking,
  leaving,
  renamed,
  replaced,
];
