import { describe } from 'vitest';
import type { FencingRecord } from '../../../src/core/guard/record.ts';
import { deviceKey, type Hold } from '../../../src/core/guard/state.ts';
import { aMemory } from './a-node.ts';
import { aDevice, dryAt, elected, LEASE, RENEWED, SINCE, turnRows } from './a-turn.ts';

const ON = (ms: number) => ({ said: { 'vm w1': [`on@${ms}`] } }) as const;
const TWICE_OFF = { said: { 'vm w1': ['off@1000', 'off@7000'] } } as const;
const TWO_LEVELS = { plan: { isolation: [], levels: [['bmc w1'], ['pdu w1']] } };
const HEARD = { record: { offHeard: ['vm w1'] } } as const;
/** As an earlier leader kept it. */
const KEPT_ON = { devices: new Map([[deviceKey('uid-w1', 'vm w1'), aDevice('vm w1', [], { says: 'on' })]]) };
const PAIR = { plan: { isolation: [], levels: [['a', 'b']] } };
const OFF_ONCE = { said: { 'vm w1': ['off@8000'] } } as const;
const PAIR_OFF_ONCE = { record: PAIR, said: { a: ['off@8000'], b: ['off@8000'] } } as const;
const PAIR_HALF_ON = { record: PAIR, said: { a: ['off@1000', 'off@8000'], b: ['on@8000'] } } as const;
const FABRIC = { plan: { isolation: ['f', 'g'], levels: [['vm w1']] } };
const STORM: Hold = { kind: 'burst', scope: { kind: 'nodes', nodes: ['uid-w1'] }, sinceMs: 0, endedMs: null };
const stormy = { state: { holds: [STORM] } };
const ordered = (verb: NonNullable<FencingRecord['order']>['verb']) => ({ order: { verb, by: 'ana', because: '' } });
const PAUSED = { state: { paused: { by: 'ana', because: '', wallMs: 0 } } };
const MANY = { state: { dryFenced: new Map([['uid-w9', dryAt(SINCE)]]) } };
const TAKEN = { fencing: { isTakenOver: true } };
const CONTRADICTED = { device: { contradicted: { why: 'life-after-proof', wallMs: 0 } } } as const;
const UNFENCED = { ...ordered('fence'), renewed: null };
const PERSON = { by: 'person', name: 'ana' } as const;
const CONTROL_PLANE = { labels: { 'node-role.kubernetes.io/control-plane': '' } };
const master = (name: string, isReady: boolean) =>
  aMemory({ of: { name, ...CONTROL_PLANE, ...(isReady ? {} : { conditions: [] }) } });

const rows = turnRows();

