import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach } from 'vitest';
import { runDaemon } from '../../src/daemon/run.ts';
import { createClock, sleep } from '../../src/host/clock.ts';
import type { RecordEntry } from '../../src/record/entry.ts';
import { askDaemon } from '../../src/serve/ask.ts';
import type { StatusReport } from '../../src/serve/status.ts';
export const clock = createClock();
export const DEADLINE_MS = 30_000;
/** Of the test that runs: made before it and removed after it, for whoever imports this file. */
export let directory: string;
export let file: string;

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'nodewarden-daemon-'));
  file = join(directory, 'config.yaml');
  mkdirSync(join(directory, 'pods.d'), { mode: 0o755 });
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

export function write(lines: readonly string[]): void {
  const text = [
    'apiVersion: nodewarden.dev/v1alpha1',
    'kind: NodewardenConfiguration',
    `podManifests: ${directory}/pods.d`,
    `stateDirectory: ${directory}/state`,
    `runtimeDirectory: ${directory}/run`,
    `socket: ${directory}/run/nodewarden.sock`,
    `nodefs: { path: ${directory} }`,
    ...lines,
  ];
  writeFileSync(file, `${text.join('\n')}\n`);
  chmodSync(file, 0o644);
}

/** The daemon with what it reports, until the test says that it may stop. */
export async function running(
  body: (report: () => Promise<StatusReport>) => Promise<void>,
  onEntry: (entry: RecordEntry) => void = () => {},
  complain: (line: string) => void = () => {},
): Promise<0 | 1 | 2> {
  const stop = new AbortController();
  const ready = new Promise<void>((resolve) => {
    ended = runDaemon(
      { configFile: file, dryRun: false, log: 'none', onReady: resolve, onEntry, complain },
      stop.signal,
    );
  });
  await Promise.race([ready, sleep(clock, DEADLINE_MS)]);
  try {
    await body(async () => {
      const asked = await askDaemon(`${directory}/run/nodewarden.sock`, { ask: 'status' }, clock);
      if (asked.kind !== 'answer') throw new Error(`no status: ${asked.kind}`);
      return asked.answer as StatusReport;
    });
  } finally {
    stop.abort();
  }
  return ended;
}
let ended: Promise<0 | 1 | 2>;

export async function until(
  report: () => Promise<StatusReport>,
  holds: (report: StatusReport) => boolean,
): Promise<StatusReport> {
  const endMs = clock.monoMs() + DEADLINE_MS;
  for (;;) {
    const now = await report().catch(() => null);
    if (now !== null && holds(now)) return now;
    if (clock.monoMs() > endMs) throw new Error(`never so: ${JSON.stringify(now)}`);
    await sleep(clock, 50);
  }
}
export const pidLimit = (report: StatusReport): number | null | undefined =>
  report.signals.find(({ signal }) => signal === 'pid.available')?.thresholds[0]?.limit;
