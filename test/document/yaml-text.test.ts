import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseDocuments } from '../../src/document/document.ts';
import { yamlText } from '../../src/document/yaml-text.ts';

describe('a value as YAML', () => {
  it('means the same to every parser, including our own strict one', () => {
    const text = fc.oneof(
      fc.string({ unit: 'binary' }),
      fc.constantFrom(
        'yes',
        'No',
        'null',
        '~',
        '1e3',
        '0x10',
        '010',
        '1:30',
        '.5',
        '- a',
        'a: b',
        '# x',
        '100Mi',
        '10%',
        '',
        ' ',
      ),
    );
    const value = fc.letrec((tie) => ({
      value: fc.oneof(
        { depthSize: 'small' },
        text,
        fc.integer(),
        fc.boolean(),
        fc.constant(null),
        fc.array(tie('value'), { maxLength: 4 }),
        fc.dictionary(text, tie('value'), { maxKeys: 4, noNullPrototype: true }),
      ),
    })).value;
    fc.assert(
      fc.property(value, (given) => {
        const written = yamlText(given);
        for (const dialect of ['ours', 'kubelet'] as const) {
          const { documents, problems } = parseDocuments(written, 'x.yaml', dialect);
          expect(problems).toEqual([]);
          expect(documents.map((document) => JSON.stringify(document.value))).toEqual([JSON.stringify(given)]);
        }
      }),
      { numRuns: 200 },
    );
  });

  it('is on one line if it fits, and without needless quotes', () => {
    const pod = { podRef: { name: 'web', uid: '1e3' }, memory: { workingSetBytes: 5 }, list: [], none: {} };
    const long = Array.from({ length: 3 }, (_, i) => ({ at: i, text: 'x'.repeat(60) }));
    expect(yamlText({ kind: 'A', limits: { 'memory.available': '100Mi' }, pods: [pod], long })).toBe(`kind: A
limits: {memory.available: 100Mi}
pods: [{podRef: {name: web, uid: "1e3"}, memory: {workingSetBytes: 5}, list: [], none: {}}]
long:
  - {at: 0, text: ${'x'.repeat(60)}}
  - {at: 1, text: ${'x'.repeat(60)}}
  - {at: 2, text: ${'x'.repeat(60)}}
`);
  });
});
