import { groupBy } from '../../core/group-by.ts';
import type { GuardConfig, MethodKey, NodePlan } from '../../core/guard/config.ts';
import { NODE_PLACEHOLDER as DEFAULT, isDnsName } from '../../core/guard/config.ts';
import { isObject } from '../../core/shape.ts';
import { sayNotAmong, valueAt } from '../../document/check.ts';
import type { YamlDocument } from '../../document/document.ts';
import type { Path, Problem } from '../../document/problem.ts';
import { entryOf } from '../field.ts';
import { agentNamed, ignoredOutlet } from './agents.ts';
import { type Device, dependsOnNode, deviceOf, isSame, keyOf, mayCoincide, nodeWithDevice, shared } from './device.ts';
import { type GuardMethod, type GuardMethods, sameMethod, type Texts, textsOf, withNode } from './method.ts';
import { type MetadataOf, missingParameters } from './parameters.ts';
import { type Template, textProblems } from './templates.ts';

/** Where plans stand: `fencing.nodes`, the nodes of `nodesFile`, or `fencing.default`. */
type Place = { readonly document: YamlDocument; readonly path: Path };
/** One method of one plan. Of the default, `node` is the placeholder. */
type Use = {
  readonly node: string;
  readonly place: Place;
  /** -1: isolation. */
  readonly level: number;
  readonly device: Device;
  readonly template: string;
  readonly method: GuardMethod;
};
export type ReadPlans = Pick<GuardConfig, 'plans' | 'defaultPlan'> & {
  readonly methods: GuardMethods;
  readonly uses: readonly Use[];
  readonly problems: readonly Problem[];
  readonly warnings: readonly Problem[];
};

/** The plans of all nodes, with everything that is wrong between them. `nodesFile`: the document that it names. */
export function readPlans(
  document: YamlDocument,
  nodesFile: YamlDocument | null,
  templates: ReadonlyMap<string, Template>,
  metadataOf: MetadataOf,
): ReadPlans {
  const problems: Problem[] = [];
  const readUse = createUseReader(templates, metadataOf, problems);
  const places: Place[] = [{ document, path: ['fencing', 'nodes'] }];
  if (nodesFile !== null) places.push({ document: nodesFile, path: ['nodes'] });
  const uses: Use[] = [];
  const listed = new Set<string>();
  for (const { document, path } of places) {
    const nodes = valueAt(document.value, path);
    for (const node of Object.keys(isObject(nodes) ? nodes : {})) {
      const place = { document, path: [...path, node] };
      if (listed.has(node)) problems.push(document.problemAt(place.path, 'is listed in both files', 'key'));
      else if (isDnsName(node)) uses.push(...usesOf(node, place, readUse));
      listed.add(node);
    }
  }
  const defaults = usesOf(DEFAULT, { document, path: ['fencing', 'default'] }, readUse);
  problems.push(
    ...levelProblems([...uses, ...defaults]),
    ...supplyProblems([...uses, ...defaults]),
    ...sharedProblems(uses),
    ...defaultProblems(defaults),
  );
  const { warnings, unsafe } = strangers(uses, defaults, listed);
  const all = [...uses, ...defaults];
  const none = <T>(value: T) => Object.fromEntries(unsafe.map((node) => [node, value]));
  const byDefault = methodsOf(defaults, problems)[DEFAULT] ?? {};
  return {
    plans: { ...none(NO_METHOD), ...plansOf(uses) },
    defaultPlan: plansOf(defaults)[DEFAULT] ?? null,
    methods: { listed: { ...none({}), ...methodsOf(uses, problems) }, byDefault, kept: {} },
    uses: all,
    problems,
    warnings,
  };
}

export const NO_METHOD: NodePlan = { isolation: [], levels: [] };

type ReadUse = (node: string, place: Place, level: number) => readonly Use[];

function usesOf(node: string, { document, path }: Place, readUse: ReadUse): readonly Use[] {
  const list = (at: Path): readonly number[] => {
    const value = valueAt(document.value, at);
    return Array.isArray(value) ? [...value.keys()] : [];
  };
  const isolation = [...path, 'isolation'];
  const power = [...path, 'power'];
  return [
    ...list(isolation).flatMap((i) => readUse(node, { document, path: [...isolation, i] }, -1)),
    ...list(power).flatMap((level) =>
      list([...power, level]).flatMap((i) => readUse(node, { document, path: [...power, level, i] }, level)),
    ),
  ];
}

function createUseReader(
  templates: ReadonlyMap<string, Template>,
  metadataOf: MetadataOf,
  problems: Problem[],
): ReadUse {
  /** What a template lacks is said once. */
  const said = new Set<string>();
  return (node, { document, path }, level) => {
    const problem = (step: Path, text: string): readonly never[] => {
      problems.push(document.problemAt([...path, ...step], text));
      return [];
    };
    const raw = valueAt(document.value, path);
    const name = entryOf(raw, 'template');
    if (typeof name !== 'string') return [];
    const template = templates.get(name);
    if (template === undefined) return problem(['template'], sayNotAmong([...templates.keys()], name));
    problems.push(...textProblems(document, path, template, metadataOf));
    const { agent, class: proven } = template;
    if (proven === 'fabric' && level >= 0) problem([], `${agent} cuts storage, not power: move it to isolation`);
    if (proven === 'power' && level < 0) problem([], `${agent} cuts power, not storage: move it to power`);
    const ofNode = (texts: Texts): Texts => (node === DEFAULT ? texts : withNode(texts, node));
    const parameters = ofNode({ ...template.parameters, ...textsOf(entryOf(raw, 'parameters')) });
    const secrets = ofNode(template.secrets);
    const missing = missingParameters(metadataOf(agent), { ...parameters, ...secrets });
    for (const needed of missing.filter((needed) => !said.has(`${name} ${needed}`))) {
      said.add(`${name} ${needed}`);
      problem([], `${agent} needs ${needed}: write it here, or for all under fencing.templates.${name}`);
    }
    const ignored = ignoredOutlet(agent, parameters);
    if (ignored !== null) problem([], ignored);
    const device = deviceOf(agent, parameters);
    if (device === null) return problem([], 'names no device: it needs ip, plug, or what else the agent knows it by');
    const key = keyOf(name, device);
    const method = { key, agent, parameters, secrets };
    return [{ node, place: { document, path }, level, device, template: name, method }];
  };
}

