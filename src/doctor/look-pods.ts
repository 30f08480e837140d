import type { Effective } from '../config/effective.ts';
import { podName } from '../core/pod/pod.ts';
import { ifKnown, known, type Reading, type Unknown, unknown } from '../core/reading.ts';
import { openMemory } from '../host/cgroup/cgroup-memory.ts';
import type { CgroupMounts } from '../host/cgroup/cgroup-mounts.ts';
import { isPopulated, processesOf } from '../host/cgroup/cgroupfs.ts';
import { sleep, within } from '../host/clock.ts';
import { filesHang } from '../host/disk/hung-disk.ts';
import { readOwnFile } from '../host/own/own-file.ts';
import { createFileServers } from '../host/process/file-server.ts';
import { readOomScoreAdj } from '../host/process/oom-score.ts';
import type { Systemd } from '../host/systemd/systemd.ts';
import { createCommandRunner } from '../host/systemd/transient.ts';
import { placeForOutput } from '../host/systemd/unit-output.ts';
import type { BoundPod, CgroupRef, Clock, Finding } from '../ports.ts';
import { readLastGoodManifests } from '../standalone/manifests/last-good-manifests.ts';
import { linkedAmong } from '../standalone/pods/scratch-places.ts';
import { createStandaloneSource } from '../standalone/pods/source.ts';
import { type HeldUnit, heldPath, readHeld } from '../standalone/restart/held-file.ts';
import { unitTimeout } from '../standalone/stop/stop-timeouts.ts';
import { createTies } from '../standalone/ties/ties.ts';
import { bindingId, MANIFEST } from '../words/finding-standalone.ts';
import type { FoundPod, PodsFacts } from './facts.ts';
import { sharedLimits } from './shared-limits.ts';

type Needs = {
  readonly clock: Clock;
  readonly effective: Effective;
  readonly mounts: CgroupMounts;
  readonly systemd: Systemd;
  readonly bootId: Reading<string>;
};

/** The time for manifests and bindings, and then for dependencies; systemd is asked for all pods at once. */
const SETTLE_MS = 3_000;
const TIES_MS = 1_000;
const POLL_MS = 20;
const SCRATCH_MS = 1_000;
const LINKS_MS = 1_000;
const NOT_LOOKED_AT = unknown('timed-out', 'disk directories', `not examined within ${LINKS_MS / 1_000} s`);
const NOT_ALL_READ = unknown('timed-out', 'manifests', `not all of them were read within ${SETTLE_MS / 1_000} s`);
const UNTOLD = unknown('timed-out', 'systemd', 'it did not answer about the units');
const ONLY_ROOT = 'only root can ask it where a container runs';
/** A directory that hangs is known by then. */
const DIRECTORIES_MS = 3_000;
/** Only the first ones are read if there are more. */
const MAX_PODS = 500;
const MAX_PROCESSES = 100;

/** The pods as the agent would see them at this moment, from the same source, which is closed again. Writes nothing. */
export async function lookAtPods({ clock, effective, mounts, systemd, bootId }: Needs): Promise<PodsFacts> {
  const findings = new Map<string, Finding>();
  const unread = new Map<string, Unknown>();
  const hung = new Map<string, Unknown>();
  const kept = readLastGoodManifests(effective.runtimeDirectory, effective.podManifests);
  const isRoot = process.getuid?.() === 0;
  const printed = placeForOutput();
  const source = createStandaloneSource({
    clock,
    // As the agent asks: what podman says depends on who asks, and where.
    run: isRoot ? createCommandRunner({ systemd, clock }) : async () => ({ kind: 'failed', detail: ONLY_ROOT }),
    runtimeDirectory: printed.directory,
    kept: {
      of: (file) => (kept.known ? (kept.value.get(file) ?? null) : null),
      keep: () => undefined,
      isUnread: !kept.known,
    },
    onDenied: (what) => void unread.set(what.where, what),
    mounts,
    systemd,
    wake: () => undefined,
    cgroupRoot: effective.cgroupRoot,
    podManifests: effective.podManifests,
    findings: {
      raise: (finding) => void findings.set(finding.id, finding),
      clear: (id) => void findings.delete(id),
      all: () => [...findings.values()],
    },
    own: [effective.podManifests, effective.runtimeDirectory, effective.stateDirectory, effective.socket],
    hangs: async (paths) => {
      const found = await filesHang(paths, DIRECTORIES_MS);
      for (const [path, why] of found) hung.set(path, why);
      return found;
    },
  });
  const unitOf = (uid: string): string | null => source.find(uid)?.unit ?? null;
  const ties = createTies({ clock, systemd, unitOf, wake: () => undefined });
  const until = async (endMs: number, holds: () => boolean): Promise<void> => {
    while (!holds() && clock.monoMs() < endMs) await sleep(clock, POLL_MS);
  };
  const settlesMs = clock.monoMs() + SETTLE_MS;
  try {
    await source.opened?.();
    const areAllRead = (bound: Reading<readonly BoundPod[]>): boolean =>
      bound.known && bound.value.every(({ declared }) => declared.limitedBy !== 'manifest-unread');
    await until(settlesMs, () => areAllRead(source.pods()) && source.isSettled());
    const bound = source.pods();
    const pods = bound.known ? bound.value : [];
    if (bound.known && !areAllRead(bound)) unread.set(NOT_ALL_READ.where, NOT_ALL_READ);
    const unasked = isRoot ? [] : pods.filter(({ isUnlocated }) => isUnlocated);
    for (const { declared } of unasked) findings.delete(bindingId(podName(declared)));
    if (unasked.length > 0) unread.set('podman', unknown('unreadable', 'podman', ONLY_ROOT));
    const hasUnits = pods.some(({ declared }) => unitOf(declared.uid) !== null);
    ties.tied(pods);
    if (hasUnits && systemd.isUp()) await until(clock.monoMs() + TIES_MS, ties.isTold);
    const areTold = ties.isTold();
    const tied = ties.tied(pods);
    const examined = source.scratchTold().then(() => known(true as const));
    const restMs = Math.max(settlesMs - clock.monoMs(), 0) + SCRATCH_MS;
    const scratch = await within(clock, restMs, examined, () =>
      unknown('timed-out', 'scratch directories', `not examined within ${(SETTLE_MS + SCRATCH_MS) / 1_000} s`),
    );
    const serverAmong = createFileServers();
    const facts = { clock, mounts, systemd, serverAmong, hung: scratch.known ? known(hung) : scratch };
    const found = await Promise.all(
      tied.slice(0, MAX_PODS).map((pod) => foundPod(pod, unitOf(pod.declared.uid), facts)),
    );
    // It matters only for one that is refused now.
    const isRefused = [...findings.keys()].some((id) => id.startsWith(MANIFEST));
    return {
      pods: found,
      declared: tied.map(({ declared }) => declared),
      findings: [...findings.values()],
      unread: [...unread.values(), ...(kept.known || !isRefused ? [] : [kept])],
      units: areTold ? known(true as const) : UNTOLD,
      scratch,
      hung: [...hung.values()],
      held: heldUnits(effective.runtimeDirectory, bootId),
      sharedLimits: sharedLimits(mounts, effective.cgroupRoot, found.flatMap(placeOf)),
    };
  } finally {
    ties.close();
    await source.close();
    printed.remove();
  }
}

