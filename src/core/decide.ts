import type { CoreConfig } from './core-config.ts';
import type { Observation } from './observation.ts';
import type { State } from './state.ts';
import type { Verdict } from './verdict.ts';

export declare function decide(state: State, observation: Observation, config: CoreConfig): Verdict;
