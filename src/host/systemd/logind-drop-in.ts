import { unlinkSync } from 'node:fs';
import { basename, join } from 'node:path';
import { known, type Reading, unknown } from '../../core/reading.ts';
import { fileUnknown } from '../file-error.ts';
import { distrust, ensureDirectory, listDirectory, readText, writeAtomic } from '../files.ts';

/** InhibitDelayMaxSec in one file; `delayMs` null: logind cannot parse it, and the next file applies. */
export type DelaySetting = { readonly path: string; readonly text: string; readonly delayMs: number | null };
/** Our drop-in for logind among those of others (kubelet-shutdown.md 2.5). */
export type LogindDropIn = {
  /** The file that will be in force once logind reloads; null: no file sets it. */
  readonly winner: () => Reading<DelaySetting | null>;
  /** Writes ours under a name that sorts after all others. Infinity: no limit. `isNew` false: it already exists. */
  readonly write: (delayMs: number) => Reading<{ readonly path: string; readonly isNew: boolean }>;
  /** Removes ours only. `none`: there was none. */
  readonly remove: () => Reading<'removed' | 'none'>;
};

const OWN_DIRECTORY = 'run/systemd/logind.conf.d';
/** An earlier directory hides files of the same name in the later ones. */
const DIRECTORIES = [
  'etc/systemd/logind.conf.d',
  OWN_DIRECTORY,
  'usr/local/lib/systemd/logind.conf.d',
  'usr/lib/systemd/logind.conf.d',
];
/** Only the first that exists counts, and every drop-in overrides it. */
const MAIN_FILES = ['etc', 'run', 'usr/local/lib', 'usr/lib'].map((at) => `${at}/systemd/logind.conf`);
const NAME = 'nodewarden.conf';
const MAX_FILES = 1_000;
const MAX_FILE_BYTES = 256 * 1024;
const MAX_NAME_BYTES = 255;

type DropIn = { readonly name: string; readonly path: string; readonly isOurs: boolean };

/** `owner`: the runtime directory of the agent that writes it; `root`: where the machine's files are. */
export function createLogindDropIn(owner: string, root = '/'): LogindDropIn {
  // A drop-in of another agent, such as a demo, is not ours.
  const mark = `# Written by nodewarden for ${JSON.stringify(owner)}, which removes it again when it needs no delay.`;
  const own = join(root, OWN_DIRECTORY);

  function dropIns(): Reading<readonly DropIn[]> {
    const found = new Map<string, DropIn>();
    for (const directory of DIRECTORIES) {
      const names = listDirectory(join(root, directory), MAX_FILES);
      if (!names.known && names.why === 'absent') continue;
      if (!names.known) return names;
      for (const name of names.value) {
        if (!name.endsWith('.conf') || name.startsWith('.') || found.has(name)) continue;
        const path = join(root, directory, name);
        found.set(name, { name, path, isOurs: directory === OWN_DIRECTORY && isMarked(path, mark) });
      }
    }
    return known([...found.values()].sort((a, b) => compareNames(a.name, b.name)));
  }

  function winner(): Reading<DelaySetting | null> {
    const present = dropIns();
    if (!present.known) return present;
    const main = MAIN_FILES.map((path) => join(root, path)).find((path) => readText(path, MAX_FILE_BYTES).known);
    const paths = [...(main === undefined ? [] : [main]), ...present.value.map(({ path }) => path)];
    const settings = paths.flatMap((path) => {
      const setting = readSetting(path);
      return setting === null ? [] : [setting];
    });
    return known(settings.findLast(({ delayMs }) => delayMs !== null) ?? null);
  }

  function write(delayMs: number): ReturnType<LogindDropIn['write']> {
    const present = dropIns();
    if (!present.known) return present;
    const made = ensureDirectory(own, 0o755);
    if (!made.known) return made;
    const distrusted = distrust(own);
    if (distrusted !== null) return unknown('unreadable', own, distrusted);
    const name = lastName(present.value.filter((file) => !file.isOurs).map((file) => file.name));
    if (name === null) return unknown('unreadable', own, 'no file name sorts after those that are there');
    const path = join(own, name);
    const value = delayMs === Number.POSITIVE_INFINITY ? 'infinity' : String(Math.ceil(delayMs / 1_000));
    const text = `${mark}\n[Login]\nInhibitDelayMaxSec=${value}\n`;
    const stale = present.value.filter((file) => file.isOurs && file.name !== name);
    const old = readText(path, MAX_FILE_BYTES);
    if (old.known && old.value === text && stale.length === 0) return known({ path, isNew: false });
    const written = writeAtomic(path, text, 0o644);
    if (!written.known) return written;
    for (const file of stale) removeFile(file.path);
    return known({ path, isNew: true });
  }

  function remove(): Reading<'removed' | 'none'> {
    const names = listDirectory(own, MAX_FILES);
    if (!names.known) return names.why === 'absent' ? known('none') : names;
    const ours = names.value.filter((name) => name.endsWith(NAME)).map((name) => join(own, name));
    let did: 'removed' | 'none' = 'none';
    for (const path of ours.filter((path) => isMarked(path, mark))) {
      const gone = removeFile(path);
      if (!gone.known) return gone;
      did = 'removed';
    }
    return known(did);
  }

  return { winner, write, remove };
}

