import { describe, expect, it } from 'vitest';
import { deadNodes, fenceOne, freesAt, recordOf, withHolds } from '../../../src/core/guard/candidates.ts';
import { toBeFreed } from '../../../src/core/guard/freed.ts';
import { atGate, type Look } from '../../../src/core/guard/gates.ts';
import type { PodOnNode } from '../../../src/core/guard/observation.ts';
import type { FencingRecord, StoredRecord } from '../../../src/core/guard/record.ts';
import type { NodeMemory } from '../../../src/core/guard/state.ts';
import { known, unknown } from '../../../src/core/reading.ts';
import { aGuardConfig } from './a-guard-config.ts';
import { aPodOn } from './a-machine.ts';
import { aMemory, heldBy } from './a-node.ts';
import { aFencing, aLook, aRecord, DEAD, dryAt, type Given, LEASE, SINCE, WALL } from './a-turn.ts';

const AT = SINCE + 10_000;
const TWICE_OFF = { said: { 'vm w1': ['off@1000', 'off@7000'] } } as const;
const stored = (id: string, rest: Partial<FencingRecord> = {}): StoredRecord => ({
  id,
  version: '1',
  record: aRecord({ id, phase: 'closed', ...rest }),
});
const only = ({ state }: Look): NodeMemory => {
  const memory = state.nodes.get('uid-w1');
  if (memory === undefined) throw new Error('no node');
  return memory;
};
function begun(given: Given = {}, order: FencingRecord['order'] = null, ageMs: number | null = 190_000): FencingRecord {
  const look = aLook(given);
  return recordOf(atGate(look, only(look), ageMs, null), order);
}
const by = (verb: NonNullable<FencingRecord['order']>['verb']) => ({ verb, by: 'ana', because: '' });

