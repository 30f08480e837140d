import { countPods } from './phrases.ts';

/** What `nodewarden doctor` says beside a kubelet. */

export const NO_KUBECONFIG =
  'mode kubelet needs credentials: use a NodewardenConfiguration with kubernetes.kubeconfig, and kubeletConfig for the file of the kubelet';
export const kubeconfigRead = 'credentials for the API server can be used';
export const apiAway = (why: string): string =>
  `the API server does not answer (${why}): pods are stopped by their cgroups alone, and nobody is told`;
export const apiAnswers = (node: string): string => `the API server answers for node ${node}`;
export const rightsThere = 'the agent has all rights of /usr/share/nodewarden/kubernetes';
export const agentFirst = 'the kubelet reaches no threshold before the agent';
export const strictBudget = (namespace: string, name: string, pods: number): string =>
  `the disruption budget ${namespace}/${name} allows no eviction, even while all of its ${countPods(pods)} are healthy: a soft threshold evicts none of them. Add replicas or relax the budget`;
export const budgetsAllow = 'no disruption budget refuses every eviction';
export const taintLeft = (taint: string): string =>
  `the agent does not run, and its taint ${taint} is left on the node: no new pods come`;
export const cordonLeft = (node: string): string =>
  `the agent does not run, and node ${node} is still cordoned by a shutdown of it: kubectl uncordon ${node}, or start the agent`;
