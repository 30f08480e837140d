import { EVICT_RESOURCES } from '../../core/pod/evict-for.ts';
import type { ContainerView, PodUid, PodView, Toleration, Unsaid } from '../../core/pod/pod.ts';
import type { MonoMs } from '../../core/reading.ts';
import { type Check, isFlag, isNumber, isOneOf, isText, listOf, optional, orNull, shape } from '../../core/shape.ts';
import { isQuantity } from '../../core/state/read.ts';
import { isUid } from '../../document/pod.ts';
import { writeBeside } from '../../host/files.ts';
import { keepAside, readOwnFile } from '../../host/own/own-file.ts';
import type { Clock, Finding, Findings } from '../../ports.ts';
import { CHECKPOINT, checkpointCut, checkpointNotSaved, checkpointUnusable } from '../../words/finding-api.ts';
import { type ApiPod, DISRUPTION_REASONS, type PodRef } from '../api/api-pod.ts';
import type { PodWatch } from './pod-watch.ts';

/** The pods of this node as last reported by the API server, for a start without it (beside-a-kubelet.md D15). */
type Checkpoint = {
  /** By the kubelet's uid; their resourceVersion is ''. */
  readonly pods: ReadonlyMap<PodUid, ApiPod>;
  /** When they were current, on the clock of that boot. */
  readonly atMs: MonoMs;
  readonly atWallMs: number;
  /**
   * The node had shown the boot id of this boot, so these pods are this machine's (D3). False: no pod is chosen from
   * them.
   */
  readonly isProven: boolean;
};
type CheckpointFile = {
  readonly schema: 1;
  readonly bootId: string;
  /** The node that had shown this boot id when the file was written. Absent: none had. */
  readonly nodeName?: string;
  readonly atMs: MonoMs;
  readonly atWallMs: number;
  readonly pods: readonly ApiPod[];
};
/** The boot and node to which a checkpoint belongs. */
type Origin = { readonly bootId: string; readonly nodeName: string };

export const checkpointPath = (stateDirectory: string): string => `${stateDirectory}/api-pods.json`;
const DEBOUNCE_MS = 1_000;
/** After a write that failed. */
const AGAIN_MS = 10_000;
/** 110 pods need one fortieth of this. */
const MAX_BYTES = 8 * 1024 * 1024;
const MODE = 0o600;

/** Null: none can be used. An unusable one is kept aside and reported as a finding. */
export function loadCheckpoint(
  stateDirectory: string,
  { bootId, nodeName }: Origin,
  clock: Clock,
): { readonly checkpoint: Checkpoint | null; readonly finding: Finding | null } {
  const path = checkpointPath(stateDirectory);
  // Slightly above the limit for writing.
  const found = readOwnFile(path, (value) => (isCheckpoint(value) ? value : null), 2 * MAX_BYTES);
  if (!found.known && found.why === 'absent') return { checkpoint: null, finding: null };
  if (!found.known || found.value === null) {
    const why = found.known ? 'it is no checkpoint of nodewarden' : found.detail;
    const complaint = `${path} cannot be used (${why}): it ${keepAside(path, clock)}`;
    return { checkpoint: null, finding: checkpointUnusable(complaint) };
  }
  const { pods, atMs, atWallMs } = found.value;
  const isProven = bootId !== '' && found.value.bootId === bootId && found.value.nodeName === nodeName;
  const byUid = new Map(pods.map((pod) => [pod.declared.uid, pod]));
  return { checkpoint: { pods: byUid, atMs, atWallMs, isProven }, finding: null };
}

/**
 * Writes the pods one second after the first unwritten change, beside the loop. Call `changed` whenever they change. `pods`
 * is known only if the node has proven to be this machine; `forget`: it has proven not to be. `close` writes what is due
 * and never rejects.
 */
export function keepCheckpoint({
  stateDirectory,
  bootId,
  nodeName,
  clock,
  findings,
  watch,
}: Origin & {
  readonly stateDirectory: string;
  readonly clock: Clock;
  readonly findings: Findings;
  readonly watch: Pick<PodWatch, 'pods' | 'atMs'>;
}): { readonly changed: () => void; readonly forget: () => void; readonly close: () => Promise<void> } {
  const path = checkpointPath(stateDirectory);
  let written = '';
  let isClosed = false;
  let cancel: (() => void) | null = null;
  let writing: Promise<void> = Promise.resolve();

  async function write(): Promise<void> {
    const pods = watch.pods();
    const atMs = watch.atMs();
    if (!pods.known || atMs === null) return;
    const { text, leftOut } = podsText([...pods.value.values()].filter(({ isElsewhere }) => !isElsewhere));
    // The kubelet renews unchanged statuses; these need no write.
    if (text === written) return;
    const atWallMs = clock.wallMs() - (clock.monoMs() - atMs);
    const head = JSON.stringify({ schema: 1, bootId, nodeName, atMs, atWallMs }).slice(0, -1);
    const saved = await writeBeside(path, `${head},"pods":[${text}]}\n`, MODE);
    if (!saved.known) {
      findings.raise(checkpointNotSaved(saved.where, saved.detail));
      if (!isClosed) cancel ??= clock.after(AGAIN_MS, () => void flush());
      return;
    }
    written = text;
    if (leftOut === 0) findings.clear(CHECKPOINT);
    else findings.raise(checkpointCut(leftOut));
  }
  const flush = (): Promise<void> => {
    cancel?.();
    cancel = null;
    writing = writing.then(write);
    return writing;
  };

  return {
    changed: () => {
      cancel ??= clock.after(DEBOUNCE_MS, () => void flush());
    },
    forget: () => {
      written = '';
      const none = { schema: 1, bootId, atMs: clock.monoMs(), atWallMs: clock.wallMs(), pods: [] };
      writing = writing.then(() => writeBeside(path, `${JSON.stringify(none)}\n`, MODE)).then(() => undefined);
    },
    close: () => {
      isClosed = true;
      return cancel === null ? writing : flush();
    },
  };
}

