import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { report } from '../../bench/report.ts';

it('bench/RESULTS.md is what bench:report makes of the stored results', () => {
  expect(readFileSync('bench/RESULTS.md', 'utf8')).toBe(report());
});
