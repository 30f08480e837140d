import { GATES } from '../core/guard/decision.ts';
import { dueMsOf } from '../core/guard/explain.ts';
import { atGate, firstShut, type Look, lookOf, rateShutForAll, readsShut, type Shut } from '../core/guard/gates.ts';
import { type NodeClass, wasHeard } from '../core/guard/health.ts';
import { type FencingRecord, needsPerson, type Phase } from '../core/guard/record.ts';
import type { Fencing } from '../core/guard/state.ts';
import { domainOf } from '../core/guard/storm.ts';
import type { MonoMs } from '../core/reading.ts';
import { sayStopped } from '../words/guard.ts';
import { sayBecause, sayGateRow } from '../words/guard-gate.ts';
import { beganWallMs, sayPhaseOf } from '../words/guard-history.ts';
import type { GuardLook } from './loop.ts';
import { type Classified, classified, domainsBy } from './report.ts';
import type { GuardLive, Listed, ShownDomain, ShownFencing, ShownGate, ShownNode, ShownRecord } from './shown.ts';

/** How much of each list is shown. A record has at most 64 KiB. */
type Most = { readonly nodes: number; readonly domains: number; readonly fencings: number };
const MOST: Most = { nodes: 50, domains: 50, fencings: 20 };
/** Names that somebody made as long as they may be. */
const LEAST: Most = { nodes: 10, domains: 5, fencings: 2 };
const MAX_BYTES = 1024 * 1024;

/** As JSON; null: even with few rows it is larger than is sent. */
export function guardLiveJson(look: GuardLook, rest: Pick<GuardLive, 'nowWallMs' | 'status'>): string | null {
  for (const most of [MOST, LEAST]) {
    const text = JSON.stringify({ schema: 1, ...rest, ...shownOf(look, most) } satisfies GuardLive);
    if (Buffer.byteLength(text) <= MAX_BYTES) return text;
  }
  return null;
}

/** Like `Look`, with what is the same for all rows. */
type Shown = { readonly of: GuardLook; readonly look: Look; readonly isLeader: boolean; readonly most: Most };

function shownOf(of: GuardLook, most: Most): Omit<GuardLive, 'schema' | 'nowWallMs' | 'status'> {
  const { observation, verdict, config } = of;
  const { nodes, self } = observation;
  const { isLeader } = self.leadership;
  const shown = { of, look: lookOf(verdict.state, observation, config), isLeader, most };
  const reads = readsShut(shown.look);
  const all = [...classified(of)];
  return {
    nodesUnknown: nodes.known ? null : nodes.detail,
    old: reads === null ? null : sayShut(reads),
    limits: { suspectAfterMs: config.suspectAfterMs, deadAfterMs: config.deadAfterMs },
    gates: gatesOf(shown),
    domains: config.domainLabels.map((label) => ({ label, ...domainsOf(label, all, shown) })),
    nodes: nodesOf(all, shown),
    fencings: fencingsOf(shown),
    past: pastOf(shown),
  };
}

function listed<T>(all: readonly T[], most: number): Listed<T> {
  const rows = all.slice(0, most);
  return { rows, leftOut: all.length - rows.length };
}

const sayShut = (shut: Shut): string => sayGateRow({ gate: 'self', isOpen: false, ...shut });

const wallAt = (atMs: MonoMs | null, { of: { observation } }: Shown): number | null =>
  atMs === null ? null : observation.wallMs + (atMs - observation.atMs);

function gatesOf(shown: Shown): readonly ShownGate[] {
  const { state } = shown.of.verdict;
  const holds = new Map<string, Map<string, number>>();
  for (const said of state.held.values()) {
    if (said === null) continue;
    const { gate, because } = said;
    const reasons = holds.get(gate) ?? new Map<string, number>();
    holds.set(gate, reasons.set(because, (reasons.get(because) ?? 0) + 1));
  }
  const rowOf = (gate: ShownGate['gate'], isOpen: boolean | null, shut: Shut | null): ShownGate => ({
    ...{ gate, isOpen, why: shut === null ? null : sayShut(shut), opensWallMs: wallAt(shut?.opensMs ?? null, shown) },
    holds: [...(holds.get(gate) ?? [])].map(([because, nodes]) => ({ why: sayBecause(because), nodes })),
  });
  const { self } = shown.look;
  if (!shown.isLeader) return [{ ...rowOf('self', false, self), holds: [] }];
  return GATES.map((gate) => {
    if (gate === 'self') return rowOf(gate, self === null, self);
    if (gate !== 'rate') return rowOf(gate, null, null);
    const rate = rateShutForAll(shown.look);
    return rowOf(gate, rate === null, rate);
  });
}

