/** In bytes. */
export type Protectable = { readonly minBytes: number; readonly usageBytes: number };

/**
 * How much of each child the kernel never reclaims, by its `memory.min` and that of the cgroups above, as the kernel divides
 * it (`effective_protection`). `effectiveBytes` is the parent's own; `isRecursive`: what no child claims goes to all of them
 * (mount option `memory_recursiveprot`).
 */
export function effectiveMins(
  parent: { readonly usageBytes: number; readonly effectiveBytes: number },
  children: readonly Protectable[],
  isRecursive: boolean,
): readonly number[] {
  const claims = children.map(({ minBytes, usageBytes }) => Math.min(minBytes, usageBytes));
  const claimed = claims.reduce((sum, bytes) => sum + bytes, 0);
  const unclaimed = parent.effectiveBytes - claimed;
  if (unclaimed < 0) return claims.map((bytes) => bytes * (parent.effectiveBytes / claimed));
  const beyond = parent.usageBytes - claimed;
  if (!isRecursive || beyond <= 0) return claims;
  return children.map(({ usageBytes }, i) => {
    const claim = claims[i] ?? 0;
    return claim + (unclaimed * (usageBytes - claim)) / beyond;
  });
}

/** How much of its clean page cache a cgroup keeps: what is protected counts for all of its memory, the cache last. */
export function protectedCacheBytes(
  effectiveBytes: number,
  { usageBytes, cacheBytes }: { readonly usageBytes: number; readonly cacheBytes: number },
): number {
  const others = Math.max(0, usageBytes - cacheBytes);
  return Math.max(0, Math.min(effectiveBytes, usageBytes) - others);
}
