import { readdirSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import type { GuardDecision } from '../../src/core/guard/decision.ts';
import type { GuardObservation, Order } from '../../src/core/guard/observation.ts';
import type { Fencing } from '../../src/core/guard/state.ts';
import { captureOf } from '../../src/guard/capture.ts';
import type { GuardLook } from '../../src/guard/loop.ts';
import { createPastHour } from '../../src/guard/past-hour.ts';
import { aGuardConfig } from '../core/guard/a-guard-config.ts';
import { aMemory } from '../core/guard/a-node.ts';
import { aFencing, aLook, aRecord, type Given, SINCE } from '../core/guard/a-turn.ts';
import { aScenario } from '../simulate/guard/a-world.ts';
import { again, anExample, captured, decided, heldBy } from './a-captured-hour.ts';

const NEXT = { afterMs: 1, witness: [], pods: [], attachments: false, members: [], looks: [], status: [] };

const directory = path.join(import.meta.dirname, '../../config/scenarios/guard');
const examples = readdirSync(directory).map((file) => file.replace('.yaml', ''));

/** Of which the last leader does not know all that the one before it knew. */
const OTHERWISE = {
  'burst-outlives-its-guards': 'a storm that was open before the guard started',
  'guard-killed-before-off': 'its predecessor decided, and fell at an unknown moment',
  'guard-paused': 'as before',
  'node-made-anew': 'of the Node before it nothing is in it, as it says',
  'records-deleted-by-hand': 'its pods were being freed within the same second',
};

type Decided = ReturnType<typeof decided>;
/** The same nodes in the same order, and not more apart in time than two renewals of a lease. */
function isSame(second: Decided, first: Decided): void {
  expect(second.map(({ node }) => node)).toEqual(first.map(({ node }) => node));
  for (const [i, { afterMs }] of second.entries()) {
    expect(Math.abs(afterMs - (first[i]?.afterMs ?? 0))).toBeLessThanOrEqual(20_000);
  }
}

describe('the last hour as a guard saw it', () => {
  it.each(examples.filter((name) => !(name in OTHERWISE)))('is decided again as it was: %s', (name) => {
    const scenario = anExample(name);
    const { run, capture, windowMs, fromMs } = captured(scenario);
    const { run: second, leadMs } = again(scenario, capture, windowMs);
    isSame(decided(second, leadMs), decided(run, fromMs));
    if (windowMs < scenario.untilMs - 10_000) return;
    // What lasts for about a moment is longer than one in one of both.
    expect(heldBy(run, 0)).toEqual(expect.arrayContaining([...heldBy(second)]));
    expect(heldBy(second, 0)).toEqual(expect.arrayContaining([...heldBy(run)]));
  });

  it('says of a Node that was made anew that nothing of the one before is in it', () => {
    const { capture } = captured(anExample('node-made-anew'));
    expect(capture.plain.notes).toContainEqual(
      expect.stringMatching(/^w2: deleted and created anew in that time; here only the new one/),
    );
  });

  it('begins where it is told to, and ends now', () => {
    const scenario = anExample('one-after-the-other');
    const { capture, run, windowMs, fromMs } = captured(scenario, 32 * 60_000);
    const { run: second, leadMs } = again(scenario, capture, windowMs);
    expect(decided(run, fromMs)).not.toEqual([]);
    isSame(decided(second, leadMs), decided(run, fromMs));
  });

  it('has no name of a node, pod, failure domain or person if it is redacted', () => {
    const nodes = [
      { names: 'secret[1-6]', zone: 'secret-zone', pods: [{ name: 'secret-{node}', statefulSet: 'secret' }] },
    ];
    const events = [
      { at: '5m', node: 'secret1', freeze: true },
      { at: '6m', order: { verb: 'release', node: 'secret1', for: '1h', by: 'secret-ann', because: 'secret' } },
      { at: '7m', node: 'secret2', annotate: { 'cluster.x-k8s.io/machine': 'secret-machine' } },
    ];
    const scenario = aScenario({ nodes, events });
    const { capture, windowMs } = captured(scenario);
    expect(JSON.stringify(capture.plain.scenario)).toContain('secret-ann');
    expect(JSON.stringify(capture.redacted)).not.toContain('secret');
    const { run } = again(scenario, { ...capture, plain: capture.redacted }, windowMs);
    expect(run.result.fenced).toHaveLength(1);
  });

  it('keeps so much and no more: what is older is dropped, and the file says so', () => {
    const hour = createPastHour();
    const config = aGuardConfig();
    const look = (atMs: number, isCordoned: boolean): GuardLook => {
      const others = Array.from({ length: 3_000 }, (_, i) =>
        aMemory({ of: { name: `w${i}`, uid: `uid-${i}`, isUnschedulable: isCordoned } }),
      );
      const { state, observation } = aLook({ atMs, memory: null, others });
      return { observation, config, verdict: { state, decisions: [], reasons: [], next: NEXT } };
    };
    let last = look(0, false);
    for (let at = 0; at < 10; at++) {
      last = look(at * 60_000, at % 2 === 1);
      hour.keep(last);
    }
    expect(hour.hour().changes.length).toBeLessThanOrEqual(20_000);
    const { plain } = captureOf(last, hour.hour(), 3_600_000);
    expect(plain.notes).toContain('So much happened that it was not all kept: it begins later.');
    const later = look(2 * 3_600_000, true);
    hour.keep(later);
    expect(hour.hour().changes).toEqual([]);
    expect(captureOf(later, hour.hour(), 7_200_000).plain.notes).toContain('No more than the last hour is kept.');
  });

  it.each([
    ['is in it', { kind: 'stored', version: '2' }, 'fence', ['o1']],
    ['is not if it was taken back', { kind: 'conflict' }, 'fence', []],
    ['is not if its answer was not stored', { kind: 'failed' }, 'fence', []],
    ['is if it is a pause, which is in force all the same', { kind: 'failed' }, 'pause', ['o1']],
  ] as const)('an order that was given %s', (_, store, verb, expected) => {
    const hour = createPastHour();
    const order = { id: 'o1', to: 'me', by: 'ana', because: '', verb, node: { name: 'w1', uid: 'uid-w1' } } as Order;
    const answer = { kind: 'answer', id: '7', atMs: 0, order: 'o1', carries: null, keeps: false } as const;
    const look = (seen: Partial<GuardObservation>, decisions: readonly GuardDecision[]): GuardLook => {
      const { state, observation, config } = aLook({ seen });
      return { observation, config, verdict: { state, decisions, reasons: [], next: NEXT } };
    };
    const given = (): readonly string[] =>
      hour.hour().changes.flatMap((change) => (change.kind === 'order' ? [change.order.id] : []));
    hour.keep(look({}, []));
    hour.keep(look({ orders: [order] }, [{ ...answer, answer: { isAccepted: true, fencing: 'w1-1' } }]));
    expect(given()).toEqual(['o1']);
    hour.keep(look({ outcomes: [{ of: '7', fencing: null, atMs: SINCE, store, act: null }] }, []));
    expect(given()).toEqual(expected);
    hour.keep(look({}, [{ ...answer, answer: { isAccepted: false, gate: null, why: 'not-stored' } }]));
    expect(given()).toEqual([]);
  });

  it.each([
    [
      'sent, is in it',
      { kind: 'ran', runs: [{ method: 'vm w1', isOk: true, begunMs: SINCE, endedMs: SINCE, detail: '' }] },
      true,
    ],
    ['decided and not begun, is not', { kind: 'not-begun', detail: 'paused' }, false],
  ] as const)('an off that was %s', (_, acted, isSent) => {
    const hour = createPastHour();
    const keep = (atMs: number, given: Given, open: Fencing | null = null): void => {
      const fencings = new Map(open === null ? [] : [[open.record.id, open]]);
      const { state, observation, config } = aLook({ ...given, atMs });
      hour.keep({
        observation,
        config,
        verdict: { state: { ...state, fencings }, decisions: [], reasons: [], next: NEXT },
      });
    };
    const becomes = aRecord({ phase: 'off-sent', attempt: 1, offSent: ['vm w1'], revision: 2 });
    keep(0, {});
    keep(1_000, {}, aFencing(aRecord(), { pending: { decision: '1', atMs: SINCE, becomes } }));
    keep(2_000, {}, aFencing({ ...becomes, offSent: isSent ? becomes.offSent : [] }, { acted }));
    keep(90_000, { memory: { isSuspect: false, signMs: SINCE + 85_000, onsetMs: null } });
    const { changes } = hour.hour();
    expect(changes.filter(({ kind }) => kind === 'sent')).toHaveLength(isSent ? 1 : 0);
    // With the same boot: else its devices would be said to do nothing of what they are told.
    expect(changes.findLast(({ kind }) => kind === 'plight')).toMatchObject({ is: 'alive', wasCut: isSent });
  });

  it('begins after all that was dropped, though the last of that is from before: a silence is known late', () => {
    const hour = createPastHour();
    const look = (atMs: number, of: { readonly isUnschedulable: boolean }, silence: object): GuardLook => {
      const others = Array.from({ length: 10_002 }, (_, i) =>
        aMemory({ ...silence, of: { ...of, name: `w${i}`, uid: `uid-${i}` } }),
      );
      const { state, observation } = aLook({ atMs, memory: null, others });
      return { observation, config: aGuardConfig(), verdict: { state, decisions: [], reasons: [], next: NEXT } };
    };
    hour.keep(look(0, { isUnschedulable: false }, {}));
    hour.keep(
      look(120_000, { isUnschedulable: true }, { isSuspect: true, onsetMs: SINCE + 60_000, signMs: SINCE + 60_000 }),
    );
    const { changes, sinceMs } = hour.hour();
    expect(changes).toHaveLength(10_000);
    expect(sinceMs).toBe(SINCE + 120_001);
  });
});
