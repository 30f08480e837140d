import { describe, expect, it } from 'vitest';
import { trialText } from '../../src/cli/trial-text.ts';
import type { Decision } from '../../src/core/decision.ts';
import { known } from '../../src/core/reading.ts';
import type { RecordNote } from '../../src/ports.ts';
import { type EntryBody, entryOf, joinDecisions, type RecordEntry } from '../../src/record/entry.ts';
import { trialOf } from '../../src/record/reading/trial.ts';
import { anEviction } from '../serve/a-report.ts';
import { BEGAN } from './a-shutdown.ts';

const MINUTE = 60_000;
const T0 = Date.UTC(2026, 0, 31, 12);
/** Minutes since the first entry, by the clock and since the boot. */
const at = (minutes: number, body: EntryBody, { bootId = 'boot', setBy = 0 } = {}): RecordEntry =>
  entryOf({ atWallMs: T0 + (minutes + setBy) * MINUTE, bootId, dry: true }, body);
const note = (minutes: number, said: object, how = {}): RecordEntry =>
  at(minutes, { kind: 'note', note: { atMs: minutes * MINUTE, ...said } as RecordNote }, how);
const decided = (minutes: number, more: object, how = {}): RecordEntry => {
  const decision = { id: 'b-9', atMs: minutes * MINUTE, ...more } as Decision;
  return at(minutes, { kind: 'decision', decision, reasons: [] }, how);
};
const evicted = (minutes: number, id: string, more: object = {}, how = {}): RecordEntry =>
  decided(minutes, { ...anEviction(id), atMs: minutes * MINUTE, ...more }, how);
const dropped = (minutes: number, of: string, because: string): RecordEntry =>
  at(minutes, { kind: 'outcome', outcome: { of, atMs: minutes * MINUTE, kind: 'dropped', because } as never });
const kill = (minutes: number, how = {}) =>
  note(minutes, { kind: 'kernel-oom-kill', count: 1, pods: ['shop/web'] }, how);
const pressure = (minutes: number, status: boolean, how = {}) =>
  decided(minutes, { kind: 'set-condition', condition: 'MemoryPressure', status }, how);
const full = { ...anEviction('b-1').threshold, id: 'nodefs.available/evictionHard', signal: 'nodefs.available' };
const STARTED = note(0, { kind: 'started' });

const trial = (entries: readonly RecordEntry[], since: number | null = null) =>
  trialOf(entries, 0, since === null ? null : T0 + since * MINUTE);
const text = (entries: readonly RecordEntry[], since: number | null = null): string =>
  trialText(trial(entries, since), { directory: 'd', isWhole: true, actedWallMs: null }, (_, said) => said);
const codes = (entries: readonly RecordEntry[], since: number | null = null) =>
  trial(entries, since).advice.map(({ code }) => code);

