import type { Decision, DecisionId } from '../core/decision.ts';
import type { Observation } from '../core/observation.ts';
import { type Outcome, type Rung, withRung } from '../core/outcome.ts';
import type { PodView } from '../core/pod/pod.ts';
import { assertNever, type MonoMs } from '../core/reading.ts';
import type { Reason } from '../core/reason.ts';
import { type Check, isFlag, isNumber, isObject, isText, parseJson } from '../core/shape.ts';
import type { RecordNote } from '../ports.ts';
import type { EvictionScenario } from './scenarios/scenario-of.ts';

/**
 * One line of the record. What is known about a decision is spread over several lines, because it becomes known bit by bit;
 * `joinDecisions` joins them by the decision's id.
 */
export type RecordEntry = EntryHead & EntryBody;
type EntryHead = {
  readonly schema: 1;
  readonly atWallMs: number;
  /** Every MonoMs of the line belongs to this boot. */
  readonly bootId: string;
  readonly dry: boolean;
};
export type EntryBody =
  | { readonly kind: 'decision'; readonly decision: Decision; readonly reasons: readonly Reason[] }
  /** The basis of the decisions of one look. */
  | ({ readonly kind: 'observation'; readonly of: readonly DecisionId[] } & Evidence)
  /** The disk was late: the first signal did not wait for these decisions to be durable. */
  | { readonly kind: 'deferred'; readonly of: readonly DecisionId[]; readonly waitedMs: number }
  | { readonly kind: 'outcome'; readonly outcome: Outcome }
  | { readonly kind: 'note'; readonly note: RecordNote }
  /** How many earlier entries did not fit into memory while the disk accepted none. */
  | { readonly kind: 'lost'; readonly entries: number };
export type Evidence = {
  readonly atMs: MonoMs;
  readonly signals: Observation['signals'];
  readonly psi: Observation['psi'];
  /** null: the pods were not known at this look, so nothing can be re-derived. */
  readonly scenario: EvictionScenario | null;
  /** Pods that are not in it because they could not be chosen: a reason may name them. Absent: none. */
  readonly others?: readonly Pick<PodView, 'uid' | 'namespace' | 'name'>[];
};

/** How every line begins: a line that does not is damage. */
export const LINE_START = '{"schema":1,';
const KINDS: readonly unknown[] = [
  'decision',
  'observation',
  'deferred',
  'outcome',
  'note',
  'lost',
] satisfies readonly EntryBody['kind'][];

/** The schema comes first, so that every line begins with LINE_START. */
export function entryOf(head: Omit<EntryHead, 'schema'>, body: EntryBody): RecordEntry {
  return { schema: 1, ...head, ...body };
}

export function sayEntry(entry: RecordEntry): string {
  return `${JSON.stringify(entry)}\n`;
}

/** null: not a complete line of the record. The agent is the only writer, so only the envelope is checked. */
export function parseEntry(line: string): RecordEntry | null {
  // JSON.parse takes 20 µs to reject a line: a file full of short bad lines would take minutes.
  if (!line.startsWith(LINE_START)) return null;
  const json = parseJson(line);
  return isEntry(json) ? json : null;
}

function isEntry(json: unknown): json is RecordEntry {
  return (
    isObject(json) &&
    json['schema'] === 1 &&
    isInstant(json['atWallMs']) &&
    isText(json['bootId']) &&
    isFlag(json['dry']) &&
    KINDS.includes(json['kind']) &&
    hasBody(json)
  );
}

/** The range of a Date. */
const isInstant = (wallMs: unknown): boolean => isNumber(wallMs) && Math.abs(wallMs) <= 8.64e15;

function hasBody(entry: { readonly [key: string]: unknown }): boolean {
  const { kind } = entry;
  if (kind === 'decision' || kind === 'outcome' || kind === 'note') return isObject(entry[kind]);
  return kind === 'lost' ? isNumber(entry['entries']) : Array.isArray(entry['of']);
}

/** A decision with everything that became known about it: what `history` shows. */
export type DecisionRecord = {
  readonly atWallMs: number;
  readonly bootId: string;
  readonly dry: boolean;
  readonly decision: Decision;
  readonly reasons: readonly Reason[];
  readonly isDeferred: boolean;
  readonly observation: Evidence | null;
  /** The largest processes of the victim and the status sent to the API; null where none was taken. */
  readonly evidence: Extract<RecordNote, { kind: 'evidence' }> | null;
  readonly outcomes: readonly Outcome[];
  /** Everything that any run did about the victim, including answers that came after the outcome. */
  readonly rungs: readonly Rung[];
};

export const rungOf = ({ kind, of, ...rung }: Extract<RecordNote, { kind: 'rung' }>): Rung => rung;

/** Bodies are not checked when they are read: a failing disk may have changed them. */
function rungsIn({ rungs }: Outcome): readonly Rung[] {
  const isRung: Check = isObject;
  return Array.isArray(rungs) ? rungs.filter(isRung) : [];
}

/** Of entries and decisions: from that moment of the wall clock on. */
export const isSince =
  (sinceWallMs: number) =>
  ({ atWallMs }: { readonly atWallMs: number }): boolean =>
    atWallMs >= sinceWallMs;

/** The decisions in the order of the record. Lines about a decision outside these entries are left out. */
export function joinDecisions(entries: readonly RecordEntry[]): readonly DecisionRecord[] {
  const records: DecisionRecord[] = [];
  // If two decisions have the same id (the state was lost within a boot), later lines belong to the later one.
  const placeOf = new Map<DecisionId, number>();
  const change = (id: DecisionId, more: (record: DecisionRecord) => Partial<DecisionRecord>): void => {
    const place = placeOf.get(id);
    const record = place === undefined ? undefined : records[place];
    if (place !== undefined && record !== undefined) records[place] = { ...record, ...more(record) };
  };
  for (const entry of entries) {
    switch (entry.kind) {
      case 'decision': {
        const { atWallMs, bootId, dry, decision, reasons } = entry;
        const rest = { isDeferred: false, observation: null, evidence: null, outcomes: [], rungs: [] };
        placeOf.set(decision.id, records.length);
        records.push({ atWallMs, bootId, dry, decision, reasons, ...rest });
        break;
      }
      case 'observation': {
        const { atMs, signals, psi, scenario, others } = entry;
        const evidence = { atMs, signals, psi, scenario, ...(others === undefined ? {} : { others }) };
        for (const id of entry.of) change(id, () => ({ observation: evidence }));
        break;
      }
      case 'deferred':
        for (const id of entry.of) change(id, () => ({ isDeferred: true }));
        break;
      case 'outcome':
        change(entry.outcome.of, ({ outcomes, rungs }) => ({
          outcomes: [...outcomes, entry.outcome],
          rungs: rungsIn(entry.outcome).reduce(withRung, rungs),
        }));
        break;
      case 'note': {
        const { note } = entry;
        if (note.kind === 'evidence') change(note.of, () => ({ evidence: note }));
        else if (note.kind === 'rung') change(note.of, ({ rungs }) => ({ rungs: withRung(rungs, rungOf(note)) }));
        break;
      }
      case 'lost':
        break;
      default:
        assertNever(entry);
    }
  }
  return records;
}
