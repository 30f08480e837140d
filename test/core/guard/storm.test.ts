import { describe, expect, it } from 'vitest';
import type { Fencing, Hold, NodeMemory, Release } from '../../../src/core/guard/state.ts';
import { adoptHolds, holdOn, isReleased, mostUnhealthy, stepStorm, stormsNow } from '../../../src/core/guard/storm.ts';
import { aGuardConfig } from './a-guard-config.ts';
import { aMemory, byUid } from './a-node.ts';

const CONFIG = aGuardConfig();
const TIME = { atMs: 1_000_000, asOfMs: 1_000_000, isSettled: true };
const NO_FENCINGS: ReadonlyMap<string, Fencing> = new Map();

/** `suspects` of `count` fell silent 40 s apart from each other. */
function some(
  count: number,
  suspects: number,
  of: Parameters<typeof aMemory>[0] = {},
  prefix = 'w',
): readonly NodeMemory[] {
  return Array.from({ length: count }, (_, i) => {
    const isSuspect = i < suspects;
    const name = `${prefix}${i}`;
    return aMemory({ isSuspect, onsetMs: isSuspect ? i * 40_000 : null, ...of, of: { name, ...of.of } });
  });
}
const storms = (nodes: readonly NodeMemory[], fencings = NO_FENCINGS, config = CONFIG) =>
  stormsNow({ nodes: byUid(nodes), livingAs: new Map(), fencings, holds: [] }, TIME, config).map(({ kind, scope }) =>
    scope.kind === 'nodes'
      ? `${kind} ${scope.nodes.length}`
      : scope.kind === 'domain'
        ? `${kind} ${scope.label}=${scope.value}`
        : `${kind} ${scope.group}`,
  );

/** What each of them says of itself keeps it out of a share; `signMs` for those whose plan has a limit. */
const UNCOUNTED: readonly [string, NonNullable<Parameters<typeof aMemory>[0]>][] = [
  ['planned', { announced: 'agent' }],
  ['freshly cordoned', { cordonedMs: TIME.atMs - 1_000 }],
  ['left alone', { of: { annotations: { 'nodewarden.dev/guard': 'skip' } }, skippedMs: 0 }],
  ['excluded', { of: { labels: { 'remediation.medik8s.io/exclude-from-remediation': 'true' } } }],
];
const APART = { of: { labels: { 'node.kubernetes.io/exclude-disruption': '' } } };

describe('a cluster', () => {
  it.each([
    [1, 1],
    [3, 1],
    [6, 1],
    [7, 2],
    [10, 3],
    [100, 30],
    [5_000, 1_500],
  ])('of %i may have %i unhealthy nodes', (total, most) => {
    expect(mostUnhealthy(total, CONFIG.storm)).toBe(most);
    const wide = aGuardConfig({ domainLabels: [] });
    const all = most === total ? ['all workers'] : [];
    expect(storms(some(total, most), NO_FENCINGS, wide)).toEqual(all);
    if (most < total) expect(storms(some(total, most + 1), NO_FENCINGS, wide)).toEqual(['cluster workers']);
  });
  const labels = { 'node-role.kubernetes.io/control-plane': '' };
  it('counts control-plane nodes apart', () => {
    const masters = some(3, 2, { of: { labels } }, 'c');
    expect(storms([...some(20, 0), ...masters])).toEqual(['cluster control-plane']);
    expect(storms([...some(20, 1), ...some(3, 1, { of: { labels } }, 'c')])).toEqual([]);
  });
  it.each(UNCOUNTED)('does not count nodes that are %s', (_, of) => {
    const signMs = TIME.asOfMs - 60_000;
    expect(storms([...some(5, 5, { signMs, ...of }, 'x'), ...some(20, 0)])).toEqual([]);
    // Nor among those that may fall silent with the others.
    expect(storms([...some(100, 0, { signMs, ...of }, 'x'), ...some(6, 2)])).toEqual(['cluster workers']);
  });
  it.each([
    ['too many of them hold one another', 8, 3, 20, 0, ['cluster exclude-disruption']],
    ['all of them hold one another', 2, 2, 20, 0, ['cluster exclude-disruption', 'all exclude-disruption']],
    ['one of them is one machine', 8, 1, 20, 0, []],
    ['one that is alone is one machine', 1, 1, 20, 0, []],
    ['they do not hold the workers', 3, 1, 20, 6, []],
    ['they do not hide the workers', 100, 0, 6, 2, ['cluster workers']],
  ])('counts nodes with exclude-disruption apart: %s', (_, count, silent, workers, silentWorkers, wanted) => {
    expect(storms([...some(workers, silentWorkers), ...some(count, silent, APART, 'x')])).toEqual(wanted);
  });
  it('counts a control-plane node with exclude-disruption as what it is', () => {
    const masters = some(3, 2, { of: { labels: { ...labels, ...APART.of.labels } } }, 'c');
    expect(storms([...some(20, 0), ...some(5, 0, APART, 'x'), ...masters])).toEqual(['cluster control-plane']);
  });
  it('counts nodes in a fencing, also those left off', () => {
    const nodes = some(6, 1);
    const fencing = { record: { node: { uid: 'uid-w5' }, proof: null } } as unknown as Fencing;
    expect(storms(nodes, new Map([['f', fencing]]))).toEqual(['cluster workers']);
  });
  it('in which nobody is healthy is the guard’s own fault', () => {
    expect(storms(some(2, 2))).toEqual(['cluster workers', 'all workers']);
    expect(storms(some(1, 1))).toEqual(['all workers']);
  });
});

