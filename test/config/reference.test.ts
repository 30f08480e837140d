import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { agentPage, guardPage } from '../../scripts/configuration-page.ts';
import { guardConfigOf } from '../../src/config/guard/load.ts';
import { GUARD_FIELDS, guardJsonSchema } from '../../src/config/guard/schema.ts';
import { configOf } from '../../src/config/load.ts';
import { jsonSchema, KUBELET_FIELDS, OWN_FIELDS } from '../../src/config/schema.ts';
import { sayProblem } from '../../src/document/problem.ts';
import { HEAD, NO_SIZES, SIZES } from './a-config.ts';

const root = new URL('../../', import.meta.url);
const reference = readFileSync(new URL('docs/configure.md', root), 'utf8');
const examples = [...reference.matchAll(/```yaml\n(.*?)```/gs)].map(([, text = '']) => text);

describe('docs/configure.md', () => {
  it('has examples that all pass the check', () => {
    expect(examples.length).toBeGreaterThan(6);
    for (const example of examples) {
      const text = example.startsWith('apiVersion:') ? example : HEAD + example;
      expect(configOf(text, 'example.yaml', NO_SIZES).problems.map(sayProblem), text).toEqual([]);
    }
  });

  it('names every field', () => {
    for (const field of [...OWN_FIELDS, ...KUBELET_FIELDS]) {
      expect(reference.includes(`\`${field}`), field).toBe(true);
    }
  });
});

describe('docs/configuration.md', () => {
  it('is what `npm run schema` writes', () => {
    const page = readFileSync(new URL('docs/configuration.md', root), 'utf8');
    expect(page).toBe(agentPage(jsonSchema()));
    expect(page).toContain('\n| `guard.sameOwnerKills` | integer, 0 to 1000 | `3` |');
  });
});

describe('docs/guard-configuration.md', () => {
  it('is what `npm run schema` writes', () => {
    const page = readFileSync(new URL('docs/guard-configuration.md', root), 'utf8');
    expect(page).toBe(guardPage(guardJsonSchema()));
    expect(page).toContain('\n| `storm.burst.nodes` | integer, 2 to 1000 | `3` |');
    expect(page).toContain('\n| `fencing.templates.*.agent` | string | *required* |');
    expect(page).toContain('\n| `fencing.nodes.*.power[][].template` | string | *required* |');
  });
});

describe('docs/guard.md', () => {
  it('has examples, and each passes the check', () => {
    const page = readFileSync(new URL('docs/guard.md', root), 'utf8');
    const texts = [...page.matchAll(/^( *)```yaml\n(.*?)^ *```$/gms)].map(([, indent = '', text = '']) =>
      text.replaceAll(new RegExp(`^${indent}`, 'gm'), ''),
    );
    expect(texts).not.toEqual([]);
    for (const text of texts) expect(guardConfigOf(text, 'guard.yaml').problems.map(sayProblem)).toEqual([]);
  });
});

describe('the commented example of the guard', () => {
  const text = readFileSync(new URL('config/guard.yaml', root), 'utf8');
  const check = (text: string) => {
    const { problems, warnings } = guardConfigOf(text, 'guard.yaml');
    return [...problems, ...warnings].map(sayProblem).filter((said) => !said.includes('the agent was not asked'));
  };
  it('passes the check without a warning, and only tells', () => {
    expect(check(text)).toEqual([]);
    expect(guardConfigOf(text, 'guard.yaml').effective?.core.dryRun).toBe(true);
  });
  it('is still valid with each commented field switched on', () => {
    const on = text.replace(/^( *)# ( *)(?:- )?([a-zA-Z]+):.*$|^ +# {2,}- .*$/gm, (line, before, inner, name) => {
      const isField = before !== '' || inner !== '' || GUARD_FIELDS.includes(name);
      return isField && name !== 'nodesFile' ? line.replace('# ', '') : line;
    });
    for (const field of GUARD_FIELDS) expect(on, field).toMatch(new RegExp(`^${field}:`, 'm'));
    expect(check(on)).toEqual([]);
  });
});

describe('the commented examples', () => {
  it.each([
    ['config/config.yaml', []],
    // By itself it is not enough for `run`.
    ['config/kubelet.yaml', ['kubeconfig-unusable']],
  ])('%s passes the check, with no warning but %j', (name, codes) => {
    const text = readFileSync(new URL(name, root), 'utf8');
    const { problems, warnings } = configOf(text, name, SIZES);
    expect([problems.map(sayProblem), warnings.map(({ code }) => code)]).toEqual([[], codes]);
  });

  it('stay valid with each commented field switched on', () => {
    const text = readFileSync(new URL('config/config.yaml', root), 'utf8');
    const fields = [...OWN_FIELDS, ...KUBELET_FIELDS];
    const on = text.replace(
      /^# (( +)?(- )?([a-zA-Z]+).*)$/gm,
      (line, field: string, indent: unknown, _, name: string) =>
        indent !== undefined || (fields.includes(name) && field.startsWith(`${name}:`)) ? field : line,
    );
    expect(on).toContain('\nhttp:\n  listen:');
    expect(configOf(on, 'on.yaml', SIZES).problems.map(sayProblem)).toEqual([]);
  });
});
