import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { buildSync } from 'esbuild';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

const LINES = 500;
/** Longer than a pipe writes in one piece, so that a full pipe tears a line. */
const LINE_BYTES = 10_000;

/** Writes 5 MB of numbered lines to its standard output and tells on file descriptor 3 how long that took. */
const CHATTERBOX = `
  import { writeSync } from 'node:fs';
  import { createClock } from './src/host/clock.ts';
  import { createStdout } from './src/host/own/stdout.ts';
  const clock = createClock();
  const stdout = createStdout(clock);
  const began = clock.monoMs();
  for (let i = 0; i < ${LINES}; i++) stdout.writeLine(String(i).padStart(6, '0') + ' ' + 'x'.repeat(${LINE_BYTES - 8}));
  writeSync(3, String(clock.monoMs() - began) + '\\n');
  clock.after(3_000, () => process.exit(0));
`;

/** Without a loader that touches standard output before us: as the bundle runs. */
let directory: string;
let program: string;
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'nodewarden-stdout-'));
  program = join(directory, 'chatterbox.mjs');
  const resolveDir = fileURLToPath(new URL('../..', import.meta.url));
  const stdin = { contents: CHATTERBOX, resolveDir, loader: 'ts' } as const;
  buildSync({ stdin, bundle: true, platform: 'node', format: 'esm', outfile: program });
});
afterAll(() => {
  rmSync(directory, { recursive: true, force: true });
});

/** A reader behind a real pipe that begins to read only when it is told to. */
function startChatterbox() {
  const child = spawn('sh', ['-c', '"$0" "$1" 4<&- | { read -r go <&4; exec cat 3>&-; }', process.execPath, program], {
    stdio: ['ignore', 'pipe', 'inherit', 'pipe', 'pipe'],
  });
  const [, , , told, go] = child.stdio;
  if (!told || !go || !('write' in go)) throw new Error('no pipes');
  const tookMs = new Promise<number>((resolve) => {
    told.once('data', (text: Buffer) => resolve(Number(text.toString())));
  });
  return { child, tookMs, letRead: () => go.write('go\n') };
}

describe('standard output', () => {
  it('never waits for a reader', async () => {
    const { child, tookMs, letRead } = startChatterbox();
    // 5 MB into a pipe of 64 KiB: a blocking descriptor never comes to its report.
    expect(await tookMs).toBeLessThan(5_000);
    child.stdout?.resume();
    letRead();
  });

  it('gives a late reader complete lines, the first and the newest, and says how many were lost', async () => {
    const { child, tookMs, letRead } = startChatterbox();
    await tookMs;
    letRead();
    let text = '';
    for await (const chunk of child.stdout ?? []) text += chunk;
    const lines = text.trimEnd().split('\n');
    const numbered = lines.filter((line) => !line.startsWith('<4>'));
    for (const line of numbered) expect(line).toMatch(/^\d{6} x{9992}$/);
    const numbers = numbered.map((line) => Number(line.slice(0, 6)));
    expect(numbers).toEqual(numbers.toSorted((a, b) => a - b));
    expect(numbers[0]).toBe(0);
    expect(numbers.at(-1)).toBe(LINES - 1);
    const lost = LINES - numbered.length;
    expect(lost).toBeGreaterThan(300);
    const msg = `${lost} log lines were lost: standard output was not read for a while`;
    expect(lines.filter((line) => line.startsWith('<4>'))).toEqual([
      `<4>${JSON.stringify({ msg, event: 'finding', level: 'warn' })}`,
    ]);
  });
});
