import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { effectiveMins, protectedCacheBytes } from '../../../src/core/eviction/protected-cache.ts';

const bytes = fc.integer({ min: 0, max: 1_000 });
const aChild = fc.record({ minBytes: bytes, usageBytes: bytes });
const aFamily = fc
  .record({ children: fc.array(aChild, { maxLength: 6 }), ownBytes: bytes, effectiveBytes: bytes })
  .map(({ children, ownBytes, effectiveBytes }) => ({
    children,
    parent: { effectiveBytes, usageBytes: children.reduce((sum, { usageBytes }) => sum + usageBytes, ownBytes) },
  }));
const sumOf = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0);

describe('what memory.min protects below a cgroup', () => {
  it('is never more than the cgroup itself has', () => {
    fc.assert(
      fc.property(aFamily, fc.boolean(), ({ parent, children }, isRecursive) => {
        const mins = effectiveMins(parent, children, isRecursive);
        expect(mins.every((min) => min >= 0)).toBe(true);
        expect(sumOf(mins)).toBeLessThanOrEqual(parent.effectiveBytes + 1e-6);
      }),
    );
  });

  it('is what a child claims at most, unless the rest is divided', () => {
    fc.assert(
      fc.property(aFamily, ({ parent, children }) => {
        for (const [i, min] of effectiveMins(parent, children, false).entries()) {
          const { minBytes = 0, usageBytes = 0 } = children[i] ?? {};
          expect(min).toBeLessThanOrEqual(Math.min(minBytes, usageBytes));
        }
      }),
    );
  });

  it('is all of the cgroup if the rest is divided, and it has that much in its children', () => {
    fc.assert(
      fc.property(aFamily, ({ parent, children }) => {
        const used = sumOf(children.map(({ usageBytes }) => usageBytes));
        fc.pre(used > parent.effectiveBytes);
        const mins = effectiveMins({ ...parent, usageBytes: used }, children, true);
        expect(sumOf(mins)).toBeCloseTo(parent.effectiveBytes, 6);
      }),
    );
  });

  it('is nothing without memory.min anywhere', () => {
    fc.assert(
      fc.property(aFamily, fc.boolean(), ({ parent, children }, isRecursive) => {
        const none = children.map((child) => ({ ...child, minBytes: 0 }));
        expect(sumOf(effectiveMins({ ...parent, effectiveBytes: 0 }, none, isRecursive))).toBe(0);
      }),
    );
  });

  it('keeps of the cache what other memory does not claim, and never more than there is', () => {
    fc.assert(
      fc.property(bytes, bytes, bytes, (effective, usageBytes, cacheBytes) => {
        const kept = protectedCacheBytes(effective, { usageBytes, cacheBytes });
        expect(kept).toBeGreaterThanOrEqual(0);
        expect(kept).toBeLessThanOrEqual(Math.min(cacheBytes, usageBytes, effective));
        if (effective === 0) expect(kept).toBe(0);
      }),
    );
    expect(protectedCacheBytes(450, { usageBytes: 500, cacheBytes: 400 })).toBe(350);
    expect(protectedCacheBytes(100, { usageBytes: 500, cacheBytes: 400 })).toBe(0);
  });
});
