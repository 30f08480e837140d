import { describe, expect, it } from 'vitest';
import { known } from '../../src/core/reading.ts';
import { initialState, type State } from '../../src/core/state/state.ts';
import { createInbox, runLoop } from '../../src/daemon/loop.ts';
import { createClock, sleep } from '../../src/host/clock.ts';
import type { Inbox, Parts } from '../../src/ports.ts';
import { aConfig, anObservation, aPod, aThreshold, GI, MI } from '../a.ts';

const clock = createClock();
const outcome = { of: 'boot-1', atMs: 0, kind: 'reclaimed', freed: known(1) } as const;

describe('the inbox', () => {
  it('ends a wait at once when something arrives, and delivers it once', async () => {
    const inbox = createInbox(clock);
    const startedMs = clock.monoMs();
    const waiting = inbox.wait(60_000);
    inbox.put(outcome);
    await waiting;
    expect(clock.monoMs() - startedMs).toBeLessThan(30_000);
    expect(inbox.drain()).toEqual({ outcomes: [outcome], events: [] });
    expect(inbox.drain()).toEqual({ outcomes: [], events: [] });
  });

  it('knows of a decision that has ended before the next look hears of it', () => {
    const inbox = createInbox(clock);
    inbox.put({ of: 'boot-1', atMs: 0, kind: 'signalled', with: 'sigterm' });
    expect(inbox.hasEnded('boot-1')).toBe(false);
    inbox.put(outcome);
    expect([inbox.hasEnded('boot-1'), inbox.hasEnded('boot-2')]).toEqual([true, false]);
    inbox.drain();
    expect(inbox.hasEnded('boot-1')).toBe(false);
  });

  it('loses nothing that arrives while nobody waits', async () => {
    const inbox = createInbox(clock);
    inbox.put({ kind: 'preparing' });
    await inbox.wait(60_000);
    expect(inbox.drain().events).toEqual([{ kind: 'preparing' }]);
  });

  it('continues to wait as long as it is asked to, and still ends at once', async () => {
    const inbox = createInbox(clock);
    const left = [1, 1];
    expect(await inbox.wait(1, () => left.shift() ?? null)).toBe('over');
    expect(left).toEqual([]);
    let asked = 0;
    const waiting = inbox.wait(1, () => {
      asked += 1;
      clock.after(1, inbox.wake);
      return 20;
    });
    expect(await waiting).toBe('called');
    await sleep(clock, 30);
    expect(asked).toBe(1);
  });

  it('lets the event loop turn even if it is woken again and again', async () => {
    const inbox = createInbox(clock);
    let turned = false;
    setImmediate(() => {
      turned = true;
    });
    for (let look = 0; look < 3; look++) {
      inbox.wake();
      await inbox.wait(60_000);
    }
    expect(turned).toBe(true);
  });
});

