import { type ChildProcess, spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { setPriority } from 'node:os';
import { createInterface } from 'node:readline';
import { startChild } from '../child-process.ts';

/** A process that outlives the call that started it, and whose end we must await. */
export type Workload = {
  readonly pid: number;
  readonly isAlive: () => boolean;
  /** Null while it runs. `atMs` is when this process noticed its end, by the clock given at start. */
  readonly ended: () => WorkloadEnd | null;
  /** Ignored once it has ended. */
  readonly write: (line: string) => void;
  readonly kill: (signal: 'SIGTERM' | 'SIGKILL') => void;
};
type WorkloadEnd = { readonly atMs: number; readonly signal: string | null; readonly code: number | null };
type WorkloadNeeds = {
  readonly argv: readonly string[];
  /** Directories of cgroups that it joins before it becomes `argv`, so that nothing is charged elsewhere. */
  readonly join: readonly string[];
  readonly monoMs: () => number;
  readonly line: (line: string) => void;
};

/** Longer lines are cut: our own programs write a word or a number. */
const MAX_LINE = 200;
// "0" moves the writer itself. The directories and the command are arguments, never part of the script.
const JOIN =
  'n=$1; shift; while [ "$n" -gt 0 ]; do echo 0 > "$1/cgroup.procs" || exit 125; shift; n=$((n - 1)); done; exec "$@"';

/** Starts `argv` inside the given cgroups, or says why it could not be started. */
export function startWorkload(needs: WorkloadNeeds): Workload | string {
  const argv = ['-c', JOIN, 'sh', String(needs.join.length), ...needs.join, ...needs.argv];
  // A process group of its own: the terminal's Ctrl-C reaches only us, and we end it in order.
  const child = startChild(() =>
    spawn('/bin/sh', argv, { stdio: ['pipe', 'pipe', 'ignore'], detached: true, env: { PATH: '/usr/bin:/bin' } }),
  );
  if (typeof child === 'string') return `/bin/sh could not be started: ${child}`;
  let ended: WorkloadEnd | null = null;
  child.on('exit', (code, signal) => {
    ended = { atMs: needs.monoMs(), signal, code };
  });
  // Without a listener, a failed start or a write to a child that has just died would end us; `ended` reports the same.
  child.on('error', () => undefined);
  const pid = child.pid;
  // If no descriptor is left, it has no streams either, whatever the types say.
  if (pid === undefined) return `/bin/sh could not be started as a child of process ${process.pid}`;
  child.stdin.on('error', () => undefined);
  createInterface({ input: child.stdout }).on('line', (line) => needs.line(line.slice(0, MAX_LINE)));
  return {
    pid,
    isAlive: () => ended === null,
    ended: () => ended,
    write: (line) => void (child.stdin.writable && child.stdin.write(`${line}\n`)),
    kill: (signal) => killIfOurs(child, signal),
  };
}

/** Node holds the pid until it has reaped the child, so this cannot reach a stranger. */
function killIfOurs(child: ChildProcess, signal: 'SIGTERM' | 'SIGKILL'): void {
  if (child.exitCode === null && child.signalCode === null) child.kill(signal);
}

/** Puts this process, but not its earlier children, ahead of ordinary ones by `nice` steps, if permitted. */
export function runAhead(nice: number): void {
  try {
    setPriority(0, -nice);
  } catch {
    // No CAP_SYS_NICE: looks and signals come later on a busy machine, and the figures show it.
  }
}

/** The kernel counts in hundredths of a second since boot, time asleep included. */
export const MS_PER_TICK = 10;

/** When a process started, in clock ticks since boot: with its pid the identity of a process. Null: there is none. */
export function startTicks(pid: number): number | null {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'latin1');
    // The name before the last ")" may contain anything; the start time is the 20th field after it.
    const ticks = Number(text.slice(text.lastIndexOf(')') + 2).split(' ')[19]);
    return Number.isSafeInteger(ticks) ? ticks : null;
  } catch {
    return null; // No such process.
  }
}
