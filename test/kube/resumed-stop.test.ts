import { describe, expect, it } from 'vitest';
import type { Outcome, Rung } from '../../src/core/outcome.ts';
import { known } from '../../src/core/reading.ts';
import { until } from '../../src/demo/cast.ts';
import { sleep } from '../../src/host/clock.ts';
import { type KubeKillerNeeds, type Said, UNANSWERED } from '../../src/kube/stop/ladder.ts';
import type { Clock, StopOrder } from '../../src/ports.ts';
import { needsCgroups } from '../act/a-cgroup.ts';
import {
  ACCEPTED,
  actsOf,
  asked,
  clock,
  endKnown,
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

describe.skipIf(needsCgroups !== '')(
  `the end of a pod beside a kubelet that an earlier run began ${needsCgroups}`,
  () => {
    const KILLED: Rung = { atMs: 2, act: 'kill-containers', answer: 'SIGKILL to 1 cgroup' };
    const unheard: Rung = { atMs: 1, act: 'delete', answer: 'no answer' };
    /** A sandbox, the decision, and a container that the kubelet has started since. */
    const started = async () => {
      const sandbox = await pod.child(UNNAMED);
      const resumedFromMs = clock.monoMs() + 20;
      await sleep(clock, 50);
      return { sandbox, resumedFromMs, again: await pod.child('again') };
    };

    it('spares the sandbox and a container that was started since, and saves the deletion', async () => {
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

    it('spares both even if the runtime does not answer either', async () => {
      const { sandbox, resumedFromMs, again } = await started();
      const runtime: KubeKillerNeeds['runtime'] = { ...aRuntime(), refresh: () => new Promise(() => undefined) };
      const of = killer(() => ['again', UNNAMED], {}, { runtime });
      expect(await run(of, { resumedFromMs, doneBefore: [unheard] })).toMatchObject({ kind: 'unknown' });
      expect([sandbox.isAlive(), again.isAlive()]).toEqual([true, true]);
    });

    it('spares the sandbox of a live victim once the runtime has named it', async () => {
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
      const of = killer(
        () => ['hog', isListed ? SANDBOX : UNNAMED],
        { remove: Promise.resolve(ACCEPTED) },
        { runtime },
      );
      expect(await run(of, { resumedFromMs: clock.monoMs() + 20 })).toMatchObject({ kind: 'ended' });
      await until(clock, () => !hog.isAlive(), 10_000);
      expect(sandbox.isAlive()).toBe(true);
    });

    it('kills a victim that holds memory without waiting for a runtime that does not answer', async () => {
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

    it('spares the sandbox if all containers are dead and their cgroups gone', async () => {
      const { sandbox, resumedFromMs, again } = await started();
      again.kill('SIGKILL');
      await until(clock, () => !again.isAlive(), 10_000);
      const of = killer(() => [SANDBOX], {});
      const outcome = await run(of, { resumedFromMs, sentBefore: 'sigkill', doneBefore: [unheard, KILLED] });
      expect(outcome).toMatchObject({ kind: 'ended', via: 'sigkill' });
      expect(sandbox.isAlive()).toBe(true);
      expect(asked).toEqual(['later d1']);
    });

    it('kills only what is left of the victim, never the rest of the pod', async () => {
      const hog = await pod.child('hog', IGNORES);
      const { resumedFromMs, again } = await started();
      const fast: Clock = { ...clock, after: (ms, run) => clock.after(ms === 2_000 ? 1 : ms, run) };
      const of = killer(() => ['hog', 'again', SANDBOX], { remove: Promise.resolve(ACCEPTED) }, { clock: fast });
      expect(await run(of, { resumedFromMs })).toMatchObject({ kind: 'ended' });
      await until(clock, () => !hog.isAlive(), 10_000);
      expect(again.isAlive()).toBe(true);
      expect(noted.map(({ act }) => act)).not.toContain('kill-pod');
    });

    describe('of a victim that is already gone', () => {
      const asked1: Rung = { atMs: 1, act: 'delete', answer: UNANSWERED };
      const gone = (
        doneBefore: readonly Rung[],
        answers: Parameters<typeof killer>[1] = {},
        more: Partial<StopOrder> = {},
        became?: (outcome: Outcome) => void,
      ) => {
        const before = { resumedFromMs: clock.monoMs(), sentBefore: 'sigkill', usedBefore: known(2 ** 30) } as const;
        const of = killer(() => [], answers);
        return run(of, { ...before, doneBefore, ...more }, undefined, became);
      };

      it('is attributed by what had been sent and answered', async () => {
        const outcome = await gone([{ ...asked1, isAccepted: true }]);
        expect(outcome).toMatchObject({ kind: 'ended', via: 'api', releasedBytes: { known: true } });
        expect(await gone([{ ...asked1, isAccepted: false }])).toMatchObject({ kind: 'dropped', because: 'gone' });
        expect(await gone([asked1, KILLED])).toMatchObject({ kind: 'ended', via: 'sigkill' });
        expect(await gone([])).toMatchObject({ kind: 'ended', via: 'sigkill' });
      });

      it('is attributed to the API if that is ending the pod, although its answer was lost', async () => {
        for (const act of ['evict', 'delete'] as const) {
          const outcome = await gone([{ ...asked1, act }], { ending: known(true) });
          expect(outcome).toMatchObject({ kind: 'ended', via: 'api', releasedBytes: { known: true } });
          expect(outcome.rungs).toMatchObject([{ atMs: 1, act, isAccepted: true }]);
        }
        expect(asked).toEqual([]);
      });

      it('repeats the deletion if the API has not accepted it', async () => {
        const refused: Said = { kind: 'not-said', because: 'never', text: '403' };
        const outcome = await gone([asked1], { ending: known(false), remove: Promise.resolve(refused) });
        expect(outcome).toMatchObject({ kind: 'dropped', because: 'gone' });
        expect(outcome.rungs).toMatchObject([
          { atMs: 1, isAccepted: false },
          { act: 'delete', answer: '403' },
        ]);
        const taken = await gone([asked1], { ending: known(false), remove: Promise.resolve(ACCEPTED) });
        expect(taken).toMatchObject({ kind: 'ended', via: 'api' });
        expect(asked).toEqual(['delete 1', 'delete 1']);
      });

      it('does not repeat the deletion of a pod that its budget protects, that ended a minute ago, or that a shutdown stops', async () => {
        const ending = known(false);
        const evict: Rung = { ...asked1, act: 'evict' };
        const aMinuteAgo = { resumedFromMs: clock.monoMs() - 60_000 };
        const shutdown = { why: 'shutdown' } as const;
        expect(await gone([evict], { ending }, { isHard: false })).toMatchObject({ kind: 'dropped', because: 'gone' });
        expect(await gone([asked1], { ending }, aMinuteAgo)).toMatchObject({ kind: 'dropped', because: 'gone' });
        expect(await gone([asked1], { ending }, shutdown)).toMatchObject({ kind: 'dropped', because: 'gone' });
        expect(asked).toEqual([]);
      });

      it('is unknown while the API is away, and the deletion is saved', async () => {
        const resumedFromMs = clock.monoMs() - 5_000;
        const outcome = await gone([asked1], {}, { resumedFromMs });
        expect(outcome).toMatchObject({ kind: 'unknown', detail: 'the API server is away' });
        expect(actsOf(outcome)).toEqual(['delete', 'spool']);
        expect(asked).toEqual(['later d1']);
        expect(keptMs).toBe(resumedFromMs);
        expect(await gone([{ ...asked1, act: 'evict' }], {}, { isHard: false })).toMatchObject({ kind: 'unknown' });
        expect(asked).toEqual(['later d1']);
      });

      it('is unknown if this run has waited for the answer in vain and the pod ended meanwhile', async () => {
        const app = await pod.child('app');
        const onRemove = (): void => app.kill('SIGKILL');
        const slow: Clock = { ...clock, after: (ms, then) => clock.after(ms === 100 ? 5_000 : ms, then) };
        const silent: Said = { kind: 'not-said', because: 'unheard', text: 'no answer within 500 ms' };
        const remove = until(clock, () => !app.isAlive(), 10_000).then(() => silent);
        const of = killer(() => ['app'], { remove, onRemove, ending: known(true) }, { clock: slow });
        expect(await run(of)).toMatchObject({ kind: 'unknown', detail: 'the API server does not answer' });
        expect(asked).toEqual(['delete 1', 'later d1']);
      });

      it('becomes known once the API answers', async () => {
        const became: Outcome[] = [];
        for (const isEnding of [true, false]) {
          const outcome = await gone([asked1], {}, {}, (known) => void became.push(known));
          expect(outcome.kind).toBe('unknown');
          endKnown(isEnding);
          await until(clock, () => became.length > 0, 10_000);
          const [what] = became.splice(0);
          expect(what).toMatchObject(isEnding ? { kind: 'ended', via: 'api' } : { kind: 'dropped', because: 'gone' });
          expect(what?.atMs).toBe(outcome.atMs);
        }
      });
    });

    it('sends the deletion under the name in the decision if an earlier run had asked', async () => {
      await pod.child('app');
      const resumedFromMs = clock.monoMs() + 20;
      const of = killer(() => ['app'], { remove: Promise.resolve(ACCEPTED) }, {}, null);
      expect(await run(of, { resumedFromMs, doneBefore: [unheard] })).toMatchObject({ kind: 'ended' });
      expect(asked).toEqual(['delete 1']);
    });

    it('saves the deletion of an undeclared pod until that is listed', async () => {
      await pod.child('app');
      const of = killer(() => ['app'], {}, {}, null);
      const outcome = await run(of, { resumedFromMs: clock.monoMs() + 20 });
      expect(actsOf(outcome)).toEqual(['kill-containers', 'spool']);
      expect(asked).toEqual(['later d1']);
    });

    const away: Rung = { atMs: 1, act: 'evict', answer: 'the API is away', isAccepted: false };
    const lost: Rung = { atMs: 1, act: 'evict', answer: UNANSWERED };
    it.each([
      ['the API was away', [away], {}],
      ['its answer was lost, and the API does not show the pod as being deleted', [lost], { ending: known(false) }],
      ['its answer was lost, and the API is away', [lost], {}],
    ])('leaves the victim of a choice that is more than a second old if %s', async (_, doneBefore, api) => {
      const app = await pod.child('app');
      const resumedFromMs = clock.monoMs() + 20;
      await sleep(clock, 1_100);
      const of = killer(() => ['app'], { ...api, evict: Promise.resolve(ACCEPTED) });
      const outcome = await run(of, { ...soft(1_000), first: 'sigkill', resumedFromMs, doneBefore });
      expect(outcome).toMatchObject({ kind: 'dropped', because: 'stale' });
      expect(asked).toEqual([]);
      expect(app.isAlive()).toBe(true);
    });

    it.each([
      ['nothing was sent', []],
      ['the API was away', [{ ...away, act: 'delete' } as const]],
      ['its deletion is not known to be accepted', [{ ...lost, act: 'delete' } as const]],
    ])('leaves the victim of a hard choice that is more than a second old if %s', async (_, doneBefore) => {
      const app = await pod.child('app');
      const resumedFromMs = clock.monoMs() + 20;
      await sleep(clock, 1_100);
      const of = killer(() => ['app'], { ending: known(false), remove: Promise.resolve(ACCEPTED) });
      const outcome = await run(of, { resumedFromMs, sentBefore: 'sigkill', doneBefore });
      expect(outcome).toMatchObject({ kind: 'dropped', because: 'stale' });
      expect(asked).toEqual([]);
      expect(app.isAlive()).toBe(true);
    });

    it.each<readonly [string, Rung]>([
      ['it was sent SIGKILL', KILLED],
      ['its deletion was accepted', { ...unheard, isAccepted: true }],
    ])('ends the victim of a hard choice, however old, if %s', async (_, rung) => {
      const app = await pod.child('app');
      const resumedFromMs = clock.monoMs() + 20;
      await sleep(clock, 1_100);
      const of = killer(() => ['app'], { ending: known(false) });
      const outcome = await run(of, { resumedFromMs, sentBefore: 'sigkill', doneBefore: [rung] });
      expect(outcome).toMatchObject({ kind: 'ended', via: 'sigkill' });
      await until(clock, () => !app.isAlive(), 10_000);
    });

    it('ends the victim of an old choice whose request the API has accepted, although its answer was lost', async () => {
      const app = await pod.child('app');
      const resumedFromMs = clock.monoMs() + 20;
      await sleep(clock, 1_100);
      const of = killer(() => ['app'], { ending: known(true) });
      const stopping = run(of, { ...soft(60_000), resumedFromMs, doneBefore: [lost] });
      await sleep(clock, 50);
      app.kill('SIGTERM');
      expect(await stopping).toMatchObject({ kind: 'ended', via: 'api' });
      expect(asked).toEqual([]);
    });

    it('does not repeat a request that was accepted', async () => {
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
  },
);
