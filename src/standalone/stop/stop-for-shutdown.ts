import type { Hasten } from '../../core/eviction/hasten.ts';
import type { Outcome, Signalled } from '../../core/outcome.ts';
import type { PodUid } from '../../core/pod/pod.ts';
import type { MonoMs } from '../../core/reading.ts';
import { monoMsOf } from '../../host/clock.ts';
import type { Systemd } from '../../host/systemd/systemd.ts';
import type { Clock, StopOrder } from '../../ports.ts';
import type { LivePod, StandaloneSource } from '../pods/source.ts';
import { createShutdownGrace, type ShutdownGrace } from './shutdown-grace.ts';
import type { ShutdownStops } from './shutdown-stops.ts';
import { isBoundAs } from './stop-target.ts';

export type SignalHeard = (how: Signalled['with'], atMs?: MonoMs) => void;
type Stop = (
  order: StopOrder,
  hasten: Hasten,
  signalled: SignalHeard | undefined,
  grace: ShutdownGrace,
) => Promise<Outcome>;
type Needs = {
  readonly clock: Clock;
  readonly systemd: Pick<Systemd, 'whenStateChanges'>;
  readonly source: Pick<StandaloneSource, 'find' | 'askedAnew'>;
  readonly shutdownStops: Pick<ShutdownStops, 'began' | 'toldAt' | 'ended' | 'cancel' | 'isAwaited'> | null;
};
/** A stop that is not over. */
type Stopping = {
  readonly pod: LivePod | null;
  readonly grace: ShutdownGrace;
  readonly ended: Promise<Outcome>;
  /** Called from now on, and at once if it was asked already. */
  readonly hears: (signalled: SignalHeard) => void;
};
/** Nothing is known of a cancel. */
const NEVER = new AbortController().signal;

/** Stops a pod for a shutdown, and says what is known of it once it has ended. */
export function createStopForShutdown(
  needs: Needs,
  stop: Stop,
): (order: StopOrder, hasten: Hasten, signalled?: SignalHeard) => Promise<Outcome> {
  const { clock, source, shutdownStops } = needs;
  const stopping = new Map<PodUid, Stopping>();

  /**
   * Null: no shutdown is stopping it where it is bound now. One that is, by now cancelled, is not repeated: its time and its turn
   * become those of this stop.
   */
  async function joined(order: StopOrder, cancel: AbortSignal, signalled?: SignalHeard): Promise<Outcome | null> {
    for (;;) {
      const before = stopping.get(order.victim.uid);
      if (before === undefined || !isStillThere(before.pod, source.find(order.victim.uid))) return null;
      before.grace.stopsAgain(order, cancel);
      if (signalled !== undefined) before.hears(signalled);
      const outcome = await before.ended;
      if (outcome.kind === 'ended') return { ...outcome, of: order.decision };
    }
  }

  return async (order, hasten, signalled) => {
    const { uid } = order.victim;
    const cancel = shutdownStops?.cancel() ?? NEVER;
    const again = await joined(order, cancel, signalled);
    if (again !== null) return again;
    const pod = source.find(uid);
    const unit = pod?.unit ?? null;
    const beganMs = clock.monoMs();
    let [isHeard, activeUntilUs] = [false, 0];
    const listeners = signalled === undefined ? [] : [signalled];
    const heard: SignalHeard = (how, givenMs) => {
      const atMs = how === 'sigterm' ? (givenMs ?? order.sentBeforeMs) : givenMs;
      if (how === 'sigterm') shutdownStops?.toldAt(order.decision, atMs ?? clock.monoMs());
      isHeard = true;
      for (const each of listeners) each(how, atMs);
    };
    const forget = needs.systemd.whenStateChanges((name, state) => {
      if (name === unit) activeUntilUs ||= state.activeUntilUs;
    });
    const grace = createShutdownGrace(
      {
        clock,
        cancel,
        isAwaited: () => shutdownStops?.isAwaited(uid) !== false,
        declaredMs: (pod?.manifest.declared.terminationGraceSeconds ?? 0) * 1_000,
      },
      order,
    );
    shutdownStops?.began(order);
    const end = async (): Promise<Outcome> => {
      const outcome = await stop(order, hasten, heard, grace);
      if (stopping.get(uid) === mine) stopping.delete(uid);
      forget();
      const isSpared = outcome.kind === 'dropped' && outcome.because === 'cancelled';
      const how = outcome.kind === 'ended' || outcome.kind === 'survived' ? outcome.kind : isSpared ? 'spared' : 'gone';
      shutdownStops?.ended(order, how);
      if (how !== 'ended') return outcome;
      // It ended so soon after systemd had asked it that this was not seen.
      const toldMs = monoMsOf(clock, activeUntilUs);
      if (!isHeard && toldMs >= beganMs) heard('sigterm', toldMs);
      // Its phase may be over with this outcome: systemd may have started it again already.
      await source.askedAnew(uid);
      return outcome;
    };
    const hears = (each: SignalHeard): void => {
      if (isHeard) each('sigterm');
      listeners.push(each);
    };
    const mine: Stopping = { pod, grace, hears, ended: end() };
    stopping.set(uid, mine);
    return mine.ended;
  };
}

/** Its manifest names what it named then, and that is not another run. Null: it is not declared. */
function isStillThere(before: LivePod | null, now: LivePod | null): boolean {
  if (before === null || now === null) return now === null;
  if (!isBoundAs(before.manifest.declared, now)) return false;
  return !now.cgroup.known || (before.cgroup.known && before.cgroup.value.inode === now.cgroup.value.inode);
}
