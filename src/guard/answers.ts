import type { OrderAnswer } from '../core/guard/decision.ts';
import { sleep } from '../host/clock.ts';
import { GUARD_ORDERS, isOrdered, withAnswer } from './orders.ts';
import { type OwnMapNeeds, readOwnMap } from './own-map.ts';

/** A person waits 30 s for it, and the core may have taken some of it. */
const TRY_FOR_MS = 25_000;
const AGAIN_MS = 250;

/** Stores answers in `guard-orders`, one after the other, however often a person writes in between. */
export type Answers = {
  /** As a `GuardOutcome` has it. `conflict`: nobody waits for it any more. */
  readonly store: (id: string, answer: OrderAnswer) => Promise<AnswerEnd>;
};

type AnswerEnd = { readonly kind: 'stored'; readonly version: string } | { readonly kind: 'conflict' | 'failed' };

export function createAnswers(needs: OwnMapNeeds): Answers {
  const { clock, writes, mayAct, failed } = needs;
  let turn: Promise<unknown> = Promise.resolve();

  async function store(id: string, answer: OrderAnswer): Promise<AnswerEnd> {
    const untilMs = clock.monoMs() + TRY_FOR_MS;
    const answered = { answer, wallMs: clock.wallMs() };
    for (;;) {
      const read = await readOwnMap(needs, GUARD_ORDERS);
      if (read.kind === 'read' && (read.version === null || !isOrdered(read.data, id))) return { kind: 'conflict' };
      if (!mayAct()) return { kind: 'failed' };
      const put =
        read.kind === 'read'
          ? await writes.putMap(GUARD_ORDERS, withAnswer(read.data, id, answered), read.version, read.labels)
          : read;
      if (put.kind === 'stored') return { kind: 'stored', version: put.version };
      if (clock.monoMs() >= untilMs) {
        failed(`${GUARD_ORDERS}: ${put.detail}`);
        return { kind: 'failed' };
      }
      await sleep(clock, AGAIN_MS * (0.5 + Math.random()));
    }
  }
  return {
    store: (id, answer) => {
      const mine = turn.then(() => store(id, answer));
      turn = mine.catch(() => undefined);
      return mine;
    },
  };
}
