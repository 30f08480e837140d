import { createFields } from '../../config/field.ts';
import { rulesOf } from '../../config/guard/effective.ts';
import { ruleProblems } from '../../config/guard/rules.ts';
import { guardRulesSchema } from '../../config/guard/schema.ts';
import type { GuardConfig, NodePlan } from '../../core/guard/config.ts';
import { isObject } from '../../core/shape.ts';
import { check, sayValue } from '../../document/check.ts';
import type { YamlDocument } from '../../document/document.ts';
import type { Problem } from '../../document/problem.ts';
import { below, expectOf, HEAD, HEAD_KEYS, headOf } from '../envelope.ts';
import type { Json } from '../scenario.ts';
import {
  among,
  createMistakes,
  elsewhere,
  flag,
  listOf,
  type Mistakes,
  mapOf,
  orNull,
  ours,
  readMs,
  type Shape,
  text,
  whole,
} from '../shape.ts';
import { EXPECT } from './expect.ts';
import { delay, EVENTS, eventsOf, MAX_NODES, NAMES, namesOf, RACK, sayStranger, ZONE } from './read-event.ts';
import {
  type GuardScenario,
  type ScenarioDevice,
  type ScenarioGuard,
  type ScenarioNode,
  type ScenarioPod,
  WORLD_DEFAULTS,
  type WorldTimes,
} from './scenario.ts';
import { methodKey } from './world.ts';

const count: Shape = (value, at) => {
  whole(value, at);
  if (typeof value === 'number' && (value < 0 || value > 1_000)) at.mistakes.at(at.path, 'must be from 0 to 1000');
};
const positive: Shape = (value, at) => {
  delay(value, at);
  if (readMs(value) === 0) at.mistakes.at(at.path, 'must be more than 0');
};

const POD = ours(
  { name: text, statefulSet: text, priority: whole, volumes: count, detaches: flag, tolerates: flag, finalizer: flag },
  ['name'],
);
const DEVICE = ours({ kind: among(['bmc', 'pdu', 'fabric']), level: count, sharesPower: flag }, ['kind']);
const NODE = ours({
  name: NAMES,
  names: NAMES,
  zone: text,
  rack: text,
  labels: mapOf(text),
  controlPlane: flag,
  pods: listOf(POD),
  devices: listOf(DEVICE),
});
const GUARD = ours({ name: text, on: text }, ['name']);
/** A run that never ends helps nobody. */
const LONGEST_MS = 7 * 24 * 3_600_000;
const AFTER_LAST_EVENT_MS = 30 * 60_000;
const MAX_PODS = 200_000;

const ROOT = ours(
  {
    ...HEAD,
    config: elsewhere,
    world: orNull(
      ours({ ...Object.fromEntries(Object.keys(WORLD_DEFAULTS).map((key) => [key, positive])), duration: positive }),
    ),
    nodes: listOf(NODE, 1),
    guards: listOf(GUARD, 1),
    events: listOf(elsewhere),
    expect: orNull(EXPECT),
  },
  [...HEAD_KEYS, 'nodes'],
);

/** The scenario of a document, or everything that is wrong with it. */
export function readGuardScenario(yaml: YamlDocument): {
  readonly scenario: GuardScenario | null;
  readonly problems: readonly Problem[];
} {
  const head = headOf(yaml);
  const root: Json = isObject(yaml.value) ? yaml.value : {};
  const mistakes = createMistakes(yaml);
  ROOT(yaml.value, { path: [], mistakes, startWallMs: null });
  const events = root['events'];
  if (events !== undefined) EVENTS(events, { path: ['events'], mistakes, startWallMs: null });
  const nodes = mistakes.all().length > 0 ? [] : nodesOf(root['nodes'], mistakes);
  const { rules, problems: wrong } = readGuardRules(yaml, root['config']);
  mistakes.add(wrong);
  const guards = guardsOf(root['guards'], nodes, mistakes);
  if (mistakes.all().length > 0 || head === null || rules === null) return { scenario: null, problems: mistakes.all() };
  const named = { nodes, guards: guards.map(({ name }) => name) };
  const happening = eventsOf(itemsOf(events), named, (index, key, said) => mistakes.at(['events', index, key], said));
  const times = worldOf(root['world']);
  const lastMs = happening.at(-1)?.atMs ?? 0;
  const untilMs = readMs(isObject(root['world']) ? root['world']['duration'] : null) ?? lastMs + AFTER_LAST_EVENT_MS;
  if (untilMs > LONGEST_MS) mistakes.at(['events'], 'the run would take more than seven days');
  const problems = mistakes.all();
  if (problems.length > 0) return { scenario: null, problems };
  const scenario: GuardScenario = {
    name: head.name,
    labels: head.labels,
    kind: 'GuardScenario',
    config: withDevices(rules, times.agentDeadline, nodes),
    world: times,
    untilMs,
    nodes,
    guards,
    events: happening,
    expect: expectOf(root['expect']),
  };
  return { scenario, problems: [] };
}

const itemsOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);

function worldOf(value: unknown): WorldTimes {
  const given: Json = isObject(value) ? value : {};
  const entries = Object.entries(WORLD_DEFAULTS).map(([key, ms]) => [key, readMs(given[key]) ?? ms]);
  return Object.fromEntries(entries);
}

