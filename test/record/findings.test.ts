import { describe, expect, it } from 'vitest';
import type { RecordNote } from '../../src/ports.ts';
import { createFindings } from '../../src/record/writing/findings.ts';

/** Findings whose time is turned by hand. */
function stage(isRecordOpen = true) {
  let nowMs = 0;
  const timers: { atMs: number; run: () => void }[] = [];
  const lines: string[] = [];
  const notes: RecordNote[] = [];
  const clock = {
    monoMs: () => nowMs,
    wallMs: () => nowMs,
    after: (ms: number, run: () => void) => {
      const timer = { atMs: nowMs + ms, run };
      timers.push(timer);
      return () => void timers.splice(timers.indexOf(timer), timers.includes(timer) ? 1 : 0);
    },
  };
  const say = (_: unknown, msg: string) => void lines.push(msg);
  const log = { debug: say, info: say, warn: say, error: say };
  const findings = createFindings({ clock, log });
  const openRecord = (): void => findings.recordIn({ note: (note) => notes.push(note) });
  if (isRecordOpen) openRecord();
  const pass = (ms: number): void => {
    nowMs += ms;
    for (const timer of timers.filter(({ atMs }) => atMs <= nowMs)) {
      timers.splice(timers.indexOf(timer), 1);
      timer.run();
    }
  };
  return { findings, openRecord, lines, notes, pass, timers };
}
const nobody = { id: 'no-candidate/memory.available', text: 'nobody may go' };

describe('findings', () => {
  it('are logged when they are raised and when they are cleared', () => {
    const { findings, lines, notes, pass, timers } = stage();
    findings.raise(nobody);
    findings.raise({ ...nobody, text: 'nobody may go yet' });
    expect(findings.all()).toEqual([{ ...nobody, text: 'nobody may go yet' }]);
    pass(5_000);
    findings.clear(nobody.id);
    findings.clear('another');
    pass(60_000);
    expect(lines).toEqual(['nobody may go', 'resolved: nobody may go yet']);
    expect(notes).toHaveLength(1);
    expect(timers).toEqual([]);
  });

  it('beyond 500 are not shown, which stays true while they get fewer, and is resolved with a line', () => {
    const { findings, lines } = stage();
    const ids = Array.from({ length: 501 }, (_, i) => `pod/${i}`);
    for (const id of ids) findings.raise({ id, text: id });
    const said = 'there were more than 500 findings at once: later ones may not be shown';
    for (const id of ids.slice(0, 200)) findings.clear(id);
    expect(findings.all().at(-1)?.text).toBe(said);
    expect(findings.all().some(({ id }) => id === 'pod/500')).toBe(false);
    for (const id of ids.slice(200, 251)) findings.clear(id);
    expect(findings.all().some(({ text }) => text === said)).toBe(false);
    expect(lines.filter((line) => line.includes(said))).toEqual([said, `resolved: ${said}`]);
  });

  it('raised before the record is open are recorded once it is', () => {
    const { findings, openRecord, notes } = stage(false);
    findings.raise(nobody);
    openRecord();
    findings.raise({ ...nobody, id: 'another' });
    expect(notes).toEqual([
      { kind: 'finding', atMs: 0, finding: nobody },
      { kind: 'finding', atMs: 0, finding: { ...nobody, id: 'another' } },
    ]);
  });

  it('raised and cleared 50 times in 10 s are four lines, and status has each change at once', () => {
    const { findings, lines, notes, pass, timers } = stage();
    for (let i = 0; i < 50; i++) {
      findings.raise(nobody);
      expect(findings.all()).toHaveLength(1);
      pass(100);
      findings.clear(nobody.id);
      expect(findings.all()).toEqual([]);
      pass(100);
    }
    pass(60_000);
    expect(lines).toEqual([
      'nobody may go',
      'resolved: nobody may go',
      'recurred: nobody may go',
      expect.stringMatching(/^resolved \(raised 50 times in 1m\d*s\): nobody may go$/),
    ]);
    expect(notes).toHaveLength(1);
    pass(60_000);
    expect(timers).toEqual([]);
    findings.raise(nobody);
    expect(lines).toHaveLength(5);
  });

  it('report at the end of the run what no line has reported yet', () => {
    const { findings, lines, timers } = stage();
    for (let i = 0; i < 3; i++) {
      findings.clear(nobody.id);
      findings.raise(nobody);
    }
    findings.close();
    expect(lines.at(-1)).toBe('still present (raised 3 times in 0s): nobody may go');
    expect(timers).toEqual([]);
  });
});
