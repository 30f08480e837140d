// What becomes of each kind of owner's pod under memory pressure, as a table; and fresh pods.
import fs from 'node:fs';
import path from 'node:path';
import { sleep } from '../../../src/host/clock.ts';
import { clock, until } from '../scene.ts';
import { spread } from '../spread.ts';
import { type KubeObject, list } from './api.ts';
import { audit, MIB, STATIC } from './cluster.ts';
import { barePod, DATABASE, daemonSet, deployment, job, type PodSpec, statefulSet } from './manifests.ts';
import { isReady, type KubeScene, type Manifest, restarts, type Scene } from './scene.ts';

/** Far above the kubelet's own 100Mi. */
export const HARD_MIB = 400;
export const HARD = [`evictionHard: { memory.available: "${HARD_MIB}Mi" }`];
/** More than all pods may have: whoever is not stopped ends by the kernel. */
const ALL_MIB = 3_000;
/** No restart loop: so long nothing more may happen to the successor. */
const CALM_MS = 20_000;
const CALM: PodSpec = { name: 'calm', load: ['hold=32', 'beat=/share/calm.beat'], requestMiB: 64, isInnocent: true };
/** Grows once when told: what follows it is calm. */
const HOG: PodSpec = {
  name: 'hog',
  load: ['lock=/share/$(POD).lock', 'hold=16', 'when=/share/go', 'once=/share/once', `grow=${ALL_MIB}`, 'pace=200'],
  requestMiB: 16,
};

type Kind = {
  readonly name: string;
  readonly manifest: Manifest;
  readonly count: number;
  readonly isReplaced: boolean;
};
const KINDS: readonly Kind[] = [
  { name: 'Deployment', manifest: deployment(HOG), count: 1, isReplaced: true },
  { name: 'StatefulSet', manifest: statefulSet(HOG, 2), count: 2, isReplaced: true },
  { name: 'DaemonSet', manifest: daemonSet(HOG), count: 1, isReplaced: true },
  { name: 'Job', manifest: job(HOG), count: 1, isReplaced: true },
  { name: 'bare pod', manifest: barePod(HOG), count: 1, isReplaced: false },
];
export const OWNERS_HEAD = [
  '| owner | its process gone after crossing | DELETE asked after crossing | object gone | successor ready | restarts in place | object afterwards |',
  '|---|---|---|---|---|---|---|',
];

function ownerScene({ name, manifest, count, isReplaced }: Kind): KubeScene {
  return {
    name: `a ${name} under memory pressure`,
    config: HARD,
    culprits: [HOG.name],
    body: async (scene) => {
      await scene.create(barePod(DATABASE), deployment(CALM), manifest);
      await scene.ready('db');
      await scene.ready('calm');
      const before = await scene.ready('hog', count);
      const toldMs = clock.monoMs();
      scene.say('go');
      const victim = await until('one of them ends', () => before.find((pod) => firstEnd(scene, pod) !== null) ?? null);
      const goneMs = firstEnd(scene, victim) ?? Number.NaN;
      const crossedMs = scene.crossedMs(HARD_MIB, toldMs);
      const uid = victim.metadata.uid ?? '';
      const objectGone = await until('its object is gone', () => deletedMs(scene, uid));
      const others = before.filter((pod) => pod !== victim).map(({ metadata }) => metadata.uid);
      const successor = isReplaced
        ? await until(
            'a successor is ready',
            () =>
              scene
                .podsOf('hog')
                .find((pod) => isReady(pod) && pod.metadata.uid !== uid && !others.includes(pod.metadata.uid)) ?? null,
          )
        : null;
      const readyMs = clock.monoMs();
      await sleep(clock, CALM_MS);
      const left = (await list('Pod')).filter(({ metadata }) => metadata.labels?.['pod'] === 'hog');
      if (left.length !== (isReplaced ? count : 0))
        throw new Error(`pods of ${name} afterwards: ${left.map(sayPod).join(', ')}`);
      const again = left.reduce((sum, pod) => sum + restarts(pod), 0) + restartsOf(scene, uid);
      if (again > 0) throw new Error(`${again} restarts in place`);
      const asked = audit(scene.startWallMs).find(
        (entry) => entry.verb === 'delete' && entry.name === victim.metadata.name,
      );
      const wallOf = (ms: number): number => ms + clock.wallMs() - clock.monoMs();
      const since = (ms: number): string => `${Math.round(ms - crossedMs)} ms`;
      scene.run.report(
        `| ${name} | ${since(goneMs)} | ${asked === undefined ? 'never' : `${Math.round(asked.atWallMs - wallOf(crossedMs))} ms`} | ${since(objectGone)} | ${successor === null ? 'none' : since(readyMs)} | ${again} | ${isReplaced ? left.map(sayPod).join(', ') : 'none'} |`,
      );
      return `gone ${since(goneMs)} after crossing, its object after ${since(objectGone)}${successor === null ? '' : `, the successor ready after ${since(readyMs)}`}`;
    },
  };
}

