import { describe, expect, it } from 'vitest';
import { ageOf, classOf, isDead, stepNodes } from '../../../src/core/guard/health.ts';
import type { NodeView } from '../../../src/core/guard/observation.ts';
import type { NodeMemory } from '../../../src/core/guard/state.ts';
import { known, unknown } from '../../../src/core/reading.ts';
import { aCondition, aView, byUid } from './a-node.ts';

const LIMITS = { suspectAfterMs: 40_000, deadAfterMs: 120_000, plannedWaitMs: 900_000 };
const GOES_ON = { isSettled: true, startsAnew: false };

/** One node over several looks; `at` is the look and the read alike. */
function watched(first: NodeView = aView(), how = GOES_ON) {
  let nodes = stepNodes(new Map(), { atMs: 0, nodes: known({ value: [first], asOfMs: 0 }) }, LIMITS, how).nodes;
  const memory = (): NodeMemory => {
    const only = [...nodes.values()][0];
    if (only === undefined) throw new Error('no node');
    return only;
  };
  const look = (atMs: number, view: NodeView, rest: Partial<typeof GOES_ON> = {}) => {
    const step = stepNodes(nodes, { atMs, nodes: known({ value: [view], asOfMs: atMs }) }, LIMITS, { ...how, ...rest });
    nodes = step.nodes;
    return step;
  };
  return { memory, look, class: (atMs: number) => classOf(memory(), ageOf(memory(), atMs, true), atMs, atMs, LIMITS) };
}

describe('a sign of life', () => {
  const ready = (heartbeat: string, reason = 'KubeletReady') => ({ conditions: [aCondition({ heartbeat, reason })] });
  const own = (type: string, heartbeat: string) => ({ conditions: [aCondition(), aCondition({ type, heartbeat })] });
  it.each<[string, NodeView, NodeView, boolean]>([
    ['another renewTime', aView(), aView({}, 'r2'), true],
    ['an earlier renewTime: a clock was set back', aView({}, 'r2'), aView({}, 'r1'), true],
    ['the same renewTime', aView(), aView(), false],
    ['a lease that is there again', aView({}, null), aView({}, 'r1'), true],
    ['a lease that is gone', aView(), aView({}, null), false],
    ['another heartbeat of the kubelet', aView(), aView(ready('h2')), true],
    ['a word of the controller', aView(), aView(ready('h2', 'NodeStatusUnknown')), false],
    [
      'a heartbeat of the node agent',
      aView(own('NodewardenShutdownArmed', 'a')),
      aView(own('NodewardenShutdownArmed', 'b')),
      true,
    ],
    ['our own condition', aView(own('NodewardenFenced', 'a')), aView(own('NodewardenFenced', 'b')), false],
    ['another condition', aView(own('Other', 'a')), aView(own('Other', 'b')), false],
    ['another label', aView(), aView({ labels: { a: 'b' } }), false],
  ])('%s: %#', (_, before, after, isSign) => {
    const { look, memory } = watched(before);
    expect(look(10_000, after).hasSign).toBe(isSign);
    expect(memory().signMs).toBe(isSign ? 10_000 : null);
  });
  it('the kubelet that says what it said before the controller spoke for it gives none', () => {
    const { look, memory } = watched(aView(ready('h1')));
    look(10_000, aView(ready('h1', 'NodeStatusUnknown')));
    expect(look(20_000, aView(ready('h1'))).hasSign).toBe(false);
    expect(memory().signMs).toBeNull();
  });
  it('the first look at a node is none', () => {
    const nodes = known({ value: [aView()], asOfMs: 5 });
    expect(stepNodes(new Map(), { atMs: 5, nodes }, LIMITS, GOES_ON).hasSign).toBe(false);
  });
});

