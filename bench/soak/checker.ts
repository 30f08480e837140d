import { Readable } from 'node:stream';
import type { Decision, DecisionId } from '../../src/core/decision.ts';
import { textOf } from '../../src/host/text-stream.ts';
import { type DecisionRecord, joinDecisions, parseEntry, type RecordEntry, sayEntry } from '../../src/record/entry.ts';
import type { EvictionScenario } from '../../src/record/scenarios/scenario-of.ts';
import { simulate } from '../../src/simulate/simulate.ts';
import { readScenarioFiles } from '../../src/simulate/source.ts';
import { differenceOf, type Guard, type Replay, replayOf, scenarioLines } from './replay.ts';

/** Hears what the agent decides and records, and derives every decision again. */
export type Checker = {
  readonly decided: (decision: Decision) => void;
  readonly hear: (entry: RecordEntry) => void;
  readonly looked: (atMs: number) => void;
  readonly victimOf: (of: DecisionId) => string | null;
  /** Decisions with their evidence that were not derived again yet. */
  readonly waiting: () => number;
  readonly verify: () => Promise<void>;
  readonly problem: (text: string) => void;
  readonly problems: () => readonly string[];
  readonly counts: () => {
    readonly decisions: { readonly [kind: string]: number };
    readonly outcomes: { readonly [kind: string]: number };
    readonly replayed: number;
    readonly withHistory: number;
  };
};

const PROBLEMS_KEPT = 100;
/** The longest pace. */
const MOST_BETWEEN_LOOKS_MS = 10_000;
/** Longer than the guard's window and any grace. */
const REMEMBERED_MS = 1_200_000;

export function createChecker(guard: Guard, doctored: (entry: RecordEntry) => RecordEntry = (entry) => entry): Checker {
  const counts = {
    decisions: new Map<string, number>(),
    outcomes: new Map<string, number>(),
    replayed: 0,
    withHistory: 0,
  };
  const count = (tally: Map<string, number>, kind: string): void => void tally.set(kind, (tally.get(kind) ?? 0) + 1);
  const problems: string[] = [];
  const victims = new Map<DecisionId, string>();
  /** Decisions whose evidence is not there yet, with what is. */
  const open = new Map<DecisionId, readonly RecordEntry[]>();
  /** In the order of the decisions; those that were derived again without what is no longer asked for. */
  const records = new Map<DecisionId, DecisionRecord>();
  let ripe: DecisionId[] = [];
  let lookedMs = 0;
  const problem = (text: string): void => {
    if (problems.length < PROBLEMS_KEPT) problems.push(text);
  };

  const hear = (heard: RecordEntry): void => {
    // As a reader of the file has it.
    const entry = parseEntry(sayEntry(doctored(heard)));
    if (entry === null) problem('an entry of the record cannot be read again');
    else if (entry.kind === 'decision') {
      count(counts.decisions, entry.decision.kind);
      open.set(entry.decision.id, [entry]);
    } else if (entry.kind === 'observation') for (const id of entry.of) hearEvidence(id, entry);
    else if (entry.kind === 'outcome') hearOutcome(entry);
    else if (entry.kind === 'lost') problem(`${entry.entries} entries of the record are lost`);
  };
  const hearEvidence = (id: DecisionId, entry: RecordEntry): void => {
    const [record] = joinDecisions([...(open.get(id) ?? []), entry]);
    open.delete(id);
    if (record === undefined) problem(`the record has evidence of ${id}, which it does not hold`);
    else {
      records.set(id, record);
      ripe.push(id);
    }
  };
  const hearOutcome = (entry: Extract<RecordEntry, { kind: 'outcome' }>): void => {
    const { of, kind } = entry.outcome;
    count(counts.outcomes, kind);
    const waiting = open.get(of);
    const record = records.get(of);
    if (waiting !== undefined) open.set(of, [...waiting, entry]);
    else if (record === undefined) problem(`the record has an outcome of ${of}, which it does not hold`);
    else records.set(of, { ...record, outcomes: [...record.outcomes, entry.outcome] });
  };

  const forget = (): void => {
    const last = [...records.values()].at(-1);
    for (const [id, record] of records) {
      if (last === undefined || last.decision.atMs - record.decision.atMs < REMEMBERED_MS) continue;
      if (record.decision.kind === 'evict' && record.outcomes.length !== 1) {
        problem(`decision ${id} has ${record.outcomes.length} outcomes`);
      }
      records.delete(id);
      victims.delete(id);
    }
  };

  const verify = async (): Promise<void> => {
    const replays: Replay[] = [];
    for (const id of ripe) {
      const record = records.get(id);
      if (record === undefined) continue;
      const replay = replayOf(record, earlierThan(id), guard);
      if (typeof replay === 'string') problem(`decision ${id}: ${replay}`);
      else if (replay !== null) replays.push(replay);
      if (record.reasons.some((reason) => reason.code === 'passed-over' && isOfHistory(reason.because))) {
        counts.withHistory += 1;
      }
      records.set(id, slim(record));
    }
    ripe = [];
    for (const difference of await simulated(replays)) problem(difference);
    counts.replayed += replays.length;
    forget();
  };
  const earlierThan = (id: DecisionId): readonly DecisionRecord[] => {
    const ids = [...records.keys()];
    return [...records.values()].slice(0, ids.indexOf(id));
  };

  return {
    decided: (decision) => {
      if ('victim' in decision) victims.set(decision.id, decision.victim.uid);
    },
    hear,
    looked: (atMs) => {
      if (atMs < lookedMs || atMs - lookedMs > MOST_BETWEEN_LOOKS_MS)
        problem(`a look at ${atMs} ms after ${lookedMs} ms`);
      lookedMs = atMs;
    },
    victimOf: (of) => victims.get(of) ?? null,
    waiting: () => ripe.length,
    verify,
    problem,
    problems: () => problems,
    counts: () => ({
      ...counts,
      decisions: Object.fromEntries(counts.decisions),
      outcomes: Object.fromEntries(counts.outcomes),
    }),
  };
}

