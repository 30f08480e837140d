import { describe, expect, it } from 'vitest';
import type { LeaseView } from '../../../src/core/guard/observation.ts';
import { aGuardConfig } from './a-guard-config.ts';
import { aMachine, aPodOn } from './a-machine.ts';
import { aMemory } from './a-node.ts';
import { back, type Given, LEASE, SINCE, turnRows, WALL } from './a-turn.ts';
import { aWorld } from './a-world.ts';

const MINUTE = 60_000;
const DEVICES = { proof: { by: 'devices', level: 0 } } as const;
const PERSON = { proof: { by: 'person', name: 'ana' } } as const;
const ON = (ms: number) => ({ said: { 'vm w1': [`on@${ms}`] } }) as const;
const TWICE_OFF = { said: { 'vm w1': ['off@1000', 'off@7000'] } } as const;
const TWO_LEVELS = { plan: { isolation: [], levels: [['bmc w1'], ['pdu w1']] } };
const CONTRADICTED = { device: { contradicted: { why: 'life-after-proof', wallMs: 0 } } } as const;
const TAKEN = { fencing: { isTakenOver: true } };
const REHEARSED = { order: { verb: 'rehearse', by: 'ana', because: '' }, purpose: 'rehearse', renewed: null } as const;
const IDLE = { memory: { of: { isUnschedulable: true } }, pods: [aPodOn({ ownerKind: 'DaemonSet' })] } as const;

const rows = turnRows();

describe('a rehearsal that is decided', () => {
  const OFF = '> off-sent level=0 attempt=1 offSent=vm w1 [off vm w1]';
  rows('decided', {}, [
    ['cuts also a machine that says off', { ...TWICE_OFF, ...IDLE, record: REHEARSED }, OFF],
    ['only a node that is idle', { ...IDLE, pods: [aPodOn()], record: REHEARSED }, '> aborted why=not-drained'],
    ['and only if it is cordoned', { ...IDLE, memory: {}, record: REHEARSED }, '> aborted why=not-cordoned'],
    ['as it is known now', { ...IDLE, pods: null, record: REHEARSED }, '? vm w1/10000 stuck witness'],
    [
      'rehearses the level that was chosen, and no other one',
      {
        ...IDLE,
        record: { ...REHEARSED, ...TWO_LEVELS, level: 1 },
        said: { 'bmc w1': ['on@9000'], 'pdu w1': ['on@9000'] },
      },
      '> off-sent level=1 attempt=1 offSent=pdu w1 [off pdu w1]',
    ],
    [
      'or nothing',
      {
        ...IDLE,
        record: { ...REHEARSED, ...TWO_LEVELS, level: 1 },
        said: { 'bmc w1': ['on@9000'], 'pdu w1': ['unknown@9000'] },
      },
      '> aborted why=silent isAlive=false',
    ],
    [
      'cuts by a contradicted device, which makes it believed again',
      { ...CONTRADICTED, ...IDLE, record: REHEARSED },
      OFF,
    ],
    [
      'cuts a node that goes on to live',
      { ...IDLE, memory: { ...IDLE.memory, signMs: SINCE + 1 }, record: REHEARSED },
      OFF,
    ],
    ['is not begun by another process', { ...TAKEN, ...IDLE, record: REHEARSED }, '> aborted why=too-late'],
  ]);
});

describe('a rehearsal that has cut the fabric', () => {
  rows('isolating', { offSent: ['f'], plan: { isolation: ['f'], levels: [['vm w1']] } }, [
    [
      'cuts the power, whatever its kubelet said before',
      { ...IDLE, witness: 'answers', witnessMs: -1, record: REHEARSED },
      '> off-sent level=0 attempt=1 offSent=f+vm w1 [off vm w1]',
    ],
  ]);
});

describe('a rehearsal that asks for its proof', () => {
  const TOLD = '> proven proof={"by":"devices","level":0}';
  rows('proving', { offSent: ['vm w1'], attempt: 1 }, [
    ['writes nothing', { ...TWICE_OFF, record: { ...REHEARSED, renewed: 'r1' } }, TOLD],
    [
      'takes it from a device that is contradicted',
      { ...TWICE_OFF, ...CONTRADICTED, record: { ...REHEARSED, renewed: 'r1' } },
      TOLD,
    ],
    [
      'is not tried twice',
      { ...ON(6_000), record: REHEARSED },
      '> on-sent why=not-proven onSent=vm w1 onAttempt=1 [on vm w1] !not-proven says-on',
    ],
  ]);
});

