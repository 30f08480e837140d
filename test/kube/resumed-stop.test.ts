import { describe, expect, it } from 'vitest';
import type { Rung } from '../../src/core/outcome.ts';
import { known } from '../../src/core/reading.ts';
import { until } from '../../src/demo/cast.ts';
import { sleep } from '../../src/host/clock.ts';
import type { KubeKillerNeeds } from '../../src/kube/ladder.ts';
import type { Clock } from '../../src/ports.ts';
import { needsCgroups } from '../act/a-cgroup.ts';
import {
  ACCEPTED,
  actsOf,
  asked,
  clock,
  IGNORES,
  keptMs,
  killer,
  noted,
  pod,
  run,
  SANDBOX,
  soft,
  UNNAMED,
} from './a-killer.ts';
import { aRuntime } from './a-runtime.ts';

const HOLDS_MEMORY = "x=$(head -c 8000000 /dev/zero | tr '\\0' a); echo up; while :; do sleep 1000; done";

describe.skipIf(needsCgroups !== '')(`an end beside a kubelet that an earlier run began ${needsCgroups}`, () => {
  const KILLED: Rung = { atMs: 2, act: 'kill-containers', answer: 'SIGKILL to 1 cgroup' };
  const unheard: Rung = { atMs: 1, act: 'delete', answer: 'no answer' };
  /** A sandbox, the decision, and a container that the kubelet has started since. */
  const started = async () => {
    const sandbox = await pod.child(UNNAMED);
    const resumedFromMs = clock.monoMs() + 20;
    await sleep(clock, 50);
    return { sandbox, resumedFromMs, again: await pod.child('again') };
  };

  it('ends neither a container that was started since, nor the sandbox, and keeps the deletion', async () => {
    const { sandbox, resumedFromMs, again } = await started();
    let isListed = false;
    const runtime: KubeKillerNeeds['runtime'] = {
      ...aRuntime(),
      isAnswering: () => false,
      refresh: async () => {
        isListed = true;
        return known({ containers: [], sandboxes: [], atMs: 0 });
      },
    };
    const of = killer(() => (isListed ? ['again', SANDBOX] : ['again', UNNAMED]), {}, { runtime });
    const outcome = await run(of, { resumedFromMs, sentBefore: 'sigkill', doneBefore: [unheard, KILLED] });
    expect(outcome).toMatchObject({ kind: 'ended', via: 'sigkill' });
    expect([sandbox.isAlive(), again.isAlive()]).toEqual([true, true]);
    expect(asked).toEqual(['later d1']);
    expect(keptMs).toBe(resumedFromMs);
  });

  it('spares them where the runtime does not answer either', async () => {
    const { sandbox, resumedFromMs, again } = await started();
    const runtime: KubeKillerNeeds['runtime'] = { ...aRuntime(), refresh: () => new Promise(() => undefined) };
    const of = killer(() => ['again', UNNAMED], {}, { runtime });
    expect(await run(of, { resumedFromMs, doneBefore: [unheard] })).toMatchObject({ kind: 'ended', via: 'api' });
    expect([sandbox.isAlive(), again.isAlive()]).toEqual([true, true]);
    // Nobody killed it.
    expect(asked).toEqual([]);
  });

  it('leaves the sandbox of a victim that lives, once the runtime has named it', async () => {
    const hog = await pod.child('hog', IGNORES);
    const sandbox = await pod.child(UNNAMED);
    let isListed = false;
    const runtime: KubeKillerNeeds['runtime'] = {
      ...aRuntime(),
      // Longer than a kill waits that is decided now.
      refresh: async () => {
        await sleep(clock, 300);
        isListed = true;
        return known({ containers: [], sandboxes: [], atMs: 0 });
      },
    };
    const of = killer(() => ['hog', isListed ? SANDBOX : UNNAMED], { remove: Promise.resolve(ACCEPTED) }, { runtime });
    expect(await run(of, { resumedFromMs: clock.monoMs() + 20 })).toMatchObject({ kind: 'ended' });
    await until(clock, () => !hog.isAlive(), 10_000);
    expect(sandbox.isAlive()).toBe(true);
  });

  it('kills a victim that holds memory, without waiting for a runtime that does not answer', async () => {
    const hog = await pod.child('hog', HOLDS_MEMORY);
    await pod.child(UNNAMED);
    const runtime: KubeKillerNeeds['runtime'] = {
      ...aRuntime(),
      isAnswering: () => false,
      refresh: () => new Promise(() => undefined),
    };
    // A second never passes.
    const brief: Clock = { ...clock, after: (ms, run) => (ms >= 1_000 ? () => undefined : clock.after(ms, run)) };
    const of = killer(() => ['hog', UNNAMED], { remove: Promise.resolve(ACCEPTED) }, { runtime, clock: brief });
    void run(of, { resumedFromMs: clock.monoMs() + 20 });
    await until(clock, () => !hog.isAlive(), 10_000);
    expect(hog.isAlive()).toBe(false);
  });

  it('leaves the sandbox where all containers are dead, and their cgroups gone', async () => {
    const { sandbox, resumedFromMs, again } = await started();
    again.kill('SIGKILL');
    await until(clock, () => !again.isAlive(), 10_000);
    const of = killer(() => [SANDBOX], {});
    const outcome = await run(of, { resumedFromMs, sentBefore: 'sigkill', doneBefore: [unheard, KILLED] });
    expect(outcome).toMatchObject({ kind: 'ended', via: 'sigkill' });
    expect(sandbox.isAlive()).toBe(true);
    expect(asked).toEqual(['later d1']);
  });

  it('kills what is left of the victim alone, and the rest of the pod never', async () => {
    const hog = await pod.child('hog', IGNORES);
    const { resumedFromMs, again } = await started();
    const fast: Clock = { ...clock, after: (ms, run) => clock.after(ms === 2_000 ? 1 : ms, run) };
    const of = killer(() => ['hog', 'again', SANDBOX], { remove: Promise.resolve(ACCEPTED) }, { clock: fast });
    expect(await run(of, { resumedFromMs })).toMatchObject({ kind: 'ended' });
    await until(clock, () => !hog.isAlive(), 10_000);
    expect(again.isAlive()).toBe(true);
    expect(noted.map(({ act }) => act)).not.toContain('kill-pod');
  });

  it('asks the API by the name that the decision has, where an earlier run had asked', async () => {
    await pod.child('app');
    const resumedFromMs = clock.monoMs() + 20;
    const of = killer(() => ['app'], { remove: Promise.resolve(ACCEPTED) }, {}, null);
    expect(await run(of, { resumedFromMs, doneBefore: [unheard] })).toMatchObject({ kind: 'ended' });
    expect(asked).toEqual(['delete 1']);
  });

  it('keeps the deletion of a pod that the API has not told of for when it is listed', async () => {
    await pod.child('app');
    const of = killer(() => ['app'], {}, {}, null);
    const outcome = await run(of, { resumedFromMs: clock.monoMs() + 20 });
    expect(actsOf(outcome)).toEqual(['kill-containers', 'spool']);
    expect(asked).toEqual(['later d1']);
  });

  it('does not ask again for what was accepted', async () => {
    await pod.child('app');
    const resumedFromMs = clock.monoMs() + 20;
    const evicted: Rung = { atMs: 1, act: 'evict', answer: '201', isAccepted: true };
    const stopping = run(
      killer(() => ['app'], {}),
      { ...soft(60_000), resumedFromMs, doneBefore: [evicted] },
    );
    await sleep(clock, 50);
    for (const pid of pod.pids()) process.kill(pid, 'SIGTERM');
    expect(await stopping).toMatchObject({ kind: 'ended', via: 'api' });
    await pod.child('again');
    const deleted: Rung = { ...unheard, isAccepted: true };
    expect(
      await run(
        killer(() => ['again'], {}),
        { resumedFromMs: clock.monoMs() + 20, doneBefore: [deleted] },
      ),
    ).toMatchObject({ kind: 'ended' });
    expect(asked).toEqual([]);
  });
});
