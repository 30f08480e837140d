const MAX_DISTANCE = 2;
/** Longer names are not misspellings of ours, and the table below grows with the square. */
const MAX_NAME_LENGTH = 100;

/** The valid name that was probably meant: at most two edits away, or equal except for case. */
export function nearestName(wrong: string, valid: readonly string[]): string | null {
  if (wrong.length > MAX_NAME_LENGTH) return null;
  let best: string | null = null;
  let bestDistance = MAX_DISTANCE + 1;
  for (const name of valid) {
    const distance = name.toLowerCase() === wrong.toLowerCase() ? 0 : editDistance(wrong, name);
    // In a short name, two edits change nearly everything.
    if (distance < bestDistance && distance < wrong.length) {
      best = name;
      bestDistance = distance;
    }
  }
  return best;
}

/** Insertions, deletions, replacements, and swaps of two neighbours. */
function editDistance(a: string, b: string): number {
  if (Math.abs(a.length - b.length) > MAX_DISTANCE) return MAX_DISTANCE + 1;
  let beforeLast: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const cost = a[i - 1] === b[j - 1] ? 0 : 1;
      let edits = Math.min((last[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1, (last[j - 1] ?? 0) + cost);
      const isSwap = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      if (isSwap) edits = Math.min(edits, (beforeLast[j - 2] ?? 0) + 1);
      row.push(edits);
    }
    beforeLast = last;
    last = row;
  }
  return last[b.length] ?? 0;
}
