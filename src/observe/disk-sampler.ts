import { type DiskPaths, pathOf, type RuntimePaths } from '../core/disk-paths.ts';
import { known, type MonoMs, type Reading, type Unknown, unknown } from '../core/reading.ts';
import { type FsLayout, fileSystemOf, SIGNAL_FACTS, type Signal, type SignalSample } from '../core/signal.ts';
import { isReadOnly } from '../host/disk/mounts.ts';
import { type FileSystem, type FileSystemSample, openFileSystem } from '../host/disk/statfs.ts';
import type { Clock, Findings } from '../ports.ts';
import { blockSizesDiffer } from '../words/finding-eviction.ts';

/**
 * The paths of imagefs and containerfs from the container runtime, if none is configured; null: it has none of its own.
 */
export type LateDiskPaths = {
  /**
   * Called at each look until it is known, then never again (kubelet-eviction.md 1.2.7). Absent: no path comes late.
   */
  readonly latePaths?: () => Reading<RuntimePaths>;
};
type DiskSamplerNeeds = DiskPaths &
  LateDiskPaths & {
    readonly clock: Clock;
    readonly findings: Findings;
    /** Requests a look now. */
    readonly wake: () => void;
  };
/** For a signal without a file system, everything is not applicable. */
export type DiskSampler = {
  /** The latest sample of the signal, without waiting. */
  readonly latest: (signal: Signal) => Reading<SignalSample>;
  readonly layout: () => Reading<FsLayout>;
  /** st_dev of the signal's file system. */
  readonly device: (signal: Signal) => Reading<number>;
  /** Nothing on the signal's file system can be removed; as of at most a second ago. */
  readonly isReadOnly: (signal: Signal) => boolean;
  /** Samples at the pace of the loop, within bounds. */
  readonly follow: (paceMs: number) => void;
  /** A sample taken after this call, which becomes the latest one. Takes at most two deadlines of host/disk/statfs.ts. */
  readonly refresh: (signal: Signal) => Promise<Reading<SignalSample>>;
  readonly close: () => void;
};

const LEAST_CADENCE_MS = 50;
const MOST_CADENCE_MS = 10_000;
/** If a sample fell by this share since the previous one, a look is due: the pace was computed from the old one. */
const FALLEN_SHARE = 0.02;
/** If looks are this far apart, samples are taken with them: one wake-up for both. */
const FAR_MS = 2_000;
/**
 * A look takes a new sample if the last one is older than this share of the cadence; without a look, half a cadence
 * later.
 */
const DUE_CADENCES = 0.75;
const LATEST_CADENCES = 1.5;
const STALE_CADENCES = 3;
const STALE_MARGIN_MS = 2_000;
/** There may be tens of thousands of mounts to read. */
const READ_ONLY_FOR_MS = 1_000;
const OTHER_DEVICE =
  'another file system is there than at the start (unmounted, or mounted over): mount it again, or reload nodewarden if this is intended';

type Sample = FileSystemSample & { readonly staleAtMs: MonoMs };
type Source = {
  readonly path: string;
  readonly fileSystem: FileSystem;
  latest: Reading<Sample>;
  /** The st_dev at the start; null: not seen yet. */
  device: number | null;
};
/** Unknown: no path is configured, or none is known yet. */
type Sources = {
  readonly nodefs: Source;
  readonly imagefs: Source | Unknown;
  readonly containerfs: Source | Unknown;
};

