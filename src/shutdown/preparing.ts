import { known, type MonoMs, type Reading } from '../core/reading.ts';
import type { InhibitorLock, Logind, ScheduledShutdown } from '../host/systemd/logind.ts';
import type { Clock } from '../ports.ts';

type PreparingNeeds = {
  readonly clock: Clock;
  readonly logind: Logind;
  /** An earlier run of the agent already knew of a shutdown. */
  readonly wasPreparing: boolean;
  /** What logind granted at the last query; null: not known. */
  readonly grantedMs: () => number | null;
  readonly onPreparing: (how: HowPreparing) => void;
  readonly onCancelled: () => void;
  readonly onCancelNotHonoured: () => void;
  readonly onChange: () => void;
};
/** `signal`: logind has just announced it, with what it grants. `found`: the signal was missed, and at most this much is left. */
export type HowPreparing =
  | {
      readonly kind: 'signal';
      readonly granted: Reading<number>;
      readonly locks: Reading<readonly InhibitorLock[]>;
    }
  | { readonly kind: 'found'; readonly leftMs: number | null };
/** Whether logind is taking the machine down: reported once per shutdown, and once if it is cancelled. */
export type Preparing = {
  readonly is: () => boolean;
  /** Null: not known. */
  readonly type: () => string | null;
  /** Null: none is scheduled, or one is in progress. */
  readonly scheduled: () => ScheduledShutdown | null;
  /** Queries now, including the schedule, and reports what follows from the answers. */
  readonly look: () => Promise<Reading<boolean>>;
  readonly close: () => void;
};

/** kubelet-shutdown.md 8.5: 257 cancels a shutdown without a signal. */
const PREPARING_LOOK_MS = 1_000;
/** The interval at rest, in case a signal got lost. A bus that loses signals closes the connection, which queries at once. */
const REST_LOOK_MS = 30_000;
/** The minimum time between two reads that confirm each other. */
const CANCEL_MS = 500;
/** A schedule fires some time after its instant. */
const DUE_MS = 1_000;

