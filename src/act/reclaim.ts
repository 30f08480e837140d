import type { Decision } from '../core/decision.ts';
import { hexHashOf } from '../core/hash.ts';
import type { Outcome } from '../core/outcome.ts';
import { known, type Reading, unknown } from '../core/reading.ts';
import type { ReclaimCall } from '../core/reclaim/calls.ts';
import type { Signal, SignalSample } from '../core/signal.ts';
import type { Reclaim as RunningReclaim } from '../core/state/state.ts';
import type { CommandRunner } from '../host/systemd/transient.ts';
import type { Clock, Findings, Log, NodeReclaim, Observer } from '../ports.ts';
import { sayRemoved } from '../words/decision.ts';
import { reclaimFailed, reclaimId } from '../words/finding-eviction.ts';
import { and, sayAmount } from '../words/phrases.ts';
import { failureOf } from './operator-command.ts';

type ReclaimCommand = {
  readonly signal: Signal;
  readonly command: readonly string[];
  readonly timeoutMs: number;
};
type Effect = Pick<Extract<Outcome, { kind: 'reclaimed' }>, 'freed' | 'removed'>;
type ReclaimDecision = Extract<Decision, { kind: 'reclaim' }>;
/** Resolves when the runtime and every command of the signal have ended; judged by the file system, not by them. */
export type Reclaim = (decision: ReclaimDecision) => Promise<Outcome>;

/**
 * The operator's own reclaim (product.md section 3) and what the container runtime can free, before any pod is evicted. If a
 * command fails, that is a finding, and the next one still runs. A run in progress is shared, never started twice.
 */
export function createReclaim(needs: {
  readonly clock: Clock;
  readonly observer: Pick<Observer, 'reread'>;
  readonly commands: () => readonly ReclaimCommand[];
  readonly run: CommandRunner;
  /** Absent: no container runtime. */
  readonly runtime?: NodeReclaim | undefined;
  readonly log: Log;
  readonly findings: Findings;
}): Reclaim {
  const { clock, observer, commands, run, runtime, log, findings } = needs;
  const running = new Map<Signal, Promise<Effect>>();

  async function reclaim(signal: Signal, calls: readonly ReclaimCall[]): Promise<Effect> {
    const before = await observer.reread(signal);
    for (const { command, timeoutMs } of commands().filter((entry) => entry.signal === signal)) {
      const id = reclaimId(signal, command);
      const failure = failureOf(await run({ argv: command, timeoutMs, name: hexHashOf(id) }));
      // A reload may have removed it, and nothing would end the finding.
      const place = commands().findIndex((entry) => reclaimId(entry.signal, entry.command) === id);
      if (failure === null || place === -1) findings.clear(id);
      else findings.raise(reclaimFailed(signal, command, place, failure));
    }
    const removed = calls.length === 0 ? undefined : await runtime?.(calls);
    const freed = freedOf(signal, before, await observer.reread(signal));
    return removed === undefined ? { freed } : { freed, removed };
  }

  return async ({ id, threshold, calls = [] }) => {
    const { signal } = threshold;
    const shared = running.get(signal) ?? reclaim(signal, calls).finally(() => running.delete(signal));
    running.set(signal, shared);
    const effect = await shared;
    const { freed, removed } = effect;
    const amount = freed.known ? sayAmount(signal, freed.value) : 'an unknown amount';
    log.info(
      { event: 'reclaim', decision: id, signal, freed: freed.known ? freed.value : null, ...removed },
      and(`the reclaim for ${signal} freed ${amount}`, sayRemoved(removed)),
    );
    return { of: id, atMs: clock.monoMs(), kind: 'reclaimed', ...effect };
  };
}

/** The agent ended before the reclaim did. What its commands freed, perhaps since, nobody has measured. */
export function cutOff(
  { clock, log, isDry }: { readonly clock: Clock; readonly log: Log; readonly isDry: boolean },
  { decision: of, threshold: { signal } }: Pick<RunningReclaim, 'decision' | 'threshold'>,
): Outcome {
  const atMs = clock.monoMs();
  if (isDry) return { of, atMs, kind: 'dropped', because: 'dry-run' };
  const freed = unknown('not-asked', signal, 'the agent ended before the reclaim was over');
  log.info(
    { event: 'reclaim', decision: of, signal, freed: null },
    `the reclaim for ${signal} was cut off: ${freed.detail}`,
  );
  return { of, atMs, kind: 'reclaimed', freed };
}

function freedOf(signal: Signal, before: Reading<SignalSample>, after: Reading<SignalSample>): Reading<number> {
  if (!before.known) return before;
  if (!after.known) return after;
  const freed = after.value.available - before.value.available;
  return freed >= 0
    ? known(freed)
    : unknown('unreadable', signal, `meanwhile ${sayAmount(signal, -freed)} more were used`);
}
