import {
  growthBetween,
  isOutsidePods,
  type MemoryGrowth,
  type MemoryShare,
  type MemoryShares,
} from '../core/eviction/attribution.ts';
import type { PodView } from '../core/pod/pod.ts';
import { known, type MonoMs, type Reading, unknown } from '../core/reading.ts';
import type { BoundPod } from '../ports.ts';
import {
  below,
  createShareReader,
  KERNEL,
  type PodPaths,
  type ShareNeeds,
  type ShareReader,
  type ShareSample,
} from './memory-shares.ts';

type GrowthNeeds = ShareNeeds & {
  readonly pods: () => Reading<readonly BoundPod[]>;
  /** As in PodSource: the baseline needs only the cgroups of the pods. */
  readonly podsLately?: () => Reading<readonly BoundPod[]>;
  /** The cgroup whose memory is the node's. */
  readonly nodePath: (atMs: MonoMs) => Reading<string>;
};
export type Growth = {
  /**
   * Reads the shares as a baseline from time to time, but not in a look that chooses by memory: the baseline would absorb the
   * growth.
   */
  readonly follow: (atMs: MonoMs) => void;
  /** Since the oldest reading of the last minute. `views`: the pods as this look presents them. */
  readonly read: (atMs: MonoMs, views: Reading<readonly PodView[]>) => Reading<MemoryGrowth>;
};

const PACE_MS = 20_000;
const WINDOW_MS = 60_000;
/** With more services, the slice is named, not the service. */
const MAX_SERVICES = 256;
/** How long a kill waits for the attribution. */
const READING_MS = 10;
/** And for the service within its slice, only if most of the growth is not in pods. */
const NAMING_MS = 2;
/** Always read, as many as a plain machine has: otherwise a slow machine would never name a culprit. */
const LEAST_NAMED = 24;
const MAX_NAME = 160;

/** `services`: those two levels below the node; null = too many to compare with. */
type Sample = ShareSample & {
  readonly node: string;
  readonly pods: PodPaths;
  readonly inodes: ReadonlyMap<string, number>;
  readonly services: ReadonlyMap<string, number> | null;
};

