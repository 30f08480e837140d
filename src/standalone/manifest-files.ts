import { escapeUnsafe } from '../core/escape.ts';
import { MAX_DOCUMENT_BYTES } from '../document/document.ts';
import { type Problem, sayProblem } from '../document/problem.ts';
import { distrust, listDirectory, readText } from '../host/files.ts';
import type { Findings } from '../ports.ts';
import { type ManifestPod, parseManifest } from './manifest.ts';

export type ManifestFiles = {
  /** Reads the directory again; true when the pods changed. */
  readonly read: () => boolean;
  /** In the order in which they came, so that a new manifest cannot push out one that is in force. */
  readonly pods: () => readonly ManifestPod[];
};

/** Of whatever kind: ten times the pods for which looks were measured. */
export const MAX_FILES = 10_000;
export const IS_MANIFEST = /^[^.].*\.(ya?ml|json)\s*$/s;

/** Why a file of this name is not read: what is said of it could not be told from what is not; null: it is. */
export function refusedName(directory: string, name: string): string | null {
  const shown = escapeUnsafe(name);
  return shown === name.trimEnd()
    ? null
    : `${directory}/${shown}: the name of a manifest must not hold line ends, other characters that nobody sees, or spaces at its end: rename it`;
}
const PROBLEMS_SHOWN = 3;

/** `text` null: it could not be read, so the next readable one is news. */
type File = { readonly text: string | null; readonly pods: readonly ManifestPod[] };

/** The manifests of a directory: each file's last good version, and a finding for each that is bad. */
export function createManifestFiles(directory: string, findings: Findings): ManifestFiles {
  const files = new Map<string, File>();
  let pods: readonly ManifestPod[] = [];

  const readFile = (name: string): boolean => {
    const path = `${directory}/${name}`;
    const before = files.get(name);
    const inForce = before?.pods ?? [];
    const refuse = (why: string): boolean => {
      const what = inForce.length === 0 ? 'nothing of it is used' : 'its last good version stays in force';
      findings.raise({ id: findingOf(name), text: `${why}; ${what}` });
      files.set(name, { text: null, pods: inForce });
      return false;
    };
    const distrusted = refusedName(directory, name) ?? distrust(path);
    if (distrusted !== null) return refuse(distrusted);
    const text = readText(path, MAX_DOCUMENT_BYTES);
    if (!text.known) return refuse(`${text.where}: ${text.detail}`);
    if (text.value === before?.text) return false;
    const manifest = parseManifest(text.value, path);
    if (manifest.problems.length > 0) {
      refuse(sayProblems(manifest.problems));
      // The same bad text is not parsed again each time.
      files.set(name, { text: text.value, pods: inForce });
      return false;
    }
    findings.clear(findingOf(name));
    files.set(name, { text: text.value, pods: manifest.pods });
    return true;
  };

  return {
    pods: () => pods,
    read: () => {
      const distrusted = distrust(directory);
      const listed = listDirectory(directory, MAX_FILES);
      if (distrusted !== null || !listed.known) {
        const why = distrusted ?? (listed.known ? '' : `${listed.where}: ${listed.detail}`);
        findings.raise({ id: DIRECTORY, text: `no manifests can be read: ${why}` });
        return false;
      }
      findings.clear(DIRECTORY);
      const names = listed.value.filter((name) => IS_MANIFEST.test(name)).toSorted();
      const present = new Set(names);
      let isChanged = false;
      for (const name of [...files.keys()]) {
        if (present.has(name)) continue;
        files.delete(name);
        findings.clear(findingOf(name));
        isChanged = true;
      }
      for (const name of names) isChanged = readFile(name) || isChanged;
      if (isChanged) pods = unique([...files], directory, findings);
      return isChanged;
    },
  };
}

const DIRECTORY = 'manifests';
const findingOf = (name: string): string => `manifest/${escapeUnsafe(name)}`;
const sameOf = (name: string): string => `manifest-twice/${name}`;

/** A pod whose name or uid another file has taken before is left out. */
function unique(
  files: readonly (readonly [string, File])[],
  directory: string,
  findings: Findings,
): readonly ManifestPod[] {
  const owners = new Map<string, string>();
  const kept: ManifestPod[] = [];
  for (const [name, file] of files) {
    let first: string | null = null;
    for (const pod of file.pods) {
      const { namespace, name: podName, uid } = pod.declared;
      const keys = [`name ${namespace}/${podName}`, `uid ${uid}`];
      const taken = keys.find((key) => owners.has(key));
      if (taken === undefined) {
        kept.push(pod);
        for (const key of keys) owners.set(key, name);
        continue;
      }
      const other = `${directory}/${owners.get(taken)}`;
      first ??= sayProblem(pod.problem(`${other} has a pod of the ${taken} already; this one is left out`));
    }
    if (first === null) findings.clear(sameOf(name));
    else findings.raise({ id: sameOf(name), text: first });
  }
  return kept;
}

function sayProblems(problems: readonly Problem[]): string {
  const said = problems.slice(0, PROBLEMS_SHOWN).map(sayProblem).join('; ');
  const more = problems.length - PROBLEMS_SHOWN;
  return more > 0 ? `${said}; and ${more} more` : said;
}
