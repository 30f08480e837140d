// What becomes of a pod whose manifest is removed, broken, emptied or edited, while no agent runs or over its restart.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { sleep } from '../../../src/host/clock.ts';
import { mountHungFileSystem, noHungMount } from '../../host/hung-mount.ts';
import { availableMiB, clock, type PodSpec, type Scene, until } from '../scene.ts';
import { spread } from '../spread.ts';
import { besideLoops, setNiceness } from './starved.ts';
import {
  DATABASE,
  DATABASE_MIB,
  evictionsOf,
  goneAndOver,
  HOG,
  isOver,
  SMALL,
  type TruthScene,
  untilGone,
} from './truth.ts';

const SOFT_MIB = 100;
const GRACE_SECONDS = 4;
const STUBBORN: PodSpec = { ...HOG, graceSeconds: GRACE_SECONDS };
const MEMORY_MIB = 512;
/** The directory is read again each 30 s, and 200 ms after a change: the manifest comes at any moment. */
const LONGEST_REST_MS = 1_000;

const manifestOf = (scene: Scene): string => path.join(scene.agent.places.manifests, `${HOG.name}.yaml`);
/** What may befall it, each in its turn. */
const SPOILED: readonly ((file: string) => void)[] = [
  (file) => fs.rmSync(file),
  (file) => fs.writeFileSync(file, 'apiVersion: v1\nkind: Pod\nmetadata: [\n'),
  (file) => fs.writeFileSync(file, ''),
  (file) => fs.writeFileSync(file, fs.readFileSync(file, 'utf8').replace(`cgroup: ${HOG.name}`, 'cgroup: elsewhere')),
];
const spoil = (scene: Scene, index: number, among = SPOILED): void => among[index % among.length]?.(manifestOf(scene));

const signalled: TruthScene = {
  name: 'the manifest of a victim is removed, broken, emptied or edited while no agent runs: the victim is still stopped',
  spec: {
    pods: [STUBBORN, SMALL, DATABASE],
    memoryMiB: MEMORY_MIB,
    config: [
      'evictionHard: { memory.available: "20Mi" }',
      `evictionSoft: { memory.available: "${SOFT_MIB}Mi" }`,
      'evictionSoftGracePeriod: { memory.available: "100ms" }',
      'evictionMaxPodGracePeriod: 30',
    ],
  },
  culprits: [HOG.name],
  body: async (scene, { index }) => {
    await scene.play(DATABASE.name, `memory ${DATABASE_MIB}`);
    await scene.play(SMALL.name, 'memory 4');
    const hog = await scene.play(HOG.name, 'stubborn', 'memory 1');
    hog.write(`memory ${Math.round((await availableMiB(scene)) - SOFT_MIB + 45)}`);
    const state = path.join(scene.agent.places.runtimeDirectory, 'state.json');
    await until('it is signalled', () => fs.readFileSync(state, 'utf8').includes('"signalledMs":') || null);
    await scene.agent.crash();
    assert(hog.isAlive(), 'it ended before the agent did');
    spoil(scene, index);
    await scene.agent.start();
    const ms = await untilGone(scene, 'the hog', hog);
    await until('its eviction is over', () => evictionsOf(scene).every(isOver) || null);
    return `gone ${Math.round(ms)} ms after the restart`;
  },
};

const inForce: TruthScene = {
  name: 'a manifest that is broken or emptied stays in force across a restart: its pod is evicted, and no other in its place',
  spec: {
    pods: [HOG, SMALL, DATABASE],
    memoryMiB: MEMORY_MIB,
    config: [`evictionHard: { memory.available: "${SOFT_MIB}Mi" }`],
  },
  culprits: [HOG.name],
  body: async (scene, { index }) => {
    await scene.play(DATABASE.name, `memory ${DATABASE_MIB}`);
    await scene.play(SMALL.name, 'memory 4');
    spoil(scene, index, SPOILED.slice(1, 3));
    const isTold = async (): Promise<true | null> =>
      (await scene.status()).findings.some(({ text }) => text.includes('its last good version stays in force')) || null;
    await until('it is told', isTold);
    await scene.agent.crash();
    await scene.agent.start();
    await until('it is told again', isTold);
    const hog = await scene.play(HOG.name, 'memory 1');
    hog.write(`memory ${Math.round((await availableMiB(scene)) - SOFT_MIB + 20)}`);
    return `gone after ${Math.round(await untilGone(scene, 'the hog', hog))} ms`;
  },
};

