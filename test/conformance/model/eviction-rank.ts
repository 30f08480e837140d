/** Who goes first: kubelet-eviction.md section 5 with D1, and who may go at all: 4.11 with D6, D7, D8 (product.md section 6). */
import type { Layout } from './eviction-config.ts';
import type { PodStats, Use } from './eviction-stats.ts';
import { localVolumes, type Pod, requestOf } from './pods.ts';

export type Stats = ReadonlyMap<Pod, PodStats>;
type Kind = 'memory' | 'bytes' | 'inodes' | 'pids';

export function kindOf(signal: string): Kind {
  if (signal === 'pid.available') return 'pids';
  if (signal.endsWith('inodesFree')) return 'inodes';
  return signal === 'memory.available' || signal === 'allocatableMemory.available' ? 'memory' : 'bytes';
}

/** Use and requests of one pod under one signal, times 10^9; null = no entry in the statistics. */
type Row = {
  readonly pod: Pod;
  readonly use: bigint | null;
  readonly request: bigint;
  readonly subtracted: bigint;
};

const NANO = 1_000_000_000n;

function rowOf(pod: Pod, signal: string, layout: Layout, stats: Stats): Row {
  const kind = kindOf(signal);
  const entry = stats.get(pod);
  if (kind === 'pids') {
    return { pod, use: entry === undefined ? null : entry.processes * NANO, request: 0n, subtracted: 0n };
  }
  if (kind === 'memory') {
    const request = requestOf(pod, 'memory').nano;
    return { pod, use: entry === undefined ? null : (entry.memory ?? 0n) * NANO, request, subtracted: request };
  }
  const ephemeral = requestOf(pod, 'ephemeral-storage').nano;
  const use = entry === undefined ? null : diskUse(pod, entry, signal, layout) * NANO;
  // Inodes cannot be requested, yet the last comparator subtracts the bytes requested (5.4).
  return { pod, use, request: kind === 'inodes' ? 0n : ephemeral, subtracted: ephemeral };
}

/** 5.8 and 5.9. */
function diskUse(pod: Pod, entry: PodStats, signal: string, layout: Layout): bigint {
  const filesystem = signal.split('.')[0];
  const unit = signal.endsWith('inodesFree') ? 'inodes' : 'bytes';
  const onImages = filesystem === 'imagefs';
  if (layout === 'split' && onImages) return 0n;
  const root = layout !== 'dedicated' || filesystem !== 'nodefs';
  const rest = layout !== 'dedicated' || filesystem === 'nodefs';
  const uses: (Use | undefined)[] = [];
  for (const container of entry.containers) {
    if (root) uses.push(container.rootfs);
    if (rest) uses.push(container.logs);
  }
  if (rest) for (const name of localVolumes(pod)) uses.push(entry.volumes.get(name));
  return uses.reduce((sum, use) => sum + (use?.[unit] ?? 0n), 0n);
}

const exceeds = (row: Row) => row.use !== null && row.use > row.request;
const sign = (difference: bigint) => (difference < 0n ? -1 : difference > 0n ? 1 : 0);
const only = (first: boolean, second: boolean) => (first === second ? 0 : first ? -1 : 1);

function compare(p: Row, q: Row, kind: Kind): number {
  const missing = only(p.use === null, q.use === null);
  const priority = p.pod.priority - q.pod.priority;
  const above = missing || sign((q.use ?? 0n) - q.subtracted - (p.use ?? 0n) + p.subtracted);
  // Two without an entry are equal wherever usage is compared.
  const usage = p.use === null && q.use === null ? 0 : above;
  if (kind === 'pids') return priority || usage;
  return missing || only(exceeds(p), exceeds(q)) || priority || usage;
}

function byName(p: Pod, q: Pod): number {
  if (p.id !== q.id) return p.id < q.id ? -1 : 1;
  return (p.uid ?? '') < (q.uid ?? '') ? -1 : 1;
}

/** D1: the later creation first; if one of the equals lacks it, by namespace/name. */
function settle(equals: readonly Row[]): readonly Row[] {
  const known = equals.every((row) => row.pod.createdMs !== null);
  const later = (p: Row, q: Row) => (known ? (q.pod.createdMs ?? 0) - (p.pod.createdMs ?? 0) : 0);
  return equals.toSorted((p, q) => later(p, q) || byName(p.pod, q.pod));
}

export type Ranking = { readonly order: readonly Pod[]; readonly rows: readonly Row[] };

export function rank(pods: readonly Pod[], signal: string, layout: Layout, stats: Stats): Ranking {
  const kind = kindOf(signal);
  const sorted = pods.map((pod) => rowOf(pod, signal, layout, stats)).toSorted((p, q) => compare(p, q, kind));
  const groups: Row[][] = [];
  for (const row of sorted) {
    const group = groups.at(-1);
    const first = group?.[0];
    if (group !== undefined && first !== undefined && compare(first, row, kind) === 0) group.push(row);
    else groups.push([row]);
  }
  const rows = groups.flatMap(settle);
  return { order: rows.map((row) => row.pod), rows };
}

/** The victim of a ranking, or null if nobody may go. `guarded` are the owners that lost too many (D6). */
export function victimOf(ranking: Ranking, signal: string, guarded: ReadonlySet<string>): Pod | null {
  const kind = kindOf(signal);
  const requestable = kind === 'memory' || kind === 'bytes';
  const allowed = ranking.rows.filter((row) => !row.pod.never && !(requestable && row.pod.daemonSet && !exceeds(row)));
  const late = (row: Row) => !requestable && row.pod.daemonSet;
  const tiers = [
    allowed.filter((row) => !row.pod.protect && !late(row)),
    allowed.filter((row) => !row.pod.protect && late(row)),
    allowed.filter((row) => row.pod.protect && !late(row)),
    allowed.filter((row) => row.pod.protect && late(row)),
  ];
  const tier = tiers.find((rows) => rows.length > 0);
  const first = tier?.[0];
  if (tier === undefined || first === undefined) return null;
  const held = (row: Row) => row.pod.owner !== null && guarded.has(row.pod.owner);
  if (!requestable || !held(first)) return first.pod;
  return (tier.find((row) => !held(row) && exceeds(row)) ?? first).pod;
}
