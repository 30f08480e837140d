import { isObject } from '../../core/shape.ts';
import { valueAt } from '../../document/check.ts';
import type { YamlDocument } from '../../document/document.ts';
import { nearestName } from '../../document/nearest.ts';
import type { Path, Problem } from '../../document/problem.ts';
import { entryOf } from '../field.ts';
import { AGENTS, type AgentClass, agentNamed, isAgentName } from './agents.ts';
import { plainName, type Texts, textsOf } from './method.ts';
import { type MetadataOf, missingActions, parameterFault, secretFault } from './parameters.ts';

export type Template = {
  readonly agent: string;
  /** Null: nobody knows what it can prove, and it was refused. */
  readonly class: AgentClass | null;
  readonly parameters: Texts;
  readonly secrets: Texts;
};

/** Templates that can be made sense of; the schema reports the rest. */
export function readTemplates(document: YamlDocument): ReadonlyMap<string, Template> {
  const raw = valueAt(document.value, ['fencing', 'templates']);
  return new Map(
    Object.entries(isObject(raw) ? raw : {}).flatMap(([name, template]) => {
      const agent = entryOf(template, 'agent');
      if (typeof agent !== 'string') return [];
      const trusted = isAgentName(agent) && entryOf(template, 'proof') === 'power' ? 'power' : null;
      const parameters = textsOf(entryOf(template, 'parameters'));
      const secrets = textsOf(entryOf(template, 'secrets'));
      return [[name, { agent, class: agentNamed(agent)?.class ?? trusted, parameters, secrets }] as const];
    }),
  );
}

export function templateProblems(
  templates: ReadonlyMap<string, Template>,
  document: YamlDocument,
  metadataOf: MetadataOf,
): readonly Problem[] {
  return [...templates].flatMap(([name, template]) => {
    const path = ['fencing', 'templates', name];
    const fault = agentFault(template, metadataOf);
    const ofAgent = fault === null ? [] : [document.problemAt([...path, 'agent'], fault)];
    return [...ofAgent, ...textProblems(document, path, template, metadataOf)];
  });
}

function agentFault({ agent, class: proven }: Template, metadataOf: MetadataOf): string | null {
  if (!isAgentName(agent)) return null; // The schema reports it.
  const facts = agentNamed(agent);
  if (proven === 'none') return `${agent} is no proof of power off: ${facts?.note ?? ''}; use it nowhere`;
  if (proven === null) {
    const nearest = nearestName(
      agent,
      AGENTS.map((known) => known.agent),
    );
    const mean = nearest === null ? '' : `; did you mean ${nearest}?`;
    return `nothing is known of what ${agent} proves${mean}; if its off cuts the power and its status asks the device, add proof: power`;
  }
  const metadata = metadataOf(agent);
  if (!metadata.known) return metadata.why === 'malformed' ? `its metadata cannot be used: ${metadata.detail}` : null;
  const missing = missingActions(metadata);
  return missing.length === 0 ? null : `${agent} has no action ${missing.join(', ')}`;
}

/** What is wrong with the `parameters` and `secrets` that stand at a place, for an agent that may have others elsewhere. */
export function textProblems(
  document: YamlDocument,
  path: Path,
  { agent, secrets: ofTemplate }: Template,
  metadataOf: MetadataOf,
): readonly Problem[] {
  const metadata = metadataOf(agent);
  const at = (field: string) => {
    const value = valueAt(document.value, [...path, field]);
    return Object.entries(isObject(value) ? value : {});
  };
  const secrets = { ...ofTemplate, ...textsOf(Object.fromEntries(at('secrets'))) };
  const parameters = at('parameters').flatMap(([name, value]) => {
    if (typeof value !== 'string') return [];
    const twice = Object.hasOwn(secrets, plainName(name)) ? 'is under secrets too; remove one of the two' : null;
    const fault = twice ?? parameterFault(agent, [name, value], metadata);
    return fault === null ? [] : [document.problemAt([...path, 'parameters', name], fault, 'key')];
  });
  const files = at('secrets').flatMap(([name]) => {
    const fault = secretFault(agent, name, metadata);
    return fault === null ? [] : [document.problemAt([...path, 'secrets', name], fault, 'key')];
  });
  return [...parameters, ...files];
}