function plansOf(uses: readonly Use[]): { readonly [node: string]: NodePlan } {
  const plans = new Map<string, { isolation: MethodKey[]; levels: MethodKey[][]; ofMachine: MethodKey[] }>();
  for (const { node, level, method } of uses) {
    const { key, agent } = method;
    const plan = plans.get(node) ?? { isolation: [], levels: [], ofMachine: [] };
    plans.set(node, plan);
    if (level < 0) plan.isolation.push(key);
    else {
      while (plan.levels.length <= level) plan.levels.push([]);
      plan.levels[level]?.push(key);
      const device = agentNamed(agent)?.device;
      if (device === 'bmc' || device === 'manager') plan.ofMachine.push(key);
    }
  }
  return Object.fromEntries([...plans].map(([node, plan]) => [node, withSeveralLevels(plan)]));
}

/** Within one level, each of them has to say off anyway. */
function withSeveralLevels({ ofMachine, ...plan }: Required<NodePlan>): NodePlan {
  return plan.levels.length > 1 && ofMachine.length > 0 ? { ...plan, ofMachine } : plan;
}

function methodsOf(uses: readonly Use[], problems: Problem[]): GuardMethods['listed'] {
  const methods = new Map<string, { [key: MethodKey]: GuardMethod }>();
  for (const { node, method, place } of uses) {
    const ofNode = methods.get(node) ?? {};
    methods.set(node, ofNode);
    const first = ofNode[method.key];
    if (first !== undefined && !sameMethod(first, method)) {
      const text = `is ${method.key} once more, with other parameters; give it a template of its own`;
      problems.push(place.document.problemAt(place.path, text));
    } else ofNode[method.key] = method;
  }
  return Object.fromEntries(methods);
}

function levelProblems(uses: readonly Use[]): readonly Problem[] {
  const seen = new Set<string>();
  return uses.flatMap(({ node, level, method: { key }, place: { document, path } }) => {
    const where = `${node} ${level} ${key}`;
    if (seen.has(where)) return [document.problemAt(path, `${key} is in this level already`)];
    seen.add(where);
    return [];
  });
}

/** A machine with two supplies runs on the second while the first one is proven off. */
function supplyProblems(uses: readonly Use[]): readonly Problem[] {
  const isOutlet = ({ level, method }: Use): boolean => level >= 0 && agentNamed(method.agent)?.device === 'outlet';
  return [...groupBy(uses, ({ node }) => node).values()].flatMap((ofNode) => {
    const outlets = ofNode.filter(isOutlet);
    const levels = groupBy(ofNode, ({ level }) => level);
    return [...levels.values()].flatMap((level) => {
      const other = outlets.find(({ device }) => !level.some((use) => isSame(use.device, device)));
      const [first] = level;
      if (first === undefined || other === undefined || !level.every(isOutlet)) return [];
      const text = `proves only one outlet off while the machine may run on ${other.method.key}: put all outlets of a machine into one level`;
      return [first.place.document.problemAt(first.place.path, text)];
    });
  });
}

function sharedProblems(uses: readonly Use[]): readonly Problem[] {
  return shared(uses).map(([first, second]) => {
    const what = sayShared(first.method.key, second.method.key);
    const then = second.level < 0 ? 'cut off the other' : 'power off the other';
    const { document, path } = second.place;
    return document.problemAt(path, `${first.node} and ${second.node} have ${what}: one of them would ${then}`);
  });
}

const sayShared = (one: MethodKey, other: MethodKey): string =>
  one === other ? `the same method ${one}` : `one device, ${one} and ${other}`;

function defaultProblems(defaults: readonly Use[]): readonly Problem[] {
  return defaults.flatMap(({ device, method: { key }, place: { document, path } }, index) => {
    if (!dependsOnNode(device)) {
      return [document.problemAt(path, `every node that is not listed would have ${key}: say {node} in ip or plug`)];
    }
    const other = defaults.slice(0, index).find((before) => mayCoincide(before.device, device));
    if (other === undefined) return [];
    return [
      document.problemAt(
        path,
        `${key} of one node may be ${other.method.key} of another: give them beginnings or ends of their own`,
      ),
    ];
  });
}

/** Nodes not listed, to whom the default would give the device of a listed one. They have no method. */
function strangers(uses: readonly Use[], defaults: readonly Use[], listed: ReadonlySet<string>) {
  const warnings: Problem[] = [];
  const unsafe: string[] = [];
  for (const { device, node, place } of uses) {
    for (const { device: byDefault } of defaults) {
      const stranger = nodeWithDevice(byDefault, device);
      if (stranger === null || listed.has(stranger)) continue;
      unsafe.push(stranger);
      const text = `by default this is the device of a node named ${stranger}: such a node is never fenced, unless it is listed beside ${node}`;
      warnings.push(place.document.problemAt(place.path, text));
    }
  }
  return { warnings, unsafe };
}