describe('a domain', () => {
  const zone = (value: string) => ({ of: { labels: { zone: value } } });
  it.each([
    [4, 2, false],
    [4, 3, true],
    [5, 3, true],
    [6, 3, false],
    [20, 10, false],
    [20, 11, true],
    [2, 2, false],
    [3, 3, true],
  ])('of %i nodes with %i suspects: %s', (total, suspects, isStorm) => {
    const nodes = [...some(total, suspects, zone('a'), 'a'), ...some(100, 0, zone('b'), 'b')];
    expect(storms(nodes)).toEqual(isStorm ? ['domain zone=a'] : []);
  });
  it('is each label by itself; nodes without it are one domain', () => {
    const config = aGuardConfig({ domainLabels: ['zone', 'rack'] });
    const rack = { of: { labels: { zone: 'b', rack: 'r' } } };
    expect(storms([...some(3, 3, rack, 'r'), ...some(60, 0, zone('b'), 'b')], NO_FENCINGS, config)).toEqual([
      'domain rack=r',
    ]);
    expect(storms([...some(4, 3, {}, 'n'), ...some(60, 0, zone('b'), 'b')])).toEqual(['domain zone=']);
  });
});

describe('a burst', () => {
  const at = (onsets: readonly number[], of: Parameters<typeof aMemory>[0] = {}) => [
    ...onsets.map((onsetMs, i) => aMemory({ isSuspect: true, onsetMs, ...of, of: { name: `s${i}` } })),
    ...some(100, 0),
  ];
  it.each([
    [[0, 10_000, 30_000], 3],
    [[0, 10_000, 30_001], 0],
    [[0, 0], 0],
    [[0, 20_000, 40_000, 50_000], 3],
    [[0, 20_000, 30_000, 40_000, 100_000], 4],
    [[50_000, 0, 40_000, 20_000], 3],
    [[0, 1, 2, 500_000, 500_001, 500_002], 6],
  ])('silent at %j: holds %i', (onsets, held) => {
    expect(storms(at(onsets))).toEqual(held === 0 ? [] : [`burst ${held}`]);
  });
  it.each([
    [[0, 10_000, 50_000], 3],
    [[0, 10_000, 50_001], 0],
  ])('of nodes that renew every 30 s, silent at %j: holds %i', (onsets, held) => {
    const lease = { renewed: 'r1', durationMs: 120_000 };
    expect(storms(at(onsets, { lease }))).toEqual(held === 0 ? [] : [`burst ${held}`]);
  });
  it('is about the nodes that may have fallen silent at one moment, however often each renews', () => {
    const lease = { renewed: 'r1', durationMs: 120_000 };
    const rare = aMemory({ isSuspect: true, onsetMs: 0, lease, of: { name: 'rare' } });
    expect(storms([rare, ...at([40_000, 50_000])])).toEqual(['burst 3']);
    expect(storms([rare, ...at([40_000, 50_001])])).toEqual([]);
    expect(storms([rare, ...at([5_000, 40_000])])).toEqual([]);
  });
  it('leaves out a node that is known to be off, if its silence began before this process', () => {
    const proven = { record: { node: { uid: 'uid-s0' }, proof: { by: 'devices', level: 0 } } } as unknown as Fencing;
    const fencings = new Map([['f', proven]]);
    expect(storms(at([0, 1, 2]), fencings)).toEqual(['burst 3']);
    expect(storms(at([0, 1, 2], { signMs: null }), fencings)).toEqual([]);
  });
});

