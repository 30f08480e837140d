import type { DecisionId } from '../core/decision.ts';
import { type DiskPaths, pathOf, type RuntimePaths, runtimeRootOf } from '../core/disk-paths.ts';
import type { Observation } from '../core/observation.ts';
import { podName } from '../core/pod/pod.ts';
import { known, type MonoMs, type Reading, unknown, valueOrNull } from '../core/reading.ts';
import {
  type FileSystemRole,
  fileSystemOf,
  isDisk,
  realFileSystem,
  SIGNAL_FACTS,
  type Signal,
} from '../core/signal.ts';
import type { Verdict } from '../core/verdict.ts';
import type { DiskWalker, SurveyedDirectory } from '../host/disk/disk-walk.ts';
import { mountPointOf, readMounts } from '../host/disk/mounts.ts';
import type { SharedMemory } from '../host/memory/shared-memory.ts';
import type { BoundPod, Clock, Findings } from '../ports.ts';
import { whatFills, whatFillsId } from '../words/finding-eviction.ts';
import {
  type NoRelief,
  type Stopped,
  sayFilledDisk,
  sayFilledMemory,
  sayNoRelief,
  sayReadOnly,
  sayUser,
} from '../words/what-fills.ts';

type WhatFillsNeeds = DiskPaths & {
  readonly mode: 'standalone' | 'kubelet';
  readonly clock: Clock;
  readonly findings: Findings;
  readonly walker: Pick<DiskWalker, 'survey'>;
  readonly sharedMemory: (leastBytes: number) => Promise<Reading<SharedMemory>>;
  readonly pods: () => Reading<readonly BoundPod[]>;
  readonly userName: (uid: number) => string | null;
  /** Nothing can be removed on the signal's file system. */
  readonly isReadOnly: (signal: Signal) => boolean;
  /** As in Mode, both. */
  readonly latePaths?: () => Reading<RuntimePaths>;
  readonly podsShared?: () => Reading<number>;
};

/** A walk of the whole file system may take a minute of a quarter of a core. */
const AGAIN_MS = 60_000;
/** The share of the used space from which a directory is reported. */
const SHARE = 1 / 20;
const MEMORY_SHARE = 1 / 50;
/** ext4 keeps a twentieth for root, which counts as used. */
const NAMELESS_SHARE = 1 / 8;
/** A file system whose files were written by pods may have a few of others. */
const MOSTLY = 0.9;
const LEAST = { bytes: 1024 * 1024, inodes: 100 };
const VICTIMS_KEPT = 16;

type Topic = {
  readonly signal: Signal;
  why: NoRelief;
  /** A pod is being evicted for it, so that it is not said that none may be. */
  isHidden: boolean;
  found: string | null;
  /** When its last search began. */
  beganMs: MonoMs | null;
  isSearching: boolean;
};

/**
 * D14 and D15: if evictions cannot help, or did not help enough, a person has to. Searches beside the loop for what fills the
 * file system or holds memory without a process, and keeps a finding until the threshold is no longer met.
 */
