import { ifKnown, known, type Reading, type Unknown, unknown } from '../core/reading.ts';
import type { Signal } from '../core/signal.ts';
import { MAX_DOCUMENT_BYTES } from '../document/document.ts';
import { kindOf, listDirectory, readDocument } from '../host/files.ts';
import { findKubelet } from '../host/process/kubelet-process.ts';
import type { Clock } from '../ports.ts';
import type { KubeletFirst } from '../words/finding-kube.ts';
import type { Effective } from './effective.ts';
import { kubeletFirsts, kubeletThresholds, readKubeletText, withDefaults } from './kubelet-first.ts';
import { type KubeletFlags, readKubeletFlags } from './kubelet-flags.ts';

type Needs = {
  readonly clock: Clock;
  readonly effective: Pick<Effective, 'kubeletConfig' | 'thresholds'>;
  /** Its own word; absent: it is not asked. */
  readonly configz?: (() => Promise<Reading<string>>) | undefined;
  readonly find?: typeof findKubelet | undefined;
};
type Said = {
  /** The file that it is started with, into which it fills its defaults; `{}`: not known; null: it has none, or they are filled in. */
  readonly file: string | null;
  /** What is merged into it, in this order. */
  readonly besides: readonly string[];
  readonly flags: KubeletFlags['fields'];
  readonly from: string;
  readonly unread: Unknown | null;
};

const ENTRIES_MAX = 1_000;
const UNKNOWN_FILE = '{}';

/**
 * Which thresholds the kubelet beside the agent reaches first (beside-a-kubelet.md F1 to F7). Unknown: what it goes by cannot
 * be read, and by its defaults it reaches none.
 */
export async function firstsNow(
  needs: Needs,
  capacityOf: (signal: Signal) => number | null,
): Promise<Reading<readonly KubeletFirst[]>> {
  const said = await whatItSays(needs);
  const read = (text: string) => readKubeletText(text, said.from);
  const file = said.file === null ? [] : [ifKnown(read(said.file), (own) => known(withDefaults(own)))];
  const texts = [...file, ...said.besides.map(read)];
  const bad = texts.find((text) => !text.known);
  const theirs = bad ?? kubeletThresholds(texts.flatMap(knownOf), said.flags);
  if (!theirs.known) return theirs;
  const firsts = kubeletFirsts(needs.effective.thresholds, theirs.value, capacityOf);
  if (firsts.length === 0 && said.unread !== null) return said.unread;
  return known(firsts.map((first) => ({ ...first, from: said.from })));
}

/**
 * The configuration that the kubelet itself reports; else its files and command line, which alone has no defaults
 * (kubelet-eviction.md 2.7.3); else its defaults.
 */
async function whatItSays({ clock, effective, configz, find = findKubelet }: Needs): Promise<Said> {
  const own = (await configz?.()) ?? unknown('absent', 'configz', 'not asked');
  if (own.known) return { file: null, besides: [own.value], flags: {}, from: 'as the kubelet says', unread: null };
  const kubelet = await find(clock);
  // That of a process that is ending is empty.
  const { argv, cwd } = kubelet.known ? kubelet.value : { argv: [], cwd: '/' };
  const flags = readKubeletFlags(argv);
  const path = effective.kubeletConfig ?? flags.config;
  const dropIns = flags.configDir === null ? known([]) : dropInsIn(absolute(flags.configDir, cwd));
  const files = [...(path === null ? [] : [absolute(path, cwd)]), ...(dropIns.known ? dropIns.value : [])];
  const texts = files.map((file) => readDocument(file, MAX_DOCUMENT_BYTES, 'followed'));
  const unread = dropIns.known ? texts.find((text) => !text.known) : dropIns;
  if (unread === undefined && (path !== null || argv.length > 0)) {
    const said = texts.flatMap(knownOf);
    const read = path === null ? { file: null, besides: said } : { file: said[0] ?? null, besides: said.slice(1) };
    const from = files.length === 0 ? 'by its command line' : `by ${files.join(', ')} and its command line`;
    return { ...read, flags: flags.fields, from, unread: null };
  }
  const why = unread === undefined ? 'by its defaults' : `by its defaults, since ${unread.where} cannot be read`;
  const isByFlags = Object.keys(flags.fields).length > 0;
  // A kubelet inside another program has a configuration that cannot be read.
  const missing = unread ?? own;
  const from = isByFlags ? `${why}, and its command line` : why;
  return { file: UNKNOWN_FILE, besides: [], flags: flags.fields, from, unread: missing };
}

const knownOf = <T>(reading: Reading<T>): readonly T[] => (reading.known ? [reading.value] : []);
const absolute = (path: string, cwd: string): string => (path.startsWith('/') ? path : `${cwd}/${path}`);

/** Files that end in .conf, in the order in which the kubelet walks the directory and those in it. */
function dropInsIn(directory: string): Reading<readonly string[]> {
  const files: string[] = [];
  let entries = 0;
  const walk = (at: string): Unknown | null => {
    const names = listDirectory(at, ENTRIES_MAX);
    if (!names.known) return names;
    entries += names.value.length;
    if (entries > ENTRIES_MAX) return unknown('unreadable', directory, `more than ${ENTRIES_MAX} entries`);
    for (const name of names.value.toSorted()) {
      const path = `${at}/${name}`;
      if (kindOf(path) === 'directory') {
        const why = walk(path);
        if (why !== null) return why;
      } else if (name.endsWith('.conf')) files.push(path);
    }
    return null;
  };
  return walk(directory) ?? known(files);
}