describe('a node that is silent with others', () => {
  const signMs = TIME.asOfMs - 60_000;
  const inZone = (zone: string, of: NonNullable<Parameters<typeof aMemory>[0]> = {}) => ({
    signMs,
    ...of,
    of: { ...of.of, labels: { ...of.of?.labels, zone } },
  });
  const rest = some(60, 0, inZone('b'), 'b');
  describe.each([...UNCOUNTED, ['labelled exclude-disruption', APART] as const])('that are %s', (_, of) => {
    it('is in a disrupted domain', () => {
      const nodes = [...some(1, 1, inZone('a')), ...some(7, 7, inZone('a', of), 'x'), ...rest];
      expect(storms(nodes)).toContain('domain zone=a');
    });
    it('is in a domain that is not disrupted while most of them live', () => {
      const nodes = [...some(1, 1, inZone('a')), ...some(7, 2, inZone('a', of), 'x'), ...rest];
      expect(storms(nodes)).toEqual([]);
    });
    it('is in a domain whose counted workers are too few, though the others live', () => {
      const nodes = [...some(3, 3, inZone('a')), ...some(7, 0, inZone('a', of), 'x'), ...rest];
      expect(storms(nodes)).toEqual(['domain zone=a']);
    });
    it('is in a burst', () => {
      const nodes = [...some(1, 1, inZone('a')), ...some(2, 2, { ...inZone('b', of), onsetMs: 30_000 }, 'x'), ...rest];
      expect(storms(nodes)).toContain('burst 3');
    });
  });
  it.each(UNCOUNTED)('is nobody, if all of them are %s: they make no storm', (_, of) => {
    expect(storms([...some(8, 8, { ...inZone('a', of), onsetMs: 0 }, 'x'), ...rest])).toEqual([]);
  });
  it.each([
    ['a moment later', 30_000, ['burst 4']],
    ['long after them', 40_000, []],
  ])('of which all others are planned, %s', (_, onsetMs, wanted) => {
    const planned = some(3, 3, { ...inZone('a', { announced: 'agent' }), onsetMs: 0 }, 'x');
    expect(storms([...planned, ...some(1, 1, { ...inZone('c'), onsetMs }), ...rest])).toEqual(wanted);
  });
  it('is in its own burst alone', () => {
    const planned = some(3, 3, { ...inZone('a', { announced: 'agent' }), onsetMs: 0 }, 'x');
    expect(storms([...planned, ...some(4, 4, { ...inZone('c'), onsetMs: 500_000 }), ...rest])).toContain('burst 4');
  });
  it('is held by a domain of another zone as little as before', () => {
    const nodes = [...some(8, 8, inZone('a', { announced: 'agent' }), 'x'), ...some(1, 1, inZone('b')), ...rest];
    expect(storms(nodes)).toEqual([]);
  });
});

