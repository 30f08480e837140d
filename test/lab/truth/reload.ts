// A configuration that is edited while a threshold is met: what was measured and timed by the old one counts no more.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { sleep } from '../../../src/host/clock.ts';
import { availableMiB, clock, type PodSpec, type Scene, until } from '../scene.ts';
import { DATABASE, DATABASE_MIB, evictionsOf, HOG, isOver, SMALL, type TruthScene } from './truth.ts';

const MEMORY_MIB = 512;
const NOBODY = { least: 0, most: 0 };

/** Replaces a line of the configuration, and the agent reads it by itself. */
function edit({ agent }: Scene, ...replacements: readonly (readonly [string, string])[]): void {
  const { configFile } = agent.places;
  const text = replacements.reduce(
    (now, [from, to]) => {
      assert(now.includes(from), `${from} is not in the configuration`);
      return now.replace(from, to);
    },
    fs.readFileSync(configFile, 'utf8'),
  );
  fs.writeFileSync(configFile, text);
}
const isReloaded = (scene: Scene): true | null => (scene.log().split(' is in force').length > 1 ? true : null);

const GRACE_SECONDS = 6;
const OLD_MIB = 250;
const NEW_MIB = 200;
const FREE_MIB = 150;
const WITHIN_GRACE_MS = (GRACE_SECONDS - 2) * 1_000;
const grace: TruthScene = {
  name: 'a soft threshold is lowered in its grace period, and still met: its grace period begins anew',
  mostlyWaits: true,
  evictions: NOBODY,
  spec: {
    pods: [HOG, SMALL, DATABASE],
    memoryMiB: MEMORY_MIB,
    config: [
      `evictionSoft: { memory.available: "${OLD_MIB}Mi" }`,
      `evictionSoftGracePeriod: { memory.available: "${GRACE_SECONDS}s" }`,
      'evictionMaxPodGracePeriod: 30',
    ],
  },
  culprits: [],
  body: async (scene) => {
    await scene.play(DATABASE.name, `memory ${DATABASE_MIB}`);
    const hog = await scene.play(HOG.name, 'memory 1');
    hog.write(`memory ${Math.round((await availableMiB(scene)) - FREE_MIB)}`);
    await until('it is short', async () => (await availableMiB(scene)) < NEW_MIB || null);
    await sleep(clock, WITHIN_GRACE_MS);
    edit(scene, [`memory.available: "${OLD_MIB}Mi"`, `memory.available: "${NEW_MIB}Mi"`]);
    await until('it is read', () => isReloaded(scene));
    await sleep(clock, WITHIN_GRACE_MS);
    hog.write('memory 1');
    await until('it has recovered', async () => (await availableMiB(scene)) > OLD_MIB || null);
    return '';
  },
};

/** What is free by the working set, most of it page cache that counts as used, and by what could be reclaimed. */
const CACHE_MIB = 200;
const larger: TruthScene = {
  name: 'a threshold is raised together with a change of how memory is measured: the old measure is not judged by the new threshold',
  evictions: NOBODY,
  spec: {
    pods: [SMALL, DATABASE],
    memoryMiB: MEMORY_MIB,
    config: ['memoryAvailable: workingSet', 'evictionHard: { memory.available: "50Mi" }'],
  },
  culprits: [],
  body: async (scene) => {
    await scene.play(DATABASE.name, `memory ${DATABASE_MIB}`);
    await scene.play(SMALL.name, 'memory 1', `cache ${path.dirname(scene.agent.places.configFile)} ${CACHE_MIB}`);
    const before = await availableMiB(scene);
    assert(before < 300, `${Math.round(before)} MiB are available by the working set: this shows nothing`);
    edit(
      scene,
      ['memoryAvailable: workingSet', 'memoryAvailable: reclaimable'],
      ['memory.available: "50Mi"', 'memory.available: "300Mi"'],
    );
    // Its socket is away for a moment.
    const isInForce = (): Promise<true | null> =>
      availableMiB(scene).then(
        (mib) => mib > 320 || null,
        () => null,
      );
    await until('it is in force', isInForce, 20_000);
    await sleep(clock, 2_000);
    assert.deepEqual(evictionsOf(scene), [], 'somebody was chosen');
    return `${Math.round(before)} and ${Math.round(await availableMiB(scene))} MiB`;
  },
};

const STALE_MIB = 100;
const STALE_GRACE_SECONDS = 4;
const OTHER: PodSpec = { name: 'other', requestMiB: 300 };
const OTHER_MIB = 150;
const stale: TruthScene = {
  name: 'a shortage ends while no agent, or a dry run, watches a pod that was asked to stop and does not: it is not killed for it later',
  mostlyWaits: true,
  evictions: NOBODY,
  spec: {
    pods: [{ ...HOG, graceSeconds: STALE_GRACE_SECONDS }, OTHER, DATABASE],
    memoryMiB: MEMORY_MIB,
    config: [
      'dryRun: false',
      'evictionHard: { memory.available: "20Mi" }',
      `evictionSoft: { memory.available: "${STALE_MIB}Mi" }`,
      'evictionSoftGracePeriod: { memory.available: "100ms" }',
      'evictionMaxPodGracePeriod: 30',
    ],
  },
  culprits: [HOG.name],
  body: async (scene, { index }) => {
    await scene.play(DATABASE.name, `memory ${DATABASE_MIB}`);
    const other = await scene.play(OTHER.name, `memory ${OTHER_MIB}`);
    const hog = await scene.play(HOG.name, 'stubborn', 'memory 1');
    hog.write(`memory ${Math.round((await availableMiB(scene)) - STALE_MIB + 20)}`);
    const state = path.join(scene.agent.places.runtimeDirectory, 'state.json');
    await until('it is asked to stop', () => fs.readFileSync(state, 'utf8').includes('"signalledMs":') || null);
    await scene.agent.crash();
    other.write('memory 1');
    const isDry = index % 2 === 1;
    if (isDry) {
      edit(scene, ['dryRun: false', 'dryRun: true']);
      await scene.agent.start();
    }
    await sleep(clock, (STALE_GRACE_SECONDS + 2) * 1_000);
    assert(hog.isAlive(), 'it ended before the agent was back');
    if (isDry) edit(scene, ['dryRun: true', 'dryRun: false']);
    else await scene.agent.start();
    await until('its eviction is over', () => evictionsOf(scene).every(isOver) || null);
    assert(hog.isAlive(), 'it was killed although the shortage was over');
    return isDry ? 'a dry run' : 'no agent';
  },
};

export const reloadScenes: readonly TruthScene[] = [grace, larger, stale];
