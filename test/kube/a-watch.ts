import type { ApiAnswer } from '../../src/kube/api/connection.ts';
import { watchPods } from '../../src/kube/pods/pod-watch.ts';
import { heardParts } from '../standalone/needs.ts';
import { directConnection } from './direct-connection.ts';
import { createPodStore, type Json, NODE } from './pod-store.ts';
import { createVirtualClock } from './virtual-clock.ts';

export const MINUTE = 60_000;

export function aWatch(
  rest: { readonly kept?: Parameters<typeof watchPods>[0]['kept']; readonly chance?: () => number } = {},
) {
  const clock = createVirtualClock();
  const store = createPodStore();
  const direct = directConnection(store, clock);
  const { findings, present } = heardParts();
  let changes = 0;
  const start = () =>
    watchPods({
      connection: direct.connection,
      clock,
      nodeName: NODE,
      protectNamespaces: ['kube-system'],
      findings,
      onChange: () => {
        changes += 1;
      },
      ...rest,
    });
  return { clock, store, ...direct, present, start, changes: () => changes };
}
type Watching = ReturnType<ReturnType<typeof aWatch>['start']>;

/** Name, uid and version: which pods are known, and how they are. */
export function seen(watch: Watching): readonly string[] {
  const pods = watch.pods();
  if (!pods.known) return [pods.detail];
  return [...pods.value.values()]
    .map(({ object, resourceVersion }) => `${object.name} ${object.uid} ${resourceVersion}`)
    .sort();
}
export function stored(objects: readonly Json[]): readonly string[] {
  return objects
    .map((object) => object['metadata'] as Json)
    .map(({ name, uid, resourceVersion }) => `${name} ${uid} ${resourceVersion}`)
    .sort();
}
export const answer = (status: number, body: unknown = null, retryAfterMs: number | null = null): ApiAnswer => ({
  kind: 'answer',
  status,
  body,
  retryAfterMs,
});
