import { known, type Reading } from '../core/reading.ts';
import { isNumber, isText, recordOf, shape } from '../core/shape.ts';
import { isDenied } from '../host/file-error.ts';
import { readOwnFile } from '../host/own-file.ts';
import type { Clock } from '../ports.ts';
import { loadRuntimeFile, saveRuntimeFile } from './runtime-file.ts';

/** The last good text of each manifest that has since become invalid, kept across restarts of the agent. */
export type LastGoodManifests = {
  readonly of: (file: string) => string | null;
  /** Stores the texts for all files that are invalid now. */
  readonly keep: (texts: ReadonlyMap<string, string>) => void;
  /** What is stored is not known. */
  readonly isUnread?: boolean;
};

/** The file holds 1 MiB. More is not stored: these manifests are then not in force after a restart. */
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
      const isSame = texts.size === kept.size && [...texts].every(([file, text]) => kept.get(file) === text);
      const bytes = [...texts].reduce((sum, [file, text]) => sum + file.length + text.length, 0);
      if (isSame || bytes > MOST_BYTES) return;
      kept = texts;
      // If the disk is full, they stay in force as long as this agent runs.
      saveRuntimeFile(path, { schema: 1, directory, files: Object.fromEntries(texts) });
    },
  };
}
