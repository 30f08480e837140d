import { describe, expect, it } from 'vitest';
import { createAnnouncer } from '../../src/act/announce.ts';
import { decide } from '../../src/core/decide.ts';
import { known, unknown } from '../../src/core/reading.ts';
import { initialState } from '../../src/core/state/state.ts';
import { aConfig, anObservation, aPod, aThreshold, MI } from '../a.ts';

const config = aConfig([aThreshold('memory.available', 100 * MI)], { pressureTransitionMs: 5_000 });

/** Looks at memory, one after another; null = it cannot be read. What the teller says of each. */
function tell(...looks: readonly (readonly [atMs: number, availableMiB: number | null])[]) {
  const said: string[] = [];
  const log = (_: unknown, msg: string) => void said.push(msg);
  const findings = {
    raise: ({ id }: { id: string }) => void said.push(`+ ${id}`),
    clear: (id: string) => void said.push(`- ${id}`),
    all: () => [],
  };
  const teller = createAnnouncer({ log: { debug: log, info: log, warn: log, error: log }, findings });
  let state = initialState('boot');
  return looks.map(([atMs, availableMiB]) => {
    const reading =
      availableMiB === null
        ? unknown('unreadable', 'memory.stat', 'gone')
        : { available: availableMiB * MI, capacity: 1_000 * MI };
    const pods = known([aPod({ name: 'critical', isStaticCritical: true })]);
    const observation = anObservation(atMs, { 'memory.available': reading }, { pods });
    const verdict = decide(state, observation, config);
    state = verdict.state;
    teller(observation, verdict);
    return said.splice(0);
  });
}

describe('what a look changed', () => {
  it('is reported once: pressure with its cause, and its end', () => {
    const said = tell([0, 90], [1_000, 80], [2_000, 500], [7_000, 500]);
    expect(said.map((lines) => lines.filter((line) => line.includes('Pressure')))).toEqual([
      ['MemoryPressure: memory.available 90 MiB is below 100 MiB'],
      [],
      [],
      ['MemoryPressure is over'],
    ]);
  });

  it('is a finding while no pod may be evicted, until the pressure is over', () => {
    const [first, , third] = tell([0, 90], [1_000, 80], [2_000, 500]);
    expect(first).toContain('+ no-candidate/memory.available');
    expect(third).toContain('- no-candidate/memory.available');
  });

  it('is a finding once a signal could not be read 3 times over 10 s, not before (D5)', () => {
    const said = tell([0, null], [5_000, null], [9_999, null], [10_000, null], [11_000, 500]);
    expect(said).toEqual([[], [], [], ['+ signal-unknown/memory.available'], ['- signal-unknown/memory.available']]);
  });

  it('is one finding for all signals of a file system that cannot be read', () => {
    const said: string[] = [];
    const findings = { raise: ({ text }: { text: string }) => void said.push(text), clear: () => {}, all: () => [] };
    const silent = () => {};
    const tell = createAnnouncer({ log: { debug: silent, info: silent, warn: silent, error: silent }, findings });
    const disks = aConfig([aThreshold('nodefs.available', MI), aThreshold('nodefs.inodesFree', MI)]);
    const hung = unknown('timed-out', 'statfs /var', 'no answer within 2 s');
    let state = initialState('boot');
    for (const atMs of [0, 5_000, 10_000]) {
      const observation = anObservation(atMs, { 'nodefs.available': hung, 'nodefs.inodesFree': hung });
      const verdict = decide(state, observation, disks);
      ({ state } = verdict);
      tell(observation, verdict);
    }
    expect(said).toEqual([
      'nodefs.available and nodefs.inodesFree cannot be read (statfs /var: no answer within 2 s): no decision is based on them',
    ]);
  });
});
