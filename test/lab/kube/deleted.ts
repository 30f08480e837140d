// A pod that its owner has deleted still runs, within its grace, and grows: it is ranked like any other.
import { sleep } from '../../../src/host/clock.ts';
import { clock, until } from '../scene.ts';
import { remove } from './api.ts';
import { barePod, DATABASE, deployment, type PodSpec } from './manifests.ts';
import { HARD, HARD_MIB } from './owners.ts';
import { type KubeScene, type Manifest, victimUid } from './scene.ts';

const GRACE_SECONDS = 30;
const LATEST_MS = 1_000;
/** Long enough for the kubelet to have sent SIGTERM, which it ignores. */
const TOLD_MS = 2_000;
const HOG: PodSpec = {
  name: 'hog',
  load: ['deaf', 'hold=16', 'when=/share/go', 'once=/share/once', 'grow=3000', 'pace=200'],
  requestMiB: 16,
  graceSeconds: GRACE_SECONDS,
};

function deletedScene(kind: 'Pod' | 'Deployment', manifest: Manifest): KubeScene {
  return {
    name: `a deaf hog that grows after its ${kind} was deleted with a grace period of ${GRACE_SECONDS} s`,
    config: HARD,
    culprits: [HOG.name],
    body: async (scene) => {
      await scene.create(barePod(DATABASE), manifest);
      await scene.ready('db');
      const [hog] = await scene.ready('hog');
      if (hog === undefined) throw new Error('no pod');
      await remove(kind, HOG.name, kind === 'Pod' ? GRACE_SECONDS : undefined);
      await until(
        'it is being deleted',
        () => scene.podsOf('hog').some(({ metadata }) => metadata.deletionTimestamp !== undefined) || null,
      );
      const deletedMs = clock.monoMs();
      await sleep(clock, TOLD_MS);
      const toldMs = clock.monoMs();
      scene.say('go');
      const goneMs = await scene.gone(hog);
      const crossedMs = scene.crossedMs(HARD_MIB, toldMs);
      const tookMs = Math.round(goneMs - crossedMs);
      if (!(tookMs <= LATEST_MS)) throw new Error(`gone only ${tookMs} ms after crossing`);
      if (goneMs - deletedMs >= GRACE_SECONDS * 1_000) throw new Error('its grace period was over by itself');
      if (!scene.evictions().some((record) => victimUid(record) === hog.metadata.uid))
        throw new Error('not by the agent');
      return `gone ${tookMs} ms after crossing, ${((goneMs - deletedMs) / 1_000).toFixed(1)} s after its deletion`;
    },
  };
}

export const deletedScenes: readonly KubeScene[] = [
  deletedScene('Pod', barePod(HOG)),
  deletedScene('Deployment', deployment(HOG)),
];
