import type { ContainerUsage, DiskRelief, DiskUsage, PodView, Relief, VolumeUsage } from '../../core/pod/pod.ts';
import { known, type MonoMs, type Reading, unknown } from '../../core/reading.ts';
import { isObject } from '../../core/shape.ts';
import { forEachSignal, SIGNAL_FACTS, type Signal, type SignalFacts, type SignalSample } from '../../core/signal.ts';
import { type Json, noUsage, type ScenarioPod } from '../scenario.ts';
import { among, count, flag, listOf, readCount, readTime, type Shape, text, theirs, time, whole } from '../shape.ts';
import { LIMITS, recordedOf } from './recorded.ts';

type Signals = { readonly [S in Signal]: Reading<SignalSample> };
type Usage = PodView['usage'];

/** scenarios.md 2.5: what the core sees of a summary whose shape was checked. Reads only what changed, by identity. */
export type StatsReader = {
  /** `fresh`: measured at this look, whatever times the summary names (2.4, a step without stats of its own). */
  readonly signalsOf: (summary: Json, atMs: MonoMs, times: 'named' | 'fresh') => Signals;
  readonly viewsOf: (summary: Json, active: readonly ScenarioPod[]) => readonly PodView[];
};

const ABSENT = unknown('absent', 'summary', 'not there');
const UNMEASURED = unknown('unreadable', 'summary', 'it could not be measured');
const NO_DIRECTORY = unknown('not-applicable', 'disk of the pod', 'it declares no directory');
/** Not a lost source (D5), but one that this node does not have. */
const NEVER_NAMED = unknown('not-applicable', 'summary', 'not in any summary so far');
const NO_SWAP = unknown('not-applicable', 'summary', 'this node has no swap');
const EMPTY: Json = {};
const NO_USAGE = noUsage(ABSENT);
/** For signals without readable stats. */
export const NO_SIGNALS: Signals = forEachSignal(() => ABSENT);

export function createStatsReader(startWallMs: number | null): StatsReader {
  const numbers = createNumbers();
  const named = new Set<Signal>();
  const usages = createUsages(numbers);
  const seen = new WeakMap<ScenarioPod, { readonly entry: Json | null; readonly view: PodView }>();
  let entries = createEntries([]);
  let last: { readonly active: readonly ScenarioPod[]; readonly views: readonly PodView[] } | null = null;

  const viewOf = (pod: ScenarioPod): PodView => {
    const entry = entries.of(pod);
    const before = seen.get(pod);
    if (before !== undefined && before.entry === entry) return before.view;
    const used = withUsage(pod.declared, entry === null ? NO_USAGE : usages.of(entry, pod));
    const relief = sectionIn(entry, 'diskRelief');
    const view: PodView = {
      ...used,
      ...(relief === null ? {} : { diskRelief: known(reliefOf(relief, numbers)) }),
      ...(entry === null ? {} : recordedOf(entry)),
    };
    seen.set(pod, { entry, view });
    return view;
  };
  return {
    signalsOf: (summary, atMs, times) => signalsOf(summary, numbers, { atMs, startWallMs, times, known: named }),
    viewsOf: (summary, active) => {
      const list = listIn(summary, 'pods');
      if (list !== entries.list) entries = createEntries(list);
      else if (last !== null && last.active === active) return last.views;
      last = { active, views: active.map(viewOf) };
      return last.views;
    },
  };
}

/** Field by field: a spread of this many takes 3 µs per pod and look, this 0.04 µs (measured, Node 20). */
function withUsage(declared: ScenarioPod['declared'], usage: Usage): PodView {
  return {
    uid: declared.uid,
    namespace: declared.namespace,
    name: declared.name,
    qos: declared.qos,
    priority: declared.priority,
    requests: declared.requests,
    podLevelMemoryRequest: declared.podLevelMemoryRequest,
    ephemeralStorageLimit: declared.ephemeralStorageLimit,
    containers: declared.containers,
    volumes: declared.volumes,
    tolerations: declared.tolerations,
    terminationGraceSeconds: declared.terminationGraceSeconds,
    startedAtWallMs: declared.startedAtWallMs,
    ownerKey: declared.ownerKey,
    isDaemonSet: declared.isDaemonSet,
    isStaticCritical: declared.isStaticCritical,
    isProtected: declared.isProtected,
    ...(declared.evictFor === undefined ? {} : { evictFor: declared.evictFor }),
    isTerminating: declared.isTerminating,
    limitedBy: declared.limitedBy,
    usage,
  };
}