describe('a hold', () => {
  const held = (nodes: readonly NodeMemory[], holds: readonly Hold[], atMs: number) =>
    stepStorm({ nodes: byUid(nodes), livingAs: new Map(), fencings: NO_FENCINGS, holds }, { ...TIME, atMs }, CONFIG);
  it('lasts as long as its storm, and then for the cool-down', () => {
    const began = held(some(10, 4), [], 0);
    expect(began.reasons).toEqual([
      { code: 'storm-began', kind: 'cluster', scope: { kind: 'cluster', group: 'workers' } },
    ]);
    const lasts = held(some(10, 4), began.holds, 5_000);
    expect(lasts).toEqual({ holds: began.holds, reasons: [] });
    const ended = held(some(10, 0), lasts.holds, 10_000);
    expect(ended.reasons.map(({ code }) => code)).toEqual(['storm-ended']);
    expect(ended.holds).toEqual([
      { kind: 'cluster', scope: { kind: 'cluster', group: 'workers' }, sinceMs: 0, endedMs: 10_000 },
    ]);
    const cooling = held(some(10, 0), ended.holds, 609_999);
    expect(cooling).toEqual({ holds: ended.holds, reasons: [] });
    expect(held(some(10, 0), cooling.holds, 610_000)).toEqual({ holds: [], reasons: [] });
  });
  it('that begins again during its cool-down is told again', () => {
    const ended: Hold = { kind: 'cluster', scope: { kind: 'cluster', group: 'workers' }, sinceMs: 0, endedMs: 10_000 };
    const again = held(some(10, 4), [ended], 20_000);
    expect(again.holds).toEqual([{ ...ended, endedMs: null }]);
    expect(again.reasons.map(({ code }) => code)).toEqual(['storm-began']);
  });
  it('of a burst keeps the nodes that it held once', () => {
    const hold: Hold = { kind: 'burst', scope: { kind: 'nodes', nodes: ['uid-x'] }, sinceMs: 0, endedMs: null };
    const [after] = held([...some(3, 3, { onsetMs: 7 }), ...some(100, 0, {}, 'o')], [hold], 5).holds;
    expect(after?.scope).toEqual({ kind: 'nodes', nodes: ['uid-x', 'uid-w0', 'uid-w1', 'uid-w2'] });
  });
  it('of a burst lasts while one of its nodes is silent, and cools down when all of them live', () => {
    const scope = { kind: 'nodes', nodes: ['uid-w0', 'uid-w1', 'uid-w2'] } as const;
    const hold: Hold = { kind: 'burst', scope, sinceMs: 0, endedMs: null };
    expect(held(some(100, 1), [hold], 5)).toEqual({ holds: [hold], reasons: [] });
    expect(held(some(100, 0), [hold], 5).holds).toEqual([{ ...hold, endedMs: 5 }]);
  });
  it('of a burst lasts while one of its nodes was not heard since a start or an outage', () => {
    const hold: Hold = { kind: 'burst', scope: { kind: 'nodes', nodes: ['uid-w0'] }, sinceMs: 0, endedMs: null };
    expect(held(some(100, 0, { signMs: null }), [hold], 5)).toEqual({ holds: [hold], reasons: [] });
    expect(held(some(3, 0, {}, 'o'), [hold], 5).holds).toEqual([{ ...hold, endedMs: 5 }]);
  });
  it('of a burst lasts under a new leader too, together with what it saw itself', () => {
    const scope = { kind: 'nodes', nodes: ['uid-w0'] } as const;
    const own: Hold = { kind: 'burst', scope: { kind: 'nodes', nodes: ['uid-w1'] }, sinceMs: 1, endedMs: 2 };
    expect(adoptHolds([own], [{ kind: 'burst', scope }], 5)).toEqual([
      { ...own, scope: { kind: 'nodes', nodes: ['uid-w1', 'uid-w0'] }, endedMs: null },
    ]);
    expect(adoptHolds([], [{ kind: 'burst', scope }], 5)).toEqual([
      { kind: 'burst', scope, sinceMs: 5, endedMs: null },
    ]);
  });
  it('of an earlier leader begins its cool-down anew, unless it is known', () => {
    const scope = { kind: 'cluster', group: 'workers' } as const;
    expect(adoptHolds([], [{ kind: 'all', scope }], 5)).toEqual([{ kind: 'all', scope, sinceMs: 5, endedMs: 5 }]);
    const own: Hold = { kind: 'all', scope, sinceMs: 1, endedMs: null };
    expect(adoptHolds([own], [{ kind: 'all', scope }], 5)).toEqual([own]);
  });
  it.each<[string, Hold['scope'], boolean]>([
    ['its group', { kind: 'cluster', group: 'workers' }, true],
    ['the other group', { kind: 'cluster', group: 'control-plane' }, false],
    ['its domain', { kind: 'domain', label: 'zone', value: 'a' }, true],
    ['another domain', { kind: 'domain', label: 'zone', value: 'b' }, false],
    ['itself', { kind: 'nodes', nodes: ['uid-w1'] }, true],
    ['others', { kind: 'nodes', nodes: ['uid-w2'] }, false],
  ])('on %s', (_, scope, isHeld) => {
    const hold: Hold = { kind: 'burst', scope, sinceMs: 0, endedMs: null };
    const memory = aMemory({ of: { labels: { zone: 'a' } } });
    expect(holdOn(memory, { holds: [hold], releases: [] }, 5)).toBe(isHeld ? hold : null);
    const release: Release = { scope: { kind: 'cluster' }, untilMs: 6, by: 'ana' };
    expect(holdOn(memory, { holds: [hold], releases: [release] }, 5)).toBeNull();
  });
  it.each([
    ['a worker', {}, ['workers', 'of-a-newer-version']],
    ['one with exclude-disruption', APART.of.labels, ['workers', 'exclude-disruption', 'of-a-newer-version']],
    ['the control plane', { 'node-role.kubernetes.io/control-plane': '' }, ['control-plane', 'of-a-newer-version']],
  ])('of a group is one of %s', (_, labels, wanted) => {
    const groups = ['workers', 'control-plane', 'exclude-disruption', 'of-a-newer-version'].filter((group) => {
      const hold: Hold = { kind: 'cluster', scope: { kind: 'cluster', group }, sinceMs: 0, endedMs: null };
      return holdOn(aMemory({ of: { labels } }), { holds: [hold], releases: [] }, 5) !== null;
    });
    expect(groups).toEqual(wanted);
  });
  it('of a group that only a newer version knows is over after its cool-down', () => {
    const [hold] = adoptHolds([], [{ kind: 'all', scope: { kind: 'cluster', group: 'of-a-newer-version' } }], 0);
    const leftAt = (atMs: number) => held(some(10, 0), hold === undefined ? [] : [hold], atMs).holds.length;
    expect([leftAt(CONFIG.storm.coolDownMs - 1), leftAt(CONFIG.storm.coolDownMs)]).toEqual([1, 0]);
  });
  it.each<[Release['scope'], boolean]>([
    [{ kind: 'cluster' }, true],
    [{ kind: 'domain', label: 'zone', value: 'a' }, true],
    [{ kind: 'domain', label: 'zone', value: 'b' }, false],
    [{ kind: 'node', name: 'w1' }, true],
    [{ kind: 'node', name: 'w2' }, false],
  ])('is released by %j: %s, until its time', (scope, isLifted) => {
    const node = { name: 'w1', labels: { zone: 'a' } };
    expect(isReleased(node, [{ scope, untilMs: 10, by: 'ana' }], 9)).toBe(isLifted);
    expect(isReleased(node, [{ scope, untilMs: 10, by: 'ana' }], 10)).toBe(false);
  });
});

