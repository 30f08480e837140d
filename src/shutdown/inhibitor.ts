import type { ShutdownEvent } from '../core/observation.ts';
import type { MonoMs, Reading, Unknown } from '../core/reading.ts';
import { sayDuration } from '../core/units/duration.ts';
import type { TakeLock } from '../host/systemd/inhibit-child.ts';
import type { InhibitorLock, Logind } from '../host/systemd/logind.ts';
import type { LogindDropIn } from '../host/systemd/logind-drop-in.ts';
import type { Clock, Inhibitor, InhibitorStatus, Log } from '../ports.ts';
import { createGrants, isKubelets, isOurs, sayShort, wantedDelayMs } from './arming.ts';
import { createBackOff, LEAST_MS } from './back-off.ts';
import { createLockHolder } from './lock-holder.ts';
import { type HowPreparing, type Preparing, watchPreparing } from './preparing.ts';

export type InhibitorNeeds = {
  readonly clock: Clock;
  readonly logind: Logind;
  readonly takeLock: TakeLock;
  readonly dropIn: LogindDropIn;
  readonly log: Log;
  readonly onEvent: (event: ShutdownEvent) => void;
  /** Called when `status()` changes. */
  readonly onChange?: () => void;
  /** Once per shutdown: `shutdown -c` came during the delay, and logind shuts down nevertheless (252). */
  readonly onCancelNotHonoured?: () => void;
};
type Lock = InhibitorStatus['lock'];

const PROOF_MS = 60_000;
/** Other programs' locks come and go: the minimum time between two checks of ours. */
const CHANGE_MS = 1_000;
/** At the start, the bus may not be connected yet. */
const FIRST_ANSWER_MS = 5_000;
const UNDER_WAY = 'a shutdown is in progress, and logind grants no lock unless it is cancelled';

/**
 * Keeps the lock from the first `want` on: takes it, proves it each minute and after every change, and reports what logind
 * does (kubelet-shutdown.md 2.7, 8.5, 9). It counts as armed only once proven.
 */
