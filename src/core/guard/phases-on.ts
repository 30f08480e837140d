import { isFreedNews } from './freed.ts';
import { OUTDATED } from './outdated.ts';
import { livesAfterProof, offKnownUntilMs, proofLost } from './phase-proven.ts';
import type { FencingRecord, Phase, StaysOff } from './record.ts';
import { liedOff, rehearsedBy } from './rehearsal.ts';
import {
  ask,
  go,
  levelOf,
  lifeSign,
  livesOn,
  type Move,
  nodeOf,
  onAct,
  onChange,
  owedOn,
  predecessorEndsMs,
  ROUND_MS,
  saidSince,
  stay,
  type Turn,
  type Turned,
  WATCH_MS,
  watchedOf,
} from './turn.ts';
import { isNothing, leftOf } from './worth.ts';

/** k/k podgc runs every 20 s, and works from a cache. */
const UNTAINTED_MS = 25_000;
/** Between two `on` of a device that says off. */
const ON_AGAIN_MS = 60_000;

type OnPhase = Extract<Phase, 'tainted' | 'untainting' | 'on-sent' | 'booting' | 'left-off' | 'not-back' | 'closed'>;

/** From the taint to the end: the rows of guard.md 7.3. */
export const ON_PHASES: { readonly [P in OnPhase]: (turn: Turn) => Turned } = {
  tainted,
  untainting,
  'on-sent': onSent,
  booting,
  'left-off': leftOff,
  'not-back': leftOff,
  closed: () => stay(),
};

/** It stays until everything of the node is free. */
function tainted(turn: Turn): Turned {
  const { record, fencing, observation, config } = turn;
  const living = livesAfterProof(turn);
  if (living !== null) return living;
  const left = leftOf(record.node, observation, fencing.sinceMs);
  if (left.known && isNothing(left.value)) return go('untainting', {}, { kind: 'untell' });
  if (observation.atMs >= offKnownUntilMs(turn)) return proofLost(turn);
  const dueMs = fencing.sinceMs + config.drainWaitMs;
  const asks = { status: watchedOf(record), againMs: WATCH_MS, stuck: true };
  if (observation.atMs < dueMs) return ask(asks, dueMs);
  const free = left.known ? left.value : { pods: [], attachments: [] };
  const reasons = [{ code: 'not-drained', node: record.node, fencing: record.id, left: free } as const];
  if (staysOff(record) === null) return go('untainting', { why: 'not-drained' }, { kind: 'untell' }, { reasons });
  return { ...ask(asks), reasons, isOverdue: true };
}

function untainting(turn: Turn): Turned {
  const { record, fencing, observation } = turn;
  if (fencing.acted?.kind !== 'patched') return go('untainting', {}, { kind: 'untell' });
  const isAlive = record.isAlive || lifeSign(turn) !== null;
  const dueMs = fencing.sinceMs + UNTAINTED_MS;
  if (!isAlive && observation.atMs < dueMs) return stay({ dueMs });
  if (isAlive) return owedOn(record).length > 0 ? powerOn(record, { isAlive }) : go('booting', { isAlive });
  const why = staysOff(record);
  if (why !== null) return go('left-off', { staysOff: why });
  return isUnderForeignTaint(turn) ? stay() : powerOn(record, {});
}

/** Kubernetes deletes by force what starts under it. Whoever set it takes it back (G11). A living machine is not off. */
export const isUnderForeignTaint = (turn: Turn): boolean =>
  turn.memory.facts.foreignOutOfService !== null && !turn.record.isAlive && lifeSign(turn) === null;

/** Why the machine is not to be switched on; null: it is. Only what this fencing switched off is switched on. */
export function staysOff({ staysOff: said, proof, offSent, why }: FencingRecord): StaysOff | null {
  if (why === 'power-on') return null;
  if (said !== null) return said;
  if (proof?.by === 'person') return 'person';
  return offSent.length === 0 ? 'nothing-sent' : null;
}

/** An `on` for everything that got an `off`; for a person's order also without one. */
export function powerOn(record: FencingRecord, change: Partial<FencingRecord>): Turned & { readonly move: Move } {
  const meant = record.offSent.length > 0 ? record : { ...record, offSent: levelOf(record) };
  const move: Move = { to: 'on-sent', change: { ...change, ...onChange(meant) }, act: onAct(meant) };
  return { ...stay(), move };
}

