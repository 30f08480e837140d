import type { GuardDecision, GuardReason } from '../core/guard/decision.ts';
import type { GuardOutcome, LeadershipView } from '../core/guard/observation.ts';
import type { DecisionId, FencingId } from '../core/guard/record.ts';
import { nameOfNode } from '../core/guard/state.ts';
import type { MonoMs } from '../core/reading.ts';
import type { Log, LogEvent } from '../ports.ts';
import { sayGuardReason } from '../words/guard.ts';
import { sayGuardDecision, sayGuardOutcome, sayStorm } from '../words/guard-decision.ts';
import { isAnswered } from './effects.ts';
import type { GuardLook } from './loop.ts';

type Level = 'info' | 'warn' | 'error';
type Told = { readonly event: LogEvent; readonly level: Level };

const DECISIONS: { readonly [K in GuardDecision['kind']]: Told } = {
  fence: { event: 'fence', level: 'warn' },
  advance: { event: 'phase', level: 'info' },
  abort: { event: 'phase', level: 'info' },
  confirm: { event: 'phase', level: 'warn' },
  recover: { event: 'phase', level: 'info' },
  'leave-off': { event: 'phase', level: 'warn' },
  close: { event: 'phase', level: 'info' },
  hold: { event: 'hold', level: 'warn' },
  unmark: { event: 'fence', level: 'warn' },
  answer: { event: 'order', level: 'info' },
  resign: { event: 'leader', level: 'warn' },
};
/** Null: the outcome is told. */
const REASONS: { readonly [C in GuardReason['code']]: Told | null } = {
  settling: { event: 'settling', level: 'info' },
  'storm-began': { event: 'storm', level: 'error' },
  'storm-ended': { event: 'storm', level: 'warn' },
  'life-after-proof': { event: 'device', level: 'error' },
  'device-contradicted': { event: 'device', level: 'error' },
  'agent-failed': { event: 'device', level: 'warn' },
  'act-failed': null,
  'still-ready': { event: 'finding', level: 'warn' },
  'not-told': { event: 'fence', level: 'error' },
  'not-proven': { event: 'fence', level: 'warn' },
  'not-drained': { event: 'fence', level: 'warn' },
  'foreign-taint': { event: 'fence', level: 'warn' },
  conflict: null,
  'taken-over': { event: 'fence', level: 'info' },
  'own-found': { event: 'fence', level: 'info' },
  'unreadable-record': { event: 'fence', level: 'error' },
  'orphan-mark': { event: 'fence', level: 'warn' },
};

/**
 * Logs every decision and reason of a leader, and what became of a decision when it is over, which may be after it led. What
 * a standby sees is not told: nothing follows from it.
 */
export function createTeller(log: Log): (look: GuardLook) => void {
  let before: LeadershipView = { isLeader: false };
  /** Their outcomes are to come. */
  const awaited = new Map<DecisionId, GuardDecision>();
  const repeats = createRepeats();

  function tellLeadership(now: LeadershipView): void {
    const isNew = now.isLeader && (!before.isLeader || before.epoch !== now.epoch);
    if (now.isLeader && isNew) log.info({ event: 'leader', epoch: now.epoch }, `this guard leads (epoch ${now.epoch})`);
    if (!now.isLeader && before.isLeader)
      log.warn({ event: 'leader', epoch: before.epoch }, 'this guard leads no longer');
    before = now;
  }

  function tellOutcome(outcome: GuardOutcome): void {
    const decision = awaited.get(outcome.of);
    if (decision === undefined) return;
    awaited.delete(outcome.of);
    const text = sayGuardOutcome(decision, outcome);
    const { event, level } = DECISIONS[decision.kind];
    if (text !== null)
      log[isDone(outcome) ? level : 'warn']({ event, decision: decision.id, ...factsOf(decision) }, text);
  }

  return ({ observation, verdict }) => {
    const { leadership } = observation.self;
    tellLeadership(leadership);
    for (const outcome of observation.outcomes) {
      tellOutcome(outcome);
      repeats.ended(outcome);
    }
    if (!leadership.isLeader) return;
    const nameOf = (uid: string): string => nameOfNode(verdict.state.nodes, uid);
    const { atMs } = observation;
    for (const reason of verdict.reasons) {
      const told = REASONS[reason.code];
      const facts = factsOf(reason);
      if (told === null || repeats.isRepeated(facts.fencing, reason.code, atMs)) continue;
      const { event, level } = told;
      const isStorm = reason.code === 'storm-began' || reason.code === 'storm-ended';
      const text = isStorm
        ? sayStorm(reason.code === 'storm-ended', reason.kind, reason.scope, nameOf)
        : sayGuardReason(reason);
      if (text !== null) log[level]({ event, ...facts }, text);
    }
    for (const decision of verdict.decisions) {
      if (isAnswered(decision)) awaited.set(decision.id, decision);
      const { event, level } = DECISIONS[decision.kind];
      const facts = factsOf(decision);
      const to = 'record' in decision ? decision.record.phase : '';
      if (repeats.isRepeated(facts.fencing, `${decision.kind} ${to}`, atMs)) continue;
      const text = sayGuardDecision(decision);
      if (text !== null) log[level]({ event, decision: decision.id, ...facts }, text);
    }
  };
}

const REPEATED_EVERY_MS = 60_000;

/** A step of a fencing that cannot be stored is decided anew each second, and told once a minute. */
function createRepeats() {
  const told = new Map<FencingId, Map<string, MonoMs>>();
  const failing = new Set<FencingId>();
  return {
    isRepeated: (fencing: FencingId | undefined, what: string, atMs: MonoMs): boolean => {
      if (fencing === undefined) return false;
      const ofFencing = told.get(fencing) ?? new Map<string, MonoMs>();
      const toldMs = ofFencing.get(what);
      if (failing.has(fencing) && toldMs !== undefined && atMs - toldMs < REPEATED_EVERY_MS) return true;
      told.set(fencing, ofFencing.set(what, atMs));
      return false;
    },
    ended: ({ fencing, store }: Pick<GuardOutcome, 'fencing' | 'store'>): void => {
      if (fencing === null || store === null) return;
      if (store.kind === 'failed') failing.add(fencing);
      else {
        failing.delete(fencing);
        told.delete(fencing);
      }
    },
  };
}

/** Stored, and its act, if it has one, done as far as is known. */
function isDone({ store, act }: GuardOutcome): boolean {
  if (store !== null && store.kind !== 'stored') return false;
  if (act?.kind === 'ran') return act.runs.every(({ isOk }) => isOk);
  return act === null || act.kind === 'patched';
}

/** Which node and fencing a line is about, so that a journal can be searched for it. */
function factsOf(about: object): { readonly node?: string; readonly fencing?: string } {
  const node: unknown = Reflect.get(about, 'node');
  const fencing: unknown = Reflect.get(about, 'fencing');
  return {
    ...(typeof node === 'object' && node !== null && 'name' in node ? { node: String(node.name) } : {}),
    ...(typeof fencing === 'string' ? { fencing } : {}),
  };
}
