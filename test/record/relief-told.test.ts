import { describe, expect, it } from 'vitest';
import { historyText } from '../../src/cli/history-text.ts';
import { painter } from '../../src/cli/print.ts';
import { decide } from '../../src/core/decide.ts';
import type { Decision } from '../../src/core/decision.ts';
import type { DiskRelief, PodView } from '../../src/core/pod/pod.ts';
import { known, type Reading, unknown } from '../../src/core/reading.ts';
import { type Eviction, initialState } from '../../src/core/state/state.ts';
import { parseDocuments } from '../../src/document/document.ts';
import { entryOf, joinDecisions } from '../../src/record/entry.ts';
import { scenarioOf } from '../../src/record/scenarios/scenario-of.ts';
import { runEviction } from '../../src/simulate/eviction/run.ts';
import { readEvictionScenario } from '../../src/simulate/eviction/scenario.ts';
import { aConfig, anObservation, aPod, aThreshold, GI, MI } from '../a.ts';

const hidden = unknown('timed-out', 'disk', 'the walk was cut short');
const nothing = { bytes: known(0), inodes: known(0) };
const relief = (more: Partial<DiskRelief>): Reading<DiskRelief> =>
  known({ scratch: nothing, deletedOpen: nothing, grownLastMinute: nothing, writtenBytes: hidden, ...more });

const large = { ...aPod({ name: 'large', diskBytes: 5 * GI }), diskRelief: relief({}) };
const cut = aPod({ name: 'cut', diskBytes: 2 * GI, workingSetBytes: GI });
const grown: PodView = {
  ...cut,
  diskRelief: relief({ grownLastMinute: { bytes: known(GI), inodes: hidden } }),
  usage: {
    ...cut.usage,
    disk: cut.usage.disk.known ? known({ ...cut.usage.disk.value, isAtLeast: true, isOfFileSystem: true }) : hidden,
  },
};
const unwalked: PodView = { ...aPod({ name: 'unwalked' }), diskRelief: hidden };
const shared = aPod({ name: 'shared', diskBytes: GI });
const linked: PodView = {
  ...shared,
  diskRelief: relief({ unattributed: { bytes: known(GI / 2), inodes: known(1) } }),
  usage: {
    ...shared.usage,
    disk: shared.usage.disk.known
      ? known({ ...shared.usage.disk.value, unattributedBytes: 4 * GI, unattributedInodes: 9 })
      : hidden,
  },
};
const pods = [large, grown, linked, { ...unwalked, usage: { ...unwalked.usage, disk: hidden } }];

const config = aConfig([aThreshold('memory.available', 100 * MI), aThreshold('nodefs.available', 100 * MI)], {
  isLive: true,
});
const observation = anObservation(
  1_000,
  {
    'memory.available': { available: 50 * MI, capacity: 10 * GI },
    'nodefs.available': { available: 50 * MI, capacity: 10 * GI },
  },
  { pods: known(pods), podsFor: 'nodefs.available' },
);
const evictionIn = (decisions: readonly Decision[]) => {
  const decision = decisions.find(({ kind }) => kind === 'evict');
  if (decision?.kind !== 'evict') throw new Error('nobody is evicted');
  return decision;
};
/** For memory a pod of another manifest is waited for already. */
const awaited: Eviction = {
  decision: 'boot-0',
  decidedMs: 990,
  victim: { uid: 'uid-leaker', namespace: 'default', name: 'leaker', qos: 'Burstable', priority: 0 },
  signalledMs: 995,
  killedMs: 995,
  graceEndsMs: 995,
  deadlineMs: 10_995,
  settledMs: null,
  cause: {
    kind: 'threshold',
    threshold: evictionIn(
      decide(initialState('boot'), { ...observation, podsFor: 'memory.available' }, config).decisions,
    ).threshold,
  },
};

