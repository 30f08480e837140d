import { describe, expect, it } from 'vitest';
import { escapeUnsafe } from '../../../src/core/units/escape.ts';
import { sayProblem } from '../../../src/document/problem.ts';
import { createLog } from '../../../src/record/writing/log.ts';

/** One of each kind: controls, line ends, formats in and beyond the BMP (a tag, a musical beam), half a pair. */
const HOSTILE = [
  '\u0000',
  '\n',
  '\u001b[2J',
  '\u007f',
  '\u0085',
  '\u009b1A',
  '\u00ad',
  '\u061c',
  '\u0600',
  '\u180e',
  '\u200b',
  '\u2028',
  '\u2029',
  '\u202e',
  '\u2066',
  '\ufeff',
  '\ufff9',
  '\u{e0041}',
  '\u{1d173}',
  '\ud83d',
  '\udc00',
];
const UNSAFE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/u;

describe('a name that a tenant chose', () => {
  it.each(HOSTILE)('reaches neither a log line nor a problem unescaped: %j', (hostile) => {
    const name = `web${hostile}x`;
    const lines: string[] = [];
    const log = createLog('info', { writeLine: (line) => lines.push(line) }, { JOURNAL_STREAM: '8:1' });
    log.info({ event: 'evict', pod: name }, `evicting shop/${name}`);
    const problem = sayProblem({ file: `${name}.yaml`, line: 1, column: 1, path: name, text: `no ${name}` });
    expect(lines).toHaveLength(1);
    for (const said of [...lines, problem]) {
      expect(said).not.toMatch(UNSAFE);
      expect(said).toContain('web\\');
    }
  });

  it('stays readable if it is harmless, including surrogate pairs', () => {
    expect(escapeUnsafe('shöp/wéb 😀 日本')).toBe('shöp/wéb 😀 日本');
  });

  it('is unchanged after JSON, even beyond the BMP', () => {
    const name = `a\u0085\u{e0041}b\u202e\u{1d173}😀`;
    const said = escapeUnsafe(JSON.stringify({ name }));
    expect(said).toBe('{"name":"a\\u0085\\udb40\\udc41b\\u202e\\ud834\\udd73😀"}');
    expect(JSON.parse(said)).toEqual({ name });
  });
});
