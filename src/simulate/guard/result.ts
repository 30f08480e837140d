import { groupBy } from '../../core/group-by.ts';
import type { MonoMs } from '../../core/reading.ts';
import type { Loss } from '../compare.ts';
import { type Fact, factsOf, guardOf, type KindOf, type NodeName, type PodName } from './facts.ts';
import { both, type Interval, intervalsOf, lengthOf } from './intervals.ts';
import { OUT_OF_SERVICE } from './kubernetes.ts';

/** How a world ended (guard.md 12.1). Times in milliseconds since the start. Can be pasted back as an `expect`. */
export type GuardResult = {
  /** Proven off, in order of time. */
  readonly fenced: readonly NodeName[];
  /** How often a guard's command really switched it from on to off; nodes without are left out. */
  readonly poweredOff: { readonly [node: string]: number };
  /** By scope and gate, in order of time; `until` null: to the end. */
  readonly held: readonly Held[];
  /** How long each node carried the guard's out-of-service taint. */
  readonly tainted: readonly Tainted[];
  /** Members that run elsewhere, `within` milliseconds of the proof. */
  readonly backElsewhere: readonly { readonly pod: PodName; readonly within: number }[];
  /** Back with another boot, its record closed. */
  readonly recovered: readonly NodeName[];
  readonly leftOff: readonly NodeName[];
  /** By node: the phase in which its last fencing ended or is. */
  readonly phases: { readonly [node: string]: string };
  /** Null: nobody leads at the end. */
  readonly leader: string | null;
  /** StatefulSet members that did not run for a time, all of it counted from the last signs of life. */
  readonly withoutMember: readonly WithoutMember[];
  /** Members that ran twice for a time, because what said off of their machine was wrong. */
  readonly runTwice: readonly PodName[];
};
export type Held = {
  readonly scope: string;
  readonly gate: string;
  readonly from: MonoMs;
  readonly until: MonoMs | null;
  /** What the hold of a node cost: how long the members that ran there last did not run meanwhile, summed up. */
  readonly memberSeconds: number;
};
/** `isBack`: it runs at the end. */
type WithoutMember = { readonly pod: PodName; readonly seconds: number; readonly isBack: boolean };
type Tainted = { readonly node: NodeName; readonly from: MonoMs; readonly until: MonoMs | null };

/** `members`: the pods of StatefulSets. */
export function resultOf(facts: readonly Fact[], members: ReadonlySet<PodName>, untilMs: MonoMs): GuardResult {
  const gaps = gapsIn(facts, members);
  const phases = factsOf(facts, 'phase');
  const last = Object.fromEntries(phases.map(({ node, phase }) => [node, phase]));
  const nodesIn = (phase: string): readonly NodeName[] => [
    ...new Set(phases.filter((one) => one.phase === phase).map(({ node }) => node)),
  ];
  return {
    fenced: nodesIn('proven'),
    poweredOff: powerOffs(facts),
    held: heldIn(facts, gaps, untilMs),
    tainted: taintedIn(facts),
    backElsewhere: backElsewhere(facts),
    recovered: nodesIn('closed').filter((node) => last[node] === 'closed' && isRecovered(facts, node)),
    leftOff: Object.keys(last).filter((node) => last[node] === 'left-off'),
    phases: last,
    leader: leaderAt(facts, untilMs),
    withoutMember: withoutMember(gaps, untilMs),
    runTwice: runTwice(facts),
  };
}

function powerOffs(facts: readonly Fact[]): GuardResult['poweredOff'] {
  const counts: { [node: string]: number } = {};
  for (const { node, isOn, by } of factsOf(facts, 'power')) {
    if (!isOn && by !== null) counts[node] = (counts[node] ?? 0) + 1;
  }
  return counts;
}

/** Holds of successive leaders are one while the next begins within a change of leaders. */
const SAME_HOLD_MS = 180_000;

/** A dead node is held until its devices have answered for the first time: a moment that nobody needs to read. */
const MOMENT_MS = 3_000;

export function withoutMoments(facts: readonly Fact[]): readonly Fact[] {
  const open = new Map<string, KindOf<'held'>>();
  const moments = new Set<Fact>();
  for (const fact of facts) {
    if (fact.kind === 'held') open.set(fact.scope, fact);
    if (fact.kind !== 'hold-ended') continue;
    const began = open.get(fact.scope);
    if (began?.gate !== fact.gate || fact.atMs - began.atMs > MOMENT_MS) continue;
    moments.add(began).add(fact);
  }
  return moments.size === 0 ? facts : facts.filter((fact) => !moments.has(fact));
}