function domainsOf(label: string, all: readonly Classified[], { of, most }: Shown): Listed<ShownDomain> {
  const rows = domainsBy(label, all, of.verdict.state).toSorted(
    (a, b) => Number(b.isDisrupted) - Number(a.isDisrupted) || b.silent - a.silent || byName(a.value, b.value),
  );
  return listed(rows, most.domains);
}

const byName = (one: string, other: string): number => (one < other ? -1 : one > other ? 1 : 0);

/** In the order in which people want to know of them. */
const ORDER: readonly NodeClass[] = ['dead', 'suspect', 'planned', 'unhappy', 'new'];
/** They may be asked at their gates: the others give signs of life, or gave none yet. */
const IS_SILENT: ReadonlySet<NodeClass> = new Set(['dead', 'suspect', 'planned']);

function nodesOf(all: readonly Classified[], shown: Shown): Listed<ShownNode> {
  const { state } = shown.of.verdict;
  const rows = all
    .filter(({ health }) => health !== 'healthy')
    .sort(
      (a, b) =>
        ORDER.indexOf(a.health) - ORDER.indexOf(b.health) ||
        (b.ageMs ?? 0) - (a.ageMs ?? 0) ||
        byName(a.memory.object.name, b.memory.object.name),
    );
  const { rows: first, leftOut } = listed(rows, shown.most.nodes);
  const fencings = new Map([...state.fencings.values()].map((fencing) => [fencing.record.node.uid, fencing]));
  return { rows: first.map((node) => nodeOf(node, fencings.get(node.memory.object.uid), shown)), leftOut };
}

function nodeOf({ memory, health, ageMs }: Classified, fencing: Fencing | undefined, shown: Shown): ShownNode {
  const { name, labels, uid } = memory.object;
  const domains = shown.of.config.domainLabels.map((label) => domainOf(labels, label)).filter((value) => value !== '');
  return { name, domains, health, ageMs, wasHeard: wasHeard(memory), ...whatOf() };

  function whatOf(): Pick<ShownNode, 'said' | 'gate' | 'opensWallMs'> {
    const none = { said: null, gate: null, opensWallMs: null };
    if (fencing !== undefined) {
      const { phase } = fencing.record;
      return { ...none, said: sayStopped(phase, shown.of.config.dryRun) ?? sayPhaseOf(fencing.record, phase) };
    }
    if (shown.of.verdict.state.dryFenced.has(uid)) return { ...none, said: 'would be fenced (dry run)' };
    if (!shown.isLeader || !IS_SILENT.has(health)) return none;
    const closed = firstShut(atGate(shown.look, memory, ageMs, null));
    if (closed === null) return { ...none, said: 'every gate is open' };
    return { said: sayGateRow(closed), gate: closed.gate, opensWallMs: wallAt(closed.opensMs, shown) };
  }
}

/** What a person must look at comes first, then what is under way. */
const RANK: { readonly [P in Phase]?: number } = { failed: 1, aborted: 3, 'left-off': 3 };

function fencingsOf(shown: Shown): Listed<ShownFencing> {
  const rank = ({ record: { phase } }: Fencing): number => (needsPerson(phase) ? 0 : (RANK[phase] ?? 2));
  const all = [...shown.of.verdict.state.fencings.values()].sort(
    (a, b) => rank(a) - rank(b) || beganWallMs(b.record) - beganWallMs(a.record),
  );
  const { rows, leftOut } = listed(all, shown.most.fencings);
  const withDue = rows.map((fencing) => ({
    record: shownRecord(fencing.record),
    dueWallMs: wallAt(dueMsOf(fencing, shown.look), shown),
  }));
  return { rows: withDue, leftOut };
}

function pastOf({ of: { observation }, most }: Shown): GuardLive['past'] {
  const { records } = observation;
  if (!records.known) return records.detail;
  const closed = records.value
    .flatMap(({ record }) => (record?.phase === 'closed' ? [record] : []))
    .sort((a, b) => beganWallMs(b) - beganWallMs(a));
  const { rows, leftOut } = listed(closed, most.fencings);
  return { rows: rows.map(shownRecord), leftOut };
}

const shownRecord = ({ plan, answers, ...record }: FencingRecord): ShownRecord => record;
