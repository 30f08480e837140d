import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createHasten } from '../../src/act/hasten.ts';
import { known, type Reading, unknown } from '../../src/core/reading.ts';
import { turnOfStop } from '../../src/core/shutdown/chain.ts';
import { until } from '../../src/demo/cast.ts';
import { refOf } from '../../src/host/cgroup/cgroupfs.ts';
import { createClock, sleep } from '../../src/host/clock.ts';
import type { ApiPod } from '../../src/kube/api/api-pod.ts';
import { createRefusals, createRestartGuard } from '../../src/kube/pods/candidate-limits.ts';
import type { LivePod } from '../../src/kube/pods/live-pods.ts';
import type { KubeKillerNeeds, Said, StopThroughApi } from '../../src/kube/stop/ladder.ts';
import { createKubeKiller } from '../../src/kube/stop/stop.ts';
import type { StopOrder } from '../../src/ports.ts';
import { makeCgroup, mounts, needsCgroups, type TestCgroup } from '../act/a-cgroup.ts';
import { AWAY, aRuntime } from './a-runtime.ts';
import { anApiPod } from './an-api-pod.ts';

const clock = createClock();
const IGNORES = "trap '' TERM; echo up; while :; do sleep 1000; done";
const OBEYS = "trap 'exit 0' TERM; echo up; while :; do sleep 0.01; done";
const APP = 'a'.repeat(64);
const ACCEPTED: Said = { kind: 'accepted', text: 'accepted' };
const REFUSED: Said = { kind: 'not-said', because: 'not-now', text: 'status 500' };
const LOST: Said = { kind: 'not-said', because: 'unheard', text: 'no answer' };
const none = { raise: () => undefined, clear: () => undefined, all: () => [] };

