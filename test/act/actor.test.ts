import { describe, expect, it } from 'vitest';
import type { ActorNeeds } from '../../src/act/actor.ts';
import { dryParts } from '../../src/act/dry-run.ts';
import { createPreKill } from '../../src/act/pre-kill.ts';
import type { Decision } from '../../src/core/decision.ts';
import type { Hasten } from '../../src/core/eviction/hasten.ts';
import type { MetThreshold } from '../../src/core/eviction/threshold.ts';
import type { Emptying } from '../../src/core/observation.ts';
import { type Emptied, type Heard, isEnd, type Outcome } from '../../src/core/outcome.ts';
import type { Victim } from '../../src/core/pod/pod.ts';
import { known, type Reading, unknown } from '../../src/core/reading.ts';
import type { SignalSample } from '../../src/core/signal.ts';
import { quantityOfBytes } from '../../src/core/units/quantity.ts';
import { until } from '../../src/demo/cast.ts';
import type { Scratch, StopOrder } from '../../src/ports.ts';
import { GI, MI } from '../a.ts';
import { clock, evict, hard, sampleOf, soft, stage, victim } from './an-actor.ts';

describe('an eviction', () => {
  it('is reported, then carried out, and its outcome is recorded and returned', async () => {
    const { actor, did, orders, notes, recorded, settled } = stage();
    actor.begin(evict(hard, 1));
    const outcome = await settled();
    expect(outcome).toMatchObject({ of: 'boot-1', kind: 'ended' });
    expect(recorded).toEqual([outcome]);
    expect(did).toEqual([
      'EvictionThresholdMet',
      'stop',
      'log: evicting shop/web: memory.available 90 MiB is below 100 MiB',
      'Evicted',
      'log: shop/web was ended by sigkill and gave back 1 MiB',
    ]);
    expect(orders).toMatchObject([{ first: 'sigkill', graceMs: 1_000, resumedFromMs: null }]);
    expect(notes).toMatchObject([
      { kind: 'evidence', podStatus: { reason: 'Evicted', conditions: [{ type: 'DisruptionTarget' }] } },
    ]);
    expect(actor.underWay()).toBe(0);
  });

  it('is no longer in progress when its outcome is heard', async () => {
    const inProgress = await new Promise<number>((resolve) => {
      const inbox: ActorNeeds['inbox'] = { put: (heard) => 'of' in heard && isEnd(heard) && resolve(actor.underWay()) };
      const { actor } = stage({ inbox });
      actor.begin(evict(hard, 1));
    });
    expect(inProgress).toBe(0);
  });

  it('is reported once it is accepted or signalled, and never for a pod that its budget protects', async () => {
    const stopAs = (how: 'sigterm' | null, end: Promise<unknown>, outcome: Partial<Outcome>) => ({
      stop: async ({ decision: of }: StopOrder, _: unknown, signalled?: (with_: 'sigterm') => void) => {
        if (how !== null) signalled?.(how);
        await end;
        return { of, atMs: 0, ...outcome } as Outcome;
      },
      usedBytes: () => known(MI),
      largestProcesses: () => known([]),
    });
    const told = (did: readonly string[]) => did.filter((what) => what === 'Evicted' || what.includes('evicting'));
    let isOver = (): void => undefined;
    const end = new Promise<void>((resolve) => {
      isOver = resolve;
    });
    const slow = stage({ killer: stopAs('sigterm', end, { kind: 'ended', via: 'api', releasedBytes: known(MI) }) });
    slow.actor.begin(evict(soft, 30));
    await until(clock, () => told(slow.did).length === 2, 10_000);
    isOver();
    await slow.settled();
    expect(told(slow.did)).toHaveLength(2);

    const refused = stage({ killer: stopAs(null, end, { kind: 'dropped', because: 'budget-refused' }) });
    refused.actor.begin(evict(soft, 30));
    await refused.settled();
    expect(told(refused.did)).toEqual([]);
    expect(refused.did.at(-1)).toContain('shop/web is not stopped');
  });

  it("for a disk empties the pod's scratch directories once it is dead, before the signal is read again", async () => {
    const threshold: MetThreshold = { ...hard, id: 'nodefs.available/evictionHard', signal: 'nodefs.available' };
    const scratch = {
      empty: async ({ uid }: Pick<Victim, 'uid'>) => {
        stages[1]?.did.push(`empty ${uid}`);
        return { freedBytes: known(7 * MI), problem: null };
      },
    };
    const stages: ReturnType<typeof stage>[] = [stage({ scratch })];
    stages[0]?.actor.begin(evict(hard, 1));
    expect(await stages[0]?.settled()).not.toHaveProperty('emptied');
    stages.push(stage({ scratch }));
    stages[1]?.actor.begin(evict(threshold, 1));
    expect(await stages[1]?.settled()).toMatchObject({ kind: 'ended', emptied: { freedBytes: known(7 * MI) } });
    expect(stages[1]?.did.slice(-2)).toEqual([
      'empty u',
      expect.stringContaining('its scratch was emptied, 7 MiB freed'),
    ]);
  });

  /** Evicted for a disk, it outlives its stop; `becomes` is what it turned out to be later. */
  const aSurvivor = async () => {
    const threshold: MetThreshold = { ...hard, id: 'nodefs.available/evictionHard', signal: 'nodefs.available' };
    let becomes = (_: Outcome): void => undefined;
    const survived: Outcome = { of: 'boot-1', atMs: 5, kind: 'survived', left: [], detail: 'it is in state D' };
    const killer: ActorNeeds['killer'] = {
      stop: async (_, __, ___, became) => {
        becomes = became ?? becomes;
        return survived;
      },
      usedBytes: () => known(MI),
      largestProcesses: () => known([]),
    };
    const emptied = { freedBytes: known(7 * MI), problem: null };
    const asked: Emptying[] = [];
    const empty: Scratch['empty'] = async (_, as) => {
      asked.push(as);
      return emptied;
    };
    const parts = stage({ killer, scratch: { empty } });
    parts.actor.begin(evict(threshold, 1));
    expect(await parts.settled()).toEqual(survived);
    return { ...parts, asked, survived, emptied, becomes };
  };

  it("empties a survivor's scratch directories once it is dead, and records both outcomes", async () => {
    const { actor, asked, did, recorded, survived, becomes } = await aSurvivor();
    expect(actor.underWay()).toBe(0);
    becomes({ of: 'boot-1', atMs: 9, kind: 'ended', via: 'sigkill', releasedBytes: known(MI) });
    // New parts wait for what it empties by the manifests of these.
    expect(actor.underWay()).toBe(1);
    expect(asked).toEqual([{ of: 'boot-1', signal: 'nodefs.available' }]);
    await until(clock, () => recorded.length === 2 && actor.underWay() === 0, 10_000);
    expect(recorded).toMatchObject([survived, { atMs: 9, kind: 'ended', emptied: { freedBytes: known(7 * MI) } }]);
    expect(did.at(-1)).toContain('its scratch was emptied, 7 MiB freed');
  });

  it('empties the scratch of a survivor also if what ended it is not known', async () => {
    const { did, recorded, survived, emptied, becomes } = await aSurvivor();
    becomes({ of: 'boot-1', atMs: 9, kind: 'unknown', detail: 'nobody killed it' });
    await until(clock, () => recorded.length === 2, 10_000);
    expect(recorded).toMatchObject([survived, { kind: 'unknown', emptied }]);
    expect(did.at(-1)).toContain('not known: nobody killed it; its scratch was emptied, 7 MiB freed');
  });

  it('says what its scratch freed, and of what was not emptied why', async () => {
    const threshold: MetThreshold = { ...hard, id: 'nodefs.available/evictionHard', signal: 'nodefs.available' };
    const said = async (emptied: Emptied): Promise<string | undefined> => {
      const { actor, settled, did } = stage({ scratch: { empty: async () => emptied } });
      actor.begin(evict(threshold, 1));
      await settled();
      return did.at(-1)?.replace(/.*; its/, 'its');
    };
    expect(await said({ freedBytes: known(0), problem: '/srv/web was not emptied: why' })).toBe(
      'its scratch freed nothing: /srv/web was not emptied: why',
    );
    expect(await said({ freedBytes: known(MI), problem: '/srv/web is not empty: why' })).toBe(
      'its scratch was not fully emptied, 1 MiB freed: /srv/web is not empty: why',
    );
  });

  it('reports its first SIGTERM and its first SIGKILL, and records only its end', async () => {
    const { actor, inbox, recorded } = stage({
      killer: {
        stop: async ({ decision: of }, _, signalled) => {
          for (const how of ['sigterm', 'sigterm', 'sigkill', 'sigkill'] as const) signalled?.(how);
          return { of, atMs: 0, kind: 'ended', via: 'sigkill', releasedBytes: known(MI) };
        },
        usedBytes: () => known(MI),
        largestProcesses: () => known([]),
      },
    });
    actor.begin(evict(hard, 1));
    const heard: Heard[] = [];
    while (!heard.some(isEnd)) {
      await inbox.wait(10_000);
      heard.push(...inbox.drain().outcomes);
    }
    expect(heard).toMatchObject([{ with: 'sigterm' }, { with: 'sigkill' }, { kind: 'ended' }]);
    expect(recorded).toMatchObject([{ kind: 'ended' }]);
  });

  it.each([
    ['warn', false],
    ['info', true],
  ] as const)(
    'is logged as %s if dry run is %s, so that `journalctl -p warning` shows which pods were stopped',
    async (level, dry) => {
      const warned: unknown[] = [];
      const silent = () => {};
      const log = {
        debug: silent,
        info: silent,
        error: silent,
        warn: ({ event }: { event: unknown }) => void warned.push(event),
      };
      const { actor, settled } = stage({ log, isDry: () => dry });
      actor.begin(evict(hard, 1));
      await settled();
      expect(warned).toEqual(level === 'warn' ? ['evict', 'evicted'] : ['evicted']);
    },
  );

  it('is logged without a priority that nobody knows', async () => {
    const priorities: unknown[] = [];
    const silent = () => {};
    const warn = ({ event, priority }: { event: unknown; priority?: unknown }): void => {
      if (event === 'evict') priorities.push(priority);
    };
    const { actor, settled } = stage({ log: { debug: silent, info: silent, error: silent, warn } });
    const decision = evict(hard, 1) as Extract<Decision, { kind: 'evict' }>;
    for (const priority of [true, false]) {
      const unsaid = { why: 'undeclared', priority, requests: true } as const;
      actor.begin({ ...decision, victim: { ...victim, priority: 7, unsaid } });
      await settled();
    }
    expect(priorities).toEqual([null, 7]);
  });

  it.each([
    ['pid.available', 200, 150, 'pid.available went from 150 pids to 200 pids'],
    ['nodefs.available', 2 * GI, GI, 'nodefs.available went from 1 GiB to 2 GiB'],
    ['nodefs.inodesFree', 7, 7, 'nodefs.inodesFree is still 7 inodes'],
  ] as const)("for %s reports the node's value afterwards, not the memory", async (signal, after, before, told) => {
    const threshold: MetThreshold = {
      ...soft,
      signal,
      id: `${signal}/evictionSoft`,
      available: before,
      target: quantityOfBytes(3 * GI, 'binary'),
    };
    const { actor, did, settled } = stage({ observer: { reread: async () => sampleOf(after) } });
    actor.begin(evict(threshold, 1));
    expect(await settled()).toMatchObject({ signal: { name: signal, before, after: known(after) } });
    expect(did.at(-1)).toBe(`log: shop/web was ended by sigkill; ${told}`);
  });

  it('reads the largest processes of its victim when it is prepared, and not again before the first signal', async () => {
    let looks = 0;
    const killer: ActorNeeds['killer'] = {
      stop: async ({ decision: of }) => ({ of, atMs: 0, kind: 'ended', via: 'sigkill', releasedBytes: known(MI) }),
      usedBytes: () => known(MI),
      largestProcesses: () => known([{ pid: 7, name: `look-${++looks}`, rssBytes: MI }]),
    };
    const { actor, notes, settled } = stage({ killer });
    actor.prepare(evict(hard, 1));
    expect(looks).toBe(1);
    actor.begin(evict(hard, 1));
    await settled();
    expect(notes).toMatchObject([{ largestProcesses: known([{ pid: 7, name: 'look-1' }]) }]);
    expect(looks).toBe(1);
  });

  it('is dropped if the last look finds the threshold with its min reclaim no longer met (D9)', async () => {
    const { actor, did, settled } = stage({ observer: { reread: async () => sampleOf(150 * MI) } });
    actor.begin(evict(hard, 1));
    expect(await settled()).toMatchObject({ kind: 'dropped', because: 'no-longer-met' });
    expect(did).toEqual(['log: not evicting shop/web: memory.available 150 MiB has recovered to 150 MiB or more']);
  });

  it.each([
    ['cannot read the signal', async () => unknown('unreadable', 'memory.stat', 'gone')],
    ['gets no answer', () => new Promise<Reading<SignalSample>>(() => {})],
    ['throws', async () => Promise.reject(new Error('no'))],
  ])('continues if the last look %s', async (_, reread) => {
    const { actor, settled } = stage({ observer: { reread } });
    actor.begin(evict(hard, 1));
    expect(await settled()).toMatchObject({ kind: 'ended' });
  });

  it('for a disk returns a sample taken after its end, so that no other pod is chosen for what is already free', async () => {
    const sampledMs: number[] = [];
    const reread = async (): Promise<Reading<SignalSample>> => {
      sampledMs.push(clock.monoMs());
      return known({ available: MI, capacity: GI, sampledAtMs: clock.monoMs() });
    };
    const { actor, settled } = stage({ observer: { reread } });
    actor.begin(evict({ ...hard, id: 'nodefs.available/evictionHard', signal: 'nodefs.available' }, 1));
    const { atMs, kind } = await settled();
    expect(kind).toBe('ended');
    // The first is the last look.
    expect(sampledMs).toHaveLength(2);
    expect(sampledMs[1]).toBeGreaterThanOrEqual(atMs);
  });

  it('runs preKill before a soft eviction and never before a hard one', async () => {
    const gentle = stage();
    gentle.actor.begin(evict(soft, 30));
    await gentle.settled();
    expect(gentle.did[0]).toBe('preKill');
    expect(gentle.orders).toMatchObject([{ first: 'sigterm', graceMs: 30_000 }]);
    const preKill = { collect: async () => void burning.did.push('preKill'), skipped: () => 'without evidence' };
    const burning = stage({ preKill });
    burning.actor.begin(evict(hard, 1));
    await burning.settled();
    expect(burning.did).not.toContain('preKill');
    expect(burning.did).toContainEqual(expect.stringMatching(/^log: evicting shop\/web: .*; without evidence$/));
    expect(gentle.did.join()).not.toContain('without evidence');
  });

  it('looks again after preKill and drops the kill if the threshold has recovered', async () => {
    let available = 90 * MI;
    const collect = async (): Promise<void> => {
      available = 150 * MI;
    };
    const { actor, orders, settled } = stage({
      preKill: { collect, skipped: () => '' },
      observer: { reread: async () => sampleOf(available) },
    });
    actor.begin(evict(soft, 30));
    expect(await settled()).toMatchObject({ kind: 'dropped', because: 'no-longer-met' });
    expect(orders).toEqual([]);
  });

  it.each([
    ['', false],
    [', also if a hard threshold was met meanwhile', true],
  ])('is decided anew if what it was chosen by is declared otherwise once preKill is over%s', async (_, isCut) => {
    let declared = 'as chosen';
    const collect = async (): Promise<void> => {
      declared = 'critical';
      if (isCut) {
        actor.begin({ id: 'boot-2', atMs: 0, kind: 'hasten', eviction: 'boot-1', threshold: hard, graceSeconds: 1 });
        await new Promise(() => {});
      }
    };
    const { actor, did, orders, settled } = stage({ preKill: { collect, skipped: () => '' }, basisOf: () => declared });
    const decision = evict(soft, 30);
    actor.prepare(decision);
    actor.begin(decision);
    expect(await settled()).toMatchObject({ kind: 'dropped', because: 'changed' });
    expect(orders).toEqual([]);
    expect(did.join()).toContain('has changed since the choice; it is decided anew');
  });

  it('is not said to have continued if preKill failed, and the last look drops it', async () => {
    const said: string[] = [];
    const preKill = createPreKill({
      configured: () => ({ command: ['/bin/evidence'], timeoutMs: 1_000 }),
      run: async () => ({ kind: 'timed-out' }),
      findings: { raise: ({ text }) => void said.push(text), clear: () => {}, all: () => [] },
    });
    const { actor, settled } = stage({ preKill, observer: { reread: async () => sampleOf(150 * MI) } });
    actor.begin(evict(soft, 30));
    expect(await settled()).toMatchObject({ kind: 'dropped' });
    expect(said).toEqual([expect.stringMatching(/^the preKill command failed \(.*\); evictions do not depend on it$/)]);
  });

  it('does not wait for preKill once a hard threshold is met (D4)', async () => {
    // Nor does its own time end.
    const after: ActorNeeds['clock']['after'] = (ms, run) => (ms > 1_000 ? () => {} : clock.after(ms, run));
    const { actor, orders, settled } = stage({
      preKill: { collect: () => new Promise(() => {}), skipped: () => '' },
      clock: { ...clock, after },
    });
    actor.begin(evict(soft, 30));
    actor.begin({ id: 'boot-2', atMs: 0, kind: 'hasten', eviction: 'boot-1', threshold: hard, graceSeconds: 1 });
    await settled();
    expect(orders).toHaveLength(1);
    const left = { begunMs: null, usedBefore: null, rungs: [], outcome: null };
    const times = { decidedMs: clock.monoMs(), graceEndsMs: 1, deadlineMs: 1, settledMs: null };
    const cause = { kind: 'threshold', threshold: soft } as const;
    actor.resume(
      { decision: 'boot-1', ...times, victim, cause, alsoFor: [hard] },
      { ...left, decision: evict(soft, 30) },
    );
    await settled();
    expect(orders).toHaveLength(2);
  });

  it('waits for a preKill that never ends less than the 10 s after which another pod is chosen (D3)', async () => {
    const waits: number[] = [];
    const after: ActorNeeds['clock']['after'] = (ms, run) => {
      waits.push(ms);
      return clock.after(ms / 1_000, run);
    };
    const { actor, orders, settled } = stage({
      preKill: { collect: () => new Promise(() => {}), skipped: () => '' },
      clock: { ...clock, after },
    });
    actor.begin(evict(soft, 30));
    await settled();
    expect(orders).toHaveLength(1);
    expect(Math.max(...waits)).toBeLessThan(10_000);
  });

  it('gives 2 s for a soft grace period of 0, as the runtime does', async () => {
    const { actor, orders, settled } = stage();
    actor.begin(evict(soft, 0));
    await settled();
    expect(orders[0]?.graceMs).toBe(2_000);
  });

  it('ends as survived with a finding if our own code fails', async () => {
    const { actor, settled } = stage({
      killer: {
        stop: () => Promise.reject(new Error('broken')),
        usedBytes: () => known(MI),
        largestProcesses: () => known([]),
      },
    });
    actor.begin(evict(hard, 1));
    expect(await settled()).toMatchObject({ kind: 'survived', detail: 'broken' });
  });

  it('is hastened by a hard threshold with the grace period that this gives (D4, D12)', async () => {
    let cut: unknown = null;
    const stop = (order: StopOrder, hasten: Hasten): Promise<Outcome> =>
      new Promise((resolve) => {
        void hasten.whenCut.then(() => {
          cut = [hasten.first(), hasten.endsMs(0) <= clock.monoMs()];
          resolve({ of: order.decision, atMs: 0, kind: 'ended', via: 'sigkill', releasedBytes: known(0) });
        });
      });
    const { actor, settled } = stage({
      killer: { stop, usedBytes: () => known(MI), largestProcesses: () => known([]) },
    });
    actor.begin(evict(soft, 30));
    await new Promise((resolve) => clock.after(20, () => resolve(null)));
    actor.begin({ id: 'boot-2', atMs: 0, kind: 'hasten', eviction: 'boot-1', threshold: hard, graceSeconds: 1 });
    await settled();
    expect(cut).toEqual(['sigkill', true]);
  });
});

describe('dry run', () => {
  it('says what it would do, and stops nothing', async () => {
    const live = {
      stop: () => Promise.reject(new Error('a kill in dry run')),
      usedBytes: () => known(MI),
      largestProcesses: () => known([]),
    };
    const { actor, did, settled } = stage({ ...dryParts(clock, live), isDry: () => true });
    actor.begin(evict(hard, 1));
    expect(await settled()).toMatchObject({ kind: 'dropped', because: 'dry-run' });
    expect(did[0]).toBe('log: would evict shop/web: memory.available 90 MiB is below 100 MiB');
  });
});
