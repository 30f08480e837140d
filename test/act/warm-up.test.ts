import { describe, expect, it } from 'vitest';
import { type WarmUpNeeds, warmUp } from '../../src/act/warm-up.ts';
import type { Decision } from '../../src/core/decision.ts';
import { known, unknown } from '../../src/core/reading.ts';
import { findCgroupMounts } from '../../src/host/cgroup/cgroup-mounts.ts';
import { createClock } from '../../src/host/clock.ts';
import { aConfig, aPod, GI } from '../a.ts';

const quiet = (): void => undefined;

function stage(rest: Partial<WarmUpNeeds> = {}) {
  const decisions: Decision[] = [];
  const looked: string[] = [];
  const real = createClock();
  const nowMs = real.monoMs();
  const mounts = findCgroupMounts();
  if (!mounts.known) throw new Error(mounts.detail);
  const needs: WarmUpNeeds = {
    // Nothing takes time: how many rounds there are is not the machine's business.
    clock: { ...real, monoMs: () => nowMs, after: (_, run) => real.after(0, run) },
    mounts: mounts.value,
    config: () => aConfig([]),
    podsNow: () => known([]),
    killer: {
      usedBytes: () => known(0),
      largestProcesses: ({ name }) => {
        looked.push(name);
        return known([]);
      },
    },
    rehearse: ({ verdict }) => void decisions.push(...verdict.decisions),
    log: { debug: quiet, info: quiet, warn: quiet, error: quiet },
    ...rest,
  };
  return { needs, decisions, looked };
}

describe('the warm-up', () => {
  it('runs the path of a hard eviction many times, even on a node without thresholds and pods', async () => {
    const { needs, decisions, looked } = stage();
    await warmUp(needs, new AbortController().signal);
    const evictions = decisions.filter(({ kind }) => kind === 'evict');
    expect(evictions.length).toBeGreaterThanOrEqual(20);
    expect(evictions).toHaveLength(looked.length);
    expect(new Set(looked)).toEqual(new Set(['a']));
  });

  it('ranks the existing pods, and does without them if they are unknown', async () => {
    const { needs, looked } = stage({
      podsNow: () => known([aPod({ name: 'web', workingSetBytes: 9 * GI, priority: -1 })]),
    });
    await warmUp(needs, new AbortController().signal);
    expect(new Set(looked)).toEqual(new Set(['web']));
    const { needs: others, decisions } = stage({ podsNow: () => unknown('not-asked', 'pods', 'not yet') });
    await warmUp(others, new AbortController().signal);
    expect(decisions).not.toEqual([]);
  });

  it('ends when the agent does', async () => {
    const { needs, decisions } = stage();
    const stop = new AbortController();
    stop.abort();
    await warmUp(needs, stop.signal);
    expect(decisions).toEqual([]);
  });
});
