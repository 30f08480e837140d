import { describe } from 'vitest';
import { aPodOn } from './a-machine.ts';
import { aMemory } from './a-node.ts';
import { back, type Given, SINCE, turnRows, WALL } from './a-turn.ts';

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
    ['nor its own silence', at({ memory: { ...back(0).memory, disturbedMs: SINCE - 90_000 } }), DONE],
    ['unless it was not proven', at({ record: { proof: null } }), '> closed [clear]'],
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
