import {
  CONFIG_DIFFERS_MS,
  initialLeadership,
  LEASE_DURATION_MS,
  type LeadershipObservation,
  type LeadershipStep,
  stepLeadership,
} from '../core/guard/leadership.ts';
import type { LeadershipView } from '../core/guard/observation.ts';
import { known, type MonoMs, unknown } from '../core/reading.ts';
import { sleep } from '../host/clock.ts';
import type { ApiGet } from '../kube/api/connection.ts';
import { messageOf } from '../kube/api/line-stream.ts';
import { objectIn } from '../kube/api/object-list.ts';
import type { Clock, Findings } from '../ports.ts';
import { CONFIG_DIFFERS, configDiffers, leaseRefused, NOT_LEADING } from '../words/finding-guard.ts';
import { type GuardWrites, LEADER_LEASE } from './api-writes.ts';
import { readLeaderLease, writeLeaderLease } from './leader-lease.ts';

export type Leader = {
  /** Authority ends when it says, though it may still say that it leads. */
  readonly view: () => LeadershipView;
  /** When the last successful renewal was sent; null: none was. */
  readonly lastWriteMs: () => MonoMs | null;
  /** Who holds the lease and renews it, as last read; null: nobody, or not known. */
  readonly holder: () => string | null;
  /** Whether it is known who leads, also if that is nobody. */
  readonly isHolderKnown: () => boolean;
  readonly heldBack: () => LeadershipStep['heldBack'];
  /** Whether its Lease had this resourceVersion a moment ago, by a renewal of this process. */
  readonly hasJustHad: (version: string) => boolean;
  /** Give the lease back, and do not run for this long. */
  readonly resign: (forMs: number) => void;
  /** Gives the lease back, so that nobody has to wait for its end. */
  readonly close: () => Promise<void>;
};

type LeaderNeeds = {
  readonly connection: { readonly get: ApiGet };
  readonly writes: Pick<GuardWrites, 'putLease'>;
  readonly clock: Clock;
  readonly findings: Findings;
  readonly namespace: string;
  readonly writer: string;
  readonly isDryRun: () => boolean;
  readonly configHash: () => string;
  readonly recordsEpoch: () => number;
  /** It leads, or does so no longer. */
  readonly changed: () => void;
};

const DEADLINE_MS = 5_000;
/** guard.md 7.1: so much ahead of the monotonic clock is a sleep, or a clock that was set. */
const JUMP_MS = 2_000;
const GIVE_BACK_MS = 5_000;
/** A person reads the Lease, writes an order, and waits for 30 s. */
const JUST_HAD_MS = 45_000;
const NOT_FOUND = 404;

