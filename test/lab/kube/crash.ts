// The agent killed between the rungs of its ladder and started again: never two victims for one decision, never none.
import { sleep } from '../../../src/host/clock.ts';
import { clock, until } from '../scene.ts';
import { MIB } from './cluster.ts';
import { barePod, DATABASE, deployment } from './manifests.ts';
import { HARD, HARD_MIB } from './owners.ts';
import { isReady, type KubeScene, victimUid } from './scene.ts';

/** From shortly before the crossing to where the last rung is behind it. */
const FROM_MIB = HARD_MIB + 10;
const LONGEST_MS = 300;
/** The lab counts the kernel's kills so often, at least. */
const COUNTED_MS = 300;
/** From a look that knows the pods to the first signal. */
const CHOICE_MS = 130;

const crash: KubeScene = {
  name: 'the agent is killed between rungs and restarted',
  times: 50,
  config: HARD,
  culprits: ['hog'],
  // Nobody guards the node while the new process starts: if the hog fills it within that time, the kernel ends the hog. The
  // body sees to it that this was so, and the innocent lives in any case.
  mayKernelKill: true,
  evictions: { least: 0, most: 1 },
  body: async (scene) => {
    await scene.create(
      barePod(DATABASE),
      // Slow enough that a start of the agent fits between its threshold and the kubelet's.
      deployment({
        name: 'hog',
        load: ['deaf', 'hold=16', 'when=/share/go', 'once=/share/once', 'grow=3000', 'pace=100'],
        requestMiB: 16,
      }),
    );
    await scene.ready('db');
    const [hog] = await scene.ready('hog');
    if (hog === undefined) throw new Error('no pod');
    scene.say('go');
    await until('it is about to cross', () => scene.lives.memory().availableBytes < FROM_MIB * MIB || null);
    const waitMs = Math.random() * LONGEST_MS;
    await sleep(clock, waitMs);
    const before = scene.evictions().length;
    await scene.agent.crash();
    const crashedMs = clock.monoMs();
    await scene.agent.start();
    await until('it knows the pods', async () => (await scene.status()).pods.known || null);
    const knownMs = clock.monoMs();
    const goneMs = await scene.gone(hog);
    const crash = `killed ${Math.round(waitMs)} ms after ${FROM_MIB} MiB (${before === 0 ? 'before' : 'after'} the decision), the new one knew the pods ${Math.round(knownMs - crashedMs)} ms later`;
    await sleep(clock, COUNTED_MS);
    if (scene.lives.kernelOomKills() > 0) {
      const said = `${crash}, and the kernel ended the hog after ${Math.round(goneMs - crashedMs)} ms`;
      if (goneMs > knownMs + CHOICE_MS) throw new Error(said);
      await until('a hog runs, in place or anew', () => scene.podsOf('hog').find(isReady) ?? null);
      return said;
    }
    await until(
      'its object is gone',
      () =>
        scene.lives.versions().some(({ type, pod }) => type === 'DELETED' && pod.metadata.uid === hog.metadata.uid) ||
        null,
    );
    await scene.ready('hog');
    const of = scene.evictions().filter((record) => victimUid(record) === hog.metadata.uid);
    if (of.length !== 1) throw new Error(`${of.length} decisions for one pod`);
    const crossedMs = scene.crossedMs(HARD_MIB, scene.startMs);
    return `${crash}, gone ${Math.round(goneMs - crossedMs)} ms after crossing`;
  },
};

export const crashScenes: readonly KubeScene[] = [crash];