/** Samples the file systems beside the loop, each separately: one that hangs does not hide the others. */
export function createDiskSampler(needs: DiskSamplerNeeds): DiskSampler {
  const { clock, findings, wake } = needs;
  const opened = new Map<string, Source>();
  let sources = openSources(needs, opened, clock);
  const timers = new Map<Source, { readonly startedMs: MonoMs; readonly cancel: () => void }>();
  let layout: Reading<FsLayout> = layoutOf(sources);
  let paceMs = MOST_CADENCE_MS;
  let isClosed = false;
  let areAllThere = needs.latePaths === undefined;
  let whyNot = '';
  const readOnly = new Map<Source, { readonly atMs: MonoMs; readonly isSo: boolean }>();
  const cadenceMs = (): number => Math.min(Math.max(paceMs, LEAST_CADENCE_MS), MOST_CADENCE_MS);
  const isWithLooks = (): boolean => paceMs >= FAR_MS && paceMs <= MOST_CADENCE_MS;
  const timerMs = (): number => (isWithLooks() ? LATEST_CADENCES : 1) * cadenceMs();
  const freshForMs = (): number => STALE_CADENCES * cadenceMs() + STALE_MARGIN_MS;

  const take = async (source: Source): Promise<void> => {
    const sampled = await source.fileSystem.sample();
    if (isClosed) return;
    const reading = sampled.known ? onSameDevice(source, sampled.value) : sampled;
    const before = source.latest;
    source.latest = reading.known
      ? known({ ...reading.value, staleAtMs: reading.value.sampledAtMs + freshForMs() })
      : reading;
    if (!layout.known) layout = layoutOf(sources);
    noteBlockSize(source, findings);
    // A look that is due soon takes the sample with it; otherwise one is requested.
    const isNews =
      before.known && reading.known ? hasFallen(before.value, reading.value) : before.known !== reading.known;
    if (isNews || paceMs > cadenceMs()) wake();
  };
  const schedule = (source: Source, startedMs: MonoMs): void => {
    if (isClosed) return;
    timers.get(source)?.cancel();
    const afterMs = Math.max(0, startedMs + timerMs() - clock.monoMs());
    const cancel = clock.after(afterMs, () => run(source));
    timers.set(source, { startedMs, cancel });
  };
  const run = (source: Source): void => {
    const startedMs = clock.monoMs();
    timers.delete(source);
    void take(source).then(() => schedule(source, startedMs));
  };
  for (const source of opened.values()) run(source);

  const takeLatePaths = (): void => {
    const late = areAllThere ? undefined : needs.latePaths?.();
    if (late === undefined || (!late.known && late.detail === whyNot)) return;
    areAllThere = late.known;
    whyNot = late.known ? '' : late.detail;
    const before = new Set(opened.values());
    sources = openSources(needs, opened, clock);
    layout = layoutOf(sources);
    for (const source of opened.values()) if (!before.has(source)) run(source);
  };

  return {
    latest: (signal) => sampleOf(signal, sources, layout, clock.monoMs(), freshForMs()),
    layout: () => layout,
    device: (signal) => {
      const source = sourceOf(signal, sources, layout);
      if ('why' in source) return source;
      return source.latest.known ? known(source.latest.value.device) : source.latest;
    },
    isReadOnly: (signal) => {
      const source = sourceOf(signal, sources, layout);
      if ('why' in source || !source.latest.known) return false;
      const nowMs = clock.monoMs();
      let last = readOnly.get(source);
      if (last === undefined || nowMs - last.atMs >= READ_ONLY_FOR_MS) {
        last = { atMs: nowMs, isSo: isReadOnly(source.latest.value.device) };
        readOnly.set(source, last);
      }
      return last.isSo;
    },
    follow: (nextMs) => {
      takeLatePaths();
      const before = timerMs();
      paceMs = nextMs;
      for (const [source, { startedMs, cancel }] of timers) {
        if (isWithLooks() && clock.monoMs() - startedMs >= DUE_CADENCES * cadenceMs()) {
          cancel();
          run(source);
        } else if (timerMs() < before) schedule(source, startedMs);
      }
    },
    refresh: async (signal) => {
      const source = sourceOf(signal, sources, layout);
      if ('why' in source) return source;
      const askedMs = clock.monoMs();
      await take(source);
      // This may have joined a call in progress.
      if (source.latest.known && source.latest.value.sampledAtMs < askedMs) await take(source);
      return sampleOf(signal, sources, layout, clock.monoMs(), freshForMs());
    },
    close: () => {
      isClosed = true;
      for (const { cancel } of timers.values()) cancel();
    },
  };
}

function hasFallen(before: FileSystemSample, now: FileSystemSample): boolean {
  const isLess = (was: number, is: number): boolean => is < was * (1 - FALLEN_SHARE);
  return isLess(before.bytesAvailable, now.bytesAvailable) || isLess(before.inodesFree, now.inodesFree);
}

