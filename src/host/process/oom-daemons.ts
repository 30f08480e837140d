import { lstatSync } from 'node:fs';
import { basename } from 'node:path';
import { ifKnown, known, type Reading } from '../../core/reading.ts';
import type { Clock } from '../../ports.ts';
import { readText } from '../files.ts';
import { scanProcesses } from './process-scan.ts';

/** Another program that kills under memory pressure. */
export type OomDaemon = {
  readonly name: string;
  readonly pid: number;
  /** The service that runs it; null: none. */
  readonly unit: string | null;
  /** The service has the name of such a program; another one may run more than that, as cron or supervisor do. */
  readonly isItsOwn: boolean;
};

const NAMES: readonly string[] = ['earlyoom', 'systemd-oomd', 'nohang', 'oomd', 'nohang-desktop'];
/** Of the system's manager: one of a user's, or in a container, cannot be stopped by its name. */
const SERVICE = /:\/(?:[^/\n]+\.slice\/)+([^/\n]+\.service)$/m;
const MAX_BYTES = 128 * 1024;
const MOST = 8;

/**
 * Those that are running. Anybody can give a process such a name, so a process counts only if it is root's, or in a system
 * service with a matching name.
 */
export async function findOomDaemons(clock: Clock, proc = '/proc'): Promise<Reading<readonly OomDaemon[]>> {
  const found = await scanProcesses(clock, daemonAt, MOST, { proc });
  return ifKnown(found, (all) => known(all.filter(({ name }, i) => all.findIndex((one) => one.name === name) === i)));
}

function daemonAt(directory: string): OomDaemon | null {
  const name = nameOf(directory);
  if (name === null) return null;
  const [, unit = null] = SERVICE.exec(textOf(`${directory}/cgroup`)) ?? [];
  const isItsOwn = NAMES.includes(unit?.replace(/\.service$/, '') ?? '');
  try {
    if (!isItsOwn && lstatSync(directory).uid !== 0) return null;
  } catch {
    return null; // It has ended.
  }
  return { name, pid: Number(basename(directory)), unit, isItsOwn };
}

/** nohang is a script: its name is the first argument of the interpreter. */
function nameOf(directory: string): string | null {
  const comm = textOf(`${directory}/comm`).trimEnd();
  if (NAMES.includes(comm)) return comm;
  if (!comm.startsWith('python')) return null;
  const [, script = ''] = textOf(`${directory}/cmdline`).split('\0');
  return NAMES.includes(basename(script)) ? basename(script) : null;
}

function textOf(path: string): string {
  const text = readText(path, MAX_BYTES);
  return text.known ? text.value : '';
}
