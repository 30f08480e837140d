import type { Decision } from '../core/decision.ts';
import type { Outcome } from '../core/outcome.ts';
import { assertNever, known, type Reading } from '../core/reading.ts';
import type { Signal, SignalSample } from '../core/signal.ts';
import type { ExecResult } from '../host/exec.ts';
import type { CommandRunner } from '../host/transient.ts';
import type { Clock, Findings, Log, Observer } from '../ports.ts';
import { reclaimFailed, reclaimId } from '../words/finding-eviction.ts';
import { sayAmount } from '../words/parts.ts';

export type ReclaimCommand = {
  readonly signal: Signal;
  readonly command: readonly string[];
  readonly timeoutMs: number;
};
type ReclaimDecision = Extract<Decision, { kind: 'reclaim' }>;
/** Resolves when every command of the signal has ended; judged by the file system, not by the commands. */
export type Reclaim = (decision: ReclaimDecision) => Promise<Outcome>;

/**
 * The operator's own reclaim, before any pod goes (product.md section 3). A command's failure is a finding; the next
 * one still runs. A run that is under way is shared, never doubled.
 */
export function createReclaim(needs: {
  readonly clock: Clock;
  readonly observer: Pick<Observer, 'reread'>;
  readonly commands: () => readonly ReclaimCommand[];
  readonly run: CommandRunner;
  readonly log: Log;
  readonly findings: Findings;
}): Reclaim {
  const { clock, observer, commands, run, log, findings } = needs;
  const running = new Map<Signal, Promise<Reading<number>>>();

  async function reclaim(signal: Signal): Promise<Reading<number>> {
    const before = await observer.reread(signal);
    for (const { command, timeoutMs } of commands().filter((entry) => entry.signal === signal)) {
      const [program = ''] = command;
      const failure = failureOf(await run({ argv: command, timeoutMs }));
      if (failure === null) findings.clear(reclaimId(signal, program));
      else findings.raise(reclaimFailed(signal, program, failure));
    }
    return freedOf(before, await observer.reread(signal));
  }

  return async ({ id, threshold }) => {
    const { signal } = threshold;
    const shared = running.get(signal) ?? reclaim(signal).finally(() => running.delete(signal));
    running.set(signal, shared);
    const freed = await shared;
    const amount = freed.known ? sayAmount(signal, freed.value) : 'an unknown amount';
    log.info(
      { event: 'reclaim', decision: id, signal, freed: freed.known ? freed.value : null },
      `the reclaim for ${signal} freed ${amount}`,
    );
    return { of: id, atMs: clock.monoMs(), kind: 'reclaimed', freed };
  };
}

function freedOf(before: Reading<SignalSample>, after: Reading<SignalSample>): Reading<number> {
  if (!before.known) return before;
  return after.known ? known(after.value.available - before.value.available) : after;
}

function failureOf(result: ExecResult): string | null {
  switch (result.kind) {
    case 'exited':
      return result.code === 0 ? null : `exit status ${result.code}`;
    case 'timed-out':
      return 'it timed out';
    case 'failed':
      return result.detail;
    default:
      return assertNever(result);
  }
}
