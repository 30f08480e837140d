import type { GuardEffective } from '../config/guard/effective.ts';
import { isSettled } from '../core/guard/candidates.ts';
import { explainNode, type NodeExplanation } from '../core/guard/explain.ts';
import { lookOf } from '../core/guard/gates.ts';
import { ageOf, classOf, type NodeClass } from '../core/guard/health.ts';
import type { PowerState } from '../core/guard/record.ts';
import { type GuardState, type NodeMemory, nameOfNode } from '../core/guard/state.ts';
import { domainOf } from '../core/guard/storm.ts';
import type { MonoMs } from '../core/reading.ts';
import { isObject, isText } from '../core/shape.ts';
import type { Finding } from '../ports.ts';
import { sayScope } from '../words/guard-decision.ts';
import { sayGateRow } from '../words/guard-gate.ts';
import type { GuardLook } from './loop.ts';

/** What `guard status` shows; plain JSON, documented in docs/json.md. All ages in milliseconds by the guard's own clock. */
export type GuardReport = {
  readonly schema: 1;
  readonly kind: 'guard-status';
  readonly version: string;
  readonly file: string;
  readonly dryRun: boolean;
  readonly configHash: string;
  readonly writer: string;
  /** The node that it runs on; null: none, or not known. */
  readonly node: string | null;
  readonly atWallMs: number;
  readonly leader: {
    readonly isLeader: boolean;
    /** Who holds the lease; null: nobody, or not known. */
    readonly holder: string | null;
    readonly epoch: number | null;
    readonly authorityMs: number | null;
    /** Why it does not run though nobody leads. */
    readonly heldBack: string | null;
  };
  /** It decides nothing new for so long; null: it may. */
  readonly settling: { readonly for: string; readonly leftMs: number } | null;
  /**
   * Age of the last answered list of leases, of the last word of the watch that is silent for longest, and of the last own
   * write; null: none yet.
   */
  readonly api: { readonly readMs: number | null; readonly heardMs: number | null; readonly writeMs: number | null };
  readonly nodes: { readonly [C in NodeClass]: number };
  /** Failure domains with a silent node. */
  readonly domains: readonly Domain[];
  readonly storms: readonly {
    readonly kind: string;
    readonly scope: string;
    readonly forMs: number;
    readonly overMs: number | null;
  }[];
  /** Dead nodes that are not fenced, and why. */
  readonly held: readonly { readonly node: string; readonly gate: string; readonly text: string }[];
  readonly paused: GuardState['paused'];
  readonly fencings: readonly OpenFencing[];
  readonly dryFenced: readonly { readonly node: string; readonly wallMs: number }[];
  /** What the devices said last, and how many have not answered. */
  readonly devices: { readonly [A in PowerState | 'unknown']: number };
  /** Ages of the last on or off of each device that this process heard; null: it heard none. */
  readonly answerAges: { readonly medianMs: number; readonly p90Ms: number; readonly oldestMs: number } | null;
  /** Nodes with an out-of-service taint of the guard, and with one of somebody else. */
  readonly taints: { readonly guard: number; readonly other: number };
  readonly contradicted: readonly { readonly node: string; readonly method: string; readonly why: string }[];
  readonly findings: readonly Finding[];
};
export type Domain = {
  readonly label: string;
  readonly value: string;
  readonly nodes: number;
  readonly silent: number;
  /** A storm of this domain lasts. */
  readonly isDisrupted: boolean;
};
export type OpenFencing = {
  readonly id: string;
  readonly node: string;
  readonly phase: string;
  readonly phaseMs: number;
  readonly level: number;
  readonly attempt: number;
  readonly why: string | null;
  readonly isConfirmed: boolean;
  /** Why its machine is not switched on again; null: it is. */
  readonly staysOff: string | null;
};
/** What `guard explain` shows; null: there is no such node. */
export type ExplainReport = {
  readonly schema: 1;
  readonly kind: 'guard-explain';
  readonly isLeader: boolean;
  readonly dryRun: boolean;
  readonly atMs: MonoMs;
  readonly explanation: NodeExplanation;
};

