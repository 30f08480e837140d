import { describe, expect, it } from 'vitest';
import type { Decision } from '../../src/core/decision.ts';
import type { Outcome } from '../../src/core/outcome.ts';
import { known, unknown } from '../../src/core/reading.ts';
import { createCounters } from '../../src/daemon/counters.ts';
import type { RecordNote, ShutdownFact } from '../../src/ports.ts';
import type { EntryBody } from '../../src/record/entry.ts';
import { anEviction, ended } from '../serve/a-report.ts';

function counting() {
  const counters = createCounters(5);
  const entry = (body: EntryBody, atWallMs = 0): void =>
    counters.recorded({ schema: 1, atWallMs, bootId: 'b', dry: false, ...body });
  const note = (body: RecordNote, atWallMs?: number): void => entry({ kind: 'note', note: body }, atWallMs);
  return {
    counters,
    decided: (decision: Decision): void => entry({ kind: 'decision', decision, reasons: [] }),
    cameOut: (outcome: Outcome): void => entry({ kind: 'outcome', outcome }),
    note,
    began: (of: string, stopBeganAtMs: number): void =>
      note({ kind: 'evidence', of, stopBeganAtMs, largestProcesses: known([]), podStatus: {} as never }),
    shutdown: (fact: ShutdownFact, atWallMs: number): void => note({ kind: 'shutdown', atMs: 0, fact }, atWallMs),
  };
}
const limited = {
  id: 'b-2',
  atMs: 0,
  kind: 'evict-over-limit',
  victim: anEviction('x').victim,
  limit: 'emptydirfs',
  graceSeconds: 1,
  message: '',
} as const;

