import { describe, expect, it } from 'vitest';
import {
  initialLeadership,
  type LeaderLease,
  type LeadershipObservation,
  type LeadershipState,
  type LeadershipStep,
  type LeaseWritten,
  stepLeadership,
} from '../../../src/core/guard/leadership.ts';
import { known } from '../../../src/core/reading.ts';

const LEASE: LeaderLease = { holder: 'other', transitions: 4, configHash: 'h', version: '10' };

function aCandidate(first: LeadershipState = initialLeadership(0)) {
  let state = first;
  let sentMs = 0;
  return {
    /** `wrote`: how its last write ended, or the one that was sent at `sentMs`. */
    step: (
      atMs: number,
      rest: Partial<Omit<LeadershipObservation, 'wrote'>> & {
        readonly saw?: LeaderLease | null;
        readonly wrote?: LeaseWritten & { readonly sentMs?: number };
      } = {},
    ): LeadershipStep => {
      const { saw, wrote, ...given } = rest;
      const step = stepLeadership(state, {
        atMs,
        writer: 'me',
        configHash: 'h',
        lease:
          saw === undefined
            ? { known: false, why: 'not-asked', where: '', detail: '' }
            : known({ value: saw, asOfMs: atMs }),
        wrote: wrote === undefined ? null : { sentMs, ...wrote },
        recordsEpoch: 0,
        isJumped: false,
        resignForMs: null,
        ...given,
      });
      state = step.state;
      if (step.write !== null) sentMs = atMs;
      return step;
    },
  };
}
const mine = (version: string, rest: Partial<LeaderLease> = {}): LeaderLease => ({
  holder: 'me',
  transitions: 5,
  configHash: 'h',
  version,
  ...rest,
});
/** Elected at 15 s, by a write that was sent then and answered at 16 s. */
function aLeader() {
  const candidate = aCandidate();
  candidate.step(0, { saw: LEASE });
  candidate.step(15_000, { saw: LEASE });
  const elected = candidate.step(16_000, { wrote: { kind: 'stored', lease: mine('11') } });
  return { ...candidate, elected };
}

describe('a candidate', () => {
  it('takes a lease only after it has watched it unchanged for 15 s', () => {
    const { step } = aCandidate();
    expect(step(0, { saw: LEASE }).write).toBeNull();
    expect(step(14_999, { saw: LEASE }).write).toBeNull();
    expect(step(15_000, { saw: LEASE }).write).toEqual({
      lease: { holder: 'me', transitions: 5, configHash: 'h' },
      replaces: '10',
    });
  });
  it('begins to watch again with every renewal', () => {
    const { step } = aCandidate();
    step(0, { saw: LEASE });
    step(14_000, { saw: { ...LEASE, version: '11' } });
    expect(step(28_999, { saw: { ...LEASE, version: '11' } }).write).toBeNull();
    expect(step(29_000, { saw: { ...LEASE, version: '11' } }).write).not.toBeNull();
  });
  it('does not count time in which it could not read', () => {
    const { step } = aCandidate();
    step(0, { saw: LEASE });
    expect(step(60_000).write).toBeNull();
  });
  it('takes one that was given back at once, and a missing one after 15 s', () => {
    expect(aCandidate().step(0, { saw: { ...LEASE, holder: '' } }).write?.lease.transitions).toBe(5);
    const { step } = aCandidate();
    expect(step(0, { saw: null }).write).toBeNull();
    expect(step(15_000, { saw: null, recordsEpoch: 8 }).write).toEqual({
      lease: { holder: 'me', transitions: 9, configHash: 'h' },
      replaces: null,
    });
  });
  it('does not run with another configuration, until that one is history', () => {
    const { step } = aCandidate();
    const other = { ...LEASE, configHash: 'x' };
    step(0, { saw: other });
    expect(step(15_000, { saw: other })).toMatchObject({ write: null, heldBack: 'config-differs' });
    expect(step(299_999, { saw: other }).write).toBeNull();
    expect(step(299_999, { saw: other }).view).toEqual({
      isLeader: false,
      runs: { why: 'config-differs', fromMs: 300_000 },
    });
    expect(step(300_000, { saw: other })).toMatchObject({ heldBack: null, write: { replaces: '10' } });
  });
  it('loses when somebody else was first', () => {
    const { step } = aCandidate();
    step(0, { saw: LEASE });
    step(15_000, { saw: LEASE });
    expect(step(15_500, { wrote: { kind: 'conflict' } })).toMatchObject({ view: { isLeader: false }, write: null });
  });
});

