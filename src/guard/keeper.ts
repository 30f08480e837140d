import type { GuardConfig } from '../core/guard/config.ts';
import { keptDevices } from '../core/guard/devices.ts';
import { keptState } from '../core/guard/kept-state.ts';
import type { GuardState } from '../core/guard/state.ts';
import { devicesData, GUARD_DEVICES, GUARD_STATE, stateData } from './kept.ts';
import { createKeptMap, type OwnMapNeeds } from './own-map.ts';

/** guard.md section 5: so often at most. */
const DEVICES_EVERY_MS = 60_000;

/** Stores what must outlive this leadership and is in no record: the devices' words, pauses and holds. */
export type Keeper = {
  /** At each look of a leader that has adopted what its predecessors kept. */
  readonly keep: (state: GuardState, config: GuardConfig) => void;
  /** Whether the pause and the holds that were last given are stored. */
  readonly stored: () => Promise<boolean>;
};

export function createKeeper(needs: OwnMapNeeds): Keeper {
  const states = createKeptMap(needs, GUARD_STATE, 0);
  const devices = createKeptMap(needs, GUARD_DEVICES, DEVICES_EVERY_MS);
  return {
    keep: (state, config) => {
      states.keep(stateData(keptState(state)));
      if (devices.isDue()) devices.keep(devicesData(keptDevices(state, config)));
    },
    stored: states.stored,
  };
}
