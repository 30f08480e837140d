import type { Escaped } from '../core/outcome.ts';
import { type PodUid, podName, type Victim } from '../core/pod/pod.ts';
import type { CgroupMounts } from '../host/cgroup/cgroup-mounts.ts';
import { isPopulated, unreaped } from '../host/cgroup/cgroupfs.ts';
import { heldOutside } from '../host/cgroup/escaped.ts';
import type { CgroupRef, Clock, Finding, Findings } from '../ports.ts';
import { survivedId, unreapedId, unreapedProcesses } from '../words/finding-eviction.ts';
import { oldestStartMs } from './oldest-start.ts';

type SurvivorsNeeds = {
  readonly mounts: CgroupMounts;
  readonly clock: Clock;
  readonly findings: Findings;
  /** Of the run of the agent. Absent: nothing was found before. */
  readonly memory?: SurvivorMemory;
  /** Where one is whose cgroups could not be read; null: they still cannot. Absent: no such one is watched. */
  readonly refsOf?: (uid: PodUid) => readonly CgroupRef[] | null;
  /** What declared it is gone, or names another place. Absent: that is never so. */
  readonly isGone?: (victim: Named) => boolean;
};
type Named = Pick<Victim, 'uid' | 'namespace' | 'name' | 'boundTo'>;
type Survivor = {
  readonly uid: PodUid;
  /** Null: its cgroups cannot be read. */
  readonly refs: readonly CgroupRef[] | null;
  readonly escaped?: Escaped | undefined;
  /** Called once nothing of it is left. */
  readonly ended?: (() => void) | undefined;
};
type Watched = Survivor & { readonly survivedMs: number };
/** What the parts before have found, and still find. */
export type SurvivorMemory = {
  survived: readonly (Omit<Watched, 'ended'> & { readonly finding: Finding })[];
  unreaped: readonly { readonly ref: CgroupRef; readonly victim: Named }[];
};
export const createSurvivorMemory = (): SurvivorMemory => ({ survived: [], unreaped: [] });

/** Pods that survived their stop may end later: a device answers again, a debugger detaches, or their cgroups can be read. */
export type Survivors = {
  readonly watch: (survivor: Survivor) => void;
  /** Dead processes of a declared pod are reported as long as they hold process IDs: only their parent can free these. */
  readonly tellUnreaped: (ref: CgroupRef, victim: Named) => void;
  /**
   * Of what ends from now on, only the findings know: what else would follow from it goes by manifests that are not in force any
   * more.
   */
  readonly close: () => void;
};

/** Its end frees what others may be chosen for. */
const LOOK_MS = 250;
const UNREAPED_LOOK_MS = 1_000;

export function createSurvivors({ mounts, clock, findings, memory, refsOf, isGone }: SurvivorsNeeds): Survivors {
  let isClosed = false;
  const watched = new Set<Watched>();
  /** By the pod. */
  const unreapedIn = new Map<string, SurvivorMemory['unreaped'][number]>();

  function isOver({ refs, escaped, survivedMs }: Watched): boolean {
    const held = escaped === undefined ? null : heldOutside(mounts, escaped);
    if (held !== null && (held.memoryBytes > 0 || held.processIds > 0)) return false;
    return refs?.every((ref) => isOverIn(ref, survivedMs)) === true;
  }

  function isOverIn(ref: CgroupRef, survivedMs: number): boolean {
    // What had left it may have come back.
    const populated = isPopulated(mounts, ref);
    if (!populated.known || !populated.value) return populated.known || populated.why === 'absent';
    // All that run there now were started since.
    return (oldestStartMs(mounts, ref) ?? 0) > survivedMs;
  }

  function watch(survivor: Watched): void {
    watched.add(survivor);
    clock.after(LOOK_MS, () => {
      if (isClosed) return;
      const { uid, refs, ended } = survivor;
      watched.delete(survivor);
      const now = { ...survivor, refs: refs ?? refsOf?.(uid) ?? null };
      if (!isOver(now)) return watch(now);
      findings.clear(survivedId(uid));
      ended?.();
    });
  }

  function tellUnreaped(ref: CgroupRef, victim: Named): void {
    if (isClosed) return;
    const pod = podName(victim);
    const count = isGone?.(victim) === true ? 0 : unreaped(mounts, ref);
    unreapedIn.delete(pod);
    if (count === 0) {
      findings.clear(unreapedId(pod));
      return;
    }
    unreapedIn.set(pod, { ref, victim });
    findings.raise(unreapedProcesses(pod, count));
    clock.after(UNREAPED_LOOK_MS, () => tellUnreaped(ref, victim));
  }

  for (const { finding, ...survivor } of memory?.survived ?? []) {
    findings.raise(finding);
    watch(survivor);
  }
  for (const { ref, victim } of memory?.unreaped ?? []) tellUnreaped(ref, victim);
  return {
    tellUnreaped,
    watch: (survivor) => watch({ ...survivor, survivedMs: clock.monoMs() }),
    close: () => {
      isClosed = true;
      if (memory === undefined) return;
      const now = new Map(findings.all().map((finding) => [finding.id, finding]));
      memory.survived = [...watched].flatMap(({ ended: _, ...survivor }) => {
        const finding = now.get(survivedId(survivor.uid));
        return finding === undefined ? [] : [{ ...survivor, finding }];
      });
      memory.unreaped = [...unreapedIn.values()];
    },
  };
}
