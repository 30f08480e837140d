import type { MonoMs } from '../reading.ts';
import type { GuardReason } from './decision.ts';
import { withFreed } from './freed.ts';
import type { DeviceAnswer, GuardObservation, GuardOutcome } from './observation.ts';
import type { FencingId, FencingRecord, RecordedAnswer, StoredRecord } from './record.ts';
import { type Fencing, type GuardState, nodeOrSuccessor, UNSEEN } from './state.ts';

/** A record that this process stored may be missing for this long from what it reads. */
const READ_LAG_MS = 10_000;
const MAX_ANSWERS = 40;

type Fencings = GuardState['fencings'];
type FencingsStep = { readonly fencings: Fencings; readonly reasons: readonly GuardReason[] };

/** The open fencings after the outcomes, records and answers of this look. */
export function stepFencings(
  state: Pick<GuardState, 'fencings' | 'nodes' | 'self'>,
  observation: GuardObservation,
): FencingsStep {
  const { atMs, wallMs, outcomes, records, answers, self } = observation;
  if (state.fencings.size === 0 && outcomes.length === 0 && !(records.known && records.value.some(isOpen))) {
    return { fencings: state.fencings, reasons: [] };
  }
  const fencings = new Map(state.fencings);
  const reasons: GuardReason[] = [];
  for (const outcome of outcomes) settle(fencings, outcome, wallMs, reasons);
  if (records.known) {
    for (const stored of records.value) adopt(fencings, stored, self.writer, atMs, reasons);
    dropDeleted(fencings, records.value, atMs);
  }
  for (const [id, fencing] of fencings) {
    const heard = withFreed(withAnswers(fencing, answers, wallMs), observation, state.self);
    fencings.set(id, withNode(heard, state, atMs));
  }
  return { fencings, reasons };
}

const isOpen = ({ record }: StoredRecord): boolean => record !== null && record.phase !== 'closed';

function settle(
  fencings: Map<FencingId, Fencing>,
  { of, fencing: id, atMs, store, act }: GuardOutcome,
  wallMs: number,
  reasons: GuardReason[],
): void {
  const fencing = id === null ? undefined : fencings.get(id);
  if (id === null || fencing?.pending?.decision !== of || store === null) return;
  const { pending } = fencing;
  if (store.kind !== 'stored') {
    if (store.kind === 'conflict') reasons.push({ code: 'conflict', node: fencing.record.node, fencing: id });
    // Whoever created it instead, or whether it was created, shows in the records.
    if (fencing.version === null) fencings.delete(id);
    else fencings.set(id, { ...fencing, pending: null, failedMs: atMs });
    return;
  }
  const { becomes } = pending;
  reasons.push(...failuresOf(becomes, act));
  fencings.set(id, {
    ...fencing,
    record: {
      ...becomes,
      answers: withRuns(becomes, act, wallMs),
      ...(act?.kind === 'not-begun' && sentOf(fencing.record)),
    },
    version: store.version,
    sinceMs: atMs,
    phaseSinceMs: becomes.phase === fencing.record.phase ? fencing.phaseSinceMs : atMs,
    decidedMs: pending.atMs,
    isTakenOver: false,
    pending: null,
    acted: act,
    offBegunMs: fencing.offBegunMs ?? offBegunMs(becomes, act),
    offReturnedMs: becomes.phase === 'off-sent' && act?.kind === 'ran' ? atMs : fencing.offReturnedMs,
    failedMs: act?.kind === 'failed' || act?.kind === 'not-begun' ? atMs : null,
    freedSinceMs: freedSinceMs(fencing, becomes, atMs),
    isOverdue: becomes.phase === fencing.record.phase && fencing.isOverdue,
    readyMs: null,
  });
}

/** Before its first taint nothing was freed; while it has `failed`, nobody looks. */
function freedSinceMs(
  { record, freedSinceMs: before }: Fencing,
  { phase }: FencingRecord,
  atMs: MonoMs,
): MonoMs | null {
  if (phase === 'failed') return null;
  const isFirst = phase === 'proven' && !record.steps.some((step) => step.phase === 'proven');
  return isFirst ? atMs : before;
}

/** What was stored as sent and was never begun was not sent. */
const sentOf = ({ offSent, onSent, onAttempt }: FencingRecord): Partial<FencingRecord> => ({
  offSent,
  onSent,
  onAttempt,
});

function offBegunMs({ phase }: FencingRecord, act: GuardOutcome['act']): MonoMs | null {
  if (act?.kind !== 'ran' || act.runs.length === 0 || phase === 'on-sent') return null;
  return Math.min(...act.runs.map(({ begunMs }) => begunMs));
}