describe('a rehearsal that is proven', () => {
  rows('proven', { offSent: ['vm w1'], attempt: 1, ...DEVICES }, [
    [
      'is switched on',
      { record: { purpose: 'rehearse' }, fencing: { acted: { kind: 'patched' } } },
      '> on-sent onSent=vm w1 onAttempt=1 [on vm w1]',
    ],
  ]);
});

describe('a rehearsal that failed', () => {
  rows('failed', { offSent: ['vm w1'] }, [
    [
      'is switched on',
      { record: { purpose: 'rehearse' } },
      '> on-sent why=not-proven onSent=vm w1 onAttempt=1 [on vm w1]',
    ],
  ]);
});

describe('a rehearsal whose machine boots', () => {
  const rehearsal = { offSent: ['vm w1'], ...DEVICES, onSent: ['vm w1'], purpose: 'rehearse' } as const;
  const other = (disturbedMs: number | null, name = 'w2') => aMemory({ of: { name }, disturbedMs });
  /** Its own fencing was over so long after this one was decided. */
  const fenced = (overMs: number, rest: Parameters<typeof aMemory>[0] = {}, disturbedMs = SINCE - 110_000) =>
    aMemory({ of: { name: 'w2' }, disturbedMs, explained: { disturbedMs, wallMs: WALL + overMs }, ...rest });
  const at = (given: Given = {}): Given => ({ atMs: MINUTE, ...back(0), ...given });
  /** One that was heard for the last time so long after the off began, which took 38 s. */
  const heard = (ms: number, lease: LeaseView | null = LEASE) =>
    aMemory({ of: { name: 'w2' }, signMs: SINCE - 100_000 + ms, lease });
  const gone = (memory: ReturnType<typeof aMemory>, ms: number) =>
    at({ fencing: { ...back(0).fencing, departed: [{ memory, atMs: SINCE + ms }] } });
  const LONG = { ...LEASE, durationMs: 400_000 };
  const DONE = '> closed why=rehearsed [clear] (rehearsed vm w1)';
  turnRows({ said: { 'vm w1': ['off@1'] } })('booting', rehearsal, [
    ['shows that its methods cut it', at(), DONE],
    [
      'unless another node was silent or booted with it, also if it is back',
      at({ others: [other(SINCE - 130_000)] }),
      '> closed why=not-alone [clear]',
    ],
    [
      'and counts from the begin of the off, which took 38 s',
      at({ others: [other(SINCE - 105_000)] }),
      '> closed why=not-alone [clear]',
    ],
    ['long before does not count', at({ others: [other(SINCE - 130_001), other(null, 'w3')] }), DONE],
    ['nor that of one whose own fencing was over before', at({ others: [fenced(0)] }), DONE],
    [
      'unless it was silent or has booted since',
      at({ others: [fenced(0, { disturbedMs: SINCE - 109_999 })] }),
      '> closed why=not-alone [clear]',
    ],
    [
      'one whose own fencing was over later leaves it open',
      at({ others: [fenced(1), fenced(0, { of: { name: 'w3' } })] }),
      '> closed why=beside-another [clear]',
    ],
    [
      'and another one that was disturbed decides it',
      at({ others: [fenced(1), other(SINCE - 100_000, 'w3')] }),
      '> closed why=not-alone [clear]',
    ],
    [
      'waits for a sign of all others that is surely of after it',
      at({ others: [heard(57_999, LONG)] }),
      'stays by 178000',
    ],
    ['and has it', at({ others: [heard(58_000, LONG)] }), DONE],
    [
      'and not for one that was silent before',
      at({ others: [heard(-120_001, LONG), heard(-30_001), heard(-320_001, null)] }),
      DONE,
    ],
    [
      'one that misses two renewals was cut with it, however long it takes to be suspect',
      at({ atMs: 178_000, others: [heard(57_999, LONG)] }),
      '> closed why=not-alone [clear]',
    ],
    [
      'of one without a lease that is not known',
      at({ atMs: 600_000, others: [heard(-300_000, null)] }),
      '> closed why=not-known [clear]',
    ],
    [
      'nor of one that this process never heard',
      at({
        atMs: 178_000,
        others: [aMemory({ of: { name: 'w2' }, signMs: null, sinceMs: SINCE - 200_000, lease: LONG })],
      }),
      '> closed why=not-known [clear]',
    ],
    ['nor of one whose Node was deleted since', gone(heard(57_999), -50_000), '> closed why=not-known [clear]'],
    ['unless it was heard after it', gone(heard(58_000), -50_000), DONE],
    ['or was deleted before', gone(heard(-10_000), -100_001), DONE],
    [
      'one that had fallen silent before it was deleted was cut with it',
      gone(other(SINCE - 105_000), -50_000),
      '> closed why=not-alone [clear]',
    ],
    ['nor its own silence', at({ memory: { ...back(0).memory, disturbedMs: SINCE - 90_000 } }), DONE],
    ['unless it was not proven', at({ record: { proof: null, offHeard: ['vm w1'] } }), '> closed [clear]'],
    ['or a person proved it', at({ record: PERSON }), '> closed [clear]'],
    [
      'unless this process did not watch it',
      at({ fencing: { readyMs: SINCE, offReturnedMs: SINCE - 62_000 } }),
      '> closed why=not-watched [clear]',
    ],
    [
      'or not without a gap',
      at({ memory: { ...back(0).memory, sinceMs: SINCE - 99_999 } }),
      '> closed why=not-watched [clear]',
    ],
  ]);
});

