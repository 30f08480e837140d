import { describe, expect, it } from 'vitest';
import { decide } from '../../../src/core/decide.ts';
import type { PodView } from '../../../src/core/pod/pod.ts';
import { known } from '../../../src/core/reading.ts';
import { initialState } from '../../../src/core/state/state.ts';
import { aConfig, anObservation, aPod, aThreshold, GI, MI } from '../../a.ts';
import { aCore, ended, hardDisk, idOf, victims } from './a-live-core.ts';

describe('a victim that has ended, or cannot be, whose files are still there', () => {
  const within = aPod({
    name: 'within',
    diskBytes: 50 * MI,
    requests: { memoryBytes: 0, ephemeralStorageBytes: 500 * MI },
  });
  /** Chosen in the time after the wait of 30 s (D15) for the eviction of `filler`, with 60 MiB lacking. */
  const chosenLater = (filler: PodView, beside: PodView = within) => {
    const core = aCore(aConfig([hardDisk]), [filler, beside]);
    const first = core.look(0, { nodefs: 40 });
    expect(victims(first)).toEqual(['filler']);
    core.terminate('filler');
    core.look(100, { nodefs: 40, heard: [ended(idOf(first), 100)] });
    return [31_000, 62_000, 600_000].flatMap((ms) => victims(core.look(ms, { nodefs: 40 })));
  };
  const relief = (scratch: number, deletedOpen = 0) => {
    const of = (bytes: number) => ({ bytes: known(bytes), inodes: known(0) });
    return known({
      ...{ scratch: of(scratch), deletedOpen: of(deletedOpen), grownLastMinute: of(GI), writtenBytes: known(0) },
    });
  };

  it.each([
    ['as many as are lacking', aPod({ name: 'filler', diskBytes: 60 * MI }), []],
    ['fewer', aPod({ name: 'filler', diskBytes: 60 * MI - 1 }), ['within']],
    [
      'as many as are lacking in its scratch and deleted ones',
      aPod({ name: 'filler', diskBytes: 900 * MI, diskRelief: relief(50 * MI, 10 * MI) }),
      [],
    ],
    ['files that stay', aPod({ name: 'filler', diskBytes: 900 * MI, diskRelief: relief(59 * MI) }), ['within']],
  ])('is no reason to evict a pod within its request while it has %s', (_, filler, expected) => {
    expect([...new Set(chosenLater(filler))]).toEqual(expected);
  });

  it('is none either once it is known only by what the kubelet has yet to remove', () => {
    const core = aCore(aConfig([hardDisk]), [within]);
    const chosen = [60, 59].map((mib, i) => victims(core.look(i * 100, { nodefs: 40, removed: { filler: mib } })));
    expect(chosen).toEqual([[], ['within']]);
  });

  it.each([60, 2_000])('does not save a pod that exceeds its request, however little beside %i MiB', (mib) => {
    const filler = aPod({ name: 'filler', priority: -1, diskBytes: mib * MI });
    expect(chosenLater(filler, aPod({ name: 'over', diskBytes: MI }))).toContain('over');
  });

  it('saves nobody of a disk’s inodes, which have no requests, once less than half of the threshold is left', () => {
    const inodes = aThreshold('nodefs.inodesFree', 1_000);
    const used = (name: string, volumesInodes: number) => {
      const pod = aPod({ name });
      const { disk } = pod.usage;
      return { ...pod, usage: { ...pod.usage, disk: disk.known ? known({ ...disk.value, volumesInodes }) : disk } };
    };
    const stopped: PodView = { ...used('filler', 900), isTerminating: true };
    const chosen = (available: number): readonly string[] => {
      const sample = { 'nodefs.inodesFree': { available, capacity: 100_000 } } as const;
      const observation = anObservation(0, sample, { pods: known([stopped, used('other', 800)]) });
      return victims(decide(initialState('boot'), observation, { ...aConfig([inodes]), isLive: true }));
    };
    expect([chosen(500), chosen(499)]).toEqual([[], ['other']]);
  });
});