/** What took the node's memory (product.md section 8). */
export function createGrowth(needs: GrowthNeeds): Growth {
  const { pods: podsNow, podsLately = podsNow } = needs;
  const reader = createShareReader(needs);
  let samples: readonly Sample[] = [];
  let readMs = Number.NEGATIVE_INFINITY;

  /** Right after the start, units are not resolved yet, and their memory would count as their slice's. */
  const areFound = (bound: readonly BoundPod[]): boolean =>
    bound.every(({ cgroup }) => cgroup.known || cgroup.why !== 'not-asked');
  const podPaths = (bound: readonly BoundPod[], measured: (uid: string) => number | null): PodPaths =>
    new Map(
      bound.flatMap(({ cgroup, declared }) =>
        cgroup.known ? [[cgroup.value.path, measured(declared.uid)] as const] : [],
      ),
    );
  const inodesOf = (bound: readonly BoundPod[]): Sample['inodes'] =>
    new Map(bound.flatMap(({ cgroup }) => (cgroup.known ? [[cgroup.value.path, cgroup.value.inode] as const] : [])));
  return {
    follow: (atMs) => {
      if (atMs - readMs < PACE_MS) return;
      const bound = podsLately();
      if (!bound.known || !areFound(bound.value)) return;
      readMs = atMs;
      const pods = podPaths(bound.value, () => null);
      const node = needs.nodePath(atMs);
      const sample = node.known ? reader.now(node.value, atMs, pods) : node;
      if (!node.known || !sample.known) return;
      const fresh = samples.filter((old) => old.node === node.value && atMs - old.shares.atMs <= WINDOW_MS);
      const services = servicesOf(reader, sample.value, pods);
      samples = [...fresh, { ...sample.value, node: node.value, pods, inodes: inodesOf(bound.value), services }];
    },
    read: (atMs, views) => {
      if (!views.known) return views;
      const measured = new Map(views.value.map(({ uid, usage }) => [uid, usage.workingSetBytes]));
      const bound = podsNow();
      if (!bound.known) return bound;
      const present = podPaths(bound.value, (uid) => {
        const bytes = needs.memoryAvailable === 'workingSet' ? measured.get(uid) : undefined;
        return bytes?.known ? bytes.value : null;
      });
      const node = needs.nodePath(atMs);
      if (!node.known) return node;
      const before = samples.find((old) => old.node === node.value && old.shares.atMs < atMs);
      if (before === undefined) return unknown('absent', 'growth', 'there is no earlier sample to compare with');
      // A pod whose manifest was removed since then still counts as before: its memory is not growth of its slice.
      const pods: PodPaths = new Map([...before.pods, ...present]);
      const now = reader.now(node.value, atMs, pods, READING_MS);
      if (!now.known) return now;
      const growth = growthBetween(withoutEnded(before, inodesOf(bound.value)), now.value.shares);
      const [first, ...rest] = growth.others;
      const others =
        first !== undefined && isOutsidePods(growth)
          ? [nameOf(first, before, now.value, pods), ...rest]
          : growth.others;
      return known({ ...growth, others: others.map((share) => shortName(share, node.value)) });
    },
  };

  function nameOf(share: MemoryShare, before: Sample, now: ShareSample, pods: PodPaths): MemoryShare {
    if (share.where === KERNEL) return { ...share, where: `${KERNEL}: ${kindThatGrew(before, now)}` };
    return isCgroup(share.where) ? serviceIn(share, before, pods) : share;
  }
  /** The service in the slice that grew most, if it accounts for half of the slice's growth; else the slice itself. */
  function serviceIn(slice: MemoryShare, { services: had }: Sample, pods: PodPaths): MemoryShare {
    const endMs = needs.clock.monoMs() + NAMING_MS;
    const services = had === null ? null : reader.servicesIn(slice.where, pods);
    if (had === null || services === null) return slice;
    // New pods first, then large ones: there may not be time for all.
    const order = (path: string): number => had.get(path) ?? Number.MAX_SAFE_INTEGER;
    let most: MemoryShare = { where: slice.where, bytes: 0 };
    for (const [i, path] of services.toSorted((a, b) => order(b) - order(a)).entries()) {
      if (i >= LEAST_NAMED && needs.clock.monoMs() > endMs) break;
      const now = reader.bytes(path);
      const bytes = now.known ? now.value - (had.get(path) ?? 0) : 0;
      if (bytes > most.bytes) most = { where: path, bytes };
    }
    return most.bytes * 2 >= slice.bytes ? most : slice;
  }
}

/** A pod that has another cgroup by now began at zero. */
function withoutEnded({ shares, inodes }: Sample, present: Sample['inodes']): MemoryShares {
  const isSame = (path: string): boolean => !present.has(path) || present.get(path) === inodes.get(path);
  return { ...shares, eachPod: new Map([...(shares.eachPod ?? [])].filter(([path]) => isSame(path))) };
}

function servicesOf(reader: ShareReader, { shares }: ShareSample, pods: PodPaths): Sample['services'] {
  const services = new Map<string, number>();
  for (const { where } of shares.others.filter(({ where }) => isCgroup(where))) {
    for (const path of reader.servicesIn(where, pods) ?? []) {
      if (services.size >= MAX_SERVICES) return null;
      const bytes = reader.bytes(path);
      if (bytes.known) services.set(path, bytes.value);
    }
  }
  return services;
}

function kindThatGrew(before: ShareSample, now: ShareSample): string {
  const had = new Map(before.kernel.map(({ kind, bytes }) => [kind, bytes]));
  const grown = now.kernel.map(({ kind, bytes }) => ({ kind, bytes: bytes - (had.get(kind) ?? 0) }));
  return grown.toSorted((a, b) => b.bytes - a.bytes)[0]?.kind ?? 'other';
}

const isCgroup = (where: string): boolean => where.startsWith('/');

/** Relative to the node, as in systemd-cgls, and short enough for one line. */
function shortName({ where, bytes }: MemoryShare, node: string): MemoryShare {
  const name = isCgroup(where) ? where.slice(below(node, '').length) : where;
  return { where: name.length > MAX_NAME ? `${name.slice(0, MAX_NAME)}…` : name, bytes };
}
