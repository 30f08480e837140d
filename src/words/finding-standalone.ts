import type { PodUid } from '../core/pod/pod.ts';
import { escapeUnsafe } from '../core/units/escape.ts';
import { sayBytes } from '../core/units/quantity.ts';
import type { Finding } from '../ports.ts';
import { sayNames } from './phrases.ts';

/** Prefixes a problem with its position in a manifest. */
type At = (what: string) => string;

export const MANIFESTS = 'manifests';
export function manifestsUnreadable(why: string): Finding {
  return { id: MANIFESTS, text: `no manifests can be read: ${why}` };
}

export const noManifestDirectory = (directory: string): string => `${directory} does not exist: mkdir -p ${directory}`;

export const MANIFESTS_UNWATCHED = 'manifests-unwatched';
export function manifestsUnwatched(directory: string, seconds: number): Finding {
  const todo = 'raise fs.inotify.max_user_instances and fs.inotify.max_user_watches (sysctl)';
  const text = `the kernel does not report changes of ${directory}, so an edited manifest may count ${seconds} s late: ${todo}`;
  return { id: MANIFESTS_UNWATCHED, text };
}

/** Begins the id of each finding about one. */
export const MANIFEST = 'manifest/';
export const manifestId = (file: string): string => `${MANIFEST}${escapeUnsafe(file)}`;
const IN_FORCE = {
  'last-good': 'its last good version stays in force',
  nothing: 'nothing in it is used',
  unknown: 'whether its last good version is in force is not known',
  unread:
    'which pods it declares is not known, and until it can be read, no other pod is evicted that is protected or does not exceed its request',
};
export function manifestRefused(file: string, why: string, inForce: keyof typeof IN_FORCE): Finding {
  return { id: manifestId(file), text: `${why}; ${IN_FORCE[inForce]}` };
}

export const samePodId = (file: string): string => `manifest-twice/${file}`;
/** `taken`: which name or uid of a pod. */
export function samePod(file: string, at: At, other: string, taken: string): Finding {
  return { id: samePodId(file), text: at(`${other} already defines a pod with the ${taken}; this one is ignored`) };
}

/** Begins the id of each finding about what is valid in a manifest, and hardly meant. */
export const MANIFEST_DOUBT = 'manifest-doubt/';
export const manifestDoubtId = (file: string): string => `${MANIFEST_DOUBT}${escapeUnsafe(file)}`;
export const manifestDoubt = (file: string, doubts: string): Finding => ({
  id: manifestDoubtId(file),
  text: `${doubts}; the manifest is valid all the same`,
});

export const namedTwice = (other: string, taken: string): string =>
  `${other} also defines a pod with the ${taken}: one of the two is ignored; rename or remove it`;

export const bindingId = (pod: string): string => `binding/${pod}`;
/** Of `adopt`, after the first mistake in the manifests. */
export const mendFirst = (mistakes: number): string =>
  `${mistakes > 1 ? `this and ${mistakes - 1} more must be mended first` : 'mend it first'}: what a file with a mistake binds would be proposed a second time; nothing was proposed`;

const ONE_OF_TWO = 'of the two manifests, this one is ignored; remove one of them';
/** About the manifest that is left out of two with one cgroup, or one within the other. */
export const overlapping = (path: string, other: string, boundAt: string): string =>
  `${path} overlaps with ${other}, which is bound at ${boundAt}: ${ONE_OF_TWO}`;
export const boundTwice = (what: string, boundAt: string): string =>
  `${what} is also bound at ${boundAt}: ${ONE_OF_TWO}`;
export const isOverlap = (text: string): boolean => text.endsWith(ONE_OF_TWO);
export const bindingProblem = (pod: string, text: string): Finding => ({ id: bindingId(pod), text });

export const noAnswerYet = 'podman has not answered yet';
/** Of a container whose place podman has not said. */
export const sayUnlocated = (name: string): string =>
  `it may run all the same, so that no pod is evicted that is protected or not known to be the cause, until Podman says where. Run podman inspect ${name} as root; if there is no such container, remove the manifest`;

export const leftMemoryId = (pod: string): string => `left-memory/${pod}`;
export function leftMemoryOf(
  pod: string,
  cgroup: string,
  { sharedBytes, ownBytes }: { readonly sharedBytes: number; readonly ownBytes: number },
): Finding {
  const held = [
    ...(sharedBytes > 0 ? [`${sayBytes(sharedBytes)} in files of a tmpfs or shared memory`] : []),
    ...(ownBytes > 0 ? [`${sayBytes(ownBytes)} that processes hold which left it`] : []),
  ];
  const files = 'delete the files that are not needed (df -h -t tmpfs shows where they may be)';
  const todo = [
    ...(sharedBytes > 0 ? [`${files}, and the segments (ipcs -m, ipcrm -m)`] : []),
    `end the processes that left ${sharedBytes > 0 ? 'it, if there are any' : 'it'}`,
  ];
  const meanwhile =
    'with memoryAvailable: reclaimable, no pod within its request is evicted while that is what memory lacks, until less than half of the threshold is available';
  return {
    id: leftMemoryId(pod),
    text: escapeUnsafe(
      `${pod} has no process, but its cgroup ${cgroup} still holds ${held.join(' and ')}; ${meanwhile}. To free it, ${todo.join(', or ')}`,
    ),
  };
}

