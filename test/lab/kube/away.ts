// The API server away in the middle: stopped, so that nothing answers, or killed, so that nothing listens.
import fs from 'node:fs';
import path from 'node:path';
import { sleep } from '../../../src/host/clock.ts';
import { clock, until } from '../scene.ts';
import { MIB, SHARE, signalPart, startPart } from './cluster.ts';
import { barePod, boundPod, DATABASE, deployment } from './manifests.ts';
import { deletedMs, HARD, HARD_MIB } from './owners.ts';
import { isOver, type KubeScene, victimUid } from './scene.ts';

/** Shorter than what makes the control plane give up the node. */
const AWAY_MS = 15_000;
const LATEST_MS = 1_000;

type Away = { readonly how: string; readonly go: () => void; readonly come: () => void };
const STOPPED: Away = {
  how: 'stopped (SIGSTOP)',
  go: () => signalPart('apiserver', 'SIGSTOP'),
  come: () => signalPart('apiserver', 'SIGCONT'),
};
const KILLED: Away = {
  how: 'killed',
  go: () => signalPart('apiserver', 'SIGKILL'),
  come: () => startPart('apiserver'),
};
/** How much memory is left when it goes away; null: long before. */
const MOMENTS = [
  { said: 'before the pressure', leftMiB: null },
  { said: 'in the middle', leftMiB: HARD_MIB + 20 },
];

function awayScene({ how, go, come }: Away, { said, leftMiB }: (typeof MOMENTS)[number]): KubeScene {
  return {
    name: `the API server ${how} ${said}`,
    config: HARD,
    culprits: ['hog'],
    body: async (scene) => {
      await scene.create(
        barePod(DATABASE),
        deployment({
          name: 'hog',
          load: ['hold=16', 'when=/share/go', 'once=/share/once', 'grow=3000', 'pace=200'],
          requestMiB: 16,
        }),
      );
      await scene.ready('db');
      const [hog] = await scene.ready('hog');
      if (hog === undefined) throw new Error('no pod');
      const toldMs = clock.monoMs();
      try {
        if (leftMiB === null) {
          go();
          await sleep(clock, 3_000);
          scene.say('go');
        } else {
          scene.say('go');
          await until('it is about to cross', () => scene.lives.memory().availableBytes < leftMiB * MIB || null);
          go();
        }
        const goneMs = await scene.gone(hog);
        const crossedMs = scene.crossedMs(HARD_MIB, toldMs);
        if (goneMs - crossedMs > LATEST_MS)
          throw new Error(`gone only ${Math.round(goneMs - crossedMs)} ms after crossing`);
        await sleep(clock, AWAY_MS);
        come();
        const backMs = clock.monoMs();
        // What could not be said is said now, or the pod has long been well again and stays.
        await sleep(clock, 20_000);
        const deleted = deletedMs(scene, hog.metadata.uid ?? '');
        await scene.ready('hog');
        return `gone ${Math.round(goneMs - crossedMs)} ms after crossing, ${deleted === null ? 'not deleted' : `its object gone ${Math.round(deleted - backMs)} ms after the return`}`;
      } catch (error) {
        await Promise.resolve()
          .then(come)
          .catch(() => undefined);
        throw error;
      }
    },
  };
}

/** Its file of the pods is written a second after a change. */
const KEPT_MS = 2_000;

/** What an earlier run has kept of the pods is all that it knows of them (D15). */
const restarted: KubeScene = {
  name: 'the agent is restarted while the API server is stopped',
  config: HARD,
  culprits: ['hog'],
  body: async (scene) => {
    const load = ['hold=16', 'when=/share/go', 'once=/share/once', 'grow=3000', 'pace=200'];
    await scene.create(barePod(DATABASE), deployment({ name: 'hog', load, requestMiB: 16 }));
    await scene.ready('db');
    const [hog] = await scene.ready('hog');
    if (hog === undefined) throw new Error('no pod');
    await sleep(clock, KEPT_MS);
    STOPPED.go();
    try {
      await scene.agent.crash();
      await scene.agent.start();
      const toldMs = clock.monoMs();
      scene.say('go');
      const goneMs = await scene.gone(hog);
      const tookMs = Math.round(goneMs - scene.crossedMs(HARD_MIB, toldMs));
      if (!(tookMs <= LATEST_MS)) throw new Error(`gone only ${tookMs} ms after crossing`);
      return `gone ${tookMs} ms after crossing`;
    } finally {
      STOPPED.come();
    }
  },
};

