import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decide } from '../../src/core/decide.ts';
import type { CandidateLimit, PodView } from '../../src/core/pod/pod.ts';
import { known } from '../../src/core/reading.ts';
import type { Signal } from '../../src/core/signal.ts';
import { initialState, type State } from '../../src/core/state/state.ts';
import { quantityOfBytes } from '../../src/core/units/quantity.ts';
import { parseDocuments } from '../../src/document/document.ts';
import { captureOf } from '../../src/record/scenarios/capture-of.ts';
import { redactLooks } from '../../src/record/scenarios/redact.ts';
import { scenarioOf } from '../../src/record/scenarios/scenario-of.ts';
import { runEviction } from '../../src/simulate/eviction/run.ts';
import { readEvictionScenario } from '../../src/simulate/eviction/scenario.ts';
import { aConfig, anObservation, aPod, aThreshold } from '../a.ts';

const CAPACITY = 1_000;
const none = { memory: null, ephemeralStorage: null };
const requesting = (bytes: number) => ({
  requests: { memoryBytes: bytes, ephemeralStorageBytes: 0 },
  containers: [
    { name: 'main', kind: 'app', requests: { ...none, memory: quantityOfBytes(bytes, 'binary') }, limits: none },
  ] as const,
});
const hog = aPod({ name: 'hog', workingSetBytes: 900, ...requesting(100) });
const web = aPod({ name: 'web', workingSetBytes: 300, ...requesting(400) });
const hard = aThreshold('memory.available', 100);
const soft = aThreshold('memory.available', 100, { graceMs: 1_000 });
const OWNER = 'lost-too-many';
const ownerKills = [{ ownerKey: OWNER, atMs: 500 }];

/** Two looks, a grace period apart. */
function looksAt(
  list: readonly PodView[],
  threshold = hard,
  { state: rest = {}, signal = 'memory.available' }: { readonly state?: Partial<State>; readonly signal?: Signal } = {},
) {
  const config = { ...aConfig([threshold], { guard: { kills: 1, windowMs: 60_000 } }), isLive: true } as const;
  let state: State = { ...initialState('b'), ...rest };
  const looks = [1_000, 2_000].map((atMs) => {
    const observation = anObservation(atMs, { [signal]: { available: 50, capacity: CAPACITY } }, { pods: known(list) });
    const before = state;
    const { decisions, state: after } = decide(before, observation, config);
    state = after;
    return { observation, config, state: before, decisions, after };
  });
  return { config, looks };
}
type Looks = ReturnType<typeof looksAt>;
const first = (evicted: readonly string[]) => evicted[0] ?? null;
const live = ({ looks }: Looks) =>
  first(looks.flatMap(({ decisions }) => decisions.flatMap((one) => (one.kind === 'evict' ? [one.victim.uid] : []))));
function simulated(scenario: unknown) {
  const [document] = parseDocuments(JSON.stringify(scenario), 'file', 'ours').documents;
  const read = document === undefined ? null : readEvictionScenario(document);
  expect(read?.problems).toEqual([]);
  const looks = read?.scenario ? [...runEviction(read.scenario)] : [];
  return first(
    looks.flatMap(({ decisions }) => decisions.flatMap((one) => (one.kind === 'evict' ? [one.victim.uid] : []))),
  );
}
const ofCapture = ({ looks, config }: Looks) => simulated(captureOf('c', looks, config));
/** Of the record of the decision; null: there is none. */
function ofRecord({ looks, config }: Looks) {
  for (const { decisions, observation, after: state } of looks)
    for (const decision of decisions)
      if (decision.kind === 'evict')
        return simulated(
          scenarioOf({
            ...{ name: 'x', observation, state, config },
            ...{ acted: decision.threshold, victims: [decision.victim.uid] },
          }),
        );
  return null;
}

