import * as z from 'zod/mini';
import { type Reading, unknown } from '../../core/reading.ts';
import { check, valueAt } from '../../document/check.ts';
import {
  type Bounds,
  inOrder,
  MAX_DOCUMENT_BYTES,
  parseDocuments,
  type YamlDocument,
} from '../../document/document.ts';
import { type Problem, problemOfFile } from '../../document/problem.ts';
import { readDocument } from '../../host/files.ts';
import { createFields } from '../field.ts';
import { GUARD_KIND, readConfigFile, readSource, type Trust, withoutEmptyFields } from '../source.ts';
import type { AgentMetadata } from './agent-metadata.ts';
import { type GuardEffective, guardEffectiveOf } from './effective.ts';
import type { MetadataOf } from './parameters.ts';
import { readPlans } from './plans.ts';
import { ruleProblems } from './rules.ts';
import { guardSchema, plansByNode } from './schema.ts';
import { readTemplates, templateProblems } from './templates.ts';
import { guardWarnings, unchecked } from './warnings.ts';

export const DEFAULT_GUARD_FILE = '/etc/nodewarden/guard.yaml';

export type LoadedGuard = {
  readonly problems: readonly Problem[];
  /** What is valid but probably not intended, and what could not be checked. */
  readonly warnings: readonly Problem[];
  /** null if there are problems. */
  readonly effective: GuardEffective | null;
};

/** Whether a file is a configuration of the guard, judged by its `kind`. False if it cannot be read. */
export function isGuardFile(path: string): boolean {
  const text = readDocument(path, MAX_DOCUMENT_BYTES);
  return text.known && valueAt(parseDocuments(text.value, path, 'ours').documents[0]?.value, ['kind']) === GUARD_KIND;
}

/** Asks an agent for its metadata. */
export type AskMetadata = (agent: string) => Promise<Reading<AgentMetadata>>;

/** Loads a file with every mistake in it, asking each agent that it names for its parameters. */
export async function loadGuard(path: string | null, ask: AskMetadata): Promise<LoadedGuard> {
  const file = path ?? DEFAULT_GUARD_FILE;
  const text = readConfigFile(file, 'owner');
  if (typeof text !== 'string') return failed([text ?? absent(file)]);
  const metadata = new Map<string, Reading<AgentMetadata>>();
  for (const agent of agentsNamed(text, file)) metadata.set(agent, await ask(agent));
  return guardConfigOf(text, file, (agent) => metadata.get(agent) ?? NOT_ASKED);
}

const absent = (file: string): Problem =>
  problemOfFile(
    file,
    'does not exist; begin with the example /usr/share/nodewarden/guard.yaml (in the sources: config/guard.yaml)',
  );
const NOT_ASKED = unknown('not-asked', 'metadata', 'the agent was not asked');

function agentsNamed(text: string, file: string): readonly string[] {
  const { source } = readSource(text, file, [GUARD_KIND], 'file');
  const templates = source === null ? [] : [...readTemplates(source.document).values()];
  return [
    ...new Set(templates.flatMap(({ agent, class: proven }) => (proven === null || proven === 'none' ? [] : [agent]))),
  ];
}

/** The configuration of a text; `file` names it in problems and origins. `trust` is what is asked of its `nodesFile`. */
export function guardConfigOf(
  text: string,
  file: string,
  metadataOf: MetadataOf = () => NOT_ASKED,
  trust: Trust = 'owner',
): LoadedGuard {
  const { source, problems: form } = readSource(text, file, [GUARD_KIND], 'file');
  if (source === null) return failed(form);
  const { document } = source;
  const checked = check(guardSchema, withoutEmptyFields(document));
  const fields = createFields(source, null);
  const nodesFile = readNodesFile(document, trust);
  const templates = readTemplates(document);
  const plans = readPlans(document, nodesFile.document, templates, metadataOf);
  const problems = [
    ...form,
    ...checked.problems.map(armed),
    ...nodesFile.problems,
    ...ruleProblems(fields),
    ...templateProblems(templates, document, metadataOf),
    ...plans.problems,
  ];
  const notChecked = unchecked(templates, fields, metadataOf);
  if (problems.length > 0 || checked.value === null) return { ...failed(problems), warnings: inOrder(notChecked) };
  const effective = guardEffectiveOf({ file, fields, nodesFile: nodesFile.document, values: checked.value, plans });
  const warnings = [...guardWarnings({ fields, core: effective.core, templates, plans }), ...notChecked];
  return { problems: [], warnings: inOrder(warnings), effective };
}

/** A program that cuts power has no default for whether it does. */
function armed(problem: Problem): Problem {
  const isMissing = problem.path === 'dryRun' && problem.text.startsWith('missing');
  return isMissing
    ? { ...problem, text: 'missing: say true (decide and tell, touch nothing) or false (armed)' }
    : problem;
}

function failed(problems: readonly Problem[]): LoadedGuard {
  return { problems: inOrder(problems), warnings: [], effective: null };
}

/** Some 5,000 nodes with two levels. */
const BOUNDS: Bounds = { maxLength: 4 * 1024 * 1024, maxTokens: 1_000_000, maxValues: 500_000 };
const nodesSchema = z.strictObject({ nodes: plansByNode });

type NodesFile = { readonly document: YamlDocument | null; readonly problems: readonly Problem[] };

function readNodesFile(own: YamlDocument, trust: Trust): NodesFile {
  const at = ['fencing', 'nodesFile'];
  const path = valueAt(own.value, at);
  if (typeof path !== 'string' || !path.startsWith('/')) return { document: null, problems: [] };
  const text = readConfigFile(path, trust, BOUNDS.maxLength);
  if (typeof text !== 'string') {
    const said = text === null ? `${path} does not exist` : text.text;
    return { document: null, problems: [own.problemAt(at, said)] };
  }
  if (mayBeCut(text)) {
    const said = `${path} has no line end at its end, as if it had been cut off while it was written`;
    return { document: null, problems: [own.problemAt(at, said)] };
  }
  const { documents, problems } = parseDocuments(text, path, 'ours', BOUNDS);
  const [document, second] = documents;
  if (document === undefined) {
    return { document: null, problems: problems.length > 0 ? problems : [own.problemAt(at, `${path} is empty`)] };
  }
  const more = second === undefined ? [] : [second.problemAt([], 'a second document; only one is read')];
  return { document, problems: [...problems, ...more, ...check(nodesSchema, document).problems] };
}

/** In YAML, what is left of a value is a value, maybe the address of another machine. JSON that is cut off is none. */
const mayBeCut = (text: string): boolean => text !== '' && !text.endsWith('\n') && !text.trimStart().startsWith('{');
