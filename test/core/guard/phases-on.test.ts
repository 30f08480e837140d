import { describe, expect, it } from 'vitest';
import type { FencingRecord } from '../../../src/core/guard/record.ts';
import { aGuardConfig } from './a-guard-config.ts';
import { aPodOn } from './a-machine.ts';
import { aMemory } from './a-node.ts';
import { back, elected, type Given, RENEWED, SINCE, sayTurn, turnRows } from './a-turn.ts';

const MINUTE = 60_000;
const DEVICES = { proof: { by: 'devices', level: 0 } } as const;
const PERSON = { proof: { by: 'person', name: 'ana' } } as const;
const FREE = { pods: [], attachments: [] };
const GONE = '> left-off staysOff=node-deleted';
const ON = '> on-sent onSent=vm w1 onAttempt=1 [on vm w1]';
const SENT = { offSent: ['vm w1'], ...DEVICES };
const PAIR = { plan: { isolation: [], levels: [['a', 'b']] }, offSent: ['a', 'b'] };
const TAKEN = { fencing: { isTakenOver: true } } as const;
const patched = { fencing: { acted: { kind: 'patched' } } } as const;
const attachment = { name: 'va', node: 'w1', driver: 'csi', volume: 'pv' };
const WATCH = '? vm w1/10000 stuck by 600000'; /** Its device says off. */
const FOREIGN = { key: 'node.kubernetes.io/out-of-service', value: 'nodeshutdown', effect: 'NoExecute' };
const rows = turnRows({ said: { 'vm w1': ['off@1'] } });

