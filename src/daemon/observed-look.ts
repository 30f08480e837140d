import type { ExplainedLook } from '../core/explain.ts';
import type { Observation } from '../core/observation.ts';
import type { PodView } from '../core/pod/pod.ts';
import { known, type Reading } from '../core/reading.ts';
import { withStopsTerminating } from '../core/shutdown/step.ts';
import { isDisk } from '../core/signal.ts';
import type { State } from '../core/state/state.ts';
import type { NextLook, Verdict } from '../core/verdict.ts';
import type { Clock } from '../ports.ts';
import type { NodeFacts } from '../serve/status.ts';

/** The answer to `{"ask":"observe"}`: one look of the daemon with every pod, and its decisions. Plain JSON. */
export type ObservedLook = ExplainedLook & { readonly schema: 1; readonly node: NodeFacts };
/** A look of the loop. */
export type Seen = {
  readonly observation: Observation;
  readonly verdict: Verdict;
  /** The state before it. */
  readonly before: State;
};
type ObservedLooksNeeds = {
  readonly clock: Clock;
  /** Requests a look now. */
  readonly wake: () => void;
  readonly node: () => NodeFacts;
  readonly config: () => ExplainedLook['config'];
  readonly podsNow: () => Reading<readonly PodView[]>;
};
type ObservedLooks = {
  /** The next look as JSON text. */
  readonly ask: () => Promise<string>;
  /** The next look, for a reader if one has asked. */
  readonly wanted: (next: NextLook) => NextLook;
  readonly seen: (seen: Seen) => void;
  /** Its source of pods is about to close: pending readers get no answer. */
  readonly close: () => void;
};

/**
 * As the look decided it: with its pods, of which those whose stop is in progress are terminating. `now`: the pods as read for
 * the caller, for what the look did not read of them.
 */
export function explainedLook(
  { observation, verdict: { decisions, reasons, state: after }, before }: Seen,
  config: ExplainedLook['config'],
  now: Observation['pods'],
): ExplainedLook {
  const seen = withStopsTerminating({ ...observation, pods: podsOf(observation, now) }, after.stops);
  return { observation: seen, config, state: before, decisions, reasons };
}

/** By now, a victim of the look may already be marked as being stopped, or be gone. */
function podsOf({ pods, podsFor = 'all' }: Observation, now: Observation['pods']): Observation['pods'] {
  if (!pods.known || !now.known) return pods.known ? pods : now;
  const isDiskRead = podsFor === 'all' || (podsFor !== null && isDisk(podsFor));
  const later = new Map(now.value.map((pod) => [pod.uid, pod]));
  return known(pods.value.map((pod) => withUnread(pod, later.get(pod.uid) ?? pod, isDiskRead)));
}

function withUnread(pod: PodView, { usage, diskRelief }: PodView, isDiskRead: boolean): PodView {
  const figures = Object.entries(pod.usage).filter(([, figure]) => figure.known || figure.why !== 'not-asked');
  const filled = { ...pod, usage: { ...usage, ...Object.fromEntries(figures) } };
  if (isDiskRead) return filled;
  return { ...filled, ...(diskRelief && { diskRelief }), usage: { ...filled.usage, disk: usage.disk } };
}

/** Serialising 1,000 pods takes 10 to 20 ms, and no kill of this look may wait for that. */
const WRITE_AFTER_MS = 20;
/** The minimum time between two: reading every pod counts against the CPU budget of D2. */
const LEAST_APART_MS = 100;

/** Gives the next look to all readers that ask. They share one look and one text. */
export function createObservedLooks(needs: ObservedLooksNeeds): ObservedLooks {
  let waiting: ((text: string) => void)[] = [];
  let givenMs = Number.NEGATIVE_INFINITY;
  let isGiven = false;
  let isClosed = false;
  const waitMs = (): number => Math.max(0, givenMs + LEAST_APART_MS - needs.clock.monoMs());
  return {
    ask: () =>
      new Promise((resolve) => {
        waiting.push(resolve);
        // A timer may fire a little early, and the look that it wakes would then not be for the reader.
        const ms = waitMs();
        needs.clock.after(ms === 0 ? 0 : Math.ceil(ms) + 1, needs.wake);
      }),
    wanted: (next) => {
      isGiven = waiting.length > 0 && waitMs() === 0;
      return isGiven ? { ...next, isForReader: true } : next;
    },
    seen: (seen) => {
      if (!isGiven) return;
      givenMs = needs.clock.monoMs();
      const readers = waiting;
      waiting = [];
      const config = needs.config();
      needs.clock.after(WRITE_AFTER_MS, () => {
        if (isClosed) return;
        const { pods, podsFor = 'all' } = seen.observation;
        // The core requests pods for one signal only: the rest of their usage is read now.
        const now = pods.known && podsFor === 'all' ? pods : needs.podsNow();
        const look: ObservedLook = { schema: 1, node: needs.node(), ...explainedLook(seen, config, now) };
        const text = JSON.stringify(look);
        for (const read of readers) read(text);
      });
    },
    close: () => {
      isClosed = true;
    },
  };
}
