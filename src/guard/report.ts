import type { GuardEffective } from '../config/guard/effective.ts';
import { tally } from '../core/group-by.ts';
import { isSettled } from '../core/guard/candidates.ts';
import { explainNode, isTaintedBy, isUnstored, isWaiting, phaseMsOf } from '../core/guard/explain.ts';
import { lookOf } from '../core/guard/gates.ts';
import { ageOf, classOf, type NodeClass } from '../core/guard/health.ts';
import { livesTainted } from '../core/guard/marks.ts';
import { type Fencing, type GuardState, type NodeMemory, nameOfNode } from '../core/guard/state.ts';
import { domainOf } from '../core/guard/storm.ts';
import type { MonoMs } from '../core/reading.ts';
import type { Finding } from '../ports.ts';
import { sayScope } from '../words/guard-decision.ts';
import { sayGateRow } from '../words/guard-gate.ts';
import type { GuardLook } from './loop.ts';
import type { Domain, ExplainReport, GuardReport, NodesUnknown, OpenFencing, ShownDomain } from './shown.ts';

export type ReportNeeds = {
  readonly version: string;
  readonly writer: string;
  readonly config: Pick<GuardEffective, 'file' | 'hash' | 'core'>;
  readonly holder: string | null;
  readonly isHolderKnown: boolean;
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
  isHolderKnown,
  heldBack,
  heardMs,
  findings,
  look,
  nowMs,
}: ReportNeeds): GuardReport {
  const { observation, verdict } = look;
  const { state } = verdict;
  const all = [...classified(look)];
  const { self } = observation;
  const { leadership } = self;
  const age = (atMs: MonoMs | null): number | null => (atMs === null ? null : Math.max(0, nowMs - atMs));
  const nameOf = (uid: string): string => nameOfNode(state.nodes, uid);
  const leftMs = state.self.settlesMs - nowMs;
  return {
    ...{ schema: 1, kind: 'guard-status', version, writer, node: self.node, atWallMs: observation.wallMs },
    ...{ file: config.file, dryRun: config.core.dryRun, configHash: config.hash },
    leader: {
      ...{ isLeader: leadership.isLeader, holder, isHolderKnown, heldBack },
      epoch: leadership.isLeader ? leadership.epoch : null,
      authorityMs: leadership.isLeader ? Math.max(0, leadership.authorityUntilMs - nowMs) : null,
    },
    settling: leftMs > 0 ? { for: state.self.settlesFor, leftMs } : null,
    api: {
      readMs: age(observation.nodes.known ? observation.nodes.value.asOfMs : null),
      heardMs: age(heardMs),
      writeMs: age(self.lastWriteMs),
    },
    nodes: classesOf(all),
    domains: domainsOf(all, state, config.core.domainLabels),
    storms: state.holds.map(({ kind, scope, sinceMs, endedMs }) => ({
      ...{ kind, scope: sayScope(scope, nameOf), forMs: nowMs - sinceMs, overMs: age(endedMs) },
    })),
    held: heldOf(look),
    paused: state.paused,
    fencings: [...state.fencings.values()].slice(0, MOST_SHOWN).map((fencing) => openFencing(fencing, look, nowMs)),
    dryFenced: [...state.dryFenced].slice(0, MOST_SHOWN).map(([uid, { wallMs }]) => ({ node: nameOf(uid), wallMs })),
    devices: devicesOf(state),
    answerAges: answerAgesOf(state, nowMs),
    taints: taintsOf(state),
    contradicted: [...state.devices.values()]
      .flatMap(({ node, method, contradicted }) =>
        contradicted === null ? [] : [{ node: nameOf(node), method, why: contradicted.why }],
      )
      .slice(0, MOST_SHOWN),
    totals: {
      held: tally([...state.held.values()].flatMap((said) => said?.gate ?? [])),
      fencings: tally([...state.fencings.values()].map(({ record }) => record.phase)),
      contradicted: [...state.devices.values()].filter(({ contradicted }) => contradicted !== null).length,
    },
    findings,
  };
}

function openFencing(fencing: Fencing, { observation, verdict }: GuardLook, nowMs: MonoMs): OpenFencing {
  const { record } = fencing;
  const phaseMs = phaseMsOf(fencing, observation) + nowMs - observation.atMs;
  return {
    ...{ id: record.id, node: record.node.name, phase: record.phase, phaseMs },
    ...{ level: record.level, attempt: record.attempt, why: record.why },
    ...{ isConfirmed: record.proof?.by === 'person', staysOff: record.staysOff },
    ...{ isTainted: isTaintedBy(fencing, verdict.state), isWaiting: isWaiting(fencing) },
    isUnstored: observation.self.leadership.isLeader && isUnstored(fencing),
  };
}

function classesOf(all: readonly Classified[]): GuardReport['nodes'] {
  const counts = noNodes();
  for (const { health } of all) counts[health] += 1;
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

function taintsOf(state: GuardState): GuardReport['taints'] {
  const counts = { guard: 0, other: 0, living: 0 };
  for (const memory of state.nodes.values()) {
    if (memory.facts.outOfServiceBy !== null) counts.guard += 1;
    if (memory.facts.foreignOutOfService !== null) counts.other += 1;
    if (livesTainted(memory, state)) counts.living += 1;
  }
  return counts;
}

/** Those with a silent node. */
function domainsOf(all: readonly Classified[], state: GuardState, labels: readonly string[]): readonly Domain[] {
  return labels.flatMap((label) =>
    domainsBy(label, all, state)
      .filter(({ silent }) => silent > 0)
      .slice(0, MOST_SHOWN)
      .map(({ value, nodes, silent, isDisrupted }) => ({
        ...{ label, value, nodes: Object.values(nodes).reduce((sum, count) => sum + count, 0), silent, isDisrupted },
      })),
  );
}

/** The nodes by their value of a label, in the order in which they are known. */
export function domainsBy(
  label: string,
  all: readonly Classified[],
  { holds }: Pick<GuardState, 'holds'>,
): readonly ShownDomain[] {
  const counts = new Map<string, { readonly nodes: ReturnType<typeof noNodes>; silent: number }>();
  for (const { memory, health } of all) {
    const value = domainOf(memory.object.labels, label);
    const count = counts.get(value) ?? { nodes: noNodes(), silent: 0 };
    count.nodes[health] += 1;
    count.silent += memory.isSuspect ? 1 : 0;
    counts.set(value, count);
  }
  const disrupted = new Set(
    holds.flatMap(({ scope, endedMs }) =>
      endedMs === null && scope.kind === 'domain' && scope.label === label ? [scope.value] : [],
    ),
  );
  return [...counts].map(([value, count]) => ({ value, ...count, isDisrupted: disrupted.has(value) }));
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

export type Classified = {
  readonly memory: NodeMemory;
  readonly health: NodeClass;
  /** As `ageOf` says. */
  readonly ageMs: number | null;
};

/** Every node at this look. */
export function* classified({ observation, verdict: { state }, config }: GuardLook): Iterable<Classified> {
  const look = lookOf(state, observation, config);
  const settled = isSettled(look);
  for (const memory of state.nodes.values()) {
    const ageMs = ageOf(memory, look.asOfMs, settled);
    yield { memory, ageMs, health: classOf(memory, ageMs, look.asOfMs, observation.atMs, config) };
  }
}

const noNodes = (): { [C in NodeClass]: number } => ({
  ...{ healthy: 0, unhappy: 0, suspect: 0, dead: 0, planned: 0, new: 0 },
});
