import type { Decision, DecisionId, RankRow } from '../core/decision.ts';
import { COMPARATORS, type Comparator } from '../core/eviction/comparator.ts';
import type { Outcome } from '../core/outcome.ts';
import type { PodUid } from '../core/pod/pod.ts';
import type { MonoMs, Reading } from '../core/reading.ts';
import type { SignalSample } from '../core/signal.ts';
import { bytesUp, sayBytes } from '../core/units/quantity.ts';
import { sayOutcome } from '../words/decision.ts';
import { sayThreshold } from '../words/phrases.ts';
import { DEMO_NAMESPACE, DEMO_PODS, MEMORY_THRESHOLD_BYTES, uidOf } from './load.ts';

/** Follows what the agent reports, in order. */
export type Story = {
  readonly decided: (decision: Decision) => void;
  readonly stopBegan: (of: DecisionId, atMs: MonoMs) => void;
  readonly ended: (outcome: Outcome) => void;
  /** Each look of the agent: what it saw of memory.available. */
  readonly look: (atMs: MonoMs, memory: Reading<SignalSample>) => void;
  /** The eviction is over, memory is free again and the node is no longer under pressure. */
  readonly isOver: () => boolean;
  readonly measured: () => Measured;
};
type Evict = Extract<Decision, { kind: 'evict' }>;
/** All instants on one monotonic clock; null = it has not happened. */
export type Measured = {
  readonly evictions: readonly Evict[];
  readonly outcome: Outcome | null;
  /** The last look that saw the threshold unmet: the crossing is between it and `threshold.sinceMs`. */
  readonly unmetLookMs: MonoMs | null;
  readonly stopBeganMs: MonoMs | null;
  /** The first look after the decision that saw the threshold unmet again. */
  readonly backMs: MonoMs | null;
  readonly availableNow: number | null;
};
type StoryNeeds = { readonly startMs: MonoMs; readonly say: (...lines: readonly string[]) => void };

/** Follows one eviction: describes what happens, and keeps what was measured for the summary. */
export function createStory({ startMs, say }: StoryNeeds): Story {
  let measured: Measured = {
    evictions: [],
    outcome: null,
    unmetLookMs: null,
    stopBeganMs: null,
    backMs: null,
    availableNow: null,
  };
  let hasPressure = false;
  const at = (atMs: MonoMs): string => `${((atMs - startMs) / 1000).toFixed(1).padStart(6)} s  `;

  return {
    decided: (decision) => {
      if (decision.kind === 'set-condition') {
        hasPressure = decision.status;
        const why = decision.status ? 'is set' : 'is cleared: its transition period is over';
        say(`${at(decision.atMs)}${decision.condition} ${why}`);
      }
      if (decision.kind !== 'evict') return;
      measured = { ...measured, evictions: [...measured.evictions, decision] };
      say(`${at(decision.atMs)}${sayThreshold(decision.threshold)}: one pod must be evicted`, ...sayRanking(decision));
    },
    stopBegan: (of, atMs) => {
      if (of === measured.evictions[0]?.id) measured = { ...measured, stopBeganMs: atMs };
    },
    ended: (outcome) => {
      const first = measured.evictions[0];
      if (outcome.of !== first?.id) return;
      measured = { ...measured, outcome };
      say(`${at(outcome.atMs)}${podName(first.victim.uid)}: ${sayOutcome(outcome, null, first)}`);
    },
    look: (atMs, memory) => {
      if (!memory.known) return;
      measured = { ...measured, availableNow: memory.value.available };
      const first = measured.evictions[0];
      if (first === undefined) {
        // The decision's own `sinceMs` is the look that saw it met.
        if (memory.value.available >= MEMORY_THRESHOLD_BYTES) measured = { ...measured, unmetLookMs: atMs };
      } else if (
        measured.backMs === null &&
        atMs > first.atMs &&
        memory.value.available >= bytesUp(first.threshold.limit)
      ) {
        measured = { ...measured, backMs: atMs };
        say(`${at(atMs)}memory recovered: ${sayBytes(memory.value.available)} available`);
      }
    },
    isOver: () => measured.outcome !== null && measured.backMs !== null && !hasPressure,
    measured: () => measured,
  };
}

export function podName(uid: PodUid): string {
  const pod = DEMO_PODS.find(({ name }) => uidOf(name) === uid);
  return pod === undefined ? uid : `${DEMO_NAMESPACE}/${pod.name}`;
}

/** The ranking with the values that decided it, and why the first pod is evicted and not the next one. */
function sayRanking({ ranking, victim }: Evict): readonly string[] {
  const rows = ranking.map((row, place) => {
    const cells = [
      `${place + 1}`,
      podName(row.uid).padEnd(14),
      sayOver(row).padEnd(22),
      `priority ${comparedValue(row, 'priority')}`,
    ];
    return `            ${cells.join('  ')}${row.uid === victim.uid ? '   <- evicted' : ''}`;
  });
  const first = ranking.findIndex(({ uid }) => uid === victim.uid);
  const [one, next] = [ranking[first], ranking[first + 1]];
  if (one === undefined || next === undefined || one.decidedBy === null) return rows;
  return [...rows, `            ${podName(one.uid)}, not ${podName(next.uid)}: ${COMPARATORS[one.decidedBy].because}`];
}

function sayOver(row: RankRow): string {
  const above = comparedValue(row, 'usage-over-request');
  if (typeof above !== 'number') return 'usage unknown';
  return above > 0 ? `${sayBytes(above)} above request` : `${sayBytes(-above)} below request`;
}

/** Null: unknown, or not compared for this signal. */
function comparedValue(row: RankRow, by: Comparator): number | string | boolean | null {
  const found = row.values.find((entry) => entry.by === by)?.value;
  return found?.known ? found.value : null;
}
