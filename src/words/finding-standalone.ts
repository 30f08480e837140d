import type { PodUid } from '../core/pod/pod.ts';
import { escapeUnsafe } from '../core/units/escape.ts';
import { sayBytes } from '../core/units/quantity.ts';
import type { Finding } from '../ports.ts';

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

export const bindingId = (pod: string): string => `binding/${pod}`;
export const bindingProblem = (pod: string, text: string): Finding => ({ id: bindingId(pod), text });

export const leftMemoryId = (pod: string): string => `left-memory/${pod}`;
export function leftMemory(pod: string, cgroup: string, bytes: number): Finding {
  const meanwhile = 'while memory is short, other pods are evicted for it, also within their requests';
  const todo =
    'delete the files that are not needed (df -h -t tmpfs shows where they may be), and the segments (ipcs -m, ipcrm -m)';
  return {
    id: leftMemoryId(pod),
    text: escapeUnsafe(
      `${pod} has no process, but its cgroup ${cgroup} still holds ${sayBytes(bytes)} in files of a tmpfs or shared memory, which no eviction frees; ${meanwhile}: ${todo}`,
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

export const scratchId = (uid: PodUid): string => `scratch/${uid}`;
export function scratchNotEmptied(uid: PodUid, pod: string, problems: readonly string[]): Finding {
  return { id: scratchId(uid), text: `${pod} was evicted, but ${problems.join('; ')}` };
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

/** Begins the id of each finding about one. */
export const KEPT_STARTING = 'kept-starting/';
export const keptStartingId = (unit: string): string => `${KEPT_STARTING}${unit}`;
/** `needer`: the unit that needs it; null: what starts it is unknown. */
export function leftRunning(unit: string, pod: string, needer: string | null): Finding {
  const why =
    needer === null
      ? 'but something else keeps starting it (a socket, a timer, a dependency)'
      : `but ${needer} needs it`;
  return { id: keptStartingId(unit), text: `${unit} (${pod}) was evicted, ${why}: it is left running` };
}

type Stopper = 'eviction' | 'shutdown';
const CORRUPT = { eviction: 'held-corrupt', shutdown: 'shutdown-stops-corrupt' } as const;
/** The file of stopped pods; `complaint`: what happened to it. */
export function stopsUnusable(by: Stopper, complaint: string): Finding {
  const who = by === 'eviction' ? 'an eviction' : 'a cancelled shutdown';
  return { id: CORRUPT[by], text: `${complaint}: units that ${who} stopped stay down` };
}

export const STOPS_NOT_SAVED = { eviction: 'held-not-saved', shutdown: 'shutdown-stops-not-saved' } as const;
export function stopsNotSaved(by: Stopper, complaint: string): Finding {
  const who = by === 'eviction' ? 'an eviction' : 'a shutdown';
  return {
    id: STOPS_NOT_SAVED[by],
    text: `a restart of the agent would forget which units ${who} stopped: ${complaint}`,
  };
}
