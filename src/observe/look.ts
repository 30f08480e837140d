import type { DiskPaths } from '../core/disk-paths.ts';
import type { StallSettings } from '../core/eviction/stall.ts';
import type { HeldOutside, Observation } from '../core/observation.ts';
import type { PodView } from '../core/pod/pod.ts';
import { known, type MonoMs, type Reading, unknown } from '../core/reading.ts';
import {
  fileSystemOf,
  forEachSignal,
  isDisk,
  SIGNAL_FACTS,
  type Signal,
  type SignalSample,
  type SignalSource,
} from '../core/signal.ts';
import type { EscapedFrom } from '../core/state/state.ts';
import type { NextLook } from '../core/verdict.ts';
import type { CgroupMounts } from '../host/cgroup/cgroup-mounts.ts';
import { heldOutside } from '../host/cgroup/escaped.ts';
import { createProcfs, type Procfs } from '../host/procfs.ts';
import type { Clock, Findings, Observer, PodSource, Scratch } from '../ports.ts';
import { createAllocatableMemory } from './allocatable.ts';
import { createDiskSampler, type LateDiskPaths } from './disk-sampler.ts';
import { createGrowth } from './growth.ts';
import { createNodeMemory, type MemoryFigures } from './memory.ts';
import { createNodePids } from './pids.ts';
import { createPodDisk } from './pod-disk.ts';
import { createNodeStall } from './stall.ts';
import { createNodeSwap, NOT_COUNTED } from './swap.ts';
import { createPodReader } from './usage.ts';

export type ObserverNeeds = DiskPaths &
  LateDiskPaths & {
    readonly clock: Clock;
    readonly mounts: CgroupMounts;
    /** Relative to each controller's mount, begins with '/': the node (product.md section 4). */
    readonly cgroupRoot: string;
    readonly memoryAvailable: 'workingSet' | 'reclaimable';
    /** Where the mode found the cgroup of all pods; absent: it is searched for below cgroupRoot. */
    readonly podsCgroup?: () => Reading<string>;
    /** Null: off. */
    readonly evictionStall: StallSettings | null;
    /** Whether a threshold concerns swap, or ranks by it. May change from one look to the next. */
    readonly isSwapCounted: () => boolean;
    readonly pods: PodSource['pods'];
    readonly podsLately?: NonNullable<PodSource['podsLately']>;
    readonly podsUnsettled?: PodSource['unsettled'];
    readonly followPods: PodSource['follow'];
    /** For a shutdown; absent: the API does not show what is left. */
    readonly unconfirmed?: () => NonNullable<Observation['unconfirmed']>;
    /** Absent: nothing is ever emptied. */
    readonly emptying?: Scratch['emptying'];
    readonly findings: Findings;
    /** A sample taken beside the loop requests a look. */
    readonly wake: () => void;
  };
export type OpenObserver = Observer & {
  /** memory.available by both formulas of product.md section 8, read now. */
  readonly memoryFacts: () => MemoryFigures;
  /**
   * Every pod with all measurements, or with those for one signal, read now for a reader. Disk usage is from the last walk.
   */
  readonly podsNow: (want?: Signal) => Reading<readonly PodView[]>;
  /** Nothing on the signal's file system can be removed. */
  readonly isReadOnly: (signal: Signal) => boolean;
  readonly close: () => void;
};

type SourceReader = {
  readonly now: (atMs: MonoMs, signal: Signal) => Reading<SignalSample>;
  readonly fresh: (signal: Signal) => Promise<Reading<SignalSample>>;
};

const NOT_ASKED = unknown('not-asked', 'pods', 'no decision needs them');
/** The kernel's shortest average covers 10 s. */
const PRESSURE_PACE_MS = 1_000;
const NO_VOLUMES = unknown('not-applicable', 'volumes', 'pods have no mounted volumes in this mode');

/**
 * Assembles one observation: kernel files are read now, disks give their last sample, pods are read only if requested.
 */
