import { describe, expect, it } from 'vitest';
import { toCoreConfig } from '../../src/config/core-config.ts';
import { kubeletFirsts } from '../../src/config/kubelet-first.ts';
import { configOf } from '../../src/config/load.ts';
import { sayOrigin, sayValue } from '../../src/config/setting.ts';
import { decide } from '../../src/core/decide.ts';
import { limits } from '../../src/core/eviction/thresholds-met.ts';
import { known } from '../../src/core/reading.ts';
import { initialState } from '../../src/core/state/state.ts';
import { sayQuantity } from '../../src/core/units/quantity.ts';
import { scenarioOf } from '../../src/record/scenarios/scenario-of.ts';
import { anObservation } from '../a.ts';
import { good, KUBELET_HEAD, NO_SIZES, SIZES } from './a-config.ts';

const GIB = 1024 ** 3;
const DISK = { bytes: 100 * GIB, inodes: 6_553_600 };
const TEXT = `${KUBELET_HEAD}evictionHard: {memory.available: 200Mi, nodefs.available: 20%, nodefs.inodesFree: 5%, imagefs.available: 1Gi}\n`;
const shown = good(configOf(TEXT, 'k.yaml', SIZES));
/** As the agent loads it: it does not wait for a file system. */
const run = good(configOf(TEXT, 'k.yaml', { ...SIZES, nodefs: null }));
const seen = (availableShare: number) => {
  const bytes = { available: availableShare * DISK.bytes, capacity: DISK.bytes };
  const inodes = { available: DISK.inodes, capacity: DISK.inodes };
  return anObservation(1, { 'nodefs.available': bytes, 'imagefs.available': bytes, 'nodefs.inodesFree': inodes });
};

describe('the margin of a disk whose size is not known when the configuration is loaded', () => {
  it('is the one that a loading with it shows, by the capacity of the sample', () => {
    const { signals } = seen(1);
    const amounts = toCoreConfig(run, 1).thresholds.flatMap((threshold) => {
      const sample = signals[threshold.signal];
      return sample.known ? [sayQuantity(limits(threshold, sample.value).limit)] : [];
    });
    const ofDisks = shown.thresholds.filter(({ signal }) => signal !== 'memory.available');
    expect(amounts).toEqual(ofDisks.map(({ value }) => sayValue(value)));
    expect(amounts).toHaveLength(3);
  });

  it('counts at the look, and the kubelet is not said to act first', () => {
    const config = toCoreConfig(run, 1);
    // 20 % and 1Gi more are 21 % of it.
    const metAt = (share: number) => Object.keys(decide(initialState('boot'), seen(share), config).state.firstMetMs);
    expect(metAt(0.212)).toEqual([]);
    expect(metAt(0.208)).toEqual(['nodefs.available/evictionHard']);
    const theirs = good(configOf(TEXT, 'k.yaml', NO_SIZES)).thresholds.map(({ value, ...rest }) => ({
      ...rest,
      value: value.kind === 'raised' ? value.of : value,
    }));
    const capacityOf = () => DISK.bytes;
    expect(
      kubeletFirsts(run.thresholds, theirs, capacityOf).filter(({ signal }) => signal !== 'memory.available'),
    ).toEqual([]);
  });

  it('is named without an amount while it is not known, and is an amount in a captured look', () => {
    const [, nodefs] = run.thresholds;
    expect(nodefs && `${sayValue(nodefs.value)} ${sayOrigin(nodefs.origin)}`).toBe(
      '20% kubelet + margin (k.yaml, by the capacity, which is not known)',
    );
    const observation = { ...seen(1), pods: known([]) };
    const scenario = scenarioOf({ name: 'x', observation, config: toCoreConfig(run, 1), acted: null });
    expect(scenario?.config['evictionHard']).toMatchObject({ 'nodefs.available': '22548578624' });
  });
});