describe('a fencing that is decided', () => {
  const OFF = '> off-sent level=0 attempt=1 offSent=vm w1 [off vm w1]';
  const GATES = '? vm w1/10000 stuck witness';
  const WAITS = `${GATES} by 900000 (overdue)`;
  const ENDS = (why: string): string => `> aborted why=${why} isAlive=false`;
  rows('decided', {}, [
    ['switches off after a last look', {}, OFF],
    ['takes that look first', { lookMs: null }, '? look'],
    ['and not one from before the decision', { atMs: 1_000, lookMs: -1 }, '? look'],
    ['nor one that is more than 3 s old', { lookMs: 6_999 }, '? look'],
    ['one of 3 s is enough', { lookMs: 7_000 }, OFF],
    ['ends when its Node is gone', { node: null }, '> aborted why=node-deleted'],
    ['ends when its lease was renewed', { memory: RENEWED }, '> aborted why=life isAlive=true'],
    ['ends when it booted', { memory: { of: { bootId: 'boot-2' } } }, '> aborted why=life isAlive=true'],
    ['ends when the look shows another lease', RENEWED, '> aborted why=life isAlive=true'],
    ['ends when the look shows another boot', { node: { bootId: 'boot-2' } }, '> aborted why=life isAlive=true'],
    ['ends when the look shows another Node', { node: { uid: 'other' } }, '> aborted why=node-deleted'],
    ['ends when the look shows no lease', { lease: null }, '> aborted why=no-lease isAlive=false'],
    [
      'ends when the look shows no renewal',
      { lease: { ...LEASE, renewed: null } },
      '> aborted why=no-lease isAlive=false',
    ],
    [
      'ends when no token was known, and nobody ordered it',
      { record: { renewed: null } },
      '> aborted why=life isAlive=true',
    ],
    [
      'nor then, if a person ordered it',
      { lease: { ...LEASE, renewed: null }, record: UNFENCED },
      '> aborted why=no-lease isAlive=false',
    ],
    ['goes on without a token if a person ordered it', { record: { ...ordered('fence'), renewed: null } }, OFF],
    [
      'ends when its Node is not listed any more, and is gone',
      { memory: null, node: null },
      '> aborted why=node-deleted',
    ],
    ['not when a list leaves it out', { memory: null }, '? look'],
    ['nor before that was looked at', { memory: null, lookMs: null }, '? look'],
    [
      'ends when the node has announced a shutdown',
      { memory: { announced: 'agent' } },
      '> aborted why=agent isAlive=false',
    ],
    ['cuts the fabric first', { record: FABRIC }, '> isolating level=0 offSent=f+g [off f+g]'],
    ['sends nothing to a machine that is off already', TWICE_OFF, '> proving level=0'],
    ['nor if it is said once: it asks all once more', { ...PAIR_OFF_ONCE }, '? a+b/6000'],
    ['also in a fencing that a person ordered', { record: ordered('fence'), ...OFF_ONCE }, '? vm w1/6000'],
    ['also where what was said before is too old', { ...OFF_ONCE, record: { why: 'off-already' } }, '? vm w1/6000'],
    ['but not if half of the machine is on', PAIR_HALF_ON, '> off-sent level=0 attempt=1 offSent=a+b [off a+b]'],
    [
      'nor if a device of another level says on',
      { record: TWO_LEVELS, said: { 'bmc w1': ['on@9000'], 'pdu w1': ['off@1000', 'off@7000'] } },
      '> off-sent level=0 attempt=1 offSent=bmc w1 [off bmc w1]',
    ],
    [
      'names the level that says so',
      { record: TWO_LEVELS, said: { 'bmc w1': [], 'pdu w1': ['off@1000', 'off@7000'] } },
      '> proving level=1',
    ],
    [
      'ends when a machine that was off already says on',
      { record: { why: 'off-already' } },
      '> aborted why=not-off-any-more isAlive=false',
    ],
    ['ends when its device is contradicted', CONTRADICTED, '> aborted why=contradicted isAlive=false'],
    ['of a living node is not begun by another process', { ...TAKEN, record: UNFENCED }, '> aborted why=too-late'],
    ['nor does that wait', { ...TAKEN, ...PAUSED, record: UNFENCED }, '> aborted why=too-late'],
    ['of a living node begins within its time', { atMs: 140_000, record: UNFENCED, ...ON(139_000) }, OFF],
    ['or not at all', { atMs: 140_001, record: UNFENCED, ...ON(139_000) }, '> aborted why=too-late'],
    ['ends when its device is silent', { said: { 'vm w1': ['unknown@9000'] } }, '> aborted why=silent isAlive=false'],
    [
      'takes the first level that answers',
      { record: TWO_LEVELS, said: { 'bmc w1': ['unknown@9000'], 'pdu w1': ['on@9000'] } },
      '> off-sent level=1 attempt=1 offSent=pdu w1 [off pdu w1]',
    ],
    ['waits while paused', PAUSED, GATES],
    ['is not held by how many there were', MANY, OFF],
    ['nor because nothing is left to free', { pods: [] }, OFF],
    ['nor by a node that is not dead long enough any more', { memory: { overdueMs: null } }, OFF],
    ['waits for these if another process decided it: how many there were', { ...TAKEN, ...MANY }, WAITS],
    ['what is left to free', { ...TAKEN, pods: [] }, WAITS],
    ['a storm', { ...TAKEN, ...stormy }, WAITS],
    ['its devices', { ...TAKEN, said: {} }, WAITS],
    ['waits for a storm that began meanwhile', stormy, GATES],
    ['does not wait for a storm if a person ordered it', { ...stormy, record: ordered('fence') }, OFF],
    ['never switches off what was switched on', { record: { onSent: ['vm w1'] } }, '> stuck why=on-sent'],
    ['believes its gates for 30 s', { atMs: 30_000, pods: [], ...ON(29_000) }, OFF],
    ['and no longer', { atMs: 30_001, pods: [], ...ON(29_000) }, WAITS],
    [
      'but not that of the kubelet, which is asked again',
      { witness: 'answers' },
      '> aborted why=kubelet-answers isAlive=false',
    ],
    ['nor if another process decided it', { ...TAKEN, witness: 'answers' }, WAITS],
    ['waits for so long', { atMs: 899_999, pods: [], ...ON(899_000) }, WAITS],
    ['and ends by what it waits for', { atMs: 900_000, pods: [], ...ON(899_000) }, ENDS('nothing-to-free')],
    ['or if nothing is heard', { atMs: 900_000, lookMs: null, ...ON(899_000) }, ENDS('not-known-in-time')],
    [
      'counted from its election',
      { ...TAKEN, ...elected(60_000), atMs: 959_999, said: {} },
      WAITS.replace('900000', '960000'),
    ],
    ['and then ends, too', { ...TAKEN, ...elected(60_000), atMs: 960_000, said: {} }, ENDS('api-reads')],
    [
      'and once only, however often it is elected',
      { ...TAKEN, ...elected(700_000, { led: 60_000, lost: 640_000 }), atMs: 1_020_000, said: {} },
      ENDS('api-reads'),
    ],
    [
      'fails if something was sent before',
      { atMs: 900_000, pods: [], ...ON(899_000), record: { retries: 1, offSent: ['vm w1'] } },
      '> failed why=nothing-to-free isAlive=false',
    ],
    [
      'ends when it is not dead for that other process',
      { ...TAKEN, memory: { overdueMs: null } },
      '> aborted why=not-silent-enough isAlive=false',
    ],
    ['does not, if a person ordered it', { ...TAKEN, memory: { overdueMs: null }, record: ordered('fence') }, OFF],
  ]);
  const cp = { config: { controlPlane: 'oneAtATime' } } as const;
  rows('decided', {}, [
    [
      'of a control-plane node waits for the others',
      { ...cp, memory: { of: CONTROL_PLANE }, others: [master('c1', true), master('c2', false)] },
      GATES,
    ],
    [
      'and goes on with all of them',
      { ...cp, memory: { of: CONTROL_PLANE }, others: [master('c1', true), master('c2', true)] },
      OFF,
    ],
    ['of a worker does not wait for them', { others: [master('c1', true), master('c2', false)] }, OFF],
  ]);
});