/** Runs for the guards' Lease, and keeps it. */
export function createLeader(needs: LeaderNeeds): Leader {
  const { connection, writes, clock, findings, writer } = needs;
  const path = `/apis/coordination.k8s.io/v1/namespaces/${needs.namespace}/leases/${LEADER_LEASE}`;
  let state = initialLeadership(clock.monoMs());
  let view: LeadershipView = { isLeader: false };
  let heldBack: LeadershipStep['heldBack'] = null;
  let lease: LeadershipObservation['lease'] = unknown('not-asked', path, 'not read yet');
  let wrote: LeadershipObservation['wrote'] = null;
  let resignForMs: number | null = null;
  let lastWriteMs: MonoMs | null = null;
  let renewals: readonly { readonly version: string; readonly sentMs: MonoMs }[] = [];
  let aheadMs = clock.wallMs() - clock.monoMs();
  let isReading = false;
  let isClosed = false;
  let cancel = (): void => undefined;

  function step(): void {
    cancel();
    const atMs = clock.monoMs();
    const nowAheadMs = clock.wallMs() - atMs;
    const did = stepLeadership(state, {
      ...{ atMs, writer, lease, wrote, resignForMs },
      configHash: needs.configHash(),
      recordsEpoch: needs.recordsEpoch(),
      isJumped: nowAheadMs - aheadMs > JUMP_MS,
    });
    aheadMs = nowAheadMs;
    wrote = null;
    // A write that is under way is awaited first, and this then comes before the next one.
    if (!isClosed && (did.write !== null || did.state.writing === null)) resignForMs = null;
    ({ state, heldBack } = did);
    const before = view;
    view = did.view;
    sayHeldBack();
    if (did.write !== null) void write(did.write, atMs);
    if (did.wantsRead && !isClosed) void read(atMs);
    if (!isClosed) cancel = clock.after(did.afterMs, step);
    if (view.isLeader !== before.isLeader || (view.isLeader && before.isLeader && view.sinceMs !== before.sinceMs)) {
      needs.changed();
    }
  }

  async function write(wanted: NonNullable<LeadershipStep['write']>, sentMs: MonoMs): Promise<void> {
    const written = await writeLeaderLease(writes, wanted, { wallMs: clock.wallMs(), isDryRun: needs.isDryRun() });
    wrote = { sentMs, ...written };
    if (written.kind === 'stored') {
      lastWriteMs = Math.max(lastWriteMs ?? sentMs, sentMs);
      renewals = [...renewals.filter(isRecent), { version: written.lease.version, sentMs }];
      findings.clear(NOT_LEADING);
    }
    step();
  }

  function isRecent({ sentMs }: { readonly sentMs: MonoMs }): boolean {
    return clock.monoMs() - sentMs <= JUST_HAD_MS;
  }

  async function read(sentMs: MonoMs): Promise<void> {
    if (isReading) return;
    isReading = true;
    const answer = await connection.get(path, DEADLINE_MS);
    isReading = false;
    lease = leaseIn(answer, sentMs);
    // On a standby nothing else would ever take it back.
    if (lease.known) findings.clear(NOT_LEADING);
    else if (answer.kind === 'answer' && answer.status !== 200 && answer.status !== NOT_FOUND) {
      findings.raise(leaseRefused(answer.status, messageOf(answer.body)));
    }
  }

  function leaseIn(answer: Awaited<ReturnType<ApiGet>>, asOfMs: MonoMs): LeadershipObservation['lease'] {
    const found = objectIn(answer, path);
    if (!found.known) return found;
    const lease = found.value === null ? known(null) : readLeaderLease(found.value);
    return lease.known ? known({ value: lease.value, asOfMs }) : lease;
  }

  function sayHeldBack(): void {
    if (heldBack === 'config-differs') findings.raise(configDiffers(watchedHolder() ?? '', CONFIG_DIFFERS_MS));
    else findings.clear(CONFIG_DIFFERS);
  }

  function watchedHolder(): string | null {
    const holder = state.watched?.lease?.holder ?? '';
    return holder === '' ? null : holder;
  }
  /** What was read lately, and long enough after the last change, shows it. */
  function isNobody(): boolean {
    const { watched } = state;
    if (watched === null || clock.monoMs() - watched.asOfMs >= LEASE_DURATION_MS) return false;
    return watchedHolder() === null || watched.asOfMs - watched.sinceMs >= LEASE_DURATION_MS;
  }
  /** Its holder may have died. */
  function isRenewed(): boolean {
    return state.watched !== null && clock.monoMs() - state.watched.sinceMs < LEASE_DURATION_MS;
  }

  step();
  return {
    view: () => view,
    lastWriteMs: () => lastWriteMs,
    holder: () => (view.isLeader ? writer : isRenewed() ? watchedHolder() : null),
    isHolderKnown: () => view.isLeader || isRenewed() || isNobody(),
    heldBack: () => heldBack,
    hasJustHad: (version) => renewals.some((renewal) => renewal.version === version && isRecent(renewal)),
    resign: (forMs) => {
      resignForMs = forMs;
      step();
    },
    close: async () => {
      isClosed = true;
      resignForMs = 0;
      step();
      const untilMs = clock.monoMs() + GIVE_BACK_MS;
      while ((state.writing !== null || state.held !== null) && clock.monoMs() < untilMs) await sleep(clock, 20);
    },
  };
}
