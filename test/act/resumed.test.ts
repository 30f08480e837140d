import { describe, expect, it } from 'vitest';
import type { ActorNeeds } from '../../src/act/actor.ts';
import type { Decision } from '../../src/core/decision.ts';
import type { MetThreshold } from '../../src/core/eviction/threshold.ts';
import type { Outcome } from '../../src/core/outcome.ts';
import { known } from '../../src/core/reading.ts';
import { quantityOfBytes } from '../../src/core/units/quantity.ts';
import { until } from '../../src/demo/cast.ts';
import { MI } from '../a.ts';
import { clock, evict, hard, left, nothing, sampleOf, soft, stage, victim } from './an-actor.ts';

describe('an eviction that an earlier run of the agent left in progress', () => {
  const decided = evict(soft, 30);

  it('is over if it was proven: nothing is stopped or recorded again', async () => {
    const { actor, orders, recorded, settled } = stage();
    const outcome: Outcome = { of: 'boot-1', atMs: 5, kind: 'ended', via: 'sigterm', releasedBytes: known(MI) };
    actor.resume(left, { ...nothing, decision: decided, begunMs: 1, outcome });
    expect(await settled()).toEqual(outcome);
    expect([orders, recorded]).toEqual([[], []]);
  });

  it('shows no process as evidence that started after the decision', async () => {
    const old = { pid: 2, name: 'old', rssBytes: 1, startTicks: 1 };
    const later = { pid: 3, name: 'new', rssBytes: 9, startTicks: clock.monoMs() };
    const killer: ActorNeeds['killer'] = {
      stop: async ({ decision }) => ({ of: decision, atMs: 5, kind: 'dropped', because: 'started-anew' }),
      usedBytes: () => known(MI),
      largestProcesses: () => known([later, old]),
    };
    const { actor, notes, settled } = stage({ killer });
    const decidedMs = clock.monoMs();
    actor.resume({ ...left, decidedMs }, { ...nothing, decision: decided });
    await settled();
    expect(notes).toMatchObject([{ kind: 'evidence', largestProcesses: known([old]) }]);
  });

  it('is reported again under the same name, in case the earlier run had not reported it', async () => {
    const outcome: Outcome = { of: 'boot-1', atMs: 5, kind: 'ended', via: 'sigterm', releasedBytes: known(MI) };
    for (const known of [outcome, null]) {
      const { actor, did, settled } = stage();
      actor.resume(left, { ...nothing, decision: decided, begunMs: 1, outcome: known });
      await settled();
      expect(did.filter((what) => what === 'Evicted')).toHaveLength(1);
    }
  });

  it('is not reported until it is known to be an eviction', async () => {
    let becomes = (_: Outcome): void => undefined;
    const unknown: Outcome = { of: 'boot-1', atMs: 5, kind: 'unknown', detail: 'the API server is away' };
    const killer: ActorNeeds['killer'] = {
      stop: async (_, __, ___, became) => {
        becomes = became ?? becomes;
        return unknown;
      },
      usedBytes: () => known(MI),
      largestProcesses: () => known([]),
    };
    const { actor, did, recorded, settled } = stage({ killer });
    actor.resume(left, { ...nothing, decision: decided, begunMs: 1 });
    expect(await settled()).toEqual(unknown);
    const said = "log: shop/web has ended; whether by the agent's request is not known: the API server is away";
    expect(did).toEqual([said]);
    const ended: Outcome = { of: 'boot-1', atMs: 5, kind: 'ended', via: 'api', releasedBytes: known(MI) };
    becomes(ended);
    await until(clock, () => recorded.length === 2, 10_000);
    expect(did).toEqual([said, 'Evicted', 'log: shop/web was ended by api and gave back 1 MiB']);
    expect(recorded).toEqual([unknown, ended]);
  });

  /** Decided so long ago, with nothing sent since. */
  const unsent = (agoMs: number) => ({ ...left, decidedMs: clock.monoMs() - agoMs });

  it('begins with its last look if it was just decided and nothing had been sent (D9)', async () => {
    const recovered = stage({ observer: { reread: async () => sampleOf(150 * MI) } });
    recovered.actor.resume(unsent(0), { ...nothing, decision: decided });
    expect(await recovered.settled()).toMatchObject({ kind: 'dropped', because: 'no-longer-met' });

    const { actor, orders, notes, settled } = stage();
    const eviction = unsent(0);
    actor.resume(eviction, { ...nothing, decision: decided });
    await settled();
    expect(orders).toMatchObject([{ resumedFromMs: eviction.decidedMs, graceMs: 30_000 }]);
    expect(orders[0]?.sentBefore).toBeUndefined();
    expect(notes).toMatchObject([{ kind: 'evidence', of: 'boot-1' }]);
  });

  it('begins, too, or is dropped, if its victim was to be kept from starting again, whatever had begun', async () => {
    const waiting = { ...victim, isBetweenRuns: true } as const;
    const begun = { ...nothing, decision: { ...decided, victim: waiting }, begunMs: clock.monoMs() };
    const { actor, orders, settled } = stage();
    actor.resume({ ...unsent(0), victim: waiting }, begun);
    await settled();
    expect(orders[0]?.sentBefore).toBeUndefined();
    actor.resume({ ...unsent(1_500), victim: waiting }, begun);
    expect(await settled()).toMatchObject({ kind: 'dropped', because: 'stale' });
    actor.resume({ ...unsent(1_500), victim: waiting, signalledMs: clock.monoMs() }, begun);
    await settled();
    expect(orders.map(({ sentBefore }) => sentBefore)).toEqual([undefined, 'sigterm']);
  });

  const overLimit: Decision = {
    ...{ id: 'boot-1', atMs: 0, kind: 'evict-over-limit', victim, limit: 'ephemeralcontainerfs', graceSeconds: 1 },
    message: 'Container main exceeded its local ephemeral storage limit "1Mi". ',
  };
  it.each([
    ['for a threshold', decided, left.cause],
    ['over a local storage limit', overLimit, { kind: 'over-limit', limit: 'ephemeralcontainerfs' } as const],
    ['whose decision is not recorded', null, left.cause],
  ])('is dropped if nothing had been sent and the choice is old: %s', async (_, decision, cause) => {
    const { actor, orders, did, notes, recorded, settled } = stage();
    actor.resume({ ...unsent(1_500), cause }, { ...nothing, decision });
    const outcome = await settled();
    expect(outcome).toMatchObject({ of: 'boot-1', kind: 'dropped', because: 'stale' });
    expect(did).toEqual([
      'log: shop/web is not stopped: an earlier run of the agent chose it, and is not known to have asked it to stop; it is decided anew',
    ]);
    expect([orders, notes, recorded]).toEqual([[], [], [outcome]]);
  });

  it.each([
    ['has its last look', 20, 'no-longer-met'],
    ['is dropped if that takes long', 1_200, 'stale'],
  ])('%s once it is known where it runs', async (_, takesMs, because) => {
    let isFound = false;
    const killer: ActorNeeds['killer'] = {
      stop: async ({ decision }) => ({ of: decision, atMs: 5, kind: 'dropped', because: 'unresolved' }),
      whenFound: async () => {
        await new Promise((resolve) => clock.after(takesMs, () => resolve(null)));
        isFound = true;
      },
      usedBytes: () => known(MI),
      largestProcesses: () => known([]),
    };
    const reread = async () => sampleOf((isFound ? 150 : 90) * MI);
    const { actor, notes, settled } = stage({ killer, observer: { reread } });
    actor.resume(unsent(0), { ...nothing, decision: decided });
    expect(await settled()).toMatchObject({ kind: 'dropped', because });
    expect(notes).toEqual([]);
  });

  it('is resumed with what is left of its grace period: SIGKILL at once if that is over', async () => {
    const { actor, orders, settled } = stage();
    const resumed = async (...[eviction, from]: Parameters<typeof actor.resume>) => {
      actor.resume(eviction, from);
      await settled();
      return orders.at(-1);
    };
    const nowMs = clock.monoMs();
    const begun = { ...left, decidedMs: nowMs - 8_000, signalledMs: nowMs - 5_000 };
    const over = { first: 'sigkill', graceMs: 0, sentBefore: 'sigterm' };
    expect(await resumed({ ...begun, graceEndsMs: nowMs - 2_000 }, nothing)).toMatchObject(over);
    expect(await resumed({ ...begun, graceEndsMs: nowMs + 90_000 }, nothing)).toMatchObject({ first: 'sigterm' });
    expect(orders.at(-1)?.graceMs).toBeGreaterThan(60_000);
    expect(orders.at(-1)?.graceMs).toBeLessThanOrEqual(90_000);
    const { signalledMs: _, ...unsaid } = { ...begun, graceEndsMs: nowMs - 5_000 };
    // Only the record of the decision has when the stop began.
    const recorded = { ...nothing, decision: decided };
    expect(await resumed(unsaid, { ...recorded, begunMs: nowMs - 3_001 })).toMatchObject(over);
    expect(await resumed(unsaid, { ...recorded, begunMs: nowMs + 60_000 })).toMatchObject({ first: 'sigterm' });
  });

  it('is resumed if a signal had been sent, with its victim known to have been asked', async () => {
    const { actor, inbox, orders, settled } = stage({ observer: { reread: async () => sampleOf(150 * MI) } });
    actor.resume(left, { ...nothing, decision: decided, begunMs: 3 });
    expect(inbox.drain().outcomes).toEqual([{ of: 'boot-1', atMs: 3, kind: 'signalled', with: 'sigterm' }]);
    expect(await settled()).toMatchObject({ kind: 'ended' });
    actor.resume({ ...left, signalledMs: 3, killedMs: 4 }, nothing);
    await settled();
    expect(orders.map(({ sentBefore }) => sentBefore)).toEqual(['sigterm', 'sigkill']);
  });
});

