import type { Reading } from '../core/reading.ts';
import { isDenied } from '../host/file-error.ts';
import * as say from '../words/doctor-kube.ts';
import { API_AWAY, API_CREDENTIALS, API_REFUSED, credentialsUnusable, PODS_NOT_LISTED } from '../words/finding-api.ts';
import { CORDON_KEPT, OUT_OF_SERVICE } from '../words/finding-kube.ts';
import { NOT_OUR_NODE } from '../words/finding-writes.ts';
import {
  agentSays,
  type Check,
  type Found,
  fine,
  found,
  foundOr,
  foundOrUnknown,
  NOT_APPLICABLE,
  notHereOrUnknown,
  type Result,
  unknownBecause,
} from './check.ts';
import type { Facts, KubeFacts } from './facts.ts';

type Judge = (kube: KubeFacts, facts: Facts) => Result | readonly Result[];
const ofKube =
  (judge: Judge) =>
  (facts: Facts): ReturnType<Judge> => {
    const { kube } = facts;
    if (kube.known) return judge(kube.value, facts);
    return notHereOrUnknown(kube);
  };
/** For checks that need an answering API server: if it does not answer, one finding is enough. */
const ofNode = (judge: Judge) =>
  ofKube((kube, facts) => (kube.credentials.known && kube.node.known ? judge(kube, facts) : NOT_APPLICABLE));

const UNCORDON = 'kubectl uncordon <node>';
const DESCRIBE = 'kubectl describe node <node>';
const AWAY = [API_AWAY, API_REFUSED];
const BUDGETS = ['budget-refuses/'];
const FIRSTS = ['kubelet-first/'];
const RIGHTS = ['api-right/', PODS_NOT_LISTED];

/** The agent and this command may find the same, in the same words: it is reported once. */
const merged = (all: readonly Found[]): readonly Found[] =>
  all.filter(({ text }, i) => all.findIndex((one) => one.text === text) === i);

function orUnknown<T>(reading: Reading<T>, judge: (value: T) => Result): Result {
  return reading.known ? judge(reading.value) : unknownBecause(reading);
}

