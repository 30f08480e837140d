import { readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { CHECKS } from '../../src/doctor/report.ts';

const ROOT = path.resolve(import.meta.dirname, '../..');
const page = readFileSync(path.join(ROOT, 'docs/doctor.md'), 'utf8');
/** By the code in its heading. */
const sections = new Map(
  page
    .split(/^### /m)
    .slice(1)
    .map((text) => [text.slice(0, text.indexOf('\n')), text.slice(text.indexOf('\n'))] as const),
);

describe('docs/doctor.md', () => {
  it('has a section for each code, and no other', () => {
    expect([...sections.keys()].toSorted()).toEqual(Object.keys(CHECKS).toSorted());
  });

  it('says in each what it means, whether it blocks, and which command fixes it', () => {
    const wrong = Object.entries(CHECKS).filter(([code, { mend, weight }]) => {
      const text = sections.get(code) ?? '';
      const isBlocking = text.startsWith('\n\nBlocking. ');
      return !text.includes(`\n\`\`\`\n${mend}\n\`\`\``) || isBlocking !== (weight === 'blocking') || text.length < 100;
    });
    expect(wrong.map(([code]) => code)).toEqual([]);
  });
});

describe('the checks', () => {
  it('ask in words that fit after "not known"', () => {
    const asks = Object.values(CHECKS).map((check) => check.asks);
    expect(asks.filter((text) => !/^(whether|what|who) [^.]+$/.test(text))).toEqual([]);
  });
});
