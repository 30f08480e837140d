import { describe, expect, it } from 'vitest';
import type { Decision } from '../../src/core/decision.ts';
import type { Outcome } from '../../src/core/outcome.ts';
import { unknown } from '../../src/core/reading.ts';
import { type EntryBody, entryOf, joinDecisions, parseEntry } from '../../src/record/entry.ts';
import { observedStops } from '../../src/record/reading/observed-stops.ts';
import { anEviction } from '../serve/a-report.ts';

type Via = Extract<Outcome, { kind: 'ended' }>['via'];
const victim = { uid: 'uid-web', namespace: 'shop', name: 'web', qos: 'Burstable', priority: 0 } as const;
const releasedBytes = unknown('absent', 'test', 'nobody looked');

function aStop(id: string, graceSeconds: number): Decision {
  return { id, atMs: 1_000, kind: 'stop-for-shutdown', victim, phase: 1, graceSeconds };
}

/** Each stop with when it ended, in ms after the decision, and how. */
function seen(
  stops: readonly (readonly [Decision, number, Via | 'noticed' | 'survived' | 'dropped' | null])[],
  dry = false,
  bound = {},
) {
  const bodies = stops.flatMap(([decision, tookMs, how]): EntryBody[] => {
    const of = decision.id;
    const atMs = decision.atMs + tookMs;
    const decided: EntryBody = { kind: 'decision', decision, reasons: [] };
    if (how === null) return [decided];
    if (how === 'survived')
      return [decided, { kind: 'outcome', outcome: { of, atMs, kind: how, left: [], detail: '' } }];
    if (how === 'dropped') return [decided, { kind: 'outcome', outcome: { of, atMs, kind: how, because: 'gone' } }];
    const ended = { of, atMs, kind: 'ended', releasedBytes } as const;
    if (how === 'noticed')
      return [decided, { kind: 'outcome', outcome: { ...ended, via: 'sigterm', isNoticedLater: true } }];
    return [decided, { kind: 'outcome', outcome: { ...ended, via: how } }];
  });
  const entries = bodies.map((body) => entryOf({ atWallMs: 0, bootId: 'boot', dry }, body));
  return observedStops(joinDecisions(entries), [{ uid: 'uid-web', ...bound }]).get('uid-web');
}

