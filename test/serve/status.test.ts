import { describe, expect, it } from 'vitest';
import { painter } from '../../src/cli/print.ts';
import { statusText } from '../../src/cli/status-text.ts';
import type { MetThreshold } from '../../src/core/eviction/threshold.ts';
import { known, unknown } from '../../src/core/reading.ts';
import { initialState, type State } from '../../src/core/state/state.ts';
import { type PodsStatus, statusReport } from '../../src/serve/status.ts';
import { aConfig, anObservation, aPod, aThreshold, GI, MI } from '../a.ts';
import { aContext, aVerdict } from './a-report.ts';

const hard = aThreshold('memory.available', 100 * MI, { minReclaimBytes: 20 * MI });
const soft = aThreshold('memory.available', 200 * MI, { graceMs: 30_000 });
const acted: MetThreshold = {
  id: hard.id,
  signal: 'memory.available',
  isHard: true,
  limit: { nanos: '1', format: 'binary', text: null },
  target: { nanos: '1', format: 'binary', text: null },
  available: 92 * MI,
  sinceMs: 9_000,
};

function report(
  state: Partial<State>,
  observation = anObservation(10_000, { 'memory.available': { available: 92 * MI, capacity: GI } }),
  context = aContext(),
) {
  const verdict = aVerdict({ ...initialState('boot'), ...state });
  return statusReport({ observation, verdict, config: aConfig([hard, soft]), context });
}

