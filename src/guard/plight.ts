import { planOf } from '../core/guard/config.ts';
import { plannedBy } from '../core/guard/health.ts';
import { deviceKey, type NodeMemory } from '../core/guard/state.ts';
import type { MonoMs } from '../core/reading.ts';
import type { GuardLook } from './loop.ts';

/** What became of a machine, as far as its silence, its kubelet's port and its devices show. */
export type Plight = 'alive' | 'hangs' | 'cut' | 'no-kubelet' | 'off' | 'goes-down';

/** As witness and devices show since it fell silent; null: neither was asked yet. `isSinceOnset`: nothing spoke against that. */
export function plightOf(
  memory: NodeMemory,
  sinceMs: MonoMs,
  { observation, verdict, config }: GuardLook,
): { readonly is: Plight; readonly isSinceOnset: boolean } | null {
  const { uid, name } = memory.object;
  const planned = plannedBy(memory, observation.atMs);
  if (planned === 'agent' || planned === 'kubelet') return { is: 'goes-down', isSinceOnset: true };
  const witness = observation.asked.get(uid)?.witness;
  const port = witness?.known === true && witness.value.asOfMs >= sinceMs ? witness.value.value : null;
  if (port === 'answers' || port === 'refused')
    return { is: port === 'answers' ? 'cut' : 'no-kubelet', isSinceOnset: false };
  const said = (planOf(config, name)?.levels.flat() ?? []).flatMap(
    (method) => verdict.state.devices.get(deviceKey(uid, method)) ?? [],
  );
  const isOff = said.some(({ says, begunMs }) => says === 'off' && begunMs !== null && begunMs >= sinceMs);
  const wasOn = said.some(({ recent }) => recent.some(({ says, begunMs }) => says === 'on' && begunMs >= sinceMs));
  if (isOff) return { is: 'off', isSinceOnset: !wasOn };
  return port === null ? null : { is: 'hangs', isSinceOnset: false };
}
