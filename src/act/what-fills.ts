import type { DecisionId } from '../core/decision.ts';
import { escapeUnsafe } from '../core/escape.ts';
import type { Observation } from '../core/observation.ts';
import { sayBytes } from '../core/quantity.ts';
import type { MonoMs, Reading } from '../core/reading.ts';
import { isDisk, SIGNAL_FACTS, type Signal } from '../core/signal.ts';
import type { Verdict } from '../core/verdict.ts';
import type { DiskSurvey, DiskWalker, SurveyedDirectory } from '../host/disk-walk.ts';
import { mountPointOf, readMounts } from '../host/mounts.ts';
import type { SharedMemory } from '../host/shared-memory.ts';
import type { BoundPod, Clock, Findings } from '../ports.ts';

export type WhatFillsNeeds = {
  readonly clock: Clock;
  readonly findings: Findings;
  readonly walker: Pick<DiskWalker, 'survey'>;
  readonly sharedMemory: (leastBytes: number) => Promise<Reading<SharedMemory>>;
  readonly pods: () => Reading<readonly BoundPod[]>;
  readonly userName: (uid: number) => string | null;
  readonly nodefsPath: string;
  readonly imagefsPath: string | null;
  readonly containerfsPath: string | null;
};

/** A walk of the whole file system may take a minute of a quarter of a core. */
const AGAIN_MS = 60_000;
/** Told are directories with so much of what is used. */
const SHARE = 1 / 20;
const MEMORY_SHARE = 1 / 50;
const LEAST = { bytes: 1024 * 1024, inodes: 100 };
const TOLD = 5;
const VICTIMS_KEPT = 16;

type Topic = {
  readonly signal: Signal;
  /** Who was stopped for it in vain; null: nobody. */
  victim: string | null;
  found: string | null;
  /** When the last look at it began. */
  beganMs: MonoMs | null;
  isLooking: boolean;
};

/**
 * D14 and D15: where an end helps nothing, or did not help enough, people have to. What fills the file system, or holds
 * memory without a process, is looked for beside the loop, and is a finding until the threshold is no longer met.
 */
export function createWhatFills(needs: WhatFillsNeeds): (observation: Observation, verdict: Verdict) => void {
  const { clock, findings } = needs;
  const topics = new Map<Signal, Topic>();
  const victims = new Map<DecisionId, string>();

  const look = async (topic: Topic, observation: Observation): Promise<void> => {
    topic.isLooking = true;
    topic.beganMs = clock.monoMs();
    const said = isDisk(topic.signal)
      ? await sayDisk(needs, topic.signal, observation)
      : await sayMemory(needs, topic.signal, observation);
    topic.isLooking = false;
    if (said === null || topics.get(topic.signal) !== topic) return;
    topic.found = said;
    tell(topic);
  };
  const tell = ({ signal, victim, found }: Topic): void => {
    if (found === null) return;
    const nobody = isDisk(signal) ? 'the end of no pod is known to free enough' : 'no pod may be evicted';
    const why = victim === null ? nobody : `${victim} was stopped, and that was not enough`;
    findings.raise({ id: idOf(signal), text: `${signal}: ${why}. ${found}` });
  };

  return (observation, verdict) => {
    if (verdict.reasons.length + verdict.decisions.length + topics.size === 0) return;
    for (const decision of verdict.decisions) {
      if (decision.kind === 'evict') victims.set(decision.id, `${decision.victim.namespace}/${decision.victim.name}`);
      const [oldest] = victims.keys();
      if (victims.size > VICTIMS_KEPT && oldest !== undefined) victims.delete(oldest);
    }
    const met = new Set(
      verdict.reasons.flatMap((reason) => (reason.code === 'below-threshold' ? [reason.threshold.signal] : [])),
    );
    for (const [signal, victim] of inVain(verdict, victims)) {
      met.add(signal);
      const topic = topics.get(signal) ?? { signal, victim, found: null, beganMs: null, isLooking: false };
      topics.set(signal, topic);
      if (victim !== null && victim !== topic.victim) {
        topic.victim = victim;
        tell(topic);
      }
      const isDue = topic.beganMs === null || clock.monoMs() - topic.beganMs >= AGAIN_MS;
      if (isDue && !topic.isLooking) void look(topic, observation);
    }
    for (const signal of topics.keys()) {
      if (met.has(signal)) continue;
      topics.delete(signal);
      findings.clear(idOf(signal));
    }
  };
}

const idOf = (signal: Signal): string => `what-fills/${signal}`;

