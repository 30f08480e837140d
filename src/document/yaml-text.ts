import { escapeUnsafe } from '../core/units/escape.ts';

/** A mapping or list longer than this is written line by line. */
const WIDTH = 120;
const PLAIN = /^[A-Za-z][A-Za-z0-9_./-]*$/;
const AMOUNT = /^[0-9]+(\.[0-9]+)?([KMGTPE]i|%)$/;
/** Text here, but something else to some readers. */
const RESERVED = /^(true|false|yes|no|on|off|y|n|null|nan|inf)$/i;

/** A JSON value as readable YAML, with the same meaning in YAML 1.1 and 1.2. */
export function yamlText(value: unknown): string {
  return `${blockText(value, 0)}\n`;
}

function blockText(value: unknown, indent: number): string {
  const flow = flowText(value);
  if (!isNested(value) || (indent > 0 && flow.length + indent <= WIDTH)) return flow;
  const blanks = ' '.repeat(indent);
  const lines = Array.isArray(value)
    ? value.map((entry) => `- ${blockText(entry, indent + 2)}`)
    : Object.entries(value).map(([key, entry]) => `${scalarText(key)}:${childText(entry, indent + 2)}`);
  return lines.join(`\n${blanks}`);
}

function childText(value: unknown, indent: number): string {
  const text = blockText(value, indent);
  const isFlow = !isNested(value) || text === flowText(value);
  return isFlow ? ` ${text}` : `\n${' '.repeat(indent)}${text}`;
}

function flowText(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(flowText).join(', ')}]`;
  if (!isNested(value)) return scalarText(value);
  const pairs = Object.entries(value).map(([key, entry]) => `${scalarText(key)}: ${flowText(entry)}`);
  return `{${pairs.join(', ')}}`;
}

function scalarText(value: unknown): string {
  if (typeof value !== 'string') return JSON.stringify(value);
  if ((PLAIN.test(value) && !RESERVED.test(value)) || AMOUNT.test(value)) return value;
  return escapeUnsafe(JSON.stringify(value));
}

function isNested(value: unknown): value is object {
  return typeof value === 'object' && value !== null && Object.keys(value).length > 0;
}