describe('a fencing whose node is tainted', () => {
  const LIVES = '> untainting isAlive=true [untell] !life-after-proof';
  const LOST = '> failed why=proof-lost [untell] !not-proven proof-lost';
  const OFF_1000 = { 'vm w1': ['off@1000'] } as const;
  const OFF_LATE = { 'vm w1': ['off@590000'] } as const;
  const off = { recovery: { ...aGuardConfig().recovery, powerOn: false } };
  rows('tainted', SENT, [
    ['watches its pods, attachments and power', {}, WATCH],
    ['and its attachments alone', { pods: [], attachments: [attachment] }, WATCH],
    ['and does not know of either at first', { pods: null }, WATCH],
    [
      'does not count pods that stay',
      { pods: [aPodOn({ toleratesTaint: true })], attachments: [] },
      '> untainting [untell]',
    ],
    ['nor attachments of others', { pods: [], attachments: [{ ...attachment, node: 'w2' }] }, '> untainting [untell]'],
    ['is drained, and the taint has done its work', FREE, '> untainting [untell]'],
    ['but not by what was read before it stood', { ...FREE, atMs: -1 }, '? vm w1/10000 stuck by 600000'],
    ['the taint goes when the lease is renewed', { memory: RENEWED }, LIVES],
    ['when it boots', { memory: { of: { bootId: 'boot-2' } } }, LIVES],
    ['when its device says on', { said: { 'vm w1': ['on@1'] } }, LIVES],
    ['when one of its devices does', { record: PAIR, said: { a: ['on@1'], b: ['off@1'] } }, LIVES],
    [
      'watches the devices that proved it, not others',
      {
        record: { plan: { isolation: [], levels: [['vm w1'], ['pdu']] } },
        said: { 'vm w1': ['off@1'], pdu: ['on@1'] },
      },
      WATCH,
    ],
    ['not for an on from before', { said: { 'vm w1': ['on@-501'] } }, WATCH],
    ['but for one that was asked before and came in this phase', { said: { 'vm w1': ['on@-500'] } }, LIVES],
    ['nor for silence', { said: { 'vm w1': ['unknown@1'] } }, WATCH],
    ['also if a person was believed', { record: PERSON, said: { 'vm w1': ['on@1'] } }, LIVES],
    [
      'whichever device says it',
      { record: { ...PERSON, plan: { isolation: [], levels: [['a'], ['b']] } }, said: { a: ['off@1'], b: ['on@1'] } },
      LIVES,
    ],
    [
      'but one that the person overruled',
      { record: { ...PERSON, why: 'device-is-wrong' }, said: { 'vm w1': ['on@1'] } },
      '? stuck by 600000',
    ],
    [
      'a standby that is elected asks, however long it has known the record',
      { ...TAKEN, ...elected(300_000), atMs: 354_999, said: { 'vm w1': ['unknown@310000'] } },
      WATCH.replace('600000', '900000'),
    ],
    ['but not for ever', { ...TAKEN, ...elected(300_000), atMs: 355_000, said: {} }, LOST],
    [
      'one that led before asks anew when it is elected again',
      { ...elected(300_000), atMs: 354_999, said: { 'vm w1': ['off@1000', 'off@50000'] } },
      WATCH.replace('600000', '900000'),
    ],
    [
      'for no longer either',
      { ...elected(300_000), atMs: 355_000, said: { 'vm w1': ['off@1000', 'off@50000'] } },
      LOST,
    ],
    [
      'nor anew for each election: it was silent in an earlier one',
      { ...TAKEN, ...elected(300_000), atMs: 300_000, said: { 'vm w1': ['off@100000', 'unknown@200000'] } },
      LOST,
    ],
    [
      'nor if one of its devices was',
      { ...elected(300_000), atMs: 300_000, record: PAIR, said: { a: ['off@200000'], b: ['off@1', 'unknown@200000'] } },
      LOST,
    ],
    ['waits until its time', { atMs: 599_999, said: OFF_LATE }, WATCH],
    [
      'then goes on if it is to be switched on',
      { atMs: 600_000, said: OFF_LATE },
      '> untainting why=not-drained [untell] !not-drained',
    ],
    [
      'and says so',
      { atMs: 600_000, said: OFF_LATE, pods: null },
      '> untainting why=not-drained [untell] !not-drained',
    ],
    [
      'else stays tainted, overdue',
      { atMs: 600_000, said: OFF_LATE, config: off, record: { staysOff: 'power-on-off' } },
      '? vm w1/10000 stuck !not-drained (overdue)',
    ],
    ['also for a person', { atMs: 600_000, said: {}, record: PERSON }, '? vm w1/10000 stuck !not-drained (overdue)'],
    [
      'also if nothing was switched off',
      { atMs: 600_000, said: OFF_LATE, record: { offSent: [] } },
      '? vm w1/10000 stuck !not-drained (overdue)',
    ],
    [
      'not if a person has it switched on',
      { atMs: 600_000, said: {}, record: { ...PERSON, why: 'power-on' } },
      '> untainting why=not-drained [untell] !not-drained',
    ],
    ['ends when the node is gone', { memory: null, node: null }, GONE],
    ['believes the last off of its device for one watch and one deadline', { atMs: 55_999, said: OFF_1000 }, WATCH],
    ['and no longer: the taint stands while off is proven', { atMs: 56_000, said: OFF_1000 }, LOST],
    ['silence since then is no off', { atMs: 56_000, said: { 'vm w1': ['off@1000', 'unknown@46000'] } }, LOST],
    ['one of two is not enough', { record: PAIR, atMs: 57_000, said: { a: ['off@1000'], b: ['off@50000'] } }, LOST],
    ['whoever takes it over asks first', { atMs: 54_999, said: {}, fencing: { isTakenOver: true } }, WATCH],
    ['what is free needs no off', { ...FREE, atMs: 56_000, said: OFF_1000 }, '> untainting [untell]'],
    ['the word of a person lasts', { record: PERSON, atMs: 500_000, said: {} }, WATCH],
  ]);
});

