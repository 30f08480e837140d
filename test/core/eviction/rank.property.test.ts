import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { rank } from '../../../src/core/eviction/rank.ts';
import type { PodView } from '../../../src/core/pod/pod.ts';
import { SIGNAL_FACTS, SIGNALS } from '../../../src/core/signal.ts';
import { pods } from '../some-pods.ts';

const RUNS = { numRuns: 300 };

describe('rank', () => {
  it('does not depend on the order of the pods, and keeps every pod', () => {
    fc.assert(
      fc.property(pods, fc.constantFrom(...SIGNALS), fc.nat(), (given, signal, seed) => {
        const shuffled = given
          .toSorted((a, b) => ((a.uid.length * seed) % 7) - ((b.uid.length * seed) % 7))
          .toReversed();
        const order = (list: readonly PodView[]) => rank(signal, list, 'nodefs-only').map(({ row }) => row);
        expect(order(shuffled)).toEqual(order(given));
        expect(
          order(given)
            .map(({ uid }) => uid)
            .toSorted(),
        ).toEqual(given.map(({ uid }) => uid).toSorted());
      }),
      RUNS,
    );
  });

  it('can be derived again from the values it prints', () => {
    fc.assert(
      fc.property(pods, fc.constantFrom(...SIGNALS), (given, signal) => {
        const rows = rank(signal, given, 'nodefs-only').map(({ row }) => row);
        for (const [i, row] of rows.entries()) {
          const next = rows[i + 1];
          if (next === undefined) {
            expect(row.decidedBy).toBeNull();
            continue;
          }
          const differing = SIGNAL_FACTS[signal].rankedBy.find(
            (by) => JSON.stringify(valueAt(row, by)) !== JSON.stringify(valueAt(next, by)),
          );
          if (differing === undefined) expect(['younger', 'name', 'uid']).toContain(row.decidedBy);
          else expect(row.decidedBy).toBe(differing);
        }
      }),
      RUNS,
    );
  });
});

function valueAt(row: ReturnType<typeof rank>[number]['row'], by: string): unknown {
  const value = row.values.find((entry) => entry.by === by)?.value;
  return value?.known === true ? value.value : 'unknown';
}
