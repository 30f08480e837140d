import { GATES } from '../core/guard/decision.ts';
import { dueMsOf } from '../core/guard/explain.ts';
import { atGate, firstShut, type Look, lookOf, rateShutForAll, readsShut, type Shut } from '../core/guard/gates.ts';
import type { NodeClass } from '../core/guard/health.ts';
import type { FencingRecord, Phase } from '../core/guard/record.ts';
import type { Fencing } from '../core/guard/state.ts';
import { domainOf } from '../core/guard/storm.ts';
import type { MonoMs } from '../core/reading.ts';
import { sayWhy } from '../words/guard.ts';
import { sayBecause, sayGateRow } from '../words/guard-gate.ts';
import {
  beganWallMs,
  sayFreed,
  sayPhaseOf,
  sayProof,
  sayPurpose,
  saySilence,
  sayStepsOf,
} from '../words/guard-history.ts';
import { type Classified, classified, noNodes } from './classified.ts';
import type { GuardLook } from './loop.ts';
import type { GuardLive, Listed, PastFencing, ShownDomain, ShownFencing, ShownGate, ShownNode } from './shown.ts';

/** How much of each list is shown. */
type Most = {
  readonly nodes: number;
  readonly domains: number;
  readonly fencings: number;
  readonly steps: number;
  readonly freed: number;
};
const MOST: Most = { nodes: 50, domains: 50, fencings: 20, steps: 40, freed: 40 };
/** Names that somebody made as long as they may be. */
const LEAST: Most = { nodes: 10, domains: 5, fencings: 2, steps: 20, freed: 5 };
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
function lastOf<T>(all: readonly T[], most: number): Listed<T> {
  const rows = all.slice(-most);
  return { rows, leftOut: all.length - rows.length };
}

const sayShut = (shut: Shut): string => sayGateRow({ gate: 'self', isOpen: false, ...shut });

const wallAt = (atMs: MonoMs | null, { of: { observation } }: Shown): number | null =>
  atMs === null ? null : observation.wallMs + (atMs - observation.atMs);

function gatesOf(shown: Shown): readonly ShownGate[] {
  const { state } = shown.of.verdict;
  const holds = new Map<string, Map<string, number>>();
  for (const said of state.held.values()) {
    const [gate = '', because = ''] = said.split(' ');
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
  const counts = new Map<string, ShownDomain['nodes'] & ReturnType<typeof noNodes>>();
  for (const { memory, health } of all) {
    const value = domainOf(memory.object.labels, label);
    const count = counts.get(value) ?? noNodes();
    count[health] += 1;
    counts.set(value, count);
  }
  const disrupted = new Set(
    of.verdict.state.holds.flatMap(({ scope, endedMs }) =>
      endedMs === null && scope.kind === 'domain' && scope.label === label ? [scope.value] : [],
    ),
  );
  const rows = [...counts].map(([value, nodes]) => ({ value, nodes, isDisrupted: disrupted.has(value) }));
  const silent = ({ nodes }: ShownDomain): number => nodes.dead + nodes.suspect + nodes.planned;
  rows.sort(
    (a, b) => Number(b.isDisrupted) - Number(a.isDisrupted) || silent(b) - silent(a) || byName(a.value, b.value),
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
  return { name, domains, health, ageMs, ...whatOf() };

  function whatOf(): Pick<ShownNode, 'said' | 'gate' | 'opensWallMs'> {
    const none = { said: null, gate: null, opensWallMs: null };
    if (fencing !== undefined) return { ...none, said: sayPhaseOf(fencing.record, fencing.record.phase) };
    if (shown.of.verdict.state.dryFenced.has(uid)) return { ...none, said: 'would be fenced (dry run)' };
    if (!shown.isLeader || !IS_SILENT.has(health)) return none;
    const closed = firstShut(atGate(shown.look, memory, ageMs, null));
    if (closed === null) return { ...none, said: 'every gate is open' };
    return { said: sayGateRow(closed), gate: closed.gate, opensWallMs: wallAt(closed.opensMs, shown) };
  }
}

/** What a person must look at comes first, then what is under way. */
const RANK: { readonly [P in Phase]?: number } = { stuck: 0, 'not-back': 0, failed: 1, aborted: 3, 'left-off': 3 };

function fencingsOf(shown: Shown): Listed<ShownFencing> {
  const rank = ({ record }: Fencing): number => RANK[record.phase] ?? 2;
  const all = [...shown.of.verdict.state.fencings.values()].sort(
    (a, b) => rank(a) - rank(b) || beganWallMs(b.record) - beganWallMs(a.record),
  );
  const { rows, leftOut } = listed(all, shown.most.fencings);
  return { rows: rows.map((fencing) => fencingOf(fencing, shown)), leftOut };
}

function fencingOf(fencing: Fencing, shown: Shown): ShownFencing {
  const { record } = fencing;
  const { id, node, phase, level, attempt, silentMs } = record;
  const said = sayStepsOf(record);
  const steps = record.steps.map((step, at) => ({ ...step, text: said[at] ?? step.phase }));
  return {
    ...{
      id,
      node: node.name,
      what: sayPurpose(record),
      phase,
      text: sayPhaseOf(record, phase),
      level,
      attempt,
      silentMs,
    },
    why: record.why === null ? null : sayWhy(record.why),
    isBad: RANK[phase] === 0,
    steps: lastOf(steps, shown.most.steps),
    dueWallMs: wallAt(dueMsOf(fencing, shown.look), shown),
    freed: listed(sayFreed(record), shown.most.freed),
  };
}

function pastOf({ of: { observation }, most }: Shown): GuardLive['past'] {
  const { records } = observation;
  if (!records.known) return records.detail;
  const closed = records.value
    .flatMap(({ record }) => (record?.phase === 'closed' ? [record] : []))
    .sort((a, b) => beganWallMs(b) - beganWallMs(a));
  const { rows, leftOut } = listed(closed, most.fencings);
  return { rows: rows.map((record) => pastFencingOf(record, most)), leftOut };
}

function pastFencingOf(record: FencingRecord, { steps, freed }: Most): PastFencing {
  return {
    ...{ id: record.id, node: record.node.name, what: sayPurpose(record), silence: saySilence(record) },
    ...{ proof: sayProof(record), steps: lastOf(record.steps, steps), freed: listed(sayFreed(record), freed) },
  };
}
