import type { GuardObservation, PodOnNode } from '../core/guard/observation.ts';
import type { FencingRecord } from '../core/guard/record.ts';
import { isStuck } from '../core/guard/worth.ts';
import type { MonoMs } from '../core/reading.ts';

/** By uid of the node: what would be freed, as first read while it was silent. Null: there was no room. */
export type PodsOfHour = ReadonlyMap<string, readonly PodOnNode[] | null>;

const MOST_PODS = 20_000;

export type HourPods = {
  readonly all: PodsOfHour;
  /** Of a node that is silent since then. */
  readonly read: (node: string, silentMs: MonoMs, observation: GuardObservation) => void;
  /** What an earlier leader began to free, of whom this one has asked nothing. */
  readonly takeOver: (node: string, record: FencingRecord) => void;
  readonly forget: (isTold: (node: string) => boolean) => void;
};

export function createHourPods(): HourPods {
  const pods = new Map<string, readonly PodOnNode[] | null>();
  let count = 0;

  function keep(node: string, stuck: readonly PodOnNode[]): void {
    const fits = count + stuck.length <= MOST_PODS;
    pods.set(node, fits ? stuck : null);
    if (fits) count += stuck.length;
  }

  return {
    all: pods,
    read: (node, silentMs, observation) => {
      const read = observation.asked.get(node)?.pods;
      if (read?.known !== true || read.value.asOfMs < silentMs || pods.has(node)) return;
      keep(node, read.value.value.filter(isStuck));
    },
    takeOver: (node, { freed, silentMs }) => {
      if (pods.has(node) || freed === null || silentMs === 0) return;
      const hasAttachedVolume = freed.volumes.length > 0;
      const unknown = { priority: 0, isTerminating: false, isFinished: false, toleratesTaint: false, finalizers: [] };
      keep(
        node,
        freed.pods.map(({ isMember, uid, namespace, name }) => ({
          ...{ ...unknown, uid, namespace, name, hasAttachedVolume },
          ownerKind: isMember ? 'StatefulSet' : '',
        })),
      );
    },
    forget: (isTold) => {
      for (const [node, kept] of pods) {
        if (isTold(node)) continue;
        pods.delete(node);
        count -= kept?.length ?? 0;
      }
    },
  };
}
