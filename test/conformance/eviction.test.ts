import { readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import type { Json, List } from './pod-json.ts';
import { replay } from './replay.ts';

const DATA = new URL('./eviction.jsonl.gz', import.meta.url);
const scenarios: List = gunzipSync(readFileSync(DATA))
  .toString()
  .trim()
  .split('\n')
  .map((line) => JSON.parse(line));

describe('the looks that a kubelet of 1.36.2 took', () => {
  it('are all there', () => {
    expect(scenarios.length).toBe(3_069);
    expect(scenarios.reduce((sum, { steps }) => sum + steps.length, 0)).toBe(10_404);
  });

  it('are decided the same way here, every one', () => {
    const differing: string[] = [];
    for (const scenario of scenarios) {
      const results = replay(scenario);
      for (const [i, step] of scenario.steps.entries()) {
        const why = differences(step.expect ?? {}, results[i] ?? {});
        if (why.length > 0) differing.push(`${scenario.metadata.name} step ${i + 1}: ${why.join('; ')}`);
      }
    }
    expect(differing.slice(0, 20)).toEqual([]);
  });
});

/** scenarios.md section 4: an absent key is not checked; sets, lists, groups of equals, lists of signals, alternatives. */
function differences(wanted: Json, got: Json): readonly string[] {
  const { oneOf, ...common } = wanted;
  const found = Object.entries(common).flatMap(([key, value]) => differ(key, value, got[key]));
  if (oneOf === undefined || oneOf.some((other: Json) => differences(other, got).length === 0)) return found;
  return [...found, `none of oneOf, got ${JSON.stringify(got)}`];
}

function differ(key: string, wanted: Json, got: Json): readonly string[] {
  const isSame =
    key === 'evicted'
      ? sameEvicted(wanted, got)
      : key === 'ranking'
        ? sameRanking(wanted, got)
        : same(key, wanted, got);
  return isSame ? [] : [`${key}: expected ${JSON.stringify(wanted)}, got ${JSON.stringify(got)}`];
}

function same(key: string, wanted: Json, got: Json): boolean {
  if (key === 'signal' && Array.isArray(wanted)) return wanted.includes(got);
  if (key === 'thresholdsObserved' || key === 'thresholdsMet' || key === 'conditions') {
    return JSON.stringify(wanted.toSorted()) === JSON.stringify(got);
  }
  if (typeof wanted !== 'object' || wanted === null || Array.isArray(wanted))
    return JSON.stringify(wanted) === JSON.stringify(got);
  if (got === null || got === undefined) return false;
  if (key === 'annotations' && Object.keys(wanted).length !== Object.keys(got).length) return false;
  return Object.entries(wanted).every(([name, value]) =>
    got[name] === undefined && name === 'soft' ? true : same(name, value, got[name]),
  );
}

function sameEvicted(wanted: List, got: List): boolean {
  return (
    wanted.length === got.length &&
    wanted.every((entry) => {
      const other = got.find(({ pod }) => pod === entry.pod);
      return other !== undefined && Object.entries(entry).every(([name, value]) => same(name, value, other[name]));
    })
  );
}

function sameRanking(wanted: List, got: List): boolean {
  let at = 0;
  for (const place of wanted) {
    const group: List = Array.isArray(place) ? place : [place];
    const here = got.slice(at, at + group.length);
    if (JSON.stringify(group.toSorted()) !== JSON.stringify(here.toSorted())) return false;
    at += group.length;
  }
  return at === got.length;
}
