import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Decision } from '../../src/core/decision.ts';
import { type EntryBody, entryOf, sayEntry } from '../../src/record/entry.ts';
import { readBootEntries } from '../../src/record/reading/boot-report.ts';

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'nodewarden-boots-'));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

const bootId = '0f8fad5b-d9cb-469f-a165-70867728950e';
const line = (atWallMs: number, body: EntryBody): string => sayEntry(entryOf({ atWallMs, bootId, dry: false }, body));
const victim = { uid: 'u', namespace: 'default', name: 'web', qos: 'Burstable', priority: 0 } as const;
const stop: Decision = { id: '0f8fad5b-1', atMs: 1, kind: 'stop-for-shutdown', victim, phase: 1, graceSeconds: 20 };
const started = (atWallMs: number) => line(atWallMs, { kind: 'note', note: { kind: 'started', atMs: 1 } });

describe('the entries about boots', () => {
  it('are notes, outcomes and the stops of shutdowns, from the newest two files, oldest first', async () => {
    writeFileSync(join(directory, 'record.jsonl.1'), started(1));
    const condition: Decision = { id: 'x', atMs: 1, kind: 'set-condition', condition: 'DiskPressure', status: true };
    writeFileSync(
      join(directory, 'record.jsonl'),
      [
        line(2, { kind: 'decision', decision: stop, reasons: [] }),
        line(3, { kind: 'decision', decision: condition, reasons: [] }),
        line(4, {
          kind: 'decision',
          decision: { id: 'y', atMs: 1, kind: 'release-lock', why: 'out-of-time' },
          reasons: [],
        }),
        line(5, { kind: 'outcome', outcome: { of: stop.id, atMs: 2, kind: 'dropped', because: 'gone' } }),
        line(6, { kind: 'deferred', of: ['x'], waitedMs: 5 }),
        '{"schema":1,"atWallMs":7,"bootId":"torn',
      ].join(''),
    );
    const entries = await readBootEntries(directory);
    expect(entries.known && entries.value.map(({ atWallMs }) => atWallMs)).toEqual([1, 2, 4, 5]);
  });

  it('of dry runs follow, which have a record of their own', async () => {
    writeFileSync(join(directory, 'record-dry.jsonl'), started(1));
    writeFileSync(join(directory, 'record.jsonl'), started(2));
    const entries = await readBootEntries(directory);
    expect(entries.known && entries.value.map(({ atWallMs }) => atWallMs)).toEqual([2, 1]);
  });

  it('are empty without a record', async () => {
    expect(await readBootEntries(join(directory, 'nowhere'))).toEqual({ known: true, value: [] });
  });

  it('are each read once if the record is rotated meanwhile', async () => {
    const skipped = `{"schema":1,"pad":"${'x'.repeat(4_000)}"}\n`.repeat(4_000);
    const path = join(directory, 'record.jsonl');
    writeFileSync(`${path}.1`, started(1) + skipped);
    writeFileSync(path, started(2));
    const reading = readBootEntries(directory);
    await new Promise((resolve) => setTimeout(resolve, 3));
    renameSync(`${path}.1`, `${path}.2`);
    renameSync(path, `${path}.1`);
    writeFileSync(path, started(3));
    const entries = await reading;
    const times = entries.known ? entries.value.map(({ atWallMs }) => atWallMs) : [];
    expect([
      [1, 2],
      [2, 3],
      [1, 2, 3],
    ]).toContainEqual(times);
  });
});