type Numbers = (section: Json, name: string) => number | null;

/** Reads a section's number; null = absent. A repeated quantity is not parsed again. */
function createNumbers(): Numbers {
  const texts = new Map<string, number | null>();
  return (section, name) => {
    const value = section[name];
    if (typeof value === 'number') return value;
    if (typeof value !== 'string') return null;
    const before = texts.get(value);
    if (before !== undefined) return before;
    const read = readCount(value);
    const number = read.ok ? read.value : null;
    texts.set(value, number);
    return number;
  };
}

type Entries = { readonly list: readonly unknown[]; readonly of: (pod: ScenarioPod) => Json | null };

/** scenarios.md 2.5.3. The later of two entries for one pod counts. */
function createEntries(list: readonly unknown[]): Entries {
  const byUid = new Map<unknown, number>();
  const byRef = new Map<string, number>();
  for (const [i, entry] of list.entries()) {
    const { uid, namespace, name } = sectionIn(entry, 'podRef') ?? EMPTY;
    if (uid !== undefined && uid !== null) byUid.set(uid, i);
    else byRef.set(`${namespace ?? 'default'}/${name}`, i);
  }
  const of = (pod: ScenarioPod): Json | null => {
    const entry = list[Math.max(byUid.get(pod.declared.uid) ?? -1, byRef.get(pod.ref) ?? -1)];
    return isObject(entry) ? entry : null;
  };
  return { list, of };
}

/** kubelet-eviction.md 5.8 and scenarios.md 2.5.2: if a pod has an entry, a missing number counts as 0 in sums. */
function createUsages(numbers: Numbers): { readonly of: (entry: Json, pod: ScenarioPod) => Usage } {
  const reading = (section: Json | null, name: string): Reading<number> => {
    const value = section === null ? null : numbers(section, name);
    return value === null ? ABSENT : known(value);
  };
  const orZero = (section: Json | null, name: string): number => (section && numbers(section, name)) ?? 0;

  const of = (entry: Json, pod: ScenarioPod): Usage => {
    const disk = { logsBytes: 0, rootfsBytes: 0, volumesBytes: 0, logsInodes: 0, rootfsInodes: 0, volumesInodes: 0 };
    const containers = objectsIn(entry, 'containers').map((container): ContainerUsage => {
      const [logs, rootfs] = [sectionIn(container, 'logs'), sectionIn(container, 'rootfs')];
      disk.logsBytes += orZero(logs, 'usedBytes');
      disk.logsInodes += orZero(logs, 'inodesUsed');
      disk.rootfsBytes += orZero(rootfs, 'usedBytes');
      disk.rootfsInodes += orZero(rootfs, 'inodesUsed');
      return {
        name: String(container['name']),
        workingSetBytes: reading(sectionIn(container, 'memory'), 'workingSetBytes'),
        logsBytes: reading(logs, 'usedBytes'),
        rootfsBytes: reading(rootfs, 'usedBytes'),
      };
    });
    const volumes = objectsIn(entry, 'volume').map((volume): VolumeUsage => {
      const name = String(volume['name']);
      if (pod.localVolumes.includes(name)) {
        disk.volumesBytes += orZero(volume, 'usedBytes');
        disk.volumesInodes += orZero(volume, 'inodesUsed');
      }
      return { name, usedBytes: reading(volume, 'usedBytes') };
    });
    const memory = sectionIn(entry, 'memory');
    const swap = sectionIn(entry, 'swap');
    const unattributed = sectionIn(entry, 'diskUnattributed');
    const [pidsHeld, deadHeld] = [numbers(entry, 'pidsHeld'), numbers(entry, 'deadHeld')];
    const unmeasured = listIn(entry, 'unmeasured');
    const isUnmeasured = (part: string): boolean => unmeasured.includes(part);
    const memoryBytes = memory === null ? ABSENT : known(orZero(memory, 'workingSetBytes'));
    const swapBytes = isUnmeasured('swap') ? UNMEASURED : swap && known(orZero(swap, 'swapUsageBytes'));
    return {
      // The kubelet treats a memory section without a number as 0, even in messages, and an absent section as unknown.
      workingSetBytes: isUnmeasured('memory') ? UNMEASURED : memoryBytes,
      ...(swapBytes === null ? {} : { swapBytes }),
      processes: isUnmeasured('process_stats')
        ? UNMEASURED
        : reading(sectionIn(entry, 'process_stats'), 'process_count'),
      ...(pidsHeld === null ? {} : { pidsHeld: known(pidsHeld) }),
      ...(deadHeld === null ? {} : { deadHeld: known(deadHeld) }),
      disk:
        entry['hasNoDirectory'] === true
          ? NO_DIRECTORY
          : known<DiskUsage>({
              ...disk,
              ...(entry['diskIsOfFileSystem'] === true ? { isOfFileSystem: true } : {}),
              ...(entry['diskIsAtLeast'] === true ? { isAtLeast: true } : {}),
              ...(unattributed && {
                unattributedBytes: orZero(unattributed, 'bytes'),
                unattributedInodes: orZero(unattributed, 'inodes'),
              }),
            }),
      ephemeralStorageBytes: reading(sectionIn(entry, 'ephemeral-storage'), 'usedBytes'),
      containers: known(containers),
      volumes: known(volumes),
    };
  };
  return { of };
}