describe('what is counted', () => {
  it('is an eviction once its pod has ended, by signal and kind, with its duration and what was freed', () => {
    const { counters, decided, began, cameOut } = counting();
    decided(anEviction('b-1'));
    began('b-1', 1_003);
    expect(counters.now().evictions).toEqual([]);
    cameOut({
      of: 'b-1',
      atMs: 1_038,
      kind: 'ended',
      via: 'sigkill',
      releasedBytes: known(290),
      emptied: { freedBytes: known(7), problem: null },
    });
    decided(limited);
    cameOut({ of: 'b-2', atMs: 9, kind: 'ended', via: 'sigterm', releasedBytes: unknown('absent', 'x', 'y') });
    decided({ ...limited, id: 'b-3' });
    began('b-3', 10);
    cameOut({
      ...{ of: 'b-3', atMs: 90_000, kind: 'ended', via: 'sigkill', releasedBytes: unknown('absent', 'x', 'y') },
      isNoticedLater: true,
    });
    const { evictions, evictionTimes, reclaimedBytes } = counters.now();
    expect(evictions).toEqual([
      { signal: 'memory.available', kind: 'hard', count: 1 },
      { signal: 'emptydirfs.limit', kind: 'hard', count: 2 },
    ]);
    // Nobody knows when the second one began, and the third one ended.
    expect([evictionTimes.count, evictionTimes.sumMs]).toEqual([1, 35]);
    expect(evictionTimes.buckets.find(({ mostMs }) => mostMs === 25)?.count).toBe(0);
    expect(evictionTimes.buckets.find(({ mostMs }) => mostMs === 50)?.count).toBe(1);
    expect(reclaimedBytes).toEqual({ eviction: 290, reclaim: 0, scratch: 7 });
  });
  it.each<Outcome>([
    { of: 'b-1', atMs: 1, kind: 'dropped', because: 'dry-run' },
    { of: 'b-1', atMs: 1, kind: 'dropped', because: 'no-longer-met' },
    { of: 'b-1', atMs: 1, kind: 'survived', left: [], detail: '' },
    { of: 'b-1', atMs: 1, kind: 'unknown', detail: 'the API server is away' },
    { of: 'b-9', atMs: 1, kind: 'ended', via: 'sigkill', releasedBytes: known(1) },
  ])('does not count an eviction that ended nobody: %j', (outcome) => {
    const { counters, decided, cameOut } = counting();
    decided(anEviction('b-1'));
    cameOut(outcome);
    expect(counters.now()).toMatchObject({ evictions: [], reclaimedBytes: { eviction: 0 } });
  });
  it.each<Outcome>([
    { of: 'b-1', atMs: 1_020, kind: 'unknown', detail: 'the API server is away' },
    { of: 'b-1', atMs: 1_020, kind: 'survived', left: [], detail: 'it is in state D' },
  ])('is an eviction once it is known to be one, after %j', (first) => {
    const { counters, decided, began, cameOut } = counting();
    decided(anEviction('b-1'));
    began('b-1', 1_000);
    cameOut(first);
    cameOut({ of: 'b-1', atMs: 1_038, kind: 'ended', via: 'api', releasedBytes: known(290) });
    const { evictions, evictionTimes } = counters.now();
    expect([evictions.map(({ count }) => count), evictionTimes.sumMs]).toEqual([[1], 38]);
  });
  it('is an eviction once, even if an earlier run or earlier parts began it', () => {
    const { counters, cameOut } = counting();
    const { victim, threshold } = anEviction('b-1');
    const eviction = {
      decision: 'b-1',
      decidedMs: 0,
      victim,
      signalledMs: 1_000,
      graceEndsMs: 0,
      deadlineMs: 0,
      settledMs: null,
      cause: { kind: 'threshold', threshold },
    } as const;
    counters.resumed([eviction]);
    counters.resumed([eviction]);
    cameOut(ended('b-1'));
    cameOut(ended('b-1'));
    const { evictions, evictionTimes } = counters.now();
    expect([evictions.map(({ count }) => count), evictionTimes.sumMs]).toEqual([[1], 38]);
  });
  it('is what a reclaim frees in bytes, not in inodes', () => {
    const { counters, decided, cameOut } = counting();
    const { threshold } = anEviction('x');
    decided({ id: 'b-1', atMs: 0, kind: 'reclaim', threshold: { ...threshold, signal: 'nodefs.available' } });
    decided({ id: 'b-2', atMs: 0, kind: 'reclaim', threshold: { ...threshold, signal: 'nodefs.inodesFree' } });
    cameOut({ of: 'b-1', atMs: 0, kind: 'reclaimed', freed: known(100) });
    cameOut({ of: 'b-2', atMs: 0, kind: 'reclaimed', freed: known(40) });
    expect(counters.now().reclaimedBytes.reclaim).toBe(100);
  });
  it('are the processes that the kernel killed', () => {
    const { counters, note } = counting();
    note({ kind: 'kernel-oom-kill', atMs: 0, count: 3, pods: [] });
    note({ kind: 'kernel-oom-kill', atMs: 0, count: 1, pods: [] });
    expect(counters.now().kernelOomKills).toBe(4);
  });
  it('is the last shutdown: of an earlier boot, until one begins', () => {
    const { counters, shutdown } = counting();
    const began = { what: 'began', tier: 'logind', type: null, phases: [], grantedMs: 1, limitMs: null } as const;
    expect(counters.now().shutdown).toBeNull();
    counters.lastShutdown({ startWallMs: 1, endWallMs: 2 });
    expect(counters.now().shutdown).toEqual({ startWallMs: 1, endWallMs: 2 });
    shutdown(began, 10);
    counters.lastShutdown({ startWallMs: 1, endWallMs: 2 });
    expect(counters.now().shutdown).toEqual({ startWallMs: 10, endWallMs: null });
    shutdown({ ...began, tier: 'stop', isSecond: true }, 15);
    shutdown({ what: 'released', why: 'all-phases-done' }, 20);
    expect(counters.now().shutdown).toEqual({ startWallMs: 10, endWallMs: 20 });
  });
});
