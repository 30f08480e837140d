import { PHASES } from '../../core/guard/record.ts';
import { isObject } from '../../core/shape.ts';
import { sayUnknownName, sayValue } from '../../document/check.ts';
import { nearestName } from '../../document/nearest.ts';
import type { Json } from '../scenario.ts';
import {
  among,
  flag,
  instant,
  listOf,
  mapOf,
  matching,
  ours,
  type Place,
  readMs,
  type Shape,
  text,
  whole,
} from '../shape.ts';
import { ORDER_VERBS, type ScenarioEvent, type ScenarioNode } from './scenario.ts';

/** `w[1-5000]`: w1 to w5000. One range in a name; a name without one is itself. */
const RANGE = /^([^[\]]*)\[(\d{1,6})-(\d{1,6})\]([^[\]]*)$/;
/** More than any cluster has. */
export const MAX_NODES = 20_000;

/** Null: not a name or a range of names, or of more than MAX_NODES. */
function expandNames(written: string): readonly string[] | null {
  if (!/[[\]]/.test(written)) return [written];
  const [, before = '', first = '', last = '', after = ''] = RANGE.exec(written) ?? [];
  const [from, to] = [Number(first), Number(last)];
  if (first === '' || to < from || to - from >= MAX_NODES) return null;
  return Array.from({ length: to - from + 1 }, (_, i) => `${before}${from + i}${after}`);
}

/** A node that is not there; of many that are, only the nearest is named. */
export function sayStranger(name: string, valid: readonly string[]): string {
  const nearest = nearestName(name, valid);
  return sayUnknownName(name, valid.length > 20 && nearest !== null ? [nearest] : valid.slice(0, 20), 'node');
}

/** `w1`, `w[1-9]`, or a list of such names. */
export const NAMES: Shape = (value, at) => {
  const all = Array.isArray(value) ? value : [value];
  for (const one of all) {
    if (typeof one === 'string' && expandNames(one) !== null) continue;
    at.mistakes.at(
      at.path,
      `expected a name, a range of names, or a list of them, not ${sayValue(one)}; for example w1 or "w[1-9]"`,
    );
  }
};
export const namesOf = (value: unknown): readonly string[] =>
  (Array.isArray(value) ? value : [value]).flatMap((one) => (typeof one === 'string' ? (expandNames(one) ?? []) : []));

export const delay: Shape = (value, at) => {
  instant(value, at);
  if ((readMs(value) ?? 0) < 0) at.mistakes.at(at.path, `must not be negative, it is ${sayValue(value)}`);
};
const SHARE = /^(100|\d{1,2})%$/;
const yes: Shape = (value, at) => {
  if (value !== true) at.mistakes.at(at.path, 'expected true');
};
const textOrNull: Shape = (value, at) => {
  if (value !== null) text(value, at);
};

/** What may happen, by the key that names it. Those with `node` beside them happen to nodes. */
const ON_NODES: { readonly [key: string]: Shape } = {
  power: among(['on', 'off']),
  freeze: flag,
  kubelet: among(['start', 'stop']),
  announce: among(['shutdown', 'reboot']),
  annotate: mapOf(textOrNull),
  label: mapOf(textOrNull),
  taint: mapOf(textOrNull),
  cordon: flag,
};
const ELSEWHERE: { readonly [key: string]: Shape } = {
  cut: NAMES,
  heal: NAMES,
  switchDown: ours({ zone: text, rack: text, share: matching(SHARE, 'a share, for example "60%"') }),
  api: among(['down', 'up', 'slow', 'stale']),
  device: ours(
    {
      node: NAMES,
      level: whole,
      says: among(['on', 'off', 'unknown']),
      after: delay,
      fails: flag,
      hangs: flag,
      lies: flag,
      works: yes,
    },
    ['node'],
  ),
  guard: ours(
    {
      name: text,
      kill: yes,
      restart: yes,
      pause: yes,
      cutFromApi: flag,
      for: delay,
      atPhase: among(PHASES),
      after: delay,
    },
    ['name'],
  ),
  clock: ours({ node: NAMES, guard: text, step: instant }, ['step']),
  deleteNode: NAMES,
  deleteRecords: yes,
  order: ours(
    {
      verb: among(ORDER_VERBS),
      node: text,
      scope: text,
      for: delay,
      by: text,
      because: text,
      deviceIsWrong: flag,
    },
    ['verb'],
  ),
};
const KINDS = { ...ON_NODES, ...ELSEWHERE };
const KIND_NAMES = Object.keys(KINDS);

