import { known, type MonoMs, type Reading, type Unknown, unknown } from '../core/reading.ts';
import { escapeUnsafe } from '../core/units/escape.ts';
import { MAX_DOCUMENT_BYTES } from '../document/document.ts';
import { type Problem, sayProblem } from '../document/problem.ts';
import { isDenied } from '../host/file-error.ts';
import { examine, listBeside, readDocumentBeside } from '../host/files-beside.ts';
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
  readonly clock: Clock;
  /** Absent: a manifest that became invalid before the start is not in force. */
  readonly kept?: LastGoodManifests;
  /** Told instead of a finding about what this user may not read, but the agent may. */
  readonly onDenied?: (what: Unknown) => void;
};
/** All of it beside the loop: a file system that hangs blocks threads of the pool, and what was read before stays in force. */
export type ManifestFiles = {
  /** Reads the directory again, and once more if that was requested meanwhile. True if the pods changed. */
  readonly read: () => Promise<boolean>;
  /**
   * D13: before a choice. Takes new valid files of the directory, and reports nothing about the rest, which may be half
   * written: `read` follows once the directory has been quiet for a moment. One call if nothing has changed. True if the
   * pods changed.
   */
  readonly readNew: () => Promise<boolean>;
  /** After a call that hung. */
  readonly isReadDue: () => boolean;
  /** How long the present call of `readNew` has lasted, ms. 0: none. */
  readonly silentMs: () => number;
  /** In the order of appearance, so that a new manifest cannot displace one that is in force. Unknown until first read. */
  readonly pods: () => Reading<readonly ManifestPod[]>;
  /** Nothing is reported any more. */
  readonly close: () => void;
};

/** Files of any kind: ten times the pods for which looks were measured. */
export const MAX_FILES = 10_000;
export const IS_MANIFEST = /^[^.].*\.(ya?ml|json)\s*$/s;