describe('the record with which a fencing begins', () => {
  it('has what it will be done by, and the token since which there was no life', () => {
    const steps = [{ phase: 'decided', wallMs: WALL + AT }] as const;
    const freed = toBeFreed({ pods: [aPodOn()], attachments: [] });
    expect(begun()).toEqual(aRecord({ silentMs: 190_000, steps, freed, onHeard: ['vm w1'] }));
    expect(begun({ memory: { lease: null } }).renewed).toBeNull();
    expect(begun({}, null, null).silentMs).toBe(0);
    expect(begun({ own: { leadership: { isLeader: false } } }).epoch).toBe(0);
    expect(begun({ config: { defaultPlan: null } }).plan).toEqual({ isolation: [], levels: [] });
  });
  it('has the level that says off already, else the first that answers', () => {
    const levels = [['a'], ['b']];
    const config = { defaultPlan: { isolation: [], levels } };
    const level = (a: 'on@9000' | 'unknown@9000', b: readonly ('on@9000' | 'off@1000' | 'off@7000')[]) =>
      begun({ config, said: { a: [a], b } });
    expect(level('on@9000', ['on@9000'])).toMatchObject({ level: 0, why: null });
    expect(level('unknown@9000', ['on@9000'])).toMatchObject({ level: 1, why: null });
    expect(level('unknown@9000', ['off@1000', 'off@7000'])).toMatchObject({ level: 1, why: 'off-already' });
    expect(level('on@9000', ['off@1000', 'off@7000'])).toMatchObject({ level: 0, why: null });
    expect(level('unknown@9000', [])).toMatchObject({ level: 0, why: null });
    expect(begun(TWICE_OFF)).toMatchObject({ level: 0, why: 'off-already' });
  });
  it('for a rehearsal says nothing of that, and switches on in the end', () => {
    const record = begun(
      { ...TWICE_OFF, config: { recovery: { ...aGuardConfig().recovery, powerOn: false } } },
      by('rehearse'),
    );
    expect(record).toMatchObject({ purpose: 'rehearse', why: null, staysOff: null, order: by('rehearse') });
    expect(record.freed).toEqual({ pods: [], volumes: [] });
  });
  it('for a rehearsal has the level that was rehearsed longest ago, of those that answer', () => {
    const config = { defaultPlan: { isolation: [], levels: [['a'], ['b'], ['c']] } };
    const level = (rehearsed: Partial<Record<string, number>>, silent: readonly string[] = []) => {
      const look = aLook({ config, said: Object.fromEntries(['a', 'b', 'c'].map((one) => [one, ['on@9000']])) });
      const devices = new Map(
        [...look.state.devices].map(([key, device]) => {
          const rehearsedWallMs = rehearsed[device.method] ?? null;
          const says = silent.includes(device.method) ? ('unknown' as const) : device.says;
          return [key, { ...device, rehearsedWallMs, says }];
        }),
      );
      return recordOf(atGate({ ...look, state: { ...look.state, devices } }, only(look), 0, null, true), by('rehearse'))
        .level;
    };
    expect([level({}), level({ a: 5 }), level({ a: 5, b: 6 }), level({ a: 7, b: 6, c: 8 })]).toEqual([0, 1, 2, 1]);
    expect([level({ a: 5 }, ['b']), level({ a: 5 }, ['a', 'b', 'c'])]).toEqual([2, 0]);
  });
  it('takes the token later of a node that lives', () => {
    expect(begun({ memory: { isSuspect: false } }, by('fence'))).toMatchObject({ purpose: 'fence', renewed: null });
  });
  it('leaves the machine off where that is configured, or when it is one too many in a day', () => {
    expect(begun({ config: { recovery: { ...aGuardConfig().recovery, powerOn: false } } }).staysOff).toBe(
      'power-on-off',
    );
    const cut = { offSent: ['vm w1'], steps: [{ phase: 'off-sent', wallMs: WALL }] } as const;
    expect(begun({ seen: { records: known([stored('w1-1', cut)]) } }).staysOff).toBeNull();
    expect(begun({ seen: { records: known([stored('w1-1', cut), stored('w1-2', cut)]) } }).staysOff).toBe('loop');
  });
  it('counts on from the records of its node, also those that are not read back yet', () => {
    const records = (...ids: readonly string[]) => ({ seen: { records: known(ids.map((id) => stored(id))) } });
    expect(begun(records('w1-2', 'w1-1', 'w9-7', 'x-w1-8')).id).toBe('w1-3');
    expect(begun(records('w1-2', 'w1-x')).id).toBe('w1-3');
    const fencings = new Map([['w1-5', aFencing(aRecord({ id: 'w1-5' }))]]);
    expect(begun({ ...records('w1-2'), state: { fencings } }).id).toBe('w1-6');
    expect(begun({ seen: { records: unknown('timed-out', '', '') } }).id).toBe('w1-1');
  });
});

describe('the dead nodes', () => {
  const uids = (given: Given) =>
    deadNodes(aLook(given)).map(({ at, closed }) => `${at.memory.object.name} ${closed?.gate ?? 'open'}`);
  it('stand at their gates, unless they are in a fencing or were told in dry run', () => {
    expect(uids({})).toEqual(['w1 open']);
    expect(uids({ witness: 'answers' })).toEqual(['w1 witness']);
    expect(uids({ memory: { overdueMs: null } })).toEqual([]);
    expect(uids({ state: { fencings: new Map([['w1-1', aFencing(aRecord())]]) } })).toEqual([]);
    expect(uids({ state: { dryFenced: new Map([['uid-w1', dryAt(1)]]) } })).toEqual([]);
  });
});

it('a node that was never heard is as old as this process has watched it, once that has settled', () => {
  const age = (settlesMs: number) => {
    const self = { ...aLook().state.self, settlesMs };
    return deadNodes(aLook({ memory: { signMs: null, sinceMs: SINCE }, state: { self } }))[0]?.at.ageMs;
  };
  expect([age(AT), age(AT + 1)]).toEqual([10_000, null]);
});