describe('what is a storm of its own', () => {
  const CP = { labels: { 'node-role.kubernetes.io/control-plane': '', zone: 'm' } };
  it('workers and control plane begin and end apart, as do domains', () => {
    const state = (nodes: readonly NodeMemory[], holds: readonly Hold[]) => ({
      livingAs: new Map(),
      nodes: byUid(nodes),
      fencings: NO_FENCINGS,
      holds,
    });
    const zone = (value: string, suspects: number) => some(4, suspects, { of: { labels: { zone: value } } }, value);
    const both = stepStorm(state([...some(30, 0), ...zone('a', 3), ...zone('b', 3)], []), TIME, CONFIG);
    expect(both.holds.map(({ scope }) => scope)).toMatchObject([{ value: 'a' }, { value: 'b' }]);
    const one = stepStorm(
      state([...some(30, 0), ...zone('a', 3), ...zone('b', 0)], both.holds),
      { ...TIME, atMs: TIME.atMs + 5 },
      CONFIG,
    );
    expect(one.holds.map(({ endedMs }) => endedMs)).toEqual([null, TIME.atMs + 5]);
    expect(one.reasons).toMatchObject([{ code: 'storm-ended', scope: { value: 'b' } }]);
    const masters = some(3, 2, { of: CP }, 'c');
    const groups = stepStorm(state([...some(10, 4), ...masters], []), TIME, CONFIG);
    expect(groups.holds.map(({ scope }) => scope)).toMatchObject([{ group: 'workers' }, { group: 'control-plane' }]);
    const left = stepStorm(state([...some(10, 0), ...masters], groups.holds), TIME, CONFIG);
    expect(left.holds.map(({ endedMs }) => endedMs)).toEqual([TIME.atMs, null]);
  });
  it('a domain is of workers alone', () => {
    expect(storms([...some(3, 3, { of: CP }, 'c'), ...some(60, 0)])).toEqual([
      'cluster control-plane',
      'all control-plane',
    ]);
  });
  it('nodes in a fencing alone are one', () => {
    const fencing = (uid: string) => [uid, { record: { node: { uid }, proof: null } } as unknown as Fencing] as const;
    expect(storms(some(6, 0), new Map(['uid-w1', 'uid-w2'].map(fencing)))).toEqual(['cluster workers']);
  });
  it('a shutdown that lasts too long is no longer planned', () => {
    const planned = (signMs: number) => storms([...some(6, 3, { announced: 'agent', signMs }), ...some(1, 0, {}, 'x')]);
    expect(planned(TIME.asOfMs - CONFIG.plannedWaitMs + 1)).toEqual([]);
    expect(planned(TIME.asOfMs - CONFIG.plannedWaitMs)).toContain('cluster workers');
  });
  it('a burst is explained by a proof alone, not by a fencing', () => {
    const nodes = [0, 1, 2].map((onsetMs) =>
      aMemory({ isSuspect: true, onsetMs, signMs: null, of: { name: `s${onsetMs}` } }),
    );
    const fencing = { record: { node: { uid: 'uid-s0' }, proof: null } } as unknown as Fencing;
    expect(storms([...nodes, ...some(100, 0)], new Map([['f', fencing]]))).toEqual(['burst 3']);
  });
});

