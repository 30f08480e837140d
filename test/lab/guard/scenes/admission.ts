// The admission policy of the guard, under which every scene runs where the API server has it.
import { condition, notAsWanted, patch, taints, whyNoPolicies } from '../../kube/admission.ts';
import { ask } from '../../kube/api.ts';
import { until } from '../../scene.ts';
import type { Lab, LabScene } from '../lab.ts';

const NAME = 'policed';
const NODE = `/api/v1/nodes/${NAME}`;
const GUARD = { user: 'system:serviceaccount:nodewarden-guard:nodewarden-guard', group: 'nodewarden:guards' };
const FENCED = { key: 'nodewarden.dev/fenced', effect: 'NoSchedule', value: 'f-1' };
const OUT = { key: 'node.kubernetes.io/out-of-service', effect: 'NoExecute' };
/** A policy takes effect some seconds after it was applied. */
const EFFECTIVE_MS = 30_000;

async function body(lab: Lab): Promise<void> {
  const why = whyNoPolicies();
  if (why !== null) return lab.skip('admission-policy', why);
  await ask('/api/v1/nodes', { method: 'POST', body: { apiVersion: 'v1', kind: 'Node', metadata: { name: NAME } } });
  try {
    const label = patch(NODE, { metadata: { labels: { hostile: 'yes' } } });
    const wrongOf = () => notAsWanted(GUARD, { refused: { 'a label': label }, allowed: {} });
    await until('the policy is in effect', async () => (await wrongOf()).length === 0 || null, EFFECTIVE_MS);
    const wrong = await notAsWanted(GUARD, {
      refused: {
        'a label of a node': label,
        'a cordon': patch(NODE, { spec: { unschedulable: true } }),
        'a foreign taint': taints(NODE, { key: 'hostile', effect: 'NoSchedule' }),
        'an out-of-service taint without its value': taints(NODE, { ...OUT, value: 'nodeshutdown' }),
        'the taint fenced with another effect': taints(NODE, { ...FENCED, effect: 'NoExecute' }),
        "the kubelet's condition": condition(NODE, 'Ready'),
        'a node': {
          place: '/api/v1/nodes',
          method: 'POST',
          body: { apiVersion: 'v1', kind: 'Node', metadata: { name: 'made-up' } },
        },
        'the deletion of a node': { place: NODE, method: 'DELETE' },
      },
      allowed: {
        'its taints': taints(NODE, FENCED, { ...OUT, value: 'nodewarden.f-1' }),
        'their removal': taints(NODE),
        'its condition': condition(NODE, 'NodewardenFenced'),
      },
    });
    lab.check(
      'it refuses what a guard never sends, whatever its rights, and nothing else',
      wrong.length === 0,
      wrong.join('; '),
    );
  } finally {
    await ask(NODE, { method: 'DELETE' }).catch(() => undefined);
  }
}

export const ADMISSION: readonly LabScene[] = [
  { name: 'the admission policy refuses what a guard never sends', point: 0, body },
];
