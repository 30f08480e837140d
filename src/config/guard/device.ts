import { isDnsName, type MethodKey, NODE_PLACEHOLDER as NODE } from '../../core/guard/config.ts';
import type { Texts } from './method.ts';

/**
 * Which switch a method operates. Two methods are the same device unless a parameter that chooses it says otherwise in
 * both: an innocent machine behind the same switch would be powered off.
 */

/** Parameters that choose a device or one of its outlets, in the order in which a key names them. */
const SELECTORS = [
  ...['ip', 'ipport', 'plug', 'target', 'switch', 'uuid', 'systems_uri', 'redfish_uri', 'region', 'zone', 'project'],
  ...['resourceGroup', 'subscriptionId', 'suborg', 'namespace', 'managed', 'pve_node', 'vmtype', 'instance'],
  ...['vmware_datacenter', 'auth_url', 'region_name', 'project_name', 'session_url', 'serial_port'],
];
/** One of them is needed for there to be a device at all; the others only narrow it down. */
const NAMES_ONE = ['ip', 'plug', 'uuid', 'systems_uri', 'session_url'];
/** They do not tell two agents' devices apart: one uses 623, another 443. */
const PER_AGENT = ['ipport', 'systems_uri', 'redfish_uri'];

export type Device = { readonly agent: string; readonly selectors: Texts };

export const isSelector = (parameter: string): boolean => SELECTORS.includes(parameter);

/** Null: the parameters name no device. */
export function deviceOf(agent: string, parameters: Texts): Device | null {
  const chosen = SELECTORS.flatMap((name) => {
    const value = Object.hasOwn(parameters, name) ? parameters[name]?.trim() : undefined;
    return value === undefined || value === '' ? [] : [[name, value] as const];
  });
  return chosen.some(([name]) => NAMES_ONE.includes(name)) ? { agent, selectors: Object.fromEntries(chosen) } : null;
}

/** `bmc ip=10.0.9.10`: what a person recognises it by. */
export function keyOf(template: string, { selectors }: Device): MethodKey {
  const said = Object.entries(selectors).map(
    ([name, value]) => `${name}=${/^[^\s"=]+$/.test(value) ? value : JSON.stringify(value)}`,
  );
  return [template, ...said].join(' ');
}

/** Address, path and outlet in one spelling: hosts as URLs write them, numbers without zeros before them. */
function spelled(name: string, value: string): string {
  if (name === 'ip') return hostOf(value);
  if (name.endsWith('_uri')) return value.toLowerCase().replace(/\/+/g, '/').replace(/\/$/, '');
  if (!/^[0-9]+(:[0-9]+)?$/.test(value)) return value.toLowerCase();
  const plain = value.replace(/(^|:)0+(?=[0-9])/g, '$1');
  // Fence_apc and fence_apc_snmp take an outlet without a switch for one of the first switch.
  return name === 'plug' ? plain.replace(/^1:/, '') : plain;
}
function hostOf(value: string): string {
  const host = value.toLowerCase().replace(/\.$/, '');
  const url = `http://${host.includes(':') ? `[${host}]` : host}/`;
  return !host.includes(NODE) && URL.canParse(url) ? ipv4Of(new URL(url).hostname) : host;
}

/** An IPv4 address that is written as one of IPv6; else the host as it is. */
function ipv4Of(host: string): string {
  const [, high, low] = /^\[::ffff:([0-9a-f]{1,4}):([0-9a-f]{1,4})\]$/.exec(host) ?? [];
  if (high === undefined || low === undefined) return host;
  return [high, low].flatMap((hex) => [Number.parseInt(hex, 16) >> 8, Number.parseInt(hex, 16) & 255]).join('.');
}

/** What is wrong with the value of `ip`: in more than one spelling, a device of two nodes would not be seen as one. */
export function addressFault(value: string): string | null {
  const ip = value.trim();
  // fence_redfish splits it off.
  if (ip.split(':').length === 2) return 'must not contain a port: write that under ipport';
  const isIpv4 = /^(::ffff:)?[0-9.]+$/i.test(ip);
  return isIpv4 && (hostOf(ip) !== ip || !URL.canParse(`http://${ip}/`))
    ? `must be four numbers from 0 to 255, without zeros before them, not ${JSON.stringify(value)}`
    : null;
}