describe('a fencing that cuts the fabric', () => {
  const sent = { ...FABRIC, offSent: ['f', 'g'] };
  const OFF = '> off-sent level=0 attempt=1 offSent=f+g+vm w1 [off vm w1]';
  const told = (f: readonly ('on@48000' | 'off@48000' | 'on@47999')[]) =>
    ({ ...TAKEN, atMs: 50_000, said: { f, g: ['off@48000'], 'vm w1': ['on@49000'] } }) as const;
  rows('isolating', sent, [
    ['switches off next, however the fabric answered', { fencing: { acted: { kind: 'ran', runs: [] } } }, OFF],
    ['also if nothing is known of the cut', { fencing: { acted: null } }, OFF],
    [
      'cuts again when it was not begun',
      { fencing: { acted: { kind: 'not-begun', detail: '' } } },
      '> isolating offSent=f+g [off f+g]',
    ],
    [
      'undoes it when the node lives',
      { memory: RENEWED },
      '> on-sent why=life isAlive=true onSent=f+g onAttempt=1 [on f+g]',
    ],
    ['taken over waits for the command of the other process', { ...TAKEN, atMs: 47_999 }, 'stays by 48000'],
    ['taken over asks, and for so long', { ...TAKEN, atMs: 48_000 }, '? f+g/6000 by 108000'],
    ['and not only one', told(['on@47999']), '? f+g/6000 by 108000'],
    ['taken over goes on when all is cut', told(['off@48000']), OFF],
    ['taken over sends what is missing', told(['on@48000']), '> isolating offSent=f+g [off f]'],
    ['taken over asks until then', { ...TAKEN, atMs: 104_999 }, '? f+g/6000 by 108000'],
    ['taken over sends all when none answers', { ...TAKEN, atMs: 108_000 }, '> isolating offSent=f+g [off f+g]'],
  ]);
});