export function keepInhibitor(needs: InhibitorNeeds): Inhibitor {
  const { clock, logind, log, onEvent, onChange = () => undefined } = needs;
  /** Undefined: nothing requested yet. */
  let neededMs: number | null | undefined;
  let lock: Lock = { kind: 'off' };
  /** No lock is wanted, and logind has none of ours. */
  let isIdle = true;
  /** Our drop-in was removed, and logind has not reloaded yet. */
  let isReloadDue = false;
  let isReleased = false;
  let isClosed = false;
  let grantedMs: number | null = null;
  /** What was reported to the core about the current lock; null: nothing. */
  let toldMs: number | null = null;
  /** The latest time at which logind continues the last announced shutdown; null: unknown. */
  let goesOnMs: MonoMs | null = null;
  /** Whether the kubelet holds a shutdown lock of its own; null: unknown. */
  let isKubeletArmed: boolean | null = null;
  let retries = createBackOff(LEAST_MS);
  let watch: Preparing | null = null;
  let isFirstWatch = true;
  /** Until when nothing is said of a logind that has not answered yet; null: it has, or nothing is requested. */
  let firstAnswerByMs: MonoMs | null = null;
  const holder = createLockHolder({ clock, takeLock: needs.takeLock, onLost: lost });
  const grants = createGrants(needs);
  const { askIn, close: endProofs } = createProofs(clock, prove);

  /** Resolves with the time until the next proof. */
  async function prove(): Promise<number> {
    const needed = neededMs;
    if (isIdle || needed === undefined) return NEVER;
    // An announced shutdown continues as it began, even if it is switched off meanwhile.
    if (needed === null) return watch?.is() ? NEVER : await turnOff();
    const isStill = (): boolean => !isClosed && !isReleased && neededMs === needed;
    if (!isStill() || watch === null) return NEVER;
    const looked = await watch.look();
    if (!isStill()) return NEVER;
    if (!looked.known) return mayStillAnswer() ? LEAST_MS : unproven(looked);
    firstAnswerByMs = null;
    if (holder.pid() !== null) return proveHeld(needed, watch, isStill);
    if (watch.is()) return notArmed(UNDER_WAY, grantedMs);
    const taken = await holder.take();
    if (!isStill()) return NEVER;
    if (taken.kind === 'held') {
      const nextMs = await proveHeld(needed, watch, isStill);
      // A signal may have been sent before we were subscribed.
      if (isStill()) await watch.look();
      return nextMs;
    }
    if (taken.isTooLate) await watch.look();
    notArmed(taken.isTooLate ? UNDER_WAY : `the lock could not be taken: ${taken.why}`, grantedMs);
    return taken.againMs;
  }

  /** The lock is held if logind lists it, and armed if logind also grants the time. */
  async function proveHeld(needed: number, { is }: Preparing, isStill: () => boolean): Promise<number> {
    const pid = holder.pid();
    if (pid === null) return NEVER;
    // Raising it during the delay would not help this shutdown (kubelet-shutdown.md 2.9).
    const isWanted = (): boolean => isStill() && !is();
    const wantedMs = is() ? 0 : wantedDelayMs(needed);
    const grant = await grants.obtain(wantedMs, isWanted);
    const locks = await logind.inhibitors();
    if (!isStill() || holder.pid() !== pid) return NEVER;
    noteKubelet(locks, is());
    if (!grant.known) return unproven(grant);
    if (!locks.known) return unproven(locks);
    if (!locks.value.some((one) => isOurs(one, pid))) {
      holder.giveUp(`logind reports that process ${pid} no longer holds it`);
      return NEVER;
    }
    grantedMs = finite(grant.value.grantedMs);
    tell(grantedMs);
    // What hindered before the signal still does; nothing more is requested for this shutdown.
    if (is() && lock.kind === 'not-armed' && lock.grantedMs === grantedMs) return retries.nextMs();
    if (grantedMs < needed) return notArmed(sayShort(grantedMs, needed, grant.value.hindrance), grantedMs);
    armed(needed, grantedMs);
    return is() && isKubeletArmed === true ? CHANGE_MS : PROOF_MS;
  }

  function noteKubelet(locks: Reading<readonly InhibitorLock[]>, isPreparing: boolean): void {
    if (!locks.known) return;
    const was = isKubeletArmed;
    isKubeletArmed = locks.value.some(isKubelets);
    if (was === isKubeletArmed) return;
    if (isPreparing && was === true) onEvent({ kind: 'kubelet-released' });
    onChange();
  }

  function armed(needed: number, granted: number): void {
    retries = createBackOff(LEAST_MS);
    const next: Lock = { kind: 'armed', neededMs: needed, grantedMs: granted, provenMs: clock.monoMs() };
    const isNew = lock.kind !== 'armed' || lock.neededMs !== needed || lock.grantedMs !== granted;
    lock = next;
    if (!isNew) return;
    const text = `armed: logind waits up to ${sayDuration(granted)} for the phases, which need ${sayDuration(needed)}`;
    log.info({ event: 'armed', neededMs: needed, grantedMs: granted }, text);
    onChange();
  }

  function notArmed(why: string, granted: number | null): number {
    const needed = neededMs ?? 0;
    const isSame = lock.kind === 'not-armed' && lock.why === why && lock.grantedMs === granted;
    lock = { kind: 'not-armed', neededMs: needed, grantedMs: granted, isHeld: holder.pid() !== null, why };
    if (!isSame) {
      log.warn({ event: 'not-armed', neededMs: needed, grantedMs: granted, isHeld: lock.isHeld }, `not armed: ${why}`);
      onChange();
    }
    return retries.nextMs();
  }

  /** A lost bus connection does not release the lock (kubelet-shutdown.md 9.4): it is neither lost nor proven. */
  const unproven = (why: Unknown): number => notArmed(sayUnproven(why), null);

  const mayStillAnswer = (): boolean => firstAnswerByMs !== null && clock.monoMs() < firstAnswerByMs;

  function tell(granted: number): void {
    if (toldMs === granted) return;
    toldMs = granted;
    onEvent({ kind: 'lock-granted', delayMaxMs: granted });
  }

  function lost(detail: string): void {
    const isTold = toldMs !== null;
    toldMs = null;
    if (isTold) onEvent({ kind: 'lock-lost', detail });
    notArmed(`the lock is lost: ${detail}`, grantedMs);
    askIn(0);
  }

  function hearPreparing(how: HowPreparing): void {
    if (how.kind === 'signal') noteKubelet(how.locks, false);
    const granted = how.kind === 'signal' && how.granted.known ? finite(how.granted.value) : grantedMs;
    // The delay at the time of the signal: a proof may be in progress, or the last one long ago.
    if (holder.pid() !== null && granted !== null) tell(Math.min(granted, toldMs ?? granted));
    const leftMs = how.kind === 'found' ? how.leftMs : null;
    const waitsMs = leftMs ?? granted;
    goesOnMs = waitsMs === null ? null : clock.monoMs() + waitsMs;
    tellPreparing(leftMs);
    if (isKubeletArmed) askIn(CHANGE_MS);
  }

  function tellPreparing(leftMs: number | null): void {
    const left = leftMs === null ? {} : { leftMs };
    onEvent({ kind: 'preparing', ...left, ...(isKubeletArmed ? { byKubelet: true } : {}) });
  }

  function hearCancelled(): void {
    onEvent({ kind: 'cancelled' });
    takeAgain();
  }

  function takeAgain(): void {
    isReleased = false;
    holder.forget();
    if (lock.kind === 'released' || (lock.kind === 'not-armed' && lock.why === UNDER_WAY)) pending();
    askIn(0);
  }

  /** Nothing is claimed until the next proof. */
  function pending(): void {
    const why = 'waiting for logind to answer';
    const isHeld = holder.pid() !== null;
    lock = { kind: 'not-armed', neededMs: neededMs ?? 0, grantedMs: null, isHeld, why, isPending: true };
  }

  async function turnOff(): Promise<number> {
    watch?.close();
    watch = null;
    await holder.release();
    if (toldMs !== null) onEvent({ kind: 'lock-lost', detail: 'it is no longer needed' });
    toldMs = null;
    const removed = needs.dropIn.remove();
    if (!removed.known) log.warn({ event: 'finding' }, `${removed.where} cannot be removed: ${removed.detail}`);
    isReloadDue ||= removed.known && removed.value === 'removed';
    // If the bus is not up yet, this is done as soon as it is.
    if (isReloadDue) isReloadDue = !(await logind.reload()).known;
    if (neededMs !== null) return NEVER; // Wanted again meanwhile.
    if (lock.kind !== 'off') log.info({ event: 'released' }, 'shutdown off: the lock was released');
    lock = { kind: 'off' };
    isIdle = !isReloadDue;
    onChange();
    return NEVER;
  }

  function startWatch(wasPreparing: boolean): Preparing {
    const started = watchPreparing({
      clock,
      logind,
      wasPreparing,
      grantedMs: () => grantedMs,
      onPreparing: hearPreparing,
      onCancelled: hearCancelled,
      onCancelNotHonoured: needs.onCancelNotHonoured ?? (() => undefined),
      onChange,
    });
    isFirstWatch = false;
    return started;
  }

  const subscriptions = [
    logind.whenInhibitorsChange(() => askIn(CHANGE_MS)),
    logind.whenRestarted(() => askIn(0)),
    logind.whenUp(() => askIn(0)),
  ];
  return {
    want: (ms, isUnderWay = false) => {
      if (isClosed || ms === neededMs) return;
      neededMs = ms;
      isIdle = false;
      if (ms !== null && isFirstWatch) firstAnswerByMs = clock.monoMs() + FIRST_ANSWER_MS;
      if (ms !== null) watch ??= startWatch(isUnderWay);
      if (ms !== null && lock.kind === 'armed' && ms <= lock.grantedMs) lock = { ...lock, neededMs: ms };
      else if (ms !== null && lock.kind !== 'released') pending();
      askIn(0);
    },
    take: () => {
      if (!isClosed && !isIdle) takeAgain();
    },
    release: () => {
      if (isClosed || isIdle) return;
      isReleased = true;
      toldMs = null;
      void holder.release();
      lock = { kind: 'released' };
      onChange();
    },
    status: () => ({
      lock: lock.kind === 'armed' && !logind.isUp() ? doubted(lock) : lock,
      isPreparing: watch?.is() ?? false,
      type: watch?.type() ?? null,
      scheduled: watch?.scheduled() ?? null,
      isKubeletArmed,
    }),
    retell: () => {
      if (toldMs !== null) onEvent({ kind: 'lock-granted', delayMaxMs: toldMs });
      if (watch?.is() && goesOnMs !== null) {
        tellPreparing(Math.max(0, goesOnMs - clock.monoMs()));
      }
      onChange();
    },
    close: async () => {
      isClosed = true;
      endProofs();
      for (const unsubscribe of subscriptions) unsubscribe();
      watch?.close();
      await holder.release();
    },
  };
}