describe('age', () => {
  it('is measured from when this process saw a change to the last read, and never below 0', () => {
    const { look, memory } = watched();
    look(10_000, aView({}, 'r2'));
    expect(ageOf(memory(), 25_000, true)).toBe(15_000);
    expect(ageOf(memory(), 9_000, true)).toBe(0);
  });
  it('is none without a lease that is renewed, and for a node never seen alive before it has settled', () => {
    expect(ageOf(watched(aView({}, null)).memory(), 500_000, true)).toBeNull();
    expect(ageOf(watched({ ...aView(), lease: null }).memory(), 500_000, true)).toBeNull();
    expect(ageOf(watched().memory(), 500_000, false)).toBeNull();
    expect(ageOf(watched().memory(), 500_000, true)).toBe(500_000);
  });
  it('begins again when what happened is not known', () => {
    const { look, memory } = watched();
    look(10_000, aView({}, 'r2'));
    look(300_000, aView({}, 'r2'));
    look(301_000, aView({}, 'r3'), { startsAnew: true, isSettled: false });
    expect(memory()).toMatchObject({
      signMs: null,
      sinceMs: 301_000,
      isSuspect: false,
      onsetMs: null,
      overdueMs: null,
    });
    expect(ageOf(memory(), 311_000, true)).toBe(10_000);
  });
});

describe('a class', () => {
  const silent = (view: NodeView = aView({}, 'r2')) => {
    const node = watched(aView({}, 'r1', view.lease?.durationMs));
    node.look(1_000, view);
    return { ...node, after: (ms: number) => node.look(1_000 + ms, view) };
  };
  it.each([
    [40_000, 'healthy'],
    [40_001, 'suspect'],
    [120_001, 'suspect'],
  ])('after %i ms of silence: %s', (ms, expected) => {
    const node = silent();
    node.after(ms);
    expect(node.class(1_000 + ms)).toBe(expected);
  });
  it('dead only at two reads that are 5 s apart', () => {
    const node = silent();
    node.after(120_001);
    node.after(125_000);
    expect(node.class(126_000)).toBe('suspect');
    node.after(125_001);
    expect(node.class(126_001)).toBe('dead');
    expect(isDead({ overdueMs: 10 }, 5_010)).toBe(true);
    expect(isDead({ overdueMs: 10 }, 5_009)).toBe(false);
  });
  it('waits for the duration of its own lease, if that is longer', () => {
    const node = silent(aView({}, 'r2', 200_000));
    node.after(200_000);
    expect(node.class(201_000)).toBe('healthy');
    node.after(200_001);
    expect(node.class(201_001)).toBe('suspect');
  });
  it.each([
    [40_000, 120_000],
    [80_000, 120_000],
    [120_000, 170_000],
    [160_000, 220_000],
  ])('with a lease of %i ms: dead after %i ms, when a renewal has passed since it was suspect', (leaseMs, deadMs) => {
    const node = silent(aView({}, 'r2', leaseMs));
    node.after(deadMs);
    expect(node.memory().overdueMs).toBeNull();
    node.after(deadMs + 1);
    expect(node.memory().overdueMs).not.toBeNull();
  });
  it('unhappy, if it is alive and not Ready; new, without an age', () => {
    expect(silent(aView({ conditions: [aCondition({ status: 'False', heartbeat: 'h2' })] }, 'r2')).class(2_000)).toBe(
      'unhappy',
    );
    expect(watched(aView({}, null)).class(500_000)).toBe('new');
  });
  it('that was silent or has booted has that written down, also when it is back', () => {
    const node = silent();
    expect(node.memory().disturbedMs).toBeNull();
    node.look(50_000, aView({}, 'r2'));
    node.look(60_000, aView({}, 'r3'));
    node.look(100_000, aView({}, 'r4'));
    expect(node.memory()).toMatchObject({ onsetMs: null, disturbedMs: 1_000 });
    node.look(110_000, aView({ bootId: 'boot-2' }, 'r5'));
    expect(node.memory()).toMatchObject({ isSuspect: false, disturbedMs: 110_000 });
    node.look(120_000, aView({ bootId: 'boot-2' }, 'r6'), { startsAnew: true });
    expect(node.memory().disturbedMs).toBe(110_000);
  });
  it('a suspect that shows life counts in a storm for 30 s more, with the onset of its silence', () => {
    const node = silent();
    node.after(50_000);
    expect(node.memory()).toMatchObject({ isSuspect: true, onsetMs: 1_000 });
    node.look(60_000, aView({}, 'r3'));
    expect(node.memory()).toMatchObject({ isSuspect: false, onsetMs: 1_000, countsUntilMs: 90_000 });
    node.look(89_999, aView({}, 'r4'));
    expect(node.memory().onsetMs).toBe(1_000);
    node.look(90_000, aView({}, 'r5'));
    expect(node.memory().onsetMs).toBeNull();
  });
});

