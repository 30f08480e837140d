import { podName } from '../../core/pod/pod.ts';
import { sayProblem } from '../../document/problem.ts';
import type { Clock, Findings } from '../../ports.ts';
import { bindingId, bindingProblem } from '../../words/finding-standalone.ts';
import { complaintOf, type Entry, isAnswerDue, isUnlocated } from './pod-place.ts';

/** An answer that comes within this time needs no finding. */
const ANSWER_MS = 3_000;

/** What is wrong with bindings, as findings. */
export function createBindingFindings(needs: {
  readonly clock: Clock;
  readonly findings: Findings;
  readonly isEarly: () => boolean;
  /** All are to be told anew. */
  readonly again: () => void;
}): { readonly tell: (entry: Entry) => void; readonly close: () => void } {
  const { clock, findings } = needs;
  let cancel: (() => void) | null = null;

  /** What was said stays until there is an answer, or none has come for a while. */
  function isAwaited(entry: Entry): boolean {
    entry.dueMs = isAnswerDue(entry) ? (entry.dueMs ?? clock.monoMs()) : null;
    if (entry.dueMs === null) return false;
    const waitMs = entry.dueMs + ANSWER_MS - clock.monoMs();
    if (!isUnlocated(entry)) return true;
    if (waitMs <= 0) return false;
    cancel ??= clock.after(waitMs, () => {
      cancel = null;
      needs.again();
    });
    return true;
  }

  return {
    tell: (entry) => {
      if (isAwaited(entry)) return;
      const text = complaintOf(entry, needs.isEarly());
      if (text === entry.said) return;
      entry.said = text;
      const pod = podName(entry.manifest.declared);
      if (text === null) findings.clear(bindingId(pod));
      else findings.raise(bindingProblem(pod, sayProblem(entry.manifest.problem(text))));
    },
    close: () => cancel?.(),
  };
}
