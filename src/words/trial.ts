import { assertNever } from '../core/reading.ts';
import type { Signal } from '../core/signal.ts';
import { sayNames } from './phrases.ts';

/** Results of a dry run to check before arming. */
export type Advice =
  | { readonly code: 'nothing-decided' }
  /** Conditions of the node that were true before the time that was asked for. */
  | { readonly code: 'met-before'; readonly conditions: readonly string[] }
  | { readonly code: 'within-request'; readonly pod: string; readonly signal: Signal; readonly times: number }
  | { readonly code: 'often'; readonly pod: string; readonly times: number }
  | { readonly code: 'takes-along'; readonly pod: string; readonly others: readonly string[] }
  | { readonly code: 'kernel-first'; readonly count: number; readonly pods: readonly string[] }
  | { readonly code: 'no-candidate'; readonly signal: string };

export function sayAdvice(shown: Advice): string {
  switch (shown.code) {
    case 'nothing-decided':
      return 'The record shows no threshold that was met. So the dry run does not show which pods would be evicted: nodewarden explain names the first pod for each signal, and nodewarden simulate tries what did not happen.';
    case 'met-before':
      return `${sayNames(shown.conditions)} ${shown.conditions.length === 1 ? 'was' : 'were'} true before that time, and a dry run decides only once while a threshold is met: nodewarden trial without --since shows what it decided then.`;
    case 'within-request':
      return `${shown.pod} used no more than it requests at ${times(shown.times)} for ${shown.signal}: no other pod that may be evicted exceeded its request. Lower requests that are too generous, declare what else uses memory or disk as pods, or move the threshold.`;
    case 'often':
      return `${shown.pod} would have been stopped ${times(shown.times)}. If it needs that much, raise its request, and its priority; if it leaks, limit it (MemoryMax=).`;
    case 'takes-along':
      return `Stopping ${shown.pod} also stops ${sayNames(shown.others)}. If that is not wanted, give it a higher priority, or nodewarden.dev/evict-for.`;
    case 'kernel-first': {
      const whose = shown.pods.length === 0 ? '' : ` (${sayNames(shown.pods)})`;
      return `The kernel's OOM killer killed ${shown.count === 1 ? '1 process' : `${shown.count} processes`}${whose} while no pod would have been evicted for memory in the minute before: either a memory limit of their own was reached, or memory.available needs a higher threshold.`;
    }
    case 'no-candidate':
      return `No pod could be evicted for ${shown.signal}: declare more pods, or check priority, protect and evict-for.`;
    default:
      return assertNever(shown);
  }
}

const times = (count: number): string => (count === 1 ? 'one time' : `${count} times`);