export function watchPreparing(needs: PreparingNeeds): Preparing {
  const { clock, logind, onChange } = needs;
  let isPreparing = needs.wasPreparing;
  let type: string | null = null;
  let typeToldByLogind: string | null = null;
  let schedule: ScheduledShutdown | null = null;
  /** The schedule that fired: seen while its shutdown is in progress, and then removed by `shutdown -c`. */
  let fired: 'none' | 'seen' | 'taken-back' = 'none';
  let lastFalseMs: MonoMs | null = null;
  let falseSinceMs: MonoMs | null = null;
  /** An answer to a query from before the signal does not contradict it. */
  let signals = 0;
  let isClosed = false;
  let cancelTimer: () => void = () => undefined;

  function begin(how: HowPreparing): void {
    isPreparing = true;
    falseSinceMs = null;
    fired = isDue(schedule) ? 'seen' : 'none';
    type = typeToldByLogind ?? (isDue(schedule) ? (schedule?.type ?? null) : null);
    lookIn(PREPARING_LOOK_MS);
    needs.onPreparing(how);
    onChange();
  }

  function end(): void {
    isPreparing = false;
    type = null;
    typeToldByLogind = null;
    falseSinceMs = null;
    lastFalseMs = clock.monoMs();
    needs.onCancelled();
    onChange();
  }

  const isDue = (of: ScheduledShutdown | null): boolean => of !== null && of.atWallMs <= clock.wallMs() + DUE_MS;

  async function hear(is: boolean): Promise<void> {
    signals += 1;
    if (!is) {
      if (isPreparing) end();
      return;
    }
    const asked = signals;
    const [read, granted, locks] = await Promise.all([
      logind.preparingForShutdown(),
      logind.inhibitDelayMaxMs(),
      logind.inhibitors(),
    ]);
    // Only logind can have sent the signal: if logind no longer answers, the signal counts.
    if (isClosed || asked !== signals || isPreparing || (read.known && !read.value)) return;
    begin({ kind: 'signal', granted, locks });
  }

  async function look(): Promise<Reading<boolean>> {
    const asked = signals;
    const scheduled = await logind.scheduledShutdown();
    // Read after the schedule: if the schedule is gone while this is still true, it was cancelled in vain.
    const read = await readPreparing();
    if (isClosed || asked !== signals) return read;
    if (scheduled.known) noteSchedule(scheduled.value);
    if (read.known) note(read.value);
    if (read.known && read.value && scheduled.known) noteFired();
    return read;
  }

  async function readPreparing(): Promise<Reading<boolean>> {
    const read = await logind.preparingForShutdown();
    return !read.known && isPreparing && (await logind.hasDied()) ? known(false) : read;
  }

  function note(is: boolean): void {
    const nowMs = clock.monoMs();
    if (is) {
      falseSinceMs = null;
      if (!isPreparing) begin({ kind: 'found', leftMs: leftMs(nowMs) });
      return;
    }
    lastFalseMs = nowMs;
    if (!isPreparing) return;
    falseSinceMs ??= nowMs;
    if (nowMs - falseSinceMs >= CANCEL_MS) end();
  }

  /** The shutdown began some time after the last look that saw none. */
  function leftMs(nowMs: MonoMs): number | null {
    const grantedMs = needs.grantedMs();
    if (grantedMs === null || lastFalseMs === null) return grantedMs;
    return Math.max(0, grantedMs - (nowMs - lastFalseMs));
  }

  function noteSchedule(now: ScheduledShutdown | null): void {
    const before = schedule;
    schedule = now;
    if (before?.type !== now?.type || before?.atWallMs !== now?.atWallMs) onChange();
  }

  function noteFired(): void {
    if (isDue(schedule)) {
      if (fired === 'none') fired = 'seen';
      if (type !== null || schedule === null) return;
      type = schedule.type;
      onChange();
    } else if (schedule === null && fired === 'seen') {
      fired = 'taken-back';
      needs.onCancelNotHonoured();
    }
  }

  /** Nobody else knows of the shutdown that it delayed. To ask for that would start it again, which may take long. */
  async function hearEnd(): Promise<void> {
    if (isPreparing && (await logind.hasDied()) && isPreparing && !isClosed) end();
  }

  /** kubelet-shutdown.md 9.2: a new logind knows nothing of the shutdown that the old one delayed. */
  async function hearRestart(): Promise<void> {
    const is = await askPreparing();
    if (is === null) return;
    if (!is && isPreparing) end();
    else note(is);
  }

  /** Null: not known, or superseded by a signal that arrived meanwhile. */
  async function askPreparing(): Promise<boolean | null> {
    const asked = signals;
    const read = await readPreparing();
    return isClosed || asked !== signals || !read.known ? null : read.value;
  }

  function lookIn(ms: number): void {
    cancelTimer();
    cancelTimer = clock.after(ms, () => void lookOn());
  }

  async function lookOn(): Promise<void> {
    await (isPreparing ? look() : lookAtRest());
    if (!isClosed) lookIn(isPreparing ? PREPARING_LOOK_MS : REST_LOOK_MS);
  }

  /** logind reports a schedule, and the proof of the lock queries it each minute. */
  async function lookAtRest(): Promise<void> {
    const is = await askPreparing();
    if (is !== null) note(is);
  }

  const subscriptions = [
    logind.whenTypeTold((told) => {
      typeToldByLogind = told === '' ? null : told;
    }),
    logind.whenPreparing((is) => void hear(is)),
    logind.whenRestarted(() => void hearRestart()),
    logind.whenEnded(() => void hearEnd()),
    logind.whenScheduleChanges(() => void look()),
  ];
  lookIn(isPreparing ? PREPARING_LOOK_MS : REST_LOOK_MS);
  return {
    is: () => isPreparing,
    type: () => type,
    scheduled: () => (isPreparing || schedule === null || schedule.atWallMs <= clock.wallMs() ? null : schedule),
    look,
    close: () => {
      isClosed = true;
      cancelTimer();
      for (const unsubscribe of subscriptions) unsubscribe();
    },
  };
}
