import { describe, expect, it } from 'vitest';
import { decide } from '../../src/core/decide.ts';
import { explain } from '../../src/core/explain.ts';
import type { PodView } from '../../src/core/pod/pod.ts';
import { known, unknown } from '../../src/core/reading.ts';
import type { Signal } from '../../src/core/signal.ts';
import { initialState } from '../../src/core/state/state.ts';
import { createObservedLooks, type ObservedLook } from '../../src/daemon/observed-look.ts';
import { aConfig, anObservation, aPod, aThreshold, GI, MI } from '../a.ts';
import { aContext, aVerdict } from '../serve/a-report.ts';
import { createVirtualClock } from '../virtual-node.ts';

const adopted = initialState('adopted');
const seenPods = [aPod({ name: 'seen' })];
const config = aConfig([aThreshold('memory.available', 100 * MI)]);
const readPods: readonly PodView[] = [aPod({ name: 'read' })];

/** `timer`: when a timer of so many milliseconds really fires. */
function aDesk(timer = (ms: number): number => ms, now = readPods) {
  let wakes = 0;
  const clock = createVirtualClock(0);
  const desk = createObservedLooks({
    clock: { ...clock, after: (ms, run) => clock.after(timer(ms), run) },
    wake: () => wakes++,
    node: () => aContext().node,
    config: () => config,
    podsNow: () => known(now),
  });
  const never = new AbortController().signal;
  /** Time passes; promises settle on the way. */
  const pass = (ms: number) => clock.run(clock.monoMs() + ms, () => new Promise((turn) => setImmediate(turn)), never);
  return { desk, wakes: () => wakes, pass };
}
const read = async (text: Promise<string>): Promise<ObservedLook> => JSON.parse(await text);
const namesOf = ({ observation: { pods } }: ObservedLook) => (pods.known ? pods.value.map(({ name }) => name) : null);

