import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';

const root = join(import.meta.dirname, '../..');
const scenarios = join(root, 'config/scenarios');
const yamlIn = (directory: string) => readdirSync(directory).filter((name) => name.endsWith('.yaml'));

describe('the example scenarios', () => {
  it('have the results that they state, every document of them', () => {
    const files = yamlIn(scenarios).map((name) => join(scenarios, name));
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

  it.each(yamlIn(scenarios))('%s begins with what it teaches and how to try it', (name) => {
    const comment = readFileSync(join(scenarios, name), 'utf8').split(/^[^#]/m)[0] ?? '';
    expect(comment).toContain('What it teaches:');
    expect(comment).toContain(`config/scenarios/${name}`);
  });
});

describe('the example scenarios of the guard', () => {
  const directory = join(scenarios, 'guard');

  it('come out as they say, given as a directory', () => {
    const out = execFileSync(
      process.execPath,
      ['--import', 'tsx', 'src/main.ts', 'guard', 'simulate', '--check', '-o', 'json', directory],
      { cwd: root, encoding: 'utf8', maxBuffer: 64 * 1024 * 1024 },
    );
    const { summary } = JSON.parse(out);
    expect(summary).toMatchObject({ scenarios: yamlIn(directory).length, checked: summary.scenarios, malformed: 0 });
    expect(summary.scenarios).toBeGreaterThanOrEqual(25);
  });

  it.each(yamlIn(directory))('%s begins with what it shows, and has its own name', (name) => {
    const text = readFileSync(join(directory, name), 'utf8');
    expect(text).toMatch(/^# [A-Z](.|\n# )+\.\napiVersion/);
    expect(text).toContain(`metadata: { name: ${name.replace('.yaml', '')} }`);
  });
});
