import { type Check, isNumber, isObject, isText, listOf, optional, shape } from '../../core/shape.ts';
import type { RecordEntry } from '../entry.ts';

/** The fields that a reader requires of each kind; a kind that is not listed requires none. */
export type Kinds = { readonly [kind: string]: { readonly [name: string]: Check } };
type Demands = { readonly notes: Kinds; readonly decisions: Kinds; readonly outcomes: Kinds };

/**
 * Whether a reader can use an entry. Bodies are not checked when they are read, and one entry that a failing disk changed
 * must not cost the reader all others.
 */
export function soundBy({ notes, decisions, outcomes }: Demands): (entry: RecordEntry) => boolean {
  return (entry) => {
    switch (entry.kind) {
      case 'note':
        return hasBody(notes, 'kind', entry.note);
      case 'decision':
        return isNumber(entry.decision.atMs) && isText(entry.decision.id) && hasBody(decisions, 'kind', entry.decision);
      case 'outcome':
        return isOutcome(entry.outcome) && hasBody(outcomes, 'kind', entry.outcome);
      default:
        return true;
    }
  };
}

const isOutcome: Check = (outcome) =>
  isObject(outcome) &&
  isNumber(outcome['atMs']) &&
  isText(outcome['of']) &&
  optional(listOf(isObject))(outcome['rungs']);

/** Whether it has the fields that its kind requires. */
export function hasBody(kinds: Kinds, name: string, value: unknown): boolean {
  if (!isObject(value) || !isText(value[name])) return false;
  const kind = String(value[name]);
  return shape(Object.hasOwn(kinds, kind) ? (kinds[kind] ?? {}) : {})(value);
}