/** Equal paths are one source. */
function openSources(needs: DiskPaths & LateDiskPaths, opened: Map<string, Source>, clock: Clock): Sources {
  const late = needs.latePaths?.();
  const open = (path: string): Source => {
    const latest = unknown('absent', `statfs ${path}`, 'the first sample is in progress');
    const source = opened.get(path) ?? { path, fileSystem: openFileSystem(path, clock), latest, device: null };
    opened.set(path, source);
    return source;
  };
  const openRole = (role: 'imagefs' | 'containerfs'): Source | Unknown => {
    const where = `${role}.path`;
    const path = pathOf(role, needs, late);
    if (!path.known) return unknown('absent', where, path.detail);
    return path.value === null ? unknown('not-applicable', where, 'no path is configured') : open(path.value);
  };
  return { nodefs: open(needs.nodefsPath), imagefs: openRole('imagefs'), containerfs: openRole('containerfs') };
}

/**
 * Only the file system that was mounted at the start is measured: once it is unmounted, the one below has other figures, and
 * no eviction would help.
 */
function onSameDevice(source: Source, sample: FileSystemSample): Reading<FileSystemSample> {
  source.device ??= sample.device;
  return sample.device === source.device ? known(sample) : unknown('unreadable', source.path, OTHER_DEVICE);
}

function noteBlockSize(source: Source, findings: Findings): void {
  const sizes = source.fileSystem.differingBlockSizes();
  if (sizes !== null) findings.raise(blockSizesDiffer(source.path, sizes));
}

/** By st_dev, once the devices are known (kubelet-eviction.md 1.2.7, 1.2.8). */
function layoutOf({ nodefs, imagefs, containerfs }: Sources): Reading<FsLayout> {
  if (imagefs === nodefs || isNone(imagefs)) return known('nodefs-only');
  if ('why' in imagefs) return imagefs;
  if ('why' in containerfs && !isNone(containerfs)) return containerfs;
  const split = 'why' in containerfs ? null : containerfs;
  for (const source of [nodefs, imagefs, split]) if (source?.latest.known === false) return source.latest;
  const node = deviceOf(nodefs);
  if (deviceOf(imagefs) === node) return known('nodefs-only');
  return known(split !== null && deviceOf(split) === node ? 'containerfs-separate' : 'imagefs-separate');
}

/** There is no such path, and there will be none. */
const isNone = (source: Source | Unknown): boolean => 'why' in source && source.why === 'not-applicable';
const deviceOf = (source: Source): number | null => (source.latest.known ? source.latest.value.device : null);

/** The file system from which a signal is read; containerfs without a path of its own is an alias. */
function sourceOf(signal: Signal, sources: Sources, layout: Reading<FsLayout>): Source | Unknown {
  const { nodefs, imagefs, containerfs } = sources;
  switch (fileSystemOf(signal)) {
    case null:
      return unknown('not-applicable', signal, 'it belongs to no file system');
    case 'nodefs':
      return nodefs;
    case 'imagefs':
      if ('why' in imagefs || !layout.known || layout.value !== 'nodefs-only') return imagefs;
      return unknown('not-applicable', 'imagefs.path', 'the same file system as nodefs');
    case 'containerfs':
      if (!isNone(containerfs)) return containerfs;
      if (!layout.known) return layout;
      return layout.value === 'imagefs-separate' ? imagefs : nodefs;
  }
}

function sampleOf(
  signal: Signal,
  sources: Sources,
  layout: Reading<FsLayout>,
  nowMs: MonoMs,
  freshForMs: number,
): Reading<SignalSample> {
  const source = sourceOf(signal, sources, layout);
  if ('why' in source) return source;
  if (!source.latest.known) return source.latest;
  const sample = source.latest.value;
  // If the pace has slowed since, no sample becomes stale before the next one is due.
  if (nowMs > Math.max(sample.staleAtMs, sample.sampledAtMs + freshForMs)) {
    const seconds = Math.round((nowMs - sample.sampledAtMs) / 1_000);
    return unknown('stale', `statfs ${source.path}`, `the last sample is ${seconds} s old`);
  }
  const { sampledAtMs } = sample;
  return SIGNAL_FACTS[signal].unit === 'inodes'
    ? known({ available: sample.inodesFree, capacity: sample.inodes, sampledAtMs })
    : known({ available: sample.bytesAvailable, capacity: sample.bytesCapacity, sampledAtMs });
}
