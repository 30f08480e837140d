import type { Effective } from '../config/effective.ts';
import type { MonoMs } from '../core/reading.ts';
import { ensureDirectory, type FileKind, kindOf, listDirectory } from '../host/files.ts';
import { actingLock, type Lock, takeLock } from '../host/own/lock-file.ts';
import { distrustDirectory, type OwnDirectory, openOwnDirectory } from '../host/own/own-directory.ts';
import { watchPath } from '../host/watch-path.ts';
import type { Clock, Findings } from '../ports.ts';
import { DIRECTORY_NOT_MADE, directoryNotMade, directoryRemoved, lockNotMade } from '../words/finding-own.ts';
import { sayInstant } from '../words/phrases.ts';

type Directories = Pick<Effective, 'runtimeDirectory' | 'stateDirectory' | 'dryRun'>;
type OwnFilesNeeds = Directories & {
  readonly clock: Clock;
  readonly bootId: string;
  readonly findings: Findings;
  /** The state file in the runtime directory. */
  readonly stateFile: string;
};
/** What to restore when the agent's own directories are removed while it runs. */
type Losses = {
  /** Writes the files of the runtime directory again from memory. */
  readonly rewrite: () => void;
  readonly checkRecord: () => void;
};
export type OwnFiles = {
  readonly recordLost: () => void;
  /** Checks from now on, with each look, and at once when the kernel reports a change. */
  readonly watch: (losses: Losses) => void;
  /** Registers what else to restore beside the record. */
  readonly alsoRestore: (restore: () => void) => void;
  /** Registers a further check: the socket. */
  readonly alsoCheck: (check: () => void) => void;
  /** Call it with each look. */
  readonly seen: (atMs: MonoMs) => void;
  /** A sentence if another agent has taken the directory: this one must then no longer act. */
  readonly isTaken: () => string | null;
  readonly close: () => void;
};

/** Their contents decide which pods are stopped. */
const RUNTIME_FILES = /^(state|held|shutdown-stops|manifests-last-good)[^/]*\.json/;
const STATE_FILES = /^record[^/]*\.jsonl|^config-/;
const DIRECTORY_MODE = 0o750;
/** Looks may be 2 ms apart. */
const CHECK_MS = 1_000;

/** Why our own directories must not be used, as a sentence; null: they may be. */
export function distrustOwn({ runtimeDirectory, stateDirectory }: Omit<Directories, 'dryRun'>): string | null {
  return distrustRuntime(runtimeDirectory) ?? distrustDirectory(stateDirectory, (name) => STATE_FILES.test(name));
}

/** All of them, and nothing that was kept aside. */
const OWN_FILES =
  /^(record|config-last-good|state|held|shutdown-stops|manifests-last-good|oom-scores|oom-kills)[^/]*\.json[^/]*$/;
const KEPT_ASIDE = '.corrupt-';
const FILES_MAX = 10_000;

/** What has the name of one of our files or directories, and is none. */
export function misplaced({ runtimeDirectory, stateDirectory }: Omit<Directories, 'dryRun'>): readonly Misplaced[] {
  return [...new Set([runtimeDirectory, stateDirectory])].flatMap((directory): readonly Misplaced[] => {
    const names = listDirectory(directory, FILES_MAX);
    const itself = names.known ? null : kindOf(directory);
    if (itself !== null && itself !== 'directory') return [{ path: directory, kind: itself, expected: 'directory' }];
    const own = names.known ? names.value : [];
    return own
      .filter((name) => OWN_FILES.test(name) && !name.includes(KEPT_ASIDE))
      .flatMap((name) => {
        const path = `${directory}/${name}`;
        const kind = kindOf(path);
        return kind === null || kind === 'file' ? [] : [{ path, kind, expected: 'file' }];
      });
  });
}
export type Misplaced = { readonly path: string; readonly kind: FileKind; readonly expected: 'file' | 'directory' };

const distrustRuntime = (directory: string): string | null =>
  distrustDirectory(directory, (name) => RUNTIME_FILES.test(name));

/**
 * Takes our own directories, and restores them if they are removed. Throws if they cannot be used, or if another agent acts,
 * or writes a dry run's record, in them.
 */
