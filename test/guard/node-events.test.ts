import { describe, expect, it } from 'vitest';
import type { Because, GateName, GuardDecision, GuardReason } from '../../src/core/guard/decision.ts';
import type { ActResult } from '../../src/core/guard/observation.ts';
import type { FencingRecord, Phase } from '../../src/core/guard/record.ts';
import type { NodeEvent } from '../../src/guard/api-writes.ts';
import { createNodeEvents } from '../../src/guard/node-events.ts';
import { createVirtualClock } from '../kube/virtual-clock.ts';
import { aRecord, ID, W1 } from './a-guard-api.ts';

function someEvents(mayAct = true) {
  const clock = createVirtualClock();
  const sent: NodeEvent[] = [];
  const events = createNodeEvents({
    ...{ clock, mayAct: () => mayAct, failed: () => undefined },
    writes: {
      createEvent: async (event) => {
        sent.push(event);
        return { kind: 'done' };
      },
    },
  });
  const settled = async (): Promise<readonly string[]> => {
    for (let i = 0; i < 200; i++) await Promise.resolve();
    return sent.map(({ node, type, reason, message }) => `${node} ${type} ${reason}: ${message}`);
  };
  return { events, clock, sent, settled };
}
const PATCHED: ActResult = { kind: 'patched' };
const moved = (from: Phase, phase: Phase, rest: Partial<FencingRecord> = {}): GuardDecision => ({
  ...{ id: '1', atMs: 0, kind: 'advance', node: W1, from, fencing: ID, replaces: '1', act: null },
  record: aRecord({ phase, offSent: ['1'], ...rest }),
});
const cleared = (from: Phase, rest: Partial<FencingRecord> = {}): GuardDecision =>
  ({ ...moved(from, 'closed', rest), act: { kind: 'clear' } }) as GuardDecision;
const held = (gate: GateName, because: Because, name = 'w1'): Extract<GuardDecision, { kind: 'hold' }> => ({
  ...{ id: '1', atMs: 0, kind: 'hold', node: { ...W1, name, uid: name } },
  gates: [
    { gate: 'self', isOpen: true, because: 'open', value: null, isAtLeast: false, limit: null, opensMs: null },
    { gate, isOpen: false, because, value: null, isAtLeast: false, limit: null, opensMs: null },
  ],
});
const NOT_DRAINED: GuardReason = { code: 'not-drained', node: W1, fencing: ID, left: { pods: [], attachments: [] } };