describe('an announced shutdown', () => {
  const says = (rest: Parameters<typeof aCondition>[0]) => ({ conditions: [aCondition(rest)] });
  const goingDown = says({ status: 'False', message: 'node is shutting down', heartbeat: 'h2' });
  it('is planned for plannedWait, also when the controller speaks for the node', () => {
    const node = watched();
    node.look(1_000, aView(goingDown, 'r2'));
    const unknown = says({ status: 'Unknown', reason: 'NodeStatusUnknown', heartbeat: 'h2' });
    node.look(60_000, aView(unknown, 'r2'));
    expect(node.class(60_000)).toBe('planned');
    node.look(895_000, aView(unknown, 'r2'));
    node.look(900_999, aView(unknown, 'r2'));
    expect(node.class(900_999)).toBe('planned');
    node.look(901_000, aView(unknown, 'r2'));
    expect(node.class(901_000)).toBe('dead');
  });
  it('is over when the kubelet speaks again', () => {
    const node = watched();
    node.look(1_000, aView(goingDown, 'r2'));
    node.look(2_000, aView(says({ heartbeat: 'h3' }), 'r3'));
    expect(node.memory().announced).toBeNull();
  });
  it('counts since when it is seen cordoned', () => {
    const node = watched(aView({ isUnschedulable: true }));
    expect(node.memory().cordonedMs).toBe(0);
    node.look(5_000, aView({ isUnschedulable: true }, 'r2'));
    expect(node.memory().cordonedMs).toBe(0);
    node.look(6_000, aView({}, 'r3'));
    expect(node.memory().cordonedMs).toBeNull();
  });
});

describe('what is remembered', () => {
  it('is the same map when nothing changed, and forgets nodes that are gone', () => {
    const object = aView();
    const first = stepNodes(
      new Map(),
      { atMs: 0, nodes: known({ value: [object], asOfMs: 0 }) },
      LIMITS,
      GOES_ON,
    ).nodes;
    const again = { object: object.object, lease: { renewed: 'r1', durationMs: 40_000 } };
    expect(stepNodes(first, { atMs: 1, nodes: known({ value: [again], asOfMs: 1 }) }, LIMITS, GOES_ON).nodes).toBe(
      first,
    );
    const other = aView({ name: 'w2' });
    const after = stepNodes(first, { atMs: 2, nodes: known({ value: [other], asOfMs: 2 }) }, LIMITS, GOES_ON).nodes;
    expect([...after.keys()]).toEqual(['uid-w2']);
  });
  it('stays while nodes cannot be read', () => {
    const nodes = byUid([]);
    const step = stepNodes(nodes, { atMs: 1, nodes: unknown('timed-out', 'nodes', '') }, LIMITS, GOES_ON);
    expect(step).toEqual({ nodes, hasSign: false });
  });
});

