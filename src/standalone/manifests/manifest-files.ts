import { known, type Reading, type Unknown, unknown } from '../../core/reading.ts';
import { type Problem, sayProblem } from '../../document/problem.ts';
import { isDenied } from '../../host/file-error.ts';
import type { Clock, Finding, Findings } from '../../ports.ts';
import {
  MANIFESTS,
  manifestDoubt,
  manifestDoubtId,
  manifestId,
  manifestRefused,
  manifestsUnreadable,
  noManifestDirectory,
  samePod,
  samePodId,
} from '../../words/finding-standalone.ts';
import type { LastGoodManifests } from './last-good-manifests.ts';
import { keysOf, type ManifestPod, parseManifest } from './manifest.ts';
import {
  createManifestReader,
  HANG_MS,
  IS_MANIFEST,
  inPairs,
  isError,
  type Text,
  type Unread,
} from './manifest-reader.ts';

export type ManifestFilesNeeds = {
  readonly podManifests: string;
  readonly findings: Findings;
  readonly clock: Clock;
  /** Absent: a manifest that became invalid before the start is not in force. */
  readonly kept?: LastGoodManifests;
  /** The first reading takes long, and what it has read so far is in force. */
  readonly partlyRead?: () => void;
  /** Told instead of a finding about what this user may not read, but the agent may. */
  readonly onDenied?: (what: Unknown) => void;
};
/** All of it beside the loop: a file system that hangs blocks threads of the pool, and what was read before stays in force. */
export type ManifestFiles = {
  /**
   * Reads the directory again, and once more if that was requested meanwhile. True if the pods changed. Null: another call
   * is reading.
   */
  readonly read: () => Promise<boolean | null>;
  /**
   * D13: before a choice. Takes valid files of the directory that are new or were `touched`, and reports nothing about the
   * rest, which may be half written: `read` follows once the directory has been quiet for a moment. One call if nothing has
   * changed. True if the pods changed.
   */
  readonly readNew: () => Promise<boolean>;
  /** A file has changed; null: any may have. */
  readonly touched: (name: string | null) => void;
  /** False until every file that has changed was read: further pods may be declared. */
  readonly areAllRead: () => boolean;
  /** After a call that hung. */
  readonly isReadDue: () => boolean;
  /** How long the present call of `readNew` has lasted, ms. 0: none. */
  readonly silentMs: () => number;
  /** In the order of appearance, so that a new manifest cannot displace one that is in force. Unknown until first read. */
  readonly pods: () => Reading<readonly ManifestPod[]>;
  /** Nothing is reported any more. */
  readonly close: () => void;
};

/** The maximum number read between a look and its choice. */
const MOST_NEW = 100;
/** How long pods wait for the first reading of all files, and how often what was read since is added. */
const FIRST_MS = 2_000;
const PART_MS = 500;
/** A file that has changed so recently may be half written. */
const SETTLED_MS = 200;

const PROBLEMS_SHOWN = 3;

