import type { GuardReason } from './decision.ts';
import { refOf } from './devices.ts';
import { authorityShut, epochShut, type Look, readsShut } from './gates.ts';
import { MARK } from './node-facts.ts';
import { type Progress, withDecision } from './progress.ts';
import type { Phase } from './record.ts';
import type { GuardState, NodeMemory } from './state.ts';
import { seenSign } from './turn.ts';

/** A mark of ours may stand for this long before it is known whose it is, and what removes it may take this long. */
const SEEN_AGAIN_MS = 10_000;
/** Phases in which the out-of-service taint of a fencing may stand. */
const TAINTED: ReadonlySet<Phase> = new Set(['proven', 'tainted', 'untainting']);

/**
 * G2 and guard.md 14: a mark of ours that no open fencing stands for is removed, and no other one (G11). An unreadable
 * record counts as none.
 */
export function stepMarks(before: Progress, look: Look): Progress {
  const { observation, state, asOfMs } = look;
  // What is read may be old, or another guard leads: the mark may be gone, or stand rightly.
  const unsure = authorityShut(look) ?? epochShut(look) ?? readsShut(look);
  if (!observation.records.known || unsure !== null) return before;
  let progress = before;
  const marks = new Map<string, { readonly what: string; readonly asOfMs: number }>();
  for (const memory of state.nodes.values()) {
    const { outOfServiceBy, fencedBy, foreignOutOfService } = memory.facts;
    if (outOfServiceBy === null && fencedBy === null && foreignOutOfService === null) continue;
    const { uid } = memory.object;
    const orphan = orphanOf(memory, progress.state);
    if (orphan === null && foreignOutOfService === null) continue;
    const what = orphan === null ? `foreign ${foreignOutOfService}` : `${orphan.act.kind} ${orphan.value}`;
    const said = state.marks.get(uid);
    const isSame = said?.what === what;
    const isDue = orphan === null ? !isSame : isSame && asOfMs - said.asOfMs >= SEEN_AGAIN_MS;
    marks.set(uid, isSame && !isDue ? said : { what, asOfMs });
    if (isDue) progress = told(progress, look, memory, orphan);
  }
  if (marks.size === 0 && state.marks.size === 0) return progress;
  return { ...progress, state: { ...progress.state, marks } };
}

function told(progress: Progress, look: Look, memory: NodeMemory, orphan: Orphan | null): Progress {
  const node = refOf(memory);
  if (orphan === null) {
    return withReason(progress, { code: 'foreign-taint', node, value: memory.facts.foreignOutOfService ?? '' });
  }
  const said = withReason(progress, { code: 'orphan-mark', node, value: orphan.value });
  return look.config.dryRun
    ? said
    : withDecision(said, look, { kind: 'unmark', node, value: orphan.value, act: orphan.act });
}

const withReason = (progress: Progress, reason: GuardReason): Progress => ({
  ...progress,
  reasons: [...progress.reasons, reason],
});

/** It carries the out-of-service taint of the guard, and has shown life since its machine was proven off (G2). */
export function livesTainted(memory: NodeMemory, { fencings }: Pick<GuardState, 'fencings'>): boolean {
  const { facts, isSuspect, signMs } = memory;
  const { outOfServiceBy } = facts;
  if (outOfServiceBy === null) return false;
  const record = fencings.get(outOfServiceBy)?.record;
  if (record === undefined) return signMs !== null && !isSuspect;
  return record.isAlive || seenSign(record, memory) !== null;
}

type Orphan = { readonly value: string; readonly act: { readonly kind: 'untell' | 'clear' } };

function orphanOf({ facts: { outOfServiceBy, fencedBy } }: NodeMemory, { fencings }: GuardState): Orphan | null {
  if (outOfServiceBy !== null) {
    const fencing = fencings.get(outOfServiceBy);
    if (fencing === undefined) return { value: `${MARK}${outOfServiceBy}`, act: { kind: 'clear' } };
    if (fencing.pending === null && !TAINTED.has(fencing.record.phase)) {
      return { value: `${MARK}${outOfServiceBy}`, act: { kind: 'untell' } };
    }
  }
  return fencedBy === null || fencings.has(fencedBy) ? null : { value: fencedBy, act: { kind: 'clear' } };
}
