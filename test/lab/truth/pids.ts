// Process ids: a bomb that nobody knew, one beside a memory hog, and the dead who keep theirs.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { sleep } from '../../../src/host/clock.ts';
import { availableMiB, clock, type PodSpec, type Scene, until } from '../scene.ts';
import { appear } from './fresh.ts';
import { DATABASE, DATABASE_MIB, evictionsOf, HOG, type TruthScene, untilGone } from './truth.ts';

const PIDS = 256;
const CONFIG = ['evictionHard: { pid.available: "100" }'];
const MEMORY_MIB = 512;
const SMALL: PodSpec = { name: 'small', requestMiB: 16 };
const FRESH: PodSpec = { name: 'fresh', isLate: true };

async function start(scene: Scene): Promise<void> {
  await scene.play(DATABASE.name, `memory ${DATABASE_MIB}`, 'crowd 20');
  await scene.play(SMALL.name, 'memory 1');
}

const fresh: TruthScene = {
  name: 'a fork bomb in a pod that nobody knew a moment ago',
  spec: { pods: [FRESH, SMALL, DATABASE], pids: PIDS, config: CONFIG },
  culprits: [FRESH.name],
  body: async (scene) => {
    await start(scene);
    const bomb = await appear(scene, FRESH.name, 'bomb');
    return `gone after ${Math.round(await untilGone(scene, 'the bomb', bomb))} ms`;
  },
};

const besideMemory: TruthScene = {
  name: 'a fork bomb and a memory hog at the same moment',
  spec: {
    pods: [FRESH, HOG, SMALL, DATABASE],
    pids: PIDS,
    memoryMiB: MEMORY_MIB,
    config: ['evictionHard: { pid.available: "100", memory.available: "100Mi" }'],
  },
  culprits: [FRESH.name, HOG.name],
  evictions: { least: 2, most: 2 },
  body: async (scene) => {
    await start(scene);
    const hog = await scene.play(HOG.name, 'memory 1');
    const mib = Math.round((await availableMiB(scene)) - 130);
    hog.write(`memory ${mib}`);
    hog.write(`grow ${MEMORY_MIB} 400`);
    const bomb = await appear(scene, FRESH.name, 'bomb');
    await untilGone(scene, 'the hog', hog);
    await untilGone(scene, 'the bomb', bomb);
    return '';
  },
};

/** The dead alone keep the threshold met. */
const STRAYS = 180;
/** Beyond the deadline of 10 s, after which a victim is waited for no more. */
const WATCHED_MS = 13_000;
/** As the kernel counts them. */
function dead(scene: Scene): number {
  const file = scene
    .cgroups(HOG.name)
    .map((directory) => path.join(directory, 'pids.current'))
    .find((one) => fs.existsSync(one));
  return Number(fs.readFileSync(file ?? '', 'utf8'));
}

const unreaped: TruthScene = {
  name: 'the dead of a victim keep their process ids, because nobody reaps them: nobody else goes',
  spec: { pods: [HOG, SMALL, DATABASE], pids: PIDS, config: CONFIG },
  culprits: [HOG.name],
  body: async (scene) => {
    await start(scene);
    const hog = await scene.play(HOG.name, 'memory 1');
    const parent = await scene.playOutside(null, 'memory 1');
    parent.write(`strays ${STRAYS} ${scene.cgroups(HOG.name).join(',')}`);
    const ms = await untilGone(scene, 'the hog', hog);
    const isTold = async (): Promise<string | null> =>
      (await scene.status()).findings.find(({ text }) => /hold their process ids/.test(text))?.text ?? null;
    // Some join after the first of them have ended.
    const isCounted = async (): Promise<true | null> =>
      (await isTold())?.includes(`${dead(scene)} of its dead processes`) === true ? true : null;
    await until('a finding counts the dead', isCounted, WATCHED_MS).catch(async () =>
      assert.fail(`of ${dead(scene)} dead ${await isTold()}`),
    );
    await sleep(clock, WATCHED_MS);
    assert.equal(evictionsOf(scene).length, 1, 'somebody else was chosen');
    parent.kill('SIGKILL');
    await until('the finding goes with the dead', async () => ((await isTold()) === null ? true : null));
    return `gone after ${Math.round(ms)} ms`;
  },
};

export const pidScenes: readonly TruthScene[] = [fresh, besideMemory, unreaped];
