import type { DecisionId } from '../../core/decision.ts';
import type { MonoMs } from '../../core/reading.ts';
import type { Clock, Findings } from '../../ports.ts';
import type { ApiRight } from '../../words/finding-writes.ts';
import type { ApiWrites } from '../api/api-writes.ts';
import { reportWrite } from '../api/write-failure.ts';
import type { ApiEvent, EventObject, EventReason } from '../api/write-rules.ts';
import type { Spooled } from './spool-file.ts';

export type TellEvent = (told: {
  readonly reason: EventReason;
  readonly about: EventObject;
  readonly message: string;
  readonly annotations: { readonly [key: string]: string };
  readonly decision: DecisionId;
}) => void;
type EventNeeds = {
  readonly clock: Clock;
  readonly nodeName: string;
  readonly writes: Pick<ApiWrites, 'createEvent' | 'ofNode'>;
  readonly isUp: () => boolean;
  /** Keeps events until `said`: if the agent dies before, its next run sends them (C5). */
  readonly spool: { readonly put: (entry: Spooled) => void; readonly said: (entry: Spooled) => void };
  readonly findings: Pick<Findings, 'raise' | 'clear'>;
};

/** A18: the limits of the client library's spam filter. */
const BURST = 25;
const REFILL_MS = 300_000;
/** Tenants can create any number of objects. */
const PACES_MAX = 1_000;
/** The maximum number waiting for the server; further ones stay only in the spool. */
const QUEUE_MAX = 100;
const NAME_MAX = 253;

type Entry = Extract<Spooled, { kind: 'event' }>;
type Pace = { tokens: number; atMs: MonoMs; last: Entry | null; cancel: (() => void) | null };

/**
 * Reports what was done as events, in the background: nothing waits for it, and it never throws. For one object and
 * reason, 25 events are created, then one every five minutes; those in between increase the count of the last one
 * (A18).
 */
export function createEvents(needs: EventNeeds): { readonly tell: TellEvent; readonly close: () => void } {
  const { clock, writes } = needs;
  const paces = new Map<string, Pace>();
  const queue: Entry[] = [];
  /** Not in the spool yet. */
  const fresh: Spooled[] = [];
  let isSending = false;

  const send = async (entry: Entry): Promise<void> => {
    const { event } = entry;
    const said = needs.isUp() ? await writes.createEvent(event) : null;
    if (said === null) return;
    reportWrite(needs.findings, rightFor(event), said.kind === 'done' ? null : said);
    // A server that does not know who asks (401) may take it with the next credentials.
    const isForbidden = said.kind === 'forbidden' && said.right !== null;
    if (said.kind === 'done' || said.kind === 'rejected' || isForbidden) needs.spool.said(entry);
  };
  const pump = async (): Promise<void> => {
    if (isSending) return;
    isSending = true;
    for (let next = queue.shift(); next !== undefined; next = queue.shift()) await send(next);
    isSending = false;
  };
  const keep = (): void => {
    for (const entry of fresh.splice(0)) needs.spool.put(entry);
  };
  const put = (entry: Entry): void => {
    fresh.push(entry);
    if (queue.length < QUEUE_MAX) queue.push(entry);
    // Not in this turn of the event loop, because a pod may be about to be stopped in it.
    clock.after(0, () => {
      keep();
      void pump();
    });
  };
  const paceOf = (key: string): Pace => {
    const pace = paces.get(key) ?? { tokens: BURST, atMs: clock.monoMs(), last: null, cancel: null };
    paces.delete(key);
    paces.set(key, pace);
    const [oldest] = paces;
    if (paces.size > PACES_MAX && oldest !== undefined) {
      oldest[1].cancel?.();
      paces.delete(oldest[0]);
    }
    const refilled = pace.tokens + (clock.monoMs() - pace.atMs) / REFILL_MS;
    pace.tokens = Math.min(BURST, refilled);
    pace.atMs = clock.monoMs();
    return pace;
  };
  const countLater = (key: string, pace: Pace): void => {
    pace.cancel ??= clock.after(Math.ceil((1 - pace.tokens) * REFILL_MS), () => {
      pace.cancel = null;
      if (paceOf(key).last === null) return;
      pace.tokens -= 1;
      if (pace.last !== null) put(pace.last);
    });
  };
  return {
    tell: ({ reason, about, message, annotations, decision }) => {
      const key = [reason, about.kind, ...(about.kind === 'Pod' ? [about.namespace, about.name, about.uid] : [])].join(
        '/',
      );
      const pace = paceOf(key);
      const nowMs = clock.wallMs();
      if (pace.tokens < 1 && pace.last !== null) {
        const { event } = pace.last;
        pace.last = { ...pace.last, event: { ...event, message, count: event.count + 1, lastWallMs: nowMs } };
        countLater(key, pace);
        return;
      }
      pace.tokens -= 1;
      const name = eventName(about.kind === 'Pod' ? about.name : needs.nodeName, reason, decision);
      const times = { firstWallMs: nowMs, lastWallMs: nowMs, count: 1 };
      const event = { name, about, reason, type: TYPES[reason], message, annotations, ...times };
      pace.last = { kind: 'event', event, ...writes.ofNode() };
      put(pace.last);
    },
    close: () => {
      for (const { last, cancel } of paces.values()) {
        if (cancel === null || last === null) continue;
        cancel();
        fresh.push(last);
      }
      keep();
      queue.length = 0;
    },
  };
}

/** Creates the event, or increases the count of one that was sent before. */
export const rightFor = ({ count }: ApiEvent): ApiRight => (count > 1 ? 'patch events' : 'create events');

/** As in the kubelet (kubelet-eviction.md 7.5). */
const TYPES: { readonly [R in EventReason]: ApiEvent['type'] } = {
  Evicted: 'Warning',
  EvictionThresholdMet: 'Warning',
  NodeShutdown: 'Normal',
};

/** The same name for the same decision: sent again after a crash, it remains one event (C6). */
export function eventName(object: string, reason: string, decision: DecisionId): string {
  const what = `nodewarden-${reason}-${decision}`
    .toLowerCase()
    .replace(/[^a-z0-9-]/g, '-')
    .replace(/-+$/, '');
  const whose = object.slice(0, NAME_MAX - what.length - 1).replace(/[-.]+$/, '');
  return `${whose}.${what}`;
}
