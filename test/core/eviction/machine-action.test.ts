import { describe, expect, it } from 'vitest';
import { type MachineAction, type PodView, podName } from '../../../src/core/pod/pod.ts';
import { known } from '../../../src/core/reading.ts';
import { quantityOfBytes } from '../../../src/core/units/quantity.ts';
import type { Verdict } from '../../../src/core/verdict.ts';
import { aConfig, anObservation, aPod, MI } from '../../a.ts';
import { aCore, CAPACITY, hardMemory, softMemory } from './a-live-core.ts';
import { looks } from './looks.ts';

const late: MachineAction = { what: 'JobTimeoutAction=reboot of hog.service', afterMs: 30_000 };
const always: MachineAction = { what: 'FailureAction=reboot of hog.service', afterMs: 0 };
const requests = { memoryBytes: 100 * MI, ephemeralStorageBytes: 0 };
const quiet = aPod({ name: 'quiet', requests, workingSetBytes: 50 * MI });
const hog = (endsMachine: MachineAction, rest: Partial<PodView> = {}): PodView => ({
  ...aPod({ name: 'hog', workingSetBytes: 4_000 * MI, terminationGraceSeconds: 600 }),
  endsMachine,
  ...rest,
});
const evicted = ({ decisions }: Verdict): readonly string[] =>
  decisions.flatMap((one) => ('victim' in one ? [podName(one.victim)] : []));

describe('a pod whose stop makes systemd take the machine down if it takes too long', () => {
  const hardly = { memory: 50 };
  const softly = { memory: 150 };
  const ofSoft = (action: MachineAction, maxPodGraceSeconds: number): readonly string[] => {
    const { look } = aCore(aConfig([softMemory], { maxPodGraceSeconds }), [hog(action), quiet]);
    look(0, softly);
    return evicted(look(1_000, softly));
  };

  it('is evicted under a hard threshold, which lets no stop take that long, whatever its own grace period', () => {
    const at = (action: MachineAction): readonly string[] =>
      evicted(aCore(aConfig([hardMemory]), [hog(action), quiet]).look(0, hardly));
    expect(at(late)).toEqual(['default/hog']);
    expect(at({ ...late, afterMs: 11_000 })).toEqual(['default/quiet']);
    expect(at(always)).toEqual(['default/quiet']);
  });

  it('is evicted under a soft threshold only if its grace period there leaves enough time', () => {
    expect(ofSoft(late, 19)).toEqual(['default/hog']);
    expect(ofSoft(late, 20)).toEqual(['default/quiet']);
    expect(ofSoft(always, 0)).toEqual(['default/quiet']);
  });

  it('is evicted for its own storage limit, for which it has a second', () => {
    const limit = { ephemeralStorageLimit: quantityOfBytes(MI, 'binary') };
    const { usage } = aPod({ name: 'hog', diskBytes: 9 * MI });
    const at = (action: MachineAction): readonly string[] => {
      const pods = known([hog(action, { ...limit, usage })]);
      return looks(aConfig([]), anObservation(0, {}, { pods })).flatMap(evicted);
    };
    expect(at(late)).toEqual(['default/hog']);
    expect(at(always)).toEqual([]);
  });

  it('is passed over with the reason', () => {
    const signals = { 'memory.available': { available: 50 * MI, capacity: CAPACITY } };
    const [verdict] = looks(aConfig([hardMemory]), anObservation(0, signals, { pods: known([hog(always), quiet]) }));
    expect(verdict?.reasons).toContainEqual({ code: 'passed-over', uid: 'uid-hog', because: 'ends-machine' });
  });
});
