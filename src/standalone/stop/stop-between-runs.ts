import type { Outcome, Signalled } from '../../core/outcome.ts';
import { known } from '../../core/reading.ts';
import { sleep } from '../../host/clock.ts';
import type { Systemd } from '../../host/systemd/systemd.ts';
import { isAutoRestart } from '../../host/systemd/unit-facts.ts';
import type { Clock, Findings, StopOrder } from '../../ports.ts';
import type { LivePod, StandaloneSource } from '../pods/source.ts';
import type { Restart } from '../restart/restart.ts';
import { isBoundAs } from './stop-target.ts';
import { isUnitDown, stopUnit } from './stop-units.ts';

type StopBetweenRunsNeeds = {
  readonly clock: Clock;
  readonly systemd: Systemd;
  readonly source: Pick<StandaloneSource, 'pods' | 'find' | 'stopBegan' | 'stopEnded'>;
  readonly restart: Pick<Restart, 'hold'> | null;
  readonly doubtRestart?: (uid: string) => void;
  readonly findings: Findings;
};

const POLL_MS = 20;
/** How long systemd may take to give up a restart. */
const GIVE_UP_MS = 2_000;
/** Its request to stop may or may not have been carried out. */
export const UNHEARD = 'systemd has not answered the request to stop it';
const DETAIL = 'it had no process: systemd was about to start it again';

/** Chosen without a cgroup, for its files, and it still has none. */
export function isBetweenRuns({ why, victim, sentBefore }: StopOrder, { unit, cgroup, manifest }: LivePod): boolean {
  const isChosenSo = why === 'eviction' && victim.isBetweenRuns === true && sentBefore === undefined;
  return isChosenSo && unit !== null && !cgroup.known && cgroup.why === 'absent' && isBoundAs(victim, { manifest });
}

/**
 * Keeps systemd from starting it again. Otherwise it has started meanwhile, and is stopped like any other pod: `asked`: it was
 * asked to stop before; `unheard`: it may have been.
 */
export async function stopBetweenRuns(
  needs: StopBetweenRunsNeeds,
  { manifest, unit }: LivePod,
  { decision, victim: { uid } }: StopOrder,
  signalled: ((how: Signalled['with']) => void) | undefined,
): Promise<Outcome | 'started' | 'asked' | 'unheard'> {
  const { clock, systemd, source, restart, doubtRestart } = needs;
  const of = { of: decision };
  const dropped = (because: 'gone' | 'unresolved'): Outcome => {
    doubtRestart?.(uid);
    return { ...of, atMs: clock.monoMs(), kind: 'dropped', because };
  };
  const hasStarted = (): boolean => {
    source.pods();
    return source.find(uid)?.cgroup.known === true;
  };
  const now = unit === null ? null : await systemd.ties(unit);
  if (hasStarted()) return 'started';
  if (unit === null || now?.known !== true) return dropped('unresolved');
  if (!isAutoRestart(now.value.subState)) return dropped('gone');
  source.stopBegan(uid);
  const release = restart?.hold(manifest, unit, 'between-runs');
  try {
    const answer = await stopUnit(needs, unit);
    if (answer.known) signalled?.('sigterm');
    const isRefused = !answer.known && answer.why === 'unreadable';
    const endsMs = clock.monoMs() + GIVE_UP_MS;
    for (;;) {
      const isDown = await isUnitDown(systemd, unit);
      const isStarted = hasStarted();
      if (isRefused && (isStarted || isDown)) release?.();
      // Also what a unit leaves behind that is down.
      if (isStarted) return answer.known ? 'asked' : isRefused ? 'started' : 'unheard';
      if (isDown && isRefused) return dropped('gone');
      const atMs = clock.monoMs();
      if (isDown && !answer.known) return { ...of, atMs, kind: 'unknown', detail: `${DETAIL}, and ${UNHEARD}` };
      if (isDown) return { ...of, atMs, kind: 'ended', via: 'stop-unit', releasedBytes: known(0), detail: DETAIL };
      if (atMs < endsMs) await sleep(clock, POLL_MS);
      else {
        if (isRefused) release?.();
        doubtRestart?.(uid);
        const said = isRefused ? 'has refused to stop it' : 'has not said that it will not';
        return { ...of, atMs, kind: 'unknown', detail: `${DETAIL}, and ${said}` };
      }
    }
  } finally {
    source.stopEnded(uid, 'ended');
  }
}
