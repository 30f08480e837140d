import { effectiveMins, type Protectable, protectedCacheBytes } from '../core/eviction/protected-cache.ts';
import { ifKnown, known, type MonoMs, orIfAbsent, type Reading, sumOf } from '../core/reading.ts';
import { memoryMinOf, openMemory } from '../host/cgroup/cgroup-memory.ts';
import type { CgroupMounts } from '../host/cgroup/cgroup-mounts.ts';
import { childrenOf, directoryOf } from '../host/cgroup/cgroup-walk.ts';
import { below } from './memory-shares.ts';

/** Where nothing is protected, as on most machines. Only an operator changes that. */
const PACE_MS = 10_000;
/** Else, soon enough to notice that a cgroup is gone: some 1 % of a core, at 100 µs for each cgroup. */
const PACE_PER_CGROUP_MS = 10;
/** No reading takes much longer than these do: with more, they take turns, at the same pace. */
const AT_ONCE = 64;
/** The same when the last one was long ago: nothing is short. And of those that are known to be protected, at any time. */
const MOST_AT_ONCE = 256;
/** Directly below the node: more than a machine has. */
const MAX_TOPS = 4_096;
/** Below one of these. Of one with more, one figure for all is read. */
const MAX_BELOW = 32;

type Member = Protectable & { readonly path: string; readonly cacheBytes: number };
/** What was read of each cgroup directly below the node, the one that was read longest ago first; null: it has no minimum. */
type Tops = ReadonlyMap<string, number | null>;
type Protected = { readonly bytes: Reading<number>; readonly tops: Tops; readonly paceMs: number };

/**
 * The page cache that the kernel never reclaims, since `memory.min` protects it (version 2): at least so much. `node`: the
 * cgroup whose memory is the node's.
 */
export function followProtectedCache(mounts: CgroupMounts): (node: string, atMs: MonoMs) => Reading<number> {
  let last: (Protected & { readonly node: string; readonly atMs: MonoMs }) | null = null;
  return (node, atMs) => {
    if (mounts.version === 1) return known(0);
    const before = last?.node === node ? last : null;
    if (before?.bytes.known && atMs < before.atMs + before.paceMs) return before.bytes;
    const most =
      before === null
        ? Number.POSITIVE_INFINITY
        : Math.max(AT_ONCE, Math.min((atMs - before.atMs) / PACE_PER_CGROUP_MS, MOST_AT_ONCE));
    last = { node, atMs, ...readProtected(mounts, node, before?.tops ?? new Map(), most) };
    return last.bytes;
  };
}

/**
 * Reads those that were protected, since a figure of before would count twice what took the place of their cache; then new
 * ones, then those whose turn it is, until it has read `most`.
 */
function readProtected(mounts: CgroupMounts, node: string, before: Tops, most: number): Protected {
  const listed = childrenAt(mounts, node, MAX_TOPS);
  if (!listed.known) return { bytes: listed, tops: before, paceMs: 0 };
  const there = new Set(listed.value.paths);
  const tops = new Map([...before].filter(([path]) => there.has(path)));
  let count = 0;
  let failed: Reading<number> | null = null;
  const readUntil = (limit: number, paths: readonly string[]): void => {
    for (const path of paths) {
      if (count >= limit) return;
      const top = protectedAt(mounts, path);
      count += top.count;
      tops.delete(path);
      // One that could not be read is new for the next reading.
      if (top.bytes.known) tops.set(path, top.bytes.value);
      else failed ??= top.bytes;
    }
  };
  const wasProtected = new Set([...tops].filter(([, bytes]) => bytes !== null).map(([path]) => path));
  readUntil(MOST_AT_ONCE, [...wasProtected]);
  readUntil(count + most, [
    ...[...there].filter((path) => !tops.has(path)),
    ...[...tops.keys()].filter((path) => !wasProtected.has(path)),
  ]);
  const all = [...tops.values()];
  const isNone = all.every((bytes) => bytes === null) && there.size <= AT_ONCE;
  return {
    bytes: failed ?? known(all.reduce<number>((sum, bytes) => sum + (bytes ?? 0), 0)),
    tops,
    paceMs: isNone ? PACE_MS : Math.min(count, AT_ONCE) * PACE_PER_CGROUP_MS,
  };
}

/** `count`: how many cgroups were read for it. */
function protectedAt(
  mounts: CgroupMounts,
  top: string,
): { readonly bytes: Reading<number | null>; readonly count: number } {
  const isRecursive = mounts.isProtectionRecursive === true;
  let left = MAX_BELOW;
  const protectedIn = (member: Member, effectiveBytes: number): Reading<number> => {
    const own = protectedCacheBytes(effectiveBytes, member);
    const listed = childrenAt(mounts, member.path, left + 1);
    if (!listed.known) return listed;
    const { paths, isWhole } = listed.value;
    const isTooMany = !isWhole || paths.length > left;
    if (!isTooMany) left -= paths.length;
    const children = allOf((isTooMany ? [] : paths).map((path) => memberAt(mounts, path)));
    if (!children.known) return children;
    if (!isTooMany && children.value.length === 0) return known(own);
    const effective = effectiveMins({ ...member, effectiveBytes }, children.value, isRecursive);
    const parts = children.value.map((child, i) => {
      const bytes = effective[i] ?? 0;
      return bytes > 0 ? protectedIn(child, bytes) : known(0);
    });
    return ifKnown(sumOf(parts), (bytes) => known(isRecursive ? Math.max(own, bytes) : bytes));
  };
  const min = orIfAbsent(memoryMinOf(mounts, top), 0);
  const bytes = ifKnown(min, (minBytes): Reading<number | null> => {
    if (minBytes === 0) return known(null);
    return ifKnown(memberAt(mounts, top), (member) => (member === null ? known(null) : protectedIn(member, minBytes)));
  });
  return { bytes, count: 1 + MAX_BELOW - left };
}

function childrenAt(
  mounts: CgroupMounts,
  path: string,
  max: number,
): Reading<{ readonly paths: readonly string[]; readonly isWhole: boolean }> {
  return orIfAbsent(
    ifKnown(childrenOf(directoryOf(mounts, path), max), ({ names, isWhole }) =>
      known({ paths: names.map((name) => below(path, name)), isWhole }),
    ),
    { paths: [], isWhole: true },
  );
}

/** Null: it is gone, or the memory controller does not know it. */
function memberAt(mounts: CgroupMounts, path: string): Reading<Member | null> {
  return orIfAbsent(
    ifKnown(memoryMinOf(mounts, path), (minBytes) => {
      const memory = openMemory(mounts, path);
      const stat = memory.stat();
      memory.close();
      return ifKnown(stat, ({ usageBytes, activeFileBytes, inactiveFileBytes, dirtyBytes, writebackBytes }) =>
        ifKnown(usageBytes, (usage) =>
          ifKnown(sumOf([activeFileBytes, inactiveFileBytes]), (listed) =>
            ifKnown(sumOf([dirtyBytes, writebackBytes]), (unwritten) =>
              known({ path, minBytes, usageBytes: usage, cacheBytes: Math.max(0, listed - unwritten) }),
            ),
          ),
        ),
      );
    }),
    null,
  );
}

function allOf(members: readonly Reading<Member | null>[]): Reading<readonly Member[]> {
  const all: Member[] = [];
  for (const member of members) {
    if (!member.known) return member;
    if (member.value !== null) all.push(member.value);
  }
  return known(all);
}
