import { describe, expect, it } from 'vitest';
import type { MetThreshold } from '../../../src/core/eviction/threshold.ts';
import { graceLeftMs, settleEvictions } from '../../../src/core/eviction/under-way.ts';
import type { Heard, Outcome } from '../../../src/core/outcome.ts';
import { known } from '../../../src/core/reading.ts';
import type { Signal } from '../../../src/core/signal.ts';
import { readState } from '../../../src/core/state/read.ts';
import { type Eviction, initialState, type State } from '../../../src/core/state/state.ts';
import { quantityOfBytes } from '../../../src/core/units/quantity.ts';
import { anObservation, MI } from '../../a.ts';

const met = (signal: Signal): MetThreshold => ({
  id: `${signal}/evictionHard`,
  signal,
  isHard: true,
  limit: quantityOfBytes(100 * MI, 'binary'),
  target: quantityOfBytes(100 * MI, 'binary'),
  available: 50 * MI,
  sinceMs: 0,
});
const byThreshold = (signal: Signal = 'memory.available'): Eviction['cause'] => ({
  kind: 'threshold',
  threshold: met(signal),
});
/** Decided and told at 0, with a grace period of 1 s and 10 s for the proof. */
const anEviction = (decision: string, rest: Partial<Eviction> = {}): Eviction => ({
  decision,
  decidedMs: 0,
  victim: { uid: `uid-${decision}`, namespace: 'default', name: 'web', qos: 'Burstable', priority: 0 },
  signalledMs: 0,
  graceEndsMs: 1_000,
  deadlineMs: 11_000,
  settledMs: null,
  cause: byThreshold(),
  ...rest,
});
const withEvictions = (...evictions: readonly Eviction[]): State => ({
  ...initialState('boot'),
  act: { kind: 'evicting', evictions },
});
const enough = { available: 500 * MI, capacity: 1_000 * MI };
const look = (atMs: number, outcomes: readonly Heard[] = []) =>
  anObservation(atMs, { 'memory.available': enough, 'nodefs.available': enough }, { outcomes });
const ended = (of: string): Outcome => ({ of, atMs: 10, kind: 'dropped', because: 'gone' });
const dryDrop = (of: string): Outcome => ({ of, atMs: 10, kind: 'dropped', because: 'dry-run' });
const settledOf = (settled: ReturnType<typeof settleEvictions>): readonly (number | null)[] =>
  settled.act.kind === 'evicting' ? settled.act.evictions.map(({ settledMs }) => settledMs) : [];

describe('what is left of a grace period', () => {
  const told = anEviction('a-1');
  const { signalledMs: _, ...untold } = told;
  it.each<readonly [string, Eviction, number | null, number, number]>([
    ['all of it before the first signal', told, null, 5_000, 1_000],
    ['the rest since it was heard of', told, 0, 400, 600],
    ['the rest since it was sent, if it was not heard of', untold, 300, 400, 900],
    ['nothing after it', told, 0, 9_000, 0],
    ['nothing where there was none', { ...told, graceEndsMs: -1 }, null, 0, 0],
  ])('is %s', (_, eviction, begunMs, atMs, leftMs) => {
    expect(graceLeftMs(eviction, begunMs, atMs)).toBe(leftMs);
  });
});