describe('the status report', () => {
  it('shows each signal against its thresholds, with the rest of the grace period', () => {
    const { signals } = report({
      firstMetMs: { 'memory.available/evictionHard': 9_000, 'memory.available/evictionSoft': 2_000 },
    });
    expect(signals[0]).toEqual({
      signal: 'memory.available',
      unit: 'bytes',
      available: 92 * MI,
      capacity: GI,
      ageMs: 0,
      unknown: null,
      aliasOf: null,
      thresholds: [
        {
          id: 'memory.available/evictionHard',
          kind: 'hard',
          limit: 100 * MI,
          minReclaim: 20 * MI,
          isMet: true,
          metForMs: 1_000,
          graceMs: 0,
          graceLeftMs: 0,
        },
        {
          id: 'memory.available/evictionSoft',
          kind: 'soft',
          limit: 200 * MI,
          minReclaim: 0,
          isMet: true,
          metForMs: 8_000,
          graceMs: 30_000,
          graceLeftMs: 22_000,
        },
      ],
    });
  });

  it('says why a signal is unknown, and invents no number for it', () => {
    const reading = unknown('timed-out', '/srv', 'statfs gave no answer within 2 s');
    const { signals } = report({}, anObservation(10_000, { 'memory.available': reading }));
    expect(signals[0]).toMatchObject({ available: null, capacity: null, ageMs: null, unknown: reading });
    expect(signals[0]?.thresholds[0]).toMatchObject({ limit: null, minReclaim: null, isMet: false, graceLeftMs: null });
  });

  it('lists the pods in eviction order for the signal that is acted on', () => {
    const pods = known([
      aPod({ name: 'db', workingSetBytes: 100 * MI, requests: { memoryBytes: 200 * MI, ephemeralStorageBytes: 0 } }),
      aPod({ name: 'web', workingSetBytes: 300 * MI }),
    ]);
    const observation = anObservation(10_000, {}, { pods });
    const { pods: shown } = report({}, observation);
    expect(shown).toMatchObject({
      known: true,
      rankedFor: 'memory.available',
      order: [
        { name: 'web', usage: 300 * MI, request: 0, decidedBy: 'over-request' },
        { name: 'db', usage: 100 * MI, request: 200 * MI, decidedBy: null },
      ],
    });
    const pid = { ...acted, id: 'pid.available/evictionHard', signal: 'pid.available' } as const;
    const reclaims = [{ decision: 'b-1', threshold: pid, deadlineMs: 12_000 }];
    expect(report({ reclaims }, observation).pods).toMatchObject({
      rankedFor: 'pid.available',
      order: [{ request: null }, {}],
    });
  });

  it('does not call a pod terminating that a shutdown has not asked to stop yet', () => {
    const pods = known(['front', 'db'].map((name) => aPod({ name, isTerminating: true })));
    const context = aContext({ isToBeStopped: (uid) => uid === 'uid-db' });
    const now = report({}, anObservation(10_000, {}, { pods }), context);
    const rows = now.pods.known ? now.pods.order : [];
    const shown = rows.map(({ name, isTerminating, isToBeStopped }) => [name, isTerminating, isToBeStopped]);
    expect(new Set(shown)).toEqual(
      new Set([
        ['front', true, undefined],
        ['db', false, true],
      ]),
    );
    expect(statusText(now, painter(false))).toMatch(/default\/db .* to be stopped\n/);
  });

  it('names no oom_score_adj of a pod that has ended since it was read', () => {
    const score = (pod: string) => ({ pod, oomScoreAdj: 1000, from: 'qos', others: 0 }) as const;
    const context = aContext({ oomScores: [score('shop/db'), score('shop/job')], notRunning: ['shop/job'] });
    expect(report({}, undefined, context).oomScores.map(({ pod }) => pod)).toEqual(['shop/db']);
  });

  it('says how old the figures from directories are', () => {
    const disk = { logsBytes: 0, rootfsBytes: 0, volumesBytes: MI, logsInodes: 0, rootfsInodes: 0, volumesInodes: 1 };
    const pods = known([
      aPod({ name: 'walked', usage: { disk: known({ ...disk, sampledAtMs: 4_000 }) } }),
      aPod({ name: 'not-walked', usage: { disk: unknown('not-asked', 'disk', 'nobody needed it yet') } }),
    ]);
    const observation = anObservation(10_000, {}, { pods });
    const nodefs = { ...acted, id: 'nodefs.available/evictionHard', signal: 'nodefs.available' } as const;
    const reclaims = [{ decision: 'b-1', threshold: nodefs, deadlineMs: 12_000 }];
    const usages = (shown: PodsStatus) =>
      shown.known ? shown.order.map(({ name, usage, isAtLeast }) => [name, usage, isAtLeast === true]) : null;
    // What nobody has measured is not nothing.
    expect(usages(report({ reclaims }, observation).pods)).toEqual([
      ['walked', MI, false],
      ['not-walked', null, false],
    ]);
    const ages = (shown: PodsStatus) => (shown.known ? shown.order.map((pod) => [pod.name, pod.usageAgeMs]) : null);
    expect(ages(report({ reclaims }, observation).pods)).toEqual([
      ['walked', 6_000],
      ['not-walked', null],
    ]);
    expect(ages(report({}, observation).pods)).toEqual([
      ['not-walked', null],
      ['walked', null],
    ]);
  });

  it('says that pods are not read far from every threshold', () => {
    expect(report({}).pods).toEqual({ known: false, why: 'not read: nothing is near a threshold' });
  });

  it('shows an eviction in progress with its remaining time', () => {
    const victim = { uid: 'u', namespace: 'shop', name: 'web', qos: 'Burstable', priority: 0 } as const;
    const eviction = {
      decision: 'b-7',
      victim,
      decidedMs: 10_000,
      graceEndsMs: 11_000,
      deadlineMs: 21_000,
      settledMs: null,
    };
    const { act } = report({
      act: { kind: 'evicting', evictions: [{ ...eviction, cause: { kind: 'threshold', threshold: acted } }] },
    });
    expect(act).toEqual({
      kind: 'evicting',
      evictions: [
        { decision: 'b-7', pod: 'shop/web', cause: hard.id, graceLeftMs: 1_000, leftMs: 11_000, isSettled: false },
      ],
    });
  });

  it('passes through the socket unchanged', () => {
    const sent = report({ conditionLastMetMs: { MemoryPressure: 10_000 } });
    expect(JSON.parse(JSON.stringify(sent))).toEqual(sent);
    expect(sent.conditions).toEqual({ MemoryPressure: true, DiskPressure: false, PIDPressure: false });
  });
});
