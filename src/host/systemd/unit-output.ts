import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ifKnown, known, type Reading, sayCause, unknown } from '../../core/reading.ts';
import { listDirectory, readText } from '../files.ts';
import { startTicks } from '../process/workload.ts';

/** What a unit prints, in files of its own: systemd passes no pipe on for a name on the bus. */
export type UnitOutput = {
  readonly stdout: string;
  readonly stderr: string;
  readonly read: () => Reading<{ readonly stdout: string; readonly stderr: string }>;
  readonly remove: () => void;
};

const PREFIX = 'command-';
const BY_PID = new RegExp(`^${PREFIX}([0-9]+)-`);

/** In a directory that only its owner may enter. */
export function openUnitOutput(directory: string, maxBytes: number): Reading<UnitOutput> {
  try {
    const own = mkdtempSync(join(directory, `${PREFIX}${process.pid}-`));
    const [stdout, stderr] = [join(own, 'out'), join(own, 'err')];
    for (const file of [stdout, stderr]) writeFileSync(file, '', { mode: 0o600 });
    return known({
      stdout,
      stderr,
      read: () =>
        ifKnown(readText(stdout, maxBytes), (out) =>
          ifKnown(readText(stderr, maxBytes), (err) => known({ stdout: out, stderr: err })),
        ),
      remove: () => removeAll(own),
    });
  } catch (cause) {
    return unknown('unreadable', directory, sayCause(cause));
  }
}

/** For a command of root, which has no directory of its own. If it cannot be made, nothing can be printed there. */
export function placeForOutput(): { readonly directory: string; readonly remove: () => void } {
  try {
    const directory = mkdtempSync('/run/nodewarden-output-');
    return { directory, remove: () => removeAll(directory) };
  } catch {
    return { directory: '/run/nodewarden-output', remove: () => undefined };
  }
}

/** Those that a process left which was killed. A dry run beside the agent has its own in the same directory. */
export function sweepUnitOutput(directory: string): void {
  const listed = listDirectory(directory, MANY);
  for (const name of listed.known ? listed.value : []) {
    const pid = BY_PID.exec(name)?.[1];
    if (pid !== undefined && startTicks(Number(pid)) === null) removeAll(join(directory, name));
  }
}

const MANY = 1_000;

function removeAll(directory: string): void {
  try {
    rmSync(directory, { recursive: true, force: true });
  } catch {
    // A few bytes stay until the next start.
  }
}
