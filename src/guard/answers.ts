import type { OrderAnswer } from '../core/guard/decision.ts';
import { sleep } from '../host/clock.ts';
import { GUARD_ORDERS, isOrdered, withAnswer } from './orders.ts';
import { type OwnMapNeeds, readOwnMap } from './own-map.ts';

/** A person waits 30 s for it, and the core may have taken some of it. */
const TRY_FOR_MS = 25_000;
const AGAIN_MS = 250;

/** Stores answers in `guard-orders`, one after the other, however often a person writes in between. */
export type Answers = {
  /** The new version of `guard-orders`; null: not stored, or nobody waits for it any more. */
  readonly store: (id: string, answer: OrderAnswer) => Promise<string | null>;
};

export function createAnswers(needs: OwnMapNeeds): Answers {
  const { clock, writes, mayAct, failed } = needs;
  let turn: Promise<unknown> = Promise.resolve();

  async function store(id: string, answer: OrderAnswer): Promise<string | null> {
    const untilMs = clock.monoMs() + TRY_FOR_MS;
    const answered = { answer, wallMs: clock.wallMs() };
    for (;;) {
      const read = await readOwnMap(needs, GUARD_ORDERS);
      if (read.kind === 'read' && (read.version === null || !isOrdered(read.data, id))) return null;
      if (!mayAct()) return null;
      const put =
        read.kind === 'read'
          ? await writes.putMap(GUARD_ORDERS, withAnswer(read.data, id, answered), read.version, read.labels)
          : read;
      if (put.kind === 'stored') return put.version;
      if (clock.monoMs() >= untilMs) {
        failed(`${GUARD_ORDERS}: ${put.detail}`);
        return null;
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
