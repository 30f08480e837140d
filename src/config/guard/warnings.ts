import { type GuardConfig, NODE_PLACEHOLDER } from '../../core/guard/config.ts';
import { sayDuration } from '../../core/units/duration.ts';
import type { Problem } from '../../document/problem.ts';
import { sayNames } from '../../words/phrases.ts';
import type { Fields } from '../field.ts';
import { agentNamed } from './agents.ts';
import type { MetadataOf } from './parameters.ts';
import type { ReadPlans } from './plans.ts';
import type { Template } from './templates.ts';

type Checked = {
  readonly fields: Fields;
  readonly core: GuardConfig;
  readonly templates: ReadonlyMap<string, Template>;
  readonly plans: ReadPlans;
};

/** What is valid but probably not intended. */
export function guardWarnings(checked: Checked): readonly Problem[] {
  return [
    ...ruleWarnings(checked),
    ...deviceWarnings(checked),
    ...templateWarnings(checked),
    ...checked.plans.warnings,
  ];
}

/** What could not be checked here. It is not passed because of that. */
export function unchecked(
  templates: ReadonlyMap<string, Template>,
  fields: Fields,
  metadataOf: MetadataOf,
): readonly Problem[] {
  const said = new Set<string>();
  return [...templates].flatMap(([name, { agent, class: proven }]) => {
    const isRefused = proven === null || proven === 'none';
    const metadata = metadataOf(agent);
    if (isRefused || metadata.known || metadata.why === 'malformed' || said.has(agent)) return [];
    said.add(agent);
    const text = `whether ${agent} takes these parameters is unknown: ${metadata.detail}`;
    return [fields.problemAt(['fencing', 'templates', name], text)];
  });
}

function ruleWarnings({ fields, core }: Checked): readonly Problem[] {
  const { storm, domainLabels, patrol } = core;
  const found: Problem[] = [];
  const warn = (path: readonly string[], text: string): void => void found.push(fields.problemAt(path, text));
  if (domainLabels.length === 0) {
    warn(['domainLabels'], 'without labels all nodes are one failure domain: a rack that fails is not seen as one');
  }
  if (storm.maxUnhealthyShare > 0.5) {
    const text = 'above 50% the guard may power off more than half of the cluster for one fault of the network';
    warn(['storm', 'maxUnhealthy'], text);
  }
  if (patrol === null) {
    const text =
      'without a patrol a machine that is off already is never proven off, and a device that lies is found too late';
    warn(['patrol', 'every'], text);
  }
  return found;
}

function deviceWarnings({ fields, plans: { uses, plans, defaultPlan } }: Checked): readonly Problem[] {
  if (Object.keys(plans).length === 0 && defaultPlan === null) {
    return [fields.problemAt(['fencing'], 'no node has a method: nothing can be fenced; add nodes or default')];
  }
  const isBmc = (agent: string): boolean => agentNamed(agent)?.device === 'bmc';
  const power = uses.filter(({ level }) => level >= 0);
  const hasOther = new Set(power.filter(({ method }) => !isBmc(method.agent)).map(({ node }) => node));
  const alone = power.filter(({ node }) => !hasOther.has(node));
  const [first] = alone;
  if (first === undefined) return [];
  const names = [
    ...new Set(alone.map(({ node }) => (node === NODE_PLACEHOLDER ? 'every node that is not listed' : node))),
  ];
  const text = `a BMC goes silent with its machine's power supply, and then nothing proves the machine off: ${sayNames(names)}; add the PDU as second level`;
  return [first.place.document.problemAt(first.place.path, text)];
}

/** What fence-agents wait by default for a machine to change its state. */
const POWER_TIMEOUT_S = 20;

function templateWarnings({ fields, core, templates, plans }: Checked): readonly Problem[] {
  const used = new Set(plans.uses.map(({ template }) => template));
  return [...templates].flatMap(([name, { agent, parameters }]) => {
    const path = ['fencing', 'templates', name];
    if (!used.has(name)) return [fields.problemAt(path, 'is used by no node')];
    const waitMs = Number(parameters['power_timeout'] ?? POWER_TIMEOUT_S) * 1_000;
    if (!(waitMs >= core.deadlineMs)) return [];
    const text = `${agent} waits ${sayDuration(waitMs)} for the machine (power_timeout), but is ended after deadline ${sayDuration(core.deadlineMs)}`;
    return [fields.problemAt(path, text)];
  });
}
