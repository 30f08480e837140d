import { describe, expect, it } from 'vitest';
import { attribute, growthBetween, type MemoryShares, sayCulprit } from '../../../src/core/eviction/attribution.ts';
import { known, unknown } from '../../../src/core/reading.ts';

const MIB = 2 ** 20;

function shares(atMs: number, podsMiB: number, others: { readonly [where: string]: number }): MemoryShares {
  return {
    atMs,
    podsBytes: podsMiB * MIB,
    others: Object.entries(others).map(([where, mib]) => ({ where, bytes: mib * MIB })),
  };
}
const between = (before: MemoryShares, now: MemoryShares) => attribute(known(growthBetween(before, now)));
const said = (before: MemoryShares, now: MemoryShares): string => sayCulprit(between(before, now));

describe('attribution of memory growth', () => {
  const before = shares(0, 100, { 'system.slice': 200, kernel: 50 });

  it('names what grew outside pods if most of the growth is there, with its part of all growth and the time', () => {
    expect(said(before, shares(42_400, 120, { 'system.slice': 812, kernel: 58 }))).toBe(
      'most of the growth of the last 42s was not in pods: system.slice took 612 MiB (of 640 MiB)',
    );
  });

  it('names nobody outside if the pods grew as much or more', () => {
    expect(said(before, shares(1_000, 300, { 'system.slice': 300, kernel: 50 }))).toBe('');
    expect(said(before, shares(1_000, 200, { 'system.slice': 300, kernel: 50 }))).toBe('');
    const growth = between(before, shares(1_000, 300, { 'system.slice': 300, kernel: 50 }));
    expect(growth).toEqual(known({ overMs: 1_000, podsBytes: 200 * MIB, totalBytes: 300 * MIB, culprit: null }));
  });

  it('adds up several that grew outside pods, and names the one that grew most', () => {
    const now = shares(1_000, 160, { 'system.slice': 240, kernel: 100, 'user.slice': 30 });
    expect(said(before, now)).toContain('kernel took 50 MiB (of 180 MiB)');
  });

  it('does not subtract what shrank outside pods from what grew there', () => {
    expect(said(before, shares(1_000, 100, { 'system.slice': 100, 'user.slice': 90 }))).toContain(
      'user.slice took 90 MiB',
    );
  });

  it('counts something new as grown from zero, and pods that shrank as not grown', () => {
    const growth = between(before, shares(1_000, 40, { 'system.slice': 200, kernel: 50, 'user.slice': 64 }));
    expect(growth).toMatchObject({
      value: { podsBytes: -60 * MIB, totalBytes: 64 * MIB, culprit: { where: 'user.slice' } },
    });
  });

  it('names nobody while the pods shrank by more than that: a pod that ended may hide one that grew', () => {
    expect(said(before, shares(1_000, 10, { 'system.slice': 205, kernel: 50 }))).toBe('');
  });

  it('names nobody if a pod grew by more, however much another one or its own former run had', () => {
    const pods = (mib: { readonly [path: string]: number }) => ({
      eachPod: new Map(Object.entries(mib).map(([path, each]) => [path, each * MIB])),
    });
    const [then, now] = [before, shares(1_000, 100, { 'system.slice': 206, kernel: 50 })];
    expect(said(then, now)).toContain('system.slice took 6 MiB');
    expect(said({ ...then, ...pods({ web: 100, db: 0 }) }, { ...now, ...pods({ web: 0, db: 100 }) })).toBe('');
    const again = between({ ...then, ...pods({}) }, { ...now, ...pods({ web: 100 }) });
    expect(again).toMatchObject({ value: { podsBytes: 100 * MIB, totalBytes: 106 * MIB, culprit: null } });
    expect(said({ ...then, ...pods({ web: 97 }) }, { ...now, ...pods({ web: 100 }) })).toContain('system.slice took');
  });

  it('names nobody for a few MiB', () => {
    expect(said(before, shares(1_000, 100, { 'system.slice': 203, kernel: 50 }))).toBe('');
  });

  it('is unknown, with the reason, if the growth was not read', () => {
    const missing = unknown('absent', 'growth', 'nothing was read before to compare with');
    expect(attribute(missing)).toBe(missing);
    expect(sayCulprit(missing)).toBe('');
  });

  it('keeps three names at most, even if someone makes a thousand cgroups', () => {
    const many = Object.fromEntries(Array.from({ length: 1_000 }, (_, i) => [`c${i}`, i]));
    const growth = growthBetween(before, shares(1_000, 100, many));
    expect(growth.others.map(({ where }) => where)).toEqual(['c999', 'c998', 'c997']);
    expect(growth.outsideBytes).toBe(((999 * 1_000) / 2) * MIB);
  });
});
