import type { MonoMs } from '../reading.ts';
import type { GuardConfig, StormLimits } from './config.ts';
import type { GuardReason } from './decision.ts';
import { ageOf, isPlanned, isSkipped, renewalMs, USUAL_RENEWAL_MS } from './health.ts';
import { GROUPS, type Group, type HoldScope, type KeptHold, type StormKind } from './record.ts';
import type { GuardState, Hold, NodeMemory, Release } from './state.ts';

/** guard.md 6.3: a domain is a storm from more than this many nodes on. */
const DOMAIN_MORE_THAN = 2;

/** The nodes of one group or domain. `unhealthy`: suspects, nodes in a fencing, and nodes left off. */
type Count = { total: number; unhealthy: number };
/** `isCounted`: nothing says that its silence is intended, none of our business, or that of a machine that counts by another name. */
type Member = {
  readonly memory: NodeMemory;
  readonly group: Group;
  readonly isUnhealthy: boolean;
  readonly isCounted: boolean;
};

export type StormView = Pick<GuardState, 'nodes' | 'livingAs' | 'fencings' | 'holds'>;
export type StormTime = { readonly atMs: MonoMs; readonly asOfMs: MonoMs; readonly isSettled: boolean };
type StormConfig = Pick<GuardConfig, 'storm' | 'domainLabels' | 'plannedWaitMs'>;

/** The holds after this look: those that last, those in their cool-down, and what began or ended. */
export function stepStorm(
  state: StormView,
  time: StormTime,
  config: StormConfig,
): { readonly holds: readonly Hold[]; readonly reasons: readonly GuardReason[] } {
  const { holds } = state;
  const now = stormsNow(state, time, config);
  if (now.length === 0 && holds.length === 0) return { holds, reasons: [] };
  const reasons: GuardReason[] = [];
  const after: Hold[] = [];
  for (const hold of holds) {
    const lasting = now.find((storm) => keyOf(storm) === keyOf(hold));
    if (lasting !== undefined) {
      after.push({ ...hold, scope: joined(hold.scope, lasting.scope), endedMs: null });
      if (hold.endedMs !== null) reasons.push({ code: 'storm-began', ...lasting });
    } else if (hold.endedMs === null && mayBeSilent(hold.scope, state.nodes)) {
      after.push(hold);
    } else if (hold.endedMs === null) {
      after.push({ ...hold, endedMs: time.atMs });
      reasons.push({ code: 'storm-ended', kind: hold.kind, scope: hold.scope });
    } else if (time.atMs - hold.endedMs < config.storm.coolDownMs) after.push(hold);
  }
  for (const storm of now) {
    if (holds.some((hold) => keyOf(hold) === keyOf(storm))) continue;
    after.push({ ...storm, sinceMs: time.atMs, endedMs: null });
    reasons.push({ code: 'storm-began', ...storm });
  }
  return { holds: after, reasons };
}

/**
 * Storms that another leader knew: what ended meanwhile is not known, so their cool-down begins anew (guard.md 6.3). A burst
 * lasts while its nodes are silent.
 */
export function adoptHolds(holds: readonly Hold[], kept: readonly KeptHold[], atMs: MonoMs): readonly Hold[] {
  const own = holds.map((hold) => {
    const burst = kept.find(({ kind }) => kind === 'burst' && kind === hold.kind);
    return burst === undefined ? hold : { ...hold, scope: joined(hold.scope, burst.scope), endedMs: null };
  });
  const unknown = kept.filter((storm) => !holds.some((hold) => keyOf(hold) === keyOf(storm)));
  const adopted = unknown.map((storm) => ({ ...storm, sinceMs: atMs, endedMs: storm.kind === 'burst' ? null : atMs }));
  return [...own, ...adopted];
}

/** It was over when this process came to know of it: since when, nobody here has seen. */
export const wasOver = ({ sinceMs, endedMs }: Hold): boolean => endedMs === sinceMs;