function heldIn(all: readonly Fact[], gaps: readonly Gap[], untilMs: MonoMs): readonly Held[] {
  const holds: Omit<Mutable<Held>, 'memberSeconds'>[] = [];
  const last = new Map<string, (typeof holds)[number]>();
  for (const { kind, scope, gate, atMs } of factsOf(withoutMoments(all), 'held', 'hold-ended')) {
    const key = `${gate} ${scope}`;
    const before = last.get(key);
    if (kind === 'hold-ended') {
      if (before !== undefined) before.until ??= atMs;
    } else if (before === undefined || (before.until !== null && atMs - before.until > SAME_HOLD_MS)) {
      const hold = { scope, gate, from: atMs, until: null };
      holds.push(hold);
      last.set(key, hold);
    } else before.until = null;
  }
  const onNode = groupBy(gaps, ({ node }) => node);
  return holds.map((hold) => {
    const whole = { fromMs: hold.from, toMs: hold.until ?? untilMs };
    const memberMs = lengthOf(both(onNode.get(hold.scope) ?? [], [whole]));
    return { ...hold, memberSeconds: Math.round(memberMs / 1_000) };
  });
}
type Mutable<T> = { -readonly [K in keyof T]: T[K] };

function taintedIn(facts: readonly Fact[]): readonly Tainted[] {
  const own = factsOf(facts, 'taint-added', 'taint-removed').filter(
    ({ key, value }) => key === OUT_OF_SERVICE && value.startsWith('nodewarden.'),
  );
  const nodes = [...new Set(own.map(({ node }) => node))];
  const all = nodes.flatMap((node) =>
    intervalsOf(
      own.filter((fact) => fact.node === node).map(({ atMs, kind }) => ({ atMs, isOn: kind === 'taint-added' })),
    ).map(({ fromMs, toMs }) => ({ node, from: fromMs, until: Number.isFinite(toMs) ? toMs : null })),
  );
  return all.toSorted((a, b) => a.from - b.from);
}

function successorOf(facts: readonly Fact[], freed: KindOf<'pod-freed'>): KindOf<'pod-started'> | null {
  const started = facts.find(
    (fact): fact is KindOf<'pod-started'> =>
      fact.kind === 'pod-started' && fact.pod === freed.pod && fact.uid !== freed.uid && fact.atMs >= freed.atMs,
  );
  return started ?? null;
}

function backElsewhere(facts: readonly Fact[]): GuardResult['backElsewhere'] {
  return factsOf(facts, 'pod-freed').flatMap((freed) => {
    if (freed.by !== 'out-of-service') return [];
    const proven = factsOf(facts, 'phase').findLast(
      ({ node, phase, atMs }) => node === freed.node && phase === 'proven' && atMs <= freed.atMs,
    );
    const successor = successorOf(facts, freed);
    if (proven === undefined || successor === null) return [];
    return [{ pod: freed.pod, within: successor.atMs - proven.atMs }];
  });
}

function withoutMember(gaps: readonly Gap[], untilMs: MonoMs): GuardResult['withoutMember'] {
  const all = new Map<PodName, { ms: number; isBack: boolean }>();
  for (const { pod, fromMs, toMs } of gaps) {
    const ms = (all.get(pod)?.ms ?? 0) + Math.min(toMs, untilMs) - fromMs;
    all.set(pod, { ms, isBack: Number.isFinite(toMs) });
  }
  return [...all].map(([pod, { ms, isBack }]) => ({ pod, seconds: Math.round(ms / 1_000), isBack }));
}

/** A device or a person said off of a machine that ran: the only way to two of one member. */
function runTwice(facts: readonly Fact[]): readonly PodName[] {
  const running = new Map<PodName, Set<string>>();
  const twice = new Set<PodName>();
  for (const { kind, pod, uid } of factsOf(facts, 'pod-started', 'pod-stopped')) {
    const uids = running.get(pod) ?? new Set();
    running.set(pod, uids);
    if (kind === 'pod-stopped') uids.delete(uid);
    else uids.add(uid);
    if (uids.size > 1) twice.add(pod);
  }
  return [...twice];
}

/** A record also closes when there was nothing to recover. */
function isRecovered(facts: readonly Fact[], node: NodeName): boolean {
  return factsOf(facts, 'phase').some((one) => one.node === node && one.phase === 'booting');
}

function leaderAt(facts: readonly Fact[], untilMs: MonoMs): string | null {
  const last = factsOf(facts, 'leads', 'gives-up').at(-1);
  if (last === undefined || last.kind === 'gives-up' || untilMs - last.sentMs >= 10_000) return null;
  return guardOf(last.guard);
}

/** Nodes that were fenced, or would have been in dry run. */
export function fencingsIn(facts: readonly Fact[]): readonly Loss[] {
  return factsOf(facts, 'decided').map(({ node, atMs, isDry }) => ({
    pod: node,
    at: atMs,
    signal: isDry ? 'dry-run' : 'fence',
  }));
}

/** A StatefulSet member without a running process; `toMs` is infinity where it never came back. */
type Gap = Interval & {
  readonly pod: PodName;
  /** Where it ran last. */
  readonly node: NodeName;
};

/**
 * When `members` did not run, in order of time. A gap on a silent node begins at the last renewal of its lease (guard.md
 * 11.8): nobody in the cluster knows a later sign of life.
 */
function gapsIn(facts: readonly Fact[], members: ReadonlySet<PodName>): readonly Gap[] {
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
