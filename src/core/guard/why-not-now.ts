import type { GuardConfig } from './config.ts';
import { takeIn } from './decide.ts';
import type { Act } from './decision.ts';
import { lookOf } from './gates.ts';
import type { GuardObservation } from './observation.ts';
import { whyNotOff } from './phases-off.ts';
import { isUnderForeignTaint } from './phases-on.ts';
import type { FencingId } from './record.ts';
import type { GuardState } from './state.ts';
import { isOrderedOn, lifeSign, saysOn, type Turn } from './turn.ts';

/**
 * The record of an act has been stored, which may have taken seconds: why the act must not begin any more, by what is known by
 * now; null: it may. `before`: the state after the last look.
 */
export function whyNotNow(
  before: GuardState,
  observation: GuardObservation,
  config: GuardConfig,
  { fencing: id, act }: { readonly fencing: FencingId; readonly act: Act },
): string | null {
  // They take back, which is never wrong.
  if (act.kind === 'untell' || act.kind === 'clear') return null;
  const look = lookOf(takeIn(before, observation, config).state, observation, config);
  const fencing = look.state.fencings.get(id);
  if (fencing === undefined) return 'record-gone';
  const memory = look.state.nodes.get(fencing.record.node.uid);
  const meant = fencing.pending?.becomes ?? fencing.record;
  if (memory === undefined) return act.kind === 'on' && isOrderedOn(meant, look.state.nodes) ? null : 'node-deleted';
  const turn: Turn = { ...look, fencing, record: fencing.record, memory };
  switch (act.kind) {
    case 'off':
      return whyNotOff(turn, act.methods);
    case 'on':
      return fencing.record.phase === 'untainting' && isUnderForeignTaint(turn) ? 'foreign-taint' : null;
    case 'tell':
      return lifeSign(turn) !== null || saysOn(turn) ? 'life' : null;
  }
}
