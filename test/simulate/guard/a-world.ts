import { expect } from 'vitest';
import { parseJsonDocument } from '../../../src/document/json.ts';
import type { Fact } from '../../../src/simulate/guard/facts.ts';
import { readGuardScenario } from '../../../src/simulate/guard/read.ts';
import { runGuard } from '../../../src/simulate/guard/run.ts';
import type { GuardScenario } from '../../../src/simulate/guard/scenario.ts';
import { createWorld, type World } from '../../../src/simulate/guard/world.ts';

export type Json = { readonly [key: string]: unknown };

export const documentOf = (rest: Json): Json => ({
  apiVersion: 'nodewarden.dev/v1alpha1',
  kind: 'GuardScenario',
  metadata: { name: 'test' },
  ...rest,
});

export function read(rest: Json) {
  const [yaml] = parseJsonDocument(JSON.stringify(documentOf(rest)), 'test.json').documents;
  if (yaml === undefined) throw new Error('not a document');
  return readGuardScenario(yaml);
}

export function aScenario(rest: Json): GuardScenario {
  const { scenario, problems } = read(rest);
  expect(problems).toEqual([]);
  if (scenario === null) throw new Error('a scenario without problems was not read');
  return scenario;
}

/** Without guards. */
export function aWorld(nodes: readonly Json[], rest: Json = {}): World {
  return createWorld(aScenario({ nodes, ...rest }));
}

export const run = (rest: Json) => runGuard(aScenario(rest));

/** `12s pod-freed default/db`: the facts of these kinds. */
export function told(facts: readonly Fact[], ...kinds: readonly Fact['kind'][]): readonly string[] {
  return facts
    .filter(({ kind }) => kinds.includes(kind))
    .map((fact) => {
      const subject = 'pod' in fact ? fact.pod : 'node' in fact ? fact.node : '';
      return `${fact.atMs / 1_000}s ${fact.kind} ${subject}`;
    });
}

export const MEMBER: Json = { name: 'db', statefulSet: 'db', volumes: 1 };