describe('the loop', () => {
  /** A node whose memory is short from the beginning; ends after so many decisions were begun. */
  async function run(
    pods: readonly string[],
    ends: (did: readonly string[]) => boolean,
    rest: Partial<Parts> = {},
  ): Promise<readonly string[]> {
    const did: string[] = [];
    const stop = new AbortController();
    const say = (what: string): void => {
      did.push(what);
      if (ends(did)) stop.abort();
    };
    const parts: Parts = {
      observer: {
        look: (want) => {
          say(`look ${want.pods}`);
          const memory = { available: 10 * MI, capacity: GI };
          const all = known(pods.map((name) => aPod({ name, workingSetBytes: 500 * MI })));
          return anObservation(did.length, { 'memory.available': memory }, want.pods === null ? {} : { pods: all });
        },
        reread: () => Promise.reject(new Error('not asked')),
      },
      freshenPods: async () => say('freshen'),
      recorder: {
        intent: async ({ observation, verdict }, deadlineMs) => {
          const seen = observation.pods.known ? 'with pods' : 'without pods';
          say(`intent ${verdict.decisions.map(({ kind }) => kind).join()} ${seen} ${deadlineMs} ms`);
          return 'durable';
        },
        keep: () => undefined,
        began: () => undefined,
        outcome: () => undefined,
        note: () => undefined,
      },
      inbox: createInbox(clock),
      config: () => aConfig([aThreshold('memory.available', 100 * MI)]),
      prepare: ({ kind }) => say(`prepare ${kind}`),
      begin: ({ kind }) => say(`begin ${kind}`),
      publish: (_, verdict) => say(`publish ${verdict.decisions.map(({ kind }) => kind).join()}`),
      ...rest,
    };
    await runLoop({ ...initialState('boot'), lastLookMs: 0 }, parts, stop.signal);
    return did;
  }

  it('chooses the victim before the new condition is recorded or reported', async () => {
    expect(await run(['web'], (did) => did.includes('publish evict'))).toEqual([
      'look null',
      'freshen',
      'look memory.available',
      'intent set-condition,evict with pods 5 ms',
      'prepare set-condition',
      'prepare evict',
      'begin set-condition',
      'begin evict',
      'publish set-condition',
      'publish evict',
    ]);
  });

  it('ends before another look could decide something, if it is over by then', async () => {
    const did = await run(['web'], (did) => did.length > 20, { isOver: () => true });
    expect(did.filter((what) => what.startsWith('publish'))).toEqual(['publish set-condition', 'publish evict']);
    expect(did.at(-1)).toBe('publish evict');
  });

  it('counts for a soft grace period only the time in which it looked, at most a second between two looks', async () => {
    const soft = aThreshold('memory.available', 100 * MI, { graceMs: 30_000 });
    const looksAtMs = [60_000, 60_250, 70_000];
    const remaining: unknown[] = [];
    const stop = new AbortController();
    const parts: Parts = {
      observer: {
        look: () =>
          anObservation(looksAtMs.shift() ?? Number.NaN, { 'memory.available': { available: 10 * MI, capacity: GI } }),
        reread: () => Promise.reject(new Error('not asked')),
      },
      recorder: {
        intent: async () => 'durable',
        keep: () => undefined,
        began: () => undefined,
        outcome: () => undefined,
        note: () => undefined,
      },
      inbox: createInbox(clock),
      config: () => aConfig([soft]),
      begin: () => undefined,
      publish: (_, { reasons }) => {
        remaining.push(...reasons.flatMap((reason) => (reason.code === 'grace-running' ? [reason.remainingMs] : [])));
        if (looksAtMs.length === 0) stop.abort();
        else parts.inbox.wake();
      },
    };
    // Ten seconds of it were seen before the agent went away.
    await runLoop({ ...initialState('boot'), firstMetMs: { [soft.id]: 0 }, lastLookMs: 10_000 }, parts, stop.signal);
    expect(remaining).toEqual([20_000, 19_750, 18_750]);
  });

  it('records a condition with the look that saw it, even if memory is back at the look for the pods', async () => {
    const disk = aThreshold('nodefs.available', GI, { graceMs: 60_000 });
    const recorded: unknown[] = [];
    const stop = new AbortController();
    const inbox = createInbox(clock);
    let looks = 0;
    const parts: Parts = {
      observer: {
        look: () => {
          looks += 1;
          const memory = { available: (98 + 2 * looks) * MI, capacity: GI };
          return anObservation(looks, {
            'memory.available': memory,
            'nodefs.available': { available: MI, capacity: 4 * GI },
          });
        },
        reread: () => Promise.reject(new Error('not asked')),
      },
      recorder: {
        intent: async ({ observation, verdict }) => {
          const { value } = observation.signals['memory.available'] as {
            readonly value?: { readonly available: number };
          };
          recorded.push([verdict.decisions.map(({ kind }) => kind), (value?.available ?? 0) / MI]);
          stop.abort();
          inbox.wake();
          return 'durable';
        },
        keep: () => undefined,
        began: () => undefined,
        outcome: () => undefined,
        note: () => undefined,
      },
      inbox,
      config: () => aConfig([disk, aThreshold('memory.available', 101 * MI)]),
      begin: () => undefined,
      publish: () => undefined,
    };
    await runLoop({ ...initialState('boot'), lastLookMs: 0 }, parts, stop.signal);
    expect(recorded).toEqual([[['set-condition', 'set-condition'], 100]]);
  });

  it('records and reports a condition even if no pod can be chosen', async () => {
    expect(await run([], (did) => did.includes('publish '))).toEqual([
      'look null',
      'freshen',
      'look memory.available',
      'intent set-condition with pods 50 ms',
      'prepare set-condition',
      'begin set-condition',
      'publish set-condition',
      'publish ',
    ]);
  });

  /** Just above a threshold: each look wants glances; `memoryMiB` answers every question for the memory. */
  async function watch(
    memoryMiB: readonly number[],
    onGlance: (asked: number, inbox: Inbox) => void,
    { spent = [], waited = [] }: { readonly spent?: State['spent']; readonly waited?: number[] } = {},
  ) {
    const did: string[] = [];
    const stop = new AbortController();
    const inbox = createInbox({
      ...clock,
      after: (ms, run) => {
        waited.push(ms);
        return clock.after(ms, run);
      },
    });
    let asked = 0;
    const memory = () => {
      const available = (memoryMiB[asked] ?? memoryMiB.at(-1) ?? 0) * MI;
      asked += 1;
      return { available, capacity: GI, sampledAtMs: clock.monoMs() };
    };
    const parts: Parts = {
      observer: {
        look: (want) => {
          did.push(`look ${want.pods}`);
          if (did.filter((what) => what.startsWith('look')).length === 2) {
            stop.abort();
            inbox.wake();
          }
          return anObservation(clock.monoMs(), { 'memory.available': memory() });
        },
        glance: () => {
          did.push('glance');
          onGlance(asked, inbox);
          return known(memory());
        },
        reread: () => Promise.reject(new Error('not asked')),
      },
      recorder: {
        intent: async () => 'durable',
        keep: () => undefined,
        began: () => undefined,
        outcome: () => undefined,
        note: () => undefined,
      },
      inbox,
      config: () => aConfig([aThreshold('memory.available', 100 * MI)]),
      begin: () => undefined,
      publish: () => undefined,
    };
    await runLoop({ ...initialState('boot'), lastLookMs: 0, spent }, parts, stop.signal);
    return did;
  }

  it('reads only memory while nothing else can change, and everything including pods once the threshold is met', async () => {
    const did = await watch([103, 103, 102, 99], () => undefined);
    expect(did.slice(0, 5)).toEqual(['look null', 'glance', 'glance', 'glance', 'look memory.available']);
  });

  it('keeps sampling closely while memory falls in portions, even if the budget is spent', async () => {
    const waited: number[] = [];
    // More CPU time than the clock has milliseconds of it.
    const spent = [{ atMs: clock.monoMs() - 1_000, cpuMs: -1_000 }];
    await watch([154, 103, ...new Array(20).fill(103), 99], () => undefined, { spent, waited });
    expect(waited.slice(0, 20)).toEqual([20, ...new Array(19).fill(2)]);
  });

  it('reads everything when something arrives in between', async () => {
    const did = await watch([103], (asked, inbox) => (asked === 2 ? inbox.put(outcome) : undefined));
    expect(did).toEqual(['look null', 'glance', 'glance', 'look null']);
  });
});
