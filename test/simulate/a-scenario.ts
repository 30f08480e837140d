import { parseDocuments } from '../../src/document/document.ts';
import { sayProblem } from '../../src/document/problem.ts';
import { type EvictionLook, runEviction } from '../../src/simulate/eviction/run.ts';
import { readEvictionScenario } from '../../src/simulate/eviction/scenario.ts';
import type { EvictionScenario } from '../../src/simulate/scenario.ts';

/** An eviction scenario of YAML text without its head; `steps` is in it. */
export function aScenario(text: string): EvictionScenario {
  const head = 'apiVersion: nodewarden.dev/v1alpha1\nkind: EvictionScenario\nmetadata: {name: s}\n';
  const { documents, problems } = parseDocuments(head + text, 's.yaml', 'ours');
  const read = documents[0] === undefined ? null : readEvictionScenario(documents[0]);
  if (read?.scenario) return read.scenario;
  throw new Error([...problems, ...(read?.problems ?? [])].map(sayProblem).join('\n'));
}

export function looksOf(text: string): readonly EvictionLook[] {
  return [...runEviction(aScenario(text))];
}