describe('a leader', () => {
  it('has authority for 10 s from when its last successful renewal was sent', () => {
    expect(aLeader().elected.view).toEqual({ isLeader: true, epoch: 5, sinceMs: 16_000, authorityUntilMs: 25_000 });
    const { step } = aLeader();
    expect(step(17_000).write).toMatchObject({ replaces: '11', lease: { transitions: 5 } });
    expect(step(24_999).view).toMatchObject({ isLeader: true });
    expect(step(25_000).view).toEqual({ isLeader: false });
  });
  it('renews every 2 s, one write at a time', () => {
    const { step } = aLeader();
    expect(step(16_999)).toMatchObject({ write: null, afterMs: 1 });
    expect(step(17_000).write).not.toBeNull();
    expect(step(19_000).write).toBeNull();
    expect(step(19_500, { wrote: { kind: 'stored', lease: mine('12') } })).toMatchObject({
      view: { authorityUntilMs: 27_000, sinceMs: 16_000 },
      write: { replaces: '12' },
    });
  });
  it('does not take the answer to a renewal that it gave up for the answer to the next one', () => {
    const { step } = aLeader();
    step(17_000);
    // It was paused, and another one may lead by now.
    expect(step(40_000)).toMatchObject({ view: { isLeader: false }, write: { replaces: '11' } });
    const late = { kind: 'stored', lease: mine('12'), sentMs: 17_000 } as const;
    expect(step(40_001, { wrote: late }).view).toEqual({ isLeader: false });
    expect(step(40_002, { wrote: { kind: 'conflict' } }).view).toEqual({ isLeader: false });
  });
  it('reads the lease before it renews again when a write failed', () => {
    const { step } = aLeader();
    step(17_000);
    expect(step(18_000, { wrote: { kind: 'failed' } })).toMatchObject({
      write: null,
      wantsRead: true,
      view: { isLeader: true },
    });
    expect(step(19_000, { saw: mine('12') }).write).toMatchObject({ replaces: '12' });
  });
  it('stops at once when its write met a conflict, or it sees another holder', () => {
    const { step } = aLeader();
    step(17_000);
    expect(step(18_000, { wrote: { kind: 'conflict' } }).view).toEqual({ isLeader: false });
    expect(aLeader().step(16_500, { saw: { ...LEASE, version: '12' } }).view).toEqual({ isLeader: false });
  });
  it('drops its authority when its clock jumped, and takes its own lease again', () => {
    const { step } = aLeader();
    expect(step(16_500, { isJumped: true }).view).toEqual({ isLeader: false });
    expect(step(17_000, { saw: mine('11') }).write).toMatchObject({ lease: { holder: 'me', transitions: 5 } });
    const again = step(17_500, { wrote: { kind: 'stored', lease: mine('12') } });
    expect(again.view).toMatchObject({ isLeader: true, sinceMs: 17_500 });
  });
  it('gives the lease back when it resigns, and does not run for that time', () => {
    const { step } = aLeader();
    const resigned = step(16_500, { resignForMs: 300_000 });
    expect(resigned).toMatchObject({ view: { isLeader: false }, write: { lease: { holder: '' }, replaces: '11' } });
    const free = mine('12', { holder: '' });
    expect(step(17_000, { wrote: { kind: 'stored', lease: free } }).view).toEqual({
      isLeader: false,
      runs: { why: 'resigned', fromMs: 316_500 },
    });
    expect(step(20_000, { saw: free })).toMatchObject({ write: null, heldBack: 'resigned' });
    expect(step(316_499, { saw: free }).write).toBeNull();
    expect(step(316_500, { saw: free }).write).toMatchObject({ lease: { holder: 'me', transitions: 6 } });
  });
  it('whose write is never answered is not leader for longer, and takes its own lease again only if nobody else did', () => {
    const { step } = aLeader();
    step(17_000);
    expect(step(40_000)).toMatchObject({ view: { isLeader: false }, write: { replaces: '11' } });
    expect(step(40_500, { wrote: { kind: 'conflict' } })).toMatchObject({ view: { isLeader: false }, write: null });
  });
});

