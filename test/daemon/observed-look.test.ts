import { describe, expect, it } from 'vitest';
import { decide } from '../../src/core/decide.ts';
import { explain } from '../../src/core/explain.ts';
import { known } from '../../src/core/reading.ts';
import { initialState } from '../../src/core/state/state.ts';
import { createObservedLooks, type ObservedLook } from '../../src/daemon/observed-look.ts';
import { aConfig, anObservation, aPod, aThreshold, GI, MI } from '../a.ts';
import { aContext, aVerdict } from '../serve/a-report.ts';
import { createVirtualClock } from '../virtual-node.ts';

const adopted = initialState('adopted');
const seenPods = [aPod({ name: 'seen' })];
const config = aConfig([aThreshold('memory.available', 100 * MI)]);
const readPods = [aPod({ name: 'read' })];

/** `timer`: when a timer of so many milliseconds really fires. */
function aDesk(timer = (ms: number): number => ms) {
  let wakes = 0;
  const clock = createVirtualClock(0);
  const desk = createObservedLooks({
    clock: { ...clock, after: (ms, run) => clock.after(timer(ms), run) },
    wake: () => wakes++,
    node: () => aContext().node,
    config: () => config,
    podsNow: () => known(readPods),
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
    expect(desk.wanted({ afterMs: 5, pods: null })).toEqual({ afterMs: 5, pods: 'all', isForReader: true });
    desk.seen({ observation: anObservation(2, {}, { pods: known(seenPods) }), verdict, before });
    await pass(20);
    for (const look of await Promise.all(answers)) {
      expect(look).toMatchObject({ schema: 1, observation: { atMs: 2 }, state: { bootId: 'first' } });
      expect(namesOf(look)).toEqual(['seen']);
    }
    // Nobody asks any more.
    expect(desk.wanted({ afterMs: 5, pods: null }).pods).toBeNull();
  });

  it('does not change what the core requests: the pods are then read for the reader alone', async () => {
    const { desk, pass } = aDesk();
    const answer = read(desk.ask());
    expect(desk.wanted({ afterMs: 0, pods: 'nodefs.available' }).pods).toBe('nodefs.available');
    const observation = anObservation(1, {}, { pods: known(seenPods) });
    desk.seen({ observation, verdict: aVerdict(adopted), before: adopted });
    await pass(20);
    const look = await answer;
    expect(namesOf(look)).toEqual(['read']);
    expect(look.state.bootId).toBe('adopted');
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
    expect(desk.wanted({ afterMs: 5, pods: null }).pods).toBe('all');
    look();
    await pass(20);
    await first;
    const second = desk.ask();
    await pass(79);
    expect([wakes(), desk.wanted({ afterMs: 5, pods: null }).pods]).toEqual([1, null]);
    look();
    await pass(2);
    expect([wakes(), desk.wanted({ afterMs: 5, pods: null }).pods]).toEqual([2, 'all']);
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
    expect(desk.wanted({ afterMs: 5, pods: null }).pods).toBe('all');
  });
});
