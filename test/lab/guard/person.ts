// A person of the lab: a client certificate of their own, and the two roles of those who give orders.
import path from 'node:path';
import { ask } from '../kube/api.ts';
import { RUN } from '../kube/cluster.ts';
import { apiServer, clientCertificate, kubeconfigOf } from './api-proxy.ts';
import { NAMESPACE, type Ran, runProgram } from './guard.ts';

export type Person = {
  /** A command of the guard that takes a kubeconfig; an order has their name and a reason as well. */
  readonly run: (...args: readonly string[]) => Promise<Ran>;
  readonly order: (...args: readonly string[]) => Promise<Ran>;
};

const RBAC = '/apis/rbac.authorization.k8s.io/v1';
const ROLE = 'nodewarden-guard-orders';

export async function aPerson(name: string, { mayOrder = true } = {}): Promise<Person> {
  clientCertificate(name, `/CN=${name}`);
  const kubeconfig = path.join(RUN, `${name}.conf`);
  kubeconfigOf(name, apiServer(), kubeconfig);
  if (mayOrder) {
    await bind(`${RBAC}/clusterrolebindings`, 'ClusterRole', name);
    await bind(`${RBAC}/namespaces/${NAMESPACE}/rolebindings`, 'Role', name);
  }
  const run: Person['run'] = (...args) => runProgram('guard', ...args, '--kubeconfig', kubeconfig);
  return { run, order: (...args) => run(...args, '--by', name, '--because', 'the lab says so') };
}

async function bind(place: string, kind: string, name: string): Promise<void> {
  const apiGroup = 'rbac.authorization.k8s.io';
  const body = {
    metadata: { name: `orders-of-${name}` },
    roleRef: { apiGroup, kind, name: ROLE },
    subjects: [{ apiGroup, kind: 'User', name }],
  };
  await ask(place, { method: 'POST', body }).catch((error: Error) => {
    if (!error.message.includes(': 409 ')) throw error;
  });
}
