// A pod whose memory is in a memory volume: it stays charged to the pod when its processes are dead, until the kubelet unmounts it,
// which is up to a second after its last process, the sandbox's, has ended.
import { sayMs } from '../../../src/words/decision.ts';
import { clock, until } from '../scene.ts';
import { type KubeObject, remove } from './api.ts';
import { MIB } from './cluster.ts';
import { barePod, DATABASE, type PodSpec, PRESSURE } from './manifests.ts';
import { deletedMs, HARD, HARD_MIB } from './owners.ts';
import { type KubeScene, podLabel, type Scene, victimUid } from './scene.ts';

const FILL_MIB = 700;
/** Of what was in the volume; the kernel keeps a few pages for others. */
const LEAST_BACK = 0.9;
const BACK_MS = 40_000;
const FILLER: PodSpec = {
  name: 'filler',
  load: ['when=/share/fill', 'once=/share/filled', `grow=${FILL_MIB}`, 'pace=400', 'into=/memory/file'],
  requestMiB: 16,
  hasMemoryVolume: true,
};

type How = { readonly name: string; readonly isQuitting: boolean };
const HOWS: readonly How[] = [
  { name: 'lives on without memory of its own', isQuitting: false },
  { name: 'has exited', isQuitting: true },
];

function volumeScene({ name, isQuitting }: How): KubeScene {
  const load = [...FILLER.load, ...(isQuitting ? ['quits'] : [])];
  return {
    name: `a pod that has filled a memory volume and whose container ${name}, beside a pod that grows within its request`,
    times: 3,
    config: HARD,
    culprits: [FILLER.name],
    body: async (scene) => {
      await scene.create(barePod(DATABASE), barePod({ ...FILLER, load }), barePod(PRESSURE));
      for (const { name: pod } of [DATABASE, PRESSURE]) await scene.ready(pod);
      const [filler] = await scene.ready(FILLER.name);
      if (filler === undefined) throw new Error('no pod');
      const uid = filler.metadata.uid ?? '';
      scene.say('fill');
      await until('the volume is full', () => isFilled(scene) || null);
      if (isQuitting) await scene.gone(filler);
      const toldMs = clock.monoMs();
      scene.say('go');
      const [record] = await until('it is evicted', () => {
        const found = scene.evictions().filter((one) => victimUid(one) === uid && one.outcomes.length > 0);
        return found.length > 0 ? found : null;
      });
      const crossedMs = scene.crossedMs(HARD_MIB, toldMs);
      const outcome = record?.outcomes.at(-1);
      if (record === undefined || outcome?.kind !== 'ended')
        throw new Error(`it did not end: ${JSON.stringify(outcome)}`);
      const objectMs = await until('its object is gone', () => deletedMs(scene, uid));
      // The other pod goes on growing.
      const back = () => scene.lives.memory().availableBytes > 2 * HARD_MIB * MIB;
      await until('the memory is back', () => back() || null, BACK_MS);
      const released = outcome.releasedBytes;
      if (!released.known || released.value < FILL_MIB * LEAST_BACK * MIB)
        throw new Error(`recorded as given back: ${JSON.stringify(released)}`);
      const since = (ms: number): string => sayMs(Math.max(0, ms - crossedMs));
      return `chosen ${since(record.decision.atMs)} after crossing, recorded as over after ${since(outcome.atMs)} with ${Math.round(released.value / MIB)} MiB given back, its object gone after ${since(objectMs)}`;
    },
  };
}

const isTerminating = ({ metadata }: KubeObject): boolean => metadata.deletionTimestamp !== undefined;
const isFilled = (scene: Scene, mib = FILL_MIB): boolean =>
  scene.lives.memory().capacityBytes - scene.lives.memory().availableBytes > (mib + 64) * MIB;

const LARGE_MIB = 960;
/** It crosses the threshold beside the volume, and does not use up what is left: that comes back first. */
const GROWER: PodSpec = {
  ...PRESSURE,
  load: ['when=/share/go', 'grow=300', 'pace=300', 'beat=/share/pressure.beat'],
  requestMiB: 330,
};
/** Without a priority: the first to go if nothing is known of the volume. */
const WEB: PodSpec = { name: 'web', load: ['hold=60', 'beat=/share/web.beat'], requestMiB: 100, isInnocent: true };

function endedScene(isDeleted: boolean): KubeScene {
  const load = ['when=/share/fill', `grow=${LARGE_MIB}`, 'pace=0', 'into=/memory/file'];
  const filler: PodSpec = isDeleted
    ? { ...FILLER, load, graceSeconds: 1 }
    : { ...FILLER, load: [...load, 'quits'], restart: 'Never' };
  return {
    name: `a pod that has filled a memory volume ${isDeleted ? 'is deleted' : 'finishes'} right before a pod within its request crosses the threshold`,
    times: 3,
    config: HARD,
    culprits: [],
    evictions: { least: 0, most: 0 },
    body: async (scene) => {
      await scene.create(barePod(DATABASE), barePod(WEB), barePod(filler), barePod(GROWER));
      for (const { name } of [DATABASE, WEB, GROWER]) await scene.ready(name);
      const [pod] = await scene.ready(filler.name);
      if (pod === undefined) throw new Error('no pod');
      scene.say('fill');
      if (isDeleted) {
        await until('the volume is full', () => isFilled(scene, LARGE_MIB) || null);
        await remove('Pod', filler.name, 1);
      }
      const endedMs = await scene.gone(pod);
      scene.say('go');
      const back = () => scene.lives.memory().availableBytes > 2 * HARD_MIB * MIB;
      const isShort = () => Number.isFinite(scene.crossedMs(HARD_MIB, endedMs));
      await until('the threshold is crossed, and the memory is back', () => (isShort() && back()) || null, BACK_MS);
      const backMs = clock.monoMs();
      const isKept = () => scene.podsOf(filler.name).some((one) => one['status'].phase === 'Succeeded');
      if (!isDeleted) await until('it is shown as finished', () => isKept() || null);
      const isGone = scene.lives.versions().some(({ pod: one }) => podLabel(one) === filler.name && isTerminating(one));
      if (!isDeleted && isGone) throw new Error('it was deleted, and its result is lost');
      return `the threshold crossed ${sayMs(scene.crossedMs(HARD_MIB, endedMs) - endedMs)} after its end, its memory back after ${sayMs(backMs - endedMs)}`;
    },
  };
}

export const volumeScenes: readonly KubeScene[] = [...HOWS.map(volumeScene), endedScene(false), endedScene(true)];