describe('which of them is first', () => {
  const dead = (name: string, rest: Partial<NodeMemory> = {}) =>
    aMemory({ ...DEAD, ...rest, of: { ...DEAD.of, name } });
  const none = unknown('not-asked', '', '');
  const pods = (of: { readonly [name: string]: readonly PodOnNode[] | null }) =>
    new Map(
      Object.entries(of).map(([name, value]) => [
        `uid-${name}`,
        { witness: none, look: none, members: none, pods: value === null ? none : known({ value, asOfMs: AT }) },
      ]),
    );
  const fenced = (given: Given, ages: { readonly [name: string]: number | null } = {}): string | undefined => {
    const look = aLook({ memory: null, ...given });
    const all = [...look.state.nodes.values()].map((memory) => {
      const age = ages[memory.object.name];
      return { at: atGate(look, memory, age === undefined ? 1_000 : age, null), closed: null };
    });
    const { decisions } = fenceOne({ state: look.state, decisions: [], reasons: [] }, look, all);
    expect(decisions.length).toBeLessThanOrEqual(1);
    return decisions.flatMap((one) => (one.kind === 'fence' ? [one.node.name] : []))[0];
  };
  const two = { others: [dead('b'), dead('a')] };
  const attachment = (node: string) => ({ name: `va-${node}`, node, driver: 'csi', volume: 'pv' });
  it('that with the pod of the highest priority', () => {
    const of = (a: number, b: number) => ({
      seen: { asked: pods({ a: [aPodOn({ priority: a })], b: [aPodOn({ priority: -9 }), aPodOn({ priority: b })] }) },
    });
    expect(fenced({ ...two, ...of(1, 2) })).toBe('b');
    expect(fenced({ ...two, ...of(2, 1) })).toBe('a');
    expect(fenced({ ...two, seen: { asked: pods({ a: null, b: [aPodOn({ priority: -5 })] }) } })).toBe('b');
    expect(fenced({ ...two, seen: { asked: pods({ a: [aPodOn({ priority: -5 })], b: null }) } })).toBe('a');
  });
  it('then that with more volumes, then that silent for longer, then by name', () => {
    const asked = pods({ a: [], b: [] });
    expect(fenced({ ...two, seen: { asked }, attachments: [attachment('b')] })).toBe('b');
    expect(fenced({ ...two, seen: { asked } }, { a: 5, b: 6 })).toBe('b');
    expect(fenced({ ...two, seen: { asked } }, { a: 6, b: 5 })).toBe('a');
    expect(fenced({ ...two, seen: { asked } }, { a: null, b: 5 })).toBe('b');
    expect(fenced({ ...two, seen: { asked } })).toBe('a');
    expect(fenced({ others: [dead('a'), dead('b')], seen: { asked } })).toBe('a');
    expect(fenced({})).toBeUndefined();
    const many = [attachment('a'), attachment('b'), attachment('b')];
    expect(fenced({ ...two, seen: { asked }, attachments: many })).toBe('b');
    expect(fenced({ others: [dead('a'), dead('b')], seen: { asked }, attachments: many })).toBe('b');
  });
  it('of those that nothing holds', () => {
    const look = aLook({ witness: 'answers' });
    const progress = { state: look.state, decisions: [], reasons: [] };
    expect(fenceOne(progress, look, deadNodes(look))).toBe(progress);
  });
  it('awaits that its record is stored, or in dry run is remembered as told', () => {
    const begins = (config: NonNullable<Given['config']>) => {
      const look = aLook({ config });
      return fenceOne({ state: look.state, decisions: [], reasons: [] }, look, deadNodes(look));
    };
    const { state, decisions } = begins({});
    const becomes = begun();
    const pending = { decision: '1', atMs: AT, becomes };
    expect([...state.fencings]).toEqual([
      ['w1-1', aFencing(becomes, { version: null, sinceMs: AT, phaseSinceMs: AT, decidedMs: AT, pending })],
    ]);
    expect(decisions).toMatchObject([{ id: '1', isDry: false, replaces: null, act: null }]);
    const dry = begins({ dryRun: true });
    expect([dry.state.fencings.size, ...dry.state.dryFenced]).toEqual([0, ['uid-w1', dryAt(AT)]]);
    expect(dry.decisions).toMatchObject([{ isDry: true }]);
  });
  it('is told with its gates and what it frees', () => {
    const look = aLook();
    const { decisions } = fenceOne({ state: look.state, decisions: [], reasons: [] }, look, deadNodes(look));
    const [decision] = decisions;
    if (decision?.kind !== 'fence') throw new Error('none');
    expect([decision.gates.length, decision.frees?.pods.length, decision.isDry]).toEqual([9, 1, false]);
    const at = (given: Given) => freesAt(atGate(aLook(given), only(aLook(given)), 1, null));
    expect(at({ attachments: [attachment('w1')] })).toMatchObject({
      pods: [{ name: 'db-0' }],
      attachments: [{ node: 'w1' }],
    });
    expect(at({ pods: null })).toBeNull();
  });
});

