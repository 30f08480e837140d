import { type ActorNeeds, createActor } from '../../src/act/actor.ts';
import type { Decision } from '../../src/core/decision.ts';
import type { MetThreshold } from '../../src/core/eviction/threshold.ts';
import { isEnd, type Outcome } from '../../src/core/outcome.ts';
import { known, type Reading } from '../../src/core/reading.ts';
import type { SignalSample } from '../../src/core/signal.ts';
import type { Eviction } from '../../src/core/state/state.ts';
import { quantityOfBytes } from '../../src/core/units/quantity.ts';
import { createInbox } from '../../src/daemon/loop.ts';
import { createClock } from '../../src/host/clock.ts';
import type { Left, RecordNote, StopOrder } from '../../src/ports.ts';
import { MI } from '../a.ts';

export const clock = createClock();
const limit = quantityOfBytes(100 * MI, 'binary');
export const hard: MetThreshold = {
  id: 'memory.available/evictionHard',
  signal: 'memory.available',
  isHard: true,
  limit,
  target: quantityOfBytes(150 * MI, 'binary'),
  available: 90 * MI,
  sinceMs: 0,
};
export const soft: MetThreshold = { ...hard, id: 'memory.available/evictionSoft', isHard: false };
export const victim = { uid: 'u', namespace: 'shop', name: 'web', qos: 'Burstable', priority: 0 } as const;

export function evict(threshold: MetThreshold, graceSeconds: number): Decision {
  const rest = { ranking: [], message: 'The node was low on resource: memory. ', annotations: {}, differences: [] };
  return { id: 'boot-1', atMs: 0, kind: 'evict', threshold, victim, graceSeconds, ...rest };
}
export const sampleOf = (available: number): Reading<SignalSample> =>
  known({ available, capacity: 1_000 * MI, sampledAtMs: 1 });

/** An actor whose pod ends at once, or as `stop` says; what it did is kept in the order in which it happened. */
export function stage(rest: Partial<ActorNeeds> = {}) {
  const did: string[] = [];
  const orders: StopOrder[] = [];
  const notes: RecordNote[] = [];
  const recorded: Outcome[] = [];
  const inbox = createInbox(clock);
  const log = (_: unknown, msg: string) => void did.push(`log: ${msg}`);
  const actor = createActor({
    clock,
    inbox,
    observer: { reread: async () => sampleOf(90 * MI) },
    killer: {
      stop: async (order) => {
        did.push('stop');
        orders.push(order);
        return { of: order.decision, atMs: clock.monoMs(), kind: 'ended', via: 'sigkill', releasedBytes: known(MI) };
      },
      usedBytes: () => known(MI),
      largestProcesses: () => known([]),
    },
    reclaim: async ({ id }) => ({ of: id, atMs: 0, kind: 'reclaimed', freed: known(0) }),
    preKill: { collect: async () => void did.push('preKill'), skipped: () => '' },
    recorder: {
      intent: async () => 'durable',
      keep: () => {},
      outcome: (outcome) => recorded.push(outcome),
      began: (note) => notes.push(note),
      note: (note) => notes.push(note),
    },
    marks: {
      setCondition: (condition, status) => did.push(`${condition} ${status}`),
      event: (reason) => did.push(reason),
    },
    lock: { take: () => void did.push('take'), release: () => void did.push('release') },
    announce: () => void did.push('announce'),
    undoStops: () => void did.push('undo'),
    log: { debug: log, info: log, warn: log, error: log },
    findings: { raise: ({ text }) => void did.push(`finding: ${text}`), clear: () => {}, all: () => [] },
    isDry: () => false,
    ...rest,
  });
  const settled = async (): Promise<Outcome> => {
    for (;;) {
      if ((await inbox.wait(10_000)) === 'over') throw new Error('nothing came back');
      const outcome = inbox.drain().outcomes.find(isEnd);
      if (outcome !== undefined) return outcome;
    }
  };
  return { actor, inbox, did, orders, notes, recorded, settled };
}

/** What an earlier run of the agent left: a soft eviction whose grace period is over, and nothing that was done about it. */
export const left: Eviction = {
  decision: 'boot-1',
  decidedMs: 0,
  victim,
  graceEndsMs: 1,
  deadlineMs: 1,
  settledMs: null,
  cause: { kind: 'threshold', threshold: soft },
};
export const nothing: Left = {
  decision: null,
  begunMs: null,
  usedBefore: null,
  rungs: [],
  outcome: null,
};
