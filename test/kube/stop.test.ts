import { describe, expect, it } from 'vitest';
import { createHasten } from '../../src/act/hasten.ts';
import { known } from '../../src/core/reading.ts';
import { until } from '../../src/demo/cast.ts';
import { sleep } from '../../src/host/clock.ts';
import { createRefusals } from '../../src/kube/pods/candidate-limits.ts';
import type { KubeKillerNeeds, Said } from '../../src/kube/stop/ladder.ts';
import type { Clock } from '../../src/ports.ts';
import { survived } from '../../src/words/finding-eviction.ts';
import { needsCgroups } from '../act/a-cgroup.ts';
import { aClock } from './a-clock.ts';
import {
  ACCEPTED,
  actsOf,
  asked,
  cleared,
  clock,
  findings,
  guard,
  IGNORES,
  killer,
  noted,
  pod,
  raised,
  refusals,
  run,
  savedWith,
  soft,
  UID,
  unreadableFor,
} from './a-killer.ts';
import { aRuntime } from './a-runtime.ts';

const never = new Promise<Said>(() => undefined);

describe.skipIf(needsCgroups !== '')(`ending a pod beside a kubelet ${needsCgroups}`, () => {
  it('kills every container under a hard threshold and spares the sandbox', async () => {
    const [app, log, sandbox] = [await pod.child('app', IGNORES), await pod.child('log'), await pod.child('sandbox')];
    const outcome = await run(killer(() => ['app', 'log'], { remove: Promise.resolve(ACCEPTED) }));
    expect(outcome).toMatchObject({ of: 'd1', kind: 'ended' });
    await until(clock, () => !app.isAlive() && !log.isAlive(), 10_000);
    expect(sandbox.isAlive()).toBe(true);
    expect(asked).toEqual(['delete 1']);
    expect(actsOf(outcome)).toEqual(['delete', 'kill-containers']);
  });

  it('does not wait for a silent API, and sends the deletion later', async () => {
    const app = await pod.child('app');
    const outcome = await run(killer(() => ['app'], {}));
    expect(outcome.kind).toBe('ended');
    await until(clock, () => !app.isAlive(), 10_000);
    expect(asked).toEqual(['delete 1', 'later d1']);
    expect(guard.isBarred(UID)).toBe(false);
  });

  it('withdraws the saved deletion, and does not bar the pod, if the answer comes after the kill', async () => {
    let answer: (said: Said) => void = () => undefined;
    const late = () =>
      new Promise<Said>((resolve) => {
        answer = resolve;
      });
    for (const name of ['one', 'two']) {
      await pod.child(name);
      const outcome = await run(killer(() => [name], { remove: late() }));
      answer(ACCEPTED);
      await sleep(clock, 1);
      expect(outcome.kind).toBe('ended');
    }
    expect(noted.map(({ act }) => act).slice(-2)).toEqual(['delete', 'withdraw']);
    expect(asked).toEqual(['delete 1', 'later d1', 'heard', 'delete 1', 'later d1', 'heard']);
    expect(guard.isBarred(UID)).toBe(false);
  });

  it('saves the deletion after an answer that may change, and not after a permanent one', async () => {
    const later = async (because: 'not-now' | 'never') => {
      const app = await pod.child(because);
      const remove = Promise.resolve<Said>({ kind: 'not-said', because, text: 'no' });
      const { rungs = [] } = await run(killer(() => [because], { remove }));
      await until(clock, () => !app.isAlive(), 10_000);
      return rungs.filter(({ act }) => act === 'spool').map(({ answer }) => answer);
    };
    expect(await later('not-now')).toEqual(['the API server is asked again to delete it, for 5 minutes at most']);
    expect(asked).toEqual(['delete 1', 'later d1']);
    expect(await later('never')).toEqual([]);
    expect(asked).toEqual(['delete 1', 'later d1', 'delete 1']);
  });

  it('counts a pod as ended by the API if it was gone before the first signal and its deletion was accepted', async () => {
    const slow: Clock = { ...clock, after: (ms, run) => clock.after(ms * 50, run) };
    const endedBy = async (name: string, said: Said) => {
      const app = await pod.child(name);
      let answer = (_: Said): void => undefined;
      const remove = new Promise<Said>((resolve) => {
        answer = resolve;
      });
      const onRemove = (): void => {
        app.kill('SIGKILL');
        void until(clock, () => !app.isAlive(), 10_000).then(() => answer(said));
      };
      return run(killer(() => [name], { remove, onRemove }, { clock: slow }));
    };
    const taken = await endedBy('one', ACCEPTED);
    expect(taken).toMatchObject({ kind: 'ended', via: 'api' });
    expect(taken.rungs?.map(({ act, answer }) => `${act}: ${answer}`)).toEqual([
      'delete: 201',
      'kill-containers: no process was left in it',
    ]);
    const gone = await endedBy('two', { kind: 'gone', text: 'it is gone' });
    expect(gone).toMatchObject({ kind: 'dropped', because: 'gone' });
  });

  it('records a request before its answer, and again with it', async () => {
    await pod.child('app');
    await run(killer(() => ['app'], { remove: Promise.resolve(ACCEPTED) }));
    expect(noted.filter(({ act }) => act === 'delete')).toMatchObject([
      { of: 'd1', answer: 'sent; the answer is not known' },
      { of: 'd1', answer: '201', isAccepted: true },
    ]);
  });

  it('asks the runtime which cgroup is the sandbox if that is not known yet', async () => {
    const [app, sandbox] = [await pod.child('app', IGNORES), await pod.child('unnamed')];
    let isAsked = false;
    const runtime: KubeKillerNeeds['runtime'] = {
      ...aRuntime(),
      refresh: async () => {
        isAsked = true;
        return known({ containers: [], sandboxes: [], atMs: 0 });
      },
    };
    const names = (): string[] => (isAsked ? ['app'] : ['app', 'unnamed']);
    const outcome = await run(killer(names, { remove: Promise.resolve(ACCEPTED) }, { runtime }));
    expect(outcome.kind).toBe('ended');
    await until(clock, () => !app.isAlive(), 10_000);
    expect(sandbox.isAlive()).toBe(true);
  });

  it('kills without a request while the API is away', async () => {
    const app = await pod.child('app');
    const outcome = await run(killer(() => ['app'], { remove: null }));
    await until(clock, () => !app.isAlive(), 10_000);
    expect(outcome.kind).toBe('ended');
    expect(asked).toContain('later d1');
  });

  it('bars a pod that was killed in vain twice', async () => {
    for (const name of ['one', 'two']) {
      await pod.child(name);
      await run(killer(() => [name], { remove: null }));
    }
    expect(guard.isBarred(UID)).toBe(true);
  });

  it('kills a container that the kubelet starts before the API has received the deletion', async () => {
    await pod.child('app');
    const again = await pod.child('again');
    let isListed = 0;
    // It is there once the first one is dead.
    const of = killer(() => (++isListed > 2 ? ['app', 'again'] : ['app']), { remove: null });
    expect(actsOf(await run(of))).toContain('kill-again');
    await until(clock, () => !again.isAlive(), 10_000);
  });

  it('accepts the refusal of a disruption budget: the pod lives and is passed over', async () => {
    const app = await pod.child('app');
    const refused: Said = { kind: 'refused', text: 'the budget shop/web', retryAfterMs: 0 };
    const outcome = await run(
      killer(() => ['app'], { evict: Promise.resolve(refused) }),
      soft(2_000),
    );
    expect(outcome).toMatchObject({ kind: 'dropped', because: 'budget-refused' });
    expect(app.isAlive()).toBe(true);
    expect(asked).toEqual(['evict 2']);
    expect(refusals.limitOf(UID)).toBe('budget-refused');
    expect(raised.map(({ text }) => text).join()).toContain('the budget shop/web');
  });

  it('keeps the finding of a refusal that is repeated, and replaces it if no budget could be asked', async () => {
    await pod.child('app');
    const refused: Said = { kind: 'refused', text: 'the budget shop/web', retryAfterMs: 0 };
    const answers: Said[] = [refused, refused, { ...refused, isUnasked: true }];
    for (const evict of answers.map((said) => Promise.resolve(said)))
      await run(
        killer(() => ['app'], { evict }),
        soft(2_000),
      );
    expect(cleared).toEqual([`budget-refuses/${UID}`]);
    expect(raised.map(({ id }) => id)).toEqual([`eviction-not-taken/${UID}`]);
  });

  const busy: Said = { kind: 'not-said', because: 'not-now', text: 'etcdserver: timed out', isAnswer: true };
  it("asks again after an answer that is not the budget's, and accepts its refusal", async () => {
    const app = await pod.child('app');
    const answers: Said[] = [busy, busy, { kind: 'refused', text: 'the budget shop/web', retryAfterMs: 0 }];
    const outcome = await run(
      killer(() => ['app'], { evict: () => Promise.resolve(answers.shift() ?? busy) }),
      soft(2_000),
    );
    expect(outcome).toMatchObject({ kind: 'dropped', because: 'budget-refused' });
    expect(asked).toEqual(['evict 2', 'evict 2', 'evict 2']);
    expect(app.isAlive()).toBe(true);
  });

  it.each([
    ['the server answers nothing else', () => Promise.resolve(busy), { asked: 5 }],
    ['it asks for more time than that', () => Promise.resolve({ ...busy, retryAfterMs: 60_000 }), { asked: 1 }],
    ['the server no longer answers', (times: number) => (times === 1 ? Promise.resolve(busy) : never), { asked: 2 }],
  ])('does not stop a pod whose budget could not be asked for 5 s: %s', async (_, evict, { asked: times }) => {
    const app = await pod.child('app');
    const fast: Clock = {
      ...clock,
      after: (ms, then) => clock.after(ms / 20, then),
      monoMs: () => 20 * clock.monoMs(),
    };
    let count = 0;
    const outcome = await run(
      killer(() => ['app'], { evict: () => evict(++count) }, { clock: fast }),
      soft(2_000),
    );
    expect(outcome).toMatchObject({ kind: 'dropped', because: 'eviction-not-taken' });
    expect(app.isAlive()).toBe(true);
    expect(asked.length).toBeGreaterThanOrEqual(Math.min(times, 3));
    expect(asked.length).toBeLessThanOrEqual(times);
    expect(refusals.limitOf(UID)).toBe('budget-refused');
    expect(raised.map(({ text }) => text).join()).toContain('or to have asked a disruption budget: ');
  });

  it('does not stop a pod whose eviction a server that is there leaves unanswered, nor choose another meanwhile', async () => {
    const app = await pod.child('app');
    const fast: Clock = {
      ...clock,
      after: (ms, then) => clock.after(ms / 20, then),
      monoMs: () => 20 * clock.monoMs(),
    };
    const outcome = await run(
      killer(() => ['app'], { evict: never, isThere: true }, { clock: fast }),
      soft(2_000),
    );
    expect(outcome).toMatchObject({ kind: 'dropped', because: 'eviction-not-taken' });
    expect(app.isAlive()).toBe(true);
    // The server may still evict it.
    expect(refusals.limitOf('other')).toBe('budgets-refuse');
    expect(raised.map(({ text }) => text).join()).toContain('is not known to have accepted');
  });

  it('chooses no other either if the budget had to allow it, and no answer came', async () => {
    await pod.child('app');
    const lost: Said = { kind: 'refused', text: 'no answer', retryAfterMs: 0, isUnasked: true, isLost: true };
    const outcome = await run(
      killer(() => ['app'], { evict: Promise.resolve(lost) }),
      soft(2_000),
    );
    expect(outcome.rungs?.map(({ isAccepted }) => isAccepted)).toEqual([undefined]);
    expect(refusals.limitOf('other')).toBe('budgets-refuse');
  });

  it('asks again every 5 s, for a minute at most, about a pod that may yet be evicted, before it chooses another', async () => {
    const still = aClock();
    const refused = createRefusals(still, findings);
    const waits: number[] = [];
    for (let times = 0; times < 14; times++) {
      refused.add(UID, 0, 'no answer', true);
      let ms = 0;
      for (; refused.limitOf('other') !== null; ms += 500) await still.advance(500);
      waits.push(ms);
      while (refused.limitOf(UID) !== null) await still.advance(500);
    }
    expect(waits).toEqual([...Array.from({ length: 12 }, () => 5_000), 0, 0]);
  });

  it('asks no other budget once three have refused', () => {
    expect(refusals.limitOf('other')).toBeNull();
    for (const uid of ['a', 'b', 'c']) refusals.add(uid, 0, 'no');
    expect(refusals.limitOf('other')).toBe('budgets-refuse');
  });

  it('doubles the wait up to a minute if a budget repeats its refusal, and begins with 5 s for a new one', async () => {
    const still = aClock();
    const refused = createRefusals(still, findings);
    const waits: number[] = [];
    const waitOf = async (said: string): Promise<void> => {
      refused.add(UID, 0, said);
      let ms = 0;
      for (; refused.limitOf(UID) !== null; ms += 500) await still.advance(500);
      waits.push(ms);
    };
    for (const said of ['no', 'no', 'no', 'no', 'no', 'no', 'not yet']) await waitOf(said);
    expect(waits).toEqual([5_000, 10_000, 20_000, 40_000, 60_000, 60_000, 5_000]);
    await still.advance(60_000);
    await waitOf('not yet');
    expect(waits.at(-1)).toBe(5_000);
  });

  it('leaves a pod to the kubelet for its grace period once the eviction is accepted', async () => {
    const app = await pod.child('app');
    const stopping = run(
      killer(() => ['app'], { evict: Promise.resolve(ACCEPTED) }),
      soft(60_000),
    );
    await sleep(clock, 100);
    expect(app.isAlive()).toBe(true);
    app.kill('SIGTERM');
    expect(await stopping).toMatchObject({ kind: 'ended', via: 'api' });
    expect(asked).toEqual(['evict 60']);
  });

  it('kills at once when a hard threshold overtakes a soft eviction', async () => {
    const app = await pod.child('app', IGNORES);
    const hasten = createHasten(clock);
    const stopping = run(
      killer(() => ['app'], { evict: Promise.resolve(ACCEPTED), remove: Promise.resolve(ACCEPTED) }),
      soft(600_000),
      hasten,
    );
    await until(clock, () => asked.length === 1, 10_000);
    hasten.cut({ first: 'sigkill', graceMs: 0 });
    expect(await stopping).toMatchObject({ kind: 'ended' });
    await until(clock, () => !app.isAlive(), 10_000);
    expect(asked).toEqual(['evict 600', 'delete 1']);
  });

  it('kills at once even if the API has not answered the soft eviction', async () => {
    const app = await pod.child('app', IGNORES);
    const hasten = createHasten(clock);
    const stopping = run(
      killer(() => ['app'], {}),
      soft(600_000),
      hasten,
    );
    hasten.cut({ first: 'sigkill', graceMs: 0 });
    expect(await stopping).toMatchObject({ kind: 'ended' });
    await until(clock, () => !app.isAlive(), 10_000);
  });

  it('stops a pod as the runtime would while the API is away: SIGTERM to its first process', async () => {
    const app = await pod.child('app', "trap 'exit 0' TERM; echo up; while :; do sleep 0.01; done");
    const outcome = await run(
      killer(() => ['app'], { evict: null }),
      soft(60_000),
    );
    expect(outcome).toMatchObject({ kind: 'ended', via: 'sigterm' });
    await until(clock, () => !app.isAlive(), 10_000);
    expect(app.ended()?.code).toBe(0);
  });

  it('kills a pod that the API has on another node, and never deletes it', async () => {
    const app = await pod.child('app');
    const outcome = await run(killer(() => ['app'], {}, {}, null, true));
    expect(outcome.kind).toBe('ended');
    await until(clock, () => !app.isAlive(), 10_000);
    expect(asked).toEqual([]);
  });

  it('asks no eviction for a pod that the API has on another node, and says why', async () => {
    const app = await pod.child('app', "trap 'exit 0' TERM; echo up; while :; do sleep 0.01; done");
    const outcome = await run(
      killer(() => ['app'], {}, {}, null, true),
      soft(60_000),
    );
    expect(outcome).toMatchObject({ kind: 'ended', via: 'sigterm' });
    await until(clock, () => !app.isAlive(), 10_000);
    expect(asked).toEqual([]);
    expect(outcome.rungs?.map(({ act, answer }) => `${act}: ${answer}`)).toEqual([
      'evict: the API server has this pod on another node',
      'kill-containers: SIGTERM to 1 cgroup',
    ]);
  });

  it('kills the whole pod if its containers cannot be told apart', async () => {
    const app = await pod.child('app', IGNORES);
    expect((await run(killer(() => [], { remove: null }))).kind).toBe('ended');
    await until(clock, () => !app.isAlive(), 10_000);
  });

  it('does not report the end until the saved deletion is on the disk', async () => {
    await pod.child('app');
    let save = (): void => undefined;
    savedWith(
      new Promise((resolve) => {
        save = resolve;
      }),
    );
    let isTold = false;
    const slow: Clock = { ...clock, after: (ms, run) => clock.after(ms < 1_000 ? ms : ms * 50, run) };
    const stopping = run(killer(() => ['app'], { remove: null }, { clock: slow }));
    void stopping.then(() => {
      isTold = true;
    });
    await until(clock, () => asked.includes('later d1'), 10_000);
    await sleep(clock, 50);
    expect(isTold).toBe(false);
    // What becomes of it may be recorded before the disk has it.
    expect(noted.map(({ act }) => act)).toContain('spool');
    save();
    expect(actsOf(await stopping)).toContain('spool');
  });

  it('does not take a pod for ended whose cgroups cannot be read: it tries again for 2 s, and is spared', async () => {
    const app = await pod.child('app');
    unreadableFor(Number.POSITIVE_INFINITY);
    const outcome = await run(killer(() => ['app'], {}));
    expect(outcome).toMatchObject({ kind: 'dropped', because: 'unresolved' });
    expect(app.isAlive()).toBe(true);
    unreadableFor(3);
    expect(await run(killer(() => ['app'], {}))).toMatchObject({ kind: 'ended' });
    await until(clock, () => !app.isAlive(), 10_000);
  });

  it('ends the finding about a pod that survived once all of it has ended, whatever was started since', async () => {
    const app = await pod.child('app');
    const names = ['app'];
    const quick: Clock = { ...clock, after: (ms, then) => clock.after(ms / 20, then) };
    unreadableFor(Number.POSITIVE_INFINITY);
    const doneBefore = [{ atMs: 1, act: 'delete', answer: '201', isAccepted: true }] as const;
    const resumed = { resumedFromMs: clock.monoMs() + 20, doneBefore };
    expect(
      await run(
        killer(() => names, {}, { clock: quick }),
        resumed,
      ),
    ).toMatchObject({ kind: 'survived' });
    findings.raise(survived(UID, 'shop/web', 'eviction', 'EMFILE'));
    await sleep(clock, 200);
    expect(cleared).toEqual([]);
    unreadableFor(0);
    await sleep(clock, 500);
    expect(cleared).toEqual([]);
    const pids = pod.pids();
    await pod.child('again');
    names.push('again');
    for (const pid of pids) process.kill(pid, 'SIGKILL');
    await until(clock, () => cleared.length > 0, 10_000);
    expect(cleared).toEqual([`survived/${UID}`]);
    expect(app.isAlive()).toBe(false);
  });

  it('has nothing to do for a pod that has ended, or whose containers started after the decision', async () => {
    expect(await run(killer(() => ['app'], {}))).toMatchObject({ kind: 'dropped', because: 'gone' });
    const app = await pod.child('app');
    const outcome = await run(
      killer(() => ['app'], {}),
      { resumedFromMs: 1_000 },
    );
    expect(outcome).toMatchObject({ kind: 'dropped', because: 'started-anew' });
    expect(app.isAlive()).toBe(true);
    expect(asked).toEqual([]);
  });
});
