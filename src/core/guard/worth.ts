import { known, type MonoMs, type Reading, unknown } from '../reading.ts';
import type { Frees } from './decision.ts';
import type { Attachment, AttachmentsByNode, Dated, GuardObservation, PodOnNode } from './observation.ts';

/** What is asked of suspects is believed for this long. */
export const FRESH_MS = 30_000;

/** The value, if it was read at `sinceMs` or later. */
export function readSince<T>(reading: Reading<Dated<T>>, sinceMs: MonoMs, where: string): Reading<T> {
  if (!reading.known) return reading;
  const { value, asOfMs } = reading.value;
  return asOfMs >= sinceMs ? known(value) : unknown('stale', where, 'read too long ago');
}

type Node = { readonly uid: string; readonly name: string };
type Asked = Pick<GuardObservation, 'asked' | 'attachments'>;

/** guard.md 6.4: what Kubernetes will not replace while the node is silent, as read at `sinceMs` or later. */
export const freesOf = (node: Node, asked: Asked, sinceMs: MonoMs): Reading<Frees> =>
  onNode(node, asked, sinceMs, isStuck);

/** What must be gone before the taint has done its work (guard.md 9.2). */
export const leftOf = (node: Node, asked: Asked, sinceMs: MonoMs): Reading<Frees> =>
  onNode(node, asked, sinceMs, isToGo);

/** What is on it, whatever it tolerates. */
export const presentOn = (node: Node, asked: Asked, sinceMs: MonoMs): Reading<Frees> =>
  onNode(node, asked, sinceMs, isPresent);

function onNode(
  { uid, name }: Node,
  { asked, attachments }: Asked,
  sinceMs: MonoMs,
  isMeant: (pod: PodOnNode) => boolean,
): Reading<Frees> {
  const notAsked = unknown('not-asked', 'pods', 'of this node');
  const pods = readSince(asked.get(uid)?.pods ?? notAsked, sinceMs, 'pods');
  if (!pods.known) return pods;
  const attached = readSince(attachments, sinceMs, 'volumeattachments');
  if (!attached.known) return attached;
  return known({ pods: pods.value.filter(isMeant), attachments: attached.value.get(name) ?? [] });
}

/** One that has finished is replaced without any help, unless somebody waits for its deletion. */
const isPresent = ({ isFinished, isTerminating }: PodOnNode): boolean => isTerminating || !isFinished;

const isToGo = (pod: PodOnNode): boolean => !pod.toleratesTaint && isPresent(pod);

/** Nobody else would free it. */
export function isStuck(pod: PodOnNode): boolean {
  const { isTerminating, hasAttachedVolume, ownerKind } = pod;
  return isToGo(pod) && (isTerminating || hasAttachedVolume || ownerKind === 'StatefulSet');
}

export const isNothing = ({ pods, attachments }: Frees): boolean => pods.length === 0 && attachments.length === 0;

export function attachmentsByNode(all: readonly Attachment[]): AttachmentsByNode {
  const byNode = new Map<string, Attachment[]>();
  for (const attachment of all) {
    const ofNode = byNode.get(attachment.node);
    if (ofNode === undefined) byNode.set(attachment.node, [attachment]);
    else ofNode.push(attachment);
  }
  return byNode;
}
