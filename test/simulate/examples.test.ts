import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';

const root = join(import.meta.dirname, '../..');
const scenarios = join(root, 'config/scenarios');

describe('the example scenarios', () => {
  it('have the results that they state, every document of them', () => {
    const files = readdirSync(scenarios).map((name) => join(scenarios, name));
    // A failed expectation ends with 1, which throws here, with what was said.
    const out = execFileSync(
      process.execPath,
      ['--import', 'tsx', 'src/main.ts', 'simulate', '--check', '-o', 'json', ...files],
      { cwd: root, encoding: 'utf8' },
    );
    const { summary } = JSON.parse(out);
    expect(files.length).toBeGreaterThanOrEqual(7);
    expect(summary).toMatchObject({ checked: summary.scenarios, failed: 0, malformed: 0 });
  });

  it.each(readdirSync(scenarios))('%s says at its top what it teaches and how to try it', (name) => {
    const comment = readFileSync(join(scenarios, name), 'utf8').split(/^[^#]/m)[0] ?? '';
    expect(comment).toContain('What it teaches:');
    expect(comment).toContain(`config/scenarios/${name}`);
  });
});
