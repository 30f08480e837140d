import { expect, it } from 'vitest';
import { oomScoreAdj } from '../../../src/core/pod/oom-score.ts';

const GI = 2 ** 30;

it.each([
  ['Guaranteed', 0, 1 * GI, -997],
  ['BestEffort', 0, 0, 1000],
  // 1000 - floor(1000 * 4 / 64)
  ['Burstable', 0, 4 * GI, 938],
  ['Burstable', 0, 0, 999],
  ['Burstable', 0, 1, 999],
  ['Burstable', 0, 64 * GI, 3],
  ['Burstable', 0, 100 * GI, 3],
  ['Burstable', 2_000_001_000, 4 * GI, -997],
  ['BestEffort', 2_000_000_000, 0, 1000],
] as const)('a %s pod of priority %d that requests %d bytes of 64 GiB has %d', (qos, priority, memoryBytes, adj) => {
  const requests = { memoryBytes, ephemeralStorageBytes: 0 };
  expect(oomScoreAdj({ qos, priority, requests }, 64 * GI)).toBe(adj);
});