async function foundPod(
  bound: BoundPod,
  unit: string | null,
  needs: Pick<Needs, 'clock' | 'mounts' | 'systemd'> & {
    readonly serverAmong: ReturnType<typeof createFileServers>;
    readonly hung: Reading<ReadonlyMap<string, Unknown>>;
  },
): Promise<FoundPod> {
  const { clock, mounts, systemd, serverAmong, hung } = needs;
  const { cgroup, directories = [], scratch = [] } = bound;
  const disk = directories.filter((path) => !scratch.includes(path));
  // None is accessed before it is known which of them hang.
  const linked = hung.known ? linkedAmong(disk, hung.value).then(known) : Promise.resolve(hung);
  const pids = cgroup.known ? firstProcesses(mounts, cgroup.value) : known([]);
  return {
    bound,
    unit,
    ...(cgroup.known && mayRun(mounts, cgroup.value)
      ? memoryOf(mounts, cgroup.value)
      : { memoryBytes: null, limitBytes: null }),
    oomScores: ifKnown(pids, oomScoresOf),
    served: ifKnown(pids, serverAmong),
    timeout: unit === null || !systemd.isUp() ? null : await unitTimeout(systemd, unit),
    linkedDisks: await within(clock, LINKS_MS, linked, () => NOT_LOOKED_AT),
  };
}

/** An empty cgroup is not a running pod. */
function mayRun(mounts: CgroupMounts, ref: CgroupRef): boolean {
  const populated = isPopulated(mounts, ref);
  return !populated.known || populated.value;
}

function placeOf({ bound }: FoundPod): readonly { readonly name: string; readonly path: string }[] {
  return bound.cgroup.known ? [{ name: nameOf({ bound }), path: bound.cgroup.value.path }] : [];
}

function memoryOf(mounts: CgroupMounts, { path }: CgroupRef): Pick<FoundPod, 'memoryBytes' | 'limitBytes'> {
  const memory = openMemory(mounts, path);
  const [use, limit] = [memory.read(), memory.limit()];
  memory.close();
  return {
    memoryBytes: use.known ? known(use.value.workingSetBytes) : use,
    limitBytes: limit,
  };
}

function firstProcesses(mounts: CgroupMounts, ref: CgroupRef): Reading<readonly number[]> {
  return ifKnown(processesOf(mounts, ref), (pids) => known(pids.slice(0, MAX_PROCESSES)));
}

function oomScoresOf(pids: readonly number[]): FoundPod['oomScores'] {
  const scores = pids.map(readOomScoreAdj);
  // A process that has ended meanwhile does not matter.
  const unread = scores.find((score): score is Unknown => !score.known && score.why !== 'absent');
  return (
    unread ??
    known([...new Set(scores.flatMap((score) => (score.known ? [score.value] : [])))].toSorted((a, b) => a - b))
  );
}

/** Only those of this boot: a reboot releases all units. */
function heldUnits(runtimeDirectory: string, bootId: Reading<string>): Reading<readonly HeldUnit[]> {
  const read = readOwnFile(heldPath(runtimeDirectory), readHeld);
  if (!read.known) return read.why === 'absent' ? known([]) : read;
  if (read.value === null) return unknown('malformed', heldPath(runtimeDirectory), 'it does not say which');
  const { bootId: ofBoot, units } = read.value;
  return ifKnown(bootId, (id) => known(ofBoot === id ? units : []));
}

export const nameOf = ({ bound }: Pick<FoundPod, 'bound'>): string => podName(bound.declared);
