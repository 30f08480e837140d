import { known, type MonoMs, type Reading, valueOrNull } from '../core/reading.ts';
import { RESERVE_MS } from '../core/shutdown/phase-time.ts';
import { sayDuration } from '../core/units/duration.ts';
import { sleep } from '../host/clock.ts';
import { LOCK_WHO } from '../host/systemd/inhibit-child.ts';
import type { InhibitorLock, Logind } from '../host/systemd/logind.ts';
import type { LogindDropIn } from '../host/systemd/logind-drop-in.ts';
import type { Clock } from '../ports.ts';

type GrantNeeds = {
  readonly clock: Clock;
  readonly logind: Logind;
  readonly dropIn: LogindDropIn;
};
/** `hindrance`: why it is less than requested, and what to do; null: it is not less. */
type Grant = { readonly grantedMs: number; readonly hindrance: string | null };

/** How long logind may take to read its files again. */
const RELOAD_MS = 10_000;
const RELOAD_LOOK_MS = 100;
/** The retry interval if nothing has changed. */
const RELOAD_AGAIN_MS = 600_000;

/** kubelet-shutdown.md 12.19: what to request of logind for phases of this total. */
export const wantedDelayMs = (neededMs: number): number => neededMs + RESERVE_MS;

type Grants = {
  /**
   * Reads what logind grants, and has it raised if it is less than `wantedMs`; never lowers it. `isWanted` false ends the wait
   * for logind.
   */
  readonly obtain: (wantedMs: number, isWanted: () => boolean) => Promise<Reading<Grant>>;
};

export function createGrants(needs: GrantNeeds): Grants {
  const { clock, logind, dropIn } = needs;
  let reloadedMs: MonoMs = Number.NEGATIVE_INFINITY;

  async function readBack(wantedMs: number, path: string, isWanted: () => boolean): Promise<Reading<Grant>> {
    const endsMs = reloadedMs + RELOAD_MS;
    for (;;) {
      const now = await logind.inhibitDelayMaxMs();
      if (now.known && now.value >= wantedMs) return known({ grantedMs: now.value, hindrance: null });
      if (!isWanted() || clock.monoMs() >= endsMs) {
        const hindrance = `logind did not apply ${path} within ${sayDuration(RELOAD_MS)}. ${sayHolder(dropIn, wantedMs)}`;
        return now.known ? known({ grantedMs: now.value, hindrance }) : now;
      }
      await sleep(clock, RELOAD_LOOK_MS);
    }
  }

  return {
    obtain: async (wantedMs, isWanted) => {
      const before = await logind.inhibitDelayMaxMs();
      if (!before.known) return before;
      const { value: grantedMs } = before;
      if (grantedMs >= wantedMs) return known({ grantedMs, hindrance: null });
      // A file that logind has not read yet may grant more. Ours sorts after it, and must not lower it.
      const saidMs = valueOrNull(dropIn.winner())?.delayMs ?? 0;
      const written = dropIn.write(Math.max(wantedMs, saidMs));
      if (!written.known) {
        const hindrance = `${written.where} cannot be written (${written.detail}). ${sayHolder(dropIn, wantedMs)}`;
        return known({ grantedMs, hindrance });
      }
      const { path, isNew } = written.value;
      // If another file is in force, logind is not asked to reload every minute.
      if (isNew || clock.monoMs() - reloadedMs >= RELOAD_AGAIN_MS) {
        const reloaded = await logind.reload();
        if (!reloaded.known) {
          const hindrance = `${path} sets more, but logind could not be reloaded (${reloaded.detail}): run systemctl kill -s HUP systemd-logind`;
          return known({ grantedMs, hindrance });
        }
        reloadedMs = clock.monoMs();
      }
      return readBack(wantedMs, path, isWanted);
    },
  };
}

/** Which file is in force for logind, and what to do about it. */
function sayHolder(dropIn: LogindDropIn, wantedMs: number): string {
  const winner = valueOrNull(dropIn.winner());
  const line = `InhibitDelayMaxSec=${Math.ceil(wantedMs / 1_000)}`;
  const then = 'then run systemctl kill -s HUP systemd-logind';
  if (winner === null) return `No file sets it: write ${line} into a file in /etc/systemd/logind.conf.d, ${then}`;
  if (winner.delayMs !== null && winner.delayMs >= wantedMs) {
    return `${winner.path} sets it to ${winner.text}: restart systemd-logind`;
  }
  return `${winner.path} sets it to ${winner.text}: write ${line} there, ${then}`;
}

/** Whether it is the lock that we believe we hold. */
export function isOurs({ who, mode, what, pid }: InhibitorLock, ourPid: number): boolean {
  return who === LOCK_WHO && mode === 'delay' && pid === ourPid && what.split(':').includes('shutdown');
}

/** beside-a-kubelet.md E1: the kubelet's configuration does not say whether its own shutdown manager works. */
export function isKubelets({ who, mode, what }: InhibitorLock): boolean {
  return who === 'kubelet' && mode === 'delay' && what.split(':').includes('shutdown');
}

export function sayShort(grantedMs: number, neededMs: number, hindrance: string | null): string {
  const wantedMs = wantedDelayMs(neededMs);
  const asked = `but the phases need ${sayDuration(neededMs)}, and ${sayDuration(wantedMs)} with the reserve`;
  return `logind grants ${sayDuration(grantedMs)}, ${asked}: ${hindrance ?? 'retrying'}`;
}
