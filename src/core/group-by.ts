/** In the order of each key's first appearance. */
export function groupBy<T, K>(list: readonly T[], keyOf: (item: T) => K): ReadonlyMap<K, readonly T[]> {
  const groups = new Map<K, T[]>();
  for (const item of list) {
    const key = keyOf(item);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [item]);
    else group.push(item);
  }
  return groups;
}

/** How often each of them is there. */
export function tally(all: readonly string[]): { readonly [what: string]: number } {
  return Object.fromEntries([...groupBy(all, (what) => what)].map(([what, same]) => [what, same.length]));
}