export function createObserver(needs: ObserverNeeds): OpenObserver {
  const { clock, mounts, findings } = needs;
  const procfs = createProcfs();
  const memory = createNodeMemory({ ...needs, procfs });
  const allocatable = createAllocatableMemory(needs);
  const growth = createGrowth({ ...needs, procfs, nodePath: memory.nodePath });
  const pids = createNodePids({ ...needs, procfs });
  const swap = createNodeSwap({ ...needs, procfs, nodePath: memory.nodePath });
  const stall = createNodeStall({ ...needs, ...memory, procfs });
  const pressure = pressureOf(procfs);
  const disk = createDiskSampler(needs);
  const podDisk = createPodDisk(needs);
  const podReader = createPodReader({
    ...{ clock, mounts, findings, disk: podDisk.latest, diskOn: podDisk.on },
    isStalledByOwnLimit: stall.isByOwnLimit,
  });

  /** Requested by the current look, or by a reader between two looks. */
  let isSwapAsked = true;

  const sampled = { now: (_: MonoMs, signal: Signal) => disk.latest(signal), fresh: disk.refresh };
  const readNow = (now: (atMs: MonoMs) => Reading<SignalSample>) => ({
    now,
    fresh: () => Promise.resolve(now(clock.monoMs())),
  });
  /** For each: what a look reads without waiting, and a sample taken on request. */
  const sources: { readonly [S in SignalSource]: SourceReader } = {
    'node-memory': readNow(memory.available),
    'pods-memory': readNow(allocatable.available),
    swap: { ...readNow(swap.available), now: (atMs) => (isSwapAsked ? swap.available(atMs) : NOT_COUNTED) },
    'memory-stall': { now: stall.available, fresh: async () => stall.again(clock.monoMs()) },
    pids: readNow(pids.available),
    nodefs: sampled,
    imagefs: sampled,
    containerfs: sampled,
  };
  /** `explain` and `capture` get nodefs, if it is measured: a pod has one answer (D14), not one per disk. */
  const deviceFor = (of: NextLook['pods']): Reading<number> | null => {
    if (of !== 'all') return of !== null && isDisk(of) ? disk.device(of) : null;
    const nodefs = disk.device('nodefs.available');
    return nodefs.known ? nodefs : null;
  };
  const isReadOnly = (signal: Signal | null): boolean => signal !== null && isDisk(signal) && disk.isReadOnly(signal);
  /** `of`: the signal whose file system counts. */
  const readPods = (
    bound: ReturnType<ObserverNeeds['pods']>,
    want: NextLook['pods'],
    of: NextLook['pods'] = want,
  ): Reading<readonly PodView[]> => {
    if (!bound.known) return bound;
    const layout = disk.layout();
    const role = of === 'all' ? 'nodefs' : of === null ? null : fileSystemOf(of);
    const fileSystem = role === null || !layout.known ? {} : { fileSystem: { role, layout: layout.value } };
    const disks = { device: deviceFor(of), isReadOnly: isReadOnly(of === 'all' ? 'nodefs.available' : of) };
    return known(podReader.read(bound.value, want, { ...disks, ...fileSystem, isSwapAsked }));
  };
  const isSettled = (): boolean => {
    needs.pods();
    return (needs.podsUnsettled?.(null) ?? null) === null;
  };
  /** D13: what a look reads for a reader is chosen from, too. Before any pod may be chosen, the reader's are read beside the look. */
  const withReader = (next: NextLook): NextLook =>
    next.pods === null && next.isForReader === true && isSettled() ? { ...next, pods: 'all' } : next;
  const podsFor = (want: NextLook['pods']): Reading<readonly PodView[]> => {
    // The result of a disk walk reads the pods even if nobody asked, so that local storage limits act when it arrives.
    if (want === null && !(podDisk.hasNews() && isSettled())) {
      // For the finding alone: the core has not asked for them.
      if (podReader.isToReread()) readPods(needs.pods(), null);
      return NOT_ASKED;
    }
    const bound = needs.pods();
    // D13: among only half of the pods, the wrong one would be chosen.
    const notReady = (want === null ? null : needs.podsUnsettled?.(want)) ?? podDisk.notReady(want);
    if (notReady !== null) return notReady;
    podDisk.takeNews();
    return readPods(bound, want);
  };
  /**
   * Whatever the pods were requested for, a memory threshold met at this very look chooses its victim from them. Only
   * process ID pressure does not wait for the growth.
   */
  const podsAndGrowth = (
    want: NextLook['pods'],
    atMs: MonoMs,
  ): Pick<Observation, 'pods' | 'leftBytes' | 'comesBack' | 'memoryGrowth'> => {
    const pods = podsFor(want);
    if (!pods.known) return { pods };
    // By the working set, the kernel may choose at any threshold (status.md): nobody is spared for what pods left.
    const leftBytes = needs.memoryAvailable === 'workingSet' ? 0 : podReader.leftBytes();
    const read = { pods, leftBytes, comesBack: podReader.comesBack() };
    return want === 'pid.available' ? read : { ...read, memoryGrowth: growth.read(atMs, pods) };
  };
  const heldBy = (from: EscapedFrom): HeldOutside => ({ of: from.decision, ...heldOutside(mounts, from) });

  return {
    look: (next, arrived): Observation => {
      const want = withReader(next);
      disk.follow(want.disksAfterMs ?? want.afterMs);
      podDisk.follow(want);
      needs.followPods(want.afterMs);
      const atMs = clock.monoMs();
      isSwapAsked = want.isForReader === true || needs.isSwapCounted();
      if (want.pods !== 'memory.available') growth.follow(atMs);
      return {
        atMs,
        cpuMs: ownCpuMs(),
        wallMs: clock.wallMs(),
        signals: forEachSignal((signal, { source }) => sources[source].now(atMs, signal)),
        fsLayout: disk.layout(),
        ...podsAndGrowth(want.pods, atMs),
        podsFor: want.pods,
        ...(want.escaped === undefined ? {} : { escaped: want.escaped.map(heldBy) }),
        ...emptyingNow(needs.emptying),
        outcomes: arrived.outcomes,
        psi: pressure(atMs),
        shutdownEvents: arrived.events,
        volumesMounted: NO_VOLUMES,
        ...(needs.unconfirmed === undefined ? {} : { unconfirmed: needs.unconfirmed() }),
      };
    },
    glance: () => memory.again(clock.monoMs()),
    reread: (signal) => sources[SIGNAL_FACTS[signal].source].fresh(signal),
    isReadOnly,
    memoryFacts: () => memory.figures(clock.monoMs()),
    // A pod that has not been walked yet is still shown.
    podsNow: (want) => {
      isSwapAsked = true;
      return readPods(needs.pods(), want === undefined || isDisk(want) ? 'all' : want, want);
    },
    close: () => {
      disk.close();
      podDisk.close();
      for (const part of [memory, allocatable, swap, stall, pids, podReader, procfs]) part.close();
    },
  };
}

function emptyingNow(ask: Scratch['emptying']): Pick<Observation, 'emptying'> {
  const emptying = ask?.() ?? [];
  return emptying.length === 0 ? {} : { emptying };
}

/** CPU time that this process has used so far, user and system, all threads. */
function ownCpuMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000;
}

/** Stall times of the machine. Recorded and shown, never acted on. */
function pressureOf({ psi }: Procfs): (atMs: MonoMs) => Observation['psi'] {
  let last: { readonly atMs: MonoMs; readonly psi: Observation['psi'] } | null = null;
  return (atMs) => {
    if (last === null || atMs - last.atMs >= PRESSURE_PACE_MS) {
      last = { atMs, psi: { memory: psi('memory'), io: psi('io'), cpu: psi('cpu') } };
    }
    return last.psi;
  };
}
