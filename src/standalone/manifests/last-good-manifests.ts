import { known, type Reading } from '../../core/reading.ts';
import { isNumber, isText, recordOf, shape } from '../../core/shape.ts';
import { isDenied } from '../../host/file-error.ts';
import { readOwnFile } from '../../host/own/own-file.ts';
import type { Clock } from '../../ports.ts';
import { loadRuntimeFile, saveRuntimeFile } from './runtime-file.ts';

/** The last good text of each manifest, kept across restarts of the agent: it may become invalid meanwhile. */
export type LastGoodManifests = {
  readonly of: (file: string) => string | null;
  /** Stores the last good text of each file; if there is no room for all, those that come first. */
  readonly keep: (texts: ReadonlyMap<string, string>) => void;
  /** What is stored is not known. */
  readonly isUnread?: boolean;
};

/** The file may have 1 MiB. What is not stored is not in force after a restart if it is invalid then. */
const MOST_BYTES = 512 * 1024;
type Kept = {
  readonly schema: number;
  readonly directory: string;
  readonly files: { readonly [file: string]: string };
};
const isKept = shape<Kept>({ schema: isNumber, directory: isText, files: recordOf(isText, isText) });

const pathIn = (runtimeDirectory: string): string => `${runtimeDirectory}/manifests-last-good.json`;
const readKept = (found: unknown): Kept | null => (isKept(found) ? found : null);
const ofDirectory = (kept: Kept | null, directory: string): ReadonlyMap<string, string> =>
  new Map(kept?.directory === directory ? Object.entries(kept.files) : []);

/** Those that the agent has stored, or would find at its start; what cannot be used it would not use either. */
export function readLastGoodManifests(
  runtimeDirectory: string,
  directory: string,
): Reading<ReadonlyMap<string, string>> {
  const found = readOwnFile(pathIn(runtimeDirectory), readKept);
  if (!found.known) return isDenied(found) ? found : known(new Map());
  return known(ofDirectory(found.value, directory));
}

/** `directory`: of the manifests. What was stored for another directory is not used. */
export function openLastGoodManifests(runtimeDirectory: string, directory: string, clock: Clock): LastGoodManifests {
  const path = pathIn(runtimeDirectory);
  let kept = ofDirectory(loadRuntimeFile(path, readKept, clock).value, directory);
  return {
    of: (file) => kept.get(file) ?? null,
    keep: (texts) => {
      if (texts.size === kept.size && [...texts].every(([file, text]) => kept.get(file) === text)) return;
      kept = texts;
      // If the disk is full, they stay in force as long as this agent runs.
      saveRuntimeFile(path, { schema: 1, directory, files: withRoom(texts) });
    },
  };
}

function withRoom(texts: ReadonlyMap<string, string>): Kept['files'] {
  let leftBytes = MOST_BYTES;
  const files: { [file: string]: string } = {};
  for (const [file, text] of texts) {
    const bytes = Buffer.byteLength(JSON.stringify({ [file]: text }));
    if (bytes > leftBytes) continue;
    leftBytes -= bytes;
    files[file] = text;
  }
  return files;
}
