import { describe, expect, it } from 'vitest';
import type { Sample } from '../../bench/soak/agent.ts';
import { barsOfReal, barsOfVirtual, slopeMiB } from '../../bench/soak/bars.ts';
import type { RealSoak } from '../../bench/soak/real.ts';
import { soakVirtually, type VirtualSoak } from '../../bench/soak/virtual.ts';
import type { RecordEntry } from '../../src/record/entry.ts';

const SHORT = { hours: 0.3, seed: 7, pods: 30 };

/** The first eviction with a ranking of several says what `change` makes of it. */
function doctoring(change: (entry: Evict) => Partial<Evict['decision']> | Pick<Evict, 'reasons'>) {
  let isDone = false;
  return (entry: RecordEntry): RecordEntry => {
    if (isDone || !isEviction(entry) || entry.decision.ranking.length < 2) return entry;
    isDone = true;
    const changed = change(entry);
    return 'reasons' in changed ? { ...entry, ...changed } : { ...entry, decision: { ...entry.decision, ...changed } };
  };
}
type Decided = Extract<RecordEntry, { kind: 'decision' }>;
type Evict = Decided & { readonly decision: Extract<Decided['decision'], { kind: 'evict' }> };
const isEviction = (entry: RecordEntry): entry is Evict => entry.kind === 'decision' && entry.decision.kind === 'evict';

describe('a soak in virtual time', () => {
  it('re-derives every decision identically', async () => {
    const soak = await soakVirtually(SHORT);
    expect(soak.problems).toEqual([]);
    expect(soak.decisions['evict']).toBeGreaterThan(5);
    expect(soak.replayed).toBe(soak.decisions['evict']);
    expect(barsOfVirtual(soak).filter(({ holds }) => holds === false)).toEqual([]);
  });

  it('is the same for the same seed', async () => {
    const facts = async (seed: number): Promise<unknown> => {
      const { looks, decisions, outcomes, arrivals } = await soakVirtually({ hours: 0.1, seed, pods: 30 });
      return { looks, decisions, outcomes, arrivals };
    };
    expect(await facts(3)).toEqual(await facts(3));
    expect(await facts(3)).not.toEqual(await facts(4));
  });

  it.each([
    [
      'another victim',
      doctoring(({ decision }) => ({ victim: { ...decision.victim, name: 'somebody', uid: 'uid-else' } })),
      /evicted \w+\/somebody for [\w.]+, simulate \w+\/pod-\d+ for/,
    ],
    [
      'another ranking',
      doctoring(({ decision }) => ({ ranking: decision.ranking.toReversed() })),
      /the record ranks .*; simulate ranks /,
    ],
    [
      'a pod passed over by a guard that had no cause to',
      doctoring(({ decision, reasons }) => ({
        reasons: [...reasons, { code: 'passed-over', uid: decision.victim.uid, because: 'guard' }],
      })),
      /was passed over by the guard, and its owner has not lost so many/,
    ],
    [
      'a pod passed over as ending that nobody ends',
      doctoring(({ decision, reasons }) => ({
        reasons: [...reasons, { code: 'passed-over', uid: decision.victim.uid, because: 'terminating' }],
      })),
      /was passed over as terminating, and no earlier decision ends it/,
    ],
    [
      'an outcome of no decision',
      (entry: RecordEntry): RecordEntry =>
        entry.kind === 'outcome' ? { ...entry, outcome: { ...entry.outcome, of: 'virtual-0' } } : entry,
      /the record has an outcome of virtual-0/,
    ],
  ])('finds a record with %s', async (_, doctored, sentence) => {
    const { problems } = await soakVirtually({ ...SHORT, doctored });
    expect(problems.join('\n')).toMatch(sentence);
  });
});

const sample = (minute: number, over: Partial<Sample> = {}): Sample => ({
  minute,
  rssKiB: 60_000,
  anonKiB: 20_000,
  descriptors: 40,
  threads: 11,
  children: 0,
  cgroups: 30,
  stateBytes: minute * 100_000,
  runtimeBytes: 2_000,
  runtimeFiles: 3,
  cpuSeconds: minute,
  load: 1,
  ...over,
});
function real(over: Partial<RealSoak>, sampleAt: (minute: number) => Partial<Sample> = () => ({})): RealSoak {
  const rest = { restarts: 0, replacedPods: 0, reloads: 0, asks: 0, expectedVictims: 4, kernelOomKills: 0 };
  const on = { cpu: '', cores: 2, memoryGiB: 1, kernel: '', node: '', commit: '', loadBefore: 0, at: '' };
  const samples = Array.from({ length: 60 }, (_, minute) => sample(minute, sampleAt(minute)));
  const counts = { events: {}, decisions: { evict: 4 }, outcomes: { ended: 4 }, replayed: 4 };
  const run = { seed: 1, minutesAsked: 60, minutes: 60, isDone: true, problems: [] };
  return { on, ...run, ...rest, ...counts, samples, ...over };
}
const failed = (soak: RealSoak): readonly string[] =>
  barsOfReal(soak).flatMap(({ name, holds }) => (holds === false ? [name.replace('real: ', '')] : []));

describe('a soak on real cgroups', () => {
  it('holds if nothing grows, even if the locks are unknown', () => {
    expect(failed(real({}))).toEqual([]);
    expect(barsOfReal(real({})).filter(({ holds }) => holds === null)).toMatchObject([{ name: 'real: locks left' }]);
  });

  it.each([
    ['growth of memory', (minute: number) => ({ rssKiB: 60_000 + minute * 100 })],
    ['growth of anonymous memory', (minute: number) => ({ anonKiB: 20_000 + minute * 50 })],
    ['more descriptors', (minute: number) => ({ descriptors: 40 + Math.floor(minute / 10) })],
    ['more threads', (minute: number) => ({ threads: 11 + Math.floor(minute / 50) })],
    ['more children', (minute: number) => ({ children: Math.floor(minute / 50) })],
    ['more cgroups', (minute: number) => ({ cgroups: 30 + Math.floor(minute / 50) })],
    ['more files of the state', (minute: number) => ({ runtimeFiles: 3 + Math.floor(minute / 50) })],
  ])('fails on %s', (name, sampleAt) => {
    expect(failed(real({}, sampleAt))).toEqual([expect.stringContaining(name)]);
  });

  it.each([
    ['mistakes', { problems: ['wrong victim'] }],
    ['derived again', { replayed: 3 }],
    ['kills by the kernel', { kernelOomKills: 1 }],
    ['restarts', { restarts: 1 }],
  ])('fails on %s', (name, over) => {
    expect(failed(real(over))).toEqual([expect.stringContaining(name)]);
  });

  it('says nothing about growth after a few minutes', () => {
    const { samples } = real({}, (minute) => ({ rssKiB: 60_000 + minute * 5_000 }));
    const bars = barsOfReal(real({ samples: samples.slice(0, 10) }));
    expect(bars.find(({ name }) => name.includes('growth of memory'))?.holds).toBeNull();
  });

  it('has a slope in MiB per hour', () => {
    expect(slopeMiB(real({}, (minute) => ({ rssKiB: 60_000 + minute * 1024 })).samples)).toBeCloseTo(60);
  });
});

it('fails for a heap that grows over 24 virtual hours', async () => {
  const soak: VirtualSoak = { ...(await soakVirtually({ hours: 0.1, seed: 1, pods: 5 })), hours: 24, heapGrowth: 0.06 };
  expect(barsOfVirtual(soak).find(({ name }) => name.includes('heap'))?.holds).toBe(false);
});
