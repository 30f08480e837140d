import { known, type MonoMs, type Reading, unknown } from '../core/reading.ts';
import type { Clock } from '../ports.ts';
import { readText } from './files.ts';

/** Node turns a longer timer into one of 1 ms. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;
const UPTIME_FILE = '/proc/uptime';
const BOOT_ID_FILE = '/proc/sys/kernel/random/boot_id';

/**
 * If the wall clock drifts from CLOCK_MONOTONIC by more than slewing explains, it was set, or the machine was asleep.
 */
const LEAP_MS = 500;
/** A smaller difference is not sleep: `/proc/uptime` counts in hundredths of a second. */
const ROUNDED_MS = 50;

/**
 * The wall clock, and milliseconds since boot including sleep, as the kernel counts the start of a process (CLOCK_BOOTTIME,
 * which Node.js does not offer): CLOCK_MONOTONIC plus the time asleep, which is read again after a leap of the wall clock.
 */
export function createClock(): Clock {
  let asleepMs = 0;
  let aheadMs = Number.NaN;
  return {
    monoMs: () => {
      const awakeMs = Number(process.hrtime.bigint()) / 1e6;
      const nowAheadMs = Date.now() - awakeMs;
      if (!(Math.abs(nowAheadMs - aheadMs) < LEAP_MS)) {
        aheadMs = nowAheadMs;
        const uptime = uptimeMs();
        // Never goes back, not even by a hundredth of a second.
        if (uptime.known && uptime.value - awakeMs > asleepMs + ROUNDED_MS) asleepMs = uptime.value - awakeMs;
      }
      return awakeMs + asleepMs;
    },
    wallMs: () => Date.now(),
    after: (ms, run) => {
      // A timer of 0 takes 1.1 ms, a fifth of the reaction budget; an immediate does not.
      if (ms <= 0) {
        const immediate = setImmediate(run);
        return () => clearImmediate(immediate);
      }
      const timer = setTimeout(run, Math.min(ms, LONGEST_TIMER_MS));
      return () => clearTimeout(timer);
    },
  };
}

/** By the wall clock, and by CLOCK_MONOTONIC, which nobody can set and which is the same for all processes. */
export type Moment = { readonly wallMs: number; readonly awakeMs: number };
const TOGETHER_MS = 1;
const MOMENT_TRIES = 10;
export function momentNow(): Moment {
  const awake = (): number => Number(process.hrtime.bigint()) / 1e6;
  for (let tries = 1; ; tries++) {
    const moment = { awakeMs: awake(), wallMs: Date.now() };
    // A busy machine may have paused this process between the two.
    if (awake() - moment.awakeMs < TOGETHER_MS || tries === MOMENT_TRIES) return moment;
  }
}

export function sleep(clock: Clock, ms: number): Promise<void> {
  return new Promise((resolve) => {
    clock.after(ms, resolve);
  });
}

/**
 * The result of `asked` or, after the deadline, of `late`. Due timers run before arrived data is read, so an answer that
 * arrived while this process was stalled still counts.
 */
export function within<T>(clock: Clock, ms: number, asked: Promise<T>, late: () => T): Promise<T> {
  return new Promise((resolve, reject) => {
    let cancel = clock.after(ms, () => {
      cancel = clock.after(0, () => resolve(late()));
    });
    asked.finally(() => cancel()).then(resolve, reject);
  });
}

/** Time since boot including sleep, as the kernel counts the start of a process. */
export function uptimeMs(): Reading<number> {
  const text = readText(UPTIME_FILE, 100);
  if (!text.known) return text;
  const seconds = /^(\d+\.\d\d) /.exec(text.value)?.[1];
  return seconds === undefined ? unknown('malformed', UPTIME_FILE, 'not an uptime') : known(Number(seconds) * 1_000);
}

/** Changes with each boot: monotonic times are comparable only within one. */
export function readBootId(): Reading<string> {
  const text = readText(BOOT_ID_FILE, 100);
  if (!text.known) return text;
  const id = text.value.trim();
  return /^[0-9a-f-]{36}$/.test(id) ? known(id) : unknown('malformed', BOOT_ID_FILE, 'not a boot id');
}

/** Ends the process after this time if anything still keeps it alive. Does not keep it alive itself. */
export function exitWithin(ms: number, status: number): void {
  setTimeout(() => {
    // exit(3) would wait for a call on a file system that hangs.
    if (process.getActiveResourcesInfo().some((what) => what.startsWith('FSReq'))) process.kill(process.pid, 'SIGKILL');
    process.exit(status);
  }, ms).unref();
}

/** A time on CLOCK_MONOTONIC in microseconds, as systemd gives it, on the clock of `monoMs`. It is wrong by a sleep that came after it. */
export const monoMsOf = (clock: Clock, us: number): MonoMs =>
  clock.monoMs() - Number(process.hrtime.bigint()) / 1e6 + us / 1e3;
