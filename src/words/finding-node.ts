import { escapeUnsafe } from '../core/units/escape.ts';
import type { Finding } from '../ports.ts';

/** About the node, as the API server shows it. */

export const OUT_OF_SERVICE = 'node-out-of-service';
export const OUT_OF_SERVICE_TAINT = 'node.kubernetes.io/out-of-service';
/** `value`: of the taint. */
export function outOfService(nodeName: string, value: string): Finding {
  const by = value.startsWith('nodewarden.') ? ', set by nodewarden guard' : '';
  const so =
    'while the node is NotReady its pods are force-deleted and its volumes detached, although they may be in use';
  const todo = `only whoever set it should remove it: kubectl taint node ${nodeName} ${OUT_OF_SERVICE_TAINT}-`;
  return {
    id: OUT_OF_SERVICE,
    text: `the node has the taint ${OUT_OF_SERVICE_TAINT}=${escapeUnsafe(value)}${by}: ${so}; ${todo}`,
  };
}

export const CORDON_KEPT = 'node-cordon-kept';
export const cordonKept = (): Finding => ({
  id: CORDON_KEPT,
  text: 'the node is still cordoned by a shutdown of nodewarden that is over, because an autoscaler is removing the node; it is uncordoned once the autoscaler has taken its taint away',
});