describe('what a process makes of what it reads', () => {
  it('a read from before its last write says nothing, nor one while it writes', () => {
    const late = known({ value: LEASE, asOfMs: 15_900 });
    expect(aLeader().step(16_500, { lease: late }).view).toMatchObject({ isLeader: true });
    expect(aLeader().step(16_500, { lease: known({ value: LEASE, asOfMs: 16_000 }) }).view).toMatchObject({
      isLeader: true,
    });
    const { step } = aLeader();
    step(17_000);
    expect(step(17_500, { saw: { ...LEASE, version: '12' } }).view).toMatchObject({ isLeader: true });
  });
  it('a read from before a write that failed says nothing, nor one from before its clock jumped', () => {
    const early = known({ value: LEASE, asOfMs: 15_000 });
    const { step } = aLeader();
    step(17_000);
    expect(step(18_000, { wrote: { kind: 'failed' }, lease: early }).view).toMatchObject({ isLeader: true });
    const whileWriting = known({ value: LEASE, asOfMs: 17_999 });
    expect(step(18_500, { lease: whileWriting })).toMatchObject({ view: { isLeader: true }, write: null });
    expect(step(19_000, { saw: mine('12') }).write).toMatchObject({ replaces: '12' });
    const jumped = aLeader();
    jumped.step(16_500, { isJumped: true });
    expect(jumped.step(17_000, { lease: known({ value: mine('11'), asOfMs: 16_400 }) }).write).toBeNull();
  });
  it('its own lease leaves it the leader', () => {
    expect(aLeader().step(16_500, { saw: mine('11') })).toMatchObject({ view: { isLeader: true }, wantsRead: false });
  });
  it('is not held back from its own lease by a configuration that it has reloaded', () => {
    const { step } = aLeader();
    expect(step(30_000).view.isLeader).toBe(false);
    step(30_500, { wrote: { kind: 'failed' } });
    expect(step(31_000, { saw: mine('11', { configHash: 'before' }) })).toMatchObject({
      heldBack: null,
      write: { lease: { holder: 'me', configHash: 'h' }, replaces: '11' },
    });
  });

  it('a lease that was given back is free, whatever its configuration', () => {
    const free = { ...LEASE, holder: '', configHash: 'x' };
    expect(aCandidate().step(0, { saw: free })).toMatchObject({ heldBack: null, write: { replaces: '10' } });
  });
  it('another configuration is history 5 min after it was first seen', () => {
    const { step } = aCandidate();
    const other = { ...LEASE, configHash: 'x' };
    step(100_000, { saw: other });
    expect(step(399_999, { saw: other }).heldBack).toBe('config-differs');
    expect(step(400_000, { saw: other }).heldBack).toBeNull();
  });
  it('nobody is said to lead only by what was read a moment ago, of a lease that nobody renews', () => {
    const { step } = aCandidate();
    const other = { ...LEASE, configHash: 'x' };
    const runs = { why: 'config-differs', fromMs: 300_000 };
    step(0, { saw: other });
    expect(step(14_999, { saw: other }).view).toEqual({ isLeader: false });
    expect(step(15_000, { saw: other }).view).toEqual({ isLeader: false, runs });
    expect(step(29_999).view).toEqual({ isLeader: false, runs });
    expect(step(30_000).view).toEqual({ isLeader: false });
    expect(step(31_000, { saw: { ...other, version: '11' } }).view).toEqual({ isLeader: false });
  });
  it('an answer to no write of its own changes nothing', () => {
    const { step } = aCandidate();
    step(0, { saw: LEASE });
    expect(step(1_000, { wrote: { kind: 'stored', lease: mine('11') } }).view).toEqual({ isLeader: false });
  });
});

describe('a write that is not answered', () => {
  it('is awaited for 10 s, and nothing is read meanwhile; then it runs again', () => {
    const { step } = aLeader();
    expect(step(24_000)).toMatchObject({ write: { replaces: '11' }, wantsRead: false });
    expect(step(25_000)).toMatchObject({ view: { isLeader: false }, write: null, wantsRead: false, afterMs: 500 });
    expect(step(34_000)).toMatchObject({ write: null, wantsRead: false });
    expect(step(34_001)).toMatchObject({ write: { replaces: '11' } });
  });
});

describe('resigning', () => {
  it('writes nothing for one that does not lead', () => {
    const { step } = aCandidate();
    step(0, { saw: LEASE });
    expect(step(1_000, { resignForMs: 5_000 })).toMatchObject({ write: null, wantsRead: true, heldBack: 'resigned' });
    expect(step(15_000, { saw: LEASE }).write).not.toBeNull();
  });
  it('writes nothing where it does not know its own lease', () => {
    const { step } = aLeader();
    step(17_000);
    step(18_000, { wrote: { kind: 'failed' } });
    expect(step(18_500, { resignForMs: 0 })).toMatchObject({ view: { isLeader: false }, write: null, wantsRead: true });
    expect(aCandidate().step(0, { resignForMs: 0 })).toMatchObject({ write: null, wantsRead: true });
  });
  it('writes nothing over a missing lease', () => {
    const { step } = aCandidate();
    step(0, { saw: null });
    expect(step(1_000, { resignForMs: 0 })).toMatchObject({ write: null, wantsRead: true });
  });
});
