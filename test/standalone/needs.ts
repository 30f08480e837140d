import type { Clock, Finding, Findings, Log, LogFields, RecordNote } from '../../src/ports.ts';

/** Findings and log lines that can be read afterwards. */
export function heardParts() {
  const present = new Map<string, string>();
  const lines: string[] = [];
  const notes: RecordNote[] = [];
  const findings: Findings = {
    raise: ({ id, text }: Finding) => void present.set(id, text),
    clear: (id) => void present.delete(id),
    all: () => [...present].map(([id, text]) => ({ id, text })),
  };
  const say = (fields: LogFields, msg: string): void => void lines.push(`${fields.event}: ${msg}`);
  const log: Log = { debug: say, info: say, warn: say, error: say };
  return { findings, present, log, lines, notes, note: (note: RecordNote) => void notes.push(note) };
}

/** Shows what takes minutes: time passes `times` as fast. */
export function hurried(clock: Clock, times: number): Clock {
  const startMs = clock.monoMs();
  return {
    monoMs: () => startMs + (clock.monoMs() - startMs) * times,
    wallMs: clock.wallMs,
    after: (ms, run) => clock.after(ms / times, run),
  };
}
