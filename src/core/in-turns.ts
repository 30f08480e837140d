/** At each call, the next ones of a list that may change meanwhile, `most` at most; after the last ones, the first again. */
export function createInTurns(most: number): <T>(all: readonly T[]) => readonly T[] {
  let next = 0;
  return (all) => {
    const some = all.slice(next, next + most);
    next = next + most < all.length ? next + most : 0;
    return some;
  };
}