export const KUBELET = {
  'kubeconfig-unusable': {
    weight: 'blocking',
    asks: 'whether the credentials for the API server can be used',
    mend: 'nodewarden config show',
    takes: [API_CREDENTIALS],
    judge: ofKube(({ credentials }, facts) => {
      const { effective } = facts;
      const said = agentSays(facts, [API_CREDENTIALS]);
      if (said.length > 0) return found(...said);
      if (credentials.known) return fine(say.kubeconfigRead);
      if (isDenied(credentials)) return unknownBecause(credentials);
      if (effective.known && effective.value.kubernetes === null) return found({ text: say.NO_KUBECONFIG });
      return found({ text: credentialsUnusable(credentials.where, credentials.detail, false).text });
    }),
  },
  'api-unreachable': {
    weight: 'warning',
    asks: 'whether the API server answers',
    mend: 'kubectl --kubeconfig <kubeconfig> get node <node>',
    takes: AWAY,
    judge: ofKube(({ credentials, node, nodeName }, facts) => {
      if (!credentials.known) return NOT_APPLICABLE;
      const { effective } = facts;
      const kubeconfig = effective.known ? (effective.value.kubernetes?.kubeconfig ?? '') : '';
      const fill = { kubeconfig, node: nodeName };
      const said = agentSays(facts, AWAY).map((one) => ({ ...one, fill }));
      if (said.length > 0) return found(...said);
      return node.known ? fine(say.apiAnswers(nodeName)) : found({ text: say.apiAway(node.detail), fill });
    }),
  },
  'not-our-node': {
    weight: 'blocking',
    asks: 'whether the node of this name is this machine',
    mend: 'kubectl get node <node> -o jsonpath={.status.nodeInfo.bootID}',
    takes: [NOT_OUR_NODE],
    judge: ofNode(({ node, nodeName }) =>
      orUnknown(node, (finding) =>
        finding === null ? NOT_APPLICABLE : found({ text: finding.text, fill: { node: nodeName } }),
      ),
    ),
  },
  'rbac-missing': {
    weight: 'warning',
    asks: 'whether the agent has all rights',
    mend: "sed 's/NODE_NAME/<node>/g' /usr/share/nodewarden/kubernetes/rbac-per-node.yaml | kubectl apply -f /usr/share/nodewarden/kubernetes/rbac.yaml -f -",
    takes: RIGHTS,
    judge: ofNode(({ rights: { missing, unread }, nodeName }, facts) => {
      const said = [...missing, ...agentSays(facts, RIGHTS)];
      const all = merged(said.map(({ text }) => ({ text, fill: { node: nodeName } })));
      return foundOrUnknown(all, unread === null ? [] : [unread], fine(say.rightsThere));
    }),
  },
  'kubelet-first': {
    weight: 'warning',
    asks: 'whether the kubelet evicts first',
    mend: 'nodewarden config show',
    takes: FIRSTS,
    judge: ofKube(({ firsts }, facts) => {
      const { agent, effective, unread } = facts;
      const here = firsts.known && !agent.status.known ? firsts.value : [];
      const said = [...agentSays(facts, FIRSTS), ...here.map(({ text }) => ({ text }))];
      const missing = [
        ...(firsts.known ? [] : [firsts]),
        ...unread.filter(({ code }) => code === 'config-warning').map(({ why }) => why),
      ];
      if (said.length > 0) return found(...said);
      // With another formula the thresholds cannot be compared, which is a warning of the configuration.
      const isSameFormula = effective.known && effective.value.memoryAvailable === 'workingSet';
      return foundOrUnknown([], missing, isSameFormula ? fine(say.agentFirst) : NOT_APPLICABLE);
    }),
  },
  'budget-refuses': {
    weight: 'warning',
    asks: 'whether a disruption budget refuses every eviction',
    mend: 'kubectl get pdb --all-namespaces',
    takes: BUDGETS,
    judge: ofNode(({ budgets }, facts) => {
      const said = agentSays(facts, BUDGETS);
      if (!budgets.known) return said.length > 0 ? found(...said) : unknownBecause(budgets);
      const strict = budgets.value.map(({ namespace, name, pods }) => ({
        text: say.strictBudget(namespace, name, pods),
      }));
      return foundOr([...strict, ...said], fine(say.budgetsAllow));
    }),
  },
  'out-of-service-taint': {
    weight: 'warning',
    asks: 'whether the node is marked out of service',
    mend: 'kubectl taint node <node> node.kubernetes.io/out-of-service-',
    takes: [OUT_OF_SERVICE],
    judge: ofNode(({ outOfService, nodeName }) =>
      outOfService === null ? NOT_APPLICABLE : found({ text: outOfService.text, fill: { node: nodeName } }),
    ),
  },
  'taints-left': {
    weight: 'warning',
    asks: 'whether taints or a cordon of the agent are left',
    mend: 'kubectl taint node <node> <taint>-',
    takes: [CORDON_KEPT],
    judge: ofNode(({ taints, isCordonKept, nodeName }, facts) => {
      const { isRunning, status } = facts.agent;
      // A running agent removes those that no longer apply.
      if (isRunning === true)
        return foundOr(
          agentSays(facts, [CORDON_KEPT]).map((one) => ({ ...one, mend: DESCRIBE, fill: { node: nodeName } })),
          NOT_APPLICABLE,
        );
      if (isRunning === null && !status.known) return unknownBecause(status);
      const left = taints.map((taint) => ({ text: say.taintLeft(taint), fill: { node: nodeName, taint } }));
      const cordon = isCordonKept ? [{ text: say.cordonLeft(nodeName), mend: UNCORDON, fill: { node: nodeName } }] : [];
      return foundOr([...left, ...cordon], NOT_APPLICABLE);
    }),
  },
} satisfies { readonly [code: string]: Check };