describe('a trial', () => {
  it('does not count an eviction that would have been dropped before its first signal', () => {
    const out = [STARTED, evicted(1, 'b-1'), dropped(1, 'b-1', 'no-longer-met'), kill(1.5)];
    expect(text(out)).toContain('No pod would have been stopped');
    // Nor would it have prevented anything.
    expect(codes(out)).toEqual(['kernel-first']);
    expect(trial([STARTED, evicted(1, 'b-1'), dropped(1, 'b-1', 'dry-run')]).stops).toMatchObject([{ times: 1 }]);
  });

  it('says which stops depend on a reclaim, which a dry run does not do', () => {
    const reclaim = (minutes: number, id: string) => [
      decided(minutes, { id, kind: 'reclaim', threshold: full }),
      dropped(minutes, id, 'dry-run'),
    ];
    const forDisk = (minutes: number, id: string) => evicted(minutes, id, { threshold: full });
    const once = [STARTED, ...reclaim(1, 'b-1'), forDisk(1, 'b-2')];
    expect(trial(once).stops).toMatchObject([{ times: 1, causes: [{ times: 1, afterReclaim: 1 }] }]);
    expect(text(once)).toContain('1 pod would have been stopped, unless a reclaim had freed enough\n');
    const often = [...once, forDisk(2, 'b-3'), ...reclaim(3, 'b-4'), forDisk(3, 'b-5'), evicted(4, 'b-6')];
    expect(trial(often).stops[0]?.causes).toMatchObject([
      { signal: 'nodefs.available', times: 3, afterReclaim: 2 },
      { signal: 'memory.available', times: 1, afterReclaim: 0 },
    ]);
    expect(text(often)).toContain(
      '1 pod would have been stopped; 2 of the 4 stops unless a reclaim had freed enough\n',
    );
    expect(codes(often)).not.toContain('often');
  });

  it('does not say that no threshold was met if one had been met before, and may be met ever since', () => {
    const before = [STARTED, pressure(1, true), evicted(1, 'b-2')];
    const later = note(9, { kind: 'running', pods: [] });
    expect(trial([...before, later], 5).advice).toEqual([{ code: 'met-before', conditions: ['MemoryPressure'] }]);
    expect(text([...before, later], 5)).toContain('MemoryPressure was true before that time');
    expect(codes([...before, pressure(3, false), later], 5)).toEqual(['nothing-decided']);
    // It ended with the boot.
    expect(codes([...before, note(9, { kind: 'started' }, { bootId: 'next' })], 5)).toEqual(['nothing-decided']);
    expect(codes([...before, later])).toEqual([]);
  });

  it('does not take a shutdown for a threshold that was met', () => {
    const shutdown = note(5, { kind: 'shutdown', fact: BEGAN });
    expect(codes([STARTED, shutdown, decided(5, { kind: 'release-lock', why: 'all-phases-done' })])).toEqual([
      'nothing-decided',
    ]);
  });

  it('does not say of a pod of which not everything was measured that it was within its request', () => {
    const within = (more: object) => {
      const values = [{ by: 'over-request', value: known(false), ...more }];
      return codes([STARTED, evicted(1, 'b-1', { ranking: [{ uid: 'uid-web', values, decidedBy: null }] })]);
    };
    expect([within({}), within({ isAtLeast: true })]).toEqual([['within-request'], []]);
  });

  it('takes only an eviction for memory, before it by the time since the boot, for one that prevents an OOM kill', () => {
    expect(codes([STARTED, evicted(1, 'b-1'), kill(1.9)])).toEqual([]);
    expect(codes([STARTED, evicted(1, 'b-1', { threshold: full }), kill(1.5)])).toEqual(['kernel-first']);
    const back = { setBy: -60 };
    expect(codes([STARTED, evicted(1, 'b-1'), kill(1.9, back)])).toEqual([]);
    expect(codes([STARTED, evicted(61, 'b-1', {}, back), kill(60)])).toEqual(['kernel-first']);
    expect(codes([STARTED, evicted(1, 'b-1'), kill(0.5, { bootId: 'next', setBy: 1 })])).toEqual(['kernel-first']);
  });

  it('does not say that no pod would have been evicted while the threshold of the last eviction may be met ever since', () => {
    const leak = [STARTED, pressure(1, true), evicted(1, 'b-1')];
    expect(codes([...leak, kill(9)])).toEqual([]);
    expect(codes([...leak, pressure(2, false), kill(2.1)])).toEqual(['kernel-first']);
    expect(codes([...leak, pressure(1.5, false), kill(1.9)])).toEqual([]);
    const disk = decided(2, { kind: 'set-condition', condition: 'DiskPressure', status: false });
    expect(codes([...leak, disk, pressure(2, false, { bootId: 'next' }), kill(9)])).toEqual([]);
    const again = [pressure(5, true), evicted(5, 'b-2')];
    expect(codes([...leak, pressure(2, false), kill(4), ...again, kill(9)])).toEqual(['kernel-first']);
    expect(trial([...leak, pressure(2, false), kill(4), ...again, kill(9)]).advice).toMatchObject([{ count: 1 }]);
    // Without a transition period, the record does not show its end.
    expect(codes([STARTED, evicted(1, 'b-1'), kill(9)])).toEqual([]);
  });

  it('names what a stop over a storage limit would also have stopped', () => {
    const { victim } = anEviction('b-1');
    const over = decided(1, { kind: 'evict-over-limit', victim, limit: 'ephemeralpodfs', takesAlong: ['shop/till'] });
    expect(trial([STARTED, over]).stops).toMatchObject([{ takesAlong: ['shop/till'] }]);
  });

  it('says of process IDs what the end of the pod would free, threads too, as far as that was read', () => {
    const pids = { ...anEviction('b-1').threshold, id: 'pid.available/evictionHard', signal: 'pid.available' };
    const atMost = (held: object) => {
      const pod = { podRef: { uid: anEviction('b-1').victim.uid }, process_stats: { process_count: 1 }, ...held };
      const scenario = { steps: [{ summary: { pods: [pod] } }] };
      const seen = at(1, { kind: 'observation', of: ['b-1'], scenario } as never);
      return trial([STARTED, evicted(1, 'b-1', { threshold: pids }), seen]).stops[0]?.causes[0]?.atMost;
    };
    expect([atMost({ pidsHeld: 3_000 }), atMost({})]).toEqual([3_000, 1]);
  });

  it('spans what the clock showed also if it was set back', () => {
    const back = { setBy: -60 };
    const stopped = note(70, { kind: 'stopped', machine: 'stays' });
    const set = [
      STARTED,
      evicted(1, 'b-1'),
      stopped,
      note(75, { kind: 'started' }, back),
      evicted(76, 'b-2', {}, back),
    ];
    expect(text(set)).toContain('from 2026-01-31 12:00:00 UTC to 2026-01-31 13:10:00 UTC: 2 runs');
    expect(text(set)).toContain(
      'The clock was set back: the run before was last recorded at 2026-01-31 13:10:00 UTC, and the next one first at 2026-01-31 12:15:00 UTC. For how long no dry run watched is not known.',
    );
    // The last one is the last in the record.
    expect(trial(set).stops).toMatchObject([{ lastWallMs: T0 + 16 * MINUTE }]);
  });

  it('counts entries that a failing disk changed as damaged, and sums up the others', () => {
    const { threshold: _, ...bare } = anEviction('b-1');
    const damaged = [
      decided(1, { ...bare, thrdshold: full }),
      decided(1, { ...anEviction('b-1'), victim: null }),
      decided(1, { ...anEviction('b-1'), ranking: [null] }),
      decided(1, { kind: 'reclaim', threshold: { signal: 'nodefs' } }),
      note(1, { kind: 'kernel-oom-kill', count: 1 }),
      note(1, { kind: 'finding', finding: null }),
      at(1, { kind: 'outcome', outcome: { of: 'b-2', kind: 'dropped', because: 'dry-run', rungs: 7 } as never }),
    ];
    const bases = [null, {}, { steps: null }, { steps: [] }, { steps: [null] }, { steps: [{ summary: null }] }];
    const seen = bases.map((scenario, i) => at(2, { kind: 'observation', of: [`c-${i}`], scenario } as never));
    const withBase = bases.map((_, i) =>
      evicted(2, `c-${i}`, { victim: { ...anEviction('b').victim, name: `pod-${i}` } }),
    );
    expect(trial([...withBase, ...seen]).stops.map(({ causes }) => causes[0]?.atMost)).toEqual(bases.map(() => null));
    const found = trial([STARTED, ...damaged, evicted(2, 'b-2')]);
    expect(found).toMatchObject({ missing: damaged.length, stops: [{ pod: 'shop/web', times: 1 }] });
  });
});

describe('decisions with what is known of them', () => {
  it('leave out what a failing disk put in place of steps', () => {
    const outcome = (rungs: unknown) =>
      at(1, { kind: 'outcome', outcome: { of: 'b-1', atMs: 1, kind: 'ended', via: 'api', rungs } as never });
    const rung = { atMs: 1, act: 'evict', answer: 'ok' };
    const [joined] = joinDecisions([evicted(1, 'b-1'), outcome({}), outcome([null, rung])]);
    expect(joined?.rungs).toEqual([rung]);
  });
});
