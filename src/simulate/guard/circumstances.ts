import type { GuardConfig } from '../../core/guard/config.ts';
import { isControlPlane } from '../../core/guard/node-facts.ts';
import type { MonoMs } from '../../core/reading.ts';
import type { GuardName, NodeName } from './facts.ts';
import type { GuardScenario, ScenarioNode } from './scenario.ts';

/** What the invariants must know of a scenario beside its facts. */
export type Circumstances = {
  readonly config: GuardConfig;
  /** Between two renewals of a lease. */
  readonly leaseEveryMs: number;
  /** Counted in a share: never planned, left alone, excluded or labelled anew. */
  readonly workers: Counted;
  /** The same of nodes that are labelled to be counted apart. */
  readonly apart: Counted;
  /** What is no control plane, whatever else is said of it, by each of the domain labels and its values. */
  readonly domains: readonly Counted[];
  readonly controlPlane: ReadonlySet<NodeName>;
  /** By guard: the node it runs on. */
  readonly homes: ReadonlyMap<GuardName, NodeName>;
  readonly untilMs: MonoMs;
};
/** `most`: with those that were among them for a time. Limits are shares of at most so many. */
export type Counted = { readonly nodes: ReadonlySet<NodeName>; readonly most: number };

/** guard.md 6.3, said again here: what is checked does not say what is right. */
const APART = 'node.kubernetes.io/exclude-disruption';
const EXCLUDED = 'remediation.medik8s.io/exclude-from-remediation';
const EXCLUDING: readonly string[] = ['announce', 'annotate', 'label', 'taint', 'cordon', 'deleteNode'];

export function circumstancesOf(scenario: GuardScenario): Circumstances {
  const { nodes, guards, config, world, untilMs } = scenario;
  const touched = namedBy(scenario, EXCLUDING);
  const relabelled = namedBy(scenario, ['label']);
  const counted = (isOne: (node: ScenarioNode) => boolean, unless: ReadonlySet<NodeName>): Counted => ({
    nodes: new Set(nodes.filter((node) => isOne(node) && !unless.has(node.name)).map(({ name }) => name)),
    most: nodes.filter((node) => isOne(node) || relabelled.has(node.name)).length,
  });
  const domainsBy = (label: string): readonly Counted[] => {
    const values = new Set(nodes.map(({ labels }) => labels[label] ?? ''));
    return [...values].map((value) =>
      counted(({ labels }) => !isControlPlane(labels) && (labels[label] ?? '') === value, relabelled),
    );
  };
  return {
    config,
    leaseEveryMs: world.leaseEvery,
    workers: counted(({ labels }) => isWorker(labels) && !Object.hasOwn(labels, APART), touched),
    apart: counted(({ labels }) => isWorker(labels) && Object.hasOwn(labels, APART), touched),
    domains: config.domainLabels.flatMap(domainsBy),
    controlPlane: new Set(nodes.filter(({ labels }) => isControlPlane(labels)).map(({ name }) => name)),
    homes: new Map(guards.flatMap(({ name, on }) => (on === null ? [] : [[name, on] as const]))),
    untilMs,
  };
}

const isWorker = (labels: ScenarioNode['labels']): boolean => !isControlPlane(labels) && labels[EXCLUDED] !== 'true';

function namedBy({ events }: GuardScenario, kinds: readonly string[]): ReadonlySet<NodeName> {
  return new Set(
    events.flatMap((event) => (kinds.includes(event.kind) && 'nodes' in event ? (event.nodes ?? []) : [])),
  );
}
