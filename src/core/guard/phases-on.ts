import type { MonoMs } from '../reading.ts';
import { type MethodKey, planOf } from './config.ts';
import { isFreedNews } from './freed.ts';
import { OUTDATED } from './levels.ts';
import { livesAfterProof, offKnownUntilMs, proofLost, untellFirst } from './phase-proven.ts';
import { keptOff } from './rate.ts';
import type { FencingRecord, Phase } from './record.ts';
import { hearsOthersUntilMs, liedOff, rehearsedBy } from './rehearsal.ts';
import type { Fencing } from './state.ts';
import {
  answeredByMs,
  ask,
  DELETED,
  go,
  ledForMs,
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
  refutersOf,
  saidSince,
  stay,
  staysOff,
  type Turn,
  type Turned,
  WATCH_MS,
} from './turn.ts';
import { isNothing, leftOf } from './worth.ts';

/** k/k podgc runs every 20 s, and works from a cache. */
const UNTAINTED_MS = 25_000;
/** Between two `on` of a device that says off. */
const ON_AGAIN_MS = 60_000;
/** An `off` of which nobody heard the end may take effect for so long after the `on` that followed it, as from the queue of a BMC. */
const LATE_OFF_MS = 120_000;

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
  const { record, fencing, observation, config, state } = turn;
  const living = livesAfterProof(turn);
  if (living !== null) return living;
  const left = leftOf(record.node, observation, fencing.sinceMs);
  if (left.known && isNothing(left.value)) return go('untainting', {}, { kind: 'untell' });
  if (observation.atMs >= offKnownUntilMs(turn)) return proofLost(turn);
  const dueMs = ledForMs(state, fencing.sinceMs, config.drainWaitMs);
  const asks = { status: refutersOf(record), againMs: WATCH_MS, stuck: true };
  if (observation.atMs < dueMs) return ask(asks, dueMs);
  const free = left.known ? left.value : { pods: [], attachments: [] };
  const reasons = [{ code: 'not-drained', node: record.node, fencing: record.id, left: free } as const];
  if (staysOff(record) === null) return go('untainting', { why: 'not-drained' }, { kind: 'untell' }, { reasons });
  return { ...ask(asks), reasons, isOverdue: true };
}

function untainting(turn: Turn): Turned {
  const { record, fencing, observation, state } = turn;
  const untold = untellFirst(turn);
  if (untold !== null) return untold;
  const isAlive = record.isAlive || lifeSign(turn) !== null;
  const dueMs = ledForMs(state, fencing.sinceMs, UNTAINTED_MS);
  if (!isAlive && observation.atMs < dueMs) return stay({ dueMs });
  if (isAlive) return owedOn(record).length > 0 ? powerOn(record, { isAlive }) : go('booting', { isAlive });
  const why = staysOff(record);
  if (why !== null) return go('left-off', { staysOff: why });
  return powerOn(record, {});
}

/** An `on` for everything that got an `off`; for a person's order also without one. */
export function powerOn(record: FencingRecord, change: Partial<FencingRecord>): Turned & { readonly move: Move } {
  const meant = record.offSent.length > 0 ? record : { ...record, offSent: levelOf(record) };
  const move: Move = { to: 'on-sent', change: { ...change, ...onChange(meant) }, act: onAct(meant) };
  return { ...stay(), move };
}

/** It is to be sent still, by whoever leads. */
export const isUnsent = ({ record, acted }: Fencing): boolean =>
  record.onSent.length === 0 || acted?.kind === 'not-begun';

function onSent(turn: Turn): Turned {
  const { record, fencing, observation, config, state } = turn;
  const { atMs } = observation;
  const sinceMs = fencing.isTakenOver ? predecessorEndsMs(turn, stepsSent(record)) : fencing.sinceMs;
  if (atMs < sinceMs) return stay({ dueMs: sinceMs });
  if (isUnsent(fencing)) return powerOn(record, {});
  const isOutdated = record.why === OUTDATED;
  // Of its power, its life says more. What became of its storage only the fabric says.
  const power = isOutdated || lifeSign(turn) !== null ? [] : record.plan.levels.flat();
  const asked = [...fabricOf(turn), ...power.filter((method) => record.onSent.includes(method))];
  const said = eachSaid(turn, asked, sinceMs);
  if (said.every((says) => says === 'on')) return go(isOutdated ? 'aborted' : 'booting');
  const isOff = said.includes('off');
  const againMs = sinceMs + (fencing.isTakenOver ? 0 : ON_AGAIN_MS);
  if (isOff && atMs >= againMs) {
    return record.onAttempt < config.recovery.attempts ? powerOn(record, {}) : go('not-back', { why: 'on-refused' });
  }
  const givesUpMs = Math.max(answeredByMs(turn, sinceMs), ledForMs(state, sinceMs, config.recovery.bootTimeMs));
  if (atMs >= givesUpMs) return go('not-back', { why: 'power-unknown' });
  return ask({ status: asked, againMs: ROUND_MS }, isOff ? againMs : givesUpMs);
}