/** It stays above the kubelet's own threshold and far from the end. */
const LEFT_MIB = 250;
const UNNAMED_MS = 3_000;

/** C9: nobody within its request dies for a pod that may be to blame and that nobody has named yet. */
const unnamed: KubeScene = {
  name: 'an agent that starts while the API server and containerd are stopped, and a hog that nothing has named',
  config: HARD,
  culprits: ['hog'],
  body: async (scene) => {
    await scene.create(barePod(DATABASE));
    await scene.ready('db');
    await sleep(clock, KEPT_MS);
    await scene.agent.crash();
    const growMiB = Math.round(scene.lives.memory().availableBytes / MIB) - LEFT_MIB;
    const load = ['when=/share/go', 'once=/share/once', `grow=${growMiB}`, 'pace=200'];
    await scene.create(deployment({ name: 'hog', load, requestMiB: 16 }));
    const [hog] = await scene.ready('hog');
    if (hog === undefined) throw new Error('no pod');
    STOPPED.go();
    signalPart('containerd', 'SIGSTOP');
    try {
      await scene.agent.start();
      scene.say('go');
      await until('it waits for a name', async () => {
        const { findings } = await scene.status();
        return findings.some(({ id }) => id.startsWith('pod-awaited/')) || scene.evictions().length > 0 || null;
      });
      await sleep(clock, UNNAMED_MS);
      if (scene.evictions().length > 0) throw new Error('a pod was chosen before the hog was named');
      signalPart('containerd', 'SIGCONT');
      const namedMs = clock.monoMs();
      return `gone ${Math.round((await scene.gone(hog)) - namedMs)} ms after containerd went on`;
    } finally {
      signalPart('containerd', 'SIGCONT');
      STOPPED.come();
    }
  },
};

const LEAKS = ['leak-0', 'leak-1'];
/** By the database and `web`. */
const HELD_MIB = 960;
/** Less than each leak holds is lacking at first, and more in the end; the kubelet's own threshold is not met. */
const BOTH_LEFT_MIB = 200;
const WITHIN = {
  load: ['hold=900', 'beat=/share/web.beat'],
  priority: 'high',
  requestMiB: 960,
  isInnocent: true,
} as const;

/** C9: the largest of several pods whose requests are unknown does not die for two small ones that leak. */
const undeclared: KubeScene = {
  name: 'an agent without saved pods that starts while the API server is stopped, a big pod within its request, and two small leaks',
  config: HARD,
  culprits: LEAKS,
  evictions: { least: 1, most: LEAKS.length },
  isAgentLate: true,
  body: async (scene) => {
    await scene.create(barePod(DATABASE), barePod({ name: 'web', ...WITHIN }));
    for (const name of ['db', 'web']) await scene.ready(name);
    const leftMiB = (): number => scene.lives.memory().availableBytes / MIB;
    const capacityMiB = scene.lives.memory().capacityBytes / MIB;
    await until('they hold their memory', () => leftMiB() < capacityMiB - HELD_MIB || null);
    const growMiB = Math.round((leftMiB() - BOTH_LEFT_MIB) / LEAKS.length);
    const load = ['when=/share/go', `grow=${growMiB}`, 'pace=60'];
    for (const name of LEAKS) await scene.create(barePod({ name, load, priority: 'low', requestMiB: 16 }));
    for (const name of LEAKS) await scene.ready(name);
    STOPPED.go();
    try {
      await scene.agent.start();
      scene.say('go');
      const isGrown = (): boolean => leftMiB() < BOTH_LEFT_MIB + 20;
      await until('the leaks have grown', () => isGrown() || scene.evictions().length > 0 || null);
      await sleep(clock, UNNAMED_MS);
      if (scene.evictions().length > 0) throw new Error('a pod was chosen before the requests were known');
      const { findings } = await scene.status();
      if (!findings.some(({ id }) => id.startsWith('pod-awaited/'))) throw new Error('no finding says what is awaited');
      STOPPED.come();
      const backMs = clock.monoMs();
      const record = await until('a leak is evicted', () => scene.evictions().find(isOver) ?? null);
      return `chosen ${Math.round(record.decision.atMs - backMs)} ms after the API server went on`;
    } finally {
      STOPPED.come();
    }
  },
};

