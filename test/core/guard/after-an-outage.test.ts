import { describe, expect, it } from 'vitest';
import { aGuardConfig } from './a-guard-config.ts';
import { aMachine } from './a-machine.ts';
import { aMemory } from './a-node.ts';
import { elected, type Given, SINCE, turnRows } from './a-turn.ts';
import { aWorld } from './a-world.ts';

/** What a phase waits for counts from when this process could do something about it: an outage of the API is no silence of others. */

const MINUTE = 60_000;
const SENT = { offSent: ['vm w1'], proof: { by: 'devices', level: 0 } } as const;
const ON = { ...SENT, onSent: ['vm w1'], onAttempt: 1 } as const;
const SHORT = { ...aGuardConfig().recovery, bootTimeMs: 30_000 };
const PATCHED = { fencing: { acted: { kind: 'patched' } } } as const;
/** Elected again 11 minutes after the phase began; its device has answered since, or has not. */
const again = (atMs: number, rest: Given = {}): Given => ({ ...elected(11 * MINUTE), atMs, said: {}, ...rest });
const heardOff = (atMs: number) => ({ said: { 'vm w1': [`off@${atMs - 7_000}`, `off@${atMs - 1_000}`] } }) as const;

describe('who leads again after an outage of the API', () => {
  const rows = turnRows();
  const NO_ANSWER = { kind: 'failed', why: 'error', detail: 'no answer' } as const;
  const failed = (atMs: number, sinceMs = 5_000): Given =>
    again(atMs, {
      fencing: { sinceMs: SINCE + sinceMs, phaseSinceMs: SINCE, acted: NO_ANSWER },
      ...heardOff(atMs),
    });
  rows('proven', SENT, [
    [
      'sends the taint that could not be sent',
      failed(11 * MINUTE),
      '> proven proof={"by":"devices","level":0} [tell 7 until 674000]',
    ],
    ['for drainWait, if that is refused', failed(21 * MINUTE - 1, 20 * MINUTE + 30_000), '? vm w1/6000'],
    ['and no longer', failed(21 * MINUTE, 20 * MINUTE + 30_000), '> untainting why=not-told [untell] !not-told'],
  ]);
  rows('tainted', SENT, [
    ['asks what is still there', again(11 * MINUTE), '? vm w1/10000 stuck by 1260000'],
    ['for drainWait', again(21 * MINUTE - 1, heardOff(21 * MINUTE - 1)), '? vm w1/10000 stuck by 1260000'],
    ['and no longer', again(21 * MINUTE, heardOff(21 * MINUTE)), '> untainting why=not-drained [untell] !not-drained'],
  ]);
  rows('untainting', SENT, [
    ['gives Kubernetes the time to see that its taint is gone', again(11 * MINUTE, PATCHED), 'stays by 685000'],
  ]);
  rows('on-sent', ON, [
    ['asks the devices', again(11 * MINUTE), '? vm w1/6000 by 1260000'],
    [
      'also of an on of somebody else',
      again(11 * MINUTE, { fencing: { isTakenOver: true } }),
      '? vm w1/6000 by 1260000',
    ],
    ['for bootTime', again(21 * MINUTE), '> not-back why=power-unknown'],
    [
      'but not before one could have answered',
      { ...again(11 * MINUTE + 30_000), config: { recovery: SHORT } },
      '? vm w1/6000 by 720000',
    ],
  ]);
  rows('booting', ON, [
    ['waits for bootTime', again(21 * MINUTE - 1), 'stays by 1260000'],
    ['and no longer', again(21 * MINUTE), '> not-back why=not-ready'],
  ]);
  const ORDERED = { ...ON, why: 'power-on' } as const;
  const ANEW = { memory: null, others: [aMemory({ of: { uid: 'uid-new' } })] };
  rows('booting', ORDERED, [
    ['also for a Node made anew', again(21 * MINUTE - 1, ANEW), 'stays by 1260000'],
    ['and no longer', again(21 * MINUTE, ANEW), '> not-back'],
  ]);
});

describe('an API that goes away for longer than drainWait', () => {
  it.each(['proven', 'tainted'])('costs no machine that is %s its fencing', (phase) => {
    const names = ['w1', 'w2', 'w3', 'w4', 'w5'];
    const one = aWorld(names.map((name) => aMachine(name))).run(5 * MINUTE);
    one.machine('w1').isHeard = false;
    one.refuses = ['tell'];
    while (one.phaseOf('w1') !== 'proven') one.run(500);
    if (phase === 'tainted') one.refuses = [];
    while (one.phaseOf('w1') !== phase) one.run(500);
    one.isApiUp = false;
    one.run(5_000);
    one.isLeader = false;
    one.run(11 * MINUTE);
    one.refuses = [];
    one.isApiUp = true;
    one.run(5_000);
    one.isLeader = true;
    one.run(5 * MINUTE);
    const codes = one.reasons.map(({ reason }) => reason.code);
    expect(codes.filter((code) => ['not-told', 'not-drained', 'not-proven'].includes(code))).toEqual([]);
    expect(one.machine('w1')).toMatchObject({ pods: [], attachments: [], isOn: true, offs: 1 });
  });
});

describe('who is elected again and again', () => {
  const rows = turnRows();
  /** It led for 4 minutes, then was away for 3, for 2 and for 1; it led for 4 minutes and for one in between. */
  const AGAIN = [
    { led: 0, lost: 4 * MINUTE },
    { led: 7 * MINUTE, lost: 11 * MINUTE },
    { led: 13 * MINUTE, lost: 14 * MINUTE },
  ] as const;
  const last = (atMs: number, rest: Given = {}): Given => ({
    ...{ ...elected(15 * MINUTE, ...AGAIN), atMs, ...heardOff(atMs), ...rest },
  });
  const refused = (atMs: number): Given =>
    last(atMs, {
      fencing: {
        ...{ sinceMs: SINCE + 15.5 * MINUTE, phaseSinceMs: SINCE },
        acted: { kind: 'failed', why: 'error', detail: 'no answer' },
      },
    });
  const END = 16 * MINUTE;
  rows('proven', SENT, [
    ['sends the taint for drainWait in all', refused(END - 1), '? vm w1/6000'],
    ['and no longer', refused(END), '> untainting why=not-told [untell] !not-told'],
  ]);
  rows('tainted', SENT, [
    ['waits for drainWait in all', last(END - 1), '? vm w1/10000 stuck by 960000'],
    ['and no longer', last(END), '> untainting why=not-drained [untell] !not-drained'],
  ]);
  rows('on-sent', ON, [['asks for bootTime in all', last(END, { said: {} }), '> not-back why=power-unknown']]);
  rows('booting', ON, [
    ['waits for bootTime in all', last(END - 1), 'stays by 960000'],
    ['and no longer', last(END), '> not-back why=not-ready'],
  ]);
  const LATE = elected(30 * MINUTE, { led: 0, lost: 10 * MINUTE - 1 });
  rows('booting', ON, [
    ['but sees first what happened meanwhile', { ...LATE, atMs: 31 * MINUTE - 1 }, 'stays by 1860000'],
    ['for a minute', { ...LATE, atMs: 31 * MINUTE }, '> not-back why=not-ready'],
  ]);
});
