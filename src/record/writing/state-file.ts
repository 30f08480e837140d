import { adoptState } from '../../core/state/adopt.ts';
import { readState } from '../../core/state/read.ts';
import { initialState, type Reclaim, type State } from '../../core/state/state.ts';
import { keepAside, readOwnFile } from '../../host/own/own-file.ts';
import type { Clock, Finding } from '../../ports.ts';
import { SHUTDOWN_INTERRUPTED, stateUnusable } from '../../words/finding-own.ts';
import { lastDecisionNumber } from '../reading/record-file.ts';
import { lastPendingNumber, pendingLinesPath } from './pending-lines.ts';

type LoadedState = {
  readonly state: State;
  /** As in `adoptState`. */
  readonly cutOff: readonly Reclaim[];
  readonly findings: readonly Finding[];
};

/** A dry run has a state of its own: its decisions must not be mistaken for real ones. */
export function stateFilePath(runtimeDirectory: string, dry: boolean): string {
  return `${runtimeDirectory}/${dry ? 'state-dry.json' : 'state.json'}`;
}

type Loading = {
  /** Another place with a boot's decisions, whose ids must not be reused if the state is lost. */
  readonly recordDirectory: string;
  readonly dry: boolean;
  /** As in `State`. */
  readonly measured: string;
};

/**
 * The state that the last run of this boot left, or a fresh one. An invalid file is kept aside as `.corrupt-<time>`, with a
 * finding (product.md section 11).
 */
export function loadState(path: string, bootId: string, clock: Clock, loading: Loading): LoadedState {
  const { measured } = loading;
  const nextDecision = (): number => lastDecision(path, bootId, loading) + 1;
  const fresh = (): State => ({ ...initialState(bootId), measured, nextDecision: nextDecision() });
  const saved = readOwnFile(path, readState);
  if (!saved.known && saved.why === 'absent') return { state: fresh(), cutOff: [], findings: [] };
  if (!saved.known || saved.value === null) {
    const why = saved.known ? 'it is not a state file of nodewarden' : saved.detail;
    return { state: fresh(), cutOff: [], findings: [stateUnusable(path, why, `it ${keepAside(path, clock)}`)] };
  }
  const { state, isInterrupted, cutOff } = adoptState(saved.value, bootId, clock.monoMs(), measured);
  // A dry run that was switched on may have served its first decisions with this state; the live agent decides them anew.
  const undropped = loading.dry ? {} : { dryDropped: [], dryOverLimit: [] };
  return { state: { ...state, ...undropped, measured }, cutOff, findings: isInterrupted ? [SHUTDOWN_INTERRUPTED] : [] };
}

/** Also that of a dry run before, or beside it: `history` shows the decisions of both. */
function lastDecision(path: string, bootId: string, { recordDirectory }: Loading): number {
  const recorded = [false, true].map((dry) => lastDecisionNumber(recordDirectory, bootId, dry));
  return Math.max(...recorded, lastPendingNumber(pendingLinesPath(path), bootId));
}