/** Of the holds on a node that no person has released, the one that lasts longest; null: none. */
export function holdOn(
  { object: { name, uid, labels }, facts }: NodeMemory,
  { holds, releases }: Pick<GuardState, 'holds' | 'releases'>,
  atMs: MonoMs,
): Hold | null {
  if (holds.length === 0 || isReleased({ name, labels }, releases, atMs)) return null;
  const group = groupOf(facts);
  const on = holds.filter(({ scope }) => isIn(scope, uid, labels, group));
  const endMs = ({ endedMs }: Hold): number => endedMs ?? Number.POSITIVE_INFINITY;
  return on.reduce<Hold | null>((last, hold) => (last === null || endMs(hold) > endMs(last) ? hold : last), null);
}

/** A person released the node, its domain, or all. */
export function isReleased(
  { name, labels }: Pick<NodeMemory['object'], 'name' | 'labels'>,
  releases: readonly Release[],
  atMs: MonoMs,
): boolean {
  return releases.some(({ scope, untilMs }) => atMs < untilMs && covers(scope, { name, labels }));
}

/** Whether a release of that scope is one of this node. */
export function covers(
  scope: Release['scope'],
  { name, labels }: Pick<NodeMemory['object'], 'name' | 'labels'>,
): boolean {
  switch (scope.kind) {
    case 'cluster':
      return true;
    case 'domain':
      return domainOf(labels, scope.label) === scope.value;
    case 'node':
      return scope.name === name;
  }
}

export function groupOf({ isControlPlane, isCountedApart }: NodeMemory['facts']): Group {
  if (isControlPlane) return 'control-plane';
  return isCountedApart ? 'exclude-disruption' : 'workers';
}

/** How many of a group may be unhealthy before all of it is held. */
export function mostUnhealthy(total: number, { maxUnhealthyShare }: StormLimits): number {
  return Math.max(1, Math.floor(maxUnhealthyShare * total + ROUNDING));
}
/** 0.3 x 10 is 3, whatever binary fractions say. */
const ROUNDING = 1e-9;

/** Nodes without the label are one domain. */
export const domainOf = (labels: NodeMemory['object']['labels'], label: string): string =>
  Object.hasOwn(labels, label) ? (labels[label] ?? '') : '';

function isIn(scope: HoldScope, uid: string, labels: NodeMemory['object']['labels'], group: Group): boolean {
  switch (scope.kind) {
    case 'cluster':
      return isOfGroup(scope.group, group);
    case 'domain':
      return domainOf(labels, scope.label) === scope.value;
    case 'nodes':
      return scope.nodes.includes(uid);
  }
}

/**
 * Nodes that want no part in what is said of the workers do not hold them, but are held with them: they are behind the same
 * switches. A group of a newer version may be that of any node.
 */
function isOfGroup(held: string, group: Group): boolean {
  if (held === 'workers') return group !== 'control-plane';
  return held === group || !GROUPS.some((one) => one === held);
}

/** A burst keeps its identity while its nodes change. */
export function keyOf({ kind, scope }: { readonly kind: string; readonly scope: HoldScope }): string {
  switch (scope.kind) {
    case 'cluster':
      return `${kind} ${scope.group}`;
    case 'domain':
      return `${kind} ${scope.label}=${scope.value}`;
    case 'nodes':
      return kind;
  }
}

export function isSameStorms(some: readonly KeptHold[], others: readonly KeptHold[]): boolean {
  return some.map(keyOf).join() === others.map(keyOf).join();
}

/**
 * G5: that some nodes of a burst came back says nothing of the others; only their own life or a person does. One of which
 * nothing was heard since a start or an outage may be as silent as before.
 */
function mayBeSilent(scope: HoldScope, nodes: GuardState['nodes']): boolean {
  if (scope.kind !== 'nodes') return false;
  return scope.nodes.some((uid) => {
    const memory = nodes.get(uid);
    return memory !== undefined && (memory.onsetMs !== null || memory.signMs === null);
  });
}