function onSent(turn: Turn): Turned {
  const { record, fencing, observation, config } = turn;
  const { atMs } = observation;
  const sinceMs = fencing.isTakenOver ? predecessorEndsMs(turn, stepsSent(record)) : fencing.sinceMs;
  if (atMs < sinceMs) return stay({ dueMs: sinceMs });
  if (fencing.acted?.kind === 'not-begun') {
    return isUnderForeignTaint(turn) ? stay() : go('on-sent', {}, onAct(record));
  }
  if (record.why === OUTDATED) return go('aborted');
  const power = record.plan.levels.flat().filter((method) => record.onSent.includes(method));
  const said = saidSince(turn, power, sinceMs);
  if (said?.every(({ says }) => says === 'on') || lifeSign(turn) !== null) return go('booting');
  const isOff = said?.some(({ says }) => says === 'off') === true;
  const againMs = sinceMs + (fencing.isTakenOver ? 0 : ON_AGAIN_MS);
  if (isOff && atMs >= againMs) {
    return record.onAttempt < config.recovery.attempts ? powerOn(record, {}) : go('not-back', { why: 'on-refused' });
  }
  const givesUpMs = sinceMs + config.recovery.bootTimeMs;
  if (atMs >= givesUpMs) return go('not-back', { why: 'power-unknown' });
  return ask({ status: power, againMs: ROUND_MS }, isOff ? againMs : givesUpMs);
}

/** An `on` of isolation and power is one run after the other (see `onAct`), each up to its deadline. */
const stepsSent = ({ plan, onSent: sent }: FencingRecord): number =>
  [plan.isolation, ...plan.levels].filter((step) => step.some((method) => sent.includes(method))).length;

function booting(turn: Turn): Turned {
  const { fencing, observation, config } = turn;
  const back = backOf(turn);
  if (back !== null) return back;
  const dueMs = fencing.sinceMs + config.recovery.bootTimeMs;
  return observation.atMs < dueMs ? stay({ dueMs }) : go('not-back', { why: 'not-ready' });
}

/** Stays visible until the node is back by somebody else's hand. */
function leftOff(turn: Turn): Turned {
  const { record, fencing, observation } = turn;
  const owed = owedOn(record);
  if (owed.length > 0 && lifeSign(turn) !== null) return powerOn(record, { isAlive: true });
  return backOf(turn) ?? (isFreedNews(fencing, observation) ? go(record.phase) : stay());
}

/** guard.md 9.3: Ready for long enough with another boot; the same one means that the machine never lost its power. */
function backOf(turn: Turn): Turned | null {
  const { record, fencing, memory, observation, config } = turn;
  if (fencing.readyMs === null || (lifeSign(turn) === null && !livesOn(turn))) return null;
  const dueMs = fencing.readyMs + config.recovery.stableForMs;
  if (observation.atMs < dueMs) return stay({ dueMs });
  const clear = { kind: 'clear' } as const;
  const isSameBoot = memory.object.bootId === record.node.bootId;
  if (!isSameBoot) {
    const why = rehearsedBy(turn);
    if (why === null) return go('closed', {}, clear);
    return go('closed', { why }, clear, { rehearsed: why === 'rehearsed' ? levelOf(record) : [] });
  }
  const { wallMs } = observation;
  if (record.proof === null) {
    const liars = liedOff(record);
    const by = { why: 'off-while-alive', wallMs } as const;
    return go('closed', { why: 'alive' }, clear, { contradicts: liars.length === 0 ? null : { methods: liars, by } });
  }
  const reasons = [{ code: 'life-after-proof', node: nodeOf(turn), fencing: record.id, sign: 'same-boot' } as const];
  const by = { why: 'life-after-proof', wallMs } as const;
  const contradicts =
    record.proof.by === 'devices' ? { methods: record.plan.levels[record.proof.level] ?? [], by } : null;
  return go('closed', { why: 'life-after-proof' }, clear, { reasons, contradicts });
}
