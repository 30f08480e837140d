import type { GuardEffective } from '../../../src/config/guard/effective.ts';
import { guardConfigOf, type LoadedGuard } from '../../../src/config/guard/load.ts';
import type { MetadataOf } from '../../../src/config/guard/parameters.ts';
import { sayProblem } from '../../../src/document/problem.ts';

const HEAD = 'apiVersion: nodewarden.dev/v1alpha1\n';
const KIND = 'kind: NodewardenGuardConfiguration\n';

/** A configuration, its head left away; its third line is the text's first. */
export function load(text: string, kind = KIND, metadataOf?: MetadataOf): LoadedGuard {
  return guardConfigOf(HEAD + kind + text, 'g.yaml', metadataOf);
}

export const problems = (text: string): readonly string[] => load(text).problems.map(sayProblem);
export const warnings = (text: string): readonly string[] => load(text).warnings.map(sayProblem);

export function effective(text: string): GuardEffective {
  const { effective, problems } = load(text);
  if (effective === null) throw new Error(problems.map(sayProblem).join('\n'));
  return effective;
}
