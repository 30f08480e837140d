import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import type { Run } from '../../proof/judge.ts';
import { LINES } from '../../proof/lines.ts';
import { page } from '../../proof/page.ts';

const proof = (...args: readonly string[]) =>
  spawnSync(process.execPath, ['--import', 'tsx', 'proof/main.ts', ...args], { encoding: 'utf8' });

describe('docs/proof.md', () => {
  const run: Run = JSON.parse(readFileSync('proof/result.json', 'utf8'));
  const text = readFileSync('docs/proof.md', 'utf8');

  it('is what npm run proof generates from its last run', () => {
    expect(text).toBe(page(run));
  });
  it('has a row for each of the ten, and names machine, commit and day', () => {
    const rows = text.split('\n').filter((row) => /^\| \d+ \|/.test(row));
    expect(rows.map((row) => row.split(' | ')[1])).toEqual(LINES.map(({ claim }) => claim));
    expect(LINES.length).toBe(10);
    for (const fact of [run.on.kernel, run.on.commit, run.on.at.slice(0, 10)]) expect(text).toContain(fact);
  });
  it('says that a claim was not measured', () => {
    const rows = page({ ...run, parts: {} })
      .split('\n')
      .filter((row) => /^\| \d+ \|/.test(row));
    expect(rows.every((row) => row.endsWith('| **not run here** |'))).toBe(true);
  });
});

describe('npm run proof', () => {
  it('lists the ten in --help, with the maximum time of each', () => {
    const { stdout, status } = proof('--help');
    expect(status).toBe(0);
    for (const { name } of LINES) expect(stdout).toMatch(new RegExp(`^${name} +\\d+ min`, 'm'));
  });
  it('refuses an unknown claim, and lists the valid ones', () => {
    const { stderr, status } = proof('--only', 'everything');
    expect(status).toBe(2);
    expect(stderr).toContain(LINES.map(({ name }) => name).join(', '));
  });
});