describe('an eviction in progress', () => {
  it('ends with its own outcome, not with that of another', () => {
    const state = withEvictions(anEviction('a-1', { cause: { kind: 'over-limit', limit: 'emptydirfs' } }));
    expect(settleEvictions(state, look(10, [ended('a-2')]), [], 'nodefs-only').act).toEqual(state.act);
    expect(settleEvictions(state, look(10, [ended('a-2'), ended('a-1')]), [], 'nodefs-only').act).toEqual({
      kind: 'idle',
    });
  });

  it('continues after its first signal, and remembers the times of that and of its first SIGKILL', () => {
    const sent = (atMs: number, how: 'sigterm' | 'sigkill') =>
      ({ of: 'a-1', atMs, kind: 'signalled', with: how }) as const;
    const { signalledMs: _, ...unsent } = anEviction('a-1');
    const state = withEvictions(unsent);
    const asked = settleEvictions(state, look(10, [sent(5, 'sigterm')]), [], 'nodefs-only');
    const killed = settleEvictions({ ...state, ...asked }, look(20, [sent(15, 'sigkill')]), [], 'nodefs-only');
    expect(killed.act).toMatchObject({ evictions: [{ decision: 'a-1', signalledMs: 5, killedMs: 15 }] });
    expect(readState({ ...state, ...killed })).not.toBeNull();
  });

  it('has 30 s from its end if most of its memory is freed by unmounting its memory volumes', () => {
    const unmount = { of: 'a-1', atMs: 1_500, kind: 'signalled', with: 'unmount' } as const;
    const waiting = settleEvictions(
      withEvictions(anEviction('a-1')),
      look(2_000, [unmount]),
      [met('memory.available')],
      'nodefs-only',
    );
    const at = (atMs: number) =>
      settledOf(
        settleEvictions({ ...initialState('boot'), ...waiting }, look(atMs), [met('memory.available')], 'nodefs-only'),
      );
    expect(at(31_499)).toEqual([null]);
    expect(at(31_500)).toEqual([31_500]);
  });

  it('has the same if it ended unasked, and was sent no signal by that', () => {
    const { signalledMs: _, ...unsent } = anEviction('a-1');
    const unmount = { of: 'a-1', atMs: 1_500, kind: 'signalled', with: 'unmount' } as const;
    const short = [met('memory.available')];
    const { act } = settleEvictions(withEvictions(unsent), look(2_000, [unmount]), short, 'nodefs-only');
    expect(act).toEqual({ kind: 'evicting', evictions: [{ ...unsent, deadMs: 1_500, deadlineMs: 31_500 }] });
  });

  it.each([
    ['not within its grace period', 999, [], null],
    ['after its grace period, once its resource is no longer short', 1_000, [], 1_000],
    ['not while a threshold of its resource is met', 5_000, [met('allocatableMemory.available')], null],
    ['even if another resource is short', 5_000, [met('nodefs.available')], 5_000],
    ['when its deadline has passed', 11_000, [met('memory.available')], 11_000],
  ] as const)('settles %s', (_, atMs, thresholds, settledMs) => {
    expect(settledOf(settleEvictions(withEvictions(anEviction('a-1')), look(atMs), thresholds, 'nodefs-only'))).toEqual(
      [settledMs],
    );
  });

  it('is not settled while its signal is unknown', () => {
    const blind = anObservation(5_000, { 'nodefs.available': enough });
    const state = withEvictions(anEviction('a-1'));
    expect(settledOf(settleEvictions(state, blind, [], 'nodefs-only'))).toEqual([null]);
  });

  it('has 10 s from its first SIGKILL, which others do not prolong', () => {
    const { signalledMs: _, ...unsent } = anEviction('a-1');
    const kill = (atMs: number) => ({ of: 'a-1', atMs, kind: 'signalled', with: 'sigkill' }) as const;
    const heard = [{ ...kill(1_500), with: 'sigterm' as const }, kill(5_000), kill(9_000)];
    const { act } = settleEvictions(
      withEvictions(unsent),
      look(9_500, heard),
      [met('memory.available')],
      'nodefs-only',
    );
    expect(act).toMatchObject({ evictions: [{ signalledMs: 1_500, killedMs: 5_000, deadlineMs: 15_000 }] });
  });

  it.each([
    ['has ended', { kind: 'ended', via: 'sigkill', releasedBytes: known(MI) }],
    ['has ended, by whom is not known', { kind: 'unknown', detail: 'the API server was away' }],
  ] as const)('that %s proves its own shortage, from when on the next choice waits (D15)', (_, outcome) => {
    const { proofs, act } = settleEvictions(
      withEvictions(anEviction('a-1'), anEviction('a-2', { cause: byThreshold('nodefs.available') })),
      look(10, [{ of: 'a-1', atMs: 9, ...outcome }]),
      [met('memory.available')],
      'nodefs-only',
    );
    expect(act).toMatchObject({ evictions: [{ decision: 'a-2' }] });
    expect(Object.keys(proofs)).toEqual(['memory']);
    expect(proofs.memory).toEqual({
      ...{ decision: 'a-1', atMs: 10, available: { 'memory.available': 500 * MI } },
      ...(outcome.kind === 'ended' ? { releasedBytes: MI } : {}),
    });
  });

  it('that gave back proves it too, and not one whose time ran out', () => {
    const proofsAt = (atMs: number, thresholds: readonly MetThreshold[]) =>
      Object.keys(settleEvictions(withEvictions(anEviction('a-1')), look(atMs), thresholds, 'nodefs-only').proofs);
    expect(proofsAt(1_000, [])).toEqual(['memory']);
    expect(proofsAt(11_000, [met('memory.available')])).toEqual([]);
    const { signalledMs: _, ...unsent } = anEviction('a-1');
    expect(settleEvictions(withEvictions(unsent), look(1_000), [], 'nodefs-only').proofs).toEqual({});
  });

  it('on a live node holds the next one back again when its threshold is met again in its time', () => {
    const other = { decision: 'b-1', atMs: 2_000, available: {} };
    const state: State = {
      ...withEvictions(anEviction('a-1', { settledMs: 2_000 })),
      proofs: { memory: { ...other, decision: 'a-1' }, nodefs: other },
    };
    const again = (atMs: number, thresholds: readonly MetThreshold[], isLive?: true) => {
      const settled = settleEvictions(state, look(atMs), thresholds, 'nodefs-only', isLive);
      return [settledOf(settled), Object.keys(settled.proofs)];
    };
    expect(again(10_999, [met('memory.available')], true)).toEqual([[null], ['nodefs']]);
    expect(again(11_000, [met('memory.available')], true)).toEqual([[2_000], ['memory', 'nodefs']]);
    expect(again(10_999, [met('nodefs.available')], true)).toEqual([[2_000], ['memory', 'nodefs']]);
    expect(again(10_999, [met('memory.available')])).toEqual([[2_000], ['memory', 'nodefs']]);
  });

  it('keeps the time at which it settled', () => {
    const state = withEvictions(anEviction('a-1', { settledMs: 2_000 }));
    expect(settledOf(settleEvictions(state, look(20_000), [met('memory.available')], 'nodefs-only'))).toEqual([2_000]);
  });

  it('of a storage limit is waited for until its outcome, however long that takes', () => {
    const state = withEvictions(anEviction('a-1', { cause: { kind: 'over-limit', limit: 'emptydirfs' } }));
    expect(settledOf(settleEvictions(state, look(20_000), [], 'nodefs-only'))).toEqual([null]);
  });
});