/** In place of an explanation: no node is known yet, which says nothing of one. */
export type NodesUnknown = { readonly schema: 1; readonly kind: 'guard-nodes-unknown'; readonly detail: string };

export const isGuardReport = (value: unknown): value is GuardReport =>
  isObject(value) && value['schema'] === 1 && value['kind'] === 'guard-status';
export const isExplainReport = (value: unknown): value is ExplainReport =>
  isObject(value) && value['schema'] === 1 && value['kind'] === 'guard-explain';

export const isNodesUnknown = (value: unknown): value is NodesUnknown =>
  isObject(value) && value['schema'] === 1 && value['kind'] === 'guard-nodes-unknown' && isText(value['detail']);

export type ReportNeeds = {
  readonly version: string;
  readonly writer: string;
  readonly config: Pick<GuardEffective, 'file' | 'hash' | 'core'>;
  readonly holder: string | null;
  readonly heldBack: string | null;
  /** The last word of the watch that is silent for longest. */
  readonly heardMs: MonoMs | null;
  readonly findings: readonly Finding[];
  readonly look: GuardLook;
  readonly nowMs: MonoMs;
};

const MOST_SHOWN = 100;

export function guardReport({
  version,
  writer,
  config,
  holder,
  heldBack,
  heardMs,
  findings,
  look,
  nowMs,
}: ReportNeeds): GuardReport {
  const { observation, verdict } = look;
  const { state } = verdict;
  const { self } = observation;
  const { leadership } = self;
  const age = (atMs: MonoMs | null): number | null => (atMs === null ? null : Math.max(0, nowMs - atMs));
  const nameOf = (uid: string): string => nameOfNode(state.nodes, uid);
  const leftMs = state.self.settlesMs - nowMs;
  return {
    ...{ schema: 1, kind: 'guard-status', version, writer, node: self.node, atWallMs: observation.wallMs },
    ...{ file: config.file, dryRun: config.core.dryRun, configHash: config.hash },
    leader: {
      ...{ isLeader: leadership.isLeader, holder, heldBack },
      epoch: leadership.isLeader ? leadership.epoch : null,
      authorityMs: leadership.isLeader ? Math.max(0, leadership.authorityUntilMs - nowMs) : null,
    },
    settling: leftMs > 0 ? { for: state.self.settlesFor, leftMs } : null,
    api: {
      readMs: age(observation.nodes.known ? observation.nodes.value.asOfMs : null),
      heardMs: age(heardMs),
      writeMs: age(self.lastWriteMs),
    },
    nodes: classesOf(look),
    domains: domainsOf(state, config.core.domainLabels),
    storms: state.holds.map(({ kind, scope, sinceMs, endedMs }) => ({
      ...{ kind, scope: sayScope(scope, nameOf), forMs: nowMs - sinceMs, overMs: age(endedMs) },
    })),
    held: heldOf(look),
    paused: state.paused,
    fencings: [...state.fencings.values()].slice(0, MOST_SHOWN).map(({ record, sinceMs }) => ({
      ...{ id: record.id, node: record.node.name, phase: record.phase, phaseMs: nowMs - sinceMs },
      ...{ level: record.level, attempt: record.attempt, why: record.why },
      ...{ isConfirmed: record.proof?.by === 'person', staysOff: record.staysOff },
    })),
    dryFenced: [...state.dryFenced].slice(0, MOST_SHOWN).map(([uid, { wallMs }]) => ({ node: nameOf(uid), wallMs })),
    devices: devicesOf(state),
    answerAges: answerAgesOf(state, nowMs),
    taints: taintsOf(state.nodes),
    contradicted: [...state.devices.values()]
      .flatMap(({ node, method, contradicted }) =>
        contradicted === null ? [] : [{ node: nameOf(node), method, why: contradicted.why }],
      )
      .slice(0, MOST_SHOWN),
    findings,
  };
}

