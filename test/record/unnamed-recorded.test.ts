import { describe, expect, it } from 'vitest';
import { decide } from '../../src/core/decide.ts';
import { known } from '../../src/core/reading.ts';
import { initialState } from '../../src/core/state/state.ts';
import { quantityOfBytes } from '../../src/core/units/quantity.ts';
import { parseDocuments } from '../../src/document/document.ts';
import { captureOf } from '../../src/record/scenarios/capture-of.ts';
import { runEviction } from '../../src/simulate/eviction/run.ts';
import { readEvictionScenario } from '../../src/simulate/eviction/scenario.ts';
import { sayReason } from '../../src/words/reason.ts';
import { aConfig, anObservation, aPod, aThreshold, MI } from '../a.ts';

const config = aConfig([aThreshold('memory.available', 100 * MI)]);
const short = { 'memory.available': { available: 50 * MI, capacity: 1_000 * MI } };
const unsaid = { why: 'undeclared', priority: true, requests: true } as const;
const none = { memory: null, ephemeralStorage: null };
const requested = { ...none, memory: quantityOfBytes(200 * MI, 'binary') };
const db = aPod({
  name: 'db',
  workingSetBytes: 100 * MI,
  requests: { memoryBytes: 200 * MI, ephemeralStorageBytes: 0 },
  containers: [{ name: 'main', kind: 'app', requests: requested, limits: none }],
});
const hog = aPod({ name: 'hog', workingSetBytes: 300 * MI, containers: [], unsaid });
const guaranteed = aPod({
  name: 'guaranteed',
  qos: 'Guaranteed',
  workingSetBytes: 300 * MI,
  requests: { memoryBytes: 400 * MI, ephemeralStorageBytes: 0 },
  containers: [],
  unsaid: { ...unsaid, requests: false },
});
const other = aPod({ name: 'other', workingSetBytes: 300 * MI, containers: [], unsaid });

describe('a captured sample with pods that are not declared', () => {
  it.each([
    ['one that nobody has named', [db, { ...hog, namespace: '?', limitedBy: 'unnamed' }], null],
    ['one that the API server is asked for', [db, { ...hog, limitedBy: 'looked-up' }], null],
    ['two of which either may exceed its request', [db, hog, other], null],
    ['one', [db, hog], 'default/hog'],
    ['one within its request, which is its limit', [db, guaranteed], 'default/db'],
    ['one whose request is known to be none', [db, { ...hog, unsaid: { ...unsaid, requests: false } }], 'default/hog'],
  ] as const)('%s: simulate decides as the agent did', (_, pods, victim) => {
    const observation = anObservation(1_000, short, { pods: known(pods) });
    const verdict = decide(initialState('boot'), observation, config);
    const evicted = verdict.decisions.flatMap((decision) =>
      decision.kind === 'evict' ? [`${decision.victim.namespace}/${decision.victim.name}`] : [],
    );
    expect(evicted).toEqual(victim === null ? [] : [victim]);
    const capture = captureOf('c-1', [{ observation, decisions: verdict.decisions }], config);
    const [document] = parseDocuments(JSON.stringify(capture), 'capture', 'ours').documents;
    const read = document === undefined ? null : readEvictionScenario(document);
    expect(read?.problems).toEqual([]);
    const [look] = read?.scenario ? [...runEviction(read.scenario)] : [];
    expect(look?.result.evicted.map(({ pod }) => pod)).toEqual(evicted);
    const textOf = (reasons: typeof verdict.reasons) => reasons.map((reason) => sayReason(reason, (uid) => uid)).at(-1);
    if (victim === null) expect(look === undefined ? null : textOf(look.reasons)).toBe(textOf(verdict.reasons));
  });
});