const isOfHistory = (because: string): boolean => because === 'guard' || because === 'terminating';

/** What a later decision asks of it: its victim and that one's owner. */
function slim(record: DecisionRecord): DecisionRecord {
  const { decision, observation } = record;
  if (decision.kind !== 'evict' || observation === null || observation.scenario === null) {
    return { ...record, observation: null, reasons: [] };
  }
  const { uid } = decision.victim;
  const isVictim = (pod: EvictionScenario['pods'][number]): boolean => Object(pod['metadata']).uid === uid;
  const { scenario } = observation;
  const pods = scenario.pods.filter(isVictim);
  const less: EvictionScenario = { ...scenario, pods, steps: [{ at: 0, summary: {} }] };
  return {
    ...record,
    decision: { ...decision, ranking: [] },
    observation: { ...observation, scenario: less },
    reasons: [],
  };
}

/** By the code of `nodewarden simulate`, from text to report. */
async function simulated(replays: readonly Replay[]): Promise<readonly string[]> {
  if (replays.length === 0) return [];
  const byId = new Map(replays.map((replay) => [replay.id, replay]));
  const text = textOf(Readable.from([Buffer.from(scenarioLines(replays))]), '<stdin>');
  const items = readScenarioFiles(['-'], () => text);
  const differences: string[] = [];
  for await (const item of simulate(items, {
    expectations: 'ignore',
    only: null,
    config: null,
    keep: (step) => step,
  })) {
    if (item.kind === 'problems') differences.push(...item.problems.map((problem) => `the scenario: ${problem.text}`));
    if (item.kind !== 'scenario' || item.report.kind !== 'EvictionScenario') continue;
    const replay = byId.get(item.report.name);
    const result = item.report.steps[0]?.result;
    byId.delete(item.report.name);
    const difference = replay === undefined || result === undefined ? 'no result' : differenceOf(replay, result);
    if (difference !== null) differences.push(`decision ${item.report.name}: ${difference}`);
  }
  return [...differences, ...[...byId.keys()].map((id) => `decision ${id}: simulate says nothing of it`)];
}