/** As a recorded look wrote it (D14). */
function reliefOf(section: Json, numbers: Numbers): DiskRelief {
  const amount = (name: string): Reading<number> => {
    const value = numbers(section, name);
    return value === null ? ABSENT : known(value);
  };
  const of = (name: string): Relief => ({ bytes: amount(`${name}Bytes`), inodes: amount(`${name}Inodes`) });
  return {
    scratch: of('scratch'),
    deletedOpen: of('deletedOpen'),
    grownLastMinute: of('grown'),
    writtenBytes: amount('writtenBytes'),
    ...('unattributedBytes' in section ? { unattributed: of('unattributed') } : {}),
    ...(section['isAtLeast'] === true ? { isAtLeast: true } : {}),
  };
}

type Times = {
  readonly atMs: MonoMs;
  readonly startWallMs: number | null;
  readonly times: 'named' | 'fresh';
  /** The signals that appeared in stats so far; grows. */
  readonly known: Set<Signal>;
};

function signalsOf(summary: Json, numbers: Numbers, at: Times): Signals {
  const node = sectionIn(summary, 'node') ?? EMPTY;
  const parents = {
    node,
    pods: objectsIn(node, 'systemContainers').find(({ name }) => name === 'pods') ?? EMPTY,
    runtime: sectionIn(node, 'runtime') ?? EMPTY,
  };
  return forEachSignal((signal, facts): Reading<SignalSample> => {
    const section = sectionIn(parents[facts.section.of], facts.section.name);
    const amounts = section === null ? null : amountsIn(section, facts, numbers);
    if (facts.source === 'swap' && amounts?.capacity === 0) return NO_SWAP;
    if (section === null || amounts === null) return at.known.has(signal) ? ABSENT : NEVER_NAMED;
    at.known.add(signal);
    return known({ ...amounts, ...measuredAt(section, at) });
  });
}

/** Null: a figure is missing, or a part of a time is longer than the whole. */
function amountsIn(section: Json, { figures, unit }: SignalFacts, numbers: Numbers) {
  const amount = (name: string | undefined): number | null => (name === undefined ? null : numbers(section, name));
  const [free, used, all] = [amount(figures.available), amount(figures.used), amount(figures.capacity)];
  const available = free ?? (all === null || used === null ? null : all - used);
  const capacity = all ?? (free === null || used === null ? null : free + used);
  if (available === null || capacity === null) return null;
  return unit === 'ms' && (available < 0 || capacity === 0) ? null : { available, capacity };
}

/** scenarios.md 2.5.4. */
function measuredAt(section: Json, { atMs, startWallMs, times }: Times) {
  const { time } = section;
  if (time === undefined || time === null || times === 'fresh') return { sampledAtMs: atMs };
  const read = readTime(time, startWallMs);
  if (!read.ok) throw new Error(`a checked time does not parse: ${read.text}`);
  return read.value === null ? { sampledAtMs: atMs, isUntimed: true as const } : { sampledAtMs: read.value };
}

function sectionIn(value: unknown, name: string): Json | null {
  const section = isObject(value) ? value[name] : null;
  return isObject(section) ? section : null;
}

const NO_LIST: readonly unknown[] = [];
function listIn(section: Json, name: string): readonly unknown[] {
  const list = section[name];
  return Array.isArray(list) ? list : NO_LIST;
}

function objectsIn(section: Json, name: string): readonly Json[] {
  return listIn(section, name).filter(isObject);
}

/**
 * RFC 7386: objects merge, null removes, arrays are replaced. What a patch does not change keeps its identity, so it is not
 * read again.
 */