describe('what a dry run dropped', () => {
  it('is remembered by its threshold, or by its pod if a limit was the cause', () => {
    const memory = met('memory.available');
    const state = withEvictions(
      anEviction('a-1'),
      anEviction('a-2', { cause: { kind: 'over-limit', limit: 'ephemeralpodfs' } }),
    );
    expect(settleEvictions(state, look(10, [dryDrop('a-1'), dryDrop('a-2')]), [memory], 'nodefs-only')).toEqual({
      act: { kind: 'idle' },
      proofs: {},
      dryDropped: [memory.id],
      dryOverLimit: ['uid-a-2'],
      escaped: [],
      ownerKills: [],
    });
  });

  it.each([
    ['was asked to end', 0, ['memory']],
    ['had got no signal', undefined, []],
  ])(
    'of a victim that %s before its manifest named something else decides whether the next choice waits',
    (_, signalledMs, waits) => {
      const { signalledMs: __, ...unsent } = anEviction('a-1');
      const eviction = signalledMs === undefined ? unsent : { ...unsent, signalledMs };
      const rebound: Outcome = { of: 'a-1', atMs: 10, kind: 'dropped', because: 'rebound' };
      const { proofs } = settleEvictions(
        withEvictions(eviction),
        look(10, [rebound]),
        [met('memory.available')],
        'nodefs-only',
      );
      expect(Object.keys(proofs)).toEqual(waits);
    },
  );

  it.each(['gone', 'no-longer-met'] as const)('does not include an eviction that was dropped as %s', (because) => {
    const dropped: Outcome = { of: 'a-1', atMs: 10, kind: 'dropped', because };
    const settled = settleEvictions(
      withEvictions(anEviction('a-1')),
      look(10, [dropped]),
      [met('memory.available')],
      'nodefs-only',
    );
    expect(settled).toMatchObject({ act: { kind: 'idle' }, proofs: {}, dryDropped: [], dryOverLimit: [], escaped: [] });
  });

  it('in a dry run is over for all names of its file system, but not for its inodes or a soft threshold', () => {
    const soft: MetThreshold = {
      ...met('containerfs.available'),
      id: 'containerfs.available/evictionSoft',
      isHard: false,
    };
    const signals = ['nodefs.available', 'containerfs.available', 'imagefs.available', 'nodefs.inodesFree'] as const;
    const all = [...signals.map(met), soft];
    const [first, ...others] = ['nodefs.available/evictionHard', 'containerfs.available/evictionHard'];
    const state = withEvictions(anEviction('a-1', { cause: byThreshold('nodefs.available') }));
    const now = settleEvictions(state, look(10, [dryDrop('a-1')]), all, 'imagefs-separate');
    expect(now.dryDropped).toEqual([first]);
    const alike = settleEvictions(state, look(10, [dryDrop('a-1')]), all, 'containerfs-separate');
    expect(alike.dryDropped).toEqual([first, ...others]);
    // It may be met only later.
    const dropped = { ...initialState('boot'), dryDropped: now.dryDropped };
    const later = settleEvictions(dropped, look(20), all, 'nodefs-only');
    expect(later.dryDropped).toEqual([first, ...others, 'imagefs.available/evictionHard']);
  });

  it('is forgotten once its threshold is no longer met', () => {
    const state: State = {
      ...initialState('boot'),
      dryDropped: ['memory.available/evictionHard', 'nodefs.available/evictionHard'],
    };
    expect(settleEvictions(state, look(10), [met('nodefs.available')], 'nodefs-only').dryDropped).toEqual([
      'nodefs.available/evictionHard',
    ]);
  });
});
