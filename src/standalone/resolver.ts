import type { MonoMs, Reading } from '../core/reading.ts';
import type { Systemd } from '../host/systemd.ts';
import type { Clock } from '../ports.ts';
import type { Target } from './annotation.ts';
import { type Place, resolveTarget } from './bind.ts';

/** A query about a binding. */
export type Question = {
  readonly manifest: { readonly target: Target };
  /** ASK_NOW: what is known may have changed. */
  askedMs: MonoMs;
  isAsking: boolean;
};
type Resolver = {
  /** Sends all queries that are due, within the limits. */
  readonly pump: () => void;
  readonly close: () => void;
};

export const ASK_NOW = Number.NEGATIVE_INFINITY;
/**
 * The maximum in flight. Each binding takes three queries to systemd, which answers them one by one. Each podman query is a
 * process, and one that hangs delays only other podman queries.
 */
const LANES = [
  { kind: 'unit', most: 16 },
  { kind: 'podman', most: 4 },
] as const;

/** Queries systemd and podman, each in its own lane, the oldest answer first. */
export function createResolver<Q extends Question>(needs: {
  readonly clock: Clock;
  readonly systemd: Systemd;
  readonly questions: () => Iterable<Q>;
  readonly isDue: (question: Q) => boolean;
  readonly answered: (question: Q, place: Reading<Place>) => void;
}): Resolver {
  const { clock, systemd, questions, isDue, answered } = needs;
  const asking = new Set<Q>();
  let isClosed = false;

  function pump(): void {
    for (const { kind, most } of LANES) {
      const isOf = ({ manifest }: Q): boolean => manifest.target.kind === kind;
      const room = most - [...asking].filter(isOf).length;
      if (room <= 0) continue;
      const due = [...questions()].filter((question) => isOf(question) && !question.isAsking && isDue(question));
      // Two that are both due now stay in order.
      due.sort((a, b) => (a.askedMs === b.askedMs ? 0 : a.askedMs - b.askedMs));
      for (const question of due.slice(0, room)) void ask(question);
    }
  }

  async function ask(question: Q): Promise<void> {
    const { target } = question.manifest;
    if (isClosed || target.kind === 'cgroup') return;
    asking.add(question);
    question.isAsking = true;
    question.askedMs = clock.monoMs();
    const place = await resolveTarget(systemd, target);
    asking.delete(question);
    question.isAsking = false;
    if (isClosed) return;
    answered(question, place);
    pump();
  }

  return {
    pump,
    close: () => {
      isClosed = true;
    },
  };
}