describe('a rehearsal of a machine whose device cuts another one with it', () => {
  it.each([
    ['stays', false, 'not-alone'],
    ['is deleted at once, as a cloud does with what is off', true, 'not-known'],
  ])('shows nothing, if the Node of that one %s', (_, isDeleted, why) => {
    const idle = { isUnschedulable: true, pods: [], attachments: [] };
    const world = aWorld([aMachine('w1', idle), aMachine('w2'), aMachine('w3')], aGuardConfig()).run(5 * MINUTE);
    const node = { name: 'w1', uid: 'uid-w1' };
    world.orders = [{ id: '1', verb: 'rehearse', node, to: world.writer(), by: 'ana', because: '' }];
    for (let waited = 0; world.machine('w1').isOn && waited < MINUTE; waited += 500) world.run(500);
    Object.assign(world.machine('w2'), { isOn: false, isHeard: false, isDeleted });
    world.run(20 * MINUTE);
    const rehearsals = [...world.records.values()].filter(({ record }) => record.purpose === 'rehearse');
    expect(rehearsals.map(({ record }) => [record.phase, record.why])).toEqual([['closed', why]]);
  });
});

describe('a rehearsal of a machine that stays away while other nodes come and go', () => {
  it.each([
    ['alive', true, 0, 'rehearsed'],
    ['silent', false, 1, 'not-alone'],
  ])('remembers of those that were deleted only what may speak against it: %s', (_, isHeard, most, why) => {
    const idle = { isUnschedulable: true, pods: [], attachments: [] };
    const names = Array.from({ length: 15 }, (_, i) => `w${i + 2}`);
    const machines = [aMachine('w1', idle), ...names.map((name) => aMachine(name, { pods: [] }))];
    const world = aWorld(machines, aGuardConfig()).run(5 * MINUTE);
    const w1 = world.machine('w1');
    const node = { name: 'w1', uid: 'uid-w1' };
    world.orders = [{ id: '1', verb: 'rehearse', node, to: world.writer(), by: 'ana', because: '' }];
    for (let waited = 0; w1.isOn && waited < MINUTE; waited += 500) world.run(500);
    w1.broken.add('vm w1');
    world.run(10 * MINUTE);
    expect(world.phaseOf('w1')).toBe('not-back');
    for (const name of names.slice(0, 10)) {
      Object.assign(world.machine(name), { isHeard });
      world.run(2 * MINUTE);
      Object.assign(world.machine(name), { isDeleted: true });
      world.run(MINUTE);
    }
    expect([...world.state().fencings.values()][0]?.departed.length).toBe(most);
    Object.assign(w1, { isOn: true, isHeard: true, boots: 2 });
    expect([...world.run(5 * MINUTE).records.values()].map(({ record }) => record.why)).toEqual([why]);
  });
});
