import type { MonoMs } from '../../core/reading.ts';
import { type Fact, factsOf, type NodeName, type PodName } from './facts.ts';
import type { Interval } from './intervals.ts';

/** A StatefulSet member without a running process; `toMs` is infinity where it never came back. */
export type Gap = Interval & {
  readonly pod: PodName;
  /** Where it ran last. */
  readonly node: NodeName;
};

/**
 * When `members` did not run, in order of time. A gap on a silent node begins at the last renewal of its lease (guard.md
 * 11.8): nobody in the cluster knows a later sign of life.
 */
export function gapsIn(facts: readonly Fact[], members: ReadonlySet<PodName>): readonly Gap[] {
  const silences = silencesOf(facts);
  const copies = new Map<PodName, Map<string, NodeName>>();
  const podsOn = new Map<NodeName, Set<PodName>>();
  const frozen = new Set<NodeName>();
  const open = new Map<PodName, { readonly node: NodeName; readonly fromMs: MonoMs }>();
  const gaps: Gap[] = [];

  const look = (pod: PodName, node: NodeName, atMs: MonoMs): void => {
    const isRunning = [...(copies.get(pod)?.values() ?? [])].some((on) => !frozen.has(on));
    const gap = open.get(pod);
    if (isRunning && gap !== undefined) {
      open.delete(pod);
      gaps.push({ pod, ...gap, toMs: atMs });
    } else if (!isRunning && gap === undefined) {
      open.set(pod, { node, fromMs: silences.get(node)?.findLast((one) => isIn(one, atMs))?.sinceMs ?? atMs });
    }
  };

  for (const fact of factsOf(facts, 'pod-started', 'pod-stopped', 'frozen')) {
    const { atMs, node } = fact;
    if (fact.kind === 'frozen') {
      if (fact.isFrozen) frozen.add(node);
      else frozen.delete(node);
      for (const pod of podsOn.get(node) ?? []) look(pod, node, atMs);
    } else if (members.has(fact.pod)) {
      const uids = kept(copies, fact.pod, () => new Map());
      if (fact.kind === 'pod-started') {
        uids.set(fact.uid, node);
        kept(podsOn, node, () => new Set()).add(fact.pod);
      } else uids.delete(fact.uid);
      look(fact.pod, node, atMs);
    }
  }
  for (const [pod, gap] of open) gaps.push({ pod, ...gap, toMs: Number.POSITIVE_INFINITY });
  return gaps.toSorted((a, b) => a.fromMs - b.fromMs);
}

type Silence = Interval & { readonly sinceMs: MonoMs };

/** By node; `sinceMs`: the last renewal before it. */
function silencesOf(facts: readonly Fact[]): ReadonlyMap<NodeName, readonly Silence[]> {
  const silences = new Map<NodeName, Silence[]>();
  for (const fact of factsOf(facts, 'silent', 'heard')) {
    const own = kept(silences, fact.node, () => []);
    const last = own.at(-1);
    if (fact.kind === 'silent') own.push({ fromMs: fact.atMs, toMs: Number.POSITIVE_INFINITY, sinceMs: fact.sinceMs });
    else if (last !== undefined) own[own.length - 1] = { ...last, toMs: fact.atMs };
  }
  return silences;
}

const isIn = ({ fromMs, toMs }: Interval, atMs: MonoMs): boolean => fromMs <= atMs && atMs < toMs;

function kept<K, V>(map: Map<K, V>, key: K, make: () => V): V {
  const value = map.get(key) ?? make();
  map.set(key, value);
  return value;
}