/** The kubelet's back-off brings it back after 0, 10, 20 and 40 s. */
const COMEBACKS_MS = 80_000;
/** Nobody else exceeds its request: it is chosen each time. */
const MOST_KILLS = 5;

/** B14 and C4: what is killed and cannot be deleted comes back, and nobody else pays for that. */
const comeback: KubeScene = {
  name: 'a hog that comes back again and again while the API server is killed',
  config: HARD,
  culprits: ['hog'],
  evictions: { least: 1, most: MOST_KILLS },
  mayKernelKill: true,
  body: async (scene) => {
    await scene.create(
      barePod(DATABASE),
      deployment({ name: 'hog', load: ['hold=16', 'when=/share/go', 'grow=3000', 'pace=200'], requestMiB: 16 }),
    );
    await scene.ready('db');
    const [hog] = await scene.ready('hog');
    if (hog === undefined) throw new Error('no pod');
    KILLED.go();
    try {
      scene.say('go');
      await scene.gone(hog);
      await sleep(clock, COMEBACKS_MS);
    } finally {
      fs.rmSync(path.join(SHARE, 'go'));
      KILLED.come();
    }
    await sleep(clock, 20_000);
    const lived = scene.lives.lives().filter(({ uid }) => uid === hog.metadata.uid);
    return `${lived.length} lives in ${COMEBACKS_MS / 1000} s, the kernel ended ${scene.lives.kernelOomKills()} of them`;
  },
};

/** As many as one outage shows without a pod being made, which takes the API server. */
const KILLS = 30;
const MOST_P99_MS = 130;
const hogs = Array.from({ length: KILLS }, (_, i) => `hog-${i}`);

const unheard: KubeScene = {
  name: `${KILLS} kills while the API server is stopped`,
  config: HARD,
  culprits: hogs,
  evictions: { least: KILLS, most: KILLS },
  body: async (scene) => {
    await scene.create(barePod(DATABASE));
    await scene.ready('db');
    const load = ['hold=4', 'when=/share/$(POD).go', 'grow=3000', 'pace=400'];
    for (const name of hogs) await scene.create(boundPod({ name, load, requestMiB: 4, restart: 'Never' }));
    const pods = await Promise.all(hogs.map(async (name) => (await scene.ready(name))[0]));
    const took: { readonly signalMs: number; readonly goneMs: number }[] = [];
    STOPPED.go();
    try {
      await sleep(clock, 3_000);
      for (const pod of pods) {
        if (pod === undefined) throw new Error('no pod');
        const toldMs = clock.monoMs();
        scene.say(`${pod.metadata.name}.go`);
        const goneMs = await scene.gone(pod);
        const record = await until('its eviction is over', () => {
          const found = scene.evictions().find((one) => victimUid(one) === pod.metadata.uid);
          return found !== undefined && isOver(found) ? found : null;
        });
        const crossedMs = scene.crossedMs(HARD_MIB, toldMs);
        const signalMs = (record.evidence?.stopBeganAtMs ?? Number.NaN) - crossedMs;
        took.push({ signalMs, goneMs: goneMs - crossedMs });
      }
    } finally {
      STOPPED.come();
    }
    const said = `first signal ${sayTimes(took.map(({ signalMs }) => signalMs))}, gone ${sayTimes(took.map(({ goneMs }) => goneMs))} after crossing`;
    if (!(Math.max(...took.map(({ signalMs }) => signalMs)) <= MOST_P99_MS)) throw new Error(said);
    return said;
  },
};

/** p99 of so few is the longest. */
function sayTimes(ms: readonly number[]): string {
  const sorted = ms.toSorted((a, b) => a - b).map(Math.round);
  return `${sorted[Math.floor(sorted.length / 2)]} ms in the median, ${sorted.at(-1)} ms at most`;
}

export const awayScenes: readonly KubeScene[] = [STOPPED, KILLED]
  .flatMap((away) => MOMENTS.map((moment) => awayScene(away, moment)))
  .concat(restarted, unnamed, undeclared, comeback, unheard);
