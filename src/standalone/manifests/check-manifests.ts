import { groupBy } from '../../core/group-by.ts';
import type { Unknown } from '../../core/reading.ts';
import { valueAt } from '../../document/check.ts';
import { MAX_DOCUMENT_BYTES, parseDocuments } from '../../document/document.ts';
import { type Problem, problemOfFile, sayProblem } from '../../document/problem.ts';
import { filesHang } from '../../host/disk/hung-disk.ts';
import { isDenied } from '../../host/file-error.ts';
import { distrust, kindOf, listDirectory, readDocument } from '../../host/files.ts';
import { listBeside } from '../../host/files-beside.ts';
import { boundTwice, namedTwice } from '../../words/finding-standalone.ts';
import { keysOf, type ManifestPod, parseManifest } from './manifest.ts';
import { IS_MANIFEST, MAX_FILES, refusedName } from './manifest-reader.ts';
import { moreProtected } from './more-protected.ts';

/** `pods`: as declared, including those in a file with a mistake. */
export type CheckedManifests = {
  readonly pods: readonly ManifestPod[];
  readonly problems: readonly Problem[];
};

const KINDS: readonly unknown[] = ['Pod', 'List', 'PodList'];

/** Whether a file is a manifest, not a configuration, judged by its first document. False if it cannot be read. */
export function isManifestFile(path: string): boolean {
  const text = readDocument(path, MAX_DOCUMENT_BYTES);
  if (!text.known) return false;
  return KINDS.includes(valueAt(parseDocuments(text.value, path, 'kubelet').documents[0]?.value, ['kind']));
}

/** Every mistake in one manifest. Only the running agent knows whether its binding exists. */
export function checkManifest(path: string, hangs?: Unknown): CheckedManifests {
  const refused = (text: string): CheckedManifests => refusedAt(path, text);
  if (hangs !== undefined) return refused(hangs.detail);
  const distrusted = distrust(path);
  if (distrusted !== null) return refused(distrusted);
  const text = readDocument(path, MAX_DOCUMENT_BYTES);
  if (!text.known) return refused(text.detail);
  const { pods, problems } = parseManifest(text.value, path);
  return { pods, problems };
}

/** Of several files with a pod of the same name or uid, all but the first. A running agent keeps to the one it has read first. */
export function repeatedNames(pods: readonly ManifestPod[]): readonly string[] {
  const owners = new Map<string, string>();
  return pods.flatMap(({ declared, problem }) => {
    const { file } = problem('');
    const keys = keysOf(declared);
    const taken = keys.find((key) => (owners.get(key) ?? file) !== file);
    for (const key of keys) if (!owners.has(key)) owners.set(key, file);
    return taken === undefined ? [] : [sayProblem(problem(namedTwice(owners.get(taken) ?? '', taken)))];
  });
}

/** Of several pods with the same binding, those that are not in force. Overlaps of others depend on what runs here. */
export function repeatedBindings(pods: readonly ManifestPod[]): readonly string[] {
  const same = groupBy(pods, ({ target }) => JSON.stringify(target));
  return [...same.values()].flatMap((bound) => {
    const [first, ...others] = bound.toSorted((a, b) => moreProtected(a.declared, b.declared));
    if (first === undefined) return [];
    const { file, line, column } = first.problem('');
    const text = boundTwice(first.declared.boundTo ?? '', `${file}:${line}:${column}`);
    return others.map(({ problem }) => sayProblem(problem(text)));
  });
}

function refusedAt(file: string, text: string): CheckedManifests {
  return { pods: [], problems: [problemOfFile(file, text)] };
}

/** Why manifests of a directory that answers may not be read, as `filesHang`. */
export async function manifestsHang(directory: string, mostMs?: number): Promise<ReadonlyMap<string, Unknown>> {
  const names = await listBeside(directory, MAX_FILES);
  const manifests = (names.known ? names.value : []).filter((name) => IS_MANIFEST.test(name)).toSorted();
  return filesHang(
    manifests.map((name) => `${directory}/${name}`),
    mostMs,
  );
}

/** The same for a whole directory; a missing one has no mistakes. `hung`: what must not be accessed, by path. */
export function checkManifests(directory: string, hung: ReadonlyMap<string, Unknown> = new Map()): CheckedManifests {
  const hangs = hung.get(directory);
  if (hangs !== undefined) return refusedAt(directory, hangs.detail);
  const distrusted = distrust(directory);
  if (distrusted !== null) return refusedAt(directory, distrusted);
  const names = listDirectory(directory, MAX_FILES);
  if (!names.known && kindOf(directory) === null && !isDenied(names)) return { pods: [], problems: [] };
  if (!names.known) return refusedAt(directory, names.detail);
  const checked = names.value
    .filter((name) => IS_MANIFEST.test(name))
    .toSorted()
    .map((name) => {
      const refused = refusedName(directory, name);
      const path = `${directory}/${name}`;
      return refused === null ? checkManifest(path, hung.get(path)) : refusedAt(directory, refused);
    });
  return {
    pods: checked.flatMap(({ pods }) => pods),
    problems: checked.flatMap(({ problems }) => problems),
  };
}
