import { Command } from 'commander';
import picocolors from 'picocolors';
import { runDemo } from '../demo/run.ts';
import type { Paint, Terminal } from '../demo/screen.ts';
import { exitWithin } from '../host/clock.ts';

/** How long a slow reader may take for the last output. */
const LAST_MS = 2_000;

const EXAMPLE = `
Examples:
  nodewarden demo              as root: real processes in real cgroups, about 20 seconds
  nodewarden demo --simulated  the same in virtual time, as any user

Real pods run, one leaks memory, the agent evicts it, and memory recovers.
Exit status: 0 only if the leaking pod was evicted, memory recovered and the other pods are still alive.`;

export function demoCommand(): Command {
  return new Command('demo')
    .description('Show an eviction end to end in under a minute')
    .option('--keep', 'Stay open at the end, until Ctrl-C', false)
    .option('--simulated', 'Use virtual time, even where the real demo could run', false)
    .addHelpText('after', EXAMPLE)
    .action(async (options: { readonly keep: boolean; readonly simulated: boolean }) => {
      const stop = new AbortController();
      const abort = (): void => stop.abort();
      // All three end the story in order: a terminal that is closed must leave nothing behind either.
      for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, abort);
      // So does a reader that went away (`demo | head`): other commands may just end then, but this one has to clean
      // up.
      process.stdout.removeAllListeners('error').on('error', abort);
      const isProven = await runDemo({ ...options, terminal: terminalOf(process.stdout) }, stop.signal);
      process.exitCode = isProven ? 0 : 1;
      // An agent that failed halfway may have left something open.
      exitWithin(LAST_MS, process.exitCode);
    });
}

function terminalOf(stdout: NodeJS.WriteStream): Terminal {
  // picocolors itself looks at NO_COLOR and at whether this is a terminal.
  const paint: Paint = (style, text) => picocolors[style](text);
  return {
    write: (text) => void (stdout.writable && stdout.write(text)),
    paint,
    size: () =>
      stdout.isTTY && process.env['TERM'] !== 'dumb' ? { columns: stdout.columns, rows: stdout.rows } : null,
  };
}
