import { valueOrNull } from '../../core/reading.ts';
import { type CgroupUse, useOf } from '../../host/cgroup/cgroup-memory.ts';
import type { CgroupMounts } from '../../host/cgroup/cgroup-mounts.ts';
import { sleep } from '../../host/clock.ts';
import type { Clock } from '../../ports.ts';

/** What a cgroup was seen to use; null: not known. */
export type Seen = {
  readonly workingSetBytes: number | null;
  readonly peakBytes: number | null;
  readonly usedBytes: number | null;
};
export type SampleNeeds = {
  readonly clock: Clock;
  readonly mounts: CgroupMounts;
  /** Null: a minute if the kernel keeps no peak, else once. */
  readonly sampleMs: number | null;
  /** Called before a wait. */
  readonly say: (text: string) => void;
};

const SAMPLE_MS = 60_000;
const EVERY_MS = 1_000;

/** Of these cgroups, by path. */
export async function sample<C extends { readonly path: string }>(
  { clock, mounts, sampleMs, say }: SampleNeeds,
  candidates: readonly C[],
): Promise<{ readonly uses: ReadonlyMap<C, Seen>; readonly sampledMs: number }> {
  const uses = new Map<C, Seen>();
  const look = (): void => {
    for (const candidate of candidates) uses.set(candidate, more(uses.get(candidate), useOf(mounts, candidate.path)));
  };
  look();
  const hasPeaks = candidates.every((candidate) => uses.get(candidate)?.peakBytes !== null);
  const sampledMs = sampleMs ?? (hasPeaks ? 0 : SAMPLE_MS);
  if (sampledMs > 0) say(`sampling memory for ${Math.round(sampledMs / 1_000)} s`);
  for (const endMs = clock.monoMs() + sampledMs; clock.monoMs() < endMs; ) {
    await sleep(clock, Math.min(EVERY_MS, endMs - clock.monoMs()));
    look();
  }
  return { uses, sampledMs };
}

/** The maximum of both; what is file cache now does not count in the kernel's peak. */
function more(before: Seen | undefined, { workingSetBytes, inactiveFileBytes, peakBytes }: CgroupUse): Seen {
  const working = valueOrNull(workingSetBytes);
  const peak = valueOrNull(peakBytes);
  const cache = valueOrNull(inactiveFileBytes) ?? 0;
  const used = working === null ? null : Math.max(working, (peak ?? 0) - cache);
  const most = (a: number | null | undefined, b: number | null): number | null =>
    a === null || a === undefined ? b : Math.max(a, b ?? 0);
  return {
    workingSetBytes: working ?? before?.workingSetBytes ?? null,
    peakBytes: most(before?.peakBytes, peak),
    usedBytes: most(before?.usedBytes, used),
  };
}
