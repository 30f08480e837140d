import { decide } from '../../src/core/decide.ts';
import type { ExplainedLook } from '../../src/core/explain.ts';
import type { Observation } from '../../src/core/observation.ts';
import type { PodView } from '../../src/core/pod/pod.ts';
import { known, unknown } from '../../src/core/reading.ts';
import { initialState, type State } from '../../src/core/state/state.ts';
import { aConfig, anObservation, aPod, aThreshold, GI, MI } from '../a.ts';

export const absent = unknown('absent', 'stats', 'not there');
export const requesting = (memoryBytes: number) => ({ memoryBytes, ephemeralStorageBytes: 0 });
export const web = aPod({ name: 'web', workingSetBytes: 500 * MI, requests: requesting(200 * MI) });
export const job = aPod({ name: 'job', workingSetBytes: 300 * MI, requests: requesting(100 * MI) });
export const db = aPod({ name: 'db', priority: 1000, workingSetBytes: 900 * MI, requests: requesting(GI) });
export const dns = aPod({ name: 'dns', priority: 2_000_000_000, isStaticCritical: true, workingSetBytes: 50 * MI });
export const hard = aThreshold('memory.available', 100 * MI);
export const short = { 'memory.available': { available: 50 * MI, capacity: 4 * GI } };

/** A look as the core decides it, with the pods at hand. */
export function aLook(
  pods: readonly PodView[],
  rest: {
    readonly signals?: Parameters<typeof anObservation>[1];
    readonly state?: Partial<State>;
    readonly config?: ReturnType<typeof aConfig>;
    readonly observation?: Partial<Observation>;
  } = {},
): ExplainedLook {
  const observation = anObservation(10_000, rest.signals ?? short, { pods: known(pods), ...rest.observation });
  const state = { ...initialState('b'), ...rest.state };
  const config = rest.config ?? aConfig([hard]);
  const { decisions, reasons } = decide(state, observation, config);
  return { observation, config, state, decisions, reasons };
}
