import { describe, expect, it } from 'vitest';
import { tellVirtually } from '../../src/demo/virtual.ts';
import { createClock } from '../../src/host/clock.ts';

async function told(): Promise<{
  readonly text: string;
  readonly isProven: boolean;
  readonly lines: readonly string[];
}> {
  let text = '';
  const terminal = {
    write: (more: string) => {
      text += more;
    },
    paint: (_style: string, words: string) => words,
    size: () => null,
  };
  const { isProven, lines } = await tellVirtually({ terminal, clock: createClock() }, new AbortController().signal);
  return { text, isProven, lines };
}

describe('the story in virtual time', () => {
  it('is the same twice, to the last character', async () => {
    expect(await told()).toEqual(await told());
  });

  it('evicts the leaker, says why not the batch job, and names itself simulated at the end', async () => {
    const { text, lines, isProven } = await told();
    expect(isProven).toBe(true);
    expect(text).toMatch(/1 {2}demo\/web .*above request .*<- evicted\n +2 {2}demo\/batch .*above request/);
    expect(text).toContain('demo/web, not demo/batch: at equal priority, its usage is higher relative to its request');
    expect(text).toContain('memory recovered');
    expect(text).toContain('MemoryPressure is cleared');
    expect(lines.at(-1)).toMatch(/^ok: demo\/web evicted, memory\.available 59 MiB < 60 MiB, .* \(simulated\)$/);
  });

  it('ends at once and proves nothing when stopped', async () => {
    const stop = new AbortController();
    const terminal = { write: () => stop.abort(), paint: (_: string, words: string) => words, size: () => null };
    const { isProven, lines } = await tellVirtually({ terminal, clock: createClock() }, stop.signal);
    expect(isProven).toBe(false);
    expect(lines.at(-1)).toMatch(/^not proven: .*\(simulated\)$/);
  });
});