/** Active pods first, so that finished ones are left out first. */
function podsText(pods: readonly ApiPod[]): { readonly text: string; readonly leftOut: number } {
  const isOver = ({ phase }: ApiPod): number => Number(phase === 'Succeeded' || phase === 'Failed');
  const texts: string[] = [];
  let bytes = 0;
  for (const pod of [...pods].sort((a, b) => isOver(a) - isOver(b))) {
    const text = JSON.stringify({ ...pod, resourceVersion: '' });
    bytes += Buffer.byteLength(text) + 1;
    if (bytes > MAX_BYTES) break;
    texts.push(text);
  }
  return { text: texts.join(','), leftOut: pods.length - texts.length };
}

const isAbsent: Check = (value) => value === undefined;
const isContainerId: Check = (value) => isText(value) && /^[0-9a-f]{64}$/.test(value);
const isAmounts = shape<ContainerView['requests']>({
  memory: orNull(isQuantity),
  ephemeralStorage: orNull(isQuantity),
});
const isDeclared = shape<Omit<PodView, 'usage'>>({
  uid: isUid,
  namespace: isText,
  name: isText,
  qos: isOneOf('Guaranteed', 'Burstable', 'BestEffort'),
  priority: isNumber,
  requests: shape<PodView['requests']>({ memoryBytes: isNumber, ephemeralStorageBytes: isNumber }),
  podLevelMemoryRequest: orNull(isQuantity),
  ephemeralStorageLimit: orNull(isQuantity),
  containers: listOf(
    shape<ContainerView>({
      name: isText,
      kind: isOneOf('app', 'init', 'sidecar'),
      requests: isAmounts,
      limits: isAmounts,
    }),
  ),
  volumes: listOf(shape<PodView['volumes'][number]>({ name: isText, sizeLimit: orNull(isQuantity) })),
  tolerations: listOf(shape<Toleration>({ key: isText, operator: isText, value: isText, effect: isText })),
  terminationGraceSeconds: isNumber,
  isGraceDefault: optional(isOneOf(true)),
  startedAtWallMs: orNull(isNumber),
  ownerKey: orNull(isText),
  isDaemonSet: isFlag,
  isStaticCritical: isFlag,
  isProtected: isFlag,
  evictFor: optional(listOf(isOneOf(...EVICT_RESOURCES))),
  isTerminating: isFlag,
  isDeletedByOthers: isAbsent,
  unsaid: optional(shape<Unsaid>({ why: isOneOf('unreadable'), priority: isFlag, requests: isFlag })),
  limitedBy: isOneOf(null),
  // Fields that only standalone mode, the observer and scenarios set.
  boundTo: isAbsent,
  cgroupInode: isAbsent,
  cgroupPath: isAbsent,
  hasSurvived: isAbsent,
  isGuarded: isAbsent,
  inherited: isAbsent,
  takesAlong: isAbsent,
  limitSpares: isAbsent,
  endsMachine: isAbsent,
  stopsAfter: isAbsent,
  stopsAfterUnits: isAbsent,
  diskRelief: isAbsent,
  isBetweenRuns: isAbsent,
  isStalledByOwnLimit: isAbsent,
  leaves: isAbsent,
  traits: optional(listOf(isOneOf('serves-to-the-end', 'uses-volumes', 'csi-plugin'))),
});
const isRestartPolicy = isOneOf('Always', 'OnFailure', 'Never');
const isApiPod = shape<ApiPod>({
  declared: isDeclared,
  object: shape<PodRef>({ namespace: isText, name: isText, uid: isUid }),
  resourceVersion: isOneOf(''),
  phase: isOneOf('Pending', 'Running', 'Succeeded', 'Failed', 'Unknown'),
  isEvictedByKubelet: isFlag,
  evictedWallMs: optional(isNumber),
  isMirror: isFlag,
  readySinceWallMs: optional(isNumber),
  marked: optional(
    shape<NonNullable<ApiPod['marked']>>({ reason: isOneOf(...DISRUPTION_REASONS), sinceWallMs: isNumber }),
  ),
  restartPolicy: isRestartPolicy,
  restarts: optional(
    listOf(
      shape<NonNullable<ApiPod['restarts']>[number]>({
        name: isText,
        policy: optional(isRestartPolicy),
        hasRules: optional(isOneOf(true)),
      }),
    ),
  ),
  owner: orNull(shape<NonNullable<ApiPod['owner']>>({ kind: isText, name: isText, uid: isText })),
  deletionWallMs: orNull(isNumber),
  containers: listOf(
    shape<ApiPod['containers'][number]>({
      name: isText,
      id: orNull(isContainerId),
      ended: optional(isOneOf('succeeded', 'failed')),
    }),
  ),
  isElsewhere: isAbsent,
  bindings: optional(listOf(isText)),
});
const isCheckpoint = shape<CheckpointFile>({
  schema: isOneOf(1),
  bootId: isText,
  nodeName: optional(isText),
  atMs: isNumber,
  atWallMs: isNumber,
  pods: listOf(isApiPod),
});