export function createWhatFills(needs: WhatFillsNeeds): (observation: Observation, verdict: Verdict) => void {
  const { clock, findings } = needs;
  const topics = new Map<Signal, Topic>();
  /** Only what is needed is kept: a decision among 1,000 pods takes half a MiB. */
  const victims = new Map<DecisionId, Stopped>();
  /** A search takes long, and meanwhile more is known of the pods. */
  let latest: Observation | null = null;

  const search = async (topic: Topic, observation: Observation): Promise<void> => {
    topic.isSearching = true;
    topic.beganMs = clock.monoMs();
    const said = isDisk(topic.signal)
      ? await sayDisk(needs, topic.signal, observation, () => latest ?? observation)
      : await sayMemory(needs, topic.signal, observation);
    topic.isSearching = false;
    if (said === null || topics.get(topic.signal) !== topic) return;
    topic.found = said;
    tell(topic);
  };
  const tell = ({ signal, why, isHidden, found }: Topic): void => {
    if (found === null || isHidden) return;
    findings.raise(whatFills(signal, sayNoRelief(signal, why), found));
  };

  return (observation, verdict) => {
    latest = topics.size > 0 ? observation : null;
    if (verdict.reasons.length + verdict.decisions.length + topics.size === 0) return;
    for (const decision of verdict.decisions) {
      if (decision.kind === 'evict')
        victims.set(decision.id, { pod: podName(decision.victim), signal: decision.threshold.signal });
      const [oldest] = victims.keys();
      if (victims.size > VICTIMS_KEPT && oldest !== undefined) victims.delete(oldest);
    }
    const met = new Set(
      verdict.reasons.flatMap((reason) => (reason.code === 'below-threshold' ? [reason.threshold.signal] : [])),
    );
    for (const [signal, why] of inVain(verdict, victims)) {
      met.add(signal);
      const topic: Topic = topics.get(signal) ?? { signal, why, isHidden: false, ...NOT_SEARCHED };
      topics.set(signal, topic);
      // That a pod was stopped in vain remains true.
      const isNews = why !== topic.why && (typeof why !== 'string' || typeof topic.why === 'string');
      if (isNews || topic.isHidden) {
        Object.assign(topic, { why: isNews ? why : topic.why, isHidden: false });
        tell(topic);
      }
      const isDue = topic.beganMs === null || clock.monoMs() - topic.beganMs >= AGAIN_MS;
      if (isDue && !topic.isSearching) void search(topic, observation);
    }
    for (const signal of topics.keys()) {
      if (met.has(signal)) continue;
      topics.delete(signal);
      findings.clear(whatFillsId(signal));
    }
    for (const decision of verdict.decisions) {
      const topic = decision.kind === 'evict' ? topics.get(decision.threshold.signal) : undefined;
      if (topic === undefined || typeof topic.why !== 'string') continue;
      topic.isHidden = true;
      findings.clear(whatFillsId(topic.signal));
    }
  };
}

const NOT_COUNTED = unknown('not-applicable', 'the memory of all pods', 'the mode does not say');
const NOT_SEARCHED = { found: null, beganMs: null, isSearching: false } as const;
const NOBODY_BECAUSE = { 'evict-for': 'nobody', 'no-relief': 'too-little', escaped: 'held' } as const;

/** The signals that no eviction relieves now. */
function inVain({ reasons }: Verdict, victims: ReadonlyMap<DecisionId, Stopped>): ReadonlyMap<Signal, NoRelief> {
  const signals = new Map<Signal, NoRelief>();
  for (const reason of reasons) {
    if (reason.code === 'clean-up-wait') {
      // What is still being emptied is not in vain yet.
      if (reason.isEmptying === undefined) signals.set(reason.signal, victims.get(reason.eviction) ?? 'stopped');
    } else if (reason.code === 'no-candidate') {
      const { because = 'evict-for' } = reason;
      if (because !== 'awaited' && because !== 'manifest-unread') signals.set(reason.signal, NOBODY_BECAUSE[because]);
    } else if (reason.code === 'order-unproven' && isDisk(reason.signal)) signals.set(reason.signal, 'too-little');
  }
  for (const signal of signals.keys()) {
    if (!isDisk(signal) && SIGNAL_FACTS[signal].resource !== 'memory') signals.delete(signal);
  }
  return signals;
}

async function sayDisk(
  needs: WhatFillsNeeds,
  signal: Signal,
  observation: Observation,
  latest: () => Observation,
): Promise<string | null> {
  const { walker, nodefsPath } = needs;
  const sample = observation.signals[signal];
  if (!sample.known) return null;
  const layout = observation.fsLayout;
  const role = fileSystemOf(signal);
  const late = needs.latePaths?.();
  const own = role === 'nodefs' || role === null ? known(nodefsPath) : pathOf(role, needs, late);
  if (!own.known) return null;
  const real = (of: FileSystemRole) => realFileSystem(of, layout.known ? layout.value : 'nodefs-only');
  const alias = real('containerfs');
  const paths = { nodefs: nodefsPath, imagefs: valueOrNull(pathOf('imagefs', needs, late)) ?? nodefsPath };
  const path = own.value ?? paths[role === 'containerfs' ? alias : 'imagefs'];
  const mounts = readMounts();
  const by = SIGNAL_FACTS[signal].unit === 'inodes' ? 'inodes' : 'bytes';
  const used = sample.value.capacity - sample.value.available;
  const root = mounts.known ? mountPointOf(path, mounts.value) : path;
  if (needs.isReadOnly(signal)) return sayReadOnly(root);
  const found = await walker.survey(root, by, Math.max(LEAST[by], used * SHARE));
  if (!found.known) return null;
  const { directories, elsewhere, isComplete } = found.value;
  const nameless = used - [...directories, elsewhere].reduce((sum, of) => sum + of[by], 0);
  const isMuch = isComplete && nameless >= Math.max(LEAST[by], used * NAMELESS_SHARE);
  const filling = directories.map((directory) => ({
    ...directory,
    owner: sayOwner(needs, directory),
    runtimeRoot: runtimeRootOf(directory.path, late),
  }));
  return sayFilledDisk({ root, runtimeRoot: runtimeRootOf(root, late), mode: needs.mode }, by, {
    ...found.value,
    directories: filling,
    nameless: isMuch ? nameless : null,
    // Images may be on another file system than what containers have written.
    largestLayer: real(role ?? 'nodefs') === alias ? largestLayer(latest(), by) : null,
  });
}

