import type { KeptState } from './record.ts';
import type { GuardState } from './state.ts';

/** To be stored in `guard-state`. */
export const keptState = ({ paused, holds, pastHolds }: GuardState): KeptState => ({
  ...{ paused, past: pastHolds },
  holds: holds.map(({ kind, scope }) => ({ kind, scope })),
});