/** Within its request, which is most of the node. */
const FILLER: PodSpec = { name: 'filler', requestMiB: MEMORY_MIB - 100 };
const LEFT_MIB = [2, 5, 20];
/** Until the filler has all that it was told to take. */
const SETTLED_MS = 300;
/** Loops of that niceness, which its workload has too. */
type Loops = { readonly count: number; readonly nice: number };
const appearing = (said: string, loops: Loops | null): TruthScene => ({
  name: `a manifest appears together with the pod that fills the node at 500 MiB/s${said}: that pod is evicted, and no other in its place`,
  spec: {
    pods: [{ name: HOG.name }, FILLER, DATABASE],
    memoryMiB: MEMORY_MIB,
    config: [`evictionHard: { memory.available: "${SOFT_MIB}Mi" }`],
    isAgentLate: true,
  },
  culprits: [HOG.name],
  body: async (scene, { index }) => {
    const file = manifestOf(scene);
    const aside = path.join(path.dirname(file), `.${HOG.name}`);
    fs.renameSync(file, aside);
    await scene.agent.start();
    await scene.play(DATABASE.name, `memory ${DATABASE_MIB}`);
    const hog = await scene.play(HOG.name, 'memory 1');
    const filler = await scene.play(FILLER.name, 'memory 1');
    const left = LEFT_MIB[index % LEFT_MIB.length] ?? 0;
    filler.write(`memory ${Math.round((await availableMiB(scene)) - SOFT_MIB - left)}`);
    await until('little is left', async () => (await availableMiB(scene)) < SOFT_MIB + left + 2 || null);
    await sleep(clock, SETTLED_MS + spread(index) * LONGEST_REST_MS);
    assert.deepEqual(evictionsOf(scene), [], 'who fills the node has crossed the threshold itself: this shows nothing');
    const fill = async (): Promise<string> => {
      if (loops !== null) setNiceness(hog.pid, loops.nice);
      fs.renameSync(aside, file);
      hog.write(`grow ${MEMORY_MIB} 500`);
      return `gone after ${Math.round(await untilGone(scene, 'the hog', hog))} ms with ${left} MiB left`;
    };
    return loops === null ? await fill() : await besideLoops(scene, fill, loops);
  },
});

const KEPT: PodSpec = {
  name: 'kept',
  priority: 1000,
  requestMiB: 32,
  annotations: { 'nodewarden.dev/protect': '"true"' },
};
/** Above its request: whatever is read or not, the filler goes first. */
const KEPT_MIB = 36;
/** It crosses some 100 ms after the edit, which takes effect after 200 ms. */
const [LEFT_TO_FILL_MIB, FILL_RATE] = [4, 40];
const protectedOne: TruthScene = {
  name: 'any manifest is edited as a pod within its request crosses the threshold: it is evicted, not the protected one above its request',
  spec: {
    pods: [KEPT, FILLER, { ...SMALL, isLate: true }],
    memoryMiB: MEMORY_MIB,
    config: [`evictionHard: { memory.available: "${SOFT_MIB}Mi" }`],
  },
  culprits: [FILLER.name],
  body: async (scene) => {
    const file = path.join(scene.agent.places.manifests, `${SMALL.name}.yaml`);
    const edited = path.join(path.dirname(file), `.${SMALL.name}`);
    fs.writeFileSync(edited, fs.readFileSync(file, 'utf8').replace('priority: 0', 'priority: 7'), { mode: 0o644 });
    await scene.play(KEPT.name, `memory ${KEPT_MIB}`);
    const filler = await scene.play(FILLER.name, 'memory 1');
    filler.write(`memory ${Math.round((await availableMiB(scene)) - SOFT_MIB - LEFT_TO_FILL_MIB)}`);
    await until('little is left', async () => (await availableMiB(scene)) < SOFT_MIB + LEFT_TO_FILL_MIB + 2 || null);
    await sleep(clock, SETTLED_MS);
    assert.deepEqual(evictionsOf(scene), [], 'it has crossed the threshold already: this shows nothing');
    fs.renameSync(edited, file);
    filler.write(`grow 60 ${FILL_RATE}`);
    return `gone after ${await goneAndOver(scene, 'the filler', filler)} ms`;
  },
};

/** Less than systemd gives it. */
const STOP_MS = 30_000;
const hung: TruthScene = {
  name: 'the directory of the manifests hangs while a pod fills the node as fast as it can: that pod is evicted, a finding says so, and the agent can be stopped',
  missing: () => noHungMount,
  spec: {
    pods: [{ name: HOG.name }, SMALL, DATABASE],
    memoryMiB: MEMORY_MIB,
    config: [`evictionHard: { memory.available: "${SOFT_MIB}Mi" }`],
  },
  culprits: [HOG.name],
  body: async (scene) => {
    await scene.play(DATABASE.name, `memory ${DATABASE_MIB}`);
    await scene.play(SMALL.name, 'memory 4');
    const hog = await scene.play(HOG.name, 'memory 1');
    const { release } = await mountHungFileSystem(scene.agent.places.manifests);
    try {
      hog.write(`grow ${MEMORY_MIB} max`);
      const ms = await untilGone(scene, 'the hog', hog);
      await until(
        'it is told',
        async () =>
          (await scene.status()).findings.some(({ text }) => text.includes('its file system may hang')) || null,
      );
      scene.agent.signal('SIGTERM');
      await until('it has ended', () => !scene.agent.isRunning() || null, STOP_MS);
      await release();
      await scene.agent.start();
      return `gone after ${Math.round(ms)} ms`;
    } finally {
      await release();
    }
  },
};

export const manifestScenes: readonly TruthScene[] = [
  signalled,
  inForce,
  appearing('', null),
  appearing(', beside 8 loops of niceness -15', { count: 8, nice: -15 }),
  protectedOne,
  hung,
];
