// Pods of which it is not sure what they use, or which cgroup is theirs: nobody else goes for what they do.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { findCgroupMounts } from '../../../src/host/cgroup/cgroup-mounts.ts';
import { sleep } from '../../../src/host/clock.ts';
import { clock, type PodSpec, until } from '../scene.ts';
import { clear } from './resist.ts';
import {
  DATABASE,
  DATABASE_MIB,
  evictionsOf,
  goneAndOver,
  HOG,
  isOver,
  noRename,
  SMALL,
  type TruthScene,
  untilGone,
} from './truth.ts';

const NODE_MIB = 512;
const EVICTION = 'evictionHard: { memory.available: "100Mi" }';
/** MiB/s */
const RATE = 200;
const RENAMED_MS = 8_000;
const mounts = findCgroupMounts();
const memory = mounts.known ? mounts.value : null;

const unread: TruthScene = {
  name: 'a hog whose usage cannot be read from the start, beside a database within its request',
  spec: { pods: [HOG, DATABASE], memoryMiB: NODE_MIB, config: [EVICTION] },
  culprits: [HOG.name],
  body: async (scene) => {
    await scene.play(DATABASE.name, `memory ${DATABASE_MIB}`);
    const hog = await scene.play(HOG.name, 'memory 1');
    const usage = memory?.version === 1 ? 'memory.usage_in_bytes' : 'memory.current';
    const file = scene
      .cgroups(HOG.name)
      .map((directory) => path.join(directory, usage))
      .find(fs.existsSync);
    assert(file !== undefined, 'the hog has no memory cgroup');
    const empty = path.join(scene.agent.places.stateDirectory, '..', 'empty');
    fs.writeFileSync(empty, '');
    await scene.agent.crash();
    execFileSync('mount', ['--bind', empty, file]);
    try {
      await scene.agent.start();
      hog.write(`grow ${NODE_MIB} ${RATE}`);
      const ms = await untilGone(scene, 'the hog', hog);
      await until('its eviction is over', () => evictionsOf(scene).every(isOver) || null);
      return `gone ${Math.round(ms)} ms after it began to grow`;
    } finally {
      execFileSync('umount', [file]);
    }
  },
};

const renamed: TruthScene = {
  name: 'a hog whose owner renames its cgroup again and again while it grows, beside a small pod and a database',
  missing: noRename,
  spec: { pods: [HOG, SMALL, DATABASE], memoryMiB: NODE_MIB, config: [EVICTION] },
  culprits: [HOG.name],
  body: async (scene) => {
    await scene.play(DATABASE.name, `memory ${DATABASE_MIB}`);
    await scene.play(SMALL.name, 'memory 4');
    const hog = await scene.play(HOG.name, 'memory 1');
    hog.write(`grow ${NODE_MIB} ${RATE}`);
    const directories = scene.cgroups(HOG.name);
    let renames = 0;
    const untilMs = clock.monoMs() + RENAMED_MS;
    // To its end, and then until it has its own name again.
    while ((hog.isAlive() && clock.monoMs() < untilMs) || renames % 2 === 1) {
      for (const one of directories) {
        const [from, to] = renames % 2 === 0 ? [one, `${one}-aside`] : [`${one}-aside`, one];
        fs.renameSync(from, to);
      }
      renames += 1;
      await new Promise((resolve) => clock.after(Math.random() * 6, () => resolve(null)));
    }
    assert(!hog.isAlive(), 'the hog lives');
    return `gone after ${renames} renames`;
  },
};

const LOW: PodSpec = { name: 'low', priority: -1 };
const LATE_DATABASE: PodSpec = { ...DATABASE, isLate: true };
const onto: TruthScene = {
  name: 'a cgroup is renamed to that of a pod of a higher priority, which had none: it counts as that pod alone',
  missing: noRename,
  spec: { pods: [HOG, LOW, LATE_DATABASE], memoryMiB: NODE_MIB, config: [EVICTION] },
  culprits: [HOG.name],
  body: async (scene) => {
    await scene.play(LOW.name, `memory ${DATABASE_MIB}`);
    const hog = await scene.play(HOG.name, 'memory 1');
    const names = scene.cgroups(DATABASE.name);
    for (const [i, one] of scene.cgroups(LOW.name).entries()) fs.renameSync(one, names[i] ?? '');
    hog.write(`grow ${NODE_MIB} ${RATE}`);
    return `gone ${await goneAndOver(scene, 'the hog', hog)} ms after it began to grow`;
  },
};

/** More cgroups than a look searches for a process. */
const LEFT_CGROUPS = 600;
const EMPTIED: PodSpec = { name: 'emptied', priority: -1 };
const LESSER: PodSpec = { name: 'lesser', requestMiB: 64 };
const GROWING: PodSpec = { ...DATABASE, requestMiB: NODE_MIB };
const STEP_MIB = 4;
const emptied: TruthScene = {
  name: `a pod that would come first has ended and left ${LEFT_CGROUPS} cgroups, while a database grows within its request: the pod of the lower priority goes`,
  spec: { pods: [EMPTIED, LESSER, GROWING], memoryMiB: NODE_MIB, config: [EVICTION] },
  culprits: [EMPTIED.name, LESSER.name],
  body: async (scene) => {
    const lesser = await scene.play(LESSER.name, 'memory 48');
    const database = await scene.play(GROWING.name, `memory ${DATABASE_MIB}`);
    const [directory = ''] = scene.cgroups(EMPTIED.name);
    try {
      const left = await scene.play(EMPTIED.name, 'memory 8', `litter ${directory} ${LEFT_CGROUPS}`);
      left.kill('SIGKILL');
      await until('it has ended', () => left.ended());
      // No further than needed: the next one to go would be the database.
      let mib = DATABASE_MIB;
      for (; lesser.isAlive() && scene.kernelOomKills() === 0; mib += STEP_MIB) {
        database.write(`memory ${mib}`);
        await sleep(clock, (1_000 * STEP_MIB) / RATE);
      }
      await goneAndOver(scene, 'the pod of the lower priority', lesser);
      return `gone when the database had at most ${mib} MiB`;
    } finally {
      clear(scene, EMPTIED.name);
    }
  },
};

export const unsureScenes: readonly TruthScene[] = [unread, renamed, onto, emptied];
