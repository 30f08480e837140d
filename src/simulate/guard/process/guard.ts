import type { GuardConfig } from '../../../core/guard/config.ts';
import { decideGuard, whyNotNow } from '../../../core/guard/decide.ts';
import type { GuardVerdict, NextGuardLook } from '../../../core/guard/decision.ts';
import { LOOK_WAIT_MS, NEWS_APART_MS } from '../../../core/guard/next-look.ts';
import type { DeviceAnswer, GuardObservation, GuardOutcome } from '../../../core/guard/observation.ts';
import { isAdopted } from '../../../core/guard/self.ts';
import { type GuardState, initialGuardState } from '../../../core/guard/state.ts';
import type { World } from '../world.ts';
import { createHands } from './hands.ts';
import { createKeeper } from './keeper.ts';
import { createLeading } from './leading.ts';
import type { Client, Clocks, Identity, Lifeline } from './lifeline.ts';
import { createSenses } from './senses.ts';

/** Records and orders are read at least so often. */
const RECORDS_EVERY_MS = 2_000;

type Parts = {
  readonly world: World;
  readonly config: GuardConfig;
  readonly identity: Identity;
  readonly lifeline: Lifeline;
  readonly clocks: Clocks;
  readonly client: Client;
  readonly isWitnessPossible: (node: string) => boolean;
  /** Every verdict of a leader. */
  readonly told: (verdict: GuardVerdict, state: GuardState) => void;
  /** Every look. */
  readonly looked: (look: SeenLook) => void;
};

/** As a live guard hands it over. */
export type SeenLook = {
  readonly observation: GuardObservation;
  readonly verdict: GuardVerdict;
  readonly config: GuardConfig;
};

/** One process of a guard: it looks, decides with the real core, and carries out, all in virtual time. */
export function startGuard(parts: Parts): void {
  const { config, identity, lifeline, clocks } = parts;
  const senses = createSenses(parts);
  let state = initialGuardState(clocks.monoMs(), config.settleMs);
  let next: NextGuardLook | null = null;
  let answers: DeviceAnswer[] = [];
  let outcomes: GuardOutcome[] = [];
  let adopting: number | null = null;
  let recordsMs = Number.NEGATIVE_INFINITY;
  let turn = 0;
  let isPoked = false;
  let recordsEpoch = 0;
  let decidedMs = Number.NEGATIVE_INFINITY;
  /** When the next look is due at the latest: news that come again and again do not put it off. */
  let dueMs = Number.POSITIVE_INFINITY;

  const leading = createLeading({ ...parts, recordsEpoch: () => recordsEpoch, changed: poke });
  const keeper = createKeeper({ ...parts, hasAuthority: leading.hasAuthority });
  const hands = createHands({
    ...parts,
    deadlineMs: config.deadlineMs,
    hasAuthority: leading.hasAuthority,
    whyNotNow: (of) => whyNotNow(state, observe([], []), config, of),
    outcome: (outcome) => {
      outcomes.push(outcome);
      poke();
    },
    answer: (answer) => {
      answers.push(answer);
      poke();
    },
  });

  /** News: the next decision is due at once, and once for all news of a moment. */
  function poke(): void {
    if (isPoked) return;
    isPoked = true;
    lifeline.after(Math.max(0, decidedMs + NEWS_APART_MS - clocks.monoMs()), decide);
  }

  function look(): void {
    const mine = ++turn;
    dueMs = Number.POSITIVE_INFINITY;
    const nowMs = clocks.monoMs();
    const isRecordsDue = nowMs - recordsMs >= RECORDS_EVERY_MS;
    if (isRecordsDue) recordsMs = nowMs;
    const view = leading.view();
    if (view.isLeader && adopting !== view.epoch) {
      adopting = view.epoch;
      senses.forgetKept();
    }
    const wanted = { records: isRecordsDue, kept: view.isLeader && !senses.kept().known };
    senses.refresh(next, wanted, () => {
      if (turn === mine) decide();
    });
    lifeline.after(LOOK_WAIT_MS, () => {
      if (turn === mine) decide();
    });
  }

  const observe = (answers: GuardObservation['answers'], outcomes: GuardObservation['outcomes']): GuardObservation => ({
    atMs: clocks.monoMs(),
    wallMs: clocks.wallMs(),
    self: {
      writer: identity.writer,
      node: identity.node,
      leadership: leading.view(),
      lastWriteMs: leading.lastWriteMs(),
      uptimeMs: clocks.monoMs(),
    },
    nodes: senses.nodes(),
    records: senses.records(),
    kept: senses.kept(),
    asked: senses.asked(),
    attachments: senses.attachments(),
    answers,
    outcomes,
    orders: senses.orders(),
  });

  function decide(): void {
    isPoked = false;
    decidedMs = clocks.monoMs();
    turn += 1;
    const observation = observe(answers, outcomes);
    const { records } = observation;
    const view = observation.self.leadership;
    if (records.known) recordsEpoch = Math.max(0, ...records.value.map(({ record }) => record?.epoch ?? 0));
    const verdict = decideGuard(state, observation, config);
    answers = [];
    outcomes = [];
    state = verdict.state;
    next = verdict.next;
    if (view.isLeader) parts.told(verdict, state);
    parts.looked({ observation, verdict, config });
    for (const decision of verdict.decisions) {
      if (decision.kind === 'resign') leading.resign(decision.forMs);
    }
    hands.carryOut(verdict.decisions);
    if (isAdopted(state, { leadership: view }) && !config.dryRun) keeper.keep(state);
    hands.ask(verdict.next.status);
    const mine = turn;
    dueMs = Math.min(dueMs, clocks.monoMs() + Math.max(1, verdict.next.afterMs));
    lifeline.after(Math.max(0, dueMs - clocks.monoMs()), () => {
      if (turn === mine) look();
    });
  }

  leading.start();
  look();
}