describe.skipIf(needsCgroups !== '')(`stopping a pod for a shutdown ${needsCgroups}`, () => {
  let cgroup: TestCgroup;
  let pod: ApiPod;
  let asked: string[];
  let became: (boolean | null)[];
  beforeEach(() => {
    became = [];
    cgroup = makeCgroup();
    pod = anApiPod({ name: 'web' });
    asked = [];
  });
  afterEach(() => cgroup.remove());
  const live = (): LivePod => {
    const found = mounts === null ? null : refOf(mounts, `${cgroup.path}/${APP}`);
    return {
      ...{ declared: pod.declared, cgroup: known(cgroup.ref), pod, object: pod, sandboxes: [], frees: true },
      containers: found?.known ? [{ id: APP, name: 'main', cgroup: found.value }] : [],
    };
  };
  const tell: StopThroughApi = {
    evict: () => null,
    remove: async (_, grace, why) => {
      asked.push(`delete ${grace} ${why}`);
      return ACCEPTED;
    },
    isEnding: async () => known(false),
    isBudgetOverridden: () => false,
    later: async () => void asked.push('later'),
    heard: () => undefined,
  };
  let toldMs: number[];
  const aKiller = (more: Partial<KubeKillerNeeds> = {}) => {
    if (mounts === null) throw new Error('no cgroups');
    return createKubeKiller({
      ...{ clock, mounts, findings: none, guard: createRestartGuard(clock), refusals: createRefusals(clock, none) },
      source: { find: () => known(live()), stopBegan: () => undefined, stopEnded: () => undefined },
      tell,
      runtime: aRuntime(),
      survivors: { watch: () => undefined },
      note: () => undefined,
      cancel: () => new AbortController().signal,
      deleting: ({ object }) => {
        asked.push(`deleting ${object.name}`);
        return (isDeleted) => void became.push(isDeleted);
      },
      ...more,
    });
  };
  const stop = (tier: 'stop' | null, seconds: number, more: Partial<KubeKillerNeeds> = {}, killer = aKiller(more)) => {
    toldMs = [];
    const atMs = (more.clock ?? clock).monoMs();
    const turn = turnOfStop({ graceSeconds: seconds, atMs, endsMs: atMs + seconds * 1_000 });
    const order: StopOrder = {
      ...{ decision: 'd1', victim: pod.declared, graceMs: seconds * 1_000, why: 'shutdown', isHard: false },
      ...{ first: 'sigterm', givesBack: 'memory', resumedFromMs: null, turn },
      ...(tier === null ? {} : { tier }),
    };
    return killer.stop(order, createHasten(clock), (_, toldAtMs) => void toldMs.push(toldAtMs ?? clock.monoMs()));
  };

  it('deletes it with the grace period of its phase, and signals nothing before that is over', async () => {
    const app = await cgroup.child(APP, OBEYS);
    const atMs = clock.monoMs();
    const stopping = stop(null, 30, { clock: { ...clock, monoMs: () => atMs } });
    await sleep(clock, 200);
    expect(app.isAlive()).toBe(true);
    app.kill('SIGTERM');
    expect(await stopping).toMatchObject({ kind: 'ended', via: 'api', rungs: [{ act: 'delete', answer: 'accepted' }] });
    expect(asked).toEqual([`deleting ${pod.object.name}`, 'delete 30 shutdown']);
    expect(became).toEqual([true]);
  });

  it('waits for a pod that has ended by itself before it was deleted, and does not say that it has stopped it', async () => {
    const app = await cgroup.child(APP, OBEYS);
    const remove = async (): Promise<Said> => ({ kind: 'over', text: 'not sent' });
    const atMs = clock.monoMs();
    const stopping = stop(null, 30, { clock: { ...clock, monoMs: () => atMs }, tell: { ...tell, remove } });
    await sleep(clock, 200);
    expect(app.isAlive()).toBe(true);
    app.kill('SIGKILL');
    expect(await stopping).toMatchObject({ kind: 'dropped', because: 'gone' });
    expect(became).toEqual([false]);
  });

  it('kills what still runs at the end of its phase', async () => {
    const app = await cgroup.child(APP, IGNORES);
    expect(await stop(null, 1)).toMatchObject({ kind: 'ended' });
    await until(clock, () => !app.isAlive(), 10_000);
    expect(asked).not.toContain('later');
  });

  it('signals it at the end of its phase if no kubelet has', async () => {
    const app = await cgroup.child(APP, OBEYS);
    let nowMs = clock.monoMs();
    const stopping = stop(null, 30, { clock: { ...clock, monoMs: () => nowMs } });
    await sleep(clock, 100);
    expect(app.isAlive()).toBe(true);
    nowMs += 28_000;
    expect(await stopping).toMatchObject({ kind: 'ended', via: 'sigterm' });
    await until(clock, () => !app.isAlive(), 10_000);
    expect(app.ended()?.code).toBe(0);
  });

  it('signals it at the end of its phase, though another pod has ended by itself', async () => {
    const killer = aKiller();
    const job = await cgroup.child(APP, 'echo up; sleep 0.2');
    expect(await stop(null, 30, {}, killer)).toMatchObject({ kind: 'ended', via: 'api' });
    await until(clock, () => !job.isAlive(), 10_000);
    await cgroup.remove();
    cgroup = makeCgroup();
    const app = await cgroup.child(APP, OBEYS);
    expect(await stop(null, 2, {}, killer)).toMatchObject({ kind: 'ended', via: 'sigterm' });
    await until(clock, () => !app.isAlive(), 10_000);
    expect(app.ended()?.code).toBe(0);
  });

  it('leaves it alone if the API does not accept its deletion', async () => {
    const app = await cgroup.child(APP, OBEYS);
    const remove = async (): Promise<Said> => REFUSED;
    const outcome = await stop(null, 1, {
      tell: { ...tell, remove },
    });
    expect(outcome).toMatchObject({ kind: 'dropped', because: 'not-deleted' });
    expect(app.isAlive()).toBe(true);
    expect(asked).not.toContain('later');
    expect(became).toEqual([false]);
  });

  it('leaves it alone, and does not know whether it is deleted, if the API does not answer', async () => {
    const app = await cgroup.child(APP, OBEYS);
    const isEnding = async () => unknown('timed-out', 'the pod in the API', 'no answer');
    const outcome = await stop(null, 1, { tell: { ...tell, remove: async () => LOST, isEnding } });
    expect(outcome).toMatchObject({ kind: 'dropped', because: 'not-deleted' });
    expect(app.isAlive()).toBe(true);
    expect(became).toEqual([null]);
  });

  it.each([
    ['refused', REFUSED, 'cancelled', false],
    ['lost', LOST, 'not-deleted', null],
  ] as const)(
    'does not ask again for a deletion that was %s if the shutdown is cancelled, whatever follows',
    async (_, said, because, isDeleted) => {
      const app = await cgroup.child(APP, OBEYS);
      let shutdown = new AbortController();
      let sent = 0;
      const remove = async (): Promise<Said> => (++sent === 1 ? said : ACCEPTED);
      const isEnding = async () => unknown('timed-out', 'the pod in the API', 'no answer');
      const stopping = stop(null, 20, { tell: { ...tell, remove, isEnding }, cancel: () => shutdown.signal });
      await until(clock, () => sent === 1, 10_000);
      // It is announced again before the next attempt.
      shutdown.abort();
      shutdown = new AbortController();
      expect(await stopping).toMatchObject({ kind: 'dropped', because });
      expect([sent, app.isAlive()]).toEqual([1, true]);
      expect(became).toEqual([isDeleted]);
    },
  );

  it('does not delete a pod after a cancel that came first', async () => {
    await cgroup.child(APP, OBEYS);
    expect(await stop(null, 20, { cancel: () => AbortSignal.abort() })).toMatchObject({
      kind: 'dropped',
      because: 'cancelled',
    });
    expect(asked).toEqual([]);
  });

  it('treats a deletion as sent if only its answer was lost', async () => {
    const app = await cgroup.child(APP, OBEYS);
    const remove = async (): Promise<Said> => {
      pod = { ...pod, deletionWallMs: clock.wallMs() + 60_000 };
      return REFUSED;
    };
    const stopping = stop(null, 30, {
      tell: { ...tell, remove },
    });
    await sleep(clock, 100);
    app.kill('SIGTERM');
    expect(await stopping).toMatchObject({ kind: 'ended', via: 'api' });
  });

  it('asks what became of a deletion whose answer was lost, for longer than the server is away for', async () => {
    const app = await cgroup.child(APP, OBEYS);
    const silent = unknown('timed-out', 'the pod in the API', 'no answer');
    let looks = 0;
    const isEnding = async () => (++looks > 4 ? known(true) : silent);
    let sent = 0;
    const remove = () => (++sent === 1 ? Promise.resolve(LOST) : null);
    const stopping = stop(null, 30, { tell: { ...tell, remove, isEnding } });
    await until(clock, () => looks > 4, 10_000);
    app.kill('SIGTERM');
    expect(await stopping).toMatchObject({ kind: 'ended', via: 'api' });
  });

  it('does not delete a pod again to which somebody else gave less time', async () => {
    const app = await cgroup.child(APP, OBEYS);
    pod = { ...pod, deletionWallMs: clock.wallMs() + 2_000 };
    const stopping = stop(null, 30);
    await sleep(clock, 100);
    app.kill('SIGTERM');
    expect(await stopping).toMatchObject({ kind: 'ended', via: 'api' });
    expect(asked).toEqual([]);
  });

  it('stops it with the agent through the runtime, without a request to the API', async () => {
    const app = await cgroup.child(APP, OBEYS);
    const runtime = aRuntime(async (): Promise<Reading<null>> => {
      app.kill('SIGTERM');
      return known(null);
    });
    expect(await stop('stop', 30, { runtime })).toMatchObject({ kind: 'ended', via: 'sigterm' });
    expect(runtime.asked).toEqual(['stop aaaa 30']);
    expect(asked).toEqual([]);
  });

  it('knows that the runtime asked it at once, and killed it after its grace period', async () => {
    const deaf = await cgroup.child(APP, IGNORES);
    let killedMs = 0;
    const runtime = aRuntime(async (_, seconds): Promise<Reading<null>> => {
      await sleep(clock, seconds * 1_000);
      killedMs = clock.monoMs();
      deaf.kill('SIGKILL');
      await sleep(clock, 100);
      return known(null);
    });
    expect(await stop('stop', 2, { runtime })).toMatchObject({ kind: 'ended', via: 'sigkill' });
    expect(toldMs.at(0)).toBeLessThan(killedMs);
  });

  it('sends SIGTERM and waits for its grace period if the runtime is away', async () => {
    const app = await cgroup.child(APP, OBEYS);
    const outcome = await stop('stop', 30, { runtime: aRuntime(async () => AWAY) });
    expect(outcome).toMatchObject({ kind: 'ended', via: 'sigterm' });
    await until(clock, () => !app.isAlive(), 10_000);
    expect(app.ended()?.code).toBe(0);
  });

  it('sends SIGKILL after that', async () => {
    const deaf = await cgroup.child(APP, IGNORES);
    expect(await stop('stop', 1)).toMatchObject({ kind: 'ended' });
    await until(clock, () => !deaf.isAlive(), 10_000);
  });

  it('does not kill it unasked if the runtime hangs', async () => {
    const app = await cgroup.child(APP, OBEYS);
    const hangs: Promise<never> = new Promise(() => undefined);
    const runtime = { ...aRuntime(() => hangs), refresh: async () => AWAY };
    expect(await stop('stop', 30, { runtime })).toMatchObject({ kind: 'ended', via: 'sigterm' });
    await until(clock, () => !app.isAlive(), 10_000);
    expect(app.ended()?.code).toBe(0);
  });
});
