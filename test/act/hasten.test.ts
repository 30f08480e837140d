import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { killCgroup } from '../../src/act/kill.ts';
import type { Decision } from '../../src/core/decision.ts';
import { known } from '../../src/core/reading.ts';
import { until } from '../../src/demo/cast.ts';
import { sleep } from '../../src/host/clock.ts';
import type { Killer } from '../../src/ports.ts';
import { makeCgroup, mounts, needsCgroups, type TestCgroup } from './a-cgroup.ts';
import { clock, evict, hard, soft, stage, victim } from './an-actor.ts';

describe.skipIf(needsCgroups !== '')(`an eviction whose grace period a shutdown has cut ${needsCgroups}`, () => {
  let cgroup: TestCgroup;
  beforeEach(async () => {
    cgroup = makeCgroup();
    await cgroup.run("trap '' TERM; echo up; while :; do sleep 1000; done");
  });
  afterEach(() => cgroup.remove());

  const stop: Killer['stop'] = async ({ decision, graceMs, first }, hasten) => {
    if (mounts === null) throw new Error('no cgroups');
    const { ref } = cgroup;
    await killCgroup({ mounts, clock, ref, graceMs, first, givesBack: 'memory', hasten, ask: null });
    return { of: decision, atMs: clock.monoMs(), kind: 'ended', via: 'sigkill', releasedBytes: known(0) };
  };
  const stopFor = (id: string, graceSeconds: number): Decision => ({
    ...{ id, atMs: 0, kind: 'stop-for-shutdown', victim, phase: 1, graceSeconds },
  });
  /** How long it lives after `then`. */
  const livesMs = async (then: Decision): Promise<number> => {
    const { actor } = stage({ killer: { stop, usedBytes: () => known(0), largestProcesses: () => known([]) } });
    actor.begin(evict(soft, 60));
    await sleep(clock, 100);
    actor.begin(stopFor('boot-2', 8));
    await sleep(clock, 100);
    const fromMs = clock.monoMs();
    actor.begin(then);
    await until(clock, () => cgroup.pids().length === 0, 15_000);
    return clock.monoMs() - fromMs;
  };

  it('is hastened all the same by a hard threshold (D4, D12)', async () => {
    const how = { threshold: hard, graceSeconds: 1 } as const;
    expect(await livesMs({ id: 'boot-3', atMs: 0, kind: 'hasten', eviction: 'boot-1', ...how })).toBeLessThan(1_000);
  });

  it('has only the time of the next shutdown if that is less', async () => {
    expect(await livesMs(stopFor('boot-3', 2))).toBeLessThan(3_000);
  });
});
