import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { describe, expect, it } from 'vitest';
import { type EntryBody, entryOf, joinDecisions, sayEntry } from '../../src/record/entry.ts';
import { readRecord, readRotated } from '../../src/record/reading/record-file.ts';
import { MI } from '../a.ts';
import { anEviction } from '../serve/a-report.ts';
import { aRecorder, aStep } from './a-recorder.ts';

const { at, openRecorder } = aRecorder();

describe('the record file', () => {
  it('continues after the torn line of a killed agent, which the reader skips and counts', async () => {
    const first = openRecorder();
    await first.recorder.intent(aStep('b-1'), 2_000);
    await first.recorder.close();
    const path = at('record', 'record.jsonl');
    appendFileSync(path, '{"schema":1,"atWallMs":17000000');

    const second = openRecorder();
    await second.recorder.intent(aStep('b-2'), 2_000);
    await second.recorder.close();
    const { entries, tornLines } = readRecord(at('record'));
    expect(tornLines).toBe(1);
    expect(joinDecisions(entries).map(({ decision }) => decision.id)).toEqual(['b-1', 'b-2']);
    expect(second.findings.all()).toEqual([]);
  });

  it('is kept aside if damaged, with a finding, and a new one begins', async () => {
    mkdirSync(at('record'));
    const path = at('record', 'record.jsonl');
    const garbage = Buffer.concat([
      Buffer.from('{"schema":1,"atWallMs":1}\n'),
      Buffer.alloc(4096, 0),
      Buffer.from('\n'),
    ]);
    writeFileSync(path, garbage);
    const { recorder, findings } = openRecorder();
    expect(await recorder.intent(aStep('b-1'), 2_000)).toBe('durable');
    expect(findings.all().map(({ id }) => id)).toEqual(['record-corrupt']);
    expect(findings.all()[0]?.text).toContain('at line 2');
    const [aside = ''] = readdirSync(at('record')).filter((name) => name.includes('corrupt'));
    expect(aside).toMatch(/^record\.jsonl\.corrupt-\d{8}T\d{6}Z$/);
    expect(readFileSync(at('record', aside))).toEqual(garbage);
    const { entries } = readRecord(at('record'));
    expect(entries.map(({ kind }) => kind)).toContain('decision');
  });

  it('is rotated at 16 MiB, and four old ones are kept and read in order', async () => {
    mkdirSync(at('record'));
    const path = at('record', 'record.jsonl');
    const line = (of: string) =>
      `${JSON.stringify({ schema: 1, atWallMs: 1, bootId: 'b', dry: false, kind: 'outcome', outcome: { of } })}\n`;
    for (const n of [4, 3, 2, 1]) writeFileSync(`${path}.${n}`, line(`old-${n}`));
    writeFileSync(path, `${line('full')}{"schema":1,${' '.repeat(16 * MI)}\n`);
    const { recorder } = openRecorder();
    expect(await recorder.intent(aStep('b-1'), 2_000)).toBe('durable');
    await recorder.close();
    expect(existsSync(`${path}.5`)).toBe(false);
    const { entries } = readRecord(at('record'));
    const outcomes = entries.flatMap((entry) => (entry.kind === 'outcome' ? [entry.outcome.of] : []));
    expect(outcomes).toEqual(['old-3', 'old-2', 'old-1', 'full']);
    expect(statSync(path).size).toBeLessThan(MI);
  });

  it('distinguishes two decisions with the same id after the state was lost', async () => {
    const { recorder } = openRecorder();
    await recorder.intent(aStep('b-1'), 2_000);
    recorder.outcome({ of: 'b-1', atMs: 1, kind: 'dropped', because: 'gone' });
    await recorder.intent(aStep('b-1'), 2_000);
    recorder.outcome({ of: 'b-1', atMs: 2, kind: 'dropped', because: 'dry-run' });
    await recorder.close();
    const joined = joinDecisions(readRecord(at('record')).entries);
    expect(joined.map(({ outcomes }) => outcomes)).toMatchObject([[{ because: 'gone' }], [{ because: 'dry-run' }]]);
  });

  it('is read as a whole if it is rotated meanwhile', () => {
    mkdirSync(at('record'));
    const path = at('record', 'record.jsonl');
    writeFileSync(`${path}.2`, 'first\n');
    writeFileSync(`${path}.1`, 'second\n');
    writeFileSync(path, 'third\n');
    const lines: string[] = [];
    readRotated(at('record'), 'record.jsonl', MI, (line) => {
      lines.push(line);
      if (line !== 'second') return;
      renameSync(`${path}.2`, `${path}.3`);
      renameSync(`${path}.1`, `${path}.2`);
      renameSync(path, `${path}.1`);
      writeFileSync(path, 'fourth\n');
    });
    expect(lines).toEqual(['first', 'second', 'third']);
  });

  it('is read with every decision, however many notes of the running pods follow, and says how much of the oldest is left out', () => {
    mkdirSync(at('record'));
    const line = (ms: number, body: EntryBody): string =>
      sayEntry(entryOf({ atWallMs: Date.UTC(2026, 0, 1) + ms, bootId: 'boot', dry: false }, body));
    const note = (atMs: number): string =>
      line(atMs, { kind: 'note', note: { kind: 'running', atMs, pods: ['shop/web'] } });
    const notes = (count: number): string => Array.from({ length: count }, (_, i) => note(i)).join('');
    const decided = line(0, { kind: 'decision', decision: anEviction('b-2'), reasons: [] });
    writeFileSync(at('record', 'record.jsonl.1'), decided + notes(110_000));
    writeFileSync(at('record', 'record.jsonl'), notes(100_000) + note(7));
    const { entries, leftOut } = readRecord(at('record'));
    expect(leftOut).toBe(0);
    expect(entries[0]).toMatchObject({ decision: { id: 'b-2' } });
    expect(entries.at(-1)).toMatchObject({ note: { kind: 'running', atMs: 7 } });
    const lost = line(0, { kind: 'lost', entries: 1 });
    writeFileSync(at('record', 'record.jsonl'), lost.repeat(100_000));
    expect(readRecord(at('record'))).toMatchObject({ leftOut: 2 });
  });

  it('is empty if it does not exist', () => {
    expect(readRecord(at('none'))).toEqual({ entries: [], leftOut: 0, tornLines: 0, unreadable: [] });
  });
});
