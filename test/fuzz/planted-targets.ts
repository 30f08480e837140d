// Defects of every kind that the run must find: a check that finds nothing proves nothing until it has found these.
import { Complaint, placed, read, sentence } from './oracle.ts';
import { example, type Target } from './target.ts';

function planted(name: string, attempt: (input: Buffer) => boolean): Target {
  return { name: `planted-${name}`, syntax: 'text', examples: () => [example('good')], open: () => attempt };
}

const isBad = (input: Buffer): boolean => input.length > 8;
/** Kept, so that nothing can be collected. */
const kept: Buffer[] = [];

export const PLANTED_TARGETS: readonly Target[] = [
  planted('throws', (input) => {
    if (isBad(input)) throw new TypeError('planted');
    return true;
  }),
  planted('complains', (input) => {
    if (isBad(input)) throw new Complaint('planted', 'of this input');
    return true;
  }),
  planted('hangs', (input) => {
    while (isBad(input));
    return true;
  }),
  planted('is-slow', (input) => {
    const before = process.cpuUsage();
    // The tenth of a second that it is asked for, and some; looked at seldom, because looking is work of the kernel.
    while (input.length > 24 && process.cpuUsage(before).user < 150_000) for (let i = 0; i < 1e6; i++);
    return true;
  }),
  planted('is-large', (input) => {
    if (isBad(input)) kept.push(Buffer.alloc(300 * 2 ** 20, 1));
    return true;
  }),
  planted('dies', (input) => {
    if (isBad(input)) process.abort();
    return true;
  }),
  planted('has-no-place', (input) => {
    if (isBad(input)) placed([{ file: 'a', line: 0, column: 1, path: '', text: 'x' }], '');
    return true;
  }),
  planted('is-not-escaped', (input) => {
    if (isBad(input)) sentence('\u001b[2J', 'planted');
    return true;
  }),
  planted('reads-nonsense', (input) => {
    if (isBad(input)) read({ known: true, value: { bytes: Number.NaN } }, 'planted');
    return true;
  }),
];