const fields = ours({ at: delay, node: NAMES, from: among(['api', 'all']), ...KINDS }, ['at']);

export const EVENT: Shape = (value, at) => {
  fields(value, at);
  if (!isObject(value)) return;
  const kinds = Object.keys(value).filter((key) => KIND_NAMES.includes(key));
  const [kind] = kinds;
  if (kind === undefined) at.mistakes.at(at.path, `what happens? one of ${KIND_NAMES.join(', ')}`);
  else if (kinds.length > 1) at.mistakes.at(at.path, `${kinds.join(' and ')}: one event at a time`);
  else if (Object.hasOwn(ON_NODES, kind) && value['node'] === undefined)
    at.mistakes.at([...at.path, 'node'], 'missing');
  if (kind === 'guard') oneAct(value['guard'], at);
};

const GUARD_ACTS = ['kill', 'restart', 'pause', 'cutFromApi'];
function oneAct(guard: unknown, at: Place): void {
  const acts = GUARD_ACTS.filter((act) => isObject(guard) && guard[act] !== undefined);
  if (acts.length !== 1) at.mistakes.at([...at.path, 'guard'], `expected one of ${GUARD_ACTS.join(', ')}`);
}

type Named = { readonly nodes: readonly ScenarioNode[]; readonly guards: readonly string[] };

/** The events of a list of that shape, in order of time, and what they name that is not there. */
export function eventsOf(
  written: readonly unknown[],
  named: Named,
  mistake: (index: number, key: string, text: string) => void,
): readonly ScenarioEvent[] {
  const nodes = new Set(named.nodes.map(({ name }) => name));
  const known = (index: number, key: string, value: unknown): readonly string[] => {
    const names = value === 'all' ? [...nodes] : namesOf(value);
    const stranger = names.find((name) => !nodes.has(name));
    if (stranger !== undefined) mistake(index, key, sayStranger(stranger, [...nodes]));
    return names;
  };
  const guard = (index: number, name: unknown, also: readonly string[] = []): string => {
    const valid = [...named.guards, ...also];
    if (!valid.includes(String(name))) mistake(index, 'guard', sayUnknownName(String(name), valid, 'guard'));
    return String(name);
  };
  return written
    .filter(isObject)
    .flatMap((event, index) => {
      const nodesAt = (key: string, value: unknown): readonly string[] => known(index, key, value);
      return eventOf(event, named.nodes, nodesAt, (name, also) => guard(index, name, also));
    })
    .toSorted((a, b) => a.atMs - b.atMs);
}

