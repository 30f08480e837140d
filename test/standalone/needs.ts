import { join } from 'node:path';
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

/** A mode that acts, with its manifests and files there. */
export const placedIn = (directory: string) => ({
  ...{ cgroupRoot: '/', podManifests: join(directory, 'pods.d'), runtimeDirectory: directory },
  ...{ wake: (): void => undefined, dry: false },
});

/** Shows what takes minutes: time passes `times` as fast. */
export function hurried(clock: Clock, times: number): Clock {
  const startMs = clock.monoMs();
  return {
    monoMs: () => startMs + (clock.monoMs() - startMs) * times,
    wallMs: clock.wallMs,
    after: (ms, run) => clock.after(ms / times, run),
  };
}

/** Time that passes only as the test says, except for what is due at once. */
export function byHand(clock: Clock) {
  let nowMs = clock.monoMs();
  const due = new Map<() => void, number>();
  const after: Clock['after'] = (ms, run) => {
    if (ms === 0) return clock.after(ms, run);
    due.set(run, nowMs + ms);
    return () => void due.delete(run);
  };
  const pass = (ms: number): void => {
    nowMs += ms;
    for (const [run, atMs] of [...due]) if (atMs <= nowMs && due.delete(run)) run();
  };
  return { clock: { ...clock, monoMs: () => nowMs, after }, pass };
}