describe('a decision about a disk during memory pressure', () => {
  const state = { ...initialState('boot'), act: { kind: 'evicting' as const, evictions: [awaited] } };
  const decision = evictionIn(decide(state, observation, config).decisions);

  it('is re-derived by simulate from the record, with the same ranking and victim', () => {
    expect(decision).toMatchObject({ victim: { name: 'cut' }, differences: ['D14'] });
    const scenario = scenarioOf({ name: 'b-1', observation, config, acted: decision.threshold });
    const [document] = parseDocuments(JSON.stringify(scenario), 'record', 'ours').documents;
    const read = document === undefined ? null : readEvictionScenario(document);
    expect(read?.problems).toEqual([]);
    const [look] = read === null || read.scenario === null ? [] : runEviction(read.scenario);
    const again = evictionIn(look?.decisions ?? []);
    expect(again.victim.name).toBe('cut');
    const values = ({ ranking }: typeof again) => ranking.map((row) => row.values.filter(({ by }) => by !== 'younger'));
    expect(values(again)).toEqual(values(decision));
    expect(again.differences).toEqual(['D14']);
  });

  it('not to evict is re-derived if a pod may free more than is known', () => {
    const some = (bytes: number, more: Partial<DiskRelief> = {}) =>
      relief({ scratch: { bytes: known(bytes), inodes: known(0) }, ...more });
    const small = { ...aPod({ name: 'small', diskBytes: 20 * MI }), diskRelief: some(20 * MI) };
    const open = { ...unwalked, usage: { ...unwalked.usage, disk: hidden }, diskRelief: some(0, { isAtLeast: true }) };
    const short = { 'nodefs.available': { available: 50 * MI, capacity: 10 * GI } };
    const config = aConfig([aThreshold('nodefs.available', 100 * MI)], { isLive: true });
    for (const [priority, outcome] of [
      [0, 'order-unproven'],
      [1, 'small'],
    ] as const) {
      const pods = known([small, { ...open, priority }]);
      const seen = anObservation(1_000, short, { pods, podsFor: 'nodefs.available' });
      const scenario = scenarioOf({ name: 'b-1', observation: seen, config, acted: decision.threshold });
      const [document] = parseDocuments(JSON.stringify(scenario), 'record', 'ours').documents;
      const { scenario: read } = document === undefined ? { scenario: null } : readEvictionScenario(document);
      const [look] = read === null ? [] : runEviction(read);
      const again = look?.decisions.find(({ kind }) => kind === 'evict');
      expect(again?.kind === 'evict' ? again.victim.name : look?.reasons.at(-1)?.code).toBe(outcome);
    }
  });

  it.each([
    ['could not be walked', hidden, 'order-unproven'],
    ['declares no directory', unknown('not-applicable', 'disk', 'it declares no directory'), 'small'],
  ])('is re-derived if a pod that is not known to free anything %s', (_, disk, outcome) => {
    const small = {
      ...aPod({ name: 'small', diskBytes: 20 * MI }),
      diskRelief: relief({ scratch: { bytes: known(20 * MI), inodes: known(0) } }),
    };
    const grownLastMinute = { bytes: disk, inodes: disk };
    const other = { ...unwalked, usage: { ...unwalked.usage, disk }, diskRelief: relief({ grownLastMinute }) };
    const short = { 'nodefs.available': { available: 50 * MI, capacity: 10 * GI } };
    const config = aConfig([aThreshold('nodefs.available', 100 * MI)], { isLive: true });
    const observation = anObservation(1_000, short, { pods: known([small, other]), podsFor: 'nodefs.available' });
    const live = decide(initialState('boot'), observation, config);
    const scenario = scenarioOf({ name: 'b-1', observation, config, acted: decision.threshold });
    const [document] = parseDocuments(JSON.stringify(scenario), 'record', 'ours').documents;
    const { scenario: read } = document === undefined ? { scenario: null } : readEvictionScenario(document);
    const [look] = read === null ? [] : runEviction(read);
    for (const verdict of [live, look]) {
      const evict = verdict?.decisions.find(({ kind }) => kind === 'evict');
      expect(evict?.kind === 'evict' ? evict.victim.name : verdict?.reasons.at(-1)?.code).toBe(outcome);
    }
  });

  it('is shown by history with what is partly known', () => {
    const decisions = joinDecisions([
      entryOf({ atWallMs: 0, bootId: 'boot', dry: false }, { kind: 'decision', decision, reasons: [] }),
    ]);
    const history = { schema: 1, decisions, kernelOomKills: [], shutdowns: [], boots: [] } as const;
    const told = historyText(history, '', painter(false));
    expect(told).toContain('at least 2 GiB');
    expect(told).toMatch(/default\/unwalked +not known +0 +at least 0 B/);
  });
});

describe('a decision about a separate imagefs', () => {
  it('is re-derived by simulate from the record: what a pod has there counts, of whatever kind', () => {
    const on = (name: string, volumesBytes: number, startedAtWallMs: number): PodView => {
      const pod = aPod({ name, diskBytes: volumesBytes, startedAtWallMs });
      const { disk } = pod.usage;
      const here = disk.known ? known({ ...disk.value, isOfFileSystem: true as const }) : disk;
      const grown = { grownLastMinute: { bytes: known(10 * MI), inodes: hidden } };
      return { ...pod, diskRelief: relief(grown), usage: { ...pod.usage, disk: here } };
    };
    const pods = known([on('hog', GI, 1_000), on('newer', MI, 2_000)]);
    const short = { 'imagefs.available': { available: 50 * MI, capacity: 10 * GI } };
    const config = aConfig([aThreshold('imagefs.available', 100 * MI)], { isLive: true });
    const fsLayout = known('imagefs-separate' as const);
    const seen = anObservation(1_000, short, { pods, podsFor: 'imagefs.available', fsLayout });
    const { victim, threshold } = evictionIn(decide(initialState('boot'), seen, config).decisions);
    expect(victim.name).toBe('hog');
    const scenario = scenarioOf({ name: 'b-2', observation: seen, config, acted: threshold });
    const [document] = parseDocuments(JSON.stringify(scenario), 'record', 'ours').documents;
    const { scenario: read } = document === undefined ? { scenario: null } : readEvictionScenario(document);
    const [look] = read === null ? [] : runEviction(read);
    expect(evictionIn(look?.decisions ?? []).victim.name).toBe('hog');
  });
});
