// Several things at once, or one after the other.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { sleep } from '../../../src/host/clock.ts';
import { availableMiB, clock, type PodSpec, until } from '../scene.ts';
import { DATABASE, DATABASE_MIB, evictionsOf, HOG, SMALL, type TruthScene, untilGone, victimOf } from './truth.ts';

const NODE_MIB = 512;
const HARD_MIB = 100;
const hard = (signal: string, limit: string): string => `evictionHard: { ${signal}: "${limit}" }`;

const EQUAL_MIB = 60;
const EQUALS = Array.from({ length: 5 }, (_, index): PodSpec => ({ name: `equal-${index}` }));
const NEEDED = 3;
/** Beyond what all but the last of them give back: some 62 MiB each. */
const BEYOND_MIB = 30;
const severalNeeded: TruthScene = {
  name: `${NEEDED} pods have to go, and no more do`,
  spec: {
    pods: [...EQUALS, { ...DATABASE, requestMiB: 300 }],
    memoryMiB: NODE_MIB,
    config: [hard('memory.available', `${HARD_MIB}Mi`)],
  },
  culprits: EQUALS.map(({ name }) => name),
  evictions: { least: NEEDED, most: NEEDED },
  body: async (scene) => {
    const database = await scene.play(DATABASE.name, 'memory 24');
    for (const { name } of EQUALS) await scene.play(name, `memory ${EQUAL_MIB}`);
    // The database grows within its request, faster than one after the other can end.
    const free = (await availableMiB(scene)) - HARD_MIB;
    database.write(`grow ${Math.round(free + EQUAL_MIB * (NEEDED - 1) + BEYOND_MIB)} max`);
    await until('enough have ended', () => evictionsOf(scene).length >= NEEDED || null, 15_000);
    return evictionsOf(scene).map(victimOf).sort().join(', ');
  },
};

const SOFT_GRACE_MS = 2_000;
/** What nobody looked at is no part of the grace: memory was free meanwhile. */
const graceOverRestart: TruthScene = {
  name: 'the grace period of a soft threshold does not elapse while no agent runs',
  spec: {
    pods: [HOG, DATABASE],
    memoryMiB: NODE_MIB,
    config: [
      hard('memory.available', '40Mi'),
      `evictionSoft: { memory.available: "${HARD_MIB}Mi" }`,
      `evictionSoftGracePeriod: { memory.available: "${SOFT_GRACE_MS}ms" }`,
      'evictionMaxPodGracePeriod: 1',
    ],
  },
  culprits: [HOG.name],
  body: async (scene) => {
    await scene.play(DATABASE.name, `memory ${DATABASE_MIB}`);
    const hog = await scene.play(HOG.name, 'memory 1');
    const mib = Math.round((await availableMiB(scene)) - 70);
    const crossMs = clock.monoMs();
    hog.write(`memory ${mib}`);
    await until('the threshold is met', async () => {
      const { signals } = await scene.status();
      return signals.some(({ thresholds }) => thresholds.some(({ isMet }) => isMet)) || null;
    });
    await sleep(clock, 400);
    await scene.agent.crash();
    const seenMs = clock.monoMs() - crossMs;
    hog.write('memory 1');
    await sleep(clock, SOFT_GRACE_MS);
    hog.write(`memory ${mib}`);
    await sleep(clock, 300);
    const startMs = clock.monoMs();
    await scene.agent.start();
    await untilGone(scene, 'the hog', hog);
    const atMs = (evictionsOf(scene)[0]?.decision.atMs ?? Number.NaN) - startMs;
    assert(
      atMs >= SOFT_GRACE_MS - seenMs,
      `decided ${Math.round(atMs)} ms after the start, ${Math.round(seenMs)} before`,
    );
    return `decided ${Math.round(atMs)} ms after the start, with ${Math.round(seenMs)} seen before`;
  },
};

/** Edited while no agent ran: who is in the other cgroup was not what it had chosen. */
const rebound: TruthScene = {
  name: 'a manifest names another cgroup after the agent restarts during its pod’s grace period',
  mostlyWaits: true,
  spec: {
    pods: [HOG, SMALL, DATABASE],
    memoryMiB: NODE_MIB,
    config: [
      hard('memory.available', '20Mi'),
      `evictionSoft: { memory.available: "${HARD_MIB}Mi" }`,
      'evictionSoftGracePeriod: { memory.available: "100ms" }',
      'evictionMaxPodGracePeriod: 20',
    ],
  },
  culprits: [HOG.name, SMALL.name],
  evictions: { least: 1, most: 1 },
  body: async (scene) => {
    const innocent = await scene.play(DATABASE.name, `memory ${DATABASE_MIB}`);
    const hog = await scene.play(HOG.name, 'stubborn', 'memory 1');
    hog.write(`memory ${Math.round((await availableMiB(scene)) - 60)}`);
    await until('the soft eviction begins', () => evictionsOf(scene).at(0) ?? null);
    await scene.agent.crash();
    const { manifests } = scene.agent.places;
    const [database, chosen, small] = [DATABASE.name, HOG.name, SMALL.name];
    const read = (name: string): string => fs.readFileSync(path.join(manifests, `${name}.yaml`), 'utf8');
    const asChosen = read(database).replace(`name: ${database}\n`, `name: ${chosen}\n`);
    const asSmall = read(small).replace(`cgroup: ${small}\n`, `cgroup: ${chosen}\n`);
    fs.rmSync(path.join(manifests, `${database}.yaml`));
    fs.writeFileSync(path.join(manifests, `${chosen}.yaml`), asChosen);
    fs.writeFileSync(path.join(manifests, `${small}.yaml`), asSmall);
    await scene.agent.start();
    await untilGone(scene, 'the hog', hog);
    assert(innocent.isAlive(), 'the database was stopped for the decision about another pod');
    return '';
  },
};

export const episodeScenes: readonly TruthScene[] = [severalNeeded, graceOverRestart, rebound];
