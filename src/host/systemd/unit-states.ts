import type { Reading } from '../../core/reading.ts';

/** By the name that was asked for. */
export type UnitStates = ReadonlyMap<string, string>;

/** One call is in progress at a time; queries that arrive meanwhile are in the next one. */
export function createUnitStates(
  ask: (names: readonly string[]) => Promise<Reading<UnitStates>>,
): (name: string) => Promise<Reading<UnitStates>> {
  let next: { readonly names: Set<string>; readonly answer: Promise<Reading<UnitStates>> } | null = null;
  let last: Promise<unknown> = Promise.resolve();
  return (name) => {
    if (next === null) {
      const names = new Set<string>();
      const answer = last.then(() => {
        next = null;
        return ask([...names]);
      });
      next = { names, answer };
      last = answer;
    }
    next.names.add(name);
    return next.answer;
  };
}