/** What a burst held once it holds until it is over. */
function joined(held: HoldScope, now: HoldScope): HoldScope {
  if (held.kind !== 'nodes' || now.kind !== 'nodes') return now;
  const isSame = held.nodes.length === now.nodes.length && held.nodes.every((uid, at) => uid === now.nodes[at]);
  if (isSame) return held;
  return { kind: 'nodes', nodes: [...new Set([...held.nodes, ...now.nodes])] };
}

/** Every storm of this look. One row of `STORMS` for each kind. */
export function stormsNow(state: StormView, time: StormTime, config: StormConfig): readonly KeptHold[] {
  if (state.fencings.size === 0 && !hasSilent(state.nodes)) return [];
  const members = membersOf(state, time, config);
  // Whatever is planned, or left to others, is no storm by itself.
  if (!members.some(isUnexplained)) return [];
  const question: Question = { members, groups: groupsOf(members), state, config };
  return Object.values(STORMS).flatMap((storm) => storm(question));
}

/** Most looks end here, at the cost of one pass. */
function hasSilent(nodes: GuardState['nodes']): boolean {
  for (const { onsetMs } of nodes.values()) if (onsetMs !== null) return true;
  return false;
}

/** Silent, and nothing but a failure explains it. */
const isUnexplained = ({ isCounted, isUnhealthy }: Member): boolean => isCounted && isUnhealthy;

type Question = {
  /** Every node: G5 asks who is silent, whatever its labels, plans and wishes. */
  readonly members: readonly Member[];
  /** Of those that count. */
  readonly groups: ReadonlyMap<Group, Count>;
  readonly state: StormView;
  readonly config: StormConfig;
};

const STORMS: { readonly [K in StormKind]: (question: Question) => readonly KeptHold[] } = {
  cluster: ({ groups, config }) =>
    [...groups].flatMap(([group, { total, unhealthy }]) =>
      unhealthy > mostUnhealthy(total, config.storm) ? [{ kind: 'cluster', scope: { kind: 'cluster', group } }] : [],
    ),
  domain: (question) =>
    question.config.domainLabels.flatMap((label) =>
      disruptedBy(label, question).map(
        (value) => ({ kind: 'domain', scope: { kind: 'domain', label, value } }) as const,
      ),
    ),
  burst: (question) => {
    const nodes = burstOf(question);
    return nodes.length === 0 ? [] : [{ kind: 'burst', scope: { kind: 'nodes', nodes } }];
  },
  all: ({ groups }) =>
    [...groups].flatMap(([group, count]) =>
      isAll(group, count) ? [{ kind: 'all', scope: { kind: 'cluster', group } } as const] : [],
    ),
};

/** One alone that wants to be counted apart has nobody to be compared with: the fault is not here while others live. */
function isAll(group: Group, { total, unhealthy }: Count): boolean {
  return unhealthy === total && (group !== 'exclude-disruption' || total > 1);
}

/** Its domains of which too many are silent: of the workers that count, or of all nodes but the control plane. */
function disruptedBy(label: string, { members, config: { storm } }: Question): readonly string[] {
  const domains = new Map<string, { readonly all: Count; readonly workers: Count; isUnexplained: boolean }>();
  for (const member of members) {
    const { memory, group } = member;
    if (group === 'control-plane') continue;
    const value = domainOf(memory.object.labels, label);
    const domain = domains.get(value) ?? { all: none(), workers: none(), isUnexplained: false };
    if (domain.all.total === 0) domains.set(value, domain);
    count(domain.all, member);
    if (group === 'workers' && member.isCounted) count(domain.workers, member);
    domain.isUnexplained ||= isUnexplained(member);
  }
  return [...domains].flatMap(([value, { all, workers, isUnexplained }]) =>
    isUnexplained && (isDisrupted(all, storm) || isDisrupted(workers, storm)) ? [value] : [],
  );
}

