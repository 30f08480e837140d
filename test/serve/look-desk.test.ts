import { describe, expect, it } from 'vitest';
import { known } from '../../src/core/reading.ts';
import { initialState } from '../../src/core/state.ts';
import { createClock, sleep } from '../../src/host/clock.ts';
import { createLookDesk, type ObservedLook } from '../../src/serve/look-desk.ts';
import { aConfig, anObservation, aPod } from '../a.ts';
import { aContext, aVerdict } from './a-report.ts';

const clock = createClock();
const adopted = initialState('adopted');
const seenPods = [aPod({ name: 'seen' })];
const readPods = [aPod({ name: 'read' })];

function aDesk() {
  let wakes = 0;
  const desk = createLookDesk({
    clock,
    wake: () => wakes++,
    node: () => aContext().node,
    config: () => aConfig([]),
    podsNow: () => known(readPods),
    adopted,
  });
  return { desk, wakes: () => wakes };
}
const read = async (text: Promise<string>): Promise<ObservedLook> => JSON.parse(await text);
const namesOf = ({ observation: { pods } }: ObservedLook) => (pods.known ? pods.value.map(({ name }) => name) : null);

describe('who asks for a look', () => {
  it('gets the next one, at which every pod was read although the core wanted none', async () => {
    const { desk, wakes } = aDesk();
    expect(desk.wanted({ afterMs: 5, pods: null })).toEqual({ afterMs: 5, pods: null });
    desk.seen(anObservation(1, {}), aVerdict(initialState('first')));
    const answers = [read(desk.ask()), read(desk.ask())];
    expect(wakes()).toBe(2);
    expect(desk.wanted({ afterMs: 5, pods: null })).toEqual({ afterMs: 5, pods: 'all' });
    desk.seen(anObservation(2, {}, { pods: known(seenPods) }), aVerdict(initialState('second')));
    for (const look of await Promise.all(answers)) {
      expect(look).toMatchObject({ schema: 1, observation: { atMs: 2 }, state: { bootId: 'first' } });
      expect(namesOf(look)).toEqual(['seen']);
    }
    // Nobody asks any more.
    expect(desk.wanted({ afterMs: 5, pods: null }).pods).toBeNull();
  });

  it('does not change what the core asks for: the pods are then read for the reader alone', async () => {
    const { desk } = aDesk();
    const answer = read(desk.ask());
    expect(desk.wanted({ afterMs: 0, pods: 'nodefs.available' }).pods).toBe('nodefs.available');
    desk.seen(anObservation(1, {}, { pods: known(seenPods) }), aVerdict(adopted));
    const look = await answer;
    expect(namesOf(look)).toEqual(['read']);
    expect(look.state.bootId).toBe('adopted');
  });

  it('hears nothing once what the pods are read with is gone', async () => {
    const { desk } = aDesk();
    const answer = read(desk.ask());
    desk.seen(anObservation(1, {}), aVerdict(adopted));
    desk.close();
    const silent = sleep(clock, 100).then(() => 'silent');
    expect(await Promise.race([answer, silent])).toBe('silent');
  });
});