describe('what holds a dead node', () => {
  const told = (given: Given, held: { readonly [uid: string]: string } = {}) => {
    const look = aLook({
      ...given,
      state: { held: new Map(Object.entries(held).map(([uid, said]) => [uid, heldBy(said)])) },
    });
    const { decisions, state } = withHolds({ state: look.state, decisions: [], reasons: [] }, look, deadNodes(look));
    const holds = decisions.map((one) =>
      one.kind === 'hold'
        ? `${one.node.name} ${one.gates.filter(({ isOpen }) => !isOpen).map(({ gate }) => gate)} ${one.gates.length}`
        : one.kind,
    );
    return {
      holds,
      held: [...state.held].map(([uid, said]) => [uid, said === null ? '' : `${said.gate} ${said.because}`]),
    };
  };
  const WITNESS = 'witness kubelet-answers';
  it('is told when it is news, with every gate', () => {
    expect(told({ witness: 'answers' })).toEqual({ holds: ['w1 witness 9'], held: [['uid-w1', WITNESS]] });
    expect(told({ witness: 'answers' }, { 'uid-w1': WITNESS })).toEqual({ holds: [], held: [['uid-w1', WITNESS]] });
    expect(told({ witness: 'answers' }, { 'uid-w1': 'worth nothing-to-free' }).holds).toEqual(['w1 witness 9']);
  });
  it('is nothing when its gates are open, or when it is not dead', () => {
    expect(told({}, { 'uid-w1': WITNESS })).toEqual({ holds: [], held: [['uid-w1', '']] });
    expect(told({ memory: { overdueMs: null } }, { 'uid-w1': WITNESS })).toEqual({ holds: [], held: [] });
  });
  it('is not told while what is not known is being asked, for 15 s', () => {
    const asked = { seen: { asked: new Map() } };
    const since = (ms: number) => told({ ...asked, memory: { overdueMs: AT - ms } });
    expect(since(14_999)).toEqual({ holds: [], held: [] });
    expect(since(15_000).holds).toEqual(['w1 witness,worth 9']);
    expect(told({ witness: 'answers', memory: { overdueMs: AT - 14_999 } }).holds).toEqual(['w1 witness 9']);
    const mute = { said: { 'vm w1': ['unknown@9000'] } } as const;
    expect(told({ ...mute, memory: { overdueMs: AT - 14_999 } }).holds).toEqual([]);
    expect(told({ ...mute, memory: { overdueMs: AT - 15_000 } }).holds).toEqual(['w1 device 9']);
  });
  it('is not that its devices were just asked, for as long as an agent may run', () => {
    expect(told({ said: {}, memory: { overdueMs: AT - 54_999 } })).toEqual({ holds: [], held: [] });
    expect(told({ said: {}, memory: { overdueMs: AT - 55_000 } }).holds).toEqual(['w1 device 9']);
  });
  it('of one is not told again for the news of another', () => {
    const other = aMemory({ ...DEAD, of: { ...DEAD.of, name: 'w2' } });
    const { holds } = told({ witness: 'answers', others: [other] }, { 'uid-w1': WITNESS, 'uid-w2': 'x' });
    expect(holds).toEqual(['w2 witness,worth,device 9']);
  });
});

it('a lease that was never renewed is no token', () => {
  expect(begun({ memory: { lease: { ...LEASE, renewed: null } } }).renewed).toBeNull();
});
