import type { Outcome, Signalled } from '../core/outcome.ts';
import { known } from '../core/reading.ts';
import { sleep } from '../host/clock.ts';
import type { Systemd } from '../host/systemd.ts';
import { isAutoRestart } from '../host/unit-facts.ts';
import type { Clock, Findings, StopOrder } from '../ports.ts';
import type { Restart } from './restart.ts';
import type { LivePod, StandaloneSource } from './source.ts';
import { isBoundAs } from './stop-target.ts';
import { askUnit, isUnitDown } from './stop-units.ts';

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
const DETAIL = 'it had no process: systemd was about to start it again';

/** Chosen without a cgroup, for its files, and it still has none. */
export function isBetweenRuns({ why, victim, resumedFromMs, sentBefore }: StopOrder, live: LivePod): boolean {
  const isFirst = resumedFromMs === null && sentBefore === undefined;
  const isChosenSo = why === 'eviction' && isFirst && victim.cgroupInode === undefined;
  return (
    isChosenSo && live.unit !== null && !live.cgroup.known && live.cgroup.why === 'absent' && isBoundAs(victim, live)
  );
}

/** Keeps systemd from starting it again. Null: it has started meanwhile, and is stopped like any other pod. */
export async function stopBetweenRuns(
  needs: StopBetweenRunsNeeds,
  { manifest, unit }: LivePod,
  { decision, victim: { uid } }: StopOrder,
  signalled: ((how: Signalled['with']) => void) | undefined,
): Promise<Outcome | null> {
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
  if (hasStarted()) return null;
  if (unit === null || now?.known !== true) return dropped('unresolved');
  if (!isAutoRestart(now.value.subState)) return dropped('gone');
  source.stopBegan(uid);
  restart?.hold(manifest, unit, null);
  try {
    if ((await askUnit(needs, unit)) === 'told') signalled?.('sigterm');
    const endsMs = clock.monoMs() + GIVE_UP_MS;
    for (;;) {
      const isDown = await isUnitDown(systemd, unit);
      // Also what a unit leaves behind that is down.
      if (hasStarted()) return null;
      const atMs = clock.monoMs();
      if (isDown) return { ...of, atMs, kind: 'ended', via: 'stop-unit', releasedBytes: known(0), detail: DETAIL };
      if (atMs < endsMs) await sleep(clock, POLL_MS);
      else {
        doubtRestart?.(uid);
        return { ...of, atMs, kind: 'unknown', detail: `${DETAIL}, and has not said that it will not` };
      }
    }
  } finally {
    source.stopEnded(uid, 'ended');
  }
}