export const refusedScratchId = (pod: string): string => `scratch-refused/${pod}`;
export function refusedScratch(
  pod: string,
  at: At,
  path: string,
  other: { readonly path: string; readonly by: string },
): Finding {
  const text = `the scratch directory ${path} is never emptied: it overlaps with ${other.path} of ${other.by}`;
  return { id: refusedScratchId(pod), text: at(text) };
}

export const unsafeScratchId = (pod: string): string => `scratch-unsafe/${pod}`;
export function unsafeScratch(
  pod: string,
  at: At,
  unsafe: readonly { readonly path: string; readonly why: string }[],
): Finding {
  return { id: unsafeScratchId(pod), text: at(sayUnsafeScratch(unsafe)) };
}

export function sayUnsafeScratch(unsafe: readonly { readonly path: string; readonly why: string }[]): string {
  return unsafe.map(({ path, why }) => `the scratch directory ${path} would not be emptied: ${why}`).join('; ');
}

/** `to`: where it leads; the path itself: that is not known. */
export const sayLinkedDisk = ({ path, to }: { readonly path: string; readonly to: string }): string =>
  `the disk directory ${path} is a symbolic link, which is not followed, so what the pod has on disk is not measured: name ${to === path ? 'the directory itself' : `${to}, where it leads,`} instead`;

export const sayUnreadDirectory = (path: string, why: string): string =>
  `nothing is known of the directory ${path}: ${why}`;

export const scratchId = (uid: PodUid): string => `scratch/${uid}`;
export function scratchNotEmptied(uid: PodUid, pod: string, problems: readonly string[]): Finding {
  return { id: scratchId(uid), text: `${pod} was evicted, but ${problems.join('; ')}` };
}

export const TIES_UNKNOWN = 'ties-unknown';
export function tiesUnknown(): Finding {
  const text =
    'systemd has not said in time what would stop along with a pod, nor whether that makes it take the machine down (FailureAction=, OnFailure= and the like): until it does, pods are chosen by what it said before, if anything';
  return { id: TIES_UNKNOWN, text };
}

export const stopUnitId = (unit: string): string => `stop-unit/${unit}`;
export function unitNotStopped(unit: string, detail: string): Finding {
  const text = `systemd could not be asked to stop ${unit} (${detail}): its processes were signalled; Restart= may bring it back`;
  return { id: stopUnitId(unit), text };
}

export const restartId = (unit: string): string => `restart/${unit}`;
export function notRestarted(unit: string, detail: string): Finding {
  return { id: restartId(unit), text: `${unit} could not be restarted: ${detail}; retrying` };
}

/** Of a unit whose stop had left it failed. */
export const STARTED_OR_RESET =
  'something else has started and stopped it since, or reset that it had failed (systemctl reset-failed)';

export const HELD_IN_DRY_RUN = 'held-in-dry-run';
export function heldInDryRun(units: readonly { readonly unit: string; readonly pod: string }[]): Finding {
  const names = sayNames(units.map(({ unit, pod }) => `${unit} (${pod})`));
  const text = `an eviction had stopped ${names} before this dry run, which starts nothing: nodewarden release-held does, whatever the pressure`;
  return { id: HELD_IN_DRY_RUN, text };
}

/** Begins the id of each finding about one. */
export const KEPT_STARTING = 'kept-starting/';
export const keptStartingId = (unit: string): string => `${KEPT_STARTING}${unit}`;
export const SOMETHING_STARTS_IT = 'something else keeps starting it (a socket, a timer, a dependency)';
export const sayNeededBy = (unit: string): string => `${unit} needs it`;
export const sayDisplaces = (unit: string): string => `what systemd starts at its end would stop ${unit}`;
/** `action`: `JobTimeoutAction=reboot of web.service` or the like. */
export const sayEndsMachine = (action: string): string => `its stop may make systemd take the machine down (${action})`;
/** `why`: one of these. */
export function leftRunning(unit: string, pod: string, why: string): Finding {
  return { id: keptStartingId(unit), text: `${unit} (${pod}) was evicted, but ${why}: it is left running` };
}

export function notStoppedAgain(unit: string, pod: string, detail: string): Finding {
  const text = `${unit} (${pod}) was evicted and runs again, but systemd could not be asked to stop it (${detail}); retrying`;
  return { id: keptStartingId(unit), text };
}

type Stopper = 'eviction' | 'shutdown';
const CORRUPT = { eviction: 'held-corrupt', shutdown: 'shutdown-stops-corrupt' } as const;
/** The file of stopped pods; `complaint`: what happened to it. */
export function stopsUnusable(by: Stopper, complaint: string): Finding {
  const who = by === 'eviction' ? 'an eviction' : 'a cancelled shutdown';
  return { id: CORRUPT[by], text: `${complaint}: units that ${who} stopped stay down` };
}

/** While no agent runs. */
export const stoppedByShutdown = (units: readonly string[]): string =>
  `not started, because a shutdown has stopped them, which only a running agent undoes if it was cancelled (systemctl start nodewarden): ${sayNames(units)}`;

export const STOPS_NOT_SAVED = { eviction: 'held-not-saved', shutdown: 'shutdown-stops-not-saved' } as const;
export function stopsNotSaved(by: Stopper, complaint: string): Finding {
  const who = by === 'eviction' ? 'an eviction' : 'a shutdown';
  return {
    id: STOPS_NOT_SAVED[by],
    text: `a restart of the agent would forget which units ${who} stopped: ${complaint}`,
  };
}