function failuresOf({ node, id }: FencingRecord, act: GuardOutcome['act']): readonly GuardReason[] {
  if (act?.kind === 'failed') return [{ code: 'act-failed', node, fencing: id, detail: act.detail }];
  if (act?.kind !== 'ran') return [];
  return act.runs.flatMap(({ isOk, method, detail }) =>
    isOk ? [] : [{ code: 'agent-failed', node, fencing: id, method, detail } as const],
  );
}

function withRuns(
  { answers, phase }: FencingRecord,
  act: GuardOutcome['act'],
  wallMs: number,
): FencingRecord['answers'] {
  if (act?.kind !== 'ran') return answers;
  const said = act.runs.map(
    ({ method, isOk, begunMs, endedMs }): RecordedAnswer => ({
      method,
      act: phase === 'on-sent' ? 'on' : 'off',
      says: isOk ? 'ok' : 'error',
      phase,
      wallMs,
      tookMs: endedMs - begunMs,
    }),
  );
  return [...answers, ...said].slice(-MAX_ANSWERS);
}

/** A record that is newer than what this process knows was written by another one, or by itself without its knowledge. */
function adopt(
  fencings: Map<FencingId, Fencing>,
  { id, version, record }: StoredRecord,
  writer: string,
  atMs: MonoMs,
  reasons: GuardReason[],
): void {
  const known = fencings.get(id);
  if (record === null) {
    // Nothing of it can be stored any more. Its marks are removed as those of none.
    if (known?.pending === null) fencings.delete(id);
    return;
  }
  if (known === undefined && record.phase === 'closed') return;
  // The outcome of what is under way will say who was first.
  if (known !== undefined && known.pending !== null) return;
  if (known !== undefined && isOlder(record, known.record)) {
    // What this process knows stands (G4). Not read late, it was put back by somebody: it is replaced by the next store.
    if (known.version !== version && atMs - known.sinceMs > READ_LAG_MS) fencings.set(id, { ...known, version });
    return;
  }
  if (record.phase === 'closed') {
    fencings.delete(id);
    return;
  }
  if (known?.record.revision === record.revision && (known.version === version || isSame(record, known.record))) {
    // Somebody labelled its ConfigMap.
    if (known.version !== version) fencings.set(id, { ...known, version });
    return;
  }
  if (record.writer === writer && known === undefined) {
    reasons.push({ code: 'own-found', node: record.node, fencing: id });
  } else if (record.writer !== writer) {
    reasons.push({ code: 'taken-over', node: record.node, fencing: id, phase: record.phase, by: record.writer });
  }
  fencings.set(id, {
    record,
    version,
    sinceMs: atMs,
    phaseSinceMs: known?.record.phase === record.phase ? known.phaseSinceMs : atMs,
    decidedMs: atMs,
    isTakenOver: true,
    pending: null,
    ...UNSEEN,
  });
}

const isOlder = (record: FencingRecord, known: FencingRecord): boolean =>
  record.revision < known.revision && record.epoch <= known.epoch;

/** But for what this process has not stored yet, or what it stored as sent and was not begun. */
const isSame = (record: FencingRecord, known: FencingRecord): boolean => {
  const { answers, freed, offSent, onSent, onAttempt, ...stored } = record;
  return Object.entries(stored).every(
    ([field, value]) => JSON.stringify(value) === JSON.stringify(known[field as keyof FencingRecord]),
  );
};

/** Somebody deleted the ConfigMap: the fencing is over, and its marks are removed as those of none (guard.md 14). */
function dropDeleted(fencings: Map<FencingId, Fencing>, records: readonly StoredRecord[], atMs: MonoMs): void {
  const ids = new Set(records.map(({ id }) => id));
  for (const [id, { pending, sinceMs }] of fencings) {
    if (pending === null && !ids.has(id) && atMs - sinceMs > READ_LAG_MS) fencings.delete(id);
  }
}

function withAnswers(fencing: Fencing, answers: readonly DeviceAnswer[], wallMs: number): Fencing {
  const { record } = fencing;
  const mine = answers.filter(({ node }) => node === record.node.uid);
  if (mine.length === 0) return fencing;
  const said = mine.map(
    ({ method, says, begunMs, endedMs }): RecordedAnswer => ({
      method,
      act: 'status',
      says,
      phase: record.phase,
      wallMs,
      tookMs: endedMs - begunMs,
    }),
  );
  return { ...fencing, record: { ...record, answers: [...record.answers, ...said].slice(-MAX_ANSWERS) } };
}

/** Since when its node is alive and Ready, as this process saw it; if that was deleted, the one made anew with its name. */
function withNode(fencing: Fencing, { nodes }: Pick<GuardState, 'nodes'>, atMs: MonoMs): Fencing {
  const memory = nodeOrSuccessor(fencing.record.node, nodes);
  const isBack = memory?.facts.isReady === true && memory.signMs !== null && !memory.isSuspect;
  const readyMs = isBack ? (fencing.readyMs ?? atMs) : null;
  return readyMs === fencing.readyMs ? fencing : { ...fencing, readyMs };
}