/** What gives the machine its storage back: without it, a node that is Ready is not back. What left the configuration is let go. */
function fabricOf({ record: { node, plan, onSent: sent }, config }: Turn): readonly MethodKey[] {
  const now = planOf(config, node.name)?.isolation ?? [];
  return plan.isolation.filter((method) => sent.includes(method) && now.includes(method));
}

/** What each of the methods said last to a status begun at `sinceMs` or later; null: neither on nor off. */
const eachSaid = (turn: Turn, methods: readonly MethodKey[], sinceMs: MonoMs) =>
  methods.map((method) => saidSince(turn, [method], sinceMs)?.[0]?.says ?? null);

/** An `on` of isolation and power is one run after the other (see `onAct`), each up to its deadline. */
const stepsSent = ({ plan, onSent: sent }: FencingRecord): number =>
  [plan.isolation, ...plan.levels].filter((step) => step.some((method) => sent.includes(method))).length;

function booting(turn: Turn): Turned {
  const { record, fencing, observation, config, state } = turn;
  const { atMs } = observation;
  const unheard = unheardOff(record);
  const isOff = eachSaid(turn, unheard, fencing.sinceMs).includes('off');
  const isAgain = isOff && atMs >= fencing.sinceMs + ON_AGAIN_MS;
  if (isAgain && record.onAttempt < config.recovery.attempts) return powerOn(record, {});
  const back = backOf(turn);
  const watch = { status: unheard, againMs: WATCH_MS };
  if (back?.move === null) return ask(watch, back.dueMs);
  const dueMs = ledForMs(state, fencing.sinceMs, config.recovery.bootTimeMs);
  const isLate = atMs >= dueMs;
  if (back !== null && (isLate || isSurelyOn(turn, unheard))) return back;
  return isLate ? go('not-back', { why: 'not-ready' }) : ask(watch, dueMs);
}

/** Methods of power that got an `off` of which nobody heard that it had its effect: it may have it yet. */
const unheardOff = ({ plan, offSent, offHeard, proof }: FencingRecord): readonly MethodKey[] =>
  proof !== null ? [] : plan.levels.flat().filter((method) => offSent.includes(method) && !offHeard.includes(method));

/** No such `off` has struck since it was Ready: it lives, and its devices, as far as they answer, say on. */
function isSurelyOn(turn: Turn, unheard: readonly MethodKey[]): boolean {
  if (unheard.length === 0) return true;
  const { fencing, memory, observation, config } = turn;
  const readyMs = (fencing.readyMs ?? observation.atMs) + config.recovery.stableForMs;
  const sinceMs = Math.max(readyMs, fencing.sinceMs + LATE_OFF_MS);
  if (memory.signMs === null || memory.signMs < sinceMs) return false;
  const said = eachSaid(turn, unheard, sinceMs);
  return (
    said.every((says) => says === 'on') || (!said.includes('off') && observation.atMs >= answeredByMs(turn, sinceMs))
  );
}

/** Stays visible until the node is back by somebody else's hand. */
function leftOff(turn: Turn): Turned {
  const { record, fencing, observation, config } = turn;
  const owed = owedOn(record);
  if (owed.length > 0 && lifeSign(turn) !== null) return powerOn(record, { isAlive: true });
  const back = backOf(turn);
  if (back === null && record.staysOff === DELETED) return listedAgain(turn);
  if (back === null) return isFreedNews(fencing, observation) ? go(record.phase) : stay();
  const fabric = fabricOf(turn);
  const said = eachSaid(turn, fabric, fencing.sinceMs);
  if (back.move === null || said.every((says) => says === 'on')) return back;
  const isAgain = said.includes('off') && record.onAttempt < config.recovery.attempts;
  return isAgain ? powerOn(record, {}) : ask({ status: fabric, againMs: ON_AGAIN_MS });
}

/** Its Node is there, so it was not deleted: what it was left at goes on. */
const listedAgain = ({ record, ...look }: Turn): Turned =>
  go(record.onSent.length > 0 ? 'on-sent' : 'proving', { staysOff: keptOff(look, record.node.uid, record.id) });

/** guard.md 9.3: Ready for long enough with another boot; the same one means that the machine never lost its power. */
function backOf(turn: Turn): Turned | null {
  const { record, fencing, memory, observation, config } = turn;
  if (fencing.readyMs === null || (lifeSign(turn) === null && !livesOn(turn))) return null;
  const dueMs = fencing.readyMs + config.recovery.stableForMs;
  if (observation.atMs < dueMs) return stay({ dueMs });
  const clear = { kind: 'clear' } as const;
  const isSameBoot = memory.object.bootId === record.node.bootId;
  if (!isSameBoot) {
    const othersMs = hearsOthersUntilMs(turn);
    if (othersMs !== null) return stay({ dueMs: othersMs });
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