function eventOf(
  event: Json,
  all: readonly ScenarioNode[],
  known: (key: string, value: unknown) => readonly string[],
  guard: (name: unknown, also?: readonly string[]) => string,
): readonly ScenarioEvent[] {
  const atMs = readMs(event['at']) ?? 0;
  const kind = KIND_NAMES.find((key) => event[key] !== undefined);
  const value = kind === undefined ? undefined : event[kind];
  const part: Json = isObject(value) ? value : {};
  const nodes = event['node'] === undefined ? [] : known('node', event['node']);
  switch (kind) {
    case 'power':
      return [{ kind, atMs, nodes, isOn: value === 'on' }];
    case 'freeze':
      return [{ kind, atMs, nodes, isFrozen: value === true }];
    case 'kubelet':
      return [{ kind, atMs, nodes, isRunning: value === 'start' }];
    case 'announce':
      return [{ kind, atMs, nodes, what: value === 'reboot' ? 'reboot' : 'shutdown' }];
    case 'annotate':
    case 'label':
      return Object.entries(part).map(([key, said]) => ({
        kind,
        atMs,
        nodes,
        key,
        value: said === null ? null : String(said),
      }));
    case 'taint':
      return Object.entries(part).map(([key, said]) => ({
        kind,
        atMs,
        nodes,
        key,
        value: String(said ?? ''),
        isSet: said !== null,
      }));
    case 'cordon':
      return [{ kind, atMs, nodes, isSet: value === true }];
    case 'cut':
      return [{ kind, atMs, nodes: known(kind, value), from: event['from'] === 'api' ? 'api' : 'all' }];
    case 'heal':
      return [{ kind, atMs, nodes: value === 'all' ? null : known(kind, value) }];
    case 'switchDown':
      return [{ kind: 'cut', atMs, nodes: behindSwitch(part, all), from: 'all' }];
    case 'api':
      return [{ kind, atMs, mode: value === 'down' || value === 'slow' || value === 'stale' ? value : 'up' }];
    case 'device':
      return [deviceEvent(atMs, part, known('device', part['node']))];
    case 'guard':
      return [guardEvent(atMs, part, guard(part['name'], ['leader']))];
    case 'clock': {
      const own = part['guard'] === undefined ? null : guard(part['guard']);
      const stepped = part['node'] === undefined ? [] : known('clock', part['node']);
      return [{ kind, atMs, nodes: stepped, guard: own, stepMs: readMs(part['step']) ?? 0 }];
    }
    case 'deleteNode':
      return [{ kind, atMs, nodes: known(kind, value) }];
    case 'deleteRecords':
      return [{ kind, atMs }];
    case 'order':
      return [{ kind, atMs, order: orderOf(part) }];
    default:
      return [];
  }
}

export const ZONE = 'topology.kubernetes.io/zone';
export const RACK = 'topology.kubernetes.io/rack';

/** A zone, a rack, or so many of all nodes, the first ones. */
function behindSwitch({ zone, rack, share }: Json, nodes: readonly ScenarioNode[]): readonly string[] {
  const names = (some: readonly ScenarioNode[]): readonly string[] => some.map(({ name }) => name);
  if (zone !== undefined) return names(nodes.filter(({ labels }) => labels[ZONE] === zone));
  if (rack !== undefined) return names(nodes.filter(({ labels }) => labels[RACK] === rack));
  const [, percent = '100'] = SHARE.exec(String(share ?? '')) ?? [];
  return names(nodes.slice(0, Math.round((nodes.length * Number(percent)) / 100)));
}

function deviceEvent(atMs: number, part: Json, nodes: readonly string[]): Extract<ScenarioEvent, { kind: 'device' }> {
  const { says, level, fails, hangs, lies } = part;
  return {
    kind: 'device',
    atMs,
    nodes,
    level: typeof level === 'number' ? level : null,
    says: says === 'on' || says === 'off' || says === 'unknown' ? says : null,
    afterMs: readMs(part['after']) ?? 0,
    fails: fails === true,
    hangs: hangs === true,
    lies: lies === true,
  };
}

function guardEvent(atMs: number, part: Json, guard: string): Extract<ScenarioEvent, { kind: 'guard' }> {
  const act =
    part['kill'] === true ? 'kill' : part['restart'] === true ? 'restart' : part['pause'] === true ? 'pause' : null;
  return {
    kind: 'guard',
    atMs,
    guard,
    act: act ?? (part['cutFromApi'] === true ? 'cut' : 'heal'),
    forMs: readMs(part['for']),
    atPhase: typeof part['atPhase'] === 'string' ? part['atPhase'] : null,
    afterMs: readMs(part['after']) ?? 0,
  };
}

function orderOf(part: Json): Extract<ScenarioEvent, { kind: 'order' }>['order'] {
  const { verb, node, scope, by = 'somebody', because = 'the scenario says so' } = part;
  return {
    verb: ORDER_VERBS.find((valid) => valid === verb) ?? 'pause',
    scope: typeof node === 'string' ? node : typeof scope === 'string' ? scope : null,
    forMs: readMs(part['for']),
    by: String(by),
    because: String(because),
    isDeviceWrong: part['deviceIsWrong'] === true,
  };
}

export const EVENTS: Shape = listOf(EVENT);