/** The signals that no eviction helps now, each with whom it cost. */
function inVain({ reasons }: Verdict, victims: ReadonlyMap<DecisionId, string>): ReadonlyMap<Signal, string | null> {
  const signals = new Map<Signal, string | null>();
  for (const reason of reasons) {
    if (reason.code === 'clean-up-wait') signals.set(reason.signal, victims.get(reason.eviction) ?? null);
    else if (reason.code === 'no-candidate' || reason.code === 'order-unproven') signals.set(reason.signal, null);
  }
  for (const signal of signals.keys()) {
    if (!isDisk(signal) && SIGNAL_FACTS[signal].resource !== 'memory') signals.delete(signal);
  }
  return signals;
}

async function sayDisk(needs: WhatFillsNeeds, signal: Signal, observation: Observation): Promise<string | null> {
  const { walker, nodefsPath, imagefsPath, containerfsPath } = needs;
  const sample = observation.signals[signal];
  if (!sample.known) return null;
  const layout = observation.fsLayout;
  const imagefs = imagefsPath ?? nodefsPath;
  const alias = layout.known && layout.value === 'imagefs-separate' ? imagefs : nodefsPath;
  const path = signal.startsWith('nodefs')
    ? nodefsPath
    : signal.startsWith('imagefs')
      ? imagefs
      : (containerfsPath ?? alias);
  const mounts = readMounts();
  const by = signal.endsWith('.inodesFree') ? 'inodes' : 'bytes';
  const used = sample.value.capacity - sample.value.available;
  const root = mounts.known ? mountPointOf(path, mounts.value) : path;
  const found = await walker.survey(root, by, Math.max(LEAST[by], used * SHARE));
  if (!found.known) return null;
  return escapeUnsafe(sayFilled(needs, { root, by, survey: found.value }));
}

function sayFilled(
  needs: WhatFillsNeeds,
  { root, by, survey }: { readonly root: string; readonly by: 'bytes' | 'inodes'; readonly survey: DiskSurvey },
): string {
  const { directories, elsewhere, isComplete } = survey;
  const amount = (of: SurveyedDirectory): string => (by === 'bytes' ? sayBytes(of.bytes) : `${of.inodes} inodes`);
  const told = directories.toSorted((a, b) => b[by] - a[by]).slice(0, TOLD);
  const places = told.map((of) => `${amount(of)} in ${sayPath(of.path)} (${sayOwner(needs, of)})`);
  const rest = `${amount(elsewhere)} in other places`;
  const part = isComplete ? '' : ', as far as it was counted';
  return `The file system at ${sayPath(root)} holds ${[...places, rest].join(', ')}${part}. Delete or move what is not needed, or make it larger; what may go with a pod is declared as nodewarden.dev/scratch`;
}

function sayOwner({ pods, userName }: WhatFillsNeeds, { path, uid }: SurveyedDirectory): string {
  const bound = pods();
  const isIn = (directory: string): boolean => path === directory || path.startsWith(`${directory}/`);
  const pod = bound.known ? bound.value.find(({ directories = [] }) => directories.some(isIn)) : undefined;
  const user = sayUser(userName, uid);
  return pod === undefined ? user : `of pod ${pod.declared.namespace}/${pod.declared.name}, ${user}`;
}

function sayUser(userName: WhatFillsNeeds['userName'], uid: number): string {
  const name = userName(uid);
  return name === null ? `uid ${uid}` : `user ${name}`;
}

async function sayMemory(
  { sharedMemory, userName }: WhatFillsNeeds,
  signal: Signal,
  { signals }: Observation,
): Promise<string | null> {
  const sample = signals[signal];
  if (!sample.known) return null;
  const found = await sharedMemory(Math.max(LEAST.bytes, sample.value.capacity * MEMORY_SHARE));
  if (!found.known) return null;
  const { mounts, segments } = found.value;
  const files = mounts.map(({ path, usedBytes, files: largest }) => {
    const those = largest.map(
      (file) => `${sayBytes(file.bytes)} in ${sayPath(file.path)}, ${sayUser(userName, file.uid)}`,
    );
    return `the tmpfs at ${sayPath(path)} with ${sayBytes(usedBytes)}${those.length === 0 ? '' : ` (${those.join('; ')})`}`;
  });
  const shared = segments.map(
    ({ id, bytes, uid }) =>
      `the SysV segment ${id} with ${sayBytes(bytes)} (${sayUser(userName, uid)}; ipcrm -m ${id} removes it)`,
  );
  if (files.length + shared.length === 0) return null;
  return escapeUnsafe(
    `Memory that outlives the processes that filled it: ${[...files, ...shared].join(', ')}. Delete the files that are not needed`,
  );
}

/** Its owner chooses the name: what could be read as a part of the sentence is quoted. */
const sayPath = (path: string): string => (/^[\w./@:+-]+$/.test(path) ? path : JSON.stringify(path));
