// A pod whose memory is in a memory volume: it stays charged to the pod when its processes are dead, until the kubelet unmounts it.
import { sayMs } from '../../../src/words/decision.ts';
import { clock, until } from '../scene.ts';
import { MIB } from './cluster.ts';
import { barePod, DATABASE, type PodSpec, PRESSURE } from './manifests.ts';
import { deletedMs, HARD, HARD_MIB } from './owners.ts';
import { type KubeScene, type Scene, victimUid } from './scene.ts';

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

const isFilled = (scene: Scene): boolean =>
  scene.lives.memory().capacityBytes - scene.lives.memory().availableBytes > (FILL_MIB + 64) * MIB;

export const volumeScenes: readonly KubeScene[] = HOWS.map(volumeScene);
