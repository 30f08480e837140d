import type { MonoMs } from '../reading.ts';
import { type GuardConfig, keysOf, type MethodKey, planOf } from './config.ts';
import type { StatusAsk } from './decision.ts';
import { CONTRADICTED_WITHIN_MS, refOf } from './devices.ts';
import type { GuardObservation } from './observation.ts';
import { deviceKey, type GuardState } from './state.ts';

/** How many nodes one look may search for a method that is due. */
const PATROL_REACH = 200;
/** After a device said off for a living node: long enough for another renewal. */
const ASK_AGAIN_MS = 25_000;
const MINUTE_MS = 60_000;

type Patrolled = Pick<GuardState, 'patrol' | 'nodes' | 'devices'>;
type PatrolStep = { readonly patrol: GuardState['patrol']; readonly asks: readonly StatusAsk[] };

/** guard.md 11.2: asks one method at a time of the nodes that are alive, each in turn; first those in doubt. */
export function stepPatrol(
  state: Patrolled,
  { atMs, nodes }: Pick<GuardObservation, 'atMs' | 'nodes'>,
  config: GuardConfig,
): PatrolStep {
  const { patrol } = state;
  if (config.patrol === null || !nodes.known || nodes.value.value.length === 0) return { patrol, asks: [] };
  const { everyMs, maxPerMinute } = config.patrol;
  if (patrol.askedMs !== null && atMs - patrol.askedMs < MINUTE_MS / maxPerMinute) return { patrol, asks: [] };
  const doubted = doubtedOf(state, atMs);
  if (doubted !== null) return { patrol: { ...patrol, askedMs: atMs }, asks: [doubted] };
  const views = nodes.value.value;
  const reach = Math.min(views.length, PATROL_REACH);
  for (let i = 0; i < reach; i += 1) {
    const at = (patrol.at + i) % views.length;
    const ask = askOf(state, views[at]?.object.uid ?? '', config, atMs, everyMs);
    if (ask !== null) return { patrol: { askedMs: atMs, at }, asks: [ask] };
  }
  return { patrol: { ...patrol, at: (patrol.at + reach) % views.length }, asks: [] };
}

function askOf(
  { nodes, devices }: Patrolled,
  uid: string,
  config: GuardConfig,
  atMs: MonoMs,
  everyMs: number,
): StatusAsk | null {
  const memory = nodes.get(uid);
  if (memory === undefined || memory.isSuspect) return null;
  const plan = planOf(config, memory.object.name);
  const isDue = (method: MethodKey): boolean => {
    const begunMs = devices.get(deviceKey(uid, method))?.begunMs ?? null;
    return begunMs === null || atMs - begunMs >= everyMs;
  };
  const method = plan === null ? undefined : keysOf(plan).find(isDue);
  return method === undefined ? null : { node: refOf(memory), method, for: 'patrol' };
}

/** Off for a node that is alive: only a second answer after a renewal in between shows that it cannot be true. */
function doubtedOf({ nodes, devices }: Patrolled, atMs: MonoMs): StatusAsk | null {
  for (const { node, method, says, contradicted, begunMs } of devices.values()) {
    if (says !== 'off' || contradicted !== null || begunMs === null) continue;
    const memory = nodes.get(node);
    const ageMs = atMs - begunMs;
    if (memory === undefined || memory.isSuspect || ageMs < ASK_AGAIN_MS || ageMs > CONTRADICTED_WITHIN_MS) continue;
    return { node: refOf(memory), method, for: 'patrol' };
  }
  return null;
}