describe('a fencing that removes its taint', () => {
  rows('untainting', SENT, [
    ['tries again until it is gone', {}, '> untainting [untell]'],
    ['waits for what Kubernetes still does', { ...patched, atMs: 24_999 }, 'stays by 25000'],
    ['then switches on', { ...patched, atMs: 25_000 }, ON],
    [
      'but not under the taint of somebody else, which only they remove',
      { ...patched, atMs: 9_000_000, memory: { of: { taints: [FOREIGN] } } },
      'stays (overdue)',
    ],
    [
      'though it leaves off what stays off',
      { ...patched, atMs: 25_000, memory: { of: { taints: [FOREIGN] } }, record: { staysOff: 'loop' } },
      '> left-off staysOff=loop',
    ],
    ['or leaves it off', { ...patched, atMs: 25_000, record: { staysOff: 'loop' } }, '> left-off staysOff=loop'],
    ['or leaves it to the person', { ...patched, atMs: 25_000, record: PERSON }, '> left-off staysOff=person'],
    [
      'or to whom it was off',
      { ...patched, atMs: 25_000, record: { offSent: [] } },
      '> left-off staysOff=nothing-sent',
    ],
    [
      'switches on what is not its own for a person',
      { ...patched, atMs: 25_000, record: { offSent: [], why: 'power-on' } },
      ON,
    ],
    [
      'waits for nothing when it lives',
      { ...patched, memory: RENEWED },
      '> on-sent isAlive=true onSent=vm w1 onAttempt=1 [on vm w1]',
    ],
    [
      'as it was seen before',
      { ...patched, record: { isAlive: true } },
      '> on-sent isAlive=true onSent=vm w1 onAttempt=1 [on vm w1]',
    ],
    [
      'and switches nothing on twice',
      { ...patched, record: { isAlive: true, onSent: ['vm w1'] } },
      '> booting isAlive=true',
    ],
    ['ends when the node is gone', { memory: null, node: null }, GONE],
  ]);
});

describe('a fencing that has sent on', () => {
  const sent = { ...SENT, onSent: ['vm w1'], onAttempt: 1, plan: { isolation: ['f'], levels: [['vm w1'], ['pdu']] } };
  const said = (text: 'on' | 'off' | 'unknown', ms = 1) => ({ said: { 'vm w1': [`${text}@${ms}`] } }) as const;
  const AGAIN = '> on-sent onSent=vm w1 onAttempt=2 [on vm w1]';
  rows('on-sent', sent, [
    ['taken over waits for the predecessor’s command', { ...TAKEN, atMs: 47_999, said: {} }, 'stays by 48000'],
    [
      'the steps of which follow each other',
      { ...TAKEN, atMs: 90_999, said: {}, record: { onSent: ['f', 'vm w1'] } },
      'stays by 91000',
    ],
    ['boots when its device says on', said('on'), '> booting'],
    ['or when it lives', { memory: RENEWED, said: {} }, '> booting'],
    ['asks its power methods alone, those that got an on', { said: {} }, '? vm w1/6000 by 600000'],
    ['does not believe an earlier answer', said('on', -1), '? vm w1/6000 by 600000'],
    ['waits a minute for an off to change', { atMs: 59_999, ...said('off', 9_000) }, '? vm w1/6000 by 60000'],
    ['then sends it again', { atMs: 60_000, ...said('off', 9_000) }, AGAIN],
    ['but not for one that says on', { atMs: 60_000, ...said('on', 9_000) }, '> booting'],
    ['so often', { atMs: 60_000, ...said('off', 9_000), record: { onAttempt: 3 } }, '> not-back why=on-refused'],
    [
      'one of two that says off is enough',
      { atMs: 60_000, record: { ...PAIR, onSent: ['a', 'b'] }, said: { a: ['on@9000'], b: ['off@9000'] } },
      '> on-sent onSent=a+b onAttempt=2 [on a+b]',
    ],
    ['waits for a device that is silent', { atMs: 599_999, ...said('unknown') }, '? vm w1/6000 by 600000'],
    ['and no longer', { atMs: 600_000, ...said('unknown') }, '> not-back why=power-unknown'],
    ['sends it again when it was not begun', { fencing: { acted: { kind: 'not-begun', detail: '' } } }, AGAIN],
    [
      'sends it when another process was kept from beginning it',
      { ...TAKEN, atMs: 48_000, record: { onSent: [], onAttempt: 0 } },
      '> on-sent onSent=vm w1 onAttempt=1 [on vm w1]',
    ],
    [
      'taken over waits for the command of the other process',
      { ...TAKEN, atMs: 47_999, ...said('on') },
      'stays by 48000',
    ],
    ['taken over asks first', { ...TAKEN, atMs: 48_000, ...said('on', 47_999) }, '? vm w1/6000 by 648000'],
    ['taken over sends at once what is off', { ...TAKEN, atMs: 49_000, ...said('off', 48_000) }, AGAIN],
    ['ends when the node is gone', { memory: null, node: null }, GONE],
  ]);
});