describe('a fencing that has sent off', () => {
  const sent = { offSent: ['vm w1'], attempt: 1 };
  rows('off-sent', sent, [
    ['asks when the command has come back', { fencing: { acted: { kind: 'ran', runs: [] } } }, '> proving'],
    [
      'sends it again when it was not begun',
      { fencing: { acted: { kind: 'not-begun', detail: '' } } },
      '> off-sent offSent=vm w1 [off vm w1]',
    ],
    ['sends it when nothing is known of it', {}, '> off-sent offSent=vm w1 [off vm w1]'],
    ['fails when the node lives instead', { memory: RENEWED }, '> failed why=life isAlive=true'],
    ['taken over waits for the command of the other process', { ...TAKEN, atMs: 47_999 }, 'stays by 48000'],
    [
      'taken over fails when the node lives',
      { ...TAKEN, atMs: 48_000, memory: RENEWED },
      '> failed why=life isAlive=true',
    ],
    ['taken over asks first', { ...TAKEN, atMs: 48_000, ...ON(47_999) }, '? vm w1/6000 by 108000'],
    ['asks until then', { ...TAKEN, atMs: 107_999, ...ON(47_999) }, '? vm w1/6000 by 108000'],
    [
      'once it is elected, however long it has known the record',
      { ...TAKEN, atMs: 200_000, said: {}, ...elected(190_000) },
      '? vm w1/6000 by 250000',
    ],
    ['off is off', { ...TAKEN, atMs: 50_000, said: { 'vm w1': ['off@48000'] } }, '> proving'],
    [
      'half of it is not',
      { ...TAKEN, record: { ...PAIR, offSent: ['a', 'b'] }, atMs: 50_000, said: { a: ['off@48000'], b: ['on@48000'] } },
      '> off-sent level=0 attempt=2 offSent=a+b [off a+b]',
    ],
    [
      'on: the command had no effect',
      { ...TAKEN, atMs: 50_000, ...ON(48_000) },
      '> off-sent level=0 attempt=2 offSent=vm w1 [off vm w1]',
    ],
    [
      'also a third time',
      { ...TAKEN, atMs: 50_000, ...ON(48_000), record: { attempt: 2 } },
      '> off-sent level=0 attempt=3 offSent=vm w1 [off vm w1]',
    ],
    ['and no more', { ...TAKEN, atMs: 50_000, ...ON(48_000), record: { attempt: 3 } }, '> failed why=not-proven'],
    [
      'then the next level',
      {
        ...TAKEN,
        atMs: 108_000,
        said: {},
        record: { ...TWO_LEVELS, attempt: 3, offSent: ['bmc w1'] },
      },
      '> off-sent level=1 attempt=1 offSent=bmc w1+pdu w1 [off pdu w1]',
    ],
    [
      'silence: sent again',
      { ...TAKEN, atMs: 108_000, said: {} },
      '> off-sent level=0 attempt=2 offSent=vm w1 [off vm w1]',
    ],
    ['not without a look', { ...TAKEN, atMs: 108_000, said: {}, lookMs: null }, '? look'],
    [
      'nor when the Node is gone',
      { ...TAKEN, atMs: 108_000, said: {}, node: null },
      '> left-off staysOff=node-deleted',
    ],
    ['nor in a storm', { ...TAKEN, atMs: 108_000, said: {}, ...stormy }, '? vm w1/10000 stuck witness'],
  ]);
});