function classesOf({ observation, verdict: { state }, config }: GuardLook): GuardReport['nodes'] {
  const look = lookOf(state, observation, config);
  const counts = { healthy: 0, unhappy: 0, suspect: 0, dead: 0, planned: 0, new: 0 };
  for (const memory of state.nodes.values()) {
    const ageMs = ageOf(memory, look.asOfMs, isSettled(look));
    counts[classOf(memory, ageMs, look.asOfMs, observation.atMs, config)] += 1;
  }
  return counts;
}

function devicesOf({ devices }: Pick<GuardState, 'devices'>): GuardReport['devices'] {
  const counts = { on: 0, off: 0, unknown: 0 };
  for (const { says } of devices.values()) counts[says] += 1;
  return counts;
}

function answerAgesOf({ devices }: Pick<GuardState, 'devices'>, nowMs: MonoMs): GuardReport['answerAges'] {
  const ages = [...devices.values()]
    .flatMap(({ recent }) => recent.at(-1) ?? [])
    .map(({ endedMs }) => Math.max(0, nowMs - endedMs))
    .sort((a, b) => a - b);
  const at = (share: number): number => ages[Math.ceil(share * ages.length) - 1] ?? 0;
  return ages.length === 0 ? null : { medianMs: at(0.5), p90Ms: at(0.9), oldestMs: at(1) };
}

function taintsOf(nodes: ReadonlyMap<string, NodeMemory>): GuardReport['taints'] {
  const counts = { guard: 0, other: 0 };
  for (const { facts } of nodes.values()) {
    if (facts.outOfServiceBy !== null) counts.guard += 1;
    if (facts.foreignOutOfService !== null) counts.other += 1;
  }
  return counts;
}

function domainsOf(
  { nodes, holds }: Pick<GuardState, 'nodes' | 'holds'>,
  labels: readonly string[],
): readonly Domain[] {
  const isDisrupted = (label: string, value: string): boolean =>
    holds.some(
      ({ scope, endedMs }) =>
        endedMs === null && scope.kind === 'domain' && scope.label === label && scope.value === value,
    );
  return labels.flatMap((label) => {
    const counts = new Map<string, { nodes: number; silent: number }>();
    for (const { object, isSuspect } of nodes.values()) {
      const value = domainOf(object.labels, label);
      const count = counts.get(value) ?? { nodes: 0, silent: 0 };
      counts.set(value, { nodes: count.nodes + 1, silent: count.silent + (isSuspect ? 1 : 0) });
    }
    return [...counts]
      .filter(([, { silent }]) => silent > 0)
      .slice(0, MOST_SHOWN)
      .map(([value, count]) => ({ label, value, ...count, isDisrupted: isDisrupted(label, value) }));
  });
}

function heldOf({ observation, verdict: { state }, config }: GuardLook): GuardReport['held'] {
  return [...state.held.keys()].slice(0, MOST_SHOWN).flatMap((uid) => {
    const name = state.nodes.get(uid)?.object.name;
    const deciding = name === undefined ? null : (explainNode(state, observation, config, name)?.deciding ?? null);
    if (name === undefined || deciding === null) return [];
    return [{ node: name, gate: deciding.gate, text: sayGateRow(deciding) }];
  });
}

/** `look` null: there was none yet. */
export function explainReport(look: GuardLook | null, name: string): ExplainReport | NodesUnknown | null {
  const unread = { schema: 1, kind: 'guard-nodes-unknown' } as const;
  if (look === null) return { ...unread, detail: 'it has just started' };
  const { nodes } = look.observation;
  if (!nodes.known) return { ...unread, detail: nodes.detail };
  const { observation, verdict, config } = look;
  const { state } = verdict;
  const explanation = explainNode(state, observation, config, name);
  if (explanation === null) return null;
  const { isLeader } = observation.self.leadership;
  return { schema: 1, kind: 'guard-explain', isLeader, dryRun: config.dryRun, atMs: observation.atMs, explanation };
}
