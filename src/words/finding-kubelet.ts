import type { Signal } from '../core/signal.ts';
import { escapeUnsafe } from '../core/units/escape.ts';
import type { Finding } from '../ports.ts';
import { sayAmount } from './phrases.ts';

/** About the thresholds of the kubelet beside the agent, in the unit of the signal. */

export type KubeletFirst = {
  readonly signal: Signal;
  readonly kind: 'hard' | 'soft' | 'reclaim';
  /** The value at which the kubelet acts; for `reclaim`, the value that it continues to. */
  readonly theirs: number;
  /** Our highest threshold that counts against it; null: none. */
  readonly ours: number | null;
  /** How far ours must be above a hard threshold, because both act at the moment of crossing; else 0. */
  readonly margin: number;
  /** Where the kubelet's threshold comes from, in words. */
  readonly from: string;
};

export const kubeletFirstId = (signal: Signal, kind: KubeletFirst['kind']): string => `kubelet-first/${signal}/${kind}`;
export function kubeletFirst({ signal, kind, theirs, ours, margin, from }: KubeletFirst): Finding {
  const say = (amount: number): string => sayAmount(signal, amount);
  const source = escapeUnsafe(from);
  const id = kubeletFirstId(signal, kind);
  if (kind === 'reclaim') {
    const stops = ours === null ? '' : `, but nodewarden stops at ${say(ours)}`;
    const text = `${signal}: once the kubelet evicts, it continues to ${say(theirs)} (${source})${stops}: raise evictionMinimumReclaim`;
    return { id, text };
  }
  const its = `its ${kind} threshold is ${say(theirs)} (${source})`;
  const todo =
    kind === 'hard'
      ? `set evictionHard of nodewarden to at least ${say(theirs + margin)}`
      : 'give nodewarden a soft threshold that is not lower, with a grace period at least 15 s shorter';
  if (ours === null)
    return {
      id,
      text: `${signal}: the kubelet acts first: ${its}, and nodewarden has none that acts earlier; ${todo}`,
    };
  const first = ours > theirs ? 'the kubelet may act first' : 'the kubelet acts first';
  return { id, text: `${signal}: ${first}: ${its}, that of nodewarden is ${say(ours)}; ${todo}` };
}
