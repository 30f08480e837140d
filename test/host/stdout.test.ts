import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

/** Writes lines of 1,000 bytes to its standard output and tells on file descriptor 3 how long that took. */
const CHATTERBOX = `
  import { writeSync } from 'node:fs';
  import { createClock } from '${new URL('../../src/host/clock.ts', import.meta.url).href}';
  import { createStdout } from '${new URL('../../src/host/stdout.ts', import.meta.url).href}';
  const clock = createClock();
  const stdout = createStdout(clock);
  const began = clock.monoMs();
  for (let i = 0; i < 5000; i++) stdout.writeLine(String(i).padStart(6, '0') + ' ' + 'x'.repeat(993));
  writeSync(3, JSON.stringify({ tookMs: clock.monoMs() - began, rssBytes: process.memoryUsage().rss }) + '\\n');
  clock.after(3000, () => process.exit(0));
`;

function startChatterbox() {
  const child = spawn(process.execPath, ['--import', 'tsx', '--input-type=module', '-e', CHATTERBOX], {
    stdio: ['ignore', 'pipe', 'inherit', 'pipe'],
    cwd: fileURLToPath(new URL('../..', import.meta.url)),
  });
  const told = child.stdio[3];
  if (told === null || told === undefined || !('setEncoding' in told)) throw new Error('no pipe');
  const report = new Promise<{ tookMs: number }>((resolve) => {
    told.once('data', (text: Buffer) => resolve(JSON.parse(text.toString())));
  });
  return { child, report };
}

describe('standard output', () => {
  it('is never waited for when nobody reads it', async () => {
    const { child, report } = startChatterbox();
    child.stdout?.pause();
    try {
      // 5 MB into a pipe of 64 KiB: a blocking descriptor would never come to the report.
      expect((await report).tookMs).toBeLessThan(5_000);
    } finally {
      child.kill('SIGKILL');
    }
  });

  it('gives a late reader whole lines, the first ones and the newest, and says how many were lost', async () => {
    const { child, report } = startChatterbox();
    await report;
    let text = '';
    for await (const chunk of child.stdout ?? []) text += chunk;
    const lines = text.trimEnd().split('\n');
    const said = lines.filter((line) => line.startsWith('<4>'));
    const numbered = lines.filter((line) => !line.startsWith('<4>'));
    for (const line of numbered) expect(line).toMatch(/^\d{6} x{993}$/);
    const numbers = numbered.map((line) => Number(line.slice(0, 6)));
    expect(numbers).toEqual(numbers.toSorted((a, b) => a - b));
    expect(numbers[0]).toBe(0);
    expect(numbers.at(-1)).toBe(4999);
    const lost = 5000 - numbered.length;
    expect(lost).toBeGreaterThan(3000);
    expect(said).toEqual([
      `<4>${JSON.stringify({ level: 'warn', event: 'finding', msg: `${lost} log lines were lost: nobody read standard output for a while` })}`,
    ]);
  });
});
