import type { GuardEffective } from '../config/guard/effective.ts';
import { tally } from '../core/group-by.ts';
import { explainNode } from '../core/guard/explain.ts';
import { type GuardState, type NodeMemory, nameOfNode } from '../core/guard/state.ts';
import { domainOf } from '../core/guard/storm.ts';
import type { MonoMs } from '../core/reading.ts';
import type { Finding } from '../ports.ts';
import { sayScope } from '../words/guard-decision.ts';
import { sayGateRow } from '../words/guard-gate.ts';
import { classified, noNodes } from './classified.ts';
import type { GuardLook } from './loop.ts';
import type { Domain, ExplainReport, GuardReport, NodesUnknown } from './shown.ts';

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
    totals: {
      // The reason follows the gate.
      held: tally([...state.held.values()].flatMap((what) => (what === '' ? [] : [what.split(' ')[0] ?? '']))),
      fencings: tally([...state.fencings.values()].map(({ record }) => record.phase)),
      contradicted: [...state.devices.values()].filter(({ contradicted }) => contradicted !== null).length,
    },
    findings,
  };
}

function classesOf(look: GuardLook): GuardReport['nodes'] {
  const counts = noNodes();
  for (const { health } of classified(look)) counts[health] += 1;
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
