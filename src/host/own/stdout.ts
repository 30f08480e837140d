import { writeSync } from 'node:fs';
import { isatty } from 'node:tty';
import type { Clock } from '../../ports.ts';

export type Stdout = {
  /** Writes the line and its end, or keeps it for later. Never waits, never throws. */
  readonly writeLine: (line: string) => void;
  /** A person reads it. */
  readonly isTerminal?: boolean;
};

/** How much is kept for a reader that is stuck; beyond it, the oldest lines are dropped and counted. */
const RING_BYTES = 1024 * 1024;
/** The retry interval for a stuck reader: a restarting journald is back within a second. */
const DRAIN_MS = 50;

/**
 * A file descriptor for log lines (standard output) that cannot stop the process: a hung journald must not stop the
 * eviction. O_NONBLOCK belongs to the open file, so children must never inherit this descriptor.
 */
export function createStdout(clock: Clock, fd = 1): Stdout {
  // Touching process.stdout makes a pipe or socket non-blocking (measured: writeSync then throws EAGAIN instead of waiting).
  if (fd === 1) void process.stdout.fd;
  if (fd === 2) void process.stderr.fd;
  const isTerminal = isatty(fd);
  const ring: Buffer[] = [];
  let ringBytes = 0;
  let lostLines = 0;
  /** The first buffer of the ring is the rest of a line; dropping it would join two lines. */
  let isTorn = false;
  let isTimerSet = false;

  const drainLater = (): void => {
    if (isTimerSet) return;
    isTimerSet = true;
    clock.after(DRAIN_MS, () => {
      isTimerSet = false;
      drain();
    });
  };
  const keep = (buffer: Buffer): void => {
    ring.push(buffer);
    ringBytes += buffer.length;
    const oldest = isTorn ? 1 : 0;
    while (ringBytes > RING_BYTES && ring.length > oldest + 1) {
      ringBytes -= ring.splice(oldest, 1)[0]?.length ?? 0;
      lostLines++;
    }
    drainLater();
  };
  const drain = (): void => {
    for (let first = ring[0]; first !== undefined; first = ring[0]) {
      const written = writeSome(fd, first);
      ringBytes -= written === 'gone' ? first.length : written;
      if (written !== 'gone' && written < first.length) {
        ring[0] = first.subarray(written);
        isTorn ||= written > 0;
        drainLater();
        return;
      }
      ring.shift();
      isTorn = false;
    }
    if (lostLines > 0) {
      const msg = `${lostLines} log lines were lost: standard output was not read for a while`;
      lostLines = 0;
      writeLine(isTerminal ? msg : `<4>${JSON.stringify({ msg, event: 'finding', level: 'warn' })}`);
    }
  };
  const writeLine = (line: string): void => {
    const buffer = Buffer.from(`${line}\n`);
    if (ring.length > 0) {
      keep(buffer);
      return;
    }
    const written = writeSome(fd, buffer);
    if (written === 'gone' || written === buffer.length) return;
    isTorn = written > 0;
    keep(buffer.subarray(written));
  };
  return { writeLine, isTerminal };
}

/**
 * How many bytes were written before the reader was full; `gone` if there is no reader any more and the line is lost.
 */
function writeSome(fd: number, buffer: Buffer): number | 'gone' {
  let written = 0;
  while (written < buffer.length) {
    try {
      written += writeSync(fd, buffer, written);
    } catch (error) {
      if (error instanceof Error && 'code' in error && error.code === 'EAGAIN') return written;
      // EPIPE, EIO, ENOSPC: this descriptor has no reader; the record on disk is the truth.
      return 'gone';
    }
  }
  return written;
}