function guardsOf(value: unknown, nodes: readonly ScenarioNode[], mistakes: Mistakes): readonly ScenarioGuard[] {
  if (value === undefined)
    return [
      { name: 'g1', on: null },
      { name: 'g2', on: null },
    ];
  const seen = new Set<string>();
  return itemsOf(value)
    .filter(isObject)
    .map(({ name, on }, index) => {
      if (seen.has(String(name))) mistakes.at(['guards', index, 'name'], `another guard has the name ${String(name)}`);
      seen.add(String(name));
      const isKnown = on === undefined || on === 'outside' || nodes.some((node) => node.name === on);
      if (!isKnown && nodes.length > 0) {
        const valid = ['outside', ...nodes.map((node) => node.name)];
        mistakes.at(['guards', index, 'on'], sayStranger(String(on), valid));
      }
      return { name: String(name), on: on === undefined || on === 'outside' ? null : String(on) };
    });
}

function nodesOf(value: unknown, mistakes: Mistakes): readonly ScenarioNode[] {
  const nodes: ScenarioNode[] = [];
  const seen = new Set<string>();
  const pods = new Set<string>();
  for (const [index, written] of itemsOf(value).filter(isObject).entries()) {
    const names = namesOf(written['name'] ?? written['names']);
    if ((written['name'] === undefined) === (written['names'] === undefined)) {
      mistakes.at(['nodes', index], 'expected either name or names');
    }
    for (const name of names) {
      if (seen.has(name)) mistakes.at(['nodes', index], `another node has the name ${name}`);
      seen.add(name);
      const node = nodeOf(name, written);
      for (const pod of node.pods) {
        if (pods.has(pod.name))
          mistakes.at(['nodes', index, 'pods'], `another pod has the name ${pod.name}; {node} makes names differ`);
        pods.add(pod.name);
      }
      nodes.push(node);
      if (nodes.length > MAX_NODES || pods.size > MAX_PODS) {
        mistakes.at(['nodes'], `more than ${MAX_NODES} nodes or ${MAX_PODS} pods`);
        return nodes;
      }
    }
  }
  return nodes;
}

const CONTROL_PLANE = 'node-role.kubernetes.io/control-plane';

function nodeOf(name: string, written: Json): ScenarioNode {
  const { zone, rack, labels, controlPlane } = written;
  return {
    name,
    labels: {
      ...(typeof zone === 'string' ? { [ZONE]: zone } : {}),
      ...(typeof rack === 'string' ? { [RACK]: rack } : {}),
      ...(controlPlane === true ? { [CONTROL_PLANE]: '' } : {}),
      ...(isObject(labels) ? Object.fromEntries(Object.entries(labels).map(([key, said]) => [key, String(said)])) : {}),
    },
    pods: itemsOf(written['pods'])
      .filter(isObject)
      .map((pod) => podOf(name, pod)),
    devices:
      written['devices'] === undefined ? DEFAULT_DEVICES : itemsOf(written['devices']).filter(isObject).map(deviceOf),
  };
}

const DEFAULT_DEVICES: readonly ScenarioDevice[] = [{ kind: 'bmc', level: 1, sharesPower: false }];

function podOf(node: string, pod: Json): ScenarioPod {
  const named = String(pod['name']).replaceAll('{node}', node);
  const { statefulSet, priority, volumes } = pod;
  return {
    name: named.includes('/') ? named : `default/${named}`,
    statefulSet: typeof statefulSet === 'string' ? statefulSet : null,
    priority: typeof priority === 'number' ? priority : 0,
    volumes: typeof volumes === 'number' ? volumes : 0,
    tolerates: pod['tolerates'] === true,
    hasFinalizer: pod['finalizer'] === true,
    detaches: pod['detaches'] !== false,
  };
}

function deviceOf(device: Json): ScenarioDevice {
  const kind = device['kind'] === 'pdu' || device['kind'] === 'fabric' ? device['kind'] : 'bmc';
  const { level, sharesPower } = device;
  return {
    kind,
    level: typeof level === 'number' ? level : 1,
    sharesPower: sharesPower === true,
  };
}

/** The plans that a configuration's `fencing` would have. */
export function withDevices(rules: GuardRules, deadlineMs: number, nodes: readonly ScenarioNode[]): GuardConfig {
  const plans: { [node: string]: NodePlan } = {};
  for (const { name, devices } of nodes) {
    const keyed = devices.map((device, index) => ({ ...device, key: methodKey(name, devices, index) }));
    const power = keyed.filter(({ kind }) => kind !== 'fabric');
    const levels = [...new Set(power.map(({ level }) => level))].toSorted((a, b) => a - b);
    plans[name] = {
      isolation: keyed.filter(({ kind }) => kind === 'fabric').map(({ key }) => key),
      levels: levels.map((level) => power.filter((device) => device.level === level).map(({ key }) => key)),
      ofMachine: power.filter(({ kind }) => kind === 'bmc').map(({ key }) => key),
    };
  }
  return { ...rules, deadlineMs, plans, defaultPlan: null };
}

/** What of a configuration decides, but for the devices, which are those of the scenario's nodes. */
export type GuardRules = Omit<GuardConfig, 'deadlineMs' | 'plans' | 'defaultPlan'>;

/** guard.md 12.1: a NodewardenGuardConfiguration without `fencing`; absent: defaults, armed. */
function readGuardRules(
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