describe('an eviction whose grace period was over before the agent was back', () => {
  /** Its grace period, of 4 s, was over so long before. */
  const overFor = (ms: number) => {
    const graceEndsMs = clock.monoMs() - ms;
    return { ...left, decidedMs: graceEndsMs - 4_000, signalledMs: graceEndsMs - 4_000, graceEndsMs };
  };

  it.each([
    ['recovered', {}, 150, true],
    ['is still met', {}, 149, false],
    [
      'recovered, but the hard one that hastened it has not',
      { alsoFor: [{ ...hard, target: quantityOfBytes(200 * MI, 'binary') }] },
      150,
      false,
    ],
  ])('is not killed later on if it was only asked to stop, and its threshold %s', async (_, more, mib, isOver) => {
    const { actor, orders, settled } = stage({ observer: { reread: async () => sampleOf(mib * MI) } });
    actor.resume({ ...overFor(100), ...more }, nothing);
    await settled();
    expect(orders).toMatchObject([{ first: 'sigkill' }]);
    expect(await orders[0]?.isOver?.()).toBe(isOver);
  });

  it.each([
    ['was only asked to stop', {}],
    ['may have been sent SIGKILL at once, which nobody knows of', { cause: { kind: 'threshold', threshold: hard } }],
    ['was over a local storage limit', { cause: { kind: 'over-limit', limit: 'ephemeralcontainerfs' } }],
  ] as const)('is decided anew after 10 s if it lives on, whatever its threshold says: it %s', async (_, more) => {
    const killer: ActorNeeds['killer'] = {
      stop: async ({ decision: of, isOver }) =>
        (await isOver?.()) === true
          ? { of, atMs: 5, kind: 'dropped', because: 'not-killed' }
          : { of, atMs: 5, kind: 'ended', via: 'sigkill', releasedBytes: known(MI) },
      usedBytes: () => known(MI),
      largestProcesses: () => known([]),
    };
    const { actor, did, settled } = stage({ killer });
    actor.resume({ ...overFor(10_001), ...more }, nothing);
    expect(await settled()).toMatchObject({ kind: 'dropped', because: 'overdue' });
    expect(did).toEqual([
      'log: shop/web is not stopped: an earlier run of the agent had begun to stop it, and it has not ended; its grace period was over for more than 10s when the agent resumed that, so it is decided anew',
    ]);
  });

  it.each([
    ['unknown if the victim was gone already: the earlier run may have emptied some of it', false, { known: false }],
    ['what it held if the victim ends only now', true, { known: true, value: 7 * MI }],
  ])('says of its scratch that it freed %s', async (_, isAlive, freedBytes) => {
    const threshold: MetThreshold = { ...soft, id: 'nodefs.available/evictionSoft', signal: 'nodefs.available' };
    const { actor, settled } = stage({
      scratch: { empty: async () => ({ freedBytes: known(7 * MI), problem: null }) },
      killer: {
        stop: async ({ decision: of }, __, signalled) => {
          if (isAlive) signalled?.('sigkill');
          return { of, atMs: 0, kind: 'ended', via: 'sigkill', releasedBytes: known(0) };
        },
        usedBytes: () => known(0),
        largestProcesses: () => known([]),
      },
    });
    actor.resume({ ...left, signalledMs: 1, cause: { kind: 'threshold', threshold } }, nothing);
    const outcome = await settled();
    expect(outcome).toMatchObject({ kind: 'ended', emptied: { freedBytes, problem: null } });
    expect('isNoticedLater' in (outcome ?? {})).toBe(!isAlive);
  });

  it('is killed whatever its threshold says by now if it was sent SIGKILL before', async () => {
    const { actor, orders, settled } = stage();
    actor.resume({ ...left, signalledMs: 1, killedMs: 1 }, nothing);
    await settled();
    actor.resume({ ...overFor(100), cause: { kind: 'threshold', threshold: hard } }, nothing);
    await settled();
    expect(orders.map(({ isOver }) => isOver)).toEqual([undefined, undefined]);
  });
});
