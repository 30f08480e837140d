import type { MonoMs } from '../../core/reading.ts';

/** Virtual time: what is due, in order of time, and of entry where times are equal. Nothing ticks in between. */
export type Agenda = {
  readonly now: () => MonoMs;
  readonly at: (ms: MonoMs, act: () => void) => void;
  readonly after: (ms: number, act: () => void) => void;
  /** Does everything due up to and including that instant. */
  readonly runUntil: (ms: MonoMs) => void;
};
type Entry = { readonly ms: MonoMs; readonly no: number; readonly act: () => void };

export function createAgenda(): Agenda {
  const heap: Entry[] = [];
  let nowMs = 0;
  let no = 0;
  const at = (ms: MonoMs, act: () => void): void => {
    no += 1;
    push(heap, { ms: Math.max(ms, nowMs), no, act });
  };
  return {
    now: () => nowMs,
    at,
    after: (ms, act) => at(nowMs + ms, act),
    runUntil: (untilMs) => {
      for (let next = heap[0]; next !== undefined && next.ms <= untilMs; next = heap[0]) {
        pop(heap);
        nowMs = next.ms;
        next.act();
      }
      nowMs = Math.max(nowMs, untilMs);
    },
  };
}

const isBefore = (a: Entry, b: Entry): boolean => a.ms < b.ms || (a.ms === b.ms && a.no < b.no);

/** A binary heap: the first entry is due first. */
function push(heap: Entry[], entry: Entry): void {
  let at = heap.length;
  while (at > 0) {
    const up = (at - 1) >> 1;
    const parent = heap[up];
    if (parent === undefined || !isBefore(entry, parent)) break;
    heap[at] = parent;
    at = up;
  }
  heap[at] = entry;
}

function pop(heap: Entry[]): void {
  const last = heap.pop();
  if (last === undefined || heap.length === 0) return;
  let at = 0;
  for (;;) {
    let down = at * 2 + 1;
    const [left, right] = [heap[down], heap[down + 1]];
    let child = left;
    if (left !== undefined && right !== undefined && isBefore(right, left)) {
      child = right;
      down += 1;
    }
    if (child === undefined || !isBefore(child, last)) break;
    heap[at] = child;
    at = down;
  }
  heap[at] = last;
}
