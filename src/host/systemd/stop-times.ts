import type { MachineAction } from '../../core/pod/pod.ts';
import { ifKnown, known, type Reading, unknown } from '../../core/reading.ts';
import type { BusValue } from './bus-value.ts';
import type { UnitTies } from './unit-facts.ts';
import { UNIT_TYPES, unitPath } from './unit-name.ts';

type StopTimes = {
  /** How long systemd waits before it kills what is left; `not-applicable` for a slice. */
  readonly limitMs: (path: string, type: string, name: string) => Promise<Reading<number>>;
  /** How many ExecStop= a service has. */
  readonly stopCommands: (name: string) => Promise<Reading<number>>;
  /**
   * When the action may come at the soonest, counted from a SIGKILL to all processes. What ExecStopPost= runs begins only
   * then, and may take the stop timeout each, and twice more to be ended.
   */
  readonly soonest: (
    name: string,
    action: MachineAction | undefined,
  ) => Promise<Reading<Pick<UnitTies, 'machineAction'>>>;
};

export function createStopTimes(
  property: (path: string, type: string, name: string) => Promise<Reading<BusValue>>,
): StopTimes {
  async function limitMs(path: string, type: string, name: string): Promise<Reading<number>> {
    if (type === UNIT_TYPES.slice) return unknown('not-applicable', name, 'a slice has no stop timeout');
    const reading = await property(path, type, 'TimeoutStopUSec');
    // By its path alone, a unit that does not exist answers with default values.
    const loadState = await property(path, 'Unit', 'LoadState');
    if (loadState.known && loadState.value === 'not-found') {
      return unknown('absent', name, 'systemd knows no such unit');
    }
    return durationOf(reading, 'TimeoutStopUSec');
  }

  /** How many a service has. */
  async function commands(name: string, list: 'ExecStop' | 'ExecStopPost'): Promise<Reading<number>> {
    const read = await property(unitPath(name), 'Service', list);
    return ifKnown(read, (all) => known(Array.isArray(all) ? all.length : 0));
  }

  return {
    limitMs,
    stopCommands: (name) => commands(name, 'ExecStop'),
    soonest: async (name, action) => {
      if (action === undefined || action.afterMs === 0 || !name.endsWith('.service')) return known({});
      const count = await commands(name, 'ExecStopPost');
      if (!count.known) return count;
      if (count.value === 0) return known({});
      return ifKnown(await limitMs(unitPath(name), UNIT_TYPES.service, name), (ms) =>
        known({ machineAction: { ...action, afterMs: Math.max(0, action.afterMs - (count.value + 2) * ms) } }),
      );
    },
  };
}

/** From microseconds; systemd writes the maximum for infinity. */
export function durationOf(us: Reading<BusValue>, where: string): Reading<number> {
  if (!us.known) return us;
  if (typeof us.value !== 'number') return unknown('malformed', where, 'not a duration');
  return known(us.value >= Number.MAX_SAFE_INTEGER ? Number.POSITIVE_INFINITY : us.value / 1_000);
}