describe('a fencing that has given storage back', () => {
  const both = ['f', 'vm w1'];
  const cut = { ...SENT, offSent: both, onSent: both, onAttempt: 1, plan: { isolation: ['f'], levels: [['vm w1']] } };
  const fabric = (text: string) => ({ said: { f: [text], 'vm w1': ['on@9000'] } }) as Given;
  const ON_BOTH = (attempt: number) => `> on-sent onSent=f+vm w1 onAttempt=${attempt} [on f, vm w1]`;
  const ALONE = { offSent: ['f'], onSent: ['f'], proof: null, isAlive: true };
  const UNCONFIGURED = { config: { plans: { w1: { isolation: ['other'], levels: [['vm w1']] } } } };
  rows('on-sent', cut, [
    ['asks the fabric, too', { said: { 'vm w1': ['on@9000'] } }, '? f+vm w1/6000 by 600000'],
    ['boots when both say on', fabric('on@9000'), '> booting'],
    [
      'not while the fabric says off, however long the machine lives',
      { ...fabric('off@9000'), memory: RENEWED },
      '? f/6000 by 60000',
    ],
    ['then everything is sent again', { atMs: 60_000, memory: RENEWED, ...fabric('off@9000') }, ON_BOTH(2)],
    ['so often', { atMs: 60_000, ...fabric('off@9000'), record: { onAttempt: 3 } }, '> not-back why=on-refused'],
    ['nor while it is silent', { atMs: 599_999, memory: RENEWED, ...fabric('unknown@9000') }, '? f/6000 by 600000'],
    ['for so long', { atMs: 600_000, memory: RENEWED, ...fabric('unknown@9000') }, '> not-back why=power-unknown'],
    ['nor if nothing else was cut', { record: ALONE, said: {} }, '? f/6000 by 600000'],
    ['nor if its devices are others by now', { record: { why: 'devices-changed' }, said: {} }, '? f/6000 by 600000'],
    ['but of a fabric that left the configuration', { ...UNCONFIGURED, said: { 'vm w1': ['on@9000'] } }, '> booting'],
  ]);
  rows('not-back', cut, [
    ['is not closed while the fabric is silent', { atMs: MINUTE, ...back(0), said: {} }, '? f/60000'],
    ['nor by what it said before', { atMs: MINUTE, ...back(0), ...fabric('on@-1') }, '? f/60000'],
    ['nor while it says off, and that is sent again', { atMs: MINUTE, ...back(0), ...fabric('off@9000') }, ON_BOTH(2)],
    ['so often', { atMs: MINUTE, ...back(0), ...fabric('off@9000'), record: { onAttempt: 3 } }, '? f/60000'],
    ['is closed when it says on', { atMs: MINUTE, ...back(0), ...fabric('on@9000') }, '> closed [clear]'],
    ['or left the configuration', { atMs: MINUTE, ...back(0), ...UNCONFIGURED, said: {} }, '> closed [clear]'],
  ]);
});

