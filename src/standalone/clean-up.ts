import type { MonoMs } from '../core/reading.ts';
import { anonBytes, type CgroupMounts, countProcesses } from '../host/cgroupfs.ts';
import { currentRun } from '../host/unit-path.ts';
import type { CgroupRef } from '../ports.ts';

/** A run of a unit that was stopped, and may still clean up (ExecStopPost=) in the cgroup that was seen empty. */
export type CleanUp = { readonly unit: string; readonly run: string; readonly untilMs: MonoMs };

/** As long as a proof is waited for (D3). */
const CLEAN_UP_MS = 10_000;
/** What takes more is no clean-up, or not one that others should die for. */
const MOST_BYTES = 16 * 1024 * 1024;
const MOST_PROCESSES = 32;

/** Null: systemd has no such run any more, so there is nothing that it could still do. */
export function cleanUpOf(unit: string | null, nowMs: MonoMs): CleanUp | null {
  const run = unit === null ? null : currentRun(unit);
  return unit === null || !run?.known ? null : { unit, run: run.value, untilMs: nowMs + CLEAN_UP_MS };
}

/** Whether what is in the cgroup is the rest of that run, and small: it is no pod of its own that anybody should choose. */
export function isCleaningUp(mounts: CgroupMounts, ref: CgroupRef, cleanUp: CleanUp, nowMs: MonoMs): boolean {
  const run = currentRun(cleanUp.unit);
  if (nowMs >= cleanUp.untilMs || !run.known || run.value !== cleanUp.run) return false;
  const processes = countProcesses(mounts, ref);
  const anon = anonBytes(mounts, ref);
  return processes.known && processes.value <= MOST_PROCESSES && anon.known && anon.value <= MOST_BYTES;
}
