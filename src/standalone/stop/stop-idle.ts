import type { Outcome } from '../../core/outcome.ts';
import { known, type MonoMs } from '../../core/reading.ts';
import { sleep } from '../../host/clock.ts';
import type { Systemd } from '../../host/systemd/systemd.ts';
import type { Clock, StopOrder } from '../../ports.ts';
import type { LivePod } from '../pods/source.ts';
import type { ShutdownGrace } from './shutdown-grace.ts';
import type { ShutdownStops } from './shutdown-stops.ts';
import type { SignalHeard } from './stop-for-shutdown.ts';
import { isUnitDown } from './stop-units.ts';

type StopIdleNeeds = {
  readonly clock: Clock;
  readonly systemd: Pick<Systemd, 'activeState' | 'kill'>;
  readonly shutdownStops: Pick<ShutdownStops, 'request'> | null;
};

type Dropped = Extract<Outcome, { kind: 'dropped' }>;

const POLL_MS = 20;
/** How long systemd may take to notice that its processes are dead. */
const KILL_MS = 2_000;

/**
 * Stops a unit without processes (RemainAfterExit=), and waits for what its stop runs like for another pod's processes.
 */
export async function stopIdle(
  { clock, systemd, shutdownStops }: StopIdleNeeds,
  live: LivePod,
  order: StopOrder,
  { signalled, grace }: { readonly signalled: SignalHeard | undefined; readonly grace: ShutdownGrace },
): Promise<Outcome> {
  const { unit } = live;
  const dropped = (because: Dropped['because']): Dropped => {
    return { of: order.decision, atMs: clock.monoMs(), kind: 'dropped', because };
  };
  if (unit === null) return dropped('gone');
  const asked = (await shutdownStops?.request(live, order, grace)?.()) ?? 'not-told';
  if (asked === 'spared') return dropped('cancelled');
  // While systemd itself stops everything, its stop follows ours.
  if (asked === 'not-told') return dropped((await isUnitDown(systemd, unit)) ? 'gone' : 'left-to-systemd');
  signalled?.('sigterm');
  const toldMs = order.sentBeforeMs ?? clock.monoMs();
  const hasEnded = async (untilMs: () => MonoMs): Promise<boolean> => {
    for (;;) {
      if (await isUnitDown(systemd, unit)) return true;
      if (clock.monoMs() >= untilMs()) return false;
      await sleep(clock, POLL_MS);
    }
  };
  const ended = { of: order.decision, kind: 'ended', releasedBytes: known(0) } as const;
  if (await hasEnded(() => toldMs + grace.leastMs(toldMs))) return { ...ended, atMs: clock.monoMs(), via: 'stop-unit' };
  signalled?.('sigkill');
  await systemd.kill(unit);
  const killedMs = clock.monoMs();
  if (await hasEnded(() => killedMs + KILL_MS)) return { ...ended, atMs: clock.monoMs(), via: 'sigkill' };
  const detail = `systemd has not stopped ${unit}, although its processes were killed`;
  return { of: order.decision, atMs: clock.monoMs(), kind: 'survived', left: [], detail };
}