describe('a fencing whose machine boots', () => {
  const sent = { ...SENT, onSent: ['vm w1'] };
  rows('booting', sent, [
    ['waits', { atMs: 599_999 }, 'stays by 600000'],
    ['waits until it is Ready, though it lives', { atMs: 599_999, memory: RENEWED }, 'stays by 600000'],
    ['and no longer', { atMs: 600_000 }, '> not-back why=not-ready'],
    ['is back when it was Ready for a minute', { atMs: MINUTE + 5, ...back(5) }, '> closed [clear]'],
    ['not before', { atMs: MINUTE + 4, ...back(5) }, 'stays by 60005'],
    [
      'with the same boot it never lost its power: its device is not believed',
      { atMs: MINUTE, ...back(0, 'boot-1') },
      '> closed why=life-after-proof [clear] !life-after-proof (contradicts vm w1 life-after-proof)',
    ],
    [
      'each of the level that proved it',
      {
        atMs: MINUTE,
        ...back(0, 'boot-1'),
        record: { plan: { isolation: [], levels: [['x'], ['a', 'b']] }, proof: { by: 'devices', level: 1 } },
      },
      '> closed why=life-after-proof [clear] !life-after-proof (contradicts a life-after-proof) (contradicts b life-after-proof)',
    ],
    [
      'no device, if a person said so',
      { atMs: MINUTE, ...back(0, 'boot-1'), record: PERSON },
      '> closed why=life-after-proof [clear] !life-after-proof',
    ],
    ['Ready without a sign of life is not back', { atMs: MINUTE, fencing: { readyMs: SINCE } }, 'stays by 600000'],
    ['ends when the node is gone', { memory: null, node: null }, GONE],
  ]);
  const said = (phase: FencingRecord['phase'], says: 'on' | 'off', method = 'vm w1') =>
    ({ method, act: 'status', says, phase, wallMs: 0, tookMs: 0 }) as const;
  const alive = (ms: number, says: 'on' | 'off' | 'unknown' = 'on', asked = ms, boot = 'boot-1'): Given => ({
    ...{ ...back(0, boot), atMs: ms + 1_000, said: { 'vm w1': [`${says}@${asked}`] } },
    memory: { ...back(0, boot).memory, signMs: SINCE + ms },
  });
  const ASKS = '? vm w1/10000 by 600000';
  const UNHEARD = { ...sent, onAttempt: 1, proof: null };
  rows('booting', UNHEARD, [
    ['asks for an off that nobody heard the end of', { said: {} }, ASKS],
    ['not for one that had its effect', { record: { offHeard: ['vm w1'] }, said: {} }, 'stays by 600000'],
    ['waits a minute for an off to change', { atMs: 59_999, said: { 'vm w1': ['off@9000'] } }, ASKS],
    [
      'then sends the on again: the off has struck a machine that lived',
      { atMs: MINUTE, said: { 'vm w1': ['off@9000'] } },
      '> on-sent onSent=vm w1 onAttempt=2 [on vm w1]',
    ],
    ['so often', { atMs: MINUTE, said: { 'vm w1': ['off@9000'] }, record: { onAttempt: 3 } }, ASKS],
    ['is closed when no off has struck for two minutes', alive(120_000), '> closed why=alive [clear]'],
    ['not before', alive(119_999), ASKS],
    ['nor by an earlier sign of life', { ...alive(119_999), said: { 'vm w1': ['on@120000'] }, atMs: 121_000 }, ASKS],
    ['nor by an earlier answer', alive(120_000, 'on', 119_999), ASKS],
    ['nor before its time if nobody answers', { ...alive(120_000, 'unknown'), atMs: 179_999 }, ASKS],
    ['but then', { ...alive(120_000, 'unknown'), atMs: 180_000 }, '> closed why=alive [clear]'],
    ['also with another boot', alive(120_000, 'on', 120_000, 'boot-2'), '> closed [clear]'],
    [
      'while one says off, a node that lives waits for all of its boot time',
      { ...alive(120_000, 'off'), atMs: 599_999, record: { onAttempt: 3 } },
      ASKS,
    ],
    [
      'and no longer',
      { ...alive(120_000, 'off'), atMs: 600_000, record: { onAttempt: 3 } },
      '> closed why=alive [clear]',
    ],
    [
      'with the same boot contradicts a device that said off after its off',
      { ...alive(120_000), record: { answers: [said('proving', 'off')] } },
      '> closed why=alive [clear] (contradicts vm w1 off-while-alive)',
    ],
    [
      'and no other one',
      {
        ...alive(120_000),
        record: { answers: [said('on-sent', 'off'), said('proving', 'on'), said('proving', 'off', 'pdu')] },
      },
      '> closed why=alive [clear]',
    ],
  ]);
});