/** State and status are JSON, which has no infinity. */
const finite = (ms: number): number => Math.min(ms, Number.MAX_SAFE_INTEGER);

const sayUnproven = ({ where, detail }: Pick<Unknown, 'where' | 'detail'>): string =>
  `logind cannot be asked whether the lock is held (${where}: ${detail}); retrying when it answers`;

function doubted({ neededMs }: Extract<Lock, { kind: 'armed' }>): Lock {
  const why = sayUnproven({ where: 'the system bus', detail: 'no connection' });
  return { kind: 'not-armed', neededMs, grantedMs: null, isHeld: true, why };
}

/** One proof at a time, at the earliest requested time. */
type Proofs = { readonly askIn: (ms: number) => void; readonly close: () => void };

const NEVER = Number.POSITIVE_INFINITY;

/** `prove` resolves with the time until the next one; it never rejects. */
function createProofs(clock: Clock, prove: () => Promise<number>): Proofs {
  let isRunning = false;
  let isClosed = false;
  let dueMs: MonoMs = NEVER;
  let cancelTimer: () => void = () => undefined;

  function askIn(ms: number): void {
    const atMs = clock.monoMs() + ms;
    if (isClosed || atMs >= dueMs) return;
    dueMs = atMs;
    if (isRunning) return;
    cancelTimer();
    cancelTimer = clock.after(ms, () => void run());
  }

  async function run(): Promise<void> {
    isRunning = true;
    dueMs = NEVER;
    const nextMs = await prove();
    isRunning = false;
    // Requests made meanwhile are handled at their time.
    const inMs = Math.min(nextMs, dueMs - clock.monoMs());
    dueMs = NEVER;
    askIn(Math.max(0, inMs));
  }

  return {
    askIn,
    close: () => {
      isClosed = true;
      cancelTimer();
    },
  };
}
