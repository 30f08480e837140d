// A PodDisruptionBudget that refuses: it holds against a soft threshold, and not against a hard one.
import { sleep } from '../../../src/host/clock.ts';
import { clock } from '../scene.ts';
import { audit } from './cluster.ts';
import { barePod, budget, DATABASE, deployment } from './manifests.ts';
import { firstEnd, HARD, HARD_MIB } from './owners.ts';
import type { KubeScene } from './scene.ts';

const SOFT_MIB = 700;
const WATCHED_MS = 15_000;

const soft: KubeScene = {
  name: 'a budget refuses the first candidate of a soft threshold: the next one is evicted',
  config: [
    'evictionHard: { memory.available: "200Mi" }',
    // A soft memory.available holds for the whole machine alone, as in the kubelet.
    `evictionSoft: { allocatableMemory.available: "${SOFT_MIB}Mi" }`,
    'evictionSoftGracePeriod: { allocatableMemory.available: 2s }',
    'evictionMaxPodGracePeriod: 5',
  ],
  culprits: ['guarded', 'next'],
  // How the refused one is recorded is up to the record; that it lives is looked at here.
  isJudgedByBody: true,
  body: async (scene) => {
    await scene.create(
      barePod(DATABASE),
      budget('guarded', { pod: 'guarded' }),
      deployment({ name: 'guarded', load: ['hold=16', 'when=/share/go', 'grow=780', 'pace=200'], requestMiB: 16 }),
      barePod({ name: 'next', load: ['hold=100'], requestMiB: 16 }),
    );
    await scene.ready('db');
    const [guarded] = await scene.ready('guarded');
    const [next] = await scene.ready('next');
    if (guarded === undefined || next === undefined) throw new Error('no pods');
    scene.say('go');
    const goneMs = await scene.gone(next);
    const crossedMs = scene.crossedMs(SOFT_MIB, scene.startMs);
    await sleep(clock, WATCHED_MS);
    if (firstEnd(scene, guarded) !== null) throw new Error('the guarded pod died');
    if (
      scene.lives
        .versions()
        .some(({ pod }) => pod.metadata.uid === guarded.metadata.uid && pod.metadata.deletionTimestamp)
    ) {
      throw new Error('the guarded pod was deleted');
    }
    const asked = audit(scene.startWallMs).filter(({ resource }) => resource === 'pods/eviction');
    const refused = asked.filter(({ code }) => code === 429).length;
    if (refused === 0) throw new Error(`nobody was refused: ${JSON.stringify(asked)}`);
    return `the next one gone ${Math.round(goneMs - crossedMs)} ms after crossing, ${refused} refusals in ${WATCHED_MS / 1000} s`;
  },
};

const hard: KubeScene = {
  name: 'a budget does not stop a hard threshold',
  config: HARD,
  culprits: ['guarded'],
  body: async (scene) => {
    await scene.create(
      barePod(DATABASE),
      budget('guarded', { pod: 'guarded' }),
      deployment({
        name: 'guarded',
        load: ['hold=16', 'when=/share/go', 'once=/share/once', 'grow=3000', 'pace=200'],
        requestMiB: 16,
      }),
    );
    await scene.ready('db');
    const [guarded] = await scene.ready('guarded');
    if (guarded === undefined) throw new Error('no pod');
    scene.say('go');
    const goneMs = await scene.gone(guarded);
    const crossedMs = scene.crossedMs(HARD_MIB, scene.startMs);
    return `gone ${Math.round(goneMs - crossedMs)} ms after crossing`;
  },
};

export const budgetScenes: readonly KubeScene[] = [soft, hard];