describe('a fencing that asks for its proof', () => {
  const sent = { offSent: ['vm w1'], attempt: 1 };
  const TOLD = '> proven proof={"by":"devices","level":0}';
  const AGAIN = '> off-sent level=0 attempt=2 offSent=vm w1 [off vm w1]';
  rows('proving', sent, [
    ['has it after two rounds and a look', TWICE_OFF, `${TOLD} [tell 7 until 22000]`],
    [
      'is not sent again to a node that lived, by another process',
      { ...TAKEN, ...ON(49_000), atMs: 50_000, record: UNFENCED },
      '> on-sent why=too-late onSent=vm w1 onAttempt=1 [on vm w1] !not-proven says-on',
    ],
    [
      'of a person ends when a device says on after all',
      { ...ON(1), record: { proof: PERSON, offSent: [] } },
      '> aborted why=device-says-on isAlive=false proof=null',
    ],
    [
      'unless that device was overruled',
      { ...ON(1), record: { proof: PERSON, why: 'device-is-wrong' } },
      '> proven proof={"by":"person","name":"ana"} [tell 7 until 25000]',
    ],
    [
      'is not that of a device that is contradicted',
      { ...TWICE_OFF, ...CONTRADICTED, ...HEARD },
      '? vm w1/6000 by 100000',
    ],
    [
      'also one of two',
      {
        record: { ...PAIR, offSent: ['a', 'b'], offHeard: ['a', 'b'] },
        state: {
          devices: new Map(
            [aDevice('a', ['off@1000', 'off@7000']), aDevice('b', ['off@1000', 'off@7000'], CONTRADICTED.device)].map(
              (device) => [deviceKey(device.node, device.method), device],
            ),
          ),
        },
      },
      '? a+b/6000 by 100000',
    ],
    [
      'counts rounds since the off returned',
      { ...TWICE_OFF, ...HEARD, fencing: { offReturnedMs: SINCE + 1_001 } },
      '? vm w1/6000 by 101001',
    ],
    [
      'or since the phase began, if another process sent it',
      { ...TWICE_OFF, fencing: { isTakenOver: true, offReturnedMs: SINCE + 1_001 } },
      `${TOLD} [tell 7 until 22000]`,
    ],
    ['fails when the lease is renewed', { ...TWICE_OFF, memory: RENEWED }, '> failed why=life isAlive=true'],
    ['fails when the look shows no lease', { ...TWICE_OFF, lease: null }, '> failed why=no-lease isAlive=false'],
    [
      'waits for it where it was proven before',
      { ...TWICE_OFF, lease: null, record: { proof: { by: 'devices', level: 0 } } },
      '? look vm w1/6000 (overdue)',
    ],
    ['leaves it off when the Node is gone', { ...TWICE_OFF, node: null }, '> left-off staysOff=node-deleted'],
    [
      'takes the token of one that was alive',
      { ...TWICE_OFF, record: { ...ordered('fence'), renewed: null } },
      '> proving renewed=r1',
    ],
    ['waits for its look', { ...TWICE_OFF, ...HEARD, lookMs: 7_000 }, '? look vm w1/6000'],
    [
      'needs the word of every method',
      {
        record: { ...PAIR, offSent: ['a', 'b'], offHeard: ['a', 'b'] },
        said: { a: ['off@1000', 'off@7000'], b: ['off@7000'] },
      },
      '? a+b/6000 by 100000',
    ],
    ['stores that off was heard', { said: { 'vm w1': ['off@7000'] } }, '> proving offHeard=vm w1'],
    [
      'also of one of two',
      { record: { ...PAIR, offSent: ['a', 'b'], offHeard: ['a'] }, said: { a: ['off@1000'], b: ['off@7000'] } },
      '> proving offHeard=a+b',
    ],
    [
      'but not a process that did not send it, whose time would begin anew',
      { said: { 'vm w1': ['off@7000'] }, fencing: { isTakenOver: true } },
      '? vm w1/6000 by 100000',
    ],
    [
      'off to an earlier leader, and then on: somebody has switched it on, and it is theirs (G4)',
      { ...ON(6_000), ...HEARD, fencing: { isTakenOver: true } },
      '> on-sent why=switched-on onSent=vm w1 onAttempt=1 [on vm w1]',
    ],
    [
      'on that is only known from an earlier leader is not one of now',
      { ...HEARD, state: KEPT_ON, fencing: { isTakenOver: true } },
      '? vm w1/6000 by 100000',
    ],
    ['asks for its rounds, and for so long', { atMs: 99_999, said: {} }, '? vm w1/6000 by 100000'],
    ['sends again when nothing was said', { atMs: 100_000, said: {} }, `${AGAIN} !not-proven silent`],
    ['does not take an on from before the off worked for one', ON(5_999), '? vm w1/6000 by 100000'],
    ['sends again when on is said', ON(6_000), `${AGAIN} !not-proven says-on`],
    ['tells nothing while it waits for the look before that', { ...ON(6_000), lookMs: null }, '? look'],
    [
      'on of one of two is enough',
      { record: { ...PAIR, offSent: ['a', 'b'] }, said: { a: ['off@7000'], b: ['on@7000'] } },
      '> off-sent level=0 attempt=2 offSent=a+b [off a+b] !not-proven says-on',
    ],
    [
      'off and then on: somebody has switched it on, and it is theirs (G4)',
      { said: { 'vm w1': ['off@1000', 'on@7000'] } },
      '> on-sent why=switched-on onSent=vm w1 onAttempt=1 [on vm w1]',
    ],
    [
      'also one of two',
      {
        record: { ...PAIR, offSent: ['a', 'b'] },
        said: { a: ['on@1000', 'off@7000'], b: ['on@500', 'off@1000', 'on@7000'] },
      },
      '> on-sent why=switched-on onSent=a+b onAttempt=1 [on a+b]',
    ],
    [
      'an off from before counts for nothing',
      { said: { 'vm w1': ['off@-1', 'on@7000'] } },
      `${AGAIN} !not-proven says-on`,
    ],
    [
      'one of that moment does',
      { said: { 'vm w1': ['off@0', 'on@7000'] } },
      '> on-sent why=switched-on onSent=vm w1 onAttempt=1 [on vm w1]',
    ],
    [
      'nothing was sent: it ends',
      { said: { 'vm w1': ['off@1000', 'on@7000'] }, record: { offSent: [] } },
      '> aborted why=not-off-any-more isAlive=false !not-proven says-on',
    ],
    [
      'fails after two attempts',
      { ...ON(6_000), record: { attempt: 2 } },
      '> failed why=not-proven !not-proven says-on',
    ],
    [
      'then the next level',
      { record: { ...TWO_LEVELS, attempt: 2, offSent: ['bmc w1'] }, said: { 'bmc w1': ['on@6000'] } },
      '> off-sent level=1 attempt=1 offSent=bmc w1+pdu w1 [off pdu w1] !not-proven says-on',
    ],
  ]);
});

