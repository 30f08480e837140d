import fc from 'fast-check';
import type { PodView } from '../../src/core/pod/pod.ts';
import { unknown } from '../../src/core/reading.ts';
import { aPod, MI } from '../a.ts';

const pod = fc
  .record({
    name: fc.integer({ min: 0, max: 7 }).map((n) => `pod-${n}`),
    priority: fc.constantFrom(0, 0, 10, 1_000),
    workingSetBytes: fc.integer({ min: 0, max: 5 }).map((n) => n * 100 * MI),
    diskBytes: fc.integer({ min: 0, max: 3 }).map((n) => n * MI),
    processes: fc.integer({ min: 0, max: 5 }),
    requestBytes: fc.constantFrom(0, 100 * MI, 300 * MI),
    isStaticCritical: fc.constantFrom(false, false, false, true),
    isProtected: fc.constantFrom(false, false, false, true),
    evictFor: fc.constantFrom(null, null, ['memory'] as const, ['disk', 'pids'] as const),
    isTerminating: fc.constantFrom(false, false, false, true),
    hasStatistics: fc.constantFrom(true, true, true, false),
    startedAtWallMs: fc.constantFrom(null, 1, 2, 3),
  })
  .map(({ requestBytes, hasStatistics, evictFor, ...rest }): PodView => {
    const requests = { memoryBytes: requestBytes, ephemeralStorageBytes: 0 };
    const usage = hasStatistics ? {} : { containers: unknown('absent', 'stats', 'none') };
    return aPod({ ...rest, ...(evictFor === null ? {} : { evictFor }), requests, usage });
  });
/** Up to six pods of every kind that a choice tells apart. */
export const pods = fc.uniqueArray(pod, { selector: ({ uid }) => uid, maxLength: 6 });
