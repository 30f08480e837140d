import type { MonoMs, Reading } from '../../core/reading.ts';
import type { Clock } from '../../ports.ts';
import type { Target } from './annotation.ts';
import { type AskedOfBindings, resolveTargets } from './bind.ts';
import type { Place } from './place.ts';

/** A query about a binding. */
export type Question = {
  readonly manifest: { readonly target: Target };
  /** When it was asked last. */
  askedMs: MonoMs;
  /** What is known may have changed: it is to be asked at once. */
  isAnew: boolean;
  /** What it is asked about may have changed since it was asked: its answer may be older. */
  isOutrun: boolean;
  isAsking: boolean;
  /** It had no answer beside others, one of which may be why: until it has one, it is asked alone. */
  isAlone: boolean;
};
export const NEW_QUESTION = { askedMs: 0, isAnew: true, isOutrun: false, isAsking: false, isAlone: false } as const;
type Resolver = {
  /** Sends all queries that are due, within the limits: it goes through all of them. */
  readonly pump: () => void;
  readonly close: () => void;
};

/**
 * The maximum in flight, and of questions in one query. Each unit takes three queries to systemd, which answers them one by one.
 * Each podman query is a process, and one that hangs delays only other podman queries; what is printed about more containers than
 * that may be too long.
 */
const LANES = [
  { kind: 'unit', most: 16, together: 1 },
  { kind: 'podman', most: 4, together: 16 },
] as const;

/** Queries systemd and podman, each in its own lane, the oldest answer first. */
export function createResolver<Q extends Question>(
  needs: AskedOfBindings & {
    readonly clock: Clock;
    readonly questions: () => Iterable<Q>;
    readonly isDue: (question: Q) => boolean;
    readonly answered: (question: Q, place: Reading<Place>) => void;
  },
): Resolver {
  const { clock, questions, isDue, answered } = needs;
  const lanes = LANES.map((lane) => ({ ...lane, asking: 0, waiting: [] as Q[] }));
  let isClosed = false;

  function pump(): void {
    for (const lane of lanes) {
      const isOf = ({ manifest }: Q): boolean => manifest.target.kind === lane.kind;
      lane.waiting = [...questions()].filter((question) => isOf(question) && isOpen(question));
      // The next one is the last; two that are both due now stay in order.
      lane.waiting.reverse().sort((a, b) => Number(a.isAnew) - Number(b.isAnew) || b.askedMs - a.askedMs);
      next(lane);
    }
  }

  const isOpen = (question: Q): boolean => !question.isAsking && isDue(question);

  function next(lane: (typeof lanes)[number]): void {
    while (lane.asking < lane.most) {
      const question = lane.waiting.pop();
      if (question === undefined) return;
      if (isOpen(question)) void ask(lane, [question, ...othersWith(question, lane)]);
    }
  }

  function othersWith({ isAlone }: Q, { waiting, together }: (typeof lanes)[number]): readonly Q[] {
    if (isAlone || together === 1) return [];
    const others = waiting.filter((question) => !question.isAlone && isOpen(question));
    return others.reverse().slice(0, together - 1);
  }

  async function ask(lane: (typeof lanes)[number], questions: readonly Q[]): Promise<void> {
    if (isClosed) return;
    lane.asking += 1;
    for (const question of questions)
      Object.assign(question, { isAsking: true, isAnew: false, isOutrun: false, askedMs: clock.monoMs() });
    const asked = questions.map((question) => ({ question, name: nameOf(question) }));
    const places = await resolveTargets(
      needs,
      lane.kind,
      asked.map(({ name }) => name),
    );
    lane.asking -= 1;
    for (const { question, name } of asked) {
      question.isAsking = false;
      const place = places.get(name);
      if (isClosed || place === undefined) continue;
      question.isAlone = !place.known && place.why !== 'absent';
      if (question.isAlone && questions.length > 1) question.isAnew = true;
      else answered(question, place);
      // What is known of it may have changed while it was asked.
      if (isDue(question)) lane.waiting.push(question);
    }
    next(lane);
  }

  return {
    pump,
    close: () => {
      isClosed = true;
    },
  };
}

function nameOf({ manifest: { target } }: Question): string {
  if (target.kind === 'cgroup') return target.path;
  return target.kind === 'unit' ? target.unit : target.name;
}
