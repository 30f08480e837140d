import type { Unknown } from '../core/reading.ts';
import { escapeUnsafe } from '../core/units/escape.ts';
import { MAX_DOCUMENT_BYTES } from '../document/document.ts';
import { type Problem, sayProblem } from '../document/problem.ts';
import { isDenied } from '../host/file-error.ts';
import { directoryStamp, distrust, listDirectory, readDocument } from '../host/files.ts';
import type { Clock, Finding, Findings } from '../ports.ts';
import {
  MANIFESTS,
  manifestId,
  manifestRefused,
  manifestsUnreadable,
  samePod,
  samePodId,
} from '../words/finding-standalone.ts';
import type { LastGoodManifests } from './last-good-manifests.ts';
import { keysOf, type ManifestPod, parseManifest } from './manifest.ts';

export type ManifestFilesNeeds = {
  readonly podManifests: string;
  readonly findings: Findings;
  readonly clock: Pick<Clock, 'wallMs'>;
  /** Absent: a manifest that became invalid before the start is not in force. */
  readonly kept?: LastGoodManifests;
  /** Told instead of a finding about what this user may not read, but the agent may. */
  readonly onDenied?: (what: Unknown) => void;
};
export type ManifestFiles = {
  /** Reads the directory again; true if the pods changed. */
  readonly read: () => boolean;
  /**
   * D13: on the decision path. Takes new valid files of the directory, and reports nothing about the rest, which may be half
   * written: `read` follows once the directory has been quiet for a moment. One call if nothing has changed. True if the
   * pods changed.
   */
  readonly readNew: () => boolean;
  /** In the order of appearance, so that a new manifest cannot displace one that is in force. */
  readonly pods: () => readonly ManifestPod[];
};

/** Files of any kind: ten times the pods for which looks were measured. */
export const MAX_FILES = 10_000;
export const IS_MANIFEST = /^[^.].*\.(ya?ml|json)\s*$/s;

/** The maximum number read between a look and its choice. */
const MOST_NEW = 100;

/** Why a file of this name is not read: its name could be mistaken for part of a message. Null: it is read. */
export function refusedName(directory: string, name: string): string | null {
  const shown = escapeUnsafe(name);
  return shown === name.trimEnd()
    ? null
    : `${directory}/${shown}: the name of a manifest must not contain line ends or other invisible characters, or end in a space: rename it`;
}
const PROBLEMS_SHOWN = 3;

