import fs from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { parseAllDocuments } from 'yaml';

const DIRECTORY = path.resolve(import.meta.dirname, '../../config/kubernetes');
type Rule = { resources: string[]; verbs: string[]; apiGroups: string[]; resourceNames?: string[] };
type Named = { name?: string; expression: string };
type Policy = { spec: { variables: Named[]; matchConditions: Named[]; validations: Named[] } };

function documents(file: string): { kind: string; rules?: Rule[] }[] {
  return parseAllDocuments(fs.readFileSync(path.join(DIRECTORY, file), 'utf8')).map((document) => {
    expect(document.errors).toEqual([]);
    return document.toJS();
  });
}
const rights = (file: string): string[] =>
  documents(file)
    .flatMap(({ rules }) => rules ?? [])
    .flatMap(({ resources, verbs }) => resources.flatMap((resource) => verbs.map((verb) => `${verb} ${resource}`)))
    .sort();

describe('the rights in config/kubernetes', () => {
  it('are those of beside-a-kubelet.md G3, and no others', () => {
    expect(rights('rbac.yaml')).toEqual([
      'create events',
      'create pods/eviction',
      'delete pods',
      'get pods',
      'list pods',
      'patch events',
      'patch pods/status',
      'watch pods',
    ]);
    expect(rights('rbac-per-node.yaml')).toEqual([
      'get nodes',
      'get nodes/configz',
      'patch nodes',
      'patch nodes/status',
    ]);
  });
  it('to nodes are limited to one node', () => {
    const rules = documents('rbac-per-node.yaml').flatMap((document) => document.rules ?? []);
    for (const { resourceNames } of rules) expect(resourceNames).toEqual(['NODE_NAME']);
  });
});

/** What is left open, or closed wrongly; '' = nothing. Strings are passed over. */
function unbalanced(cel: string): string {
  const open: string[] = [];
  for (const char of cel.replace(/'[^']*'/g, "''")) {
    if ('([{'.includes(char)) open.push(char);
    const at = ')]}'.indexOf(char);
    if (at >= 0 && open.pop() !== '([{'[at]) return `${char} in ${cel}`;
  }
  const quotes = cel.split("'").length - 1;
  return open.length > 0 || quotes % 2 === 1 ? cel : '';
}

describe('the admission policy', () => {
  const [policy] = documents('admission-policy.yaml') as unknown as Policy[];
  const { variables = [], matchConditions = [], validations = [] } = policy?.spec ?? {};
  const all = [...variables, ...matchConditions, ...validations].map(({ expression }) => expression);

  it('has expressions with balanced brackets and quotes', () => {
    expect(all.length).toBeGreaterThan(15);
    expect(all.map(unbalanced).filter((wrong) => wrong !== '')).toEqual([]);
    expect(unbalanced("(a == ')'")).not.toBe('');
    expect(unbalanced('[a)')).not.toBe('');
  });
  it('uses only variables that are defined before', () => {
    const defined = new Set<string>();
    const check = (expression: string): void => {
      for (const [, name = ''] of expression.matchAll(/variables\.(\w+)/g)) expect(defined).toContain(name);
    };
    for (const { name = '', expression } of variables) {
      check(expression);
      defined.add(name);
    }
    for (const { expression } of validations) check(expression);
  });
});
