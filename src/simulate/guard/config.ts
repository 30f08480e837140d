import { createFields } from '../../config/field.ts';
import { rulesOf } from '../../config/guard/effective.ts';
import { ruleProblems } from '../../config/guard/rules.ts';
import { guardRulesSchema } from '../../config/guard/schema.ts';
import type { GuardConfig } from '../../core/guard/config.ts';
import { isObject } from '../../core/shape.ts';
import { check, sayValue } from '../../document/check.ts';
import type { YamlDocument } from '../../document/document.ts';
import type { Problem } from '../../document/problem.ts';
import { below } from '../envelope.ts';

/** What of a configuration decides, but for the devices, which are those of the scenario's nodes. */
export type GuardRules = Omit<GuardConfig, 'deadlineMs' | 'plans' | 'defaultPlan'>;

/** guard.md 12.1: a NodewardenGuardConfiguration without `fencing`; absent: defaults, armed. */
export function readGuardRules(
  yaml: YamlDocument,
  given: unknown,
): { readonly rules: GuardRules | null; readonly problems: readonly Problem[] } {
  const refused = (text: string, ...path: readonly string[]) => ({
    rules: null,
    problems: [yaml.problemAt(['config', ...path], text)],
  });
  if (given !== undefined && given !== null && !isObject(given)) {
    return refused(`expected a mapping, not ${sayValue(given)}; for example {"deadAfter": "2m"}`);
  }
  const { apiVersion: _, kind: __, ...fields } = given ?? {};
  if (fields['fencing'] !== undefined) return refused('the devices of a scenario are those of its nodes', 'fencing');
  const document = below(yaml, 'config', { dryRun: false, ...fields });
  const checked = check(guardRulesSchema, document);
  const problems = [...checked.problems, ...ruleProblems(createFields({ document, kind: 'file' }, null))];
  if (checked.value === null || problems.length > 0) return { rules: null, problems };
  return { rules: rulesOf(checked.value), problems: [] };
}
