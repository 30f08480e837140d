// The admission policies of config/kubernetes on an API server that has them.
import { type Asked, ask, type KubeObject, MERGE, NODE, PODS } from './api.ts';
import { AGENT_USER, hasAdmissionPolicies, minorVersion, NODE_NAME } from './cluster.ts';
import { barePod, type PodSpec } from './manifests.ts';
import type { KubeScene } from './scene.ts';

export const whyNoPolicies = (): string | null =>
  hasAdmissionPolicies() ? null : `Kubernetes 1.${minorVersion()} has no ValidatingAdmissionPolicy; 1.30 has`;

type Write = Omit<Asked, 'as'> & { readonly place: string };
/** Sends each write as that user, whose rights allow all of them. Returns those that did not go as they should. */
export async function notAsWanted(
  as: NonNullable<Asked['as']>,
  writes: {
    readonly refused: { readonly [what: string]: Write };
    readonly allowed: { readonly [what: string]: Write };
  },
): Promise<readonly string[]> {
  const wrong: string[] = [];
  for (const [what, { place, ...write }] of Object.entries(writes.refused)) {
    const answer = await ask(place, { ...write, as }).then(
      () => 'accepted',
      (error: Error) => error.message,
    );
    if (!answer.includes('ValidatingAdmissionPolicy')) wrong.push(`${what} is not refused by the policy: ${answer}`);
  }
  for (const [what, { place, ...write }] of Object.entries(writes.allowed)) {
    await ask(place, { ...write, as }).catch((error: Error) => wrong.push(`${what} is refused: ${error.message}`));
  }
  return wrong;
}

const OTHER = 'other-node';
const SMALL: PodSpec = { name: 'small', load: ['hold=8'], requestMiB: 16 };
export const patch = (place: string, body: object): Write => ({ place, method: 'PATCH', type: MERGE, body });
export const taints = (node: string, ...more: readonly object[]): Write =>
  patch(node, { spec: { taints: more.length === 0 ? null : more } });
export const condition = (node: string, type: string): Write => ({
  ...patch(`${node}/status`, { status: { conditions: [{ type, status: 'False' }] } }),
  type: 'application/strategic-merge-patch+json',
});
const remove = (pod: KubeObject, gracePeriodSeconds: number, uid = pod.metadata.uid): Write => ({
  place: `${PODS}/${pod.metadata.name}`,
  method: 'DELETE',
  body: { gracePeriodSeconds, ...(uid === '' ? {} : { preconditions: { uid } }) },
});
const event = (component: string, kind: string, name: string): Write => ({
  place: '/api/v1/namespaces/default/events',
  method: 'POST',
  body: {
    metadata: { generateName: 'lab-' },
    involvedObject: { kind, name, ...(kind === 'Pod' ? { namespace: 'default' } : {}) },
    ...{ reason: 'Evicted', message: 'lab', type: 'Warning', reportingComponent: component, reportingInstance: 'lab' },
    ...{ firstTimestamp: new Date().toISOString(), lastTimestamp: new Date().toISOString(), count: 1 },
  },
});

const policy: KubeScene = {
  name: 'the admission policy refuses what an agent never sends, whatever its rights',
  missing: whyNoPolicies,
  config: ['evictionHard: { memory.available: "200Mi" }'],
  culprits: ['small'],
  isJudgedByBody: true,
  body: async (scene) => {
    await ask('/api/v1/nodes', { method: 'POST', body: { kind: 'Node', apiVersion: 'v1', metadata: { name: OTHER } } });
    try {
      await scene.create(barePod(SMALL));
      const [own] = await scene.ready(SMALL.name);
      if (own === undefined) throw new Error('no pod');
      const spec = { nodeName: OTHER, containers: [{ name: 'app', image: 'lab/pause:1' }] };
      const foreign = await ask(PODS, {
        method: 'POST',
        body: { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'foreign' }, spec },
      });
      const other = `/api/v1/nodes/${OTHER}`;
      const wrong = await notAsWanted(
        { user: AGENT_USER, group: 'nodewarden:nodes' },
        {
          refused: {
            'the deletion of a pod on another node': remove(foreign, 1),
            'a deletion without the uid': remove(own, 1, ''),
            'a deletion without grace': remove(own, 0),
            'a label of its pod': patch(`${PODS}/${SMALL.name}`, { metadata: { labels: { hostile: 'yes' } } }),
            'the phase of its pod': patch(`${PODS}/${SMALL.name}/status`, { status: { phase: 'Failed' } }),
            'an eviction without the uid': {
              place: `${PODS}/${SMALL.name}/eviction`,
              method: 'POST',
              body: { apiVersion: 'policy/v1', kind: 'Eviction', metadata: { name: SMALL.name } },
            },
            'a label of its node': patch(NODE, { metadata: { labels: { hostile: 'yes' } } }),
            'a cordon without the annotation': patch(NODE, { spec: { unschedulable: true } }),
            'a foreign taint': taints(NODE, { key: 'hostile', effect: 'NoSchedule' }),
            'an own taint that evicts': taints(NODE, { key: 'nodewarden.dev/disk-pressure', effect: 'NoExecute' }),
            "the kubelet's condition": condition(NODE, 'Ready'),
            'a taint of another node': taints(other, { key: 'nodewarden.dev/disk-pressure', effect: 'NoSchedule' }),
            'a condition of another node': condition(other, 'NodewardenLastBoot'),
            'a node': {
              place: '/api/v1/nodes',
              method: 'POST',
              body: { apiVersion: 'v1', kind: 'Node', metadata: { name: 'made-up' } },
            },
            'the deletion of its node': { place: NODE, method: 'DELETE' },
            'an event in the name of the kubelet': event('kubelet', 'Pod', SMALL.name),
            'an event about another node': event('nodewarden.dev/agent', 'Node', OTHER),
          },
          allowed: {
            'an own taint': taints(NODE, { key: 'nodewarden.dev/disk-pressure', effect: 'NoSchedule' }),
            'its removal': taints(NODE),
            'an own condition': condition(NODE, 'NodewardenLabTest'),
            'an event about its node': event('nodewarden.dev/agent', 'Node', NODE_NAME),
            'the deletion of its pod': remove(own, 1),
          },
        },
      );
      if (wrong.length > 0) throw new Error(wrong.join('; '));
      return '17 writes refused, 5 allowed';
    } finally {
      await ask(`/api/v1/nodes/${OTHER}`, { method: 'DELETE' }).catch(() => undefined);
      await ask(`${PODS}/foreign`, { method: 'DELETE', body: { gracePeriodSeconds: 0 } }).catch(() => undefined);
    }
  },
};

export const admissionScenes: readonly KubeScene[] = [policy];