describe('a fencing that is proven', () => {
  const sent = { offSent: ['vm w1'], attempt: 1, proof: { by: 'devices', level: 0 } } as const;
  const TOLD = '> proven proof={"by":"devices","level":0} [tell 7 until 22000]';
  const UNTOLD = '> untainting isAlive=true [untell]';
  const conflict = { acted: { kind: 'failed', why: 'conflict', detail: '' } } as const;
  rows('proven', sent, [
    ['is tainted when the patch was taken', { ...TWICE_OFF, fencing: { acted: { kind: 'patched' } } }, '> tainted'],
    ['patches again on fresh facts', { ...TWICE_OFF, fencing: conflict }, TOLD],
    [
      'removes what it may have written when the node lives',
      { ...TWICE_OFF, fencing: conflict, memory: RENEWED },
      UNTOLD,
    ],
    ['also by the look', { ...TWICE_OFF, fencing: conflict, lease: { ...LEASE, renewed: 'r2' } }, UNTOLD],
    ['asks again for a lease that is gone', { ...TWICE_OFF, fencing: conflict, lease: null }, '? look vm w1/6000'],
    [
      'leaves it off when the Node is gone',
      { ...TWICE_OFF, fencing: conflict, node: null },
      '> left-off staysOff=node-deleted',
    ],
    ['waits for its look', { ...TWICE_OFF, fencing: conflict, lookMs: 7_000 }, '? look vm w1/6000'],
    ['removes it when a device says on', { ...ON(1_000), fencing: conflict }, UNTOLD],
    ['asks when a device says nothing', { said: {}, fencing: conflict }, '? vm w1/6000'],
    [
      'takes rounds since the off returned',
      { said: { 'vm w1': ['off@-20000', 'off@-3000'] }, fencing: { ...conflict, offReturnedMs: SINCE - 20_000 } },
      '> proven proof={"by":"devices","level":0} [tell 7 until 12000]',
    ],
    [
      'and none from before that',
      { said: { 'vm w1': ['off@-20001', 'off@-3000'] }, fencing: { ...conflict, offReturnedMs: SINCE - 20_000 } },
      '? vm w1/6000',
    ],
    [
      'or those of the last 30 s, when none was sent',
      { said: { 'vm w1': ['off@-30000', 'off@-3000'] }, fencing: conflict },
      '> proven proof={"by":"devices","level":0} [tell 7 until 12000]',
    ],
    ['not older ones', { said: { 'vm w1': ['off@-30001', 'off@-3000'] }, fencing: conflict }, '? vm w1/6000'],
    [
      'taken over takes only its own',
      { said: { 'vm w1': ['off@-6000', 'off@3000'] }, fencing: { isTakenOver: true, offReturnedMs: SINCE - 9_000 } },
      '? vm w1/6000',
    ],
    [
      'takes no look from before',
      { ...TWICE_OFF, fencing: conflict, record: { proof: PERSON }, lookMs: -1 },
      '? look vm w1/6000',
    ],
    ['has no token yet', { ...TWICE_OFF, fencing: conflict, record: { ...ordered('fence'), renewed: null } }, 'stays'],
  ]);
});
