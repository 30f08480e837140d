import { describe, expect, it } from 'vitest';
import { createHasten, type Hastening } from '../../src/act/hasten.ts';
import { until } from '../../src/demo/cast.ts';
import { sleep } from '../../src/host/clock.ts';
import type { Said } from '../../src/kube/stop/ladder.ts';
import { needsCgroups } from '../act/a-cgroup.ts';
import { ACCEPTED, asked, clock, IGNORES, killer, pod, run, soft } from './a-killer.ts';

const OBEYS = "trap 'exit 7' TERM; echo up; while :; do sleep 0.01; done";
const BUSY: Said = { kind: 'not-said', because: 'not-now', text: 'too many requests', isAnswer: true };
const phaseCuts = (hasten: Hastening, graceMs: number, tier?: 'stop'): void =>
  hasten.cut({
    ...{ first: 'sigterm', graceMs },
    phase: { endsMs: clock.monoMs() + graceMs, ...(tier === undefined ? {} : { tier }) },
  });
const accepted = () => killer(() => ['app'], { evict: Promise.resolve(ACCEPTED), remove: Promise.resolve(ACCEPTED) });

describe.skipIf(needsCgroups !== '')(`a soft eviction that a phase of a shutdown overtakes ${needsCgroups}`, () => {
  it('is left to the kubelet, which may run a preStop hook, until shortly before the end of the phase', async () => {
    const app = await pod.child('app', OBEYS);
    const hasten = createHasten(clock);
    const stopping = run(accepted(), soft(30_000), hasten);
    await until(clock, () => asked.length === 1, 10_000);
    await sleep(clock, 50);
    const cutMs = clock.monoMs();
    phaseCuts(hasten, 4_000);
    expect(await stopping).toMatchObject({ kind: 'ended', via: 'sigterm' });
    expect(clock.monoMs() - cutMs).toBeGreaterThan(1_900);
    await until(clock, () => !app.isAlive(), 10_000);
    expect(app.ended()?.code).toBe(7);
    expect(asked).toEqual(['evict 30', 'delete 4']);
  });

  it('is left to the service manager if that has stopped the kubelet', async () => {
    const app = await pod.child('app', OBEYS);
    const hasten = createHasten(clock);
    const stopping = run(accepted(), soft(30_000), hasten);
    await until(clock, () => asked.length === 1, 10_000);
    await sleep(clock, 50);
    phaseCuts(hasten, 60_000, 'stop');
    expect(await stopping).toMatchObject({ kind: 'dropped', because: 'shutdown' });
    expect(app.isAlive()).toBe(true);
    expect(asked).toEqual(['evict 30']);
  });

  it.each([
    ['its budget has not answered', async () => BUSY],
    ['nobody has answered', () => new Promise<Said>(() => undefined)],
  ])('deletes nothing by itself if %s', async (_, evict) => {
    const app = await pod.child('app', OBEYS);
    const hasten = createHasten(clock);
    const stopping = run(
      killer(() => ['app'], { evict, remove: Promise.resolve(ACCEPTED) }),
      soft(30_000),
      hasten,
    );
    await until(clock, () => asked.length === 1, 10_000);
    phaseCuts(hasten, 60_000);
    expect(await stopping).toMatchObject({ kind: 'dropped', because: 'shutdown' });
    expect(app.isAlive()).toBe(true);
    expect(asked).toEqual(['evict 30']);
  });

  it('waits for no container that was started after the decision, if an earlier run began it', async () => {
    const app = await pod.child('app', OBEYS);
    await sleep(clock, 50);
    const decidedMs = clock.monoMs();
    await sleep(clock, 50);
    const next = await pod.child('next', OBEYS);
    const hasten = createHasten(clock);
    const doneBefore = [{ atMs: decidedMs, act: 'evict', answer: 'accepted', isAccepted: true } as const];
    const both = killer(() => ['app', 'next'], { remove: Promise.resolve(ACCEPTED) });
    const stopping = run(both, { ...soft(30_000), resumedFromMs: decidedMs, doneBefore }, hasten);
    phaseCuts(hasten, 30_000);
    await sleep(clock, 100);
    expect(app.isAlive()).toBe(true);
    app.kill('SIGTERM');
    expect(await stopping).toMatchObject({ kind: 'ended', via: 'api' });
    expect(next.isAlive()).toBe(true);
  });

  it('asks nothing if the phase has begun before it', async () => {
    await pod.child('app', OBEYS);
    const hasten = createHasten(clock);
    phaseCuts(hasten, 60_000);
    expect(await run(accepted(), soft(30_000), hasten)).toMatchObject({ kind: 'dropped', because: 'shutdown' });
    expect(asked).toEqual([]);
  });

  it('is ended at once when a hard threshold overtakes both', async () => {
    const app = await pod.child('app', IGNORES);
    const hasten = createHasten(clock);
    const stopping = run(accepted(), soft(30_000), hasten);
    await until(clock, () => asked.length === 1, 10_000);
    await sleep(clock, 50);
    phaseCuts(hasten, 60_000);
    await until(clock, () => asked.length === 2, 10_000);
    hasten.cut({ first: 'sigkill', graceMs: 0 });
    expect(await stopping).toMatchObject({ kind: 'ended' });
    await until(clock, () => !app.isAlive(), 10_000);
  });
});
