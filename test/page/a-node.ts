import { appendFileSync } from 'node:fs';
import { type Scene, withScene } from '../lab/scene.ts';

const PODS = [
  { name: 'database', priority: 1_000, requestMiB: 160, graceSeconds: 25 },
  { name: 'web', priority: 0, requestMiB: 64, graceSeconds: 20 },
  { name: 'worker', priority: 0, requestMiB: 48, graceSeconds: 5 },
  { name: 'batch', priority: 0, graceSeconds: 2 },
  { name: 'ingress', priority: 2_000_000_000, requestMiB: 32, graceSeconds: 10 },
];
const HELD_MIB = { database: 120, web: 40, worker: 30, batch: 20, ingress: 12 };
const CONFIG = [
  'evictionHard: { memory.available: 80Mi, pid.available: "32", nodefs.available: 1Mi, nodefs.inodesFree: 1% }',
  'evictionSoft: { memory.available: 120Mi }',
  'evictionSoftGracePeriod: { memory.available: 10m }',
  'evictionMaxPodGracePeriod: 30',
  'shutdownGracePeriod: 40s',
  'shutdownGracePeriodCriticalPods: 10s',
];

export type PageNode = { readonly scene: Scene; readonly address: string; readonly close: () => Promise<void> };

/** A bounded node with five pods, each within its request but one, and the agent with its page. */
export function openPageNode(port: number): Promise<PageNode> {
  return new Promise((resolve, reject) => {
    let end: () => void = () => undefined;
    const ended = new Promise<void>((done) => {
      end = done;
    });
    const config = [...CONFIG, `http: { listen: "127.0.0.1:${port}" }`];
    const running = withScene({ pods: PODS, config, memoryMiB: 512 }, false, async (scene) => {
      for (const [pod, mib] of Object.entries(HELD_MIB)) await scene.play(pod, `memory ${mib}`);
      const close = (): Promise<void> => {
        end();
        return running;
      };
      resolve({ scene, address: `http://127.0.0.1:${port}/`, close });
      await ended;
    });
    running.catch(reject);
  });
}

export function configure({ agent }: Scene, line: string): void {
  appendFileSync(agent.places.configFile, `${line}\n`);
}
