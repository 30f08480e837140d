// The kubelet's own decisions and the agent's, on the same node under the same pressure: one after the other.
import { sleep } from '../../../src/host/clock.ts';
import { clock, until } from '../scene.ts';
import { MIB, startPart } from './cluster.ts';
import { barePod, DATABASE, type PodSpec, PRESSURE } from './manifests.ts';
import { deletedMs, firstEnd } from './owners.ts';
import { type KubeScene, podLabel, type Scene } from './scene.ts';

/** Met by both by turns; the other's own is out of reach. Requests have to fit beside it: the kubelet admits no more. */
const HARD_MIB = 700;
const OUT_OF_REACH = '50Mi';
/** One after the other they exceed their requests, so that three have to go before there is room again. */
const CROWD: readonly PodSpec[] = [
  // By usage above request within a priority, and priority before usage.
  { name: 'low-small', load: ['hold=60'], priority: 'low', requestMiB: 16 },
  { name: 'low-large', load: ['hold=120'], priority: 'low', requestMiB: 16 },
  { name: 'largest', load: ['hold=260'], requestMiB: 16 },
  { name: 'within', load: ['hold=150', 'beat=/share/within.beat'], requestMiB: 180, isInnocent: true },
];
const LEAST_VICTIMS = 3;
const STATISTICS_MS = 25_000;
const GONE_MS = 3_000;
type Fall = { readonly victim: string; readonly goneMs: number; readonly deletedMs: number };
/** By the run: what the kubelet did, for the agent's turn. */
const turns = new Map<string, readonly Fall[]>();

async function play(scene: Scene): Promise<readonly Fall[]> {
  await scene.create(barePod(DATABASE), barePod(PRESSURE), ...CROWD.map(barePod));
  for (const { name } of [DATABASE, PRESSURE, ...CROWD]) await scene.ready(name);
  const pods = CROWD.flatMap(({ name }) => scene.podsOf(name));
  // A pod that the kubelet has no statistics of ranks first with it.
  await sleep(clock, STATISTICS_MS);
  const toldMs = clock.monoMs();
  scene.say('go');
  await until(
    'enough are gone',
    () => {
      const isEnough = scene.lives.memory().availableBytes > HARD_MIB * MIB && clock.monoMs() - toldMs > 6_000;
      return (isEnough && pods.some((pod) => firstEnd(scene, pod) !== null)) || null;
    },
    180_000,
  );
  // Memory is back a moment before the last process is gone.
  await sleep(clock, GONE_MS);
  const crossedMs = scene.crossedMs(HARD_MIB, toldMs);
  return pods
    .flatMap((pod) => {
      const goneMs = firstEnd(scene, pod);
      return goneMs === null
        ? []
        : [
            {
              victim: podLabel(pod),
              goneMs: goneMs - crossedMs,
              deletedMs: (deletedMs(scene, pod.metadata.uid ?? '') ?? Number.NaN) - crossedMs,
            },
          ];
    })
    .sort((one, other) => one.goneMs - other.goneMs);
}
const sayFalls = (falls: readonly Fall[]): string =>
  falls.map(({ victim, goneMs }) => `${victim} after ${Math.round(goneMs)} ms`).join(', ');

const byKubelet: KubeScene = {
  name: "the kubelet's own evictions, without the agent",
  config: [],
  culprits: CROWD.map(({ name }) => name),
  isKubeletAsked: true,
  isWithoutAgent: true,
  body: async (scene) => {
    startPart('kubelet', { HARD: `${HARD_MIB}Mi` });
    try {
      const falls = await play(scene);
      if (falls.length < LEAST_VICTIMS) throw new Error(`too few for an order: ${sayFalls(falls)}`);
      turns.set('kubelet', falls);
      return sayFalls(falls);
    } finally {
      startPart('kubelet');
    }
  },
};

const byAgent: KubeScene = {
  name: "the agent's evictions under the same pressure: the same victims in the same order",
  config: [`evictionHard: { memory.available: "${HARD_MIB}Mi" }`],
  culprits: CROWD.map(({ name }) => name),
  evictions: { least: LEAST_VICTIMS, most: CROWD.length },
  body: async (scene) => {
    startPart('kubelet', { HARD: OUT_OF_REACH });
    try {
      const falls = await play(scene);
      const theirs = turns.get('kubelet');
      if (theirs === undefined) throw new Error("the kubelet's turn is missing: play both");
      const order = (of: readonly Fall[]): string => of.map(({ victim }) => victim).join(', ');
      scene.run.report('| place | the kubelet: victim, gone after crossing | the agent: victim, gone after crossing |');
      scene.run.report('|---|---|---|');
      for (let place = 0; place < Math.max(falls.length, theirs.length); place++) {
        const cell = (fall: Fall | undefined): string =>
          fall === undefined ? '' : `${fall.victim}, ${Math.round(fall.goneMs)} ms`;
        scene.run.report(`| ${place + 1} | ${cell(theirs[place])} | ${cell(falls[place])} |`);
      }
      if (order(falls) !== order(theirs))
        throw new Error(`the agent: ${sayFalls(falls)}; the kubelet: ${sayFalls(theirs)}`);
      return `${sayFalls(falls)}; the kubelet: ${sayFalls(theirs)}`;
    } finally {
      startPart('kubelet');
    }
  },
};

const AGENT_HARD_MIB = 400;
const LATEST_MS = 1_000;
/** The kubelet measures volumes once a minute. */
const EVICTED_DEADLINE_MS = 120_000;

/** F6: what the kubelet evicts for a limit gives back nothing of what is short. */
const besideStorageLimit: KubeScene = {
  name: 'a hog that grows right after the kubelet has evicted a pod for its storage limit',
  config: [`evictionHard: { memory.available: "${AGENT_HARD_MIB}Mi" }`],
  culprits: ['hog'],
  isKubeletAsked: true,
  body: async (scene) => {
    const filler = barePod({ name: 'filler', load: ['into=/disk/file', 'grow=60'], requestMiB: 128, diskLimitMiB: 10 });
    const load = ['hold=16', 'when=/share/go', 'grow=3000', 'pace=400'];
    await scene.create(barePod(DATABASE), barePod({ name: 'hog', load, requestMiB: 16 }));
    await scene.ready('db');
    const [hog] = await scene.ready('hog');
    if (hog === undefined) throw new Error('no pod');
    await scene.create(filler);
    await until(
      'the kubelet has evicted it',
      () => scene.podsOf('filler').find(({ status }) => status.reason === 'Evicted') ?? null,
      EVICTED_DEADLINE_MS,
    );
    const toldMs = clock.monoMs();
    scene.say('go');
    const goneMs = await scene.gone(hog);
    const crossedMs = scene.crossedMs(AGENT_HARD_MIB, toldMs);
    const tookMs = Math.round(goneMs - crossedMs);
    if (!(tookMs <= LATEST_MS)) throw new Error(`gone only ${tookMs} ms after crossing`);
    return `gone ${tookMs} ms after crossing, which was ${((crossedMs - toldMs) / 1_000).toFixed(1)} s after the kubelet's eviction`;
  },
};

export const besideScenes: readonly KubeScene[] = [byKubelet, byAgent, besideStorageLimit];
