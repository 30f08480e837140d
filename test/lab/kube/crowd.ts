// 110 pods on the node: what the agent costs, and how fast it is without an API server.
import fs from 'node:fs';
import { sleep } from '../../../src/host/clock.ts';
import { clock, until } from '../scene.ts';
import { MIB, signalPart, startPart } from './cluster.ts';
import { barePod, boundPod, DATABASE } from './manifests.ts';
import { HARD, HARD_MIB } from './owners.ts';
import type { KubeScene } from './scene.ts';
import { rssMiB } from './watch.ts';

const PODS = 110;
/** The crowd, the database and the hog. */
const CROWD = PODS - 2;
const MOST_RSS_MIB = 95;
const MOST_IDLE_PERCENT = 0.3;
/** After its restart, the kubelet reports each pod anew, some five per second: idle is what comes after that. */
const QUIET_MS = 30_000;
const MEASURED_MS = 120_000;
const MOST_MS = 130;
const TICKS_PER_SECOND = 100;

/** Of all its threads and of the children that it has reaped, in s. */
function processorSeconds(pid: number): number {
  const fields = fs
    .readFileSync(`/proc/${pid}/stat`, 'utf8')
    .replace(/^.*\) /, '')
    .split(' ');
  return fields.slice(11, 15).reduce((sum, ticks) => sum + Number(ticks), 0) / TICKS_PER_SECOND;
}

/** Anywhere on the machine: the agent looks into each. */
const kernelKills = (): number => Number(/^oom_kill (\d+)$/m.exec(fs.readFileSync('/proc/vmstat', 'utf8'))?.[1]);

const crowd: KubeScene = {
  name: `${PODS} pods: memory, idle processor, and a hog while the API server is stopped`,
  config: HARD,
  culprits: ['hog'],
  body: async (scene) => {
    await scene.create(
      barePod(DATABASE),
      barePod({ name: 'hog', load: ['hold=16', 'when=/share/go', 'grow=3000', 'pace=200'], requestMiB: 16 }),
    );
    await scene.ready('db');
    const [hog] = await scene.ready('hog');
    if (hog === undefined) throw new Error('no pod');
    for (let index = 0; index < CROWD; index++) {
      await scene.create(
        boundPod({ name: `one-${index}`, load: ['hold=1'], requestMiB: 4, isInnocent: true, labels: { pod: 'crowd' } }),
      );
    }
    await until(
      'the whole crowd is ready, and the agent knows it',
      async () => {
        const { pods } = await scene.status();
        return (pods.known && pods.order.length >= PODS) || null;
      },
      600_000,
    );
    const { pid } = (await scene.status()).node;
    // Far from every threshold: pods may have nearly the whole machine meanwhile.
    startPart('kubelet', { RESERVE: '4Gi' });
    const restartMs = clock.monoMs();
    await until('no pod has changed for a while', () => {
      const lastMs = Math.max(restartMs, scene.lives.versions().at(-1)?.atMs ?? 0);
      return clock.monoMs() - lastMs > QUIET_MS || null;
    });
    const versions = scene.lives.versions().length;
    const roomMiB = scene.lives.memory().availableBytes / MIB;
    const startMs = clock.monoMs();
    const before = processorSeconds(pid);
    const killsBefore = kernelKills();
    await sleep(clock, MEASURED_MS);
    const idlePercent = ((processorSeconds(pid) - before) / ((clock.monoMs() - startMs) / 1_000)) * 100;
    const kills = kernelKills() - killsBefore;
    const changes = scene.lives.versions().length - versions;
    const rss = rssMiB(pid);
    startPart('kubelet');
    await until('the pods have their bound again', () => scene.lives.memory().capacityBytes < 2_048 * MIB || null);
    await sleep(clock, 3_000);
    const toldMs = clock.monoMs();
    signalPart('apiserver', 'SIGSTOP');
    let goneMs = Number.NaN;
    try {
      await sleep(clock, 3_000);
      scene.say('go');
      goneMs = await scene.gone(hog);
    } finally {
      signalPart('apiserver', 'SIGCONT');
    }
    const record = await until('the eviction is in the record', () => scene.evictions()[0] ?? null);
    const crossedMs = scene.crossedMs(HARD_MIB, toldMs);
    const stopMs = (record.evidence?.stopBeganAtMs ?? Number.NaN) - crossedMs;
    const said = `RSS ${rss.toFixed(0)} MiB (at most ${MOST_RSS_MIB}), idle ${idlePercent.toFixed(2)} % of a core with ${roomMiB.toFixed(0)} MiB available, ${changes} changes of pods and ${kills} kills by the kernel (at most ${MOST_IDLE_PERCENT}), first signal ${stopMs.toFixed(0)} ms and end ${Math.round(goneMs - crossedMs)} ms after crossing as the lab sampled it`;
    if (rss > MOST_RSS_MIB || idlePercent > MOST_IDLE_PERCENT || !(stopMs <= MOST_MS)) throw new Error(said);
    return said;
  },
};

export const crowdScenes: readonly KubeScene[] = [crowd];