/** The maximum number read between a look and its choice. */
const MOST_NEW = 100;
/** A call that lasts longer is reported: local disks answer within milliseconds. */
const HANG_MS = 2_000;

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
  /** Null: it may have changed since. */
  readonly stamp: string | null;
};
const NOTHING: Pick<File, 'good' | 'pods'> = { good: null, pods: [] };
/** Only blank lines, comments and document markers: a file may look like this for a moment while an editor writes it. */
const holdsNothing = (text: string): boolean =>
  text.split('\n').every((line) => /^(?:#.*|---|\.\.\.)?$/.test(line.trim()));

/** The manifests of a directory: the last good version of each file, and a finding for each invalid one. */
export function createManifestFiles(needs: ManifestFilesNeeds): ManifestFiles {
  const { podManifests: directory, findings, clock, kept } = needs;
  const files = new Map<string, File>();
  let pods: Reading<readonly ManifestPod[]> = unknown('stale', directory, 'the manifests are still being read');
  /** The directory's stamp when it was read; null: it may have changed since. */
  let stamp: string | null = null;
  /** Findings for what `readNew` took are not reported yet. */
  let isUnsaid = false;
  let isReading = false;
  let isRequested = false;
  let isClosed = false;
  let takingNew: Promise<boolean> | null = null;

  const hangs = (): void => {
    if (isClosed) return;
    const why = `no answer within ${HANG_MS / 1_000} s; its file system may hang`;
    if (!pods.known) pods = unknown('timed-out', directory, why);
    // What it answers at last may be an error of a mount that is gone by then.
    isRequested = true;
    findings.raise(manifestsUnreadable(`${directory}: ${why}`));
  };
  const ofAll = createCalls(clock, hangs);
  const ofNew = createCalls(clock, hangs);

  /** Null: nothing has changed since it was read as `before`. */
  const textOf = async (name: string, calls: Calls, before?: File): Promise<Text | Unread | null> => {
    const path = `${directory}/${name}`;
    const refused = refusedName(directory, name);
    if (refused !== null) return { why: refused };
    const examined = await calls.answer(() => examine(path, clock.wallMs()));
    if (!examined.known) return unread(examined);
    const { distrusted, stamp: at } = examined.value;
    if (distrusted !== null) return { why: distrusted };
    if (at !== null && at === before?.stamp && before.text !== null) return null;
    const text = await calls.answer(() => readDocumentBeside(path, MAX_DOCUMENT_BYTES));
    return text.known ? { text: text.value, stamp: at } : unread(text);
  };
  const tell = (finding: Finding, denied: Unknown | undefined): void => {
    if (denied !== undefined && needs.onDenied !== undefined) needs.onDenied(denied);
    else findings.raise(finding);
  };
  /** True if the pods changed. `found`: as `textOf` read it. */
  const take = (name: string, found: Text | Unread): boolean => {
    const path = `${directory}/${name}`;
    const before = files.get(name);
    const inForce = before ?? keptBefore(name, path);
    /** True if a text stored by an earlier run comes into force. */
    const refuse = ({ why, denied }: Unread, bad: Text | null = null): boolean => {
      tell(manifestRefused(name, why, inForce.pods.length > 0 || (kept?.isUnread === true ? null : false)), denied);
      // The same bad text is not parsed again each time.
      files.set(name, { text: null, stamp: null, ...bad, good: inForce.good, pods: inForce.pods });
      return before === undefined && inForce.pods.length > 0;
    };
    if ('why' in found) return refuse(found);
    const { text, stamp: at } = found;
    if (before !== undefined && text === before.text) {
      files.set(name, { ...before, stamp: at });
      return false;
    }
    const manifest = parseManifest(text, path);
    if (manifest.problems.length > 0) return refuse({ why: sayProblems(manifest.problems) }, found);
    if (inForce.pods.length > 0 && holdsNothing(text)) {
      return refuse({ why: `${path} is empty now; to stop using its pods, remove the file` }, found);
    }
    findings.clear(manifestId(name));
    files.set(name, { text, good: text, pods: manifest.pods, stamp: at });
    return true;
  };
  /** It may have become invalid before this run. */
  const keptBefore = (name: string, path: string): Pick<File, 'good' | 'pods'> => {
    const good = kept?.of(name) ?? null;
    const manifest = good === null ? null : parseManifest(good, path);
    return manifest === null || manifest.problems.length > 0 ? NOTHING : { good, pods: manifest.pods };
  };
  const readIfGood = async (name: string): Promise<File | null> => {
    const found = await textOf(name, ofNew);
    if (found === null || 'why' in found || holdsNothing(found.text)) return null;
    const { problems, pods: declared } = parseManifest(found.text, `${directory}/${name}`);
    return problems.length > 0 ? null : { ...found, good: found.text, pods: declared };
  };
  const keepGood = (): void => {
    const bad = [...files].flatMap(([name, { text, good }]) =>
      good !== null && text !== good ? [[name, good] as const] : [],
    );
    kept?.keep(new Map(bad));
  };
  /** `before`: the stamp of the directory when it was listed last; null: it is listed in any case. */
  const list = async (calls: Calls, before: string | null): Promise<Listed | Unread> => {
    const examined = await calls.answer(() => examine(directory, clock.wallMs()));
    if (!examined.known) return unread(examined);
    const { distrusted, stamp: at } = examined.value;
    if (distrusted !== null) return { why: distrusted };
    if (at !== null && at === before) return { names: null, stamp: at };
    const listed = await calls.answer(() => listBeside(directory, MAX_FILES));
    return listed.known ? { names: manifestsAmong(listed.value), stamp: at } : unread(listed);
  };
  const readAll = async (): Promise<boolean> => {
    const listed = await list(ofAll, null);
    if (isClosed) return false;
    if ('why' in listed) {
      tell(manifestsUnreadable(listed.why), listed.denied);
      return false;
    }
    const names = listed.names ?? [];
    const present = new Set(names);
    // Not one that a choice takes meanwhile.
    const gone = [...files.keys()].filter((name) => !present.has(name));
    const texts = await inPairs(names, (name) => textOf(name, ofAll, files.get(name)));
    if (isClosed) return false;
    let isChanged = false;
    for (const [i, name] of names.entries()) {
      const found = texts[i] ?? null;
      if (found !== null) isChanged = take(name, found) || isChanged;
    }
    for (const name of gone) {
      files.delete(name);
      for (const idOf of [manifestId, samePodId]) findings.clear(idOf(name));
    }
    findings.clear(MANIFESTS);
    ({ stamp } = listed);
    isChanged ||= isUnsaid || gone.length > 0;
    isUnsaid = false;
    keepGood();
    if (isChanged) pods = known(unique([...files], directory, findings));
    return isChanged;
  };
  const takeNew = async (): Promise<boolean> => {
    const listed = await list(ofNew, stamp);
    if ('why' in listed || listed.names === null) return false;
    const names = new Set(listed.names);
    const fresh = [...names].filter((name) => !files.has(name));
    const found: (readonly [string, File])[] = [];
    for (const name of fresh.slice(0, MOST_NEW)) {
      const file = await readIfGood(name);
      if (file !== null) found.push([name, file]);
    }
    stamp = found.length === fresh.length ? listed.stamp : null;
    const taken = found.filter(([name]) => !files.has(name));
    if (taken.length === 0) return false;
    for (const [name, file] of taken) files.set(name, file);
    isUnsaid = true;
    // A renamed file counts under its new name, and a file that an editor moved away stays in force.
    const presentFirst = [...files].toSorted(([a], [b]) => Number(names.has(b)) - Number(names.has(a)));
    pods = known(unique(presentFirst, directory, null));
    return true;
  };

  return {
    pods: () => pods,
    read: async () => {
      isRequested = true;
      if (isReading) return false;
      isReading = true;
      let isChanged = false;
      while (isRequested && !isClosed) {
        isRequested = false;
        isChanged = (await readAll()) || isChanged;
        if (!pods.known) pods = known([]);
      }
      isReading = false;
      return isChanged;
    },
    readNew: async () => {
      if (!pods.known) return false;
      takingNew ??= takeNew().finally(() => {
        takingNew = null;
      });
      return takingNew;
    },
    isReadDue: () => isRequested && !isReading,
    silentMs: ofNew.silentMs,
    close: () => {
      isClosed = true;
    },
  };
}

type Text = { readonly text: string; readonly stamp: string | null };
/** `names` null: as before. */
type Listed = { readonly names: readonly string[] | null; readonly stamp: string | null };
/** `denied`: this user may not read it. */
type Unread = { readonly why: string; readonly denied?: Unknown };
const unread = (why: Unknown): Unread => ({ why: sayUnread(why), ...(isDenied(why) ? { denied: why } : {}) });

type Calls = {
  readonly answer: <T>(call: () => Promise<T>) => Promise<T>;
  readonly silentMs: () => number;
};
/** Calls of one reader, which makes one at a time. */
function createCalls(clock: Clock, hangs: () => void): Calls {
  let sinceMs: MonoMs | null = null;
  return {
    answer: async (call) => {
      sinceMs = clock.monoMs();
      // Due timers run before answers are heard: after a pause of this process, one may have arrived.
      let cancel = clock.after(HANG_MS, () => {
        cancel = clock.after(0, hangs);
      });
      try {
        return await call();
      } finally {
        cancel();
        sinceMs = null;
      }
    },
    silentMs: () => (sinceMs === null ? 0 : clock.monoMs() - sinceMs),
  };
}

/** Of the pool's four threads, a hang leaves two. Results in the order of the items. */
async function inPairs<T, R>(items: readonly T[], run: (item: T) => Promise<R>): Promise<readonly R[]> {
  const results: R[] = [];
  const left = items.entries();
  const one = async (): Promise<void> => {
    for (const [i, item] of left) results[i] = await run(item);
  };
  await Promise.all([one(), one()]);
  return results;
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