function largestLayer({ pods }: Observation, by: 'bytes' | 'inodes') {
  const layers = (valueOrNull(pods) ?? []).flatMap((pod) => {
    const { disk } = pod.usage;
    return disk.known ? [{ pod: podName(pod), bytes: disk.value.rootfsBytes, inodes: disk.value.rootfsInodes }] : [];
  });
  const largest = layers.toSorted((a, b) => b[by] - a[by])[0];
  return largest !== undefined && largest[by] >= LEAST[by] ? largest : null;
}

/** The pods that declare it. A directory inside another pod's is that of the pod that declares it. */
function ownersOf(path: string, bound: readonly BoundPod[]): readonly string[] {
  const isIn = (directory: string): boolean => path === directory || path.startsWith(`${directory}/`);
  const declared = bound.flatMap((pod) =>
    (pod.directories ?? []).filter(isIn).map((directory) => ({ pod: podName(pod.declared), depth: directory.length })),
  );
  const deepest = Math.max(...declared.map(({ depth }) => depth));
  return declared.filter(({ depth }) => depth === deepest).map(({ pod }) => pod);
}

function sayOwner({ pods, userName }: WhatFillsNeeds, { path, uid }: SurveyedDirectory): string {
  const owners = ownersOf(path, valueOrNull(pods()) ?? []);
  const user = sayUser(uid, userName(uid));
  if (owners.length === 0) return user;
  return `directory of ${owners.length === 1 ? 'pod' : 'pods'} ${owners.join(', ')}, ${user}`;
}

async function sayMemory(
  { sharedMemory, userName, pods, podsShared }: WhatFillsNeeds,
  signal: Signal,
  { signals }: Observation,
): Promise<string | null> {
  const sample = signals[signal];
  if (!sample.known) return null;
  const found = await sharedMemory(Math.max(LEAST.bytes, sample.value.capacity * MEMORY_SHARE));
  if (!found.known) return null;
  const owned = <T extends { readonly uid: number }>(of: T) => ({ ...of, owner: sayUser(of.uid, userName(of.uid)) });
  const bound = valueOrNull(pods()) ?? [];
  const podOf = (path: string): string | undefined => {
    const pod = bound.find(({ declared }) => path.includes(`/pods/${declared.uid}/`));
    return pod === undefined ? ownersOf(path, bound)[0] : podName(pod.declared);
  };
  // What is larger than all that is used belongs to others, if the pods have a limit of their own.
  const used = sample.value.capacity - sample.value.available;
  const mounts = found.value.mounts
    .filter(({ usedBytes }) => usedBytes <= used)
    .map((mount) => ({ ...mount, pod: podOf(mount.path), files: mount.files.map(owned) }));
  // Nor is what was written outside the pods: no more than is charged to them beside their volumes.
  const shared = signal === 'allocatableMemory.available' ? valueOrNull(podsShared?.() ?? NOT_COUNTED) : null;
  const ofVolumes = mounts.reduce((sum, { pod, usedBytes }) => (pod === undefined ? sum : sum + usedBytes), 0);
  const mayCount = (bytes: number): boolean => shared === null || bytes * MOSTLY <= shared - ofVolumes;
  return sayFilledMemory(
    mounts.filter(({ pod, usedBytes }) => pod !== undefined || mayCount(usedBytes)),
    found.value.segments.filter(({ bytes }) => mayCount(bytes)).map(owned),
  );
}
