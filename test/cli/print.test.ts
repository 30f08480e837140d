import { describe, expect, it } from 'vitest';
import { clean, displayWidth, gauge, padEnd, painter, table } from '../../src/cli/print.ts';

describe('a table', () => {
  it('aligns by terminal columns, not by code units', () => {
    const rows = [
      ['データ', '12'],
      ['e\u0301te', '7'],
      [painter(true)('red', 'web'), '105'],
    ];
    const lines = table(['POD', 'PRIORITY'], rows, [1]).trimEnd().split('\n');
    expect(lines.map(displayWidth)).toEqual([16, 16, 16, 16]);
    expect(lines[0]).toBe('POD     PRIORITY');
  });

  it('leaves no trailing blanks', () => {
    expect(table(['A', 'B'], [['a', '']])).toBe('A  B\na\n');
  });
});

describe('a gauge', () => {
  it('shows what is available from the left, with the thresholds towards which it sinks', () => {
    const marks = [
      { kind: 'hard', limit: 10 },
      { kind: 'soft', limit: 30 },
    ] as const;
    expect(gauge(50, 100, marks, 10)).toBe('[=!=~=.....]');
    expect(gauge(0, 100, marks, 10)).toBe('[.!.~......]');
    expect(gauge(100, 100, [], 10)).toBe('[==========]');
  });

  it('shows the hard threshold if both are at the same place, and survives nonsense', () => {
    const marks = [
      { kind: 'hard', limit: 10 },
      { kind: 'soft', limit: 12 },
    ] as const;
    expect(gauge(5, 100, marks, 10)).toBe('[=!........]');
    expect(gauge(5, 0, [{ kind: 'hard', limit: 10 }], 5)).toBe('[!....]');
    expect(gauge(500, 100, [{ kind: 'hard', limit: 1000 }], 5)).toBe('[====!]');
  });
});

describe('colour', () => {
  it('is left out if it is not wanted', () => {
    expect(painter(false)('red', 'web')).toBe('web');
    expect(painter(true)('red', 'web')).toBe('\x1b[31mweb\x1b[39m');
  });
});

describe('text that tenants chose', () => {
  it.each([
    ['\x1b[2J\x1b[H', '\\u001b[2J\\u001b[H'],
    ['web\r\nroot', 'web\\u000d\\u000aroot'],
    ['\u202egnp.exe', '\\u202egnp.exe'],
    ['\u2066a\u2069', '\\u2066a\\u2069'],
    ['a\u2028b\u0085c', 'a\\u2028b\\u0085c'],
    ['zero\u200bwidth', 'zero\\u200bwidth'],
    ['half \ud83d', 'half \\ud83d'],
    ['café データ 🙂', 'café データ 🙂'],
  ])('reaches the terminal as harmless text: %j', (hostile, expected) => {
    expect(clean(hostile)).toBe(expected);
  });

  it('is measured in terminal columns', () => {
    expect(padEnd('数', 4)).toBe('数  ');
  });
});