export function openOwnFiles(needs: OwnFilesNeeds): OwnFiles {
  const { clock, findings, runtimeDirectory, stateDirectory, stateFile } = needs;
  const distrusted = distrustOwn(needs);
  if (distrusted !== null) throw new Error(distrusted);
  // The state is in it, so it is indispensable. A record that cannot be written is a finding of the recorder.
  const there = ensureDirectory(runtimeDirectory, DIRECTORY_MODE);
  if (!there.known) throw new Error(`${there.where}: ${there.detail}`);
  const lock = lockOwn(needs);
  const directory = openOwnDirectory(runtimeDirectory);
  const lost = createAnnouncer(clock, findings);
  let checks: readonly (() => void)[] = [];
  let restores: readonly (() => void)[] = [];
  let unwatch: readonly (() => void)[] = [];
  let checkedMs: MonoMs = Number.NEGATIVE_INFINITY;
  let taken: string | null = null;
  let isLockLost = false;
  /** It has been there: it appears with the first look that can write it. */
  let wasState = false;

  const check = (rewrite: () => void): void => {
    checkedMs = clock.monoMs();
    const is = checkDirectory(directory);
    const hasState = is.kind === 'there' && directory.has(stateFile);
    wasState ||= hasState;
    if (hasState && !isLockLost) return;
    if (is.kind === 'not-ours') {
      findings.raise(directoryNotMade(runtimeDirectory, is.why));
      return;
    }
    const failed = lock.keep();
    isLockLost = failed !== null;
    if (failed?.isHeld === true) taken = failed.why;
    else if (failed !== null) findings.raise(lockNotMade(failed.why));
    else findings.clear(DIRECTORY_NOT_MADE);
    if (taken !== null || hasState) return;
    rewrite();
    const isBack = directory.has(stateFile);
    if (is.kind === 'there' && !(wasState && isBack)) return;
    wasState = isBack;
    lost.tell(runtimeDirectory, 'from-memory');
  };
  return {
    recordLost: () => {
      lost.tell(stateDirectory, 'from-open-files');
      for (const restore of restores) restore();
    },
    alsoRestore: (restore) => {
      restores = [...restores, restore];
    },
    watch: ({ rewrite, checkRecord }) => {
      checks = [...checks, () => check(rewrite), checkRecord];
      const all = (): void => {
        for (const one of checks) one();
      };
      unwatch = [runtimeDirectory, stateDirectory].map((path) => watchPath(path, all, clock));
    },
    alsoCheck: (more) => {
      checks = [...checks, more];
    },
    seen: (atMs) => {
      if (atMs - checkedMs < CHECK_MS) return;
      for (const one of checks) one();
    },
    isTaken: () => taken,
    close: () => {
      for (const end of unwatch) end();
      lock.release();
    },
  };
}

type Checked =
  | { readonly kind: 'there' }
  | { readonly kind: 'made-again' }
  | { readonly kind: 'not-ours'; readonly why: string };

function checkDirectory(directory: OwnDirectory): Checked {
  if (directory.isThere()) return { kind: 'there' };
  const why = distrustRuntime(directory.path) ?? directory.remake();
  return why === null ? { kind: 'made-again' } : { kind: 'not-ours', why };
}

/** Ensures that no other agent acts, or writes a dry run's record, in the same directory. Throws if one does. */
function lockOwn({ runtimeDirectory, dryRun, bootId }: OwnFilesNeeds): Lock {
  const lock = takeLock(dryRun ? `${runtimeDirectory}/lock-dry` : actingLock(runtimeDirectory), bootId);
  if ('keep' in lock) return lock;
  if (!lock.isHeld) throw new Error(lock.why);
  const then = dryRun
    ? 'a second dry run needs a configuration with its own stateDirectory and runtimeDirectory'
    : 'only a dry run (--dry-run) can run beside it';
  throw new Error(`${lock.why}; ${then}`);
}

/** One finding per directory, which is never cleared: whoever removed it should learn of it. */
function createAnnouncer(clock: Clock, findings: Findings) {
  const times = new Map<string, number>();
  return {
    tell: (directory: string, recreated: 'from-memory' | 'from-open-files'): void => {
      const count = (times.get(directory) ?? 0) + 1;
      times.set(directory, count);
      const last = sayInstant(clock.wallMs());
      findings.raise(directoryRemoved(directory, { times: count, last, recreated }));
    },
  };
}