describe('the end of a hold', () => {
  const burst = (nodes: readonly string[], endedMs: number | null): Hold => ({
    kind: 'burst',
    scope: { kind: 'nodes', nodes },
    sinceMs: 0,
    endedMs,
  });
  it('of a burst that ended is not put off by one node that falls silent again', () => {
    const state = {
      nodes: byUid(some(100, 1)),
      livingAs: new Map(),
      fencings: NO_FENCINGS,
      holds: [burst(['uid-w0'], 0)],
    };
    expect(stepStorm(state, { ...TIME, atMs: CONFIG.storm.coolDownMs }, CONFIG).holds).toEqual([]);
  });
  it('under a new leader is that of the same storm: a burst is joined to a burst, and to nothing else', () => {
    const workers = { kind: 'cluster', scope: { kind: 'cluster', group: 'workers' } } as const;
    const own: Hold = { ...workers, sinceMs: 1, endedMs: 2 };
    const kept = { kind: 'burst', scope: { kind: 'nodes', nodes: ['uid-w0'] } } as const;
    expect(adoptHolds([own], [kept], 5)).toEqual([own, { ...kept, sinceMs: 5, endedMs: null }]);
    const held = burst(['uid-w1'], 2);
    expect(adoptHolds([held], [workers], 5)).toEqual([held, { ...workers, sinceMs: 5, endedMs: 5 }]);
    const other = { kind: 'cluster', scope: { kind: 'cluster', group: 'control-plane' } } as const;
    expect(adoptHolds([own], [other], 5)).toEqual([own, { ...other, sinceMs: 5, endedMs: 5 }]);
  });
  it('of one node or domain is that of a person who releases it', () => {
    const memory = aMemory({ of: { labels: { zone: 'a' } } });
    const holds = [burst(['uid-w1'], null)];
    const on = (scope: Release['scope']) => holdOn(memory, { holds, releases: [{ scope, untilMs: 6, by: 'ana' }] }, 5);
    expect(on({ kind: 'node', name: 'w1' })).toBeNull();
    expect(on({ kind: 'domain', label: 'zone', value: 'a' })).toBeNull();
    expect(on({ kind: 'node', name: 'w2' })).toBe(holds[0]);
  });
});
