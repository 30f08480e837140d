import { IN_TIME_MS } from '../core/guard/devices.ts';
import { sayTenths } from '../core/units/duration.ts';
import { sayNames } from './phrases.ts';

/** What `guard check` finds, and what to do about it. */
export type CheckFinding = {
  readonly kind: 'blocking' | 'warning';
  readonly code: string;
  readonly text: string;
  /** What to do; null: the text says it. */
  readonly mend: string | null;
};
type Attributes = {
  readonly verb: string;
  readonly group: string;
  readonly resource: string;
  readonly subresource?: string;
  readonly name?: string;
};
type Right = {
  readonly attributes: Attributes;
  readonly where: string;
  readonly isForArmed: boolean;
  readonly isAllowed: boolean | null;
  readonly said: string;
};
type Device = {
  readonly node: string;
  readonly level: number | null;
  readonly method: string;
  readonly agent: string;
  readonly says: string;
  readonly detail: string;
  readonly tookMs: number;
  readonly exposedTo: readonly string[];
  readonly isNodeReady: boolean;
  readonly contradicted: { readonly why: string } | null;
};

const blocking = (code: string, text: string, mend: string | null = null): CheckFinding => ({
  kind: 'blocking',
  code,
  text,
  mend,
});
const warning = (code: string, text: string, mend: string | null = null): CheckFinding => ({
  kind: 'warning',
  code,
  text,
  mend,
});

export const notAnswered = (kubeconfig: string, detail: string): CheckFinding =>
  blocking('api', `the API server does not answer with ${kubeconfig}: ${detail}`);

export const nodesUnlisted = (detail: string): CheckFinding =>
  blocking('nodes', `the nodes cannot be listed: ${detail}`);

/** `version` null: the server does not say it. */
export function taintUnsupported(version: string | null): CheckFinding {
  const text =
    version === null
      ? 'the API server does not say its version: whether Kubernetes frees pods and volumes of a node that is out of service is unknown'
      : `Kubernetes ${version} frees no pods and volumes of a node that is out of service (1.26 and later do): the guard would fence in vain`;
  const mend = 'if the feature gate NodeOutOfServiceVolumeDetach was switched on, set kubernetes.outOfService: assume';
  return blocking('out-of-service', text, mend);
}

export const noSuchNode = (name: string): CheckFinding =>
  blocking('no-such-node', `${name} is not a node of this cluster`);

export function listedButAbsent(names: readonly string[]): readonly CheckFinding[] {
  if (names.length === 0) return [];
  return [warning('not-in-cluster', `fencing.nodes lists nodes that this cluster does not have: ${sayNames(names)}`)];
}

export function noMethod(names: readonly string[]): readonly CheckFinding[] {
  if (names.length === 0) return [];
  const text = `nodes that may be fenced have no method, and never will be: ${sayNames(names)}`;
  return [warning('no-method', text, 'add them to fencing.nodes, or leave them out by nodes')];
}

/** A missing right that only an armed guard needs does not stop a dry run. */
export function rightFindings(
  { needed, tooMuch }: { readonly needed: readonly Right[]; readonly tooMuch: readonly Attributes[] },
  isDryRun: boolean,
): readonly CheckFinding[] {
  const missing = needed
    .filter(({ isAllowed }) => isAllowed === false)
    .map(({ attributes, where, isForArmed }) => {
      const say = isDryRun && isForArmed ? warning : blocking;
      const then = isDryRun && isForArmed ? ', which it needs once it is armed' : '';
      return say('right', `the guard may not ${sayRight(attributes)}${then}`, `in ${where}: ${ruleOf(attributes)}`);
    });
  const unknown = needed.filter(({ isAllowed }) => isAllowed === null);
  const [first] = unknown;
  return [
    ...missing,
    ...(first === undefined
      ? []
      : [warning('right-unknown', `whether the guard has its rights is unknown: ${first.said}`)]),
    ...tooMuch.map((attributes) =>
      warning('right-too-much', `the guard may ${sayRight(attributes)}, which it never does: take that right from it`),
    ),
  ];
}

const sayRight = ({ verb, resource, subresource, name }: Attributes): string =>
  `${verb} ${resource}${subresource === undefined ? '' : `/${subresource}`}${name === undefined ? '' : ` ${name}`}`;

function ruleOf({ verb, group, resource, subresource, name }: Attributes): string {
  const what = subresource === undefined ? resource : `${resource}/${subresource}`;
  const names = name === undefined ? '' : `, resourceNames: [${name}]`;
  return `- { apiGroups: ['${group}'], resources: [${what}]${names}, verbs: [${verb}] }`;
}

export const keptUnknown = (detail: string): CheckFinding =>
  blocking(
    'kept',
    `what the guard remembers of its devices, and holds against them, is not known: ${detail}`,
    'as long as guard-devices cannot be read, the guard fences nobody',
  );

export function deviceFindings(devices: readonly Device[]): readonly CheckFinding[] {
  return [...devices.flatMap(deviceFinding), ...exposures(devices)];
}

function deviceFinding({
  node,
  level,
  method,
  says,
  detail,
  tookMs,
  isNodeReady,
  contradicted,
}: Device): readonly CheckFinding[] {
  if (says === 'unknown') {
    return [
      blocking('device', `${node}: ${method} does not say whether the machine is on: ${detail}`, helperFor(detail)),
    ];
  }
  if (says === 'off' && isNodeReady) {
    const text = `${node}: ${method} says off, but the node is Ready: it is another machine's outlet, or it lies`;
    return [blocking('wrong-device', text, 'find out which machine it switches before anything is fenced')];
  }
  // What is cut first proves nothing, so that nothing waits for its answer.
  if (tookMs > IN_TIME_MS && level !== null) {
    const text = `${node}: ${method} took ${sayTenths(tookMs)} to say whether the machine is on; a proof needs its answer within ${sayTenths(IN_TIME_MS)}, so nothing is switched off by its level`;
    return [
      blocking('slow-device', text, 'find out what keeps it waiting, or use an agent that asks it in another way'),
    ];
  }
  if (contradicted === null) return [];
  const text = `${node}: ${method} has said what could not be true (${contradicted.why}), and is not believed`;
  return [blocking('contradicted', text, 'mend it, then prove it with nodewarden guard rehearse')];
}

/** Programs that agents start and their package does not install. */
const HELPERS: readonly (readonly [says: RegExp, mend: string])[] = [
  [/ipmitool/i, 'apt-get install ipmitool'],
  [/snmp(get|set|walk)/i, 'apt-get install snmp'],
  [/\bssh\b.*(not found|No such file)/i, 'apt-get install openssh-client'],
  [/telnet.*(not found|No such file)/i, 'apt-get install telnet'],
  [/gnutls-cli/i, 'apt-get install gnutls-bin'],
  [/it was not started/i, 'apt-get install fence-agents'],
];
const helperFor = (detail: string): string | null => HELPERS.find(([says]) => says.test(detail))?.[1] ?? null;

/** Once for each agent. */
function exposures(devices: readonly Device[]): readonly CheckFinding[] {
  const byAgent = new Map<string, Set<string>>();
  for (const { agent, exposedTo } of devices) {
    for (const program of exposedTo) byAgent.set(agent, (byAgent.get(agent) ?? new Set()).add(program));
  }
  return [...byAgent].map(([agent, programs]) =>
    warning(
      'secret-shown',
      `${agent} gives a secret to ${sayNames([...programs])} as an argument, where every user of this machine can read it`,
      'use fence_redfish where the device has Redfish, or a machine or a pid namespace for the guard alone',
    ),
  );
}