const ANEW = aMemory({ of: { uid: 'uid-new' } });
const LIVES_ANEW = { memory: null, others: [ANEW], fencing: { readyMs: SINCE } };
const OWED = { record: { onSent: [] } };
const DELETED = { staysOff: 'node-deleted' } as const;

describe.each(['left-off', 'not-back'] as const)('a fencing that is %s', (phase) => {
  rows(phase, { ...SENT, onSent: ['vm w1'] }, [
    ['stays', { atMs: 90_000_000 }, 'stays'],
    ['is closed when the node is back', { atMs: MINUTE, ...back(0) }, '> closed [clear]'],
    ['and not before', { atMs: MINUTE - 1, ...back(0) }, 'stays by 60000'],
    [
      'gives everything its on when the node lives',
      { memory: RENEWED, record: { offSent: ['f', 'vm w1'], plan: { isolation: ['f'], levels: [['vm w1']] } } },
      '> on-sent isAlive=true onSent=vm w1+f onAttempt=1 [on f, vm w1]',
    ],
    ['not without life', { record: { onSent: [] } }, 'stays'],
    [
      'goes on if its Node was not deleted: it is listed again',
      { record: { ...DELETED, onSent: [] } },
      '> proving staysOff=null',
    ],
    ['with its on, where that was sent', { record: DELETED }, '> on-sent staysOff=null'],
    [
      'and left off, where a person wants that',
      { record: { ...DELETED, onSent: [] }, config: { recovery: { ...aGuardConfig().recovery, powerOn: false } } },
      '> proving staysOff=power-on-off',
    ],
    ['stays for an hour when the node is gone', { memory: null, atMs: 3_599_999 }, 'stays by 3600000'],
    ['and is closed then', { memory: null, node: null, atMs: 3_600_000 }, '> closed why=node-deleted'],
    ['not if a list leaves it out', { memory: null, atMs: 3_600_000 }, '? look'],
    ['not while a Node made anew is silent', { memory: null, others: [ANEW], atMs: 90_000_000 }, 'stays'],
    ['is closed when that has lived for a minute', { ...LIVES_ANEW, atMs: MINUTE }, '> closed why=made-anew'],
    ['and not before', { ...LIVES_ANEW, atMs: MINUTE - 1 }, 'stays by 60000'],
    ['nor while something says off', { ...LIVES_ANEW, ...OWED, atMs: MINUTE }, '? vm w1/60000 by 3600000'],
    ['but for an hour', { ...LIVES_ANEW, ...OWED, node: null, atMs: 3_600_000 }, '> closed why=node-deleted'],
    [
      'and once it says on',
      { ...LIVES_ANEW, ...OWED, said: { 'vm w1': ['on@1000'] }, atMs: MINUTE },
      '> closed why=made-anew',
    ],
  ]);
});

it('a fencing that is closed stays so', () => {
  expect(sayTurn({ record: { phase: 'closed' } })).toBe('stays');
});
