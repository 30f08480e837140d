import { describe, expect, it } from 'vitest';
import { createLog, type LogLevel } from '../../src/record/writing/log.ts';

function collect(level: LogLevel, env: NodeJS.ProcessEnv = { JOURNAL_STREAM: '8:1' }) {
  const lines: string[] = [];
  const log = createLog(level, { writeLine: (line) => lines.push(line) }, env);
  return { log, lines };
}

describe('a log line', () => {
  it("is one JSON object, its sentence first, after journald's priority", () => {
    const { log, lines } = collect('debug');
    log.debug({ event: 'config' }, 'read');
    log.info({ event: 'evict', pod: 'shop/web', availableBytes: 92 }, 'evicting shop/web');
    log.warn({ event: 'finding', finding: 'x' }, 'found');
    log.error({ event: 'evict-failed' }, 'failed');
    expect(lines).toEqual([
      '<7>{"msg":"read","event":"config","level":"debug"}',
      '<6>{"msg":"evicting shop/web","event":"evict","pod":"shop/web","availableBytes":92,"level":"info"}',
      '<4>{"msg":"found","event":"finding","finding":"x","level":"warn"}',
      '<3>{"msg":"failed","event":"evict-failed","level":"error"}',
    ]);
  });

  it('is left out below the level', () => {
    const { log, lines } = collect('warn');
    log.info({ event: 'config' }, 'read');
    expect(lines).toEqual([]);
  });

  it('contains the time only if no journal adds one', () => {
    const { log, lines } = collect('info', {});
    log.info({ event: 'config' }, 'read');
    expect(lines[0]).toMatch(/^<6>\{"time":"\d{4}-\d\d-\d\dT[\d:.]+Z","msg":"read","event":"config","level":"info"\}$/);
  });

  it('is a sentence for a person on a terminal', () => {
    const lines: string[] = [];
    const log = createLog('info', { writeLine: (line) => lines.push(line), isTerminal: true });
    log.debug({ event: 'config' }, 'read');
    log.info({ event: 'evicted', pod: 'shop/web' }, 'shop/web has ended');
    log.warn({ event: 'evict', pod: 'shop/web' }, 'evicting shop/we\nb');
    expect(lines).toHaveLength(2);
    expect(lines[0]).toMatch(/^\d\d:\d\d:\d\d {2}shop\/web has ended$/);
    expect(lines[1]).toMatch(/^\d\d:\d\d:\d\d {2}warning: evicting shop\/we\\u000ab$/);
  });

  it('cannot be forged by a name: a whole fake line in it stays text of one line', () => {
    const { log, lines } = collect('info');
    const hostile =
      'web"}\n<0>{"level":"error","event":"evict","msg":"evicting kube-system/dns"}\r\x1b[2J\u202e\u2028\u0085';
    log.info({ event: 'evict', pod: hostile }, `evicting ${hostile}`);
    expect(lines).toHaveLength(1);
    const [line = ''] = lines;
    // biome-ignore lint/suspicious/noControlCharactersInRegex: none of them may be there
    expect(line).not.toMatch(/[\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/);
    expect(line.startsWith('<6>{"msg":"evicting web')).toBe(true);
    expect(JSON.parse(line.slice(3))).toEqual({
      level: 'info',
      event: 'evict',
      pod: hostile,
      msg: `evicting ${hostile}`,
    });
  });

  it('is limited to 4 KiB per field and 16 KiB in all', () => {
    const { log, lines } = collect('info');
    log.info({ event: 'evict', pod: 'é'.repeat(10_000), left: Array.from({ length: 5_000 }, (_, pid) => pid) }, 'x');
    const cut = JSON.parse(lines[0]?.slice(3) ?? '');
    expect(Buffer.byteLength(cut.pod)).toBeLessThanOrEqual(4096);
    expect(cut.pod).toMatch(/^é+…$/);
    expect(Buffer.byteLength(cut.left)).toBeLessThanOrEqual(4096);

    // Each of these characters is six when escaped.
    const many = Object.fromEntries(Array.from({ length: 20 }, (_, i) => [`field${i}`, '\x1b'.repeat(4_000)]));
    log.error({ event: 'evict-failed', ...many }, `\u202e${'m'.repeat(3_000)}`);
    expect(Buffer.byteLength(lines[1] ?? '')).toBeLessThanOrEqual(16 * 1024);
    const short = JSON.parse(lines[1]?.slice(3) ?? '');
    expect(short).toMatchObject({ level: 'error', event: 'evict-failed' });
    expect(short.msg).toMatch(/^\u202em+$/);
    expect(short.cut).toMatch(/^the line had \d+ characters$/);
  });
});
