import { describe, expect, it } from 'vitest';
import { decide } from '../../../src/core/decide.ts';
import { explain } from '../../../src/core/explain.ts';
import type { PodView } from '../../../src/core/pod/pod.ts';
import { known, type Reading, unknown } from '../../../src/core/reading.ts';
import type { Signal } from '../../../src/core/signal.ts';
import { initialState } from '../../../src/core/state/state.ts';
import { quantityOfBytes } from '../../../src/core/units/quantity.ts';
import { parseDocuments } from '../../../src/document/document.ts';
import { scenarioOf } from '../../../src/record/scenarios/scenario-of.ts';
import { explainReport } from '../../../src/serve/explain-report.ts';
import { runEviction } from '../../../src/simulate/eviction/run.ts';
import { readEvictionScenario } from '../../../src/simulate/eviction/scenario.ts';
import { sayReason } from '../../../src/words/reason.ts';
import { aConfig, anObservation, aPod, aThreshold, GI, MI } from '../../a.ts';

const request = (mebibytes: number) => ({ memoryBytes: mebibytes * MI, ephemeralStorageBytes: 0 });
/** As its container declares it, for a scenario. */
const declared = (pod: PodView): PodView => {
  const requests = { memory: quantityOfBytes(pod.requests.memoryBytes, 'binary'), ephemeralStorage: null };
  return { ...pod, containers: pod.containers.map((container) => ({ ...container, requests })) };
};
const broken = unknown('malformed', '/web/memory.current', 'empty');
const not = (pod: PodView, usage: { readonly [figure: string]: Reading<number> }): PodView => ({
  ...pod,
  usage: { ...pod.usage, ...usage },
});
/** Whatever it uses. */
const hidden = (pod: PodView): PodView => not(pod, { workingSetBytes: broken });
const web = hidden(aPod({ name: 'web', requests: request(50) }));
/** Within its request, by 10 MiB. */
const db = aPod({ name: 'db', workingSetBytes: 190 * MI, requests: request(200) });
const nameOf = (uid: string): string => uid.replace('uid-', 'default/');

function aLook(pods: readonly PodView[], signal: Signal = 'memory.available', isLive = true) {
  const config = aConfig([aThreshold(signal, 100 * MI)], isLive ? { isLive } : {});
  const short = { [signal]: { available: 95 * MI, capacity: 4 * GI } };
  const observation = anObservation(10_000, short, { pods: known(pods), podsFor: signal });
  const state = initialState('boot');
  const { decisions, reasons, next } = decide(state, observation, config);
  return { state, observation, config, decisions, reasons, next };
}
function chosen(...of: Parameters<typeof aLook>): string | undefined {
  const { decisions, reasons } = aLook(...of);
  const victim = decisions.find(({ kind }) => kind === 'evict');
  return victim?.kind === 'evict' ? victim.victim.name : reasons.at(-1)?.code;
}

