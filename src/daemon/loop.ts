import { decide } from '../core/decide.ts';
import type { Decision } from '../core/decision.ts';
import { SEEN_BETWEEN_LOOKS_MS, withoutUnseen } from '../core/eviction/thresholds-met.ts';
import type { Observation, ShutdownEvent } from '../core/observation.ts';
import { type Heard, isEnd } from '../core/outcome.ts';
import { afterGlance } from '../core/pace.ts';
import type { State } from '../core/state/state.ts';
import type { NextLook, Verdict } from '../core/verdict.ts';
import type { Clock, Inbox, Parts } from '../ports.ts';

/** At most one wait at a time: one resolver and one timer, so that years of waiting leave nothing behind. */
export function createInbox(clock: Clock): Inbox {
  let outcomes: Heard[] = [];
  let events: ShutdownEvent[] = [];
  let isAwake = false;
  let end: (() => void) | null = null;
  const wake = (): void => {
    isAwake = true;
    end?.();
  };
  return {
    put: (item) => {
      if ('of' in item) outcomes.push(item);
      else events.push(item);
      wake();
    },
    drain: () => {
      const arrived = { outcomes, events };
      outcomes = [];
      events = [];
      return arrived;
    },
    hasEnded: (of) => outcomes.some((heard) => heard.of === of && isEnd(heard)),
    wake,
    wait: (ms, again = () => null) =>
      new Promise((resolve) => {
        const over = (): void => {
          const nextMs = isAwake ? null : again();
          if (nextMs === null) end?.();
          // Not by a new promise, which would be a sixth of the cost of such a wait.
          else cancel = clock.after(nextMs, over);
        };
        // Even after a wake-up, the event loop must turn: effects and samples run beside the loop.
        let cancel = clock.after(isAwake ? 0 : ms, over);
        end = () => {
          cancel();
          end = null;
          const how = isAwake ? 'called' : 'over';
          isAwake = false;
          resolve(how);
        };
      }),
  };
}

type Step = { readonly observation: Observation; readonly verdict: Verdict };

/** Live or dry, the only writer of the state. */
export async function runLoop(saved: State, parts: Parts, stop: AbortSignal): Promise<State> {
  let state = saved;
  let next: NextLook = { afterMs: 0, pods: null };
  // Between the last look of an earlier run and the first look of this run, there was no agent.
  let seenMs = 0;
  while (!stop.aborted) {
    const steps = await stepsOf(state, next, parts, seenMs);
    seenMs = SEEN_BETWEEN_LOOKS_MS;
    const { observation, verdict } = asOne(steps);
    state = verdict.state;
    if (verdict.decisions.length > 0) {
      const recorded = parts.recorder.intent({ observation, verdict }, verdict.intentWaitMs);
      if (parts.prepare !== undefined) for (const decision of verdict.decisions) parts.prepare(decision);
      // A condition alone sends no signal, so the look that chooses the victim must not wait for it.
      if (verdict.decisions.some(({ kind }) => kind !== 'set-condition')) await recorded;
    } else parts.recorder.keep(state);
    for (const decision of verdict.decisions) parts.begin(decision);
    for (const step of steps) if (step !== undefined) parts.publish(step.observation, step.verdict);
    next = await untilNextLook(verdict.next, parts);
    if (parts.isOver?.() === true) break;
  }
  return state;
}

/**
 * Between full looks, glances read only memory.available if that is enough: it may be near a threshold for hours (D2).
 * Resolves to what the next full look has to read.
 */
async function untilNextLook(next: NextLook, { inbox, observer }: Parts): Promise<NextLook> {
  let { glance, pods } = next;
  const how = await inbox.wait(next.afterMs, () => {
    if (glance === undefined || observer.glance === undefined) return null;
    const after = afterGlance(glance, observer.glance());
    ({ glance } = after);
    if (after.afterMs === null) ({ pods } = after);
    return after.afterMs;
  });
  return how === 'called' ? next : { ...next, pods };
}

type Steps = readonly [Step, Step?];

/**
 * A look, followed at once by a second one if the first needs the pods to choose a victim. A new condition is reported and
 * recorded with the choice, which 3 ms of reporting would otherwise delay.
 */
async function stepsOf(state: State, next: NextLook, parts: Parts, seenMs: number): Promise<Steps> {
  const first = await stepOf(state, next, parts, seenMs);
  const { decisions, next: wanted, state: then } = first.verdict;
  const isAsking = wanted.afterMs === 0 && wanted.pods !== null;
  return isAsking && decisions.every(({ kind }) => kind === 'set-condition')
    ? [first, await stepOf(then, wanted, parts, SEEN_BETWEEN_LOOKS_MS)]
    : [first];
}

async function stepOf(state: State, next: NextLook, parts: Parts, seenMs: number): Promise<Step> {
  if (next.pods !== null) await parts.freshenPods?.();
  const observation = parts.observer.look(next, parts.inbox.drain());
  return { observation, verdict: decide(withoutUnseen(state, observation, seenMs), observation, parts.config()) };
}

/**
 * What to record for both looks: all decisions and outcomes, with the second look, which has the pods besides the first one's
 * readings; but with the first look if what began there is already over.
 */
function asOne([first, second]: Steps): Step {
  if (second === undefined) return first;
  const { conditionLastMetMs } = second.verdict.state;
  const isStill = (decision: Decision): boolean =>
    decision.kind === 'set-condition' && conditionLastMetMs[decision.condition] === second.observation.atMs;
  const isOver = second.verdict.decisions.length === 0 && !first.verdict.decisions.every(isStill);
  const { observation, verdict } = isOver ? first : second;
  return {
    observation: {
      ...observation,
      outcomes: [...first.observation.outcomes, ...second.observation.outcomes],
      shutdownEvents: [...first.observation.shutdownEvents, ...second.observation.shutdownEvents],
    },
    verdict: {
      ...second.verdict,
      decisions: [...first.verdict.decisions, ...second.verdict.decisions],
      reasons: verdict.reasons,
    },
  };
}
