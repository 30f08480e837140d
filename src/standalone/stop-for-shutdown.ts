import type { Hasten } from '../core/eviction/hasten.ts';
import type { Outcome, Signalled } from '../core/outcome.ts';
import type { PodUid } from '../core/pod/pod.ts';
import type { MonoMs } from '../core/reading.ts';
import { monoMsOf } from '../host/clock.ts';
import type { Systemd } from '../host/systemd.ts';
import type { Clock, StopOrder } from '../ports.ts';
import { createShutdownGrace, type ShutdownGrace } from './shutdown-grace.ts';
import type { ShutdownStops } from './shutdown-stops.ts';
import type { LivePod, StandaloneSource } from './source.ts';
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
  readonly shutdownStops: Pick<ShutdownStops, 'began' | 'ended' | 'isCancelled' | 'isAwaited'> | null;
};
/** A stop that is not over. */
type Stopping = {
  readonly pod: LivePod | null;
  readonly grace: ShutdownGrace;
  readonly ended: Promise<Outcome>;
  readonly isHeard: () => boolean;
};

/** Stops a pod for a shutdown, and says what is known of it once it has ended. */
export function createStopForShutdown(
  needs: Needs,
  stop: Stop,
): (order: StopOrder, hasten: Hasten, signalled?: SignalHeard) => Promise<Outcome> {
  const { clock, source, shutdownStops } = needs;
  const stopping = new Map<PodUid, Stopping>();

  /**
   * Null: no shutdown is stopping it where it is bound now. A cancelled one that has asked it is not repeated: its time becomes
   * that of this stop.
   */
  async function joined(order: StopOrder, signalled?: SignalHeard): Promise<Outcome | null> {
    const before = stopping.get(order.victim.uid);
    if (before === undefined || !before.isHeard() || !isStillThere(before.pod, source.find(order.victim.uid)))
      return null;
    before.grace.stopsAgain(order);
    signalled?.('sigterm');
    const outcome = await before.ended;
    return outcome.kind === 'ended' ? { ...outcome, of: order.decision } : null;
  }

  return async (order, hasten, signalled) => {
    const { uid } = order.victim;
    const again = await joined(order, signalled);
    if (again !== null) return again;
    const pod = source.find(uid);
    const unit = pod?.unit ?? null;
    const beganMs = clock.monoMs();
    let [isHeard, activeUntilUs] = [false, 0];
    const forget = needs.systemd.whenStateChanges((name, state) => {
      if (name === unit) activeUntilUs ||= state.activeUntilUs;
    });
    const grace = createShutdownGrace(
      {
        clock,
        isCancelled: () => shutdownStops?.isCancelled() === true,
        isAwaited: () => shutdownStops?.isAwaited(uid) !== false,
        declaredMs: (pod?.manifest.declared.terminationGraceSeconds ?? 0) * 1_000,
      },
      order,
    );
    shutdownStops?.began(order);
    const ended = stop(
      order,
      hasten,
      (how, atMs) => {
        isHeard = true;
        signalled?.(how, atMs);
      },
      grace,
    );
    const mine: Stopping = { pod, grace, ended, isHeard: () => isHeard };
    stopping.set(uid, mine);
    const outcome = await ended;
    if (stopping.get(uid) === mine) stopping.delete(uid);
    forget();
    const isSpared = outcome.kind === 'dropped' && outcome.because === 'cancelled';
    const how = outcome.kind === 'ended' || outcome.kind === 'survived' ? outcome.kind : isSpared ? 'spared' : 'gone';
    shutdownStops?.ended(order, how);
    if (how !== 'ended') return outcome;
    // It ended so soon after systemd had asked it that this was not seen.
    const toldMs = monoMsOf(clock, activeUntilUs);
    if (!isHeard && toldMs >= beganMs) signalled?.('sigterm', toldMs);
    // Its phase may be over with this outcome: systemd may have started it again already.
    await source.askedAnew(uid);
    return outcome;
  };
}

/** Its manifest names what it named then, and that is not another run. Null: it is not declared. */
function isStillThere(before: LivePod | null, now: LivePod | null): boolean {
  if (before === null || now === null) return now === null;
  if (!isBoundAs(before.manifest.declared, now)) return false;
  return !now.cgroup.known || (before.cgroup.known && before.cgroup.value.inode === now.cgroup.value.inode);
}
