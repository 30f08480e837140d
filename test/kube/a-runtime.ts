import { known, type Reading, unknown } from '../../src/core/reading.ts';
import type { KubeKillerNeeds } from '../../src/kube/stop/ladder.ts';

type Runtime = KubeKillerNeeds['runtime'];
export const AWAY = unknown('unreadable', 'CRI StopContainer', 'no connection');

/** A runtime that does what it is told; `asked`: what that was. */
export function aRuntime(stop: (id: string, seconds: number) => Promise<Reading<null>> = async () => AWAY): Runtime & {
  readonly asked: string[];
} {
  const asked: string[] = [];
  return {
    asked,
    facts: () => known({ containers: [], sandboxes: [], atMs: 0 }),
    refresh: async () => known({ containers: [], sandboxes: [], atMs: 0 }),
    isAnswering: () => true,
    stopContainer: (id, seconds) => {
      asked.push(`stop ${id.slice(0, 4)} ${seconds}`);
      return stop(id, seconds);
    },
    stopSandbox: async (id) => {
      asked.push(`sandbox ${id.slice(0, 4)}`);
      return known(null);
    },
  };
}
