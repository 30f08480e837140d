import type { Frees, GateRow, GuardDecision, GuardReason, Store } from './decision.ts';
import { heardOn } from './devices.ts';
import type { Look } from './gates.ts';
import type { DecisionId, FencingId, FencingRecord, Phase } from './record.ts';
import { type Fencing, type GuardState, UNSEEN } from './state.ts';
import type { Move } from './turn.ts';

/** One look so far. */
export type Progress = {
  readonly state: GuardState;
  readonly decisions: readonly GuardDecision[];
  readonly reasons: readonly GuardReason[];
};

/** Steps kept in a record: the first one, and the last of the others. */
const MAX_STEPS = 60;

type Kind = Extract<GuardDecision, { from: Phase }>['kind'];
/** What a decision is called that leads to the phase. */
const KINDS: { readonly [P in Phase]: Kind } = {
  decided: 'advance',
  isolating: 'advance',
  'off-sent': 'advance',
  proving: 'advance',
  proven: 'advance',
  tainted: 'advance',
  untainting: 'advance',
  'on-sent': 'recover',
  booting: 'advance',
  failed: 'advance',
  stuck: 'advance',
  aborted: 'abort',
  'left-off': 'leave-off',
  'not-back': 'advance',
  closed: 'close',
};

type Body = GuardDecision extends infer D ? (D extends GuardDecision ? Omit<D, 'id' | 'atMs'> : never) : never;

export const withDecision = (progress: Progress, look: Look, body: Body): Progress =>
  withDecisions(progress, look, [body]);

/** In a storm there may be thousands of one kind. */
export function withDecisions(progress: Progress, { observation }: Look, bodies: readonly Body[]): Progress {
  const { state, decisions } = progress;
  const { atMs } = observation;
  const more = bodies.map((body, i) => ({ id: String(state.nextDecision + i), atMs, ...body }) as GuardDecision);
  return {
    ...progress,
    state: { ...state, nextDecision: state.nextDecision + bodies.length },
    decisions: [...decisions, ...more],
  };
}

export const nextId = ({ nextDecision }: GuardState): DecisionId => String(nextDecision);

/** An arrow of an open fencing: the whole record is stored before the act begins. */
export function withMove(progress: Progress, look: Look, fencing: Fencing, move: Move): Progress {
  const { record } = fencing;
  const becomes = recordAfter(record, move, look);
  const store: Store = { fencing: record.id, record: becomes, replaces: fencing.version, act: move.act };
  const kind = move.kind ?? KINDS[move.to];
  const decided = withDecision(progress, look, { kind, node: record.node, from: record.phase, ...store });
  return withFencing(decided, record.id, {
    ...fencing,
    // What is sent now is waited for no more.
    isOverdue: fencing.isOverdue && move.to === record.phase && move.act?.kind !== 'on',
    pending: { decision: nextId(progress.state), atMs: look.observation.atMs, becomes },
  });
}

/** A new fencing, with every gate as it stood. In dry run it is told, and nothing more. */
export function withNewFencing(
  progress: Progress,
  look: Look,
  record: FencingRecord,
  why: { readonly gates: readonly GateRow[]; readonly frees: Frees | null },
): Progress {
  const { atMs, wallMs } = look.observation;
  const isDry = look.config.dryRun;
  const store: Store = { fencing: record.id, record, replaces: null, act: null };
  const decided = withDecision(progress, look, { kind: 'fence', node: record.node, isDry, ...why, ...store });
  const { state } = decided;
  if (isDry)
    return { ...decided, state: { ...state, dryFenced: with_(state.dryFenced, record.node.uid, { atMs, wallMs }) } };
  return withFencing(decided, record.id, {
    record,
    version: null,
    sinceMs: atMs,
    phaseSinceMs: atMs,
    decidedMs: atMs,
    isTakenOver: false,
    pending: { decision: nextId(progress.state), atMs, becomes: record },
    ...UNSEEN,
  });
}

export function withFencing(progress: Progress, id: FencingId, fencing: Fencing): Progress {
  const { state } = progress;
  return { ...progress, state: { ...state, fencings: with_(state.fencings, id, fencing) } };
}

export function with_<K, V>(map: ReadonlyMap<K, V>, key: K, value: V): ReadonlyMap<K, V> {
  return new Map(map).set(key, value);
}

/** Who writes it, and when, beside what changes. What is only written down, or patched, once more is no step. */
function recordAfter(record: FencingRecord, { to, change, act }: Move, { observation, state }: Look): FencingRecord {
  const { leadership, writer } = observation.self;
  const isCommand = act?.kind === 'off' || act?.kind === 'on';
  const isStep = to !== record.phase || isCommand;
  const steps = isStep ? [...record.steps, { phase: to, wallMs: observation.wallMs }] : record.steps;
  return {
    ...record,
    ...change,
    phase: to,
    cutWallMs: act?.kind === 'off' ? observation.wallMs : record.cutWallMs,
    offHeard: act?.kind === 'off' ? [] : (change.offHeard ?? record.offHeard),
    onHeard: heardOn(record.node.uid, record.plan, state.devices),
    revision: record.revision + 1,
    epoch: leadership.isLeader ? leadership.epoch : record.epoch,
    writer,
    steps: steps.length > MAX_STEPS ? [...steps.slice(0, 1), ...steps.slice(1 - MAX_STEPS)] : steps,
  };
}
