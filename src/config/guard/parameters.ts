import type { Reading } from '../../core/reading.ts';
import { sayNotAmong } from '../../document/check.ts';
import { nearestName } from '../../document/nearest.ts';
import type { AgentMetadata, AgentParameter } from './agent-metadata.ts';
import { isSecret, refusal } from './agents.ts';
import { addressFault, isSelector } from './device.ts';
import { plainName, type Texts } from './method.ts';

/** What is known of the agents that a configuration names. */
export type MetadataOf = (agent: string) => Reading<AgentMetadata>;

/** Names that agents had before, when their metadata cannot be asked. */
const OLD_NAMES: { readonly [old: string]: string } = { ipaddr: 'ip', port: 'plug', login: 'username' };
const SECRETS = ['password', 'passwd', 'snmp_priv_passwd', 'community', 'secret_key', 'apikey', 'token'];

const inFile = (name: string): string =>
  `is a secret: put it in a file of secretDirectory, and name the file under secrets, as {${name}: FILE}`;

/** What is wrong with one entry of `parameters`; null: nothing, as far as is known. */
export function parameterFault(
  agent: string,
  [name, value]: readonly [string, string],
  metadata: Reading<AgentMetadata>,
): string | null {
  const refused = refusal(agent, name, value);
  if (refused !== null) return refused;
  if (isSecret(name)) return inFile(name === 'passwd' ? 'password' : name);
  const oldName = renamed(name, metadata);
  if (oldName !== null) return `is the old name of ${oldName}; say ${oldName}`;
  if (plainName(name) === 'plug' && value.split(',').length > 1) return ONE_OUTLET;
  const address = name === 'ip' ? addressFault(value) : null;
  if (address !== null) return address;
  return metadata.known ? typeFault(agent, name, value, metadata.value) : misspelt(name);
}
/** Measured with fence_apc_snmp and fence_ipdu of 4.12.1: of "1,2" they ask and switch outlet 1 twice. */
const ONE_OUTLET =
  'one outlet in a method: some agents ask and switch only the first, and none sees one that is wired elsewhere; write one method for each, in one level';

/** What is wrong with the name of one entry of `secrets`. */
export function secretFault(agent: string, name: string, metadata: Reading<AgentMetadata>): string | null {
  if (isSelector(plainName(name))) return 'chooses the device: write it under parameters';
  const refused = refusal(agent, name, '');
  if (refused !== null) return refused;
  const current = name === 'passwd' ? 'password' : renamed(name, metadata);
  if (current !== null) return `is the old name of ${current}; say ${current}`;
  return metadata.known && parameterOf(metadata.value, name) === undefined
    ? unknownName(agent, name, metadata.value, '')
    : null;
}

function parameterOf({ parameters }: AgentMetadata, name: string): AgentParameter | undefined {
  return parameters.find((parameter) => plainName(parameter.name) === plainName(name));
}

function renamed(name: string, metadata: Reading<AgentMetadata>): string | null {
  if (!metadata.known) return Object.hasOwn(OLD_NAMES, name) ? (OLD_NAMES[name] ?? null) : null;
  const plain = plainName(name);
  const isOld = parameterOf(metadata.value, name)?.isOld ?? false;
  const newer = metadata.value.parameters.find(
    ({ oldName, isOld }) => !isOld && oldName !== null && plainName(oldName) === plain,
  );
  // Some were only spelt with a dash.
  return isOld && newer !== undefined && plainName(newer.name) !== plain ? newer.name : null;
}

function unknownName(agent: string, name: string, metadata: AgentMetadata, prefix: string): string {
  const names = metadata.parameters.filter(({ isOld }) => !isOld).map((parameter) => parameter.name);
  const nearest = nearestName(name, names);
  const then = nearest !== null && isSecret(nearest) && prefix !== '' ? ` then: ${prefix}${nearest}` : '';
  return `${agent} has no such parameter${nearest === null ? '' : `; did you mean ${nearest}?${then}`}`;
}

function misspelt(name: string): string | null {
  const nearest = nearestName(name, SECRETS);
  return nearest === null ? null : `did you mean ${nearest}? It ${inFile(nearest)}`;
}

const FLAGS = ['1', 'yes', 'on', 'true', '0', 'no', 'off', 'false'];

/** An agent silently ignores a flag that is none, and ends on other values that it cannot read. */
function typeFault(agent: string, name: string, value: string, metadata: AgentMetadata): string | null {
  const parameter = parameterOf(metadata, name);
  if (parameter === undefined) return unknownName(agent, name, metadata, 'secrets.');
  const { type, options } = parameter;
  if (type === 'boolean')
    return FLAGS.includes(value.toLowerCase()) ? null : `must be "1" or "0", not ${JSON.stringify(value)}`;
  if (type === 'select' && options.length > 0) return options.includes(value) ? null : sayNotAmong(options, value);
  const isWhole = type === 'integer' || type === 'second';
  return isWhole && !/^[0-9]+$/.test(value) ? `must be a whole number, not ${JSON.stringify(value)}` : null;
}

/** Parameters that the agent demands and this call does not have. */
export function missingParameters(metadata: Reading<AgentMetadata>, given: Texts): readonly string[] {
  if (!metadata.known) return [];
  return metadata.value.parameters
    .filter(
      ({ name, isRequired, isOld }) =>
        isRequired && !isOld && name !== 'action' && !Object.hasOwn(given, plainName(name)),
    )
    .map(({ name }) => name);
}

const NEEDED_ACTIONS = ['on', 'off', 'status'];

/** Actions without which the agent cannot be used. */
export function missingActions(metadata: Reading<AgentMetadata>): readonly string[] {
  return metadata.known ? NEEDED_ACTIONS.filter((action) => !metadata.value.actions.includes(action)) : [];
}
