import type { MonoMs, Unknown } from '../../core/reading.ts';
import { escapeUnsafe } from '../../core/units/escape.ts';
import { MAX_DOCUMENT_BYTES } from '../../document/document.ts';
import { examine, listBeside, readDocumentBeside } from '../../host/files-beside.ts';
import type { Clock } from '../../ports.ts';

/** Files of any kind: ten times the pods for which looks were measured. */
export const MAX_FILES = 10_000;
export const IS_MANIFEST = /^[^.].*\.(ya?ml|json)\s*$/s;
/** A call that lasts longer is reported: local disks answer within milliseconds. */
export const HANG_MS = 2_000;

export type Text = { readonly text: string; readonly stamp: string | null; readonly changedMs: number };
/** `names` null: as before. */
export type Listed = { readonly names: readonly string[] | null; readonly stamp: string | null };
/** `cause`: the file system gave no answer, or an error. Absent: what it answered is refused. */
export type Unread = { readonly why: string; readonly cause?: Unknown };

/** Reads a directory of manifests beside the event loop. Knows nothing of what it has read before. */
export type ManifestReader = {
  /** Null: nothing has changed since it was read as `before`. */
  readonly text: (
    name: string,
    before?: { readonly text: string | null; readonly stamp: string | null },
  ) => Promise<Text | Unread | null>;
  /** `before`: the stamp of the directory when it was listed last; null: it is listed in any case. */
  readonly list: (before: string | null) => Promise<Listed | Unread>;
  /** How long the present call has lasted, ms. 0: there is none. Only of a reader that makes one call at a time. */
  readonly silentMs: () => number;
};

/** `hangs` is called when a call has lasted `HANG_MS`. */
export function createManifestReader(directory: string, clock: Clock, hangs: () => void): ManifestReader {
  let sinceMs: MonoMs | null = null;

  async function answer<T>(call: () => Promise<T>): Promise<T> {
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
  }

  return {
    text: async (name, before) => {
      const path = `${directory}/${name}`;
      const refused = refusedName(directory, name);
      if (refused !== null) return { why: refused };
      const examined = await answer(() => examine(path, clock.wallMs()));
      if (!examined.known) return unread(examined);
      const { distrusted, stamp, changedMs } = examined.value;
      if (distrusted !== null) return { why: distrusted };
      if (stamp !== null && stamp === before?.stamp && before.text !== null) return null;
      const text = await answer(() => readDocumentBeside(path, MAX_DOCUMENT_BYTES));
      return text.known ? { text: text.value, stamp, changedMs } : unread(text);
    },
    list: async (before) => {
      const examined = await answer(() => examine(directory, clock.wallMs()));
      if (!examined.known) return unread(examined);
      const { distrusted, stamp } = examined.value;
      if (distrusted !== null) return { why: distrusted };
      if (stamp !== null && stamp === before) return { names: null, stamp };
      const listed = await answer(() => listBeside(directory, MAX_FILES));
      return listed.known ? { names: manifestsAmong(listed.value), stamp } : unread(listed);
    },
    silentMs: () => (sinceMs === null ? 0 : clock.monoMs() - sinceMs),
  };
}

/** Why a file of this name is not read: its name could be mistaken for part of a message. Null: it is read. */
export function refusedName(directory: string, name: string): string | null {
  const shown = escapeUnsafe(name);
  // What Node.js reads such bytes as is not the name of the file.
  if (name.includes('\uFFFD')) return `${directory}/${shown}: the name of a manifest must be UTF-8: rename it`;
  return shown === name.trimEnd()
    ? null
    : `${directory}/${shown}: the name of a manifest must not contain line ends or other invisible characters, or end in a space: rename it`;
}

/** The file system gave an error, so that it is not known what is there. */
export const isError = (cause: Unknown | undefined): boolean => cause?.why === 'unreadable';

const unread = (cause: Unknown): Unread => ({ why: `${cause.where}: ${cause.detail}`, cause });

const manifestsAmong = (names: readonly string[]): readonly string[] =>
  names.filter((name) => IS_MANIFEST.test(name)).toSorted();

/** Of at least four threads of the pool, a hang leaves two. */
export async function inPairs<T>(items: readonly T[], run: (item: T) => Promise<void>): Promise<void> {
  const left = items.values();
  const one = async (): Promise<void> => {
    for (const item of left) await run(item);
  };
  await Promise.all([one(), one()]);
}