export function mergePatch(target: unknown, patch: unknown): unknown {
  if (!isObject(patch)) return patch;
  const base = isObject(target) ? target : EMPTY;
  let merged: { [key: string]: unknown } | null = null;
  for (const key of Object.keys(patch)) {
    // Assigning it would change what every other key of the object means, and nothing of that name is read.
    if (key === '__proto__') continue;
    const change = patch[key];
    const before = Object.hasOwn(base, key) ? base[key] : undefined;
    const after = change === null ? undefined : mergePatch(before, change);
    if (after === before) continue;
    merged ??= { ...base };
    if (after === undefined) delete merged[key];
    else merged[key] = after;
  }
  return merged ?? base;
}

/** The sections with the node's amounts. */
function sectionsOf(parent: SignalFacts['section']['of']): { readonly [name: string]: Shape } {
  const names: { [section: string]: { [figure: string]: Shape } } = {};
  for (const { section, figures } of Object.values(SIGNAL_FACTS)) {
    if (section.of !== parent) continue;
    names[section.name] ??= { time };
    for (const figure of Object.values(figures)) Object.assign(names[section.name] ?? {}, { [figure]: count });
  }
  return Object.fromEntries(Object.entries(names).map(([name, figures]) => [name, theirs(figures)]));
}

const used = theirs({ usedBytes: count, inodesUsed: count });
const workingSet = theirs({ workingSetBytes: count });
const container = theirs({ name: text, memory: workingSet, rootfs: used, logs: used }, ['name']);
const podRefTexts = theirs({ name: text, namespace: text, uid: text });

const podRef: Shape = (value, at) => {
  podRefTexts(value, at);
  const hasName = !isObject(value) || (value['name'] ?? value['uid'] ?? null) !== null;
  if (!hasName) at.mistakes.at(at.path, 'must have a name or a uid; for example {"name": "web"}');
};

const pod = theirs(
  {
    podRef,
    memory: workingSet,
    swap: theirs({ swapAvailableBytes: count, swapUsageBytes: count }),
    process_stats: theirs({ process_count: count }),
    'ephemeral-storage': theirs({ usedBytes: count }),
    volume: listOf(theirs({ name: text, usedBytes: count, inodesUsed: count }, ['name'])),
    containers: listOf(container),
    // Our own: what a recorded look knew for D3, D6, D13, D17, D18, C9, C10 and D14.
    unmeasured: listOf(text),
    isBetweenRuns: flag,
    isStalledByOwnLimit: flag,
    unsaid: theirs({ why: text, priority: flag, requests: flag }),
    limitedBy: among(LIMITS),
    endsMachineAfterMs: whole,
    isAwaited: flag,
    isMaybeEmpty: flag,
    hasSurvived: flag,
    isGuarded: flag,
    pidsHeld: count,
    deadHeld: count,
    isDeletedByOthers: flag,
    hasNoDirectory: flag,
    diskIsOfFileSystem: flag,
    diskRelief: theirs({
      scratchBytes: count,
      scratchInodes: count,
      deletedOpenBytes: count,
      deletedOpenInodes: count,
      grownBytes: count,
      grownInodes: count,
      writtenBytes: count,
      unattributedBytes: count,
      unattributedInodes: count,
      isAtLeast: flag,
    }),
    diskUnattributed: theirs({ bytes: count, inodes: count }),
  },
  ['podRef'],
);

const sections = sectionsOf('node');
/** A stall cannot exceed its window, nor be part of an empty one. */
const memoryStall: Shape = (value, at) => {
  sections['memoryStall']?.(value, at);
  if (!isObject(value)) return;
  const [stalled, window] = [readCount(value['stalledMs']), readCount(value['windowMs'])];
  if (stalled.ok && window.ok && (window.value === 0 || stalled.value > window.value)) {
    at.mistakes.at([...at.path, 'stalledMs'], `must be a part of windowMs, it is ${stalled.value} of ${window.value}`);
  }
};

/**
 * scenarios.md 2.5.1: the numbers, times and names of a summary that are read. A merge patch has the same shape: null
 * removes, and a list replaces the whole list before it.
 */
export const SUMMARY = theirs({
  node: theirs({
    ...sections,
    // Our own: D17.
    memoryStall,
    systemContainers: listOf(theirs({ name: text, ...sectionsOf('pods') })),
    runtime: theirs(sectionsOf('runtime')),
  }),
  pods: listOf(pod),
});
