// The watch of the pods through a connection that is cut again and again.
import fs from 'node:fs';
import { sleep } from '../../../src/host/clock.ts';
import { clock, until } from '../scene.ts';
import { create, remove } from './api.ts';
import { audit, NODE_NAME } from './cluster.ts';
import { barePod, boundPod, DATABASE } from './manifests.ts';
import { HARD } from './owners.ts';
import { openProxy } from './proxy.ts';
import { isReady, type KubeScene, type Scene } from './scene.ts';

/** 1,000 take an hour or more: LAB_CUTS=1000. */
const CUTS = Number(process.env['LAB_CUTS'] ?? 60);
const BACK_MS = 60_000;
const MOST_LISTS_A_MINUTE = 10;
/** After its return: in the middle of its handshake, of a list, or of a watch. */
const MOST_REST_MS = 900;
const CHURN_EVERY = 3;
const GROWN_MIB = 12;

export const rssMiB = (pid: number): number =>
  Number(/^VmRSS:\s+(\d+) kB$/m.exec(fs.readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) / 1024;

/** Waits until the agent shows exactly the pods that run. */
async function isSame(scene: Scene): Promise<string | null> {
  const { pods } = await scene.status();
  if (!pods.known) return pods.why;
  const shown = new Set(pods.order.filter(({ isTerminating }) => !isTerminating).map(({ uid }) => uid));
  const there = new Set(
    scene.lives
      .pods()
      .filter(isReady)
      .map(({ metadata }) => metadata.uid ?? ''),
  );
  const lost = [...there].filter((uid) => !shown.has(uid));
  const stale = [...shown].filter((uid) => !scene.lives.pods().some(({ metadata }) => metadata.uid === uid));
  return lost.length + stale.length === 0 ? null : `${lost.length} lost, ${stale.length} stale`;
}

const watchScene: KubeScene = {
  name: `the watch is cut ${CUTS} times`,
  config: HARD,
  culprits: [],
  evictions: { least: 0, most: 0 },
  isAgentLate: true,
  body: async (scene) => {
    const proxy = await openProxy();
    try {
      const { configFile } = scene.agent.places;
      const text = fs
        .readFileSync(configFile, 'utf8')
        .replace(/^kubernetes:.*$/m, `kubernetes: { kubeconfig: ${proxy.kubeconfig}, nodeName: ${NODE_NAME} }`);
      fs.writeFileSync(configFile, text);
      await scene.agent.start();
      await scene.create(barePod(DATABASE));
      await scene.ready('db');
      const { pid } = (await scene.status()).node;
      const rss: number[] = [];
      const startMs = clock.monoMs();
      const startWallMs = clock.wallMs();
      let connections = 0;
      let kept: string | null = null;
      for (let cut = 0; cut < CUTS; ) {
        await until('it connects again', () => proxy.connections() > 0 || null, BACK_MS);
        await sleep(clock, Math.random() * MOST_REST_MS);
        const count = proxy.cut();
        // It had hung up by itself.
        if (count === 0) continue;
        connections += count;
        cut += 1;
        if (cut % CHURN_EVERY === 0) {
          rss.push(rssMiB(pid));
          if (kept !== null) await remove('Pod', kept, 1);
          kept = `come-${cut}`;
          await create(boundPod({ name: kept, load: ['hold=4'], requestMiB: 16 }));
        }
      }
      const minutes = (clock.monoMs() - startMs) / 60_000;
      const lists = audit(startWallMs).filter(({ verb, resource }) => verb === 'list' && resource === 'pods').length;
      await until('the last pod is there', () => scene.podsOf(kept ?? '').find(isReady) ?? null);
      let differs: string | null = null;
      const isShown = async (): Promise<true | null> => {
        differs = await isSame(scene);
        return differs === null || null;
      };
      await until('the agent shows exactly the pods that run', isShown, 90_000).catch(() => {
        throw new Error(`after all cuts: ${differs}`);
      });
      await sleep(clock, 5_000);
      const half = Math.floor(rss.length / 2);
      const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;
      const grown = mean(rss.slice(-5)) - mean(rss.slice(half - 5, half));
      const perMinute = lists / minutes;
      const said = `${CUTS} cuts of ${connections} connections in ${minutes.toFixed(1)} min, ${perMinute.toFixed(1)} lists a minute, RSS ${rss[0]?.toFixed(0)} MiB at first, ${mean(rss.slice(-5)).toFixed(0)} at last, in the second half ${grown.toFixed(1)} more`;
      if (perMinute >= MOST_LISTS_A_MINUTE) throw new Error(said);
      if (grown > GROWN_MIB) throw new Error(`memory grows: ${said}`);
      return said;
    } finally {
      proxy.close();
    }
  },
};

export const watchScenes: readonly KubeScene[] = [watchScene];
