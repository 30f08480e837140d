import { describe } from 'vitest';
import { RENEWED, SINCE, turnRows } from './a-turn.ts';

const TAKEN = { fencing: { isTakenOver: true } };
const UNFENCED = { order: { verb: 'fence', by: 'ana', because: '' }, renewed: null } as const;

const REHEARSAL = { purpose: 'rehearse', order: { verb: 'rehearse', by: 'ana', because: '' } } as const;
const NOT_BEGUN = { kind: 'not-begun', detail: '' } as const;
const TWICE_OFF = { 'vm w1': ['off@1000', 'off@7000'] } as const;
const NO_LEASE = { lease: null, overdueMs: null, isSuspect: false };
const SAYS_ON = ' !not-proven says-on';

const rows = turnRows();

describe('a fencing that failed', () => {
  const sent = { offSent: ['vm w1'] };
  const begins = (retries: number): string => `> decided retries=${retries} attempt=0 why=null isAlive=false`;
  rows('failed', sent, [
    ['waits a minute', { atMs: 59_999 }, 'stays by 60000'],
    ['begins again', { atMs: 60_000 }, begins(1)],
    ['waits two minutes the second time', { atMs: 119_999, record: { retries: 1 } }, 'stays by 120000'],
    ['and begins again', { atMs: 120_000, record: { retries: 1 } }, begins(2)],
    ['waits five minutes the third time', { atMs: 299_999, record: { retries: 2 } }, 'stays by 300000'],
    ['and begins again once more', { atMs: 300_000, record: { retries: 2 } }, begins(3)],
    ['then it is stuck', { record: { retries: 3 } }, '> stuck'],
    ['is stuck at once if on was sent', { record: { onSent: ['vm w1'] } }, '> stuck'],
    ['asks for what its gates depend on', { atMs: 60_000, witness: 'answers' }, '? vm w1/10000 stuck witness'],
    [
      'waits for the lease that was deleted',
      { atMs: 599_999, memory: NO_LEASE, lease: null, record: { why: 'no-lease' } },
      '? vm w1/10000 stuck witness',
    ],
    [
      'but gives the power back without it: its kubelet would make it, and cannot',
      { atMs: 600_000, memory: NO_LEASE, lease: null, record: { why: 'no-lease' } },
      '> on-sent why=no-lease onSent=vm w1 onAttempt=1 [on vm w1]',
    ],
    [
      'unless it is to stay off',
      {
        atMs: 600_000,
        memory: NO_LEASE,
        lease: null,
        record: { why: 'no-lease', staysOff: 'power-on-off' },
      },
      '> stuck why=no-lease',
    ],
    ['not with one', { atMs: 600_000, record: { why: 'no-lease' } }, begins(1)],
    [
      'is no gate to itself',
      { atMs: 60_000, config: { rate: { minIntervalMs: 0, maxPerHour: 6, maxInFlight: 1 } } },
      begins(1),
    ],
    ['is left off when the node is gone', { memory: null, node: null }, '> left-off staysOff=node-deleted'],
    ['waits when another Node has its name', { node: { uid: 'uid-new', bootId: 'boot-2' } }, 'stays by 60000'],
    [
      'is switched on when the node lives',
      { memory: RENEWED },
      '> on-sent why=life isAlive=true onSent=vm w1 onAttempt=1 [on vm w1]',
    ],
    ['ends if nothing was sent', { memory: RENEWED, record: { offSent: [] } }, '> aborted why=life isAlive=true'],
    [
      'of a node that lived is given up by another process',
      { ...TAKEN, record: UNFENCED },
      '> on-sent why=too-late onSent=vm w1 onAttempt=1 [on vm w1]',
    ],
    ['but not while it may be tried again', { atMs: 300_000, record: { ...UNFENCED, retries: 2 } }, begins(3)],
    [
      'or after a long time',
      { atMs: 440_001, record: UNFENCED },
      '> on-sent why=too-late onSent=vm w1 onAttempt=1 [on vm w1]',
    ],
  ]);
});

