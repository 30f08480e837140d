import { describe, expect, it } from 'vitest';
import { known, unknown } from '../../src/core/reading.ts';
import { quantityOfBytes } from '../../src/core/units/quantity.ts';
import { endingOf, type Witness } from '../../src/demo/ending.ts';
import type { Measured } from '../../src/demo/story.ts';

const MIB = 1024 * 1024;
const limit = quantityOfBytes(60 * MIB, 'binary');

function measuredOf(change: Partial<Measured> = {}, victim = 'web'): Measured {
  const uid = `demo-${victim}`;
  return {
    evictions: [
      {
        id: 'boot-1',
        atMs: 1_000.5,
        kind: 'evict',
        threshold: {
          id: 'memory.available/evictionHard',
          signal: 'memory.available',
          isHard: true,
          limit,
          target: limit,
          available: 59 * MIB,
          sinceMs: 1_000,
        },
        victim: { uid, namespace: 'demo', name: victim, qos: 'Burstable', priority: 0 },
        ranking: [],
        graceSeconds: 1,
        message: '',
        annotations: {},
        differences: [],
      },
    ],
    outcome: { of: 'boot-1', atMs: 1_020, kind: 'ended', via: 'sigkill', releasedBytes: known(200 * MIB) },
    unmetLookMs: 997,
    stopBeganMs: 1_002.25,
    backMs: 1_021,
    availableNow: 300 * MIB,
    ...change,
  };
}

const WITNESS: Witness = {
  kind: 'real',
  innocents: ['critical', 'database', 'batch'].map((name, i) => ({
    name: `demo/${name}`,
    pid: 100 + i,
    isAlive: true,
  })),
  kernelOomKills: known(0),
  requestsServed: 800,
  death: { atMs: 1_018, signal: 'SIGKILL' },
  leakerPid: 99,
};

describe('the ending', () => {
  it('names victim, signal, observed value, threshold, each measured time and the bytes recovered', () => {
    const { isProven, lines } = endingOf(measuredOf(), WITNESS);
    expect(isProven).toBe(true);
    expect(lines.map((line) => line.trim())).toEqual([
      '',
      'victim      demo/web (Burstable, priority 0, pid 99; 800 requests served, 1 MiB kept of each)',
      'signal      memory.available, hard threshold',
      'observed    59 MiB available of 512 MiB, threshold 60 MiB',
      'reaction    2.3 ms from the sample that detected it to SIGKILL',
      'crossed at most 3.0 ms before the sample that detected it',
      '18.0 ms until its parent saw it die of SIGKILL',
      '20.0 ms until its cgroup was proven empty',
      '21.0 ms to the first sample with memory above the threshold again',
      'recovered   241 MiB: 59 MiB -> 300 MiB available',
      'OOM killer  0 kills by the kernel',
      'innocents   demo/critical (pid 100) alive, demo/database (pid 101) alive, demo/batch (pid 102) alive',
      '',
      'ok: demo/web evicted, memory.available 59 MiB < 60 MiB, SIGKILL after 2.3 ms, 241 MiB recovered, 3 innocents alive (real)',
    ]);
  });

  const gone = WITNESS.innocents.map((innocent) => ({ ...innocent, isAlive: innocent.name !== 'demo/database' }));
  const cases: readonly (readonly [string, Measured, Witness, string])[] = [
    ['nobody was evicted', measuredOf({ evictions: [] }), WITNESS, 'evicted: none'],
    ['the wrong pod was evicted', measuredOf({}, 'database'), WITNESS, 'evicted: demo/database'],
    ['the victim survived', measuredOf({ outcome: null }), WITNESS, 'the victim did not end (no outcome)'],
    ['memory did not come back', measuredOf({ backMs: null }), WITNESS, 'memory did not recover'],
    ['memory went away again', measuredOf({ availableNow: 59 * MIB }), WITNESS, 'memory did not recover'],
    ['an innocent died', measuredOf(), { ...WITNESS, innocents: gone }, 'demo/database no longer responds'],
    [
      'an innocent was never there',
      measuredOf(),
      { ...WITNESS, innocents: [] },
      'not all of the other pods were running',
    ],
    ['the kernel killed', measuredOf(), { ...WITNESS, kernelOomKills: known(1) }, 'the kernel OOM killer killed 1'],
    [
      'nobody knows whether the kernel killed',
      measuredOf(),
      { ...WITNESS, kernelOomKills: unknown('absent', 'memory.events', 'gone') },
      'kernel OOM kills are unknown: gone',
    ],
  ];
  for (const [what, measured, witness, sentence] of cases) {
    it(`proves nothing if ${what}`, () => {
      const { isProven, lines } = endingOf(measured, witness);
      expect(isProven).toBe(false);
      expect(lines.at(-1)).toMatch(/^not proven: .*\(real\)$/);
      expect(lines.at(-1)).toContain(sentence);
    });
  }
});