type File = {
  /** Null: it could not be read, so the next readable text counts as a change. */
  readonly text: string | null;
  /** In force: the last good text, and what it declares. Null: nothing of this file is in force. */
  readonly good: string | null;
  readonly pods: readonly ManifestPod[];
  /** Null: it may have changed since. */
  readonly stamp: string | null;
  /** The file system gave an error, and nothing of it is in force: it is not known what it declares. */
  readonly isUnread?: boolean;
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
  /** Files that have changed and were not read since, each with the number of its last change. */
  const changed = new Map<string, number>();
  let lastChange = 0;
  /** The first reading goes on, and what it has read so far is in force. */
  let isPart = false;

  const hangs = (): void => {
    if (isClosed) return;
    const why = `no answer within ${HANG_MS / 1_000} s; its file system may hang, or the machine is very busy`;
    if (!pods.known) pods = unknown('timed-out', directory, why);
    // What it answers at last may be an error of a mount that is gone by then.
    isRequested = true;
    findings.raise(manifestsUnreadable(`${directory}: ${why}`));
  };
  const ofAll = createManifestReader(directory, clock, hangs);
  const ofNew = createManifestReader(directory, clock, hangs);

  const tell = (finding: Finding, cause: Unknown | undefined): void => {
    if (cause !== undefined && isDenied(cause) && needs.onDenied !== undefined) needs.onDenied(cause);
    else findings.raise(finding);
  };
  /** True if the pods changed. `found`: as the reader read it. */
  const take = (name: string, found: Text | Unread): boolean => {
    const path = `${directory}/${name}`;
    const before = files.get(name);
    const inForce = before ?? keptBefore(name, path);
    /** True if a text stored by an earlier run comes into force. */
    const refuse = ({ why, cause }: Unread, bad: Text | null = null): boolean => {
      const isUnread = isError(cause) && inForce.good === null;
      const nothing = kept?.isUnread === true ? 'unknown' : isUnread ? 'unread' : 'nothing';
      tell(manifestRefused(name, why, inForce.pods.length > 0 ? 'last-good' : nothing), cause);
      // The same bad text is not parsed again each time.
      files.set(name, { text: null, stamp: null, ...bad, good: inForce.good, pods: inForce.pods, isUnread });
      return before === undefined && inForce.pods.length > 0;
    };
    if ('why' in found) return found.cause?.why === 'absent' ? false : refuse(found);
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
  /** `file` null: nothing of it comes into force now. `isOpen`: until `read` has judged it, or the file system answers. */
  const readIfGood = async (name: string): Promise<{ readonly file: File | null; readonly isOpen: boolean }> => {
    const before = files.get(name);
    const found = await ofNew.text(name, before);
    if (found === null) return { file: null, isOpen: false };
    if ('why' in found) {
      return { file: null, isOpen: isError(found.cause) && (before?.good ?? null) === null };
    }
    if (found.text === before?.text) return { file: null, isOpen: false };
    const isUnsettled = Math.abs(clock.wallMs() - found.changedMs) < SETTLED_MS;
    if (before !== undefined && isUnsettled) return { file: null, isOpen: true };
    const { problems, pods: declared } = parseManifest(found.text, `${directory}/${name}`);
    if (problems.length > 0 || holdsNothing(found.text)) return { file: null, isOpen: (before?.good ?? null) === null };
    return { file: { ...found, good: found.text, pods: declared }, isOpen: false };
  };
  const tellDoubts = (name: string, { text, good, pods: declared }: File): void => {
    // Positions in a version that the file does not have any more would mislead.
    const doubts = text === good ? declared.flatMap((pod) => pod.doubts) : [];
    if (doubts.length === 0) findings.clear(manifestDoubtId(name));
    else findings.raise(manifestDoubt(name, sayProblems(doubts)));
  };
  /** Those first that are not in their files any more. */
  const keepGood = (): void => {
    const good = [...files]
      .toSorted(([, a], [, b]) => Number(a.text === a.good) - Number(b.text === b.good))
      .flatMap(([name, file]) => (file.good === null ? [] : [[name, file.good] as const]));
    kept?.keep(new Map(good));
  };
  const settle = (name: string, change: number | undefined): void => {
    if (changed.get(name) === change) changed.delete(name);
  };
  const settleAll = (all: ReadonlyMap<string, number>): void => {
    for (const [name, change] of all) settle(name, change);
  };
  const readAll = async (): Promise<boolean> => {
    const before = new Map(changed);
    const wereHere = new Map(files);
    const texts = new Map<string, { readonly found: Text | Unread; readonly since: File | undefined }>();
    let isChanged = false;
    const takeRead = (): void => {
      for (const [name, { found, since }] of [...texts].toSorted(([a], [b]) => Number(a > b) - Number(a < b))) {
        // What a choice has taken meanwhile may be newer.
        if (since === files.get(name)) isChanged = take(name, found) || isChanged;
      }
      texts.clear();
    };
    const takePart = (): void => {
      if (isClosed || (pods.known && !isPart)) return;
      cancel = clock.after(PART_MS, takePart);
      if (texts.size === 0) return;
      takeRead();
      isPart = true;
      pods = known(unique([...files], directory, null));
      needs.partlyRead?.();
    };
    let cancel = clock.after(FIRST_MS, takePart);
    const listed = await ofAll.list(null);
    const names = 'why' in listed ? [] : (listed.names ?? []);
    await inPairs(names, async (name) => {
      if (isClosed) return;
      const since = files.get(name);
      const found = await ofAll.text(name, since);
      if (found !== null) texts.set(name, { found, since });
    });
    cancel();
    if (isClosed) return false;
    if ('why' in listed) {
      refuseAll(listed);
      if (!isError(listed.cause)) settleAll(before);
      return false;
    }
    const present = new Set(names);
    // Not one that a choice has just taken: it may be newer than the list.
    const gone = [...files].filter(([name, file]) => !present.has(name) && wereHere.get(name) === file);
    takeRead();
    for (const [name] of gone) {
      files.delete(name);
      for (const idOf of [manifestId, samePodId, manifestDoubtId]) findings.clear(idOf(name));
    }
    findings.clear(MANIFESTS);
    ({ stamp } = listed);
    isChanged ||= isUnsaid || isPart || gone.length > 0;
    isUnsaid = false;
    isPart = false;
    settleAll(before);
    keepGood();
    for (const [name, file] of files) tellDoubts(name, file);
    if (isChanged || !pods.known) pods = known(unique([...files], directory, findings));
    return isChanged;
  };
  const refuseAll = ({ why, cause }: Unread): void => {
    const isMissing = cause?.detail.startsWith('ENOENT') === true;
    tell(manifestsUnreadable(isMissing ? noManifestDirectory(directory) : why), cause);
    if (pods.known) return;
    // A directory that does not exist declares nothing.
    pods = cause?.why === 'absent' ? known([]) : unknown('unreadable', directory, cause?.detail ?? why);
  };
  const takeNew = async (): Promise<boolean> => {
    const listed = await ofNew.list(stamp);
    if ('why' in listed) return false;
    const names = listed.names === null ? null : new Set(listed.names);
    const fresh = [...(names ?? [])].filter((name) => !files.has(name));
    for (const name of fresh) if (!changed.has(name)) changed.set(name, lastChange);
    const found: (readonly [string, File])[] = [];
    for (const name of [...changed.keys()].slice(0, MOST_NEW)) {
      const change = changed.get(name);
      const since = files.get(name);
      const { file, isOpen } = await readIfGood(name);
      if (file !== null && since === files.get(name)) found.push([name, file]);
      if (!isOpen) settle(name, change);
    }
    if (names !== null) stamp = fresh.some((name) => changed.has(name)) ? null : listed.stamp;
    if (found.length === 0 || isClosed) return false;
    for (const [name, file] of found) {
      files.set(name, file);
      findings.clear(manifestId(name));
    }
    isUnsaid = true;
    // A renamed file counts under its new name, and a file that an editor moved away stays in force.
    const isHere = ([name]: readonly [string, File]): number => Number(names?.has(name) ?? true);
    pods = known(
      unique(
        [...files].toSorted((a, b) => isHere(b) - isHere(a)),
        directory,
        null,
      ),
    );
    return true;
  };

  return {
    pods: () => pods,
    read: async () => {
      isRequested = true;
      if (isReading) return null;
      isReading = true;
      let isChanged = false;
      while (isRequested && !isClosed) {
        isRequested = false;
        isChanged = (await readAll()) || isChanged;
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
    touched: (name) => {
      lastChange += 1;
      if (name === null) stamp = null;
      for (const one of name === null ? files.keys() : [name]) if (IS_MANIFEST.test(one)) changed.set(one, lastChange);
    },
    areAllRead: () =>
      pods.known && !isPart && changed.size === 0 && ![...files.values()].some(({ isUnread }) => isUnread),
    isReadDue: () => isRequested && !isReading,
    silentMs: ofNew.silentMs,
    close: () => {
      isClosed = true;
    },
  };
}

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
