import type { Decision } from '../../src/core/decision.ts';
import { known } from '../../src/core/reading.ts';
import type { RecordNote, ShutdownFact } from '../../src/ports.ts';
import { type EntryBody, entryOf, type RecordEntry } from '../../src/record/entry.ts';

export const BEGAN_WALL_MS = Date.UTC(2026, 0, 31, 12);

type Turn = Pick<Extract<Decision, { kind: 'stop-for-shutdown' }>, 'endsMs' | 'chain'>;
type Via = 'sigterm' | 'stop-unit' | 'stop-timeout' | 'oom-kill' | 'sigkill' | 'cgroup.kill';

/** Entries of one boot: its clock began at BEGAN_WALL_MS plus `bootWallMs`. */
export function aBoot(bootId: string, { bootWallMs = 0, dry = false } = {}) {
  const at = (atMs: number, body: EntryBody): RecordEntry =>
    entryOf({ atWallMs: BEGAN_WALL_MS + bootWallMs + atMs, bootId, dry }, body);
  const note = (given: RecordNote & { readonly atMs: number }): RecordEntry =>
    at(given.atMs, { kind: 'note', note: given });
  return {
    started: (atMs: number) => note({ kind: 'started', atMs }),
    stopped: (atMs: number, machine: 'stays' | 'goes-down') => note({ kind: 'stopped', atMs, machine }),
    running: (atMs: number, ...pods: readonly string[]) => note({ kind: 'running', atMs, pods }),
    fact: (atMs: number, fact: ShutdownFact) => note({ kind: 'shutdown', atMs, fact }),
    stop: (atMs: number, id: string, name: string, phase: number, graceSeconds = 20, turn: Turn = {}) =>
      at(atMs, {
        kind: 'decision',
        decision: {
          id,
          atMs,
          kind: 'stop-for-shutdown',
          phase,
          graceSeconds,
          ...turn,
          victim: { uid: `uid-${name}`, namespace: 'shop', name, qos: 'Burstable', priority: 0 },
        },
        reasons: [],
      }),
    lock: (atMs: number, id: string, kind: 'take-lock' | 'release-lock' | 'undo-stops') =>
      at(atMs, {
        kind: 'decision',
        decision: kind === 'release-lock' ? { id, atMs, kind, why: 'all-phases-done' } : { id, atMs, kind },
        reasons: [],
      }),
    ended: (atMs: number, of: string, via: Via = 'sigterm', toldMs?: number | null) => {
      const told = toldMs === undefined ? {} : { toldMs };
      return at(atMs, { kind: 'outcome', outcome: { of, atMs, kind: 'ended', via, releasedBytes: known(0), ...told } });
    },
    dropped: (atMs: number, of: string, because: 'not-deleted' | 'gone') =>
      at(atMs, { kind: 'outcome', outcome: { of, atMs, kind: 'dropped', because } }),
    survived: (atMs: number, of: string) =>
      at(atMs, {
        kind: 'outcome',
        outcome: {
          of,
          atMs,
          kind: 'survived',
          left: [{ pid: 7, name: 'io', rssBytes: 1 }],
          detail: 'in uninterruptible sleep',
        },
      }),
  };
}

/** Two phases, 20 s and 10 s, of which logind granted all. */
export const BEGAN: Extract<ShutdownFact, { what: 'began' }> = {
  what: 'began',
  tier: 'logind',
  type: 'reboot',
  phases: [
    { fromPriority: 0, periodSeconds: 20 },
    { fromPriority: 2_000_000_000, periodSeconds: 10 },
  ],
  grantedMs: 32_000,
  limitMs: null,
};

export const phase = (number: number, ...pods: readonly string[]): ShutdownFact => ({
  what: 'phase',
  phase: number,
  periodMs: number === 1 ? 20_000 : 10_000,
  wantedMs: number === 1 ? 20_000 : 10_000,
  pods,
});

export const over = (
  number: number,
  tookMs: number,
  by: 'done' | 'period' | 'cancelled' = 'done',
  ...running: readonly string[]
): ShutdownFact => ({ what: 'phase-over', phase: number, tookMs, by, running });

/**
 * Began at 100 s: shop/web ends by itself after 2.5 s, shop/db is killed late, at 20.1 s; shop/dns ends in phase 2;
 * released at 122.5 s. The decisions of a look stand before what is noted of it, as in a real record.
 */
export function aWholeShutdown(boot: ReturnType<typeof aBoot>): readonly RecordEntry[] {
  return [
    boot.stop(100_000, 'b-1', 'web', 1),
    boot.stop(100_000, 'b-2', 'db', 1),
    boot.fact(100_000, BEGAN),
    boot.fact(100_000, phase(1, 'shop/web', 'shop/db')),
    boot.ended(102_500, 'b-1', 'stop-unit'),
    boot.stop(120_000, 'b-3', 'dns', 2, 10),
    boot.fact(120_000, over(1, 20_000, 'period', 'shop/db')),
    boot.fact(120_000, phase(2, 'shop/dns')),
    boot.ended(120_100, 'b-2', 'cgroup.kill'),
    boot.ended(122_500, 'b-3'),
    boot.lock(122_500, 'b-4', 'release-lock'),
    boot.fact(122_500, over(2, 2_500)),
    boot.fact(122_500, { what: 'released', why: 'all-phases-done' }),
  ];
}