describe('the events on a node', () => {
  it.each<readonly [string, GuardDecision, ActResult | null, readonly string[]]>([
    [
      'a fencing',
      {
        ...{ id: '1', atMs: 0, kind: 'fence', node: W1, gates: [], frees: { pods: [], attachments: [] }, isDry: false },
        ...{ fencing: ID, replaces: null, act: null, record: aRecord({ phase: 'decided' }) },
      },
      null,
      [
        'w1 Warning FencingDecided: a fencing begins: silent for 2m10s; 0 pods and 0 volumes would be freed (fencing ID)',
      ],
    ],
    [
      'its proof',
      moved('proving', 'proven', { proof: { by: 'devices', level: 0 } }),
      PATCHED,
      ['w1 Normal PowerOffProven: its devices prove it off (fencing ID)'],
    ],
    [
      'the word of a person, as no proof',
      moved('proving', 'proven', { proof: { by: 'person', name: 'ann\n' } }),
      PATCHED,
      ['w1 Normal PowerOffProven: off, as ann\\u000a says; no device proved it (fencing ID)'],
    ],
    ['a taint that was patched again, not twice', moved('proven', 'proven'), PATCHED, []],
    [
      'its failure',
      moved('proving', 'failed', { why: 'not-proven' }),
      null,
      ['w1 Warning FencingFailed: off is not proven (not-proven); it is tried again (fencing ID)'],
    ],
    [
      'its failure by slow devices',
      moved('proving', 'failed', { why: 'too-slow' }),
      null,
      [
        'w1 Warning FencingFailed: off is not proven (its devices answer too late for a proof); it is tried again (fencing ID)',
      ],
    ],
    [
      'the failure of its last try',
      moved('proving', 'failed', { why: 'not-proven', retries: 3 }),
      null,
      ['w1 Warning FencingFailed: off is not proven (not-proven); a person must look (fencing ID)'],
    ],
    [
      'the failure of a rehearsal',
      moved('proving', 'failed', { why: 'not-proven', purpose: 'rehearse' }),
      null,
      ['w1 Warning FencingFailed: off is not proven (not-proven); it is not tried again (fencing ID)'],
    ],
    [
      'life after its off',
      moved('proving', 'failed', { isAlive: true }),
      null,
      ['w1 Warning FencingFailed: it gives a sign of life after power off was sent (fencing ID)'],
    ],
    [
      'what it freed',
      moved('tainted', 'untainting'),
      PATCHED,
      ['w1 Normal NodeFreed: its pods and volumes are free (fencing ID)'],
    ],
    [
      'nothing freed if its taint went because it lives',
      moved('tainted', 'untainting', { isAlive: true }),
      PATCHED,
      [],
    ],
    ['nothing freed if a person switches it on', moved('tainted', 'untainting', { why: 'power-on' }), PATCHED, []],
    [
      'nothing freed while its taint may still stand',
      moved('tainted', 'untainting'),
      { kind: 'failed', why: 'error', detail: '' },
      [],
    ],
    [
      'its return',
      cleared('booting'),
      PATCHED,
      ['w1 Normal NodeBack: Ready with another boot; the fencing is over (fencing ID)'],
    ],
    [
      'its return, however its fencing went before',
      cleared('not-back', { why: 'not-drained' }),
      PATCHED,
      ['w1 Normal NodeBack: Ready with another boot; the fencing is over (fencing ID)'],
    ],
    ['no return of a machine that never went', cleared('booting', { why: 'life-after-proof' }), PATCHED, []],
    ['nor of one that was not proven off', cleared('booting', { why: 'alive' }), PATCHED, []],
    ['no return of a machine that nobody switched off', cleared('aborted', { offSent: [] }), PATCHED, []],
    ['nor of one whose fabric alone was cut', cleared('aborted'), PATCHED, []],
    ['nor of one whose Node was deleted', moved('left-off', 'closed', { staysOff: 'node-deleted' }), null, []],
    ['nor of one that was rehearsed', cleared('booting', { purpose: 'rehearse', why: 'rehearsed' }), PATCHED, []],
  ])('tell %s', async (_, decision, act, expected) => {
    const { events, settled } = someEvents();
    events.stored(decision, act, []);
    expect((await settled()).map((line) => line.replace(ID, 'ID'))).toEqual(expected);
  });

  it('do not say that it is free if it was not drained in time', async () => {
    const { events, settled } = someEvents();
    events.stored(moved('tainted', 'untainting'), PATCHED, [NOT_DRAINED]);
    expect(await settled()).toEqual([]);
    events.stored(moved('tainted', 'untainting'), PATCHED, [{ ...NOT_DRAINED, fencing: 'another' }]);
    expect(await settled()).toHaveLength(1);
  });

  it('tell a hold once for its reason, again after ten minutes, and a storm as one', async () => {
    const { events, clock, settled } = someEvents();
    for (let i = 0; i < 3; i++) events.held(held('witness', 'kubelet-answers'));
    events.held(held('storm', 'cluster'));
    expect(await settled()).toEqual([
      'w1 Warning FencingHeld: not fenced, held by gate witness: its kubelet answers',
      'w1 Warning StormHeld: not fenced, held by gate storm: too many nodes are silent (maxUnhealthy)',
    ]);
    await clock.advance(600_000);
    events.held(held('witness', 'kubelet-answers'));
    expect(await settled()).toHaveLength(3);
  });

  it('tell of at most 50 holds in a storm of thousands', async () => {
    const { events, settled } = someEvents();
    for (let i = 0; i < 5_000; i++) events.held(held('storm', 'cluster', `w${i}`));
    expect(await settled()).toHaveLength(50);
  });

  it('have one name each, the same if a successor tells it again', async () => {
    const told = async (): Promise<readonly string[]> => {
      const { events, sent, settled } = someEvents();
      events.stored(moved('proving', 'proven'), PATCHED, []);
      events.held(held('witness', 'kubelet-answers', `${'x'.repeat(240)}.y`));
      await settled();
      return sent.map(({ name }) => name);
    };
    const names = await told();
    expect(await told()).toEqual(names);
    for (const name of names) expect(name).toMatch(/^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])$/);
    expect(new Set(names).size).toBe(2);
  });

  it('are told by nobody without authority, nor in dry run', async () => {
    const { events, settled } = someEvents(false);
    events.stored(moved('proving', 'proven'), PATCHED, []);
    events.held(held('witness', 'kubelet-answers'));
    events.reasoned({ code: 'life-after-proof', node: W1, fencing: ID, sign: 'lease' });
    expect(await settled()).toEqual([]);
  });

  it('tell life after a proof, with the sign', async () => {
    const { events, settled } = someEvents();
    events.reasoned({ code: 'life-after-proof', node: W1, fencing: ID, sign: 'lease' });
    expect(await settled()).toEqual([
      `w1 Warning LifeAfterProof: it lives after it was proven off (lease): its taint is being removed (fencing ${ID})`,
    ]);
  });
});
