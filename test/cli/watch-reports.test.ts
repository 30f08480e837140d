import { describe, expect, it } from 'vitest';
import { fitting, upOver } from '../../src/cli/watch-reports.ts';

const size = { columns: 10, rows: 6 };

describe('a report that is redrawn', () => {
  it('is left upwards by the rows that it takes, also where lines wrap', () => {
    expect(upOver('', size)).toBe('');
    expect(upOver('one\n\nthree\n', size)).toBe('\x1b[3A\x1b[J');
    expect(upOver(`${'x'.repeat(10)}\n${'x'.repeat(21)}\n\x1b[31m${'x'.repeat(10)}\x1b[39m\n\u4e2d\n`, size)).toBe(
      '\x1b[6A\x1b[J',
    );
  });

  it('has no more rows than the terminal, or could not be redrawn', () => {
    const five = 'a\nb\nc\nd\ne\n';
    expect(fitting(five, size)).toBe(five);
    const cut = fitting(`a\n${'x'.repeat(25)}\nc\nd\n`, { columns: 10, rows: 5 });
    expect(cut).toMatch(/^a\n\(3 more lines: .*\)\n$/);
    expect(fitting('a\nb\n', { columns: 100, rows: 2 })).toMatch(/^\(2 more lines: .*\)\n$/);
  });
});
