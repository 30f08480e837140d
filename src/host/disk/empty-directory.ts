import { constants } from 'node:os';
import { known, type Reading, unknown } from '../../core/reading.ts';
import type { Moment } from '../clock.ts';
import { run as runChild } from '../exec.ts';
import type { CommandRunner } from '../systemd/transient.ts';
import type { DirectoryIdentity } from './directory-identity.ts';
import { EMPTIED_AS, EMPTY_DIRECTORY_PROGRAM, NOT_ALL_FOR_ERROR } from './empty-directory-program.ts';
import { unsafePlace } from './mounts.ts';

/** A directory of a dead pod. */
export type ToEmpty = {
  readonly path: string;
  /** When it was measured; null: it never was. */
  readonly measured: DirectoryIdentity | null;
  /** Directories that must be neither this one nor emptied within it. */
  readonly kept: readonly DirectoryIdentity[];
  /** Those of them that it must not be in, either. */
  readonly others: readonly DirectoryIdentity[];
  /** Of the pod; null: it has none. */
  readonly cgroup: string | null;
  /** When the pod was last known to have no process. */
  readonly end: Moment;
};

/** What each exit status of the program means, as a sentence about the path. */
const SAID: { readonly [status: number]: string } = {
  1: 'is not empty: it needs a mount namespace of its own, which could not be created (unshare); the journal says why',
  [EMPTIED_AS.link]: 'is not empty: it, or a directory above it, is a symbolic link or not a directory',
  [EMPTIED_AS.mount]: 'is not empty: a file system is mounted at it or below it',
  [EMPTIED_AS.notAll]: 'is not empty: not everything in it could be removed',
  [EMPTIED_AS.notApart]: 'is not empty: it could not be bind-mounted on its own (mount --bind); the journal says why',
  [EMPTIED_AS.runsAgain]: 'is not empty: the pod runs again: nothing in it was removed',
  [EMPTIED_AS.runsAgainMeanwhile]: 'is not empty: the pod runs again: what is left stays',
  [EMPTIED_AS.unsafe]: 'was not emptied: others could put another directory in its place, or in that of one above it',
  [EMPTIED_AS.another]: 'was not emptied: another directory is at this path than the one that was measured',
  [EMPTIED_AS.declared]: 'was not emptied: it is, or is in, a directory that another pod declares',
  [EMPTIED_AS.holdsDeclared]: 'is not empty: it holds a directory that a pod declares as data, which stays',
  [EMPTIED_AS.changed]: 'is not empty: what was created or changed in it after the end of the pod stays',
};

const APART = ['unshare', '--mount', '--propagation', 'private'];

/** `text`: a sentence about the directory; `runsAgain`: nothing is wrong, the pod needs its files. */
export type NotEmptied = { readonly text: string; readonly runsAgain: boolean };
const RUNS_AGAIN: readonly number[] = [EMPTIED_AS.runsAgain, EMPTIED_AS.runsAgainMeanwhile];

/** Empties a directory but keeps it. Null: done, or it does not exist; else why not. */
export async function emptyDirectory(
  run: CommandRunner,
  asked: ToEmpty,
  timeoutMs: number,
): Promise<NotEmptied | null> {
  const { path } = asked;
  const argv = [...APART, process.execPath, '-', path];
  const ended = await run({ argv, timeoutMs, stdin: programFor(asked), waitsForBus: true });
  switch (ended.kind) {
    case 'exited':
      if (ended.code === 0) return null;
      return { text: `${path} ${await said(ended.code, path)}`, runsAgain: RUNS_AGAIN.includes(ended.code) };
    case 'timed-out':
      return { text: `${path} is not empty: it was not finished after ${timeoutMs / 1_000} s`, runsAgain: false };
    case 'failed':
      return { text: `${path} is not empty: ${ended.detail}`, runsAgain: false };
  }
}

/** An exit status names no directory; if it was judged unsafe, it still is, and says which one. */
async function said(status: number, path: string): Promise<string> {
  const general = SAID[status] ?? saidOfError(status) ?? `is not empty: exit status ${status}`;
  const why = status === EMPTIED_AS.unsafe ? await unsafePlace(path) : null;
  return why === null ? general : `was not emptied: ${why}`;
}

function saidOfError(status: number): string | undefined {
  const code = Object.entries(constants.errno).find(([, errno]) => errno === status - NOT_ALL_FOR_ERROR)?.[0];
  return code === undefined ? undefined : `${SAID[EMPTIED_AS.notAll]} (${code})`;
}

function programFor({ measured, kept, others, cgroup, end }: ToEmpty): string {
  const textOf = ({ device, inode }: DirectoryIdentity): string => `${device}:${inode}`;
  const asked = {
    measured: measured === null ? null : textOf(measured),
    kept: kept.map(textOf),
    others: others.map(textOf),
    cgroup,
    end,
  };
  return `'use strict';\nconst asked = ${JSON.stringify(asked)};\n${EMPTY_DIRECTORY_PROGRAM}`;
}

const LIST_MS = 2_000;
const LEAST_BYTES = 1_000;
/** Nothing is in it, or it does not exist. A child looks, and no further than at one entry: the file system may hang. */
export async function isEmptyDirectory(path: string): Promise<Reading<boolean>> {
  const command = ['find', `${path}/`, '-mindepth', '1', '-maxdepth', '1', '-print', '-quit'];
  const end = await runChild(command, { timeoutMs: LIST_MS, maxOutputBytes: LEAST_BYTES });
  if (end.kind === 'timed-out') return unknown('timed-out', path, `not listed within ${LIST_MS / 1_000} s`);
  if (end.kind === 'failed') return unknown('unreadable', path, end.detail);
  if (end.code === 0) return known(end.stdout === '');
  return end.stderr.includes('No such file or directory') ? known(true) : unknown('unreadable', path, end.stderr);
}