/** The devices, spelled, that two methods may share are found by this: address, or agent where there is none. */
const groupOf = ({ agent, selectors }: Device): string =>
  selectors['ip'] === undefined ? agent : spelled('ip', selectors['ip']);

export function isSame(a: Device, b: Device): boolean {
  const sameAgent = a.agent === b.agent;
  return SELECTORS.every((name) => {
    const [one, other] = [a.selectors[name], b.selectors[name]];
    if (one === undefined || other === undefined) return true;
    if (!sameAgent && PER_AGENT.includes(name)) return true;
    return spelled(name, one) === spelled(name, other);
  });
}

type Owned = { readonly device: Device; readonly node: string };

/** Pairs of methods of different nodes that are one device: for each the first before it. */
export function shared<T extends Owned>(methods: readonly T[]): readonly (readonly [first: T, second: T])[] {
  type Group = { readonly all: T[]; readonly byPlug: Map<string, T[]> };
  const groups = new Map<string, Group>();
  return methods.flatMap((method): readonly (readonly [T, T])[] => {
    const key = groupOf(method.device);
    const group: Group = groups.get(key) ?? { all: [], byPlug: new Map() };
    groups.set(key, group);
    const { plug } = method.device.selectors;
    const outlet = plug === undefined ? '' : spelled('plug', plug);
    // An outlet is compared with its like and with those that name none; else a large device would be slow.
    const before = outlet === '' ? group.all : [...(group.byPlug.get(outlet) ?? []), ...(group.byPlug.get('') ?? [])];
    const first = before.find(({ node, device }) => node !== method.node && isSame(device, method.device));
    group.all.push(method);
    group.byPlug.set(outlet, [...(group.byPlug.get(outlet) ?? []), method]);
    return first === undefined ? [] : [[first, method]];
  });
}

export const dependsOnNode = ({ selectors }: Device): boolean =>
  Object.values(selectors).some((value) => value.includes(NODE));

/** The node whose default method would be this device; null: there can be none. */
export function nodeWithDevice(byDefault: Device, listed: Device): string | null {
  if (groupOf(byDefault) !== groupOf(listed) && !groupOf(byDefault).includes(NODE)) return null;
  let node: string | null = null;
  for (const [name, pattern] of Object.entries(byDefault.selectors)) {
    const value = listed.selectors[name];
    if (value === undefined || !pattern.includes(NODE)) continue;
    const parts = spelled(name, pattern)
      .split(NODE)
      .map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'));
    const shaped = new RegExp(`^${parts[0]}(.+)${parts.slice(1).join('\\1')}$`);
    const found = shaped.exec(spelled(name, value))?.[1];
    if (found === undefined || (node !== null && node !== found)) return null;
    node = found;
  }
  if (node === null || !isDnsName(node)) return null;
  const named = Object.entries(byDefault.selectors).map(
    ([name, value]) => [name, value.replaceAll(NODE, node)] as const,
  );
  return isSame({ ...byDefault, selectors: Object.fromEntries(named) }, listed) ? node : null;
}

/** Whether two methods of the default could be one device for two nodes, as `{node}` and `{node}-b` could. */
export function mayCoincide(a: Device, b: Device): boolean {
  if (a.agent !== b.agent || SELECTORS.every((name) => a.selectors[name] === b.selectors[name])) return false;
  return SELECTORS.every((name) => {
    const [one, other] = [a.selectors[name], b.selectors[name]];
    return one === undefined || other === undefined || mayBeEqual(spelled(name, one), spelled(name, other));
  });
}

function mayBeEqual(a: string, b: string): boolean {
  if (!a.includes(NODE) && !b.includes(NODE)) return a === b;
  const ends = (text: string) => {
    const parts = text.split(NODE);
    return parts.length === 1 ? { head: text, tail: text } : { head: parts[0] ?? '', tail: parts.at(-1) ?? '' };
  };
  const [one, other] = [ends(a), ends(b)];
  const heads = one.head.startsWith(other.head) || other.head.startsWith(one.head);
  return heads && (one.tail.endsWith(other.tail) || other.tail.endsWith(one.tail));
}
