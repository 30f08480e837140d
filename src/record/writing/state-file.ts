import { parseJson } from '../../core/shape.ts';
import { adoptState } from '../../core/state/adopt.ts';
import { readState } from '../../core/state/read.ts';
import { initialState, type State } from '../../core/state/state.ts';
import { readText, renameFile } from '../../host/files.ts';
import { sayStamp } from '../../host/record-disk.ts';
import type { Clock, Finding } from '../../ports.ts';
import { SHUTDOWN_INTERRUPTED, stateUnusable } from '../../words/finding-own.ts';
import { lastDecisionNumber } from '../reading/record-file.ts';
import { lastUnsettledNumber, unsettledPath } from './unsettled.ts';

/** architecture 4.2: with 1,000 pods the state stays below a quarter of this. */
const STATE_MAX_BYTES = 1024 * 1024;

export type LoadedState = { readonly state: State; readonly findings: readonly Finding[] };

/** A dry run has a state of its own: what it only thought of must not be taken for done. */
export function stateFilePath(runtimeDirectory: string, dry: boolean): string {
  return `${runtimeDirectory}/${dry ? 'state-dry.json' : 'state.json'}`;
}

/** Where a boot's decisions are known beside its state: their ids must not come again when that is lost. */
export type Decided = { readonly recordDirectory: string; readonly dry: boolean };

/**
 * The state that the last run of this boot left, or a fresh one. A file that cannot be understood is kept aside as
 * `.corrupt-<time>` and is a finding (product.md section 11).
 */
export function loadState(path: string, bootId: string, clock: Clock, decided: Decided): LoadedState {
  const fresh = (): State => ({ ...initialState(bootId), nextDecision: lastDecision(path, bootId, decided) + 1 });
  const text = readText(path, STATE_MAX_BYTES);
  if (!text.known && text.why === 'absent') return { state: fresh(), findings: [] };
  const saved = text.known ? readState(parseJson(text.value)) : null;
  if (saved === null) {
    const why = text.known ? 'it is not a state file of nodewarden' : text.detail;
    return { state: fresh(), findings: [keepAside(path, why, clock)] };
  }
  const { state, isInterrupted } = adoptState(saved, bootId, clock.monoMs());
  return { state, findings: isInterrupted ? [SHUTDOWN_INTERRUPTED] : [] };
}

function lastDecision(path: string, bootId: string, { recordDirectory, dry }: Decided): number {
  return Math.max(lastDecisionNumber(recordDirectory, bootId, dry), lastUnsettledNumber(unsettledPath(path), bootId));
}

/**
 * Whether the last run of this boot was in the middle of a shutdown that logind had announced. Only looks; what is wrong
 * with the file is told by `loadState`.
 */
export function wasPreparing(path: string, bootId: string): boolean {
  const text = readText(path, STATE_MAX_BYTES);
  const saved = text.known ? readState(parseJson(text.value)) : null;
  if (saved === null || saved.bootId !== bootId) return false;
  const { shutdown } = saved;
  return shutdown.kind === 'released' || (shutdown.kind === 'stopping' && shutdown.tier === 'logind');
}

function keepAside(path: string, why: string, clock: Clock): Finding {
  const aside = `${path}.corrupt-${sayStamp(clock.wallMs())}`;
  const moved = renameFile(path, aside);
  return stateUnusable(
    path,
    why,
    moved.known ? `it was kept as ${aside}` : `it could not be renamed (${moved.detail})`,
  );
}
