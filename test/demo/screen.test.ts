import { describe, expect, it } from 'vitest';
import { known, unknown } from '../../src/core/reading.ts';
import { clip, createScreen, type Frame, gaugeLine, type Terminal } from '../../src/demo/screen.ts';

const MIB = 1024 * 1024;
const plain = (_style: string, text: string): string => text;
const marked = (style: string, text: string): string => `<${style}>${text}</${style}>`;

function aFrame(atMs: number, availableMiB: number): Frame {
  const sample = known({ available: availableMiB * MIB, capacity: 512 * MIB, sampledAtMs: atMs });
  return {
    atMs,
    gauges: [{ signal: 'memory.available', sample, limits: [60 * MIB] }],
    conditions: [],
    pods: [{ name: 'demo/web', facts: 'Burstable', usedBytes: known(256 * MIB), note: '' }],
  };
}

function aTerminal(size: { columns: number; rows: number } | null): Terminal & { readonly text: () => string } {
  let text = '';
  return {
    write: (more) => {
      text += more;
    },
    paint: plain,
    size: () => size,
    text: () => text,
  };
}

describe('a gauge', () => {
  const gauge = (available: number) => ({
    signal: 'memory.available' as const,
    sample: known({ available, capacity: 512 * MIB, sampledAtMs: 0 }),
    limits: [60 * MIB],
  });

  it('shows what is left, the threshold and both amounts', () => {
    const line = gaugeLine(gauge(256 * MIB), plain);
    expect(line).toContain('████┃█████████████░░░░░░░░░░░░░░░░░░');
    expect(line).toMatch(/256 MiB evict below 60 MiB$/);
  });

  it('is red below the threshold and not at it', () => {
    expect(gaugeLine(gauge(60 * MIB - 1), marked)).toContain('<red>');
    expect(gaugeLine(gauge(60 * MIB), marked)).not.toContain('<red>');
  });

  it('says why there is no number, and draws none', () => {
    const line = gaugeLine({ ...gauge(0), sample: unknown('timed-out', '/srv', 'no answer in 2 s') }, plain);
    expect(line).toContain('unknown: no answer in 2 s');
    expect(line).not.toContain('0 ');
  });
});

describe('the screen', () => {
  it('prints at most one line a second without a terminal, and no control characters', () => {
    const terminal = aTerminal(null);
    const screen = createScreen(terminal, 0, 512 * MIB);
    for (let ms = 0; ms <= 3_000; ms += 10) screen.show(aFrame(ms, 300));
    const lines = terminal.text().trimEnd().split('\n');
    expect(lines.map((line) => line.slice(0, 8))).toEqual(['   0.0 s', '   1.0 s', '   2.0 s', '   3.0 s']);
    expect(terminal.text()).not.toContain('\u001b');
  });

  it('redraws its own picture on a terminal, and prints lines above it', () => {
    const terminal = aTerminal({ columns: 120, rows: 40 });
    const screen = createScreen(terminal, 0, 512 * MIB);
    screen.show(aFrame(0, 300));
    const height = terminal.text().split('\n').length - 1;
    screen.say('something happened');
    expect(terminal.text()).toContain(`\u001b[${height}A\u001b[Jsomething happened\n─`);
    screen.show(aFrame(50, 111));
    expect(terminal.text()).not.toContain('111 MiB');
    screen.show(aFrame(100, 111));
    expect(terminal.text()).toContain('111 MiB');
  });

  it('falls back to plain lines on a terminal that is too small for the picture', () => {
    const terminal = aTerminal({ columns: 120, rows: 5 });
    createScreen(terminal, 0, 512 * MIB).show(aFrame(0, 300));
    expect(terminal.text()).toMatch(/^ +0\.0 s {2}memory\.available 300 MiB\n$/);
  });

  it('cuts a line by visible columns, never within a colour', () => {
    expect(clip('\u001b[31mred and long\u001b[39m', 3)).toBe('\u001b[31mred\u001b[0m');
    expect(clip('short', 80)).toBe('short');
  });
});