describe('a reader that asks for a look', () => {
  it('gets the next one, with every pod read although the core requested none', async () => {
    const { desk, wakes, pass } = aDesk();
    expect(desk.wanted({ afterMs: 5, pods: null })).toEqual({ afterMs: 5, pods: null });
    const [before, verdict] = [initialState('first'), aVerdict(initialState('second'))];
    desk.seen({ observation: anObservation(1, {}), verdict: aVerdict(before), before: adopted });
    const answers = [read(desk.ask()), read(desk.ask())];
    await pass(0);
    expect(wakes()).toBe(2);
    expect(desk.wanted({ afterMs: 5, pods: null })).toEqual({ afterMs: 5, pods: null, isForReader: true });
    desk.seen({ observation: anObservation(2, {}, { pods: known(seenPods) }), verdict, before });
    await pass(20);
    for (const look of await Promise.all(answers)) {
      expect(look).toMatchObject({ schema: 1, observation: { atMs: 2 }, state: { bootId: 'first' } });
      expect(namesOf(look)).toEqual(['seen']);
    }
    // Nobody asks any more.
    expect(desk.wanted({ afterMs: 5, pods: null })).toEqual({ afterMs: 5, pods: null });
  });

  describe('does not change what the core requests: only the figures that are missing are then read for the reader', () => {
    const notAsked = unknown('not-asked', 'cgroup', 'not needed');
    const full = {
      'nodefs.available': { available: GI, capacity: 9 * GI },
      'memory.available': { available: MI, capacity: GI },
    };
    const lately = (name: string, rest: Partial<PodView>, usage: Partial<PodView['usage']>) =>
      aPod({ name, ...rest, workingSetBytes: 3, processes: 4, diskBytes: 5, usage });
    const answered = async (seen: Parameters<typeof anObservation>[2], now: readonly PodView[]) => {
      const { desk, pass } = aDesk(undefined, now);
      const answer = read(desk.ask());
      const want = desk.wanted({ afterMs: 0, pods: seen?.podsFor ?? null });
      expect(want.pods).toBe(seen?.podsFor);
      desk.seen({ observation: anObservation(1, full, seen), verdict: aVerdict(adopted), before: adopted });
      await pass(20);
      const { pods } = (await answer).observation;
      return pods.known ? pods.value : null;
    };

    it('and the pods are as the look saw them, although one of them is being stopped by now, and others came or went', async () => {
      const usage = { processes: notAsked, swapBytes: notAsked };
      const seen = ['hog', 'gone'].map((name) => aPod({ name, workingSetBytes: 1, diskBytes: 2, usage }));
      const now = [
        lately('new', {}, {}),
        lately('hog', { isTerminating: true, limitedBy: 'restart-guard' }, { swapBytes: known(6) }),
      ];
      const [hog, ...others] = (await answered({ pods: known(seen), podsFor: 'nodefs.available' }, now)) ?? [];
      const filled = { ...seen[0]?.usage, processes: known(4), swapBytes: known(6) };
      expect(hog).toEqual({ ...seen[0], usage: filled });
      expect(others).toEqual(seen.slice(1));
    });

    it('and what ending a pod frees on a disk, if the look was for no disk', async () => {
      const relief = (n: number) => {
        const amount = { bytes: known(n), inodes: known(n) };
        return known({ scratch: amount, deletedOpen: amount, grownLastMinute: amount, writtenBytes: known(n) });
      };
      const seen = aPod({ name: 'hog', diskBytes: 2 });
      const now = [lately('hog', { diskRelief: relief(7) }, {})];
      const of = async (podsFor: Signal) => (await answered({ pods: known([seen]), podsFor }, now))?.[0];
      const measured = { ...seen, diskRelief: relief(7), usage: { ...seen.usage, disk: now[0]?.usage.disk } };
      expect(await of('memory.available')).toEqual(measured);
      expect(await of('nodefs.available')).toEqual(seen);
    });

    it('and all of it is read now if the look could not read the pods', async () => {
      const pods = unknown('timed-out', 'walk', 'not yet');
      expect(await answered({ pods, podsFor: 'nodefs.available' }, readPods)).toEqual(readPods);
    });
  });

  it('gets the pods as the look decides: what a shutdown is stopping is terminating, and not chosen first', async () => {
    const { desk, pass } = aDesk();
    const answer = read(desk.ask());
    desk.wanted({ afterMs: 5, pods: null });
    const pods = known([aPod({ name: 'hog', workingSetBytes: 9 * MI }), aPod({ name: 'web', workingSetBytes: MI })]);
    const stop = { decision: 'b-1', decidedMs: 0, uid: 'uid-hog', graceEndsMs: 60_000, waitEndsMs: 70_000 };
    const before = { ...adopted, stops: [stop] };
    const observation = anObservation(1_000, { 'memory.available': { available: MI, capacity: 9 * GI } }, { pods });
    const verdict = decide(before, observation, config);
    desk.seen({ observation, verdict, before });
    await pass(20);
    const look = await answer;
    expect(verdict.decisions).toContainEqual(
      expect.objectContaining({ victim: expect.objectContaining({ name: 'web' }) }),
    );
    expect(explain(look, 'memory.available')?.victim?.name).toBe('web');
  });

  it('gets no answer once the source of the pods is closed', async () => {
    const { desk, pass } = aDesk();
    let heard = false;
    desk.ask().then(() => {
      heard = true;
    });
    desk.wanted({ afterMs: 5, pods: null });
    desk.seen({ observation: anObservation(1, {}), verdict: aVerdict(adopted), before: adopted });
    desk.close();
    await pass(1_000);
    expect(heard).toBe(false);
  });

  it('gets at most ten looks a second, and wakes the loop no more often, however often it asks', async () => {
    const { desk, wakes, pass } = aDesk();
    const observation = anObservation(1, {}, { pods: known(seenPods) });
    const look = () => desk.seen({ observation, verdict: aVerdict(adopted), before: adopted });
    const first = desk.ask();
    expect(desk.wanted({ afterMs: 5, pods: null }).isForReader).toBe(true);
    look();
    await pass(20);
    await first;
    const second = desk.ask();
    await pass(79);
    expect([wakes(), desk.wanted({ afterMs: 5, pods: null }).isForReader]).toEqual([1, undefined]);
    look();
    await pass(2);
    expect([wakes(), desk.wanted({ afterMs: 5, pods: null }).isForReader]).toEqual([2, true]);
    look();
    await pass(20);
    expect(namesOf(await read(second))).toEqual(['seen']);
  });

  it('gets the look that it wakes the loop for, although timers count whole milliseconds, and may be early', async () => {
    const { desk, wakes, pass } = aDesk((ms) => Math.max(0, Math.trunc(ms) - 0.9));
    const look = () => desk.seen({ observation: anObservation(1, {}), verdict: aVerdict(adopted), before: adopted });
    const first = desk.ask();
    await pass(0);
    desk.wanted({ afterMs: 5, pods: null });
    look();
    await pass(30.5);
    await first;
    desk.ask();
    while (wakes() < 2) await pass(0.1);
    expect(desk.wanted({ afterMs: 5, pods: null }).isForReader).toBe(true);
  });
});
