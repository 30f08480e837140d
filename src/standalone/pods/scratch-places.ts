import { podName } from '../../core/pod/pod.ts';
import type { Unknown } from '../../core/reading.ts';
import { sayProblem } from '../../document/problem.ts';
import { directoryIdentity, linkTarget } from '../../host/disk/directory-identity.ts';
import { filesHang } from '../../host/disk/hung-disk.ts';
import { unsafePlace } from '../../host/disk/mounts.ts';
import type { Finding, Findings } from '../../ports.ts';
import {
  refusedScratch,
  sayLinkedDisk,
  sayUnreadDirectory,
  sayUnsafeScratch,
  unsafeScratch,
  unsafeScratchId,
} from '../../words/finding-standalone.ts';
import { DISK, SCRATCH } from '../manifests/annotation.ts';
import { overlap } from '../manifests/directories.ts';
import type { ManifestPod } from '../manifests/manifest.ts';
import type { SeenDirectories } from './seen-directories.ts';

/**
 * The scratch directories of each pod that may be emptied, judged by their names: none that overlaps with a directory of
 * another pod or of the agent. The others are left out and reported as findings. Whether one is a link, a mount point or
 * another pod's directory by another name is checked when it is emptied (host/disk/empty-directory.ts).
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

export type ScratchNeeds = {
  /** The agent's own directories, which no pod's scratch directory may overlap. */
  readonly own?: readonly string[];
  /** Which of the paths do not answer. For a process that is to end: a thread in a call that hangs would keep it from that. */
  readonly hangs?: (paths: readonly string[]) => Promise<HungPaths>;
};
type HungPaths = ReadonlyMap<string, Unknown>;

/**
 * When manifests are read, reports scratch directories that could not be emptied in their current state, and notes which
 * directories all those of the pods are, `declared` including those that are left out. Beside the loop, one round at a
 * time: a file system that hangs blocks one thread, unless `hangs` tells it first. Resolves when these pods, or later ones, were looked at.
 */
export function createScratchPlaces(
  findings: Findings,
  seen: SeenDirectories,
  hangs: NonNullable<ScratchNeeds['hangs']> = async () => new Map(),
): (pods: readonly ManifestPod[], declared?: readonly ManifestPod[]) => Promise<void> {
  /** The latest call; earlier calls that are still running stop. */
  let latest: readonly ManifestPod[] = [];
  let last = Promise.resolve();
  const look = async (pods: readonly ManifestPod[], declared: readonly ManifestPod[]): Promise<void> => {
    const paths = [...pods, ...declared].flatMap(({ disk, scratch }) => [...disk, ...scratch]);
    const hung = await hangs([...new Set(paths)]);
    for (const pod of pods) {
      const unsafe = await unsafeOf(pod, hung);
      if (pods !== latest) return;
      if (unsafe.length === 0) findings.clear(unsafeScratchId(nameOf(pod)));
      else findings.raise(unsafeScratch(nameOf(pod), at(pod), unsafe));
    }
    for (const path of declared.flatMap(({ disk, scratch }) => [...disk, ...scratch])) {
      const identity = hung.has(path) ? null : await directoryIdentity(path);
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

/** The same, and what is not measured or not known, as sentences with file and line, for manifests that are not in use. */
export async function directoryWarnings(pods: readonly ManifestPod[]): Promise<readonly string[]> {
  const warnings: string[] = [];
  const hung = await filesHang(pods.flatMap(({ disk, scratch }) => [...disk, ...scratch]));
  for (const pod of pods) {
    const unsafe = await unsafeOf(pod, hung);
    if (unsafe.length > 0) warnings.push(at(pod)(sayUnsafeScratch(unsafe)));
    for (const linked of await linkedAmong(pod.disk, hung)) warnings.push(at(pod, DISK)(sayLinkedDisk(linked)));
    for (const path of [...pod.disk, ...pod.scratch]) {
      const why = hung.get(path);
      const annotation = pod.disk.includes(path) ? DISK : SCRATCH;
      if (why !== undefined) warnings.push(at(pod, annotation)(sayUnreadDirectory(path, why.detail)));
    }
  }
  return warnings;
}

/** Those that are symbolic links, with where they lead; of those that hang, nothing is known. */
export async function linkedAmong(
  paths: readonly string[],
  hung: HungPaths,
): Promise<readonly { readonly path: string; readonly to: string }[]> {
  const linked: { readonly path: string; readonly to: string }[] = [];
  for (const path of paths) {
    const to = hung.has(path) ? null : await linkTarget(path);
    if (to !== null) linked.push({ path, to });
  }
  return linked;
}

/**
 * For a manifest's disk directories, since the agent follows no link. What would be emptied is left as it is: a link may be its
 * owner's, and lead to another one's files.
 */
export async function withoutLinks(paths: readonly string[]): Promise<readonly string[]> {
  const linked = await linkedAmong(paths, await filesHang(paths));
  return paths.map((path) => linked.find((one) => one.path === path)?.to ?? path);
}

/** Without those that hang, or were not asked because others do: they may be safe. */
async function unsafeOf(
  { scratch }: ManifestPod,
  hung: HungPaths,
): Promise<readonly { readonly path: string; readonly why: string }[]> {
  const unsafe: { readonly path: string; readonly why: string }[] = [];
  for (const path of scratch) {
    const why = hung.has(path) ? null : await unsafePlace(path);
    if (why !== null) unsafe.push({ path, why });
  }
  return unsafe;
}

const at =
  (pod: ManifestPod, annotation = SCRATCH) =>
  (what: string): string =>
    sayProblem(pod.problem(what, annotation));
const nameOf = ({ declared }: ManifestPod): string => podName(declared);
