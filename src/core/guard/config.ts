/**
 * What the guard's decisions need of its configuration (guard.md section 4), as data: durations in milliseconds, shares
 * from 0 to 1. How a method is carried out, with which parameters and secrets, is not the core's business.
 */
export type GuardConfig = {
  /** Decide and report, but change nothing. */
  readonly dryRun: boolean;
  /** A node may be fenced if its labels meet all of them; none: every node. Control-plane nodes also need `controlPlane`. */
  readonly nodes: readonly LabelRequirement[];
  readonly controlPlane: 'never' | 'oneAtATime';
  /** Each label is a division of the nodes into failure domains of its own. */
  readonly domainLabels: readonly string[];
  /** Age of the last sign of life. The lease's own duration counts instead where it is longer. */
  readonly suspectAfterMs: number;
  /** At least 60,000, and at least 30,000 more than `suspectAfterMs`. */
  readonly deadAfterMs: number;
  /** `needed`: only nodes with pods or volumes that nobody else would free. */
  readonly fenceWhen: 'needed' | 'always';
  /** What a kubelet that still answers does to a fencing. */
  readonly kubeletAnswers: 'hold' | 'ignore';
  /** Nothing new for this long after start, election, return of the API, or a clock jump. */
  readonly settleMs: number;
  /** How long a node may stay silent after it announced a shutdown. */
  readonly plannedWaitMs: number;
  /** `ignore`: also fence nodes that carry the mark of another fencer. */
  readonly otherOwner: 'respect' | 'ignore';
  readonly storm: StormLimits;
  readonly rate: RateLimits;
  readonly recovery: Recovery;
  /** How long after the taint pods and attachments may remain before a machine that is not left off is powered on. */
  readonly drainWaitMs: number;
  /** How often the devices of healthy nodes are asked for their status, and at most how many a minute. Null: never. */
  readonly patrol: { readonly everyMs: number; readonly maxPerMinute: number } | null;
  /** Whether a node whose wiring was never rehearsed may not be fenced. */
  readonly requireRehearsal: boolean;
  /** The time limit for one run of a fence agent. */
  readonly deadlineMs: number;
  /** By node name; a plan without levels: never fenced. Read with `planOf`. */
  readonly plans: { readonly [node: string]: NodePlan };
  /** For nodes not in `plans`; each key contains `{node}`. Null: such nodes have no method and are never fenced. */
  readonly defaultPlan: NodePlan | null;
  /** The uids of nodes with an open fencing, of which a device is called otherwise by now, though its key is the same. */
  readonly outdated?: readonly string[];
};

/** As in a Kubernetes label selector; `values` is empty for `Exists` and `DoesNotExist`. */
export type LabelRequirement = {
  readonly key: string;
  readonly operator: 'In' | 'NotIn' | 'Exists' | 'DoesNotExist';
  readonly values: readonly string[];
};

/** Exceeding any of them holds every fencing in its scope (guard.md section 6.3). */
export type StormLimits = {
  /** Of the counted nodes; if more of them are suspect, it is a storm. */
  readonly maxUnhealthyShare: number;
  /** A domain is partially disrupted from this share of its nodes on. */
  readonly domainShare: number;
  /** If this many nodes fall silent within this time of each other, they have one cause. */
  readonly burst: { readonly nodes: number; readonly withinMs: number };
  readonly coolDownMs: number;
};

export type RateLimits = {
  readonly minIntervalMs: number;
  readonly maxPerHour: number;
  /** Fencings decided but not yet drained. */
  readonly maxInFlight: number;
};

export type Recovery = {
  /** False: a fenced machine stays off. */
  readonly powerOn: boolean;
  /** From power on until Ready. */
  readonly bootTimeMs: number;
  /** How long Ready must last. */
  readonly stableForMs: number;
  /** The maximum number of `on` commands in one fencing. */
  readonly attempts: number;
  /** After this many fencings in 24 hours, the next one leaves the machine off. */
  readonly perNodePerDay: number;
};

/** Names one device and outlet, such as `bmc ip=10.0.9.10`. Unique, opaque to the core, and never a secret. */
export type MethodKey = string;

export type NodePlan = {
  /** Fabric methods: cut first, best effort, never a proof. */
  readonly isolation: readonly MethodKey[];
  /** Tried in order. All methods of one level together prove that the machine is off. */
  readonly levels: readonly (readonly MethodKey[])[];
  /**
   * Those of its levels whose `on` says that the machine itself runs: that of an outlet says only that it is fed. Undefined: not
   * known, or there is but one level.
   */
  readonly ofMachine?: readonly MethodKey[];
};

/** Stands for the name of the node in methods of the default plan. */
export const NODE_PLACEHOLDER = '{node}';
/** RFC 1123 subdomain, as Kubernetes requires of a node's name. */
const DNS_NAME = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;
const MAX_DNS_NAME = 253;

export function isDnsName(name: string): boolean {
  return name.length <= MAX_DNS_NAME && DNS_NAME.test(name);
}

/** The text with the node's name for each `{node}`; null if the name is not one that may be substituted. */
export function withNodeName(text: string, node: string): string | null {
  if (!text.includes(NODE_PLACEHOLDER)) return text;
  return isDnsName(node) ? text.replaceAll(NODE_PLACEHOLDER, node) : null;
}

/** How a node is fenced. Null: it has no method, or its name may not be substituted into the default plan. */
export function planOf({ plans, defaultPlan }: Plans, node: string): NodePlan | null {
  const listed = Object.hasOwn(plans, node) ? plans[node] : undefined;
  if (listed !== undefined) return listed.levels.length === 0 ? null : listed;
  if (defaultPlan === null || !isDnsName(node)) return null;
  const named = (keys: readonly MethodKey[]): readonly MethodKey[] =>
    keys.map((key) => key.replaceAll(NODE_PLACEHOLDER, node));
  const { isolation, levels, ofMachine } = defaultPlan;
  const plan = { isolation: named(isolation), levels: levels.map(named) };
  return ofMachine === undefined ? plan : { ...plan, ofMachine: named(ofMachine) };
}
type Plans = Pick<GuardConfig, 'plans' | 'defaultPlan'>;

/** Every method of a plan, isolation first. */
export function keysOf({ isolation, levels }: NodePlan): readonly MethodKey[] {
  return [...isolation, ...levels.flat()];
}

/** Whether labels meet every requirement, as in a Kubernetes label selector. */
export function meets(labels: Labels, requirements: readonly LabelRequirement[]): boolean {
  return requirements.every((requirement) => meetsOne(labels, requirement));
}
type Labels = { readonly [key: string]: string };

function meetsOne(labels: Labels, { key, operator, values }: LabelRequirement): boolean {
  const value = Object.hasOwn(labels, key) ? labels[key] : undefined;
  switch (operator) {
    case 'In':
      return value !== undefined && values.includes(value);
    case 'NotIn':
      return value === undefined || !values.includes(value);
    case 'Exists':
      return value !== undefined;
    case 'DoesNotExist':
      return value === undefined;
  }
}
