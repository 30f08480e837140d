import type { DecisionId, FencingId, Phase } from '../core/guard/record.ts';
import type { Fencing, GuardState } from '../core/guard/state.ts';
import type { MonoMs } from '../core/reading.ts';
import type { Summed } from '../serve/metric-rows.ts';
import type { AgentRan } from './agents.ts';
import type { GuardLook } from './loop.ts';

/** Since this process started. */
export type GuardCounts = {
  readonly decided: number;
  /** Fencings that came to such a phase. */
  readonly fencings: { readonly [R in FencingResult]: number };
  readonly holds: number;
  /** Machines that showed life though they were proven off. */
  readonly livesAfterProof: number;
  /** Fencings whose node had pods or volumes left after `drainWait`, or perhaps had. */
  readonly notDrained: number;
  /** Fencings that sent an `off`, by whether the machine was proven off by its devices. */
  readonly powerOffs: { readonly [R in PowerOffResult]: number };
  /** How long fencings were in a phase that is over. */
  readonly phases: readonly Summed[];
  readonly agentRuns: readonly (Pick<AgentRan, 'agent' | 'action' | 'result'> & { readonly count: number })[];
  readonly agentTimes: readonly Summed[];
};
export type FencingResult = 'proven' | 'tainted' | 'aborted' | 'failed' | 'stuck' | 'left-off' | 'not-back' | 'closed';
export type PowerOffResult = 'proven' | 'not-proven';

const RESULTS: { readonly [P in Phase]: FencingResult | null } = {
  ...{
    decided: null,
    isolating: null,
    'off-sent': null,
    proving: null,
    untainting: null,
    'on-sent': null,
    booting: null,
  },
  ...{ proven: 'proven', tainted: 'tainted', aborted: 'aborted', failed: 'failed', stuck: 'stuck' },
  ...{ 'left-off': 'left-off', 'not-back': 'not-back', closed: 'closed' },
};
/** From the first `off` on, as long as nothing is proven. */
const CUTTING: ReadonlySet<Phase> = new Set(['isolating', 'off-sent', 'proving']);

export function createGuardCounts(): {
  readonly decided: (look: Pick<GuardLook, 'observation' | 'verdict'>) => void;
  readonly ran: (run: AgentRan) => void;
  readonly now: () => GuardCounts;
} {
  const fencings = {
    ...{ proven: 0, tainted: 0, aborted: 0, failed: 0, stuck: 0, 'left-off': 0, 'not-back': 0, closed: 0 },
  };
  const powerOffs = { proven: 0, 'not-proven': 0 };
  const phases = createSums();
  const agentTimes = createSums();
  const agentRuns = new Map<string, GuardCounts['agentRuns'][number]>();
  let open: GuardState['fencings'] = new Map<FencingId, Fencing>();
  let decided = 0;
  let holds = 0;
  const livesAfterProof = new Set<FencingId>();
  const notDrained = new Set<FencingId>();
  /** Of which it is not known whether they are stored. */
  const awaited = new Map<DecisionId, FencingResult | 'decided'>();

  /** `after` undefined: it is over, and no longer kept. */
  function moved(before: Fencing, after: Fencing | undefined, atMs: MonoMs): void {
    const { record, version, sinceMs, pending } = before;
    const to = after?.record ?? pending?.becomes;
    // Its creation was not known to be stored, or another process stored what followed, at a time of its own.
    if (to === undefined || after === before || version === null || after?.isTakenOver) return;
    const endedMs = after?.sinceMs ?? atMs;
    if (endedMs === sinceMs) return;
    phases.add({ phase: record.phase }, endedMs - sinceMs);
    if (record.offSent.length === 0 || !CUTTING.has(record.phase) || CUTTING.has(to.phase)) return;
    // Proven once more, or not any more: it was counted when it was proven first.
    if (record.proof?.by === 'devices') return;
    powerOffs[to.proof?.by === 'devices' ? 'proven' : 'not-proven'] += 1;
  }

  return {
    decided: ({ observation: { atMs, outcomes }, verdict: { decisions, reasons, state } }) => {
      for (const { of, store } of outcomes) {
        const result = awaited.get(of);
        awaited.delete(of);
        if (result === undefined || store?.kind !== 'stored') continue;
        if (result === 'decided') decided += 1;
        else fencings[result] += 1;
      }
      // Said again while it cannot be stored.
      for (const reason of reasons) {
        if (reason.code === 'life-after-proof') livesAfterProof.add(reason.fencing);
        if (reason.code === 'not-drained') notDrained.add(reason.fencing);
      }
      for (const decision of decisions) {
        if (decision.kind === 'hold') holds += 1;
        else if (decision.kind === 'fence' && decision.isDry) decided += 1;
        else if (decision.kind === 'fence') awaited.set(decision.id, 'decided');
        else if ('record' in decision && decision.from !== decision.record.phase) {
          const result = RESULTS[decision.record.phase];
          if (result !== null) awaited.set(decision.id, result);
        }
      }
      if (state.fencings === open) return;
      for (const [id, before] of open) moved(before, state.fencings.get(id), atMs);
      open = state.fencings;
    },
    ran: ({ agent, action, result, tookMs }) => {
      const key = `${agent} ${action} ${result}`;
      agentRuns.set(key, { agent, action, result, count: 1 + (agentRuns.get(key)?.count ?? 0) });
      agentTimes.add({ agent, action }, tookMs);
    },
    now: () => ({
      ...{ decided, holds, livesAfterProof: livesAfterProof.size, notDrained: notDrained.size },
      ...{ fencings: { ...fencings }, powerOffs: { ...powerOffs } },
      ...{ phases: phases.all(), agentTimes: agentTimes.all(), agentRuns: [...agentRuns.values()] },
    }),
  };
}

function createSums() {
  const sums = new Map<string, Summed>();
  return {
    add: (labels: Summed['labels'], ms: number): void => {
      const key = Object.values(labels).join(' ');
      const { count, sumMs } = sums.get(key) ?? { count: 0, sumMs: 0 };
      sums.set(key, { labels, count: count + 1, sumMs: sumMs + ms });
    },
    all: (): readonly Summed[] => [...sums.values()],
  };
}
