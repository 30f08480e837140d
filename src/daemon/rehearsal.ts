import { known, type Reading, unknown } from '../core/reading.ts';
import { runOwnProgram } from '../host/own-program.ts';

/** It reads the record, up to 80 MiB, and queries systemd about each unit. */
const REHEARSE_MS = 20_000;
const REPORT_BYTES = 4 * 1024 * 1024;
/** 1: a pod cannot finish. */
const HAS_REPORT = [0, 1];

/**
 * The output of `rehearse shutdown -o json` about this agent, from a process of its own, so that no look waits for it.
 */
export async function rehearseShutdown(configFile: string | null): Promise<Reading<string>> {
  const args = ['rehearse', 'shutdown', '-o', 'json', ...(configFile === null ? [] : ['--config', configFile])];
  const ran = await runOwnProgram(args, REHEARSE_MS, REPORT_BYTES);
  const where = 'nodewarden rehearse shutdown';
  if (ran.kind === 'timed-out') return unknown('timed-out', where, `not done within ${REHEARSE_MS / 1_000} s`);
  if (ran.kind === 'failed') return unknown('unreadable', where, ran.detail);
  if (!HAS_REPORT.includes(ran.code) || ran.stdout === '') return unknown('unreadable', where, ran.stderr.trim());
  return known(ran.stdout);
}
