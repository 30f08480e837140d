import { sayTenths } from '../core/units/duration.ts';
import { countPods, sayNames } from './phrases.ts';

/** What the record holds of the end of the last boot. Names of pods are as tenants chose them. */
type LastBoot = {
  readonly end: 'graceful' | 'cut' | 'ungraceful' | 'not-watched' | 'unknown';
  /** Pods that ran when they were last recorded; null: not recorded. */
  readonly running: readonly string[] | null;
  /** Its last one; null: none is in the record. */
  readonly shutdown: LastShutdown | null;
};
export type LastShutdown = {
  /** poweroff, reboot, …; null = not known. */
  readonly type: string | null;
  /** null: the plan is not in the record. */
  readonly phases: number | null;
  readonly pods: number;
  /** Pods that did not end in time. */
  readonly late: readonly string[];
  /** Pods whose end is unknown. */
  readonly lost: readonly string[];
  /** Others that it did not end. */
  readonly unended: readonly string[];
  /** Pods that were started again too often to be stopped. */
  readonly leftRunning: readonly string[];
  /** null: the lock was not released. */
  readonly released: {
    readonly tookMs: number;
    readonly how: 'done' | 'out-of-time' | 'overtaken';
    /** Pods were left that the agent was to stop at its own end, which it did not. */
    readonly isToBeContinued: boolean;
  } | null;
  /** The phase that ran last, 0: none had begun; `byAgent`: it had ended, and the boot had not. */
  readonly cut: { readonly phase: number; readonly byAgent: boolean };
};

const NAMES_SAID = 20;
/** Why a record may end within a shutdown. */
export const ENDED_EARLY =
  'nodewarden or the machine ended before it was done, or its disk took no more entries (full, read-only)';
const RELEASED = {
  done: 'all phases were done',
  'out-of-time': 'its time was used up',
  overtaken: 'systemd began to stop everything before the phases were over, which was',
} as const;
const NOT_KNOWN = 'how the last boot ended is unknown';

export function sayLastBoot({ end, running, shutdown }: LastBoot): string {
  switch (end) {
    case 'graceful':
      return shutdown !== null && shutdown.released !== null
        ? `the last boot ended with ${sayShutdown(shutdown)}`
        : 'the last boot ended cleanly, without shutdown phases of nodewarden';
    case 'cut':
      return `the last boot ended with ${shutdown === null ? 'an incomplete shutdown' : sayShutdown(shutdown)}`;
    case 'ungraceful':
      return `the last boot ended without a shutdown (power cut, crash, reboot -f, or nodewarden was killed before it): ${sayRunning(running)}`;
    case 'not-watched':
      return `${NOT_KNOWN}: nodewarden had been stopped before`;
    case 'unknown':
      return `${NOT_KNOWN}: the record does not say that nodewarden ran`;
  }
}

function sayShutdown({ type, phases, pods, released, cut, ...which }: LastShutdown): string {
  const name = `a shutdown${type === null ? '' : ` (${type})`}`;
  const named = (what: string, names: readonly string[]): string =>
    names.length === 0 ? '' : `; ${what}: ${sayNames(names, NAMES_SAID)}`;
  const exceptions = [
    named('not in time', which.late),
    named('not ended', which.unended),
    named('started again and left running', which.leftRunning),
    named('end unknown', which.lost),
  ].join('');
  if (released !== null) {
    const left = released.isToBeContinued ? '; nodewarden ended before it could stop the pods that these leave' : '';
    return `${name} of ${countPods(pods)}: ${RELEASED[released.how]} after ${sayTenths(released.tookMs)}${exceptions}${left}`;
  }
  const where = `${cut.phase > 0 ? `in phase ${cut.phase}` : 'before the first phase'}${phases === null ? '' : ` of ${phases}`}`;
  const how = cut.byAgent
    ? `that was cut short ${where}: nodewarden ended before it was done`
    : `whose record ends ${where}: ${ENDED_EARLY}`;
  return `${name} ${how}${exceptions}`;
}

function sayRunning(running: LastBoot['running']): string {
  if (running === null) return 'which pods ran is not recorded';
  return running.length === 0 ? 'no pod was running' : `these pods were running: ${sayNames(running, NAMES_SAID)}`;
}
