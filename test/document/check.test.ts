import { describe, expect, it } from 'vitest';
import * as z from 'zod/mini';
import { check } from '../../src/document/check.ts';
import { parseDocuments } from '../../src/document/document.ts';
import { sayProblem } from '../../src/document/problem.ts';

const even = z.int().check(
  (context) => {
    const message = 'must be even';
    if (context.value % 2 !== 0) context.issues.push({ code: 'custom', message, input: context.value });
  },
  z.minimum(0),
  z.maximum(100),
  z.meta({ examples: [4] }),
);
const schema = z.strictObject({
  mode: z._default(z.enum(['standalone', 'kubelet']), 'standalone'),
  flag: z.optional(z.boolean()),
  count: z.optional(even),
  sizes: z.optional(
    z.partialRecord(z.enum(['memory', 'disk']).check(z.meta({ title: 'resource' })), z.string().check(z.minLength(1))),
  ),
  pods: z.optional(z.array(z.strictObject({ name: z.string() }))),
});

function problems(text: string): readonly string[] {
  const { documents } = parseDocuments(text, 'f', 'ours');
  return documents.flatMap((document) => check(schema, document).problems.map(sayProblem));
}

describe('check', () => {
  it('returns the value with its defaults', () => {
    const [document] = parseDocuments('count: 4', 'f', 'ours').documents;
    expect(document && check(schema, document)).toEqual({ value: { mode: 'standalone', count: 4 }, problems: [] });
  });

  it.each([
    ['mode: standalon', 'f:1:7: mode: must be one of standalone, kubelet, not "standalon"; did you mean standalone?'],
    ['flag: 1', 'f:1:7: flag: expected true or false, not the number 1'],
    ['count: "4"', 'f:1:8: count: expected a number, not "4"; for example 4'],
    ['count: 3', 'f:1:8: count: must be even; for example 4'],
    ['count: -2', 'f:1:8: count: must be at least 0, not -2; for example 4'],
    ['count: 102', 'f:1:8: count: must be at most 100, not 102; for example 4'],
    ['count: [1]', 'f:1:8: count: expected a number, not a list; for example 4'],
    ['sizes: {memroy: 1Gi}', 'f:1:9: sizes.memroy: unknown resource; did you mean memory?'],
    ['sizes: {cpu: 1Gi}', 'f:1:9: sizes.cpu: unknown resource; valid are memory, disk'],
    ['sizes: {disk: 5}', 'f:1:15: sizes.disk: expected text, not the number 5'],
    ['sizes: {disk: .inf}', 'f:1:15: sizes.disk: expected text, not the number Infinity'],
    ['sizes: {disk: ""}', 'f:1:15: sizes.disk: must have a length of at least 1'],
    ['sizes:', 'f:1:7: sizes: expected a mapping, not empty'],
    ['pods: [{nam: x}]', 'f:1:8: pods[0].name: missing\nf:1:9: pods[0].nam: unknown field; did you mean name?'],
    ['- a', 'f:1:1: expected a mapping, not a list'],
    ['mod: kubelet', 'f:1:1: mod: unknown field; did you mean mode?'],
  ])('says for %s what is wrong and what would be valid', (text, said) => {
    expect(problems(text).join('\n')).toBe(said);
  });

  it('reports all mistakes in one pass', () => {
    expect(problems('mode: x\nflag: x\ncount: x\na: 1\nb: 2\npods: [{}, 3]\n')).toHaveLength(7);
  });

  it('does not report a value again that was reported as ambiguous', () => {
    expect(problems('flag: yes')).toEqual([]);
    expect(problems('flga: yes')).toEqual(['f:1:1: flga: unknown field; did you mean flag?']);
    expect(parseDocuments('flag: yes', 'f', 'ours').problems).toHaveLength(1);
  });
});
