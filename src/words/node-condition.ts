import { sayDuration } from '../core/units/duration.ts';
import { escapeUnsafe } from '../core/units/escape.ts';
import type { BootEndSaid, InhibitorStatus } from '../ports.ts';

/** What the conditions of the node say besides pressure. `reason`: one word in CamelCase, for programs. */
type NodeFact = {
  readonly status: 'True' | 'False' | 'Unknown';
  readonly reason: string;
  readonly message: string;
};

/** Null: it is off and not reported. Undefined: unchanged. */
export function sayArmed({ lock, isPreparing }: InhibitorStatus): NodeFact | null | undefined {
  if (isPreparing && lock.kind !== 'off') return SHUTTING_DOWN;
  switch (lock.kind) {
    case 'off':
      return null;
    case 'armed': {
      const { grantedMs, neededMs } = lock;
      const message = `logind delays a shutdown by up to ${sayDuration(grantedMs)}; ${sayDuration(neededMs)} are needed`;
      return { status: 'True', reason: 'Armed', message };
    }
    case 'not-armed':
      if (lock.isPending) return undefined;
      return { status: 'False', reason: 'NotArmed', message: escapeUnsafe(lock.why) };
    case 'released':
      return undefined;
  }
}

const SHUTTING_DOWN: NodeFact = { status: 'False', reason: 'ShuttingDown', message: 'the node is shutting down' };

/** No names of pods: whoever may see the node need not see them. */
const ENDS: { readonly [E in BootEndSaid['end']]: NodeFact } = {
  graceful: { status: 'True', reason: 'Graceful', message: 'which ended in order' },
  cut: { status: 'False', reason: 'Cut', message: 'whose shutdown was not completed' },
  ungraceful: {
    status: 'False',
    reason: 'Ungraceful',
    message: 'which ended without a shutdown: power cut, crash, reboot -f, or nodewarden was killed before it',
  },
  'not-watched': {
    status: 'Unknown',
    reason: 'NotWatched',
    message: 'whose end is not known: nodewarden had been stopped before',
  },
  unknown: {
    status: 'Unknown',
    reason: 'NotWatched',
    message: 'whose end is not known: the record does not say that nodewarden ran',
  },
};

/** Both boot ids are in it, for whoever has to know which boot it was (guard.md 9.3). */
export function sayBootEnd({ end, bootId }: BootEndSaid, now: string): NodeFact {
  const { message, ...rest } = ENDS[end];
  return { ...rest, message: `boot ${now} follows ${bootId}, ${message}` };
}