const none = (): Count => ({ total: 0, unhealthy: 0 });
function count(into: Count, { isUnhealthy }: Member): void {
  into.total += 1;
  if (isUnhealthy) into.unhealthy += 1;
}

/** k/k's partial disruption of a zone (nodelifecycle controller, ComputeZoneState), and full disruption with it. */
function isDisrupted({ total, unhealthy }: Count, { domainShare }: StormLimits): boolean {
  return unhealthy > DOMAIN_MORE_THAN && unhealthy >= domainShare * total - ROUNDING;
}

/** uids of nodes that fell silent with so many others, not all of them explained, that it was not each by itself. */
function burstOf(question: Question): readonly string[] {
  const onsets = onsetsOf(question);
  const ends = onsets.toSorted((a, b) => a.togetherUntilMs - b.togetherUntilMs).values();
  let ending = ends.next().value;
  let near = 0;
  /** Those of them that are not yet known to be in a burst. */
  const alone = new Set<Onset>();
  let counted = 0;
  const inBurst: string[] = [];
  for (const onset of onsets) {
    for (; ending !== undefined && ending.togetherUntilMs < onset.onsetMs; ending = ends.next().value) {
      near -= 1;
      alone.delete(ending);
      if (ending.isCounted) counted -= 1;
    }
    near += 1;
    alone.add(onset);
    if (onset.isCounted) counted += 1;
    if (near < question.config.storm.burst.nodes || counted === 0) continue;
    for (const { uid } of alone) inBurst.push(uid);
    alone.clear();
  }
  return inBurst;
}

/** `togetherUntilMs`: who falls silent by then may have done so at the same moment. */
type Onset = {
  readonly uid: string;
  readonly onsetMs: MonoMs;
  readonly togetherUntilMs: MonoMs;
  readonly isCounted: boolean;
};

function onsetsOf({ members, state, config }: Question): readonly Onset[] {
  const proven = new Set(
    [...state.fencings.values()].filter(({ record }) => record.proof !== null).map(({ record }) => record.node.uid),
  );
  const onsets: Onset[] = [];
  for (const { memory, isCounted } of members) {
    const { object, lease, onsetMs, signMs } = memory;
    // When it fell silent is not known, but why is.
    const isExplained = signMs === null && proven.has(object.uid);
    if (onsetMs === null || isExplained) continue;
    // One that renews less often than usual was heard longer before its end.
    const unheardMs = Math.max(0, renewalMs(lease) - USUAL_RENEWAL_MS);
    const togetherUntilMs = onsetMs + config.storm.burst.withinMs + unheardMs;
    onsets.push({ uid: object.uid, onsetMs, togetherUntilMs, isCounted });
  }
  return onsets.sort((a, b) => a.onsetMs - b.onsetMs);
}

function membersOf(
  { nodes, livingAs, fencings }: StormView,
  { atMs, asOfMs, isSettled }: StormTime,
  { plannedWaitMs }: StormConfig,
): readonly Member[] {
  const fenced = new Set([...fencings.values()].map(({ record }) => record.node.uid));
  const members: Member[] = [];
  for (const memory of nodes.values()) {
    const isFenced = fenced.has(memory.object.uid);
    const isLeft = memory.facts.isExcluded || isSkipped(memory, atMs) || livingAs.has(memory.object.uid);
    const isIntended = !isFenced && isPlanned(memory, ageOf(memory, asOfMs, isSettled) ?? 0, atMs, plannedWaitMs);
    const isUnhealthy = isFenced || memory.onsetMs !== null;
    members.push({ memory, group: groupOf(memory.facts), isUnhealthy, isCounted: !isLeft && !isIntended });
  }
  return members;
}

function groupsOf(members: readonly Member[]): ReadonlyMap<Group, Count> {
  const groups = new Map<Group, Count>();
  for (const member of members) {
    if (!member.isCounted) continue;
    const ofGroup = groups.get(member.group) ?? none();
    if (ofGroup.total === 0) groups.set(member.group, ofGroup);
    count(ofGroup, member);
  }
  return groups;
}
