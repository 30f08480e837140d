import type { Chance } from './chance.ts';
import { NUMBERS, TOKENS } from './token.ts';

/** Of what a person or a small program writes; larger ones are in bomb.ts. */
export const MAX_INPUT_BYTES = 64 * 1024;

type Mutation = (bytes: Buffer, chance: Chance, other: () => Buffer) => Buffer;

/** Some of the bytes changed; `other` gives another good example to splice with. */
export const mutate: Mutation = (bytes, chance, other) => {
  let mutated = bytes;
  for (let left = 1 + chance.below(chance.isOneIn(4) ? 12 : 3); left > 0; left--) {
    mutated = chance.pick(MUTATIONS)(mutated, chance, other).subarray(0, MAX_INPUT_BYTES);
  }
  return mutated;
};

const replace = (bytes: Buffer, from: number, to: number, by: Buffer | string): Buffer =>
  Buffer.concat([bytes.subarray(0, from), typeof by === 'string' ? Buffer.from(by) : by, bytes.subarray(to)]);

/** A stretch of the bytes, mostly short. */
function stretch(bytes: Buffer, chance: Chance): readonly [number, number] {
  const from = chance.below(bytes.length + 1);
  const length = chance.below(chance.pick([2, 8, 64, 1024]));
  return [from, Math.min(bytes.length, from + length)];
}

/** A whole line with its end. */
function line(bytes: Buffer, chance: Chance): readonly [number, number] {
  const at = chance.below(bytes.length + 1);
  const end = bytes.indexOf(0x0a, at);
  return [at === 0 ? 0 : bytes.lastIndexOf(0x0a, at - 1) + 1, end < 0 ? bytes.length : end + 1];
}

const flip: Mutation = (bytes, chance) => {
  if (bytes.length === 0) return bytes;
  const at = chance.below(bytes.length);
  return replace(bytes, at, at + 1, Buffer.of((bytes[at] ?? 0) ^ (1 << chance.below(8))));
};
const overwrite: Mutation = (bytes, chance) => {
  const at = chance.below(bytes.length + 1);
  return replace(bytes, at, at + 1, Buffer.of(chance.below(256)));
};
const insertToken: Mutation = (bytes, chance) => {
  const at = chance.below(bytes.length + 1);
  return replace(bytes, at, at, chance.pick(TOKENS));
};
const replaceByToken: Mutation = (bytes, chance) => replace(bytes, ...stretch(bytes, chance), chance.pick(TOKENS));
const cut: Mutation = (bytes, chance) => replace(bytes, ...stretch(bytes, chance), '');
const truncate: Mutation = (bytes, chance) => bytes.subarray(0, chance.below(bytes.length + 1));
const double: Mutation = (bytes, chance) => {
  const [from, to] = stretch(bytes, chance);
  return replace(bytes, to, to, bytes.subarray(from, to));
};
const splice: Mutation = (bytes, chance, other) => {
  const donor = other();
  return replace(bytes, ...stretch(bytes, chance), donor.subarray(...stretch(donor, chance)));
};
const crossOver: Mutation = (bytes, chance, other) => {
  const donor = other();
  return replace(bytes, chance.below(bytes.length + 1), bytes.length, donor.subarray(chance.below(donor.length + 1)));
};
const dropLine: Mutation = (bytes, chance) => replace(bytes, ...line(bytes, chance), '');
const doubleLine: Mutation = (bytes, chance) => {
  const [from, to] = line(bytes, chance);
  return replace(bytes, to, to, bytes.subarray(from, to));
};
const moveLine: Mutation = (bytes, chance, other) => {
  const donor = chance.isOneIn(2) ? bytes : other();
  const [from, to] = line(donor, chance);
  const [at] = line(bytes, chance);
  return replace(bytes, at, at, donor.subarray(from, to));
};
const indentLine: Mutation = (bytes, chance) => {
  const [from] = line(bytes, chance);
  return chance.isOneIn(2)
    ? replace(bytes, from, from, chance.pick([' ', '  ', '\t', '- ', '# ']))
    : replace(bytes, from, from + 1, '');
};
/** One number or word of the text, where there is one. */
function replaceMatch(pattern: RegExp, by: readonly [string, ...string[]]): Mutation {
  return (bytes, chance) => {
    const from = chance.below(bytes.length + 1);
    // Latin-1: an index in the text is one in the bytes.
    const text = bytes.toString('latin1', from, from + 512);
    const found = pattern.exec(text);
    if (found === null) return bytes;
    const at = from + found.index;
    return replace(bytes, at, at + found[0].length, chance.pick(by));
  };
}
const repeat: Mutation = (bytes, chance) => {
  const [from, to] = stretch(bytes, chance);
  const part = bytes.subarray(from, to);
  const times = chance.pick([2, 10, 100, 1_000, 10_000]);
  if (part.length * times > MAX_INPUT_BYTES) return bytes;
  return replace(bytes, to, to, Buffer.concat(Array.from({ length: times }, () => part)));
};
const lineEnds: Mutation = (bytes) => Buffer.from(bytes.toString('latin1').replaceAll('\n', '\r\n'), 'latin1');
const byteOrderMark: Mutation = (bytes) => replace(bytes, 0, 0, '\ufeff');

const replaceNumber = replaceMatch(/[0-9][0-9.]*/, NUMBERS);
const replaceWord = replaceMatch(/[A-Za-z][A-Za-z0-9._/-]*/, TOKENS);
const MUTATIONS: readonly [Mutation, ...Mutation[]] = [
  flip,
  flip,
  overwrite,
  insertToken,
  insertToken,
  replaceByToken,
  replaceByToken,
  cut,
  cut,
  truncate,
  double,
  splice,
  splice,
  crossOver,
  dropLine,
  dropLine,
  doubleLine,
  moveLine,
  moveLine,
  indentLine,
  replaceNumber,
  replaceNumber,
  replaceWord,
  replaceWord,
  repeat,
  lineEnds,
  byteOrderMark,
];