/** Recognised by our first line: somebody else's file, link or device under our name is left alone. */
function isMarked(path: string, mark: string): boolean {
  if (!basename(path).endsWith(NAME)) return false;
  const text = readText(path, MAX_FILE_BYTES);
  return text.known && text.value.startsWith(`${mark}\n`);
}

/** As logind sorts: by bytes. */
function compareNames(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b));
}

function lastName(others: readonly string[]): string | null {
  const last = others.reduce((a, b) => (compareNames(a, b) > 0 ? a : b), '');
  // The last one sorts after any name, because it is that name with a suffix.
  const names = [`zz-${NAME}`, `zzz-${NAME}`, `zzzz-${NAME}`, `${last}-${NAME}`];
  const name = names.find((mine) => compareNames(mine, last) > 0);
  return name === undefined || Buffer.byteLength(name) > MAX_NAME_BYTES ? null : name;
}

/** The last line of the section that sets it; a later line that logind cannot parse leaves an earlier one in force. */
function readSetting(path: string): DelaySetting | null {
  const text = readText(path, MAX_FILE_BYTES, 'followed');
  if (!text.known) return null;
  let section = '';
  let setting: DelaySetting | null = null;
  for (const line of text.value
    .replace(/\\\n/g, ' ')
    .split('\n')
    .map((raw) => raw.trim())) {
    const [, header] = /^\[(.*)\]$/.exec(line) ?? [];
    if (header !== undefined) section = header;
    const [, value] = /^InhibitDelayMaxSec\s*=\s*(.*)$/.exec(line) ?? [];
    if (section !== 'Login' || value === undefined) continue;
    const delayMs = parseSeconds(value);
    if (setting === null || delayMs !== null || setting.delayMs === null) setting = { path, text: value, delayMs };
  }
  return setting;
}

/** systemd.time(7), in milliseconds. */
const UNITS: readonly (readonly [RegExp, number])[] = [
  [/^(s|sec|seconds?|)$/, 1_000],
  [/^(m|min|minutes?)$/, 60_000],
  [/^(h|hr|hours?)$/, 3_600_000],
  [/^(ms|msec)$/, 1],
  // The two micro signs, escaped: one letter beyond Latin-1 would double the bundle in memory.
  [/^(us|usec|[\u00b5\u03bc]s)$/, 0.001],
  [/^(d|days?)$/, 86_400_000],
  [/^(w|weeks?)$/, 604_800_000],
  [/^(M|months?)$/, 2_629_800_000],
  [/^(y|years?)$/, 31_557_600_000],
];

/** `2min 30s`, `0.5`, `infinity`; null: none. */
function parseSeconds(text: string): number | null {
  if (text === 'infinity') return Number.POSITIVE_INFINITY;
  const part = /\s*\+?(\d+\.?\d*|\.\d+)\s*([a-zA-Z\u00b5\u03bc]*)\s*/y;
  let sumMs = 0;
  do {
    const [, count, unit] = part.exec(text) ?? [];
    const unitMs = UNITS.find(([names]) => unit !== undefined && names.test(unit))?.[1];
    if (unitMs === undefined) return null;
    sumMs += Number(count) * unitMs;
  } while (part.lastIndex < text.length);
  return sumMs;
}

function removeFile(path: string): Reading<true> {
  try {
    unlinkSync(path);
    return known(true);
  } catch (cause) {
    return fileUnknown(path, cause);
  }
}
