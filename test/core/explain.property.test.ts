import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decide } from '../../src/core/decide.ts';
import { usageFor } from '../../src/core/eviction/comparator.ts';
import { counterfactuals, type ExplainedLook, explain } from '../../src/core/explain.ts';
import type { PodView } from '../../src/core/pod/pod.ts';
import { known, unknown } from '../../src/core/reading.ts';
import type { FsLayout, Signal } from '../../src/core/signal.ts';
import { initialState } from '../../src/core/state/state.ts';
import { aConfig, anObservation, aPod, aThreshold } from '../a.ts';

const absent = unknown('absent', 'stats', 'not there');
const CAPACITY = 8;
const few = fc.integer({ min: 0, max: CAPACITY });
const LIMITS = [null, null, null, 'kubelet-evicting', 'budget-refused', 'budgets-refuse', 'restart-guard'] as const;
const podAt = (i: number): fc.Arbitrary<PodView> =>
  fc
    .record({
      priority: fc.integer({ min: -1, max: 1 }),
      request: few,
      used: few,
      hasStats: fc.integer({ min: 0, max: 5 }).map((n) => n > 0),
      startedAtWallMs: fc.option(fc.integer({ min: 0, max: 1 })),
      ownerKey: fc.constantFrom(null, 'lost-too-many'),
      isProtected: fc.boolean(),
      evictFor: fc.constantFrom(null, null, null, ['memory'] as const, ['disk', 'pids'] as const),
      isStaticCritical: fc.integer({ min: 0, max: 5 }).map((n) => n === 0),
      isDaemonSet: fc.boolean(),
      isTerminating: fc.integer({ min: 0, max: 5 }).map((n) => n === 0),
      limitedBy: fc.constantFrom(...LIMITS),
    })
    .map(({ request, used, hasStats, evictFor, ...declared }) =>
      aPod({
        ...declared,
        ...(evictFor === null ? {} : { evictFor }),
        name: `p${(i * 5) % 7}`,
        uid: `u${i}`,
        requests: { memoryBytes: request, ephemeralStorageBytes: request },
        usage: usageOf(used, hasStats),
      }),
    );
function usageOf(used: number, hasStats = true): Partial<PodView['usage']> {
  return {
    workingSetBytes: known(used),
    processes: known(used),
    disk: known({
      logsBytes: 0,
      logsInodes: 0,
      rootfsBytes: 0,
      rootfsInodes: 0,
      volumesBytes: used,
      volumesInodes: used,
    }),
    containers: hasStats ? known([]) : absent,
  };
}
const pods = fc
  .integer({ min: 1, max: 5 })
  .chain((count) => fc.tuple(...Array.from({ length: count }, (_, i) => podAt(i))));
const signals: readonly Signal[] = ['memory.available', 'nodefs.available', 'nodefs.inodesFree', 'pid.available'];
const layouts: readonly FsLayout[] = ['nodefs-only', 'imagefs-separate'];

function aLook(
  list: readonly PodView[],
  signal: Signal,
  layout: FsLayout,
  threshold = aThreshold(signal, 5),
  available = 1,
): ExplainedLook {
  return {
    observation: anObservation(
      1_000,
      { [signal]: { available, capacity: CAPACITY } },
      { pods: known(list), fsLayout: known(layout) },
    ),
    config: { ...aConfig([threshold], { guard: { kills: 1, windowMs: 10_000 } }), isLive: true },
    state: {
      ...initialState('b'),
      lastLookMs: 900,
      firstMetMs: { [threshold.id]: 0 },
      unresolved: [threshold.id],
      ownerKills: [{ ownerKey: 'lost-too-many', atMs: 500 }],
    },
    decisions: [],
    reasons: [],
  };
}

describe('an explanation', () => {
  it('names the pod that the look evicts, and none if it evicts none', () => {
    const least = fc.record({ graceMs: fc.constantFrom(0, 500), minReclaimBytes: fc.constantFrom(0, 4) });
    const cases = [pods, fc.constantFrom(...signals), fc.constantFrom(...layouts), least, few] as const;
    fc.assert(
      fc.property(...cases, (list, signal, layout, how, available) => {
        const look = aLook(list, signal, layout, aThreshold(signal, 5, how), available);
        const { decisions, reasons } = decide(look.state, look.observation, look.config);
        const evicted = decisions.flatMap((decision) => (decision.kind === 'evict' ? [decision.victim.uid] : []));
        const isMet = reasons.some(({ code }) => code === 'below-threshold' || code === 'min-reclaim-pending');
        const victim = explain({ ...look, decisions, reasons }, signal)?.victim?.uid;
        expect(isMet && victim !== undefined ? [victim] : []).toEqual(evicted);
      }),
      { numRuns: 1_000 },
    );
  });
});

describe('what would have to change', () => {
  it('is exactly where the outcome changes, and nothing is missing', () => {
    fc.assert(
      fc.property(pods, fc.constantFrom(...signals), fc.constantFrom(...layouts), (list, signal, layout) => {
        const chosenAmong = (changed: readonly PodView[]) =>
          explain(aLook(changed, signal, layout), signal)?.victim?.uid;
        const victim = chosenAmong(list);
        for (const pod of list) {
          const whatIf = counterfactuals(aLook(list, signal, layout), signal, pod.uid);
          const isVictim = victim === pod.uid;
          expect(whatIf?.isVictim).toBe(isVictim);
          /** The pod's own, or the whole range where it has no number; then every value that the outcome changes at. */
          const check = (
            what: string,
            nowValue: number | null,
            values: readonly number[],
            as: (n: number) => PodView,
          ) => {
            const found = whatIf?.changes.find((change) => change.what === what);
            const others = values.filter((value) => {
              const isNow = chosenAmong(list.map((other) => (other === pod ? as(value) : other))) === pod.uid;
              return isNow !== isVictim;
            });
            if (found === undefined || !('bound' in found)) return expect(others).toEqual([]);
            expect(found.now).toBe(nowValue);
            const isIn = (value: number) => (found.bound === 'at-most' ? value <= found.value : value >= found.value);
            expect(others).toEqual(values.filter(isIn));
          };
          const used = usageFor(signal, pod, layout);
          const amounts = Array.from({ length: CAPACITY + 1 }, (_, n) => n);
          check('usage', used.known ? used.value : null, amounts, (n) => ({
            ...pod,
            usage: { ...pod.usage, ...usageOf(n) },
          }));
          check('priority', pod.priority, [-4, -3, -2, -1, 0, 1, 2, 3, 4], (priority) => ({ ...pod, priority }));
          check('request', signal === 'pid.available' ? 0 : pod.requests.memoryBytes, amounts, (n) => ({
            ...pod,
            requests: { memoryBytes: n, ephemeralStorageBytes: n },
          }));
        }
      }),
      { numRuns: 500 },
    );
  });
});
