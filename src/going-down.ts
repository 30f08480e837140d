import type { Effective } from './config/effective.ts';
import type { Observation, ShutdownEvent } from './core/observation.ts';
import type { MonoMs } from './core/reading.ts';
import { neededDelayMs } from './core/shutdown-plan.ts';
import type { State } from './core/state.ts';
import type { Verdict } from './core/verdict.ts';
import { sleep } from './host/clock.ts';
import type { Notify } from './host/notify.ts';
import type { OpenParts } from './parts.ts';
import type { Clock } from './ports.ts';
import type { ShutdownContext } from './serve/shutdown-status.ts';
import type { ShutdownSide } from './shutdown/open.ts';
import { sayLock } from './shutdown/progress.ts';

export type GoingDownNeeds = {
  readonly clock: Clock;
  readonly side: ShutdownSide;
  readonly parts: OpenParts;
  readonly notify: Pick<Notify, 'status'>;
  readonly effective: () => Effective;
};
/** What the daemon has to do with the end of the machine, beside the loop. */
export type GoingDown = {
  /** Before the first look: goes on with what an earlier run had begun. */
  readonly resume: () => Promise<void>;
  readonly seen: (observation: Observation, verdict: Verdict) => void;
  /** The agent is told to stop. True: it may, at once; false: the machine goes down, and the phases come first. */
  readonly stopAsked: () => Promise<boolean>;
  /** The phases that came first are through. */
  readonly isOver: () => boolean;
  /** A phase runs, or the machine is about to go: no part may be made anew. */
  readonly isBusy: () => boolean;
  /** Whether the machine was known to go down when the agent was told to stop. */
  readonly machine: () => 'stays' | 'goes-down';
  readonly context: (last: string | null) => ShutdownContext;
  readonly close: () => void;
};

const FINDING = 'shutdown-not-armed';
const SETTLE_POLL_MS = 20;

export function createGoingDown(needs: GoingDownNeeds): GoingDown {
  const { clock, side, parts, notify, effective } = needs;
  const { inbox, findings, progress, mode } = parts;
  let shutdown: State['shutdown'] = parts.state.shutdown;
  let machine: 'stays' | 'goes-down' = 'stays';
  let isStopAsked = false;
  mode.setShuttingDown(shutdown.kind === 'stopping' || shutdown.kind === 'released');
  const endListening = side.listen({
    log: parts.log,
    heard: inbox.put,
    changed: () => tellLock(),
    cancelNotHonoured: () => progress.tell({ what: 'cancel-not-honoured' }, clock.monoMs()),
  });

  function tellLock(): void {
    const status = side.inhibitor.status();
    if (shutdown.kind !== 'stopping') notify.status(sayLock(status));
    const { lock } = status;
    if (lock.kind === 'not-armed') findings.raise({ id: FINDING, text: `the shutdown is not armed: ${lock.why}` });
    else findings.clear(FINDING);
    inbox.wake();
  }

  /** Only once the pods are known: a signal that came before would find nobody to stop. */
  function want(): void {
    if (!mode.isSettled()) return;
    const { dryRun } = effective();
    const neededMs = neededDelayMs(parts.core().phases);
    side.inhibitor.want(dryRun || neededMs <= 0 ? null : neededMs);
  }

  return {
    resume: async () => {
      if (shutdown.kind !== 'stopping' && parts.state.stops.length === 0) {
        // An earlier run died between a cancel and its end.
        if (shutdown.kind !== 'released' && mode.hasStops()) parts.undoStops();
        return;
      }
      while (!mode.isSettled()) await sleep(clock, SETTLE_POLL_MS);
      if (shutdown.kind === 'stopping') progress.tell({ what: 'resumed', phase: shutdown.phase }, clock.monoMs());
      const pods = mode.running();
      for (const stop of parts.state.stops) {
        parts.actor.resumeStop(stop, pods.find(({ uid }) => uid === stop.uid) ?? null);
      }
    },
    seen: (observation, verdict) => {
      shutdown = verdict.state.shutdown;
      progress.seen(observation, verdict);
      want();
    },
    stopAsked: async () => {
      const { dryRun, shutdown: configured } = effective();
      const leftMs = await side.secondTier.leftMs();
      if (leftMs === null) return true;
      machine = 'goes-down';
      isStopAsked = true;
      if (dryRun || !configured.secondTier || configured.phases.length === 0) return true;
      const event: ShutdownEvent = { kind: 'stopped-without-signal', leftMs: finite(leftMs) };
      if (shutdown.kind === 'released') return true;
      inbox.put(event);
      return false;
    },
    isOver: () => isStopAsked && shutdown.kind === 'released',
    isBusy: () => shutdown.kind === 'stopping' || shutdown.kind === 'released',
    machine: () => machine,
    context: (last) => ({
      nowMs: clock.monoMs(),
      inhibitor: side.inhibitor.status(),
      stopTimeoutMs: side.secondTier.stopTimeoutMs(),
      last,
      secondTier: effective().shutdown.secondTier,
    }),
    close: endListening,
  };
}

/** No time-out at all: longer than any phases. */
const NO_LIMIT_MS: MonoMs = 30 * 24 * 3_600_000;
const finite = (ms: number): number => Math.min(ms, NO_LIMIT_MS);