describe('a fencing that is stuck', () => {
  rows(
    'stuck',
    {
      offSent: ['f', 'a', 'b'],
      onSent: ['x'],
      onAttempt: 2,
      plan: { isolation: ['f'], levels: [['a'], ['b'], ['c']] },
    },
    [
      ['stays', { atMs: 9_000_000 }, 'stays'],
      ['also if a look from before the phase shows life', { lookMs: -1, ...RENEWED }, 'stays'],
      ['also if the look shows no Node', { node: null }, 'stays'],
      ['also without a lease', { lease: null, memory: { lease: null } }, 'stays'],
      ['also if nothing was asked of the node', { seen: { asked: new Map() } }, 'stays'],
      ['also after a heartbeat that is not that of its lease', { memory: { signMs: SINCE + 1 } }, 'stays'],
      ['also if a node that lived shows no life since', { record: UNFENCED, memory: { signMs: SINCE } }, 'stays'],
      [
        'is switched on when a node that lived still lives',
        { record: UNFENCED, memory: { signMs: SINCE + 1 } },
        '> on-sent why=life isAlive=true onSent=x+f+a+b onAttempt=3 [on f, b, a]',
      ],
      [
        'is switched on when the look shows life',
        { lookMs: 0, ...RENEWED },
        '> on-sent why=life isAlive=true onSent=x+f+a+b onAttempt=3 [on f, b, a]',
      ],
      ['is left off when the node is gone', { memory: null, node: null }, '> left-off staysOff=node-deleted'],
      [
        'is switched on when the node lives: the fabric first, then power in reverse order',
        { memory: RENEWED },
        '> on-sent why=life isAlive=true onSent=x+f+a+b onAttempt=3 [on f, b, a]',
      ],
    ],
  );
});

describe('a fencing of which the devices were corrected since', () => {
  const sent = { offSent: ['vm w1'] };
  const other = { config: { defaultPlan: { isolation: [], levels: [['pdu {node}']] } } };
  const OVER = '> on-sent why=devices-changed onSent=vm w1 onAttempt=1 [on vm w1]';
  rows('failed', sent, [
    ['gives back what it was sent, and ends', other, OVER],
    ['also if only the way to call one is another', { config: { outdated: ['uid-w1'] } }, OVER],
    ['not for the devices of others', { config: { outdated: ['uid-w2'] } }, 'stays by 60000'],
    ['not if it has none any more', { config: { defaultPlan: null } }, 'stays by 60000'],
  ]);
  rows('stuck', sent, [
    ['also when it is stuck', other, OVER],
    ['but is stuck if it was switched on once', { ...other, record: { onSent: ['vm w1'] } }, 'stays'],
  ]);
  const NONE = { config: { defaultPlan: null } };
  rows('decided', {}, [
    ['has sent nothing, and sends nothing', other, '> aborted why=devices-changed'],
    [
      'also if only the way to call one is another',
      { config: { outdated: ['uid-w1'] } },
      '> aborted why=devices-changed',
    ],
    ['also if it has none any more', NONE, '> aborted why=devices-changed isAlive=false'],
    ['and a rehearsal', { ...other, record: REHEARSAL }, '> aborted why=devices-changed'],
  ]);
  rows('off-sent', { ...sent, attempt: 1 }, [
    ['sends no off that was not begun', { ...other, fencing: { acted: NOT_BEGUN } }, OVER],
    ['nor a rehearsal', { ...other, fencing: { acted: NOT_BEGUN }, record: REHEARSAL }, OVER],
  ]);
  rows('proving', { ...sent, attempt: 1 }, [
    ['sends no second off', { ...other, said: { 'vm w1': ['on@7000'] } }, `${OVER}${SAYS_ON}`],
    [
      'also if it has none any more',
      { ...NONE, said: { 'vm w1': ['on@7000'] } },
      `> failed why=devices-changed isAlive=false${SAYS_ON}`,
    ],
  ]);
  rows('proving', {}, [
    ['is not off already by their word', { ...other, said: TWICE_OFF }, '> aborted why=devices-changed'],
  ]);
  rows('failed', { ...sent, staysOff: 'loop' }, [
    ['is not switched on if it is to stay off', other, '> stuck why=devices-changed'],
    [
      'also after its proof',
      { ...other, record: { proof: { by: 'devices', level: 0 } }, said: {}, fencing: { acted: { kind: 'patched' } } },
      '> stuck why=devices-changed',
    ],
  ]);
  rows('stuck', { ...sent, staysOff: 'loop' }, [['and stays so', other, 'stays']]);
  rows('isolating', { offSent: ['f'], plan: { isolation: ['f'], levels: [['vm w1']] }, staysOff: 'power-on-off' }, [
    [
      'but a machine that runs is given back its storage',
      { witness: 'answers', fencing: { acted: NOT_BEGUN } },
      '> on-sent why=kubelet-answers onSent=f onAttempt=1 [on f]',
    ],
  ]);
  rows('on-sent', { ...sent, onSent: ['vm w1'], why: 'devices-changed' }, [
    ['makes room for another one, whatever they say', { said: { 'vm w1': ['unknown@1'] } }, '> aborted'],
  ]);
});

describe('a fencing that was not begun', () => {
  rows('aborted', {}, [
    ['stays for a minute', { atMs: 59_999 }, 'stays by 60000'],
    ['is closed then', { atMs: 60_000 }, '> closed [clear]'],
  ]);
});