export const firstEnd = (scene: Scene, { metadata }: KubeObject): number | null =>
  scene.lives.lives().find((life) => life.uid === metadata.uid && life.goneMs !== null)?.goneMs ?? null;
export const deletedMs = (scene: Scene, uid: string): number | null =>
  scene.lives.versions().find(({ type, pod }) => type === 'DELETED' && pod.metadata.uid === uid)?.atMs ?? null;
export const restartsOf = (scene: Scene, uid: string): number =>
  Math.max(
    0,
    ...scene.lives
      .versions()
      .filter(({ pod }) => pod.metadata.uid === uid)
      .map(({ pod }) => restarts(pod)),
  );
const sayPod = (pod: KubeObject): string =>
  `${pod.metadata.name} ${pod['status'].phase}${isReady(pod) ? ', ready' : ''}`;

const FRESH: PodSpec = {
  name: 'fresh',
  load: ['once=/share/once', `grow=${ALL_MIB}`, 'pace=0'],
  requestMiB: 16,
};
/** Looks of the agent are seconds apart by then: the pod comes at any moment of that. */
const LONGEST_REST_MS = 2_200;

const freshJob: KubeScene = {
  name: 'a fresh Job that grows at full speed from its first moment, beside a database',
  times: 20,
  config: HARD,
  culprits: [FRESH.name],
  body: async (scene) => {
    await scene.create(barePod(DATABASE));
    await scene.ready('db');
    await sleep(clock, spread(scene.run.index) * LONGEST_REST_MS);
    const toldMs = clock.monoMs();
    await scene.create(job(FRESH));
    const victim = await until('it has started', () => scene.podsOf('fresh')[0] ?? null);
    const goneMs = await scene.gone(victim);
    const crossedMs = scene.crossedMs(HARD_MIB, toldMs);
    const left = Math.round(scene.lives.least() / MIB);
    return `gone ${Math.round(goneMs - crossedMs)} ms after crossing, ${left} MiB left at least`;
  },
};

const staticPod: KubeScene = {
  name: 'a static pod that exceeds its request the most is not evicted',
  config: HARD,
  culprits: ['hog'],
  body: async (scene) => {
    const big: PodSpec = { name: 'big', load: ['hold=500'], requestMiB: 16, isInnocent: true };
    fs.writeFileSync(path.join(STATIC, 'big.yaml'), JSON.stringify(barePod(big)));
    await scene.create(
      barePod(DATABASE),
      barePod({ name: 'hog', load: ['hold=16', 'when=/share/go', `grow=${ALL_MIB}`, 'pace=200'], requestMiB: 16 }),
    );
    await scene.ready('db');
    const [hog] = await scene.ready('hog');
    // The mirror's uid is not that of the cgroup.
    await until('the static pod is ready', () => scene.podsOf('big').find(isReady) ?? null);
    if (hog === undefined) throw new Error('no pod');
    const toldMs = clock.monoMs();
    scene.say('go');
    const goneMs = await scene.gone(hog);
    const crossedMs = scene.crossedMs(HARD_MIB, toldMs);
    return `gone ${Math.round(goneMs - crossedMs)} ms after crossing`;
  },
};

/** B12: stays charged until the kubelet has unmounted the volume, some seconds after the processes are gone. */
const sharedMemory: KubeScene = {
  name: 'a memory volume that outlives its processes costs no other pod',
  config: HARD,
  culprits: ['hog'],
  body: async (scene) => {
    const load = ['when=/share/go', 'into=/memory/file', `grow=${ALL_MIB}`, 'pace=200'];
    await scene.create(
      barePod(DATABASE),
      barePod({ name: 'hog', load, requestMiB: 16, hasMemoryVolume: true }),
      barePod({ name: 'next', load: ['hold=100'], requestMiB: 16, isInnocent: true }),
    );
    for (const name of ['db', 'next']) await scene.ready(name);
    const [hog] = await scene.ready('hog');
    if (hog === undefined) throw new Error('no pod');
    const toldMs = clock.monoMs();
    scene.say('go');
    const goneMs = await scene.gone(hog);
    const crossedMs = scene.crossedMs(HARD_MIB, toldMs);
    await until('the memory is back', () => scene.lives.memory().availableBytes > 2 * HARD_MIB * MIB || null);
    const backMs = clock.monoMs();
    return `gone ${Math.round(goneMs - crossedMs)} ms, the memory back ${Math.round(backMs - crossedMs)} ms after crossing`;
  },
};

export const ownerScenes: readonly KubeScene[] = [...KINDS.map(ownerScene), staticPod, sharedMemory, freshJob];
