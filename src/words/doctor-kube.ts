import { countPods } from './phrases.ts';

/** What `nodewarden doctor` says beside a kubelet. */

export const NO_KUBECONFIG =
  'mode kubelet needs credentials: use a NodewardenConfiguration with kubernetes.kubeconfig, and kubeletConfig for the file of the kubelet';
export const kubeconfigRead = 'the credentials for the API server are usable';
export const apiAway = (why: string): string =>
  `the API server does not answer (${why}): pods are stopped only by their cgroups, and nothing is reported to the API`;
export const apiAnswers = (node: string): string => `the API server answers for node ${node}`;
export const rightsThere = 'the agent has all rights of /usr/share/nodewarden/kubernetes';
export const agentFirst = 'the kubelet reaches no threshold before the agent';
export const strictBudget = (namespace: string, name: string, pods: number): string =>
  `the disruption budget ${namespace}/${name} allows no eviction, even while all of its ${countPods(pods)} are healthy: a soft threshold evicts none of them. Add replicas or relax the budget`;
export const budgetsAllow = 'no disruption budget refuses every eviction';
export const taintLeft = (taint: string): string =>
  `the agent is not running, but its taint ${taint} is still on the node and keeps new pods away`;
export const cordonLeft = (node: string): string =>
  `the agent is not running, but a shutdown of it left node ${node} cordoned: kubectl uncordon ${node}, or start the agent`;
