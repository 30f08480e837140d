import {
  AUTHORITY_MS,
  initialLeadership,
  type LeaderLease,
  type LeadershipObservation,
  stepLeadership,
} from '../../../core/guard/leadership.ts';
import type { LeadershipView } from '../../../core/guard/observation.ts';
import { unknown } from '../../../core/reading.ts';
import type { World } from '../world.ts';
import type { Client, Clocks, Identity, Lifeline } from './lifeline.ts';

export const LEADER_LEASE = 'nodewarden-guard';
/** guard.md 7.1: so much ahead of the monotonic clock is a sleep, or a clock that was set. */
const JUMP_MS = 2_000;

export type Leading = {
  readonly start: () => void;
  readonly view: () => LeadershipView;
  /** Its own clock still says that it may act. */
  readonly hasAuthority: () => boolean;
  readonly lastWriteMs: () => number | null;
  readonly resign: (forMs: number) => void;
};
type Parts = {
  readonly world: Pick<World, 'agenda' | 'store' | 'tell'>;
  readonly identity: Identity;
  readonly lifeline: Lifeline;
  readonly clocks: Clocks;
  readonly client: Client;
  readonly recordsEpoch: () => number;
  readonly changed: () => void;
};

/** Runs for the guards' lease, and keeps it. */
export function createLeading({ world, identity, lifeline, clocks, client, recordsEpoch, changed }: Parts): Leading {
  const { store, agenda } = world;
  let state = initialLeadership(clocks.monoMs());
  let view: LeadershipView = { isLeader: false };
  let lease: LeadershipObservation['lease'] = unknown('not-asked', LEADER_LEASE, 'not read yet');
  let wrote: LeadershipObservation['wrote'] = null;
  let resignForMs: number | null = null;
  let lastWriteMs: number | null = null;
  let skewMs = clocks.wallMs() - clocks.monoMs();
  let due = 0;

  function current(): LeaderLease | null {
    const stored = store.read(LEADER_LEASE);
    if (stored === null) return null;
    return { ...(stored.value as Omit<LeaderLease, 'version'>), version: String(stored.version) };
  }

  function step(): void {
    const atMs = clocks.monoMs();
    const nowSkewMs = clocks.wallMs() - atMs;
    const isJumped = nowSkewMs - skewMs > JUMP_MS;
    skewMs = nowSkewMs;
    const did = stepLeadership(state, {
      atMs,
      writer: identity.writer,
      configHash: 'same',
      lease,
      wrote,
      recordsEpoch: recordsEpoch(),
      isJumped,
      resignForMs,
    });
    wrote = null;
    // A write that is under way is awaited first, and this then comes before the next one.
    if (did.write !== null || did.state.writing === null) resignForMs = null;
    state = did.state;
    tell(did.view);
    view = did.view;
    if (did.write !== null) write(did.write);
    if (did.wantsRead) read();
    const mine = ++due;
    lifeline.after(did.afterMs, () => {
      if (due === mine) step();
    });
  }

  function tell(next: LeadershipView): void {
    const isNew = next.isLeader && (!view.isLeader || view.epoch !== next.epoch);
    const { writer: guard } = identity;
    if (next.isLeader && (isNew || (view.isLeader && view.authorityUntilMs !== next.authorityUntilMs))) {
      const sentMs = agenda.now() - (clocks.monoMs() - (next.authorityUntilMs - AUTHORITY_MS));
      world.tell({ kind: 'leads', atMs: agenda.now(), guard, sentMs, isNew });
    }
    if (!next.isLeader && view.isLeader) world.tell({ kind: 'gives-up', atMs: agenda.now(), guard });
    if (isNew || next.isLeader !== view.isLeader) lifeline.after(0, changed);
  }

  function write({ lease: value, replaces }: NonNullable<ReturnType<typeof stepLeadership>['write']>): void {
    const sentMs = clocks.monoMs();
    const isStored = (): LeaderLease | null =>
      store.write(LEADER_LEASE, replaces === null ? null : Number(replaces), value) ? current() : null;
    client.ask(
      () => ({ stored: isStored() }),
      (answer) => {
        if (answer === null) wrote = { sentMs, kind: 'failed' };
        else if (answer.stored === null) wrote = { sentMs, kind: 'conflict' };
        else {
          lastWriteMs = Math.max(lastWriteMs ?? sentMs, sentMs);
          wrote = { sentMs, kind: 'stored', lease: answer.stored };
        }
        step();
      },
    );
  }

  function read(): void {
    const asOfMs = clocks.monoMs();
    client.ask(
      () => ({ value: current(), asOfMs }),
      (answer) => {
        lease = answer === null ? unknown('timed-out', LEADER_LEASE, 'no answer') : { known: true, value: answer };
      },
    );
  }

  return {
    start: step,
    view: () => view,
    hasAuthority: () => view.isLeader && clocks.monoMs() < view.authorityUntilMs,
    lastWriteMs: () => lastWriteMs,
    resign: (forMs) => {
      resignForMs = forMs;
      step();
    },
  };
}