describe('a Node whose object is the same as before', () => {
  const { object } = aView();
  const seen = (lease: NodeView['lease'], before: NodeView['lease'] = { renewed: 'r1', durationMs: 40_000 }) => {
    const { look, memory } = watched({ object, lease: before });
    look(10_000, { object, lease });
    return memory();
  };
  it.each<[string, NodeView['lease'], number | null]>([
    ['renewed its lease', { renewed: 'r2', durationMs: 40_000 }, 10_000],
    ['has another duration', { renewed: 'r1', durationMs: 50_000 }, null],
    ['has no lease any more', null, null],
  ])('%s', (_, lease, signMs) => {
    expect(seen(lease)).toMatchObject({ lease, signMs });
  });
  it('has a lease now', () => {
    expect(seen({ renewed: 'r1', durationMs: 40_000 }, null)).toMatchObject({
      lease: { renewed: 'r1' },
      signMs: 10_000,
    });
  });
  it('costs nothing, also with another lease of the same words', () => {
    const { look, memory } = watched({ object, lease: { renewed: 'r1', durationMs: 40_000 } });
    const before = memory();
    look(10_000, { object, lease: { renewed: 'r1', durationMs: 40_000 } });
    expect(memory()).toBe(before);
  });
});

describe('what a Node asks for', () => {
  const skips = (text: string | null) => aView(text === null ? {} : { annotations: { 'nodewarden.dev/guard': text } });
  it('counts since it is seen to ask', () => {
    const node = watched(skips('skip'));
    expect(node.memory()).toMatchObject({ skippedMs: 0, countsUntilMs: 0, isSuspect: false });
    node.look(5_000, skips('skip for=1h'));
    expect(node.memory().skippedMs).toBe(0);
    node.look(6_000, skips(null));
    expect(node.memory().skippedMs).toBeNull();
    node.look(7_000, skips('skip'));
    expect(node.memory().skippedMs).toBe(7_000);
    expect(watched().memory()).toMatchObject({ skippedMs: null, cordonedMs: null });
  });
  it('cordoned again counts anew', () => {
    const node = watched();
    node.look(5_000, aView({ isUnschedulable: true }));
    node.look(9_000, aView({ isUnschedulable: true }, 'r2'));
    expect(node.memory().cordonedMs).toBe(5_000);
  });
  it('its agent that says again what it said before gives no sign of life', () => {
    const own = { conditions: [aCondition(), aCondition({ type: 'NodewardenShutdownArmed', heartbeat: 'a' })] };
    const node = watched(aView(own));
    node.look(5_000, aView());
    expect(node.look(9_000, aView(own)).hasSign).toBe(false);
  });
});

it('a node is overdue after deadAfter, or after the duration of its own lease', () => {
  const overdue = (durationMs: number, ms: number): number | null => {
    const node = watched(aView({}, 'r1', durationMs));
    node.look(1_000, aView({}, 'r2', durationMs));
    node.look(1_000 + ms, aView({}, 'r2', durationMs));
    return node.memory().overdueMs;
  };
  expect(overdue(40_000, 120_000)).toBeNull();
  expect(overdue(40_000, 120_001)).toBe(121_001);
  expect(overdue(200_000, 270_000)).toBeNull();
  expect(overdue(200_000, 270_001)).toBe(271_001);
});

it('a look at several nodes has a sign if one gives it, and forgets one that is gone', () => {
  const views = (renewed: string) => [aView({}, 'r1'), aView({ name: 'w2' }, renewed)];
  const at = (atMs: number, value: readonly NodeView[]) => ({ atMs, nodes: known({ value, asOfMs: atMs }) });
  const first = stepNodes(new Map(), at(0, views('r1')), LIMITS, GOES_ON);
  const second = stepNodes(first.nodes, at(5_000, views('r2')), LIMITS, GOES_ON);
  expect([second.hasSign, second.nodes.get('uid-w2')?.signMs]).toEqual([true, 5_000]);
  // Nothing new from w2, which was heard before.
  const third = stepNodes(second.nodes, at(6_000, views('r2')), LIMITS, GOES_ON);
  expect(third.hasSign).toBe(false);
  expect([...stepNodes(third.nodes, at(7_000, views('r2').slice(0, 1)), LIMITS, GOES_ON).nodes.keys()]).toEqual([
    'uid-w1',
  ]);
});
