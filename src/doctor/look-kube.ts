import type { Effective } from '../config/effective.ts';
import { firstsNow } from '../config/kubelet-says.ts';
import { capacityOf, type HostSizes } from '../config/margin.ts';
import { ifKnown, known, type Reading, unknown } from '../core/reading.ts';
import { hostName } from '../host/host-name.ts';
import { reviewRight } from '../kube/api/access-review.ts';
import { readConfigz } from '../kube/api/configz.ts';
import { readCredentials } from '../kube/api/credentials.ts';
import { openConnection } from '../kube/api/open-connection.ts';
import { lookAtNode } from '../kube/api/own-node.ts';
import { CORDONED_BY, OWN_TAINTS } from '../kube/api/write-rules.ts';
import { strictBudgets } from '../kube/stop/disruption-budgets.ts';
import type { Clock, Finding, Findings } from '../ports.ts';
import { kubeletFirst, OUT_OF_SERVICE_TAINT, outOfService } from '../words/finding-kube.ts';
import { API_RIGHTS, notOurNode, rightMissing } from '../words/finding-writes.ts';
import type { KubeFacts } from './facts.ts';

type Needs = {
  readonly clock: Clock;
  readonly effective: Effective;
  readonly bootId: string;
  readonly sizes: HostSizes;
};

const DEADLINE_MS = 3_000;
const NOTHING_HEARD: Findings = { raise: () => undefined, clear: () => undefined, all: () => [] };

/** Beside a kubelet: what the API server answers to the agent's credentials. Sends only queries. */
export async function lookAtKube({ clock, effective, bootId, sizes }: Needs): Promise<KubeFacts> {
  const { kubernetes } = effective;
  if (kubernetes === null) {
    const none = unknown('absent', 'kubernetes.kubeconfig', 'not set');
    return {
      nodeName: '',
      credentials: none,
      node: none,
      taints: [],
      outOfService: null,
      isCordonKept: false,
      rights: { missing: [], unread: none },
      budgets: none,
      firsts: known([]),
    };
  }
  const { kubeconfig } = kubernetes;
  const nodeName = kubernetes.nodeName ?? hostName().toLowerCase();
  const configz = () => readConfigz({ clock, kubeconfig, nodeName, kubeletDirectory: effective.nodefsPath });
  const connection = openConnection({ clock, findings: NOTHING_HEARD, kubeconfig });
  try {
    const [credentials, node, firsts, rights, budgets] = await Promise.all([
      readCredentials(kubeconfig),
      lookAtNode(connection.get, { nodeName, bootId }, DEADLINE_MS),
      firstsNow({ clock, effective, configz }, (signal) => capacityOf(signal, sizes)),
      Promise.all(API_RIGHTS.map((right) => reviewRight(connection, right, nodeName))),
      strictBudgets(connection.get),
    ]);
    const taints = node.kind === 'node' ? node.taints : [];
    const keys = taints.map(({ key }) => String(key));
    const service = taints.find(({ key }) => key === OUT_OF_SERVICE_TAINT);
    return {
      nodeName,
      credentials: credentials.known ? known(true) : credentials,
      node: nodeReading(node),
      taints: OWN_TAINTS.filter((key) => keys.includes(key)),
      outOfService: service === undefined ? null : outOfService(nodeName, String(service['value'] ?? '')),
      isCordonKept: node.kind === 'node' && node.isUnschedulable && node.annotations[CORDONED_BY] !== undefined,
      rights: rightsOf(rights),
      budgets,
      firsts: ifKnown(firsts, (all) => known(all.map(kubeletFirst))),
    };
  } finally {
    connection.close();
  }
}

/** Known with a finding: the node belongs to another machine. */
function nodeReading(node: Awaited<ReturnType<typeof lookAtNode>>): Reading<Finding | null> {
  if (node.kind === 'node') return known(null);
  if (node.kind === 'not-our-node') return known(notOurNode(node.text));
  return unknown('unreadable', 'the API server', node.text);
}

function rightsOf(reviewed: readonly Awaited<ReturnType<typeof reviewRight>>[]): KubeFacts['rights'] {
  const unsaid = reviewed.filter(({ isAllowed }) => isAllowed === null);
  const [first] = unsaid;
  const which = `may ${unsaid.map(({ right }) => right).join(', ')}`;
  return {
    missing: reviewed.flatMap(({ isAllowed, right, said }) => (isAllowed === false ? [rightMissing(right, said)] : [])),
    unread: first === undefined ? null : unknown('unreadable', which, first.said),
  };
}
