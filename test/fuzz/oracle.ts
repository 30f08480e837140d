import type { Unknown } from '../../src/core/reading.ts';
import { type Problem, sayProblem } from '../../src/document/problem.ts';

/** What must not be: the sentence is what the report groups by, `detail` is of this input. */
export class Complaint extends Error {
  readonly detail: string;
  constructor(what: string, detail = '') {
    super(what);
    this.detail = detail;
  }
}

export function must(isTrue: boolean, what: string, detail: () => string = () => ''): void {
  if (!isTrue) throw new Complaint(what, detail());
}

const UNSAFE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/u;
/** More than a person reads; an error line is not a copy of the file. */
const MAX_SAID = 4_096;
const WHYS: readonly string[] = [
  'absent',
  'unreadable',
  'malformed',
  'timed-out',
  'stale',
  'not-asked',
  'not-applicable',
];

/** A sentence that can be printed: one line, nothing hidden, of a length that somebody reads. */
export function sentence(said: string, of: string): void {
  must(said.trim() !== '', `${of} says nothing`);
  must(!UNSAFE.test(said), `${of} is not safe to print`, () => JSON.stringify(said.slice(0, 300)));
  must(
    said.length <= MAX_SAID,
    `${of} is longer than ${MAX_SAID} characters`,
    () => `${said.length}: ${said.slice(0, 200)}`,
  );
}

/** Not by splitting: of a large text the parts would take more than the target does. */
export function lineCount(text: string): number {
  let lines = 1;
  for (const end of ['\n', '\r']) for (let at = text.indexOf(end); at >= 0; at = text.indexOf(end, at + 1)) lines += 1;
  return lines;
}

/** What is said of a file as a whole. */
const OF_THE_FILE = /^(does not exist|is empty|cannot be read|refused|larger than \d+ KiB|more than \d+ pods)/;

/** Each with a place in the text (or among so many lines), and together no more than a person reads. */
export function placed(problems: readonly Problem[], text: string | number, atMost = 100): void {
  must(problems.length <= atMost, `more than ${atMost} problems`, () => String(problems.length));
  let lines: number | null = null;
  for (const problem of problems) {
    const detail = (): string => JSON.stringify(problem).slice(0, 500);
    lines ??= typeof text === 'number' ? text : lineCount(text);
    must(typeof problem.file === 'string' && problem.file !== '', 'a problem without a file', detail);
    if (problem.line === null || problem.column === null) {
      must(problem.line === problem.column && problem.path === '', 'a problem with half a place', detail);
      must(OF_THE_FILE.test(problem.text), 'a problem without a place', detail);
      continue;
    }
    must(Number.isSafeInteger(problem.line) && problem.line >= 1, 'a problem without a line', detail);
    must(Number.isSafeInteger(problem.column) && problem.column >= 1, 'a problem without a column', detail);
    must(problem.line <= lines + 1, 'a problem behind the end of the text', detail);
    must(typeof problem.path === 'string', 'a problem without a path', detail);
    const isOfOneField =
      /^(unknown (?!tag)|missing|appears twice)/.test(problem.text) && !problem.text.includes('it needs');
    must(!isOfOneField || problem.path !== '', 'a problem of one field without its path', detail);
    sentence(sayProblem(problem), 'a problem');
  }
}

/** A `Reading` or something that holds some: a value without NaN, infinities and negative amounts, or a reason. */
export function read(value: unknown, of: string, numbers: 'not negative' | 'negative too' = 'not negative'): void {
  const open: unknown[] = [value];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    if (typeof next === 'number') {
      must(
        Number.isFinite(next) && (next >= 0 || numbers === 'negative too'),
        `${of} gives a number that is none`,
        () => String(next),
      );
      must(!Number.isInteger(next) || Number.isSafeInteger(next), `${of} gives a number without its digits`, () =>
        String(next),
      );
    }
    if (typeof next !== 'object' || next === null) continue;
    if (isUnknown(next)) reasoned(next, of);
    else if (next instanceof Map) open.push(...next.values());
    else open.push(...Object.values(next));
  }
}

function isUnknown(value: object): value is Unknown {
  return 'known' in value && value.known === false;
}

function reasoned(unknown: Unknown, of: string): void {
  const detail = (): string => JSON.stringify(unknown);
  must(WHYS.includes(unknown.why), `${of} is unknown without a reason`, detail);
  must(unknown.where !== '' && unknown.detail !== '', `${of} is unknown without a place or detail`, detail);
  must(unknown.detail.length <= 1_000, `${of}: the detail of an unknown is not bounded`, detail);
}

/** Plain data: no cycle, no prototype that a key of the text could reach, no depth beyond what readers take. */
export function plain(value: unknown, depth = 0): void {
  must(depth <= 70, 'a value is nested deeper than any reader takes');
  if (typeof value !== 'object' || value === null) {
    must(
      ['string', 'number', 'boolean'].includes(typeof value) || value === null,
      'a value that is not of JSON',
      () => typeof value,
    );
    return;
  }
  const isList = Array.isArray(value);
  must(isList || Object.getPrototypeOf(value) === null, 'an object with a prototype');
  for (const entry of Object.values(value)) plain(entry, depth + 1);
}

export function same(a: unknown, b: unknown, what: string): void {
  const [x, y] = [JSON.stringify(a), JSON.stringify(b)];
  must(x === y, what, () => `${x?.slice(0, 300)} and ${y?.slice(0, 300)}`);
}
