import { parseDuration } from '../units/duration.ts';
import type { NodeObject, Taint } from './observation.ts';

/** What a Node object says that has a meaning here: derived once for each version of it. */
export type NodeFacts = {
  readonly isControlPlane: boolean;
  readonly isReady: boolean;
  /** A token of the kubelet's own heartbeat; null: the last word is the controller's, and no sign of life. */
  readonly readyToken: string | null;
  /** The same of the node agent's conditions; '' if there are none. */
  readonly ownToken: string;
  /** Its machine is going down in order, as it or an update operator says. */
  readonly announced: Announcement | null;
  /** It asks to be left alone: for this long since it was first seen, Infinity for as long as it asks; null: it does not. */
  readonly skipMs: number | null;
  /** Never fenced: another controller's label. */
  readonly isExcluded: boolean;
  /** It wants no part in what is said of the others; it may be fenced all the same. */
  readonly isCountedApart: boolean;
  /** Who else fences or removes it; null: nobody. */
  readonly owner: string | null;
  /** It is about to be removed. */
  readonly leaving: string | null;
  /** Ids of the fencings whose mark it carries. */
  readonly outOfServiceBy: string | null;
  readonly fencedBy: string | null;
  /** The value of an out-of-service taint that is not ours. */
  readonly foreignOutOfService: string | null;
};
export type Announcement = 'agent' | 'kubelet' | 'kured';

export const OUT_OF_SERVICE = 'node.kubernetes.io/out-of-service';
export const FENCED = 'nodewarden.dev/fenced';
/** In front of the fencing's id in the taint's value: it marks the taint as ours (G11). */
export const MARK = 'nodewarden.';

export const CONTROL_PLANE_LABELS = ['node-role.kubernetes.io/control-plane', 'node-role.kubernetes.io/master'];
/** By the first a node is kept out of every fencing, by the second counted apart in a storm. */
export const EXCLUDING_LABELS = [
  'remediation.medik8s.io/exclude-from-remediation',
  'node.kubernetes.io/exclude-disruption',
] as const;
const [EXCLUDED, COUNTED_APART] = EXCLUDING_LABELS;
const LEAVING = 'ToBeDeletedByClusterAutoscaler';
/** Our own condition, which says nothing about the machine. */
const FENCED_CONDITION = 'NodewardenFenced';
const SKIP = /^skip(?: for=(\S+))?$/;

export const isControlPlane = (labels: NodeObject['labels']): boolean =>
  CONTROL_PLANE_LABELS.some((label) => Object.hasOwn(labels, label));

export function factsOf(object: NodeObject): NodeFacts {
  const { labels, annotations, taints, conditions } = object;
  const ready = conditions.find(({ type }) => type === 'Ready');
  const isOwnWord = ready !== undefined && ready.reason !== 'NodeStatusUnknown';
  const own = conditions.filter(({ type }) => type.startsWith('Nodewarden') && type !== FENCED_CONDITION);
  const skipMs = skipOf(annotations['nodewarden.dev/guard']);
  const foreign = taints.find(isForeignOutOfService);
  return {
    isControlPlane: isControlPlane(labels),
    isReady: ready?.status === 'True',
    readyToken: isOwnWord ? ready.heartbeat : null,
    ownToken: own.map(({ type, heartbeat }) => `${type}=${heartbeat}`).join(' '),
    announced: announcedBy(object),
    skipMs,
    isExcluded: labels[EXCLUDED] === 'true',
    isCountedApart: Object.hasOwn(labels, COUNTED_APART),
    owner: ownerOf(object, foreign),
    leaving: leavingOf(object),
    outOfServiceBy: markOf(taints, OUT_OF_SERVICE, MARK),
    fencedBy: markOf(taints, FENCED, ''),
    foreignOutOfService: foreign?.value ?? null,
  };
}

function announcedBy({ conditions, annotations }: NodeObject): Announcement | null {
  const isAgent = conditions.some(
    ({ type, reason }) => type === 'NodewardenShutdownArmed' && reason === 'ShuttingDown',
  );
  if (isAgent) return 'agent';
  const isKubelet = conditions.some(
    ({ type, status, message }) => type === 'Ready' && status === 'False' && message.includes('node is shutting down'),
  );
  if (isKubelet) return 'kubelet';
  return Object.hasOwn(annotations, 'weave.works/kured-reboot-in-progress') ? 'kured' : null;
}

/** A wish that cannot be read counts as one without end: against acting. */
function skipOf(text: string | undefined): number | null {
  if (text === undefined) return null;
  const match = SKIP.exec(text);
  if (match?.[1] === undefined) return Number.POSITIVE_INFINITY;
  const parsed = parseDuration(match[1]);
  return parsed.ok ? parsed.duration.ms : Number.POSITIVE_INFINITY;
}

const isForeignOutOfService = ({ key, value }: Taint): boolean => key === OUT_OF_SERVICE && !value.startsWith(MARK);

/** Of somebody else who fences or removes nodes. */
export const isOfOthers = (taint: Taint): boolean =>
  isForeignOutOfService(taint) || OTHER_FENCERS.test(taint.key) || taint.key === LEAVING;

const OTHER_FENCERS = /^(?:[^/]+\.)?medik8s\.io\//;

function ownerOf({ annotations, taints }: NodeObject, foreign: Taint | undefined): string | null {
  if (Object.hasOwn(annotations, 'cluster.x-k8s.io/machine')) return 'cluster.x-k8s.io/machine';
  const other = taints.find(({ key }) => OTHER_FENCERS.test(key));
  return other?.key ?? foreign?.key ?? null;
}

function leavingOf({ taints, isDeleting }: NodeObject): string | null {
  if (isDeleting) return 'deletionTimestamp';
  return taints.find(({ key }) => key === LEAVING)?.key ?? null;
}

function markOf(taints: readonly Taint[], wanted: string, prefix: string): string | null {
  const ours = taints.find(({ key, value }) => key === wanted && value.startsWith(prefix));
  return ours === undefined ? null : ours.value.slice(prefix.length);
}