describe('a pod whose memory cannot be read (D13)', () => {
  it('may be to blame: no pod is evicted in its place that may come after it', () => {
    const { decisions, reasons, next } = aLook([db, web]);
    expect(decisions.filter(({ kind }) => kind === 'evict')).toEqual([]);
    expect(reasons.at(-1)).toEqual({
      code: 'order-unproven',
      signal: 'memory.available',
      uid: 'uid-db',
      against: 'uid-web',
    });
    expect(reasons.map((reason) => sayReason(reason, nameOf)).at(-1)).toBe(
      'memory.available: no pod is chosen: default/db ranks first, but default/web is not fully measured and may use more',
    );
    expect(next).toMatchObject({ afterMs: 100, pods: 'memory.available' });
  });

  it('saves no pod that is known to exceed its request', () => {
    const over = aPod({ name: 'over', workingSetBytes: 51 * MI, requests: request(50), priority: 9 });
    expect(chosen([db, web, over])).toBe('over');
  });

  it('is evicted if it comes first whatever it uses, and spared if it comes last', () => {
    const larger = { ...db, requests: request(300) };
    expect(chosen([larger, web])).toBe('web');
    expect(chosen([db, { ...web, priority: -1 }])).toBe('web');
    expect(chosen([db, { ...web, isProtected: true }])).toBe('db');
    expect(chosen([db, { ...web, evictFor: ['disk'] }])).toBe('db');
  });

  it('saves a pod with an unknown request, and from a DaemonSet everybody within theirs', () => {
    const unsaid = { why: 'unreadable', priority: false, requests: true } as const;
    expect(chosen([{ ...db, unsaid }])).toBe('db');
    expect(chosen([{ ...db, unsaid }, web])).toBe('order-unproven');
    expect(chosen([db, { ...web, isDaemonSet: true }])).toBe('order-unproven');
  });

  it.each(['unreadable', 'malformed', 'timed-out', 'stale'] as const)('may be to blame if that is %s', (why) => {
    expect(chosen([db, not(web, { workingSetBytes: unknown(why, 'memory.current', '') })])).toBe('order-unproven');
  });

  it('counts as 0 in simulate if its statistics lack the number, as in the kubelet', () => {
    const lacking = not(web, { workingSetBytes: unknown('absent', 'summary', 'not there') });
    expect(chosen([db, lacking], 'memory.available', false)).toBe('db');
  });

  it('is compared by what it uses only if that decides: process IDs by priority first', () => {
    const many = (pod: PodView) => not(pod, { processes: known(40) });
    const uncounted = not(web, { processes: broken });
    expect(chosen([many(db), uncounted], 'pid.available')).toBe('order-unproven');
    expect(chosen([many(db), { ...uncounted, priority: 1 }], 'pid.available')).toBe('db');
    expect(chosen([many(db), web], 'pid.available')).toBe('db');
  });

  it('is explained with the file that cannot be read, and why nobody is chosen, also before memory is short', () => {
    const look = aLook([db, web]);
    expect(explain(look, 'memory.available')).toMatchObject({
      victim: null,
      unproven: { first: { name: 'db' }, against: { name: 'web' } },
      pods: [{ pod: { name: 'db' } }, { pod: { name: 'web' }, usage: broken }],
    });
    const plenty = { 'memory.available': { available: GI, capacity: 4 * GI } };
    const before = { ...look, observation: anObservation(10_000, plenty, { pods: known([db, web]) }) };
    const source = { kind: 'live', node: 'n', mode: 'standalone', dryRun: false, atWallMs: 0 } as const;
    const report = explainReport({ ...before, decisions: [], reasons: [] }, source, { signal: null, of: null });
    expect(report.unproven).toMatch(
      /no pod is chosen: default\/db ranks first, but default\/web is not fully measured/,
    );
  });

  it('has no say about the message of its own eviction', () => {
    const { decisions } = aLook([web]);
    expect(decisions).toMatchObject([{ kind: 'set-condition' }, { victim: { name: 'web' }, annotations: {} }]);
  });
});

describe('a pod of which it is not known whether it has processes (D13)', () => {
  const maybeEmpty = (pod: PodView): PodView => ({ ...pod, limitedBy: 'maybe-empty' });
  const using = (mebibytes: number) =>
    maybeEmpty(aPod({ name: 'web', workingSetBytes: mebibytes * MI, requests: request(200) }));

  it('is not evicted, and no pod within its request in its place', () => {
    const over = aPod({ name: 'over', workingSetBytes: 51 * MI, requests: request(50), priority: 9 });
    expect(chosen([db, using(900)])).toBe('order-unproven');
    expect(chosen([db, using(195)])).toBe('order-unproven');
    expect(chosen([db, maybeEmpty(web)])).toBe('order-unproven');
    expect(chosen([db, using(900), over])).toBe('over');
  });

  it('is named as such, whether its usage is known or not', () => {
    for (const pod of [using(900), maybeEmpty(web)]) {
      const said = aLook([db, pod]).reasons.map((reason) => sayReason(reason, nameOf));
      expect(said.at(-1)).toBe(
        'memory.available: no pod is chosen: default/web may come before default/db, but it is not known whether it has processes',
      );
    }
  });

  it('saves no pod that is known to rank first', () => {
    expect(chosen([db, using(185)])).toBe('db');
    expect(chosen([db, { ...maybeEmpty(web), isProtected: true }])).toBe('db');
  });
});

describe('a decision beside such a pod', () => {
  it.each([
    ['an eviction', [aPod({ name: 'over', workingSetBytes: 51 * MI }), web], 'over'],
    ['none', [db, web], 'order-unproven'],
    ['none', [db, { ...web, limitedBy: 'maybe-empty' as const }], 'order-unproven'],
    ['an eviction', [db, { ...db, name: 'api', uid: 'uid-api', limitedBy: 'maybe-empty' as const, priority: 1 }], 'db'],
  ])('%s is re-derived by simulate from the record', (_, pods, outcome) => {
    const { observation, config, decisions } = aLook(pods.map(declared));
    expect(chosen(pods)).toBe(outcome);
    const evicted = decisions.find(({ kind }) => kind === 'evict');
    const acted = evicted?.kind === 'evict' ? evicted.threshold : null;
    const scenario = scenarioOf({ name: 'b-1', observation, config, acted });
    const [document] = parseDocuments(JSON.stringify(scenario), 'record', 'ours').documents;
    const read = document === undefined ? null : readEvictionScenario(document);
    expect(read?.problems).toEqual([]);
    const [look] = read === null || read.scenario === null ? [] : runEviction(read.scenario);
    const again = look?.decisions.find(({ kind }) => kind === 'evict');
    expect(again?.kind === 'evict' ? again.victim.name : look?.reasons.at(-1)?.code).toBe(outcome);
  });
});
