import { podName } from '../core/pod/pod.ts';
import { sayProblem } from '../document/problem.ts';
import { directoryIdentity } from '../host/directory-identity.ts';
import { unsafePlace } from '../host/mounts.ts';
import type { Finding, Findings } from '../ports.ts';
import { refusedScratch, sayUnsafeScratch, unsafeScratch, unsafeScratchId } from '../words/finding-standalone.ts';
import { SCRATCH } from './annotation.ts';
import { overlap } from './directories.ts';
import type { ManifestPod } from './manifest.ts';
import type { SeenDirectories } from './seen-directories.ts';

/**
 * The scratch directories of each pod that may be emptied, judged by their names: none that overlaps with a directory of
 * another pod or of the agent. The others are left out and reported as findings. Whether one is a link, a mount point or
 * another pod's directory by another name is checked when it is emptied (host/empty-directory.ts).
 */
export function withSafeScratch(
  pods: readonly ManifestPod[],
  own: readonly string[],
): { readonly pods: readonly ManifestPod[]; readonly refused: readonly Finding[] } {
  const declared = pods.flatMap((pod) => [...pod.disk, ...pod.scratch].map((path) => ({ path, pod, by: nameOf(pod) })));
  const taken = [...own.map((path) => ({ path, pod: null, by: 'nodewarden itself' })), ...declared];
  const refused: Finding[] = [];
  const safe = pods.map((pod) => {
    const scratch = pod.scratch.filter((path) => {
      const other = taken.find((one) => one.pod !== pod && overlap(path, one.path));
      if (other === undefined) return true;
      refused.push(refusedScratch(nameOf(pod), at(pod), path, other));
      return false;
    });
    return { ...pod, scratch };
  });
  return { pods: safe, refused };
}

/**
 * When manifests are read, reports scratch directories that could not be emptied in their current state, and notes which
 * directories all those of the pods are, `declared` including those that are left out. Beside the loop, one round at a
 * time: a file system that hangs blocks one thread. Resolves when these pods, or later ones, were looked at.
 */
export function createScratchPlaces(
  findings: Findings,
  seen: SeenDirectories,
): (pods: readonly ManifestPod[], declared?: readonly ManifestPod[]) => Promise<void> {
  /** The latest call; earlier calls that are still running stop. */
  let latest: readonly ManifestPod[] = [];
  let last = Promise.resolve();
  const look = async (pods: readonly ManifestPod[], declared: readonly ManifestPod[]): Promise<void> => {
    for (const pod of pods) {
      const unsafe = await unsafeOf(pod);
      if (pods !== latest) return;
      if (unsafe.length === 0) findings.clear(unsafeScratchId(nameOf(pod)));
      else findings.raise(unsafeScratch(nameOf(pod), at(pod), unsafe));
    }
    for (const path of declared.flatMap(({ disk, scratch }) => [...disk, ...scratch])) {
      const identity = await directoryIdentity(path);
      if (pods !== latest) return;
      if (identity !== null) seen.note(path, identity);
    }
  };
  return (pods, declared = pods) => {
    latest = pods;
    last = last.then(() => (pods === latest ? look(pods, declared) : undefined));
    return last;
  };
}

/** The same as sentences with file and line, for manifests that are not in use. */
export async function scratchWarnings(pods: readonly ManifestPod[]): Promise<readonly string[]> {
  const warnings: string[] = [];
  for (const pod of pods) {
    const unsafe = await unsafeOf(pod);
    if (unsafe.length > 0) warnings.push(at(pod)(sayUnsafeScratch(unsafe)));
  }
  return warnings;
}

async function unsafeOf({ scratch }: ManifestPod): Promise<readonly { readonly path: string; readonly why: string }[]> {
  const unsafe: { readonly path: string; readonly why: string }[] = [];
  for (const path of scratch) {
    const why = await unsafePlace(path);
    if (why !== null) unsafe.push({ path, why });
  }
  return unsafe;
}

const at =
  (pod: ManifestPod) =>
  (what: string): string =>
    sayProblem(pod.problem(what, SCRATCH));
const nameOf = ({ declared }: ManifestPod): string => podName(declared);
