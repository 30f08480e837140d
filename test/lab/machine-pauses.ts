import os from 'node:os';
import path from 'node:path';
import { startWorkload } from '../../src/host/process/workload.ts';
import { clock } from './scene.ts';

/** How long a processor of the machine itself stood still. */
export type MachinePauses = {
  /** In ms, since the last call; 0 where no pause was noticed, or none could be. */
  readonly longestMs: () => number;
  readonly end: () => void;
};

const NOTICED_MS = 5;
const LOAD = path.join(import.meta.dirname, 'load.pl');
const WATCH = ['/usr/bin/chrt', '--rr', '99', '/usr/bin/perl', LOAD, `pauses ${NOTICED_MS}`];

/**
 * By a process on each processor that the scheduler prefers to every other, the agent included: where it wakes late, so did
 * everybody. A processor of a virtual machine pauses when its host has none for it, and the others go on.
 */
export function watchMachinePauses(): MachinePauses {
  let longestMs = 0;
  const line = (text: string): void => {
    const ms = Number(text);
    if (ms > longestMs) longestMs = ms;
  };
  const watches = Array.from({ length: os.availableParallelism() }, (_, cpu) =>
    startWorkload({
      argv: ['/usr/bin/taskset', '--cpu-list', String(cpu), ...WATCH],
      join: [],
      monoMs: clock.monoMs,
      line,
    }),
  );
  return {
    longestMs: () => {
      const ms = longestMs;
      longestMs = 0;
      return ms;
    },
    end: () => {
      for (const watch of watches) if (typeof watch !== 'string') watch.kill('SIGKILL');
    },
  };
}
