import { pino, stdTimeFunctions } from 'pino';
import { escapeUnsafe } from '../../core/units/escape.ts';
import type { Stdout } from '../../host/own/stdout.ts';
import type { Log, LogFields } from '../../ports.ts';

export type LogLevel = 'debug' | 'info' | 'warn' | 'error';

/** beside-a-kubelet.md H5. */
const FIELD_BYTES = 4 * 1024;
const LINE_BYTES = 16 * 1024;
/** How much of its sentence a line keeps that is too long: escaping makes it at most 6 times as long. */
const SHORT_MSG_CHARS = 1024;
/** journald's priorities (SyslogLevelPrefix=). */
const PRIORITY: { readonly [L in LogLevel]: number } = { debug: 7, info: 6, warn: 4, error: 3 };

/**
 * One JSON line per fact, its sentence first, with journald's priority prefix. Never waits for a reader. Under the journal
 * (JOURNAL_STREAM) it has no time of its own, because the journal adds one. On a terminal, only the sentence.
 */
export function createLog(level: LogLevel, stdout: Stdout, env: NodeJS.ProcessEnv = process.env): Log {
  const stream = {
    write: (line: string): void => {
      const at = levelOf(line);
      const safe = escapeUnsafe(levelLast(at, line.trimEnd()));
      const short = Buffer.byteLength(safe) <= LINE_BYTES ? safe : escapeUnsafe(shortened(at, line));
      stdout.writeLine(`<${PRIORITY[at]}>${short}`);
    },
  };
  const logger = pino(
    {
      level,
      base: null,
      timestamp: env['JOURNAL_STREAM'] === undefined ? stdTimeFunctions.isoTime : false,
      formatters: { level: (label) => ({ level: label }), log: capFields },
    },
    stream,
  );
  const say =
    (at: LogLevel) =>
    (fields: LogFields, msg: string): void => {
      if (stdout.isTerminal !== true) logger[at]({ msg, ...fields });
      else if (logger.isLevelEnabled(at)) stdout.writeLine(sentence(at, msg));
    };
  return { debug: say('debug'), info: say('info'), warn: say('warn'), error: say('error') };
}

function levelOf(line: string): LogLevel {
  // Our formatter puts the level first, before anything that a tenant names.
  const label = line.slice('{"level":"'.length, line.indexOf('"', '{"level":"'.length));
  return label === 'debug' || label === 'warn' || label === 'error' ? label : 'info';
}

/** pino puts the level first, but a reader of the journal wants the sentence first. */
function levelLast(level: LogLevel, line: string): string {
  const head = `{"level":"${level}",`;
  return `{${line.slice(head.length, -1)},"level":"${level}"}`;
}

/** For a person: "08:33:53  warning: evicting default/web: ...". */
function sentence(level: LogLevel, msg: string): string {
  const time = new Date().toTimeString().slice(0, 8);
  return `${time}  ${WORD[level]}${escapeUnsafe(capText(msg))}`;
}
const WORD: { readonly [L in LogLevel]: string } = { debug: '', info: '', warn: 'warning: ', error: 'error: ' };

function shortened(level: LogLevel, line: string): string {
  const parsed: unknown = JSON.parse(line);
  const { event, msg } = { event: null, msg: '', ...(typeof parsed === 'object' ? parsed : {}) };
  return JSON.stringify({
    msg: String(msg).slice(0, SHORT_MSG_CHARS),
    event,
    cut: `the line had ${line.length} characters`,
    level,
  });
}

function capFields(fields: Record<string, unknown>): Record<string, unknown> {
  const capped: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(fields)) capped[name] = capValue(value);
  return capped;
}

function capValue(value: unknown): unknown {
  if (typeof value === 'string') return capText(value);
  if (typeof value !== 'object' || value === null || value instanceof Error) return value;
  const json = JSON.stringify(value) ?? '';
  return Buffer.byteLength(json) <= FIELD_BYTES ? value : capText(json);
}

function capText(text: string): string {
  if (Buffer.byteLength(text) <= FIELD_BYTES) return text;
  const cut = Buffer.from(text)
    .subarray(0, FIELD_BYTES - 3)
    .toString()
    // A character cut in the middle decodes to a replacement character.
    .replace(/\ufffd+$/, '');
  return `${cut}…`;
}
