import { known, type Reading, type Unknown, unknown, valueOrNull } from '../core/reading.ts';
import type { Signal } from '../core/signal.ts';
import { MAX_DOCUMENT_BYTES } from '../document/document.ts';
import { listDirectory, readDocument } from '../host/files.ts';
import { findKubelet } from '../host/kubelet-process.ts';
import type { Clock } from '../ports.ts';
import type { KubeletFirst } from '../words/finding-kubelet.ts';
import type { Effective } from './effective.ts';
import { kubeletFirsts, kubeletThresholds, readKubeletText } from './kubelet-first.ts';
import { type KubeletFlags, readKubeletFlags } from './kubelet-flags.ts';

type Needs = {
  readonly clock: Clock;
  readonly effective: Pick<Effective, 'kubeletConfig' | 'thresholds'>;
  /** Its own word; absent: it is not asked. */
  readonly configz?: (() => Promise<Reading<string>>) | undefined;
  readonly find?: typeof findKubelet | undefined;
};
type Said = {
  readonly texts: readonly string[];
  readonly flags: KubeletFlags['fields'];
  readonly from: string;
  readonly unread: Unknown | null;
};

const DROP_INS_MAX = 100;
const NO_FLAGS: KubeletFlags = { config: null, configDir: null, fields: {} };

/**
 * Which thresholds the kubelet beside the agent reaches first (beside-a-kubelet.md F1 to F7). Unknown: what it goes by cannot
 * be read, and by its defaults it reaches none.
 */
export async function firstsNow(
  needs: Needs,
  capacityOf: (signal: Signal) => number | null,
): Promise<Reading<readonly KubeletFirst[]>> {
  const said = await whatItSays(needs);
  const texts = said.texts.map((text) => readKubeletText(text, said.from));
  const bad = texts.find((text) => !text.known);
  const theirs = bad ?? kubeletThresholds(texts.flatMap(knownOf), said.flags);
  if (!theirs.known) return theirs;
  const firsts = kubeletFirsts(needs.effective.thresholds, theirs.value, capacityOf);
  if (firsts.length === 0 && said.unread !== null) return said.unread;
  return known(firsts.map((first) => ({ ...first, from: said.from })));
}

/** The configuration that the kubelet itself reports; else its files and command line; else its defaults. */
async function whatItSays({ clock, effective, configz, find = findKubelet }: Needs): Promise<Said> {
  const own = (await configz?.()) ?? unknown('absent', 'configz', 'not asked');
  if (own.known) return { texts: [own.value], flags: {}, from: 'as the kubelet says', unread: null };
  const kubelet = await find(clock);
  const cwd = kubelet.known ? kubelet.value.cwd : '/';
  const flags = kubelet.known ? readKubeletFlags(kubelet.value.argv) : NO_FLAGS;
  const path = effective.kubeletConfig ?? flags.config;
  const files = path === null ? [] : [absolute(path, cwd), ...dropInsOf(flags.configDir, cwd)];
  const texts = files.map((file) => readDocument(file, MAX_DOCUMENT_BYTES, 'followed'));
  const unread = texts.find((text) => !text.known);
  if (unread === undefined && files.length > 0) {
    return {
      texts: texts.flatMap(knownOf),
      flags: flags.fields,
      from: `by ${files.join(', ')} and its command line`,
      unread: null,
    };
  }
  const why = unread === undefined ? 'by its defaults' : `by its defaults, since ${unread.where} cannot be read`;
  const isByFlags = Object.keys(flags.fields).length > 0;
  // A kubelet inside another program has a configuration that cannot be read.
  const missing = unread ?? (kubelet.known ? null : own);
  return { texts: [], flags: flags.fields, from: isByFlags ? `${why}, and its command line` : why, unread: missing };
}

const knownOf = <T>(reading: Reading<T>): readonly T[] => (reading.known ? [reading.value] : []);
const absolute = (path: string, cwd: string): string => (path.startsWith('/') ? path : `${cwd}/${path}`);

/** The kubelet takes files that end in .conf, in the order of their names. */
function dropInsOf(directory: string | null, cwd: string): readonly string[] {
  if (directory === null) return [];
  const path = absolute(directory, cwd);
  const names = valueOrNull(listDirectory(path, DROP_INS_MAX)) ?? [];
  return names
    .filter((name) => name.endsWith('.conf'))
    .toSorted()
    .map((name) => `${path}/${name}`);
}
