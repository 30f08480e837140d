import { describe } from 'vitest';
import { type DeviceMemory, deviceKey } from '../../../src/core/guard/state.ts';
import { aDevice, type Given, SINCE, turnRows } from './a-turn.ts';

const TWO_LEVELS = { plan: { isolation: [], levels: [['bmc w1'], ['pdu w1']] } };
const THREE_LEVELS = { plan: { isolation: [], levels: [['bmc w1'], ['pdu w1'], ['hmc w1']] } };
const HEARD = { record: { offHeard: ['vm w1'] } } as const;
const PAIR = { plan: { isolation: [], levels: [['a', 'b']] } };
const REHEARSAL = { purpose: 'rehearse', order: { verb: 'rehearse', by: 'ana', because: '' } } as const;

/** Devices whose answers, begun at these times of the phase, each took so long. */
function slow(
  tookMs: number,
  begun: { readonly [method: string]: readonly number[] },
  says: DeviceMemory['recent'][number]['says'] = 'off',
): Given {
  const devices = Object.entries(begun).map(([method, times]): [string, DeviceMemory] => {
    const all = times.map((ms) => ({ says, begunMs: SINCE + ms, endedMs: SINCE + ms + tookMs }));
    const device = aDevice(
      method,
      times.map((ms) => `${says}@${ms}` as const),
      { recent: all },
    );
    return [deviceKey(device.node, method), device];
  });
  return { state: { devices: new Map(devices) } };
}
/** Two rounds, the last of which ends at 99 s. */
const SLOW = slow(16_000, { 'vm w1': [60_000, 83_000] });

const rows = turnRows();

describe('a fencing that is decided', () => {
  const BOTH = { 'bmc w1': [5_000], 'pdu w1': [5_000] };
  rows('decided', {}, [
    [
      'switches nothing off by devices that answer too late for a proof, and says why',
      { ...slow(14_001, { 'vm w1': [5_000] }, 'on'), atMs: 20_000 },
      '> aborted why=too-slow isAlive=false',
    ],
    [
      'does by those that answer just in time',
      { ...slow(14_000, { 'vm w1': [5_000] }, 'on'), atMs: 20_000 },
      '> off-sent level=0 attempt=1 offSent=vm w1 [off vm w1]',
    ],
    [
      'takes none for off already by them',
      { ...slow(14_001, { 'vm w1': [-20_000, 5_000] }), atMs: 20_000 },
      '> aborted why=too-slow isAlive=false',
    ],
    ['asks once more when the last answer has become too old', { said: {} }, '? vm w1/10000 stuck witness'],
    ['also of a rehearsal', { said: {}, record: REHEARSAL, ...idle() }, '? vm w1/10000 stuck witness'],
    [
      'rehearses no level that is too slow',
      { ...slow(14_001, BOTH, 'on'), atMs: 20_000, record: { ...REHEARSAL, ...TWO_LEVELS, level: 1 }, ...idle() },
      '> aborted why=too-slow isAlive=false',
    ],
  ]);
});

function idle(): Given {
  return { memory: { of: { isUnschedulable: true } }, pods: [] };
}

describe('a fencing that asks for its proof', () => {
  const OUT_OF_STEP = { a: [66_000, 77_000, 88_000], b: [72_000, 83_000, 94_000] };
  rows('proving', { offSent: ['vm w1'], attempt: 1 }, [
    ['waits for answers that are in time for it', { ...SLOW, ...HEARD, atMs: 99_999 }, '? vm w1/6000 by 100000'],
    [
      'fails if all of them are too late, without another off',
      { ...SLOW, atMs: 100_000 },
      '> failed why=too-slow !not-proven too-slow',
    ],
    [
      'also if two rounds were not even possible',
      { ...slow(38_000, { 'vm w1': [40_000] }), atMs: 100_000 },
      '> failed why=too-slow !not-proven too-slow',
    ],
    [
      'fails if those of one level are in time each, and never together',
      { ...slow(10_000, OUT_OF_STEP), record: { ...PAIR, offSent: ['a', 'b'], attempt: 2 }, atMs: 104_000 },
      '> failed why=too-slow !not-proven too-slow',
    ],
    [
      'waits on if they are in time, and something else is late',
      { ...slow(9_000, { 'vm w1': [70_000, 88_000] }), ...HEARD, atMs: 104_000 },
      '? vm w1/6000',
    ],
    [
      'goes on to the next level that is not known to be too slow',
      {
        ...slow(16_000, { 'bmc w1': [60_000, 83_000], 'pdu w1': [60_000, 83_000] }),
        record: { ...THREE_LEVELS, offSent: ['bmc w1'] },
        atMs: 100_000,
      },
      '> off-sent level=2 attempt=1 offSent=bmc w1+hmc w1 [off hmc w1] !not-proven too-slow',
    ],
    [
      'ends if nothing was sent',
      { ...SLOW, atMs: 100_000, record: { offSent: [] } },
      '> aborted why=too-slow isAlive=false !not-proven too-slow',
    ],
    [
      'switches a rehearsed machine on',
      { ...SLOW, atMs: 100_000, record: REHEARSAL },
      '> on-sent why=too-slow onSent=vm w1 onAttempt=1 [on vm w1] !not-proven too-slow',
    ],
  ]);
});