describe('what simulate decides of a recorded sample is what the agent decided', () => {
  const limits = [
    ...(['budget-refused', 'budgets-refuse', 'kubelet-evicting', 'restart-guard', 'manifest-unread'] as const),
    ...(['not-stoppable', 'unnamed', 'looked-up', 'maybe-empty', null] as const),
  ];
  it.each(limits)('with a pod that is limited by %s, under a hard and under a soft threshold', (limitedBy) => {
    for (const threshold of [hard, soft]) {
      const looks = looksAt(
        [
          { ...hog, limitedBy },
          { ...web, limitedBy: limitedBy === 'manifest-unread' ? limitedBy : null },
        ],
        threshold,
      );
      expect([ofCapture(looks), ofRecord(looks)]).toEqual([live(looks), live(looks)]);
    }
  });

  it('with manifests that are not all read, and nobody to blame', () => {
    const looks = looksAt([{ ...web, limitedBy: 'manifest-unread' }]);
    expect([live(looks), ofCapture(looks)]).toEqual([null, null]);
  });

  it('with a pod that survived its stop and holds what is lacking: none within its request is chosen', () => {
    const looks = looksAt([{ ...hog, isTerminating: true }, web]);
    expect([live(looks), ofCapture(looks)]).toEqual([null, null]);
  });

  it('with a pod whose owner lost too many before: also redacted', () => {
    const looks = looksAt(
      [{ ...hog, ownerKey: OWNER }, aPod({ name: 'big', workingSetBytes: 800, ...requesting(100) })],
      hard,
      { state: { ownerKills } },
    );
    expect([live(looks), ofCapture(looks), ofRecord(looks)]).toEqual(['uid-big', 'uid-big', 'uid-big']);
    const redacted = captureOf('c', redactLooks(looks.looks), looks.config);
    expect(simulated(redacted)).toBe('uid-1');
    expect(JSON.stringify(redacted)).not.toContain(OWNER);
  });

  it('with a pod that holds more process IDs than it has processes', () => {
    const pids = aThreshold('pid.available', 100);
    const unsaid = { why: 'undeclared', priority: true, requests: true } as const;
    const bomb = aPod({ name: 'bomb', processes: 1, unsaid, usage: { pidsHeld: known(800) } });
    const looks = looksAt([bomb, aPod({ name: 'web', processes: 60 })], pids, { signal: 'pid.available' });
    expect([live(looks), ofCapture(looks)]).toEqual(['uid-bomb', 'uid-bomb']);
  });

  const limit = fc.constantFrom<CandidateLimit | null>(null, ...limits);
  const podAt = (i: number): fc.Arbitrary<PodView> =>
    fc
      .record({
        used: fc.integer({ min: 0, max: 200 }),
        held: fc.integer({ min: 0, max: 200 }),
        request: fc.integer({ min: 0, max: 200 }),
        priority: fc.integer({ min: 0, max: 1 }),
        isProtected: fc.boolean(),
        isTerminating: fc.integer({ min: 0, max: 3 }).map((n) => n === 0),
        ownerKey: fc.constantFrom(null, OWNER),
        limitedBy: limit,
      })
      .map(({ used, held, request, ...declared }) =>
        aPod({
          ...{ ...declared, name: `p${i}`, workingSetBytes: used, processes: used, ...requesting(request) },
          usage: { pidsHeld: known(held) },
        }),
      );
  it('with any pods', () => {
    const pods = fc
      .integer({ min: 1, max: 4 })
      .chain((n) => fc.tuple(...Array.from({ length: n }, (_, i) => podAt(i))));
    const signal = fc.constantFrom<Signal>('memory.available', 'pid.available');
    fc.assert(
      fc.property(pods, signal, fc.constantFrom(0, 1_000), (list, of, graceMs) => {
        const looks = looksAt(list, aThreshold(of, 100, { graceMs }), { state: { ownerKills }, signal: of });
        expect([ofCapture(looks), ofRecord(looks)]).toEqual([live(looks), live(looks)]);
      }),
      { numRuns: 200 },
    );
  });
});
