import { readlinkSync } from 'node:fs';
import type { Clock } from '../../ports.ts';
import { killGroup } from '../child-process.ts';
import { sleep } from '../clock.ts';
import { descentOf, processName } from '../procfs.ts';
import { scanProcesses } from './process-scan.ts';

/** What identifies the processes of a run, wherever they move: its session, or the files that it gave them. */
export type Marks = {
  readonly session: number;
  readonly streams: ReadonlySet<string>;
  /** The start of the run: none of its processes is older. */
  readonly sinceTicks: number;
};

const STREAMS = [0, 1, 2];
/** Processes that are about to end with the one that started them get so long. */
const LINGER_MS = 1_000;
const STEP_MS = 20;
const MOST_ENDED = 1_000;

/** To be taken as soon as it has started, of the first process of the run, which began its session. */
export function marksOf(pid: number): Marks {
  const streams = STREAMS.map((fd) => linkOf(`/proc/${pid}/fd/${fd}`)).filter((link) => link !== null);
  const first = descentOf(pid);
  return { session: pid, streams: new Set(streams), sinceTicks: first.known ? first.value.startedTicks : 0 };
}

/**
 * Waits until the first process's group, and its output, have come to an end, then ends what is left of the run, also what
 * left the group or the session. `name (pid)` of what it found. A process that left its session and closed its input and
 * output is not found.
 */
export async function endLeftovers(clock: Clock, marks: Marks, isClosed: () => boolean): Promise<readonly string[]> {
  await until(clock, () => isClosed() && !groupLives(marks.session));
  // A process may start another one while it is looked for.
  const ended = await endFound(clock, marks);
  if (groupLives(marks.session)) killGroup(marks.session);
  await until(clock, isClosed);
  return isClosed() ? ended : [...ended, 'something that was not found, but holds its output'];
}

async function endFound(clock: Clock, marks: Marks): Promise<readonly string[]> {
  // Without root, a run has only processes that we may end: /proc may hide all others.
  const found = await scanProcesses(clock, (directory) => endIfOurs(directory, marks), MOST_ENDED, { whose: 'own' });
  return found.known ? found.value : [`something that could not be looked for: ${found.detail}`];
}

function endIfOurs(directory: string, { session, streams, sinceTicks }: Marks): string | null {
  const pid = Number(directory.slice(directory.lastIndexOf('/') + 1));
  // kill(2) takes less than 2 as a process group, or as all processes.
  if (pid < 2 || pid === process.pid) return null;
  const its = descentOf(pid);
  if (!its.known || its.value.hasEnded || its.value.startedTicks < sinceTicks) return null;
  if (its.value.session !== session && !holds(directory, streams)) return null;
  const name = processName(pid);
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    return null; // It has ended.
  }
  return `${name.known ? name.value : 'a process'} (${pid})`;
}

function holds(directory: string, streams: ReadonlySet<string>): boolean {
  return STREAMS.some((fd) => {
    const link = linkOf(`${directory}/fd/${fd}`);
    return link !== null && streams.has(link);
  });
}

function linkOf(path: string): string | null {
  try {
    return readlinkSync(path);
  } catch {
    return null; // It has ended, or is not ours to look at.
  }
}

async function until(clock: Clock, isTrue: () => boolean): Promise<void> {
  const endMs = clock.monoMs() + LINGER_MS;
  while (!isTrue() && clock.monoMs() < endMs) await sleep(clock, STEP_MS);
}

/** The kernel does not reuse its number while the group has a member. */
function groupLives(group: number): boolean {
  try {
    process.kill(-group, 0);
    return true;
  } catch {
    return false;
  }
}
