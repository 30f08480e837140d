import { describe, expect, it } from 'vitest';
import type { Clock, RecordNote } from '../../src/ports.ts';
import { createRunningNote } from '../../src/record/writing/boot-notes.ts';

function setUp() {
  let nowMs = 0;
  let timers: { readonly dueMs: number; readonly run: () => void }[] = [];
  const clock: Clock = {
    monoMs: () => nowMs,
    wallMs: () => nowMs,
    after: (ms, run) => {
      const timer = { dueMs: nowMs + ms, run };
      timers.push(timer);
      return () => {
        timers = timers.filter((other) => other !== timer);
      };
    },
  };
  const notes: RecordNote[] = [];
  const running = createRunningNote({ note: (note) => notes.push(note), clock });
  const to = (atMs: number): void => {
    nowMs = atMs;
    const due = timers.filter(({ dueMs }) => dueMs <= atMs);
    timers = timers.filter(({ dueMs }) => dueMs > atMs);
    for (const { run } of due) run();
  };
  return {
    notes,
    close: running.close,
    see: (atMs: number, ...pods: readonly string[]) => {
      to(atMs);
      running.seen(pods, atMs);
    },
    to,
  };
}

describe('the note about running pods', () => {
  it('is written at once for the first set, and not again while the set is unchanged', () => {
    const { see, notes } = setUp();
    see(5, 'shop/web', 'shop/db');
    see(200_000, 'shop/db', 'shop/web');
    expect(notes).toEqual([{ kind: 'running', atMs: 5, pods: ['shop/db', 'shop/web'] }]);
  });

  it('says that nothing is running', () => {
    const { see, notes } = setUp();
    see(5);
    expect(notes).toEqual([{ kind: 'running', atMs: 5, pods: [] }]);
  });

  it('is written at most once a minute, with the last known set, even without further looks', () => {
    const { see, to, notes } = setUp();
    see(0, 'a/a');
    see(1_000, 'a/b');
    see(2_000, 'a/c');
    to(59_999);
    expect(notes).toHaveLength(1);
    to(60_000);
    expect(notes.slice(1)).toEqual([{ kind: 'running', atMs: 2_000, pods: ['a/c'] }]);
    see(200_000, 'a/d');
    expect(notes).toHaveLength(3);
  });

  it('is not written for a set that was restored within the minute', () => {
    const { see, to, notes } = setUp();
    see(0, 'a/a');
    see(1_000, 'a/b');
    see(2_000, 'a/a');
    to(100_000);
    expect(notes).toHaveLength(1);
  });

  it('names at most 1,000 pods', () => {
    const { see, notes } = setUp();
    const names = Array.from({ length: 1_200 }, (_, i) => `a/${String(i).padStart(4, '0')}`);
    see(0, ...names);
    expect(notes).toEqual([{ kind: 'running', atMs: 0, pods: names.slice(0, 1_000) }]);
  });

  it('writes nothing once it is closed', () => {
    const { see, to, close, notes } = setUp();
    see(0, 'a/a');
    see(1_000, 'a/b');
    close();
    to(100_000);
    expect(notes).toHaveLength(1);
  });
});
