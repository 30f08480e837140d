import type { GuardConfig } from '../../../core/guard/config.ts';
import { keptDevices } from '../../../core/guard/devices.ts';
import { type GuardState, keptState } from '../../../core/guard/state.ts';
import type { World } from '../world.ts';
import type { Client, Clocks } from './lifeline.ts';
import { GUARD_DEVICES, GUARD_STATE } from './senses.ts';

/** guard.md section 5: so often at most. */
const DEVICES_EVERY_MS = 60_000;

type Parts = {
  readonly world: Pick<World, 'store'>;
  readonly clocks: Clocks;
  readonly client: Client;
  readonly config: GuardConfig;
  readonly hasAuthority: () => boolean;
};

/** Stores what must outlive this leader and is in no record: the devices' words, and holds. */
export function createKeeper({ world, clocks, client, config, hasAuthority }: Parts): {
  readonly keep: (state: GuardState) => void;
} {
  const { store } = world;
  let devices: GuardState['devices'] | null = null;
  let devicesMs = Number.NEGATIVE_INFINITY;
  let said = '';

  function put(name: string, value: unknown): void {
    client.ask(
      () => store.write(name, store.read(name)?.version ?? null, value),
      () => undefined,
    );
  }

  return {
    keep: (state) => {
      if (!hasAuthority()) return;
      const kept = keptState(state);
      if (JSON.stringify(kept) !== said) {
        said = JSON.stringify(kept);
        put(GUARD_STATE, kept);
      }
      if (state.devices === devices || clocks.monoMs() - devicesMs < DEVICES_EVERY_MS) return;
      devices = state.devices;
      devicesMs = clocks.monoMs();
      put(GUARD_DEVICES, keptDevices(state, config));
    },
  };
}