describe('the observed time that a pod takes to stop', () => {
  it('is the longest of its last five stops', () => {
    const stops = [9_000, 1_000, 4_000, 2_000, 3_000, 500].map(
      (tookMs, i) => [aStop(`b-${i}`, 20), tookMs, 'stop-unit'] as const,
    );
    expect(seen(stops)).toEqual({ stops: 5, endedMs: 4_000, unfinishedMs: null });
  });

  it('is only known to exceed its grace period if it had to be killed', () => {
    expect(seen([[aStop('b-1', 20), 20_030, 'cgroup.kill']])).toEqual({
      stops: 1,
      endedMs: null,
      unfinishedMs: 20_000,
    });
    expect(seen([[aStop('b-1', 20), 30_000, 'survived']])?.unfinishedMs).toBe(20_000);
    expect(seen([[aStop('b-1', 0), 2_010, 'sigkill']])?.unfinishedMs).toBe(2_000);
  });

  it('is not known of a stop whose end no agent saw', () => {
    expect(seen([[aStop('b-1', 20), 7_000, 'noticed']])).toBeUndefined();
  });

  it('counts the time that it got if its grace period was cut', () => {
    expect(seen([[aStop('b-1', 20), 7_000, 'sigkill']])?.unfinishedMs).toBe(7_000);
  });

  it('is unknown of a pod that waited for others, if it is not known when it was asked', () => {
    const chain = { after: ['uid-front'], beforeSeconds: 5, restSeconds: 20 };
    expect(seen([[{ ...aStop('b-1', 20), chain } as Decision, 7_000, 'stop-unit']])).toBeUndefined();
  });

  it('is not the time after which the kernel killed in it', () => {
    expect(seen([[aStop('b-1', 20), 7_000, 'oom-kill']])).toEqual({ stops: 1, endedMs: null, unfinishedMs: 7_000 });
  });

  it('is unknown from an immediate kill, a stop without a known end, and a dry run', () => {
    expect(seen([[anEviction('b-1'), 40, 'sigkill']])).toBeUndefined();
    expect(seen([[aStop('b-1', 20), 0, null]])).toBeUndefined();
    expect(seen([[aStop('b-1', 20), 10, 'dropped']])).toBeUndefined();
    expect(seen([[aStop('b-1', 20), 10, 'sigterm']], true)).toBeUndefined();
  });

  it('is that of what the pod is bound to now, also if its manifest named another unit before', () => {
    const of = (id: string, boundTo: string) => ({ ...aStop(id, 20), victim: { ...victim, boundTo } }) as Decision;
    const stops = [
      [of('b-1', 'unit db.service'), 9_000, 'stop-unit'],
      [of('b-2', 'unit web.service'), 500, 'stop-unit'],
    ] as const;
    const seenOf = (boundTo: string) => seen(stops, false, { boundTo });
    expect(seenOf('unit db.service')).toEqual({ stops: 1, endedMs: 9_000, unfinishedMs: null });
    expect(seenOf('unit other.service')).toBeUndefined();
    expect(seen(stops)).toBeUndefined();
  });

  it('survives an entry that a failing disk changed', () => {
    const { threshold: _, ...damaged } = anEviction('b-1');
    const entries = [damaged, { ...aStop('b-2', 20), graceSeconds: 'x' }].map((decision) => ({
      ...{ schema: 1, atWallMs: 0, bootId: 'boot', dry: false, kind: 'decision', reasons: [] },
      decision,
    }));
    const ends = ['b-1', 'b-2', 'b-3'].map((of) => ({
      ...{ schema: 1, atWallMs: 0, bootId: 'boot', dry: false, kind: 'outcome' },
      outcome: { of, atMs: 4_000, kind: 'ended', via: of === 'b-3' ? 'sigterm' : 'sigkill' },
    }));
    const good = entryOf(
      { atWallMs: 0, bootId: 'boot', dry: false },
      { kind: 'decision', decision: aStop('b-3', 20), reasons: [] },
    );
    const read = [...entries, ...ends].map((entry) => parseEntry(JSON.stringify(entry)));
    const records = joinDecisions([good, ...read.filter((entry) => entry !== null)]);
    expect(records).toHaveLength(3);
    expect(observedStops(records, [{ uid: 'uid-web' }]).get('uid-web')).toEqual({
      stops: 1,
      endedMs: 3_000,
      unfinishedMs: null,
    });
  });

  it('is measured from the first signal of an eviction', () => {
    const { threshold, ...rest } = anEviction('b-1');
    const soft = { ...rest, threshold: { ...threshold, isHard: false }, graceSeconds: 30 };
    const entries: EntryBody[] = [
      { kind: 'decision', decision: soft, reasons: [] },
      {
        kind: 'note',
        note: {
          kind: 'evidence',
          of: 'b-1',
          stopBeganAtMs: 1_900,
          largestProcesses: unknown('timed-out', 'test', ''),
          podStatus: { phase: 'Failed', reason: 'Evicted', message: '', conditions: [] },
        },
      },
      { kind: 'outcome', outcome: { of: 'b-1', atMs: 2_000, kind: 'ended', via: 'sigterm', releasedBytes } },
    ];
    const records = joinDecisions(entries.map((body) => entryOf({ atWallMs: 0, bootId: 'boot', dry: false }, body)));
    expect(observedStops(records, [{ uid: 'uid-web' }]).get('uid-web')).toEqual({
      stops: 1,
      endedMs: 100,
      unfinishedMs: null,
    });
  });
});
