import { valueOrNull } from '../core/reading.ts';
import { isNumber, isText, orNull, shape } from '../core/shape.ts';
import { distrust, readText } from '../host/files.ts';
import { readOwnFile } from '../host/own/own-file.ts';
import { readHostSizes } from './host-sizes.ts';
import { configOf, DEFAULT_CONFIG_FILE, type LoadedConfig } from './load.ts';
import { DEFAULT_PATHS } from './schema.ts';

/** The last configuration in force, kept by the agent in case it has to start with a broken one. */
type LastGood = { readonly loaded: LoadedConfig; readonly savedWallMs: number; readonly keptIn: string };

const NAME = 'config-last-good.json';
/** Two documents of the largest size, in JSON. */
const MAX_BYTES = 8 * 1024 * 1024;
const BROKEN_MAX_BYTES = 1024 * 1024;
/** The one field that is needed of a broken file: where its last good text is kept. */
const STATE_DIRECTORY = /^stateDirectory:[ \t]*["']?(\/[^\s"'#]+)/m;

export const lastGoodPath = (stateDirectory: string): string => `${stateDirectory}/${NAME}`;

/** The stored form of a configuration; null: all defaults, which need no file. */
export function sayLastGood({ effective, texts }: LoadedConfig, wallMs: number): string | null {
  if (effective === null || texts === null) return null;
  return `${JSON.stringify({ schema: 1, file: effective.file, savedWallMs: wallMs, ...texts })}\n`;
}

/** The last configuration of this file that was in force; null: none is stored, or it cannot be trusted or used. */
export function loadLastGood(configFile: string | null): LastGood | null {
  const file = configFile ?? DEFAULT_CONFIG_FILE;
  // A file that anybody may write must not choose a directory.
  const broken = distrust(file) === null ? readText(file, BROKEN_MAX_BYTES) : null;
  const named = broken?.known ? STATE_DIRECTORY.exec(broken.value)?.[1] : undefined;
  const usual = DEFAULT_PATHS.stateDirectory;
  for (const directory of named === undefined ? [usual] : [named, usual]) {
    const keptIn = lastGoodPath(directory);
    const isTrusted = (distrust(directory) ?? distrust(keptIn)) === null;
    const found = isTrusted ? valueOrNull(readOwnFile(keptIn, readKept, MAX_BYTES)) : null;
    if (found === null || found.file !== file) continue;
    const loaded = configOf(found.own, file, readHostSizes(), 'owner', found.imported);
    if (loaded.effective !== null && loaded.problems.length === 0) {
      return { loaded, savedWallMs: found.savedWallMs, keptIn };
    }
  }
  return null;
}

type Kept = {
  readonly file: string;
  readonly savedWallMs: number;
  readonly own: string;
  readonly imported: string | null;
};
const isKept = shape<Kept>({ file: isText, savedWallMs: isNumber, own: isText, imported: orNull(isText) });
const readKept = (value: unknown): Kept | null => (isKept(value) ? value : null);
