import { describe, expect, it } from 'vitest';
import { timelineOf } from '../../../src/simulate/guard/timeline.ts';
import { type Json, MEMBER, run } from './a-world.ts';

const NODES: readonly Json[] = [{ names: 'w[1-5]', pods: [{ ...MEMBER, name: 'db-{node}' }] }];
const DIES: Json = { at: '5m', node: 'w2', freeze: true };
/** Longer than drainWait and bootTime. */
const UP: Json = { at: '20m', api: 'up' };

function played(events: readonly Json[], rest: Json = {}) {
  const { bootTakes = '1m', ...more } = rest;
  const { facts, result } = run({
    ...{ nodes: NODES, events: [DIES, ...events], world: { duration: '1h', bootTakes } },
    ...more,
  });
  return { result, said: timelineOf(facts).map(({ text }) => text) };
}
const onW2 = (said: readonly string[], what: RegExp): readonly string[] =>
  said.filter((line) => line.startsWith('w2: ') && what.test(line));

/** guard.md: what waits for something counts from when a guard could see or do it. */
describe('an outage of the API server in the middle of a fencing', () => {
  it('is no refusal of the taint', () => {
    const { said, result } = played(
      [{ at: '6m', guard: { name: 'g1', cutFromApi: true, for: '11m', atPhase: 'proven' } }],
      { guards: [{ name: 'g1' }], bootTakes: '2h' },
    );
    expect(onW2(said, /could not be set out of service/)).toEqual([]);
    expect(result.backElsewhere).toMatchObject([{ pod: 'default/db-w2' }]);
  });

  it('takes no taint before Kubernetes could act on it', () => {
    const { said, result } = played([{ at: '7m25s', api: 'down' }, UP], { bootTakes: '2h' });
    expect(onW2(said, /drain/)).toEqual([]);
    expect(result.backElsewhere).toMatchObject([{ pod: 'default/db-w2' }]);
  });

  it('leaves no machine off that is about to be switched on', () => {
    const { said, result } = played([
      { at: '6m', guard: { name: 'leader', kill: true, atPhase: 'on-sent' } },
      { at: '8m17s', api: 'down' },
      UP,
    ]);
    expect(onW2(said, /not back/)).toEqual([]);
    expect(result.recovered).toEqual(['w2']);
  });

  it('asks nobody to look at a machine that is back', () => {
    const { said, result } = played([{ at: '8m15s', api: 'down' }, UP]);
    expect(onW2(said, /not back/)).toEqual([]);
    expect(result.recovered).toEqual(['w2']);
  });
});

it('a machine that is not back is freed by the word of a person', () => {
  const { said, result } = played(
    [
      { at: '31m', node: 'w2', power: 'off' },
      { at: '33m', order: { verb: 'confirm-off', node: 'w2', by: 'anna', because: 'plug pulled' } },
    ],
    { bootTakes: '2h' },
  );
  expect(said).toContain('order of anna: confirm-off w2: accepted');
  expect(result.leftOff).toEqual(['w2']);
});

/** What is waited for ends, however often a guard loses its lease. */
describe.each([
  ['one guard', { guards: [{ name: 'g1' }] }, 'g1', 24],
  ['each of two in turn', {}, 'leader', 33],
])('an election every 3 minutes: of %s', (_, guards, name, beforeMinute) => {
  const cuts = Array.from({ length: 20 }, (__, at) => ({
    ...{ at: `${7 + 3 * at}m`, guard: { name, cutFromApi: true, for: '20s' } },
  }));
  const world = { duration: '70m', bootTakes: '1m' };
  const firstMinute = ({ facts }: ReturnType<typeof run>, what: RegExp): number => {
    const first = timelineOf(facts).find(({ text }) => text.startsWith('w2: ') && what.test(text));
    return first === undefined ? Number.NaN : first.at / 60_000;
  };

  it('leaves no machine off whose volume is never detached', () => {
    const nodes = [{ names: 'w[1-5]', pods: [{ ...MEMBER, name: 'db-{node}', detaches: false }] }];
    const played = run({ nodes, events: [DIES, ...cuts], world, ...guards });
    expect(firstMinute(played, /still there after drainWait/)).toBeLessThan(beforeMinute);
    expect(played.result.recovered).toEqual(['w2']);
  });

  it('hides no machine that is not back', () => {
    const played = run({ nodes: NODES, events: [DIES, ...cuts], world: { ...world, bootTakes: '2h' }, ...guards });
    expect(firstMinute(played, /not back/)).toBeLessThan(beforeMinute);
  });
});
