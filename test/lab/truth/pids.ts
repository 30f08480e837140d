// Process ids: a bomb that nobody knew, one beside a memory hog, and the dead who keep theirs.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { sleep } from '../../../src/host/clock.ts';
import { availableMiB, clock, type PodSpec, type Scene, until } from '../scene.ts';
import { appear } from './fresh.ts';
import { DATABASE, DATABASE_MIB, evictionsOf, HOG, isOver, SMALL, type TruthScene, untilGone } from './truth.ts';

const PIDS = 256;
const CONFIG = ['evictionHard: { pid.available: "100" }'];
const MEMORY_MIB = 512;
const FRESH: PodSpec = { name: 'fresh', isLate: true };

async function start(scene: Scene): Promise<void> {
  await scene.play(DATABASE.name, `memory ${DATABASE_MIB}`, 'crowd 20');
  await scene.play(SMALL.name, 'memory 1');
}

const fresh: TruthScene = {
  name: 'a fork bomb in a pod that was unknown a moment ago',
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
/** The last of them have joined. */
const SETTLED_MS = 2_000;
/** As the kernel counts them, less those that live: one may have joined last, and nobody is helped by its end. */
const dead = (scene: Scene): number => Number(readOfHog(scene, 'pids.current')) - living(scene);
const living = (scene: Scene): number =>
  readOfHog(scene, 'cgroup.procs')
    .split('\n')
    .filter((line) => line !== '').length;
function readOfHog(scene: Scene, name: string): string {
  const directory = scene.cgroups(HOG.name).find((one) => fs.existsSync(path.join(one, 'pids.current'))) ?? '';
  return fs.readFileSync(path.join(directory, name), 'utf8');
}

/** By the slower ones dozens come while the first are waited for. */
const unreaped = (everyMs: number, how: string, most: number): TruthScene => ({
  name: `the dead of a victim, who came ${how}, keep their process ids, because nobody reaps them: nobody else goes`,
  spec: { pods: [HOG, SMALL, DATABASE], pids: PIDS, config: CONFIG },
  culprits: [HOG.name],
  // On a slow machine some still join when the first of them have ended, and those are ended too.
  evictions: { least: 1, most },
  body: async (scene) => {
    await start(scene);
    const hog = await scene.play(HOG.name, 'memory 1');
    const parent = await scene.playOutside(null, 'memory 1');
    parent.write(`strays ${STRAYS} ${scene.cgroups(HOG.name).join(',')} ${everyMs}`);
    const ms = await untilGone(scene, 'the hog', hog);
    const isTold = async (): Promise<string | null> =>
      (await scene.status()).findings.find(({ text }) => /hold their process ids/.test(text))?.text ?? null;
    // Some join after the first of them have ended.
    const isCounted = async (): Promise<true | null> =>
      (await isTold())?.startsWith(`${dead(scene)} dead processes`) === true ? true : null;
    await until('a finding counts the dead', isCounted, WATCHED_MS).catch(async () =>
      assert.fail(`of ${dead(scene)} dead ${await isTold()}`),
    );
    // Those that joined last have been ended too.
    await until('all evictions have ended', () => evictionsOf(scene).every(isOver) || null);
    await sleep(clock, SETTLED_MS);
    const before = evictionsOf(scene).length;
    await sleep(clock, WATCHED_MS);
    assert.equal(evictionsOf(scene).length, before, 'somebody was chosen although only the dead are left');
    parent.kill('SIGKILL');
    await until('the finding goes with the dead', async () => ((await isTold()) === null ? true : null));
    return `gone after ${Math.round(ms)} ms`;
  },
});

/** Few enough to leave the threshold alone until the database takes some more. */
const FEW_STRAYS = 100;
const MORE = 60;
const afterMemory: TruthScene = {
  name: 'the dead of a pod that was evicted for memory keep their process ids while its neighbour takes some: nobody else goes',
  spec: {
    pods: [HOG, SMALL, DATABASE],
    pids: PIDS,
    memoryMiB: MEMORY_MIB,
    config: ['evictionHard: { pid.available: "100", memory.available: "100Mi" }'],
  },
  culprits: [HOG.name],
  body: async (scene) => {
    const database = await scene.play(DATABASE.name, `memory ${DATABASE_MIB}`);
    await scene.play(SMALL.name, 'memory 1');
    const hog = await scene.play(HOG.name, 'memory 1');
    const parent = await scene.playOutside(null, 'memory 1');
    parent.write(`strays ${FEW_STRAYS} ${scene.cgroups(HOG.name).join(',')} 0`);
    await until('all have joined', () => (living(scene) > FEW_STRAYS ? true : null));
    assert.deepEqual(evictionsOf(scene), [], 'somebody was chosen too early');
    hog.write(`grow ${MEMORY_MIB} 400`);
    const ms = await untilGone(scene, 'the hog', hog);
    database.write(`crowd ${MORE}`);
    await sleep(clock, WATCHED_MS);
    const { signals } = await scene.status();
    const left = Number(signals.find(({ signal }) => signal === 'pid.available')?.available);
    assert(left < 100, `${left} process ids are available: this shows nothing`);
    parent.kill('SIGKILL');
    return `gone after ${Math.round(ms)} ms, ${left} process ids left`;
  },
};

export const pidScenes: readonly TruthScene[] = [
  fresh,
  besideMemory,
  unreaped(0, 'at once', 3),
  unreaped(12, 'one by one', 8),
  unreaped(16, 'slowly', 8),
  afterMemory,
];