type File = {
  /** Null: it could not be read, so the next readable text counts as a change. */
  readonly text: string | null;
  /** In force: the last good text, and what it declares. Null: nothing of this file is in force. */
  readonly good: string | null;
  readonly pods: readonly ManifestPod[];
};
const NOTHING: Pick<File, 'good' | 'pods'> = { good: null, pods: [] };
/** Only blank lines, comments and document markers: a file may look like this for a moment while an editor writes it. */
const holdsNothing = (text: string): boolean =>
  text.split('\n').every((line) => /^(?:#.*|---|\.\.\.)?$/.test(line.trim()));

/** The manifests of a directory: the last good version of each file, and a finding for each invalid one. */
export function createManifestFiles(needs: ManifestFilesNeeds): ManifestFiles {
  const { podManifests: directory, findings, clock, kept } = needs;
  const files = new Map<string, File>();
  let pods: readonly ManifestPod[] = [];
  /** The directory's stamp when it was read; null: it may have changed since. */
  let stamp: string | null = null;
  /** Findings for what `readNew` took are not reported yet. */
  let isUnsaid = false;

  /** `text` null: it may not or cannot be read; `why` gives the reason, and `denied` if it is this user's. */
  const textOf = (name: string): { readonly text: string | null; readonly why: string; readonly denied?: Unknown } => {
    const path = `${directory}/${name}`;
    const refused = refusedName(directory, name);
    if (refused !== null) return { text: null, why: refused };
    const text = readDocument(path, MAX_DOCUMENT_BYTES);
    if (!text.known && isDenied(text)) return { text: null, why: sayUnread(text), denied: text };
    const distrusted = distrust(path);
    if (distrusted !== null) return { text: null, why: distrusted };
    return text.known ? { text: text.value, why: '' } : { text: null, why: sayUnread(text) };
  };
  const tell = (finding: Finding, denied: Unknown | undefined): void => {
    if (denied !== undefined && needs.onDenied !== undefined) needs.onDenied(denied);
    else findings.raise(finding);
  };
  const readFile = (name: string): boolean => {
    const path = `${directory}/${name}`;
    const before = files.get(name);
    const inForce = before ?? keptBefore(name, path);
    /** True if a text stored by an earlier run comes into force. */
    const refuse = (why: string, bad: string | null = null, denied?: Unknown): boolean => {
      tell(manifestRefused(name, why, inForce.pods.length > 0 || (kept?.isUnread === true ? null : false)), denied);
      // The same bad text is not parsed again each time.
      files.set(name, { text: bad, good: inForce.good, pods: inForce.pods });
      return before === undefined && inForce.pods.length > 0;
    };
    const { text, why, denied } = textOf(name);
    if (text === null) return refuse(why, null, denied);
    if (text === before?.text) return false;
    const manifest = parseManifest(text, path);
    if (manifest.problems.length > 0) return refuse(sayProblems(manifest.problems), text);
    if (inForce.pods.length > 0 && holdsNothing(text)) {
      return refuse(`${path} is empty now; to stop using its pods, remove the file`, text);
    }
    findings.clear(manifestId(name));
    files.set(name, { text, good: text, pods: manifest.pods });
    return true;
  };
  /** It may have become invalid before this run. */
  const keptBefore = (name: string, path: string): Pick<File, 'good' | 'pods'> => {
    const good = kept?.of(name) ?? null;
    const manifest = good === null ? null : parseManifest(good, path);
    return manifest === null || manifest.problems.length > 0 ? NOTHING : { good, pods: manifest.pods };
  };
  const readIfGood = (name: string): File | null => {
    const { text } = textOf(name);
    if (text === null || holdsNothing(text)) return null;
    const { problems, pods: found } = parseManifest(text, `${directory}/${name}`);
    return problems.length > 0 ? null : { text, good: text, pods: found };
  };
  const keepGood = (): void => {
    const bad = [...files].flatMap(([name, { text, good }]) =>
      good !== null && text !== good ? [[name, good] as const] : [],
    );
    kept?.keep(new Map(bad));
  };

  return {
    pods: () => pods,
    read: () => {
      stamp = directoryStamp(directory, clock);
      const distrusted = distrust(directory);
      const listed = listDirectory(directory, MAX_FILES);
      if (distrusted !== null || !listed.known) {
        const why = distrusted ?? (listed.known ? '' : sayUnread(listed));
        tell(manifestsUnreadable(why), !listed.known && isDenied(listed) ? listed : undefined);
        return false;
      }
      findings.clear(MANIFESTS);
      const names = manifestsAmong(listed.value);
      const present = new Set(names);
      let isChanged = isUnsaid;
      isUnsaid = false;
      for (const name of [...files.keys()]) {
        if (present.has(name)) continue;
        files.delete(name);
        for (const idOf of [manifestId, samePodId]) findings.clear(idOf(name));
        isChanged = true;
      }
      for (const name of names) isChanged = readFile(name) || isChanged;
      keepGood();
      if (isChanged) pods = unique([...files], directory, findings);
      return isChanged;
    },
    readNew: () => {
      const now = directoryStamp(directory, clock);
      if (now !== null && now === stamp) return false;
      const listed = distrust(directory) === null ? listDirectory(directory, MAX_FILES) : null;
      if (listed?.known !== true) return false;
      const names = new Set(manifestsAmong(listed.value));
      const fresh = [...names].filter((name) => !files.has(name));
      const found = fresh.slice(0, MOST_NEW).flatMap((name) => {
        const file = readIfGood(name);
        return file === null ? [] : [[name, file] as const];
      });
      stamp = found.length === fresh.length ? now : null;
      if (found.length === 0) return false;
      for (const [name, file] of found) files.set(name, file);
      isUnsaid = true;
      // A renamed file counts under its new name, and a file that an editor moved away stays in force.
      const presentFirst = [...files].toSorted(([a], [b]) => Number(names.has(b)) - Number(names.has(a)));
      pods = unique(presentFirst, directory, null);
      return true;
    },
  };
}

const sayUnread = ({ where, detail }: Unknown): string => `${where}: ${detail}`;
const manifestsAmong = (names: readonly string[]): readonly string[] =>
  names.filter((name) => IS_MANIFEST.test(name)).toSorted();

/** Leaves out a pod whose name or uid an earlier file has. `findings` null: without a finding. */
function unique(
  files: readonly (readonly [string, File])[],
  directory: string,
  findings: Findings | null,
): readonly ManifestPod[] {
  const owners = new Map<string, string>();
  const kept: ManifestPod[] = [];
  for (const [name, file] of files) {
    let first: Finding | null = null;
    for (const pod of file.pods) {
      const keys = keysOf(pod.declared);
      const taken = keys.find((key) => owners.has(key));
      if (taken === undefined) {
        kept.push(pod);
        for (const key of keys) owners.set(key, name);
        continue;
      }
      const other = `${directory}/${owners.get(taken)}`;
      first ??= samePod(name, (what) => sayProblem(pod.problem(what)), other, taken);
    }
    if (first === null) findings?.clear(samePodId(name));
    else findings?.raise(first);
  }
  return kept;
}

function sayProblems(problems: readonly Problem[]): string {
  const said = problems.slice(0, PROBLEMS_SHOWN).map(sayProblem).join('; ');
  const more = problems.length - PROBLEMS_SHOWN;
  return more > 0 ? `${said}; and ${more} more` : said;
}
