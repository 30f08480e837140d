import type { Effective } from '../config/effective.ts';
import { kubeletFirsts, kubeletThresholds, readKubeletText } from '../config/kubelet-first.ts';
import { type KubeletFlags, readKubeletFlags } from '../config/kubelet-flags.ts';
import type { Observation } from '../core/observation.ts';
import { type Reading, unknown, valueOrNull } from '../core/reading.ts';
import type { Signal } from '../core/signal.ts';
import { MAX_DOCUMENT_BYTES } from '../document/document.ts';
import { listDirectory, readDocument } from '../host/files.ts';
import { findKubelet } from '../host/kubelet-process.ts';
import type { Mode } from '../mode.ts';
import type { Clock, Findings } from '../ports.ts';
import { kubeletFirst, kubeletFirstId } from '../words/finding-kubelet.ts';

type Needs = {
  readonly clock: Clock;
  readonly findings: Findings;
  readonly mode: Pick<Mode, 'kubeletConfigz'>;
  readonly effective: () => Pick<Effective, 'mode' | 'kubeletConfig' | 'thresholds'>;
  readonly find?: typeof findKubelet;
};
type Said = { readonly texts: readonly string[]; readonly flags: KubeletFlags['fields']; readonly from: string };

const AGAIN_MS = 300_000;
const DROP_INS_MAX = 100;
const NO_FLAGS: KubeletFlags = { config: null, configDir: null, fields: {} };

/** Beside a kubelet: which of its thresholds it reaches before this agent does, said as findings (beside-a-kubelet.md F1 to F7). */
export function createBesideKubelet({ clock, findings, mode, effective, find = findKubelet }: Needs) {
  let checkedMs = Number.NEGATIVE_INFINITY;
  let checkedFor: unknown = null;
  let raised: readonly string[] = [];
  let isClosed = false;

  async function check({ signals }: Observation): Promise<void> {
    const said = await whatItSays();
    const texts = said.texts.map((text) => readKubeletText(text, said.from));
    const bad = texts.find((text) => !text.known);
    const theirs = bad ?? kubeletThresholds(texts.flatMap(knownOf), said.flags);
    // The kubelet does not start with a file that it cannot read: nothing new is known, and the findings stay.
    if (isClosed || !theirs.known) return;
    const capacityOf = (signal: Signal): number | null => {
      const sample = signals[signal];
      return sample.known ? sample.value.capacity : null;
    };
    const firsts = kubeletFirsts(effective().thresholds, theirs.value, capacityOf);
    for (const first of firsts) findings.raise(kubeletFirst({ ...first, from: said.from }));
    const ids = firsts.map(({ signal, kind }) => kubeletFirstId(signal, kind));
    for (const id of raised) if (!ids.includes(id)) findings.clear(id);
    raised = ids;
  }

  /** The configuration that the kubelet itself reports; else its files and command line; else its defaults. */
  async function whatItSays(): Promise<Said> {
    const configz = (await mode.kubeletConfigz?.()) ?? unknown('absent', 'configz', 'not asked');
    if (configz.known) return { texts: [configz.value], flags: {}, from: 'as the kubelet says' };
    const kubelet = await find(clock);
    const cwd = kubelet.known ? kubelet.value.cwd : '/';
    const flags = kubelet.known ? readKubeletFlags(kubelet.value.argv) : NO_FLAGS;
    const path = effective().kubeletConfig ?? flags.config;
    const files = path === null ? [] : [absolute(path, cwd), ...dropInsOf(flags.configDir, cwd)];
    const texts = files.map((file) => readDocument(file, MAX_DOCUMENT_BYTES, 'followed'));
    const unread = texts.find((text) => !text.known);
    if (unread === undefined && files.length > 0) {
      return {
        texts: texts.flatMap(knownOf),
        flags: flags.fields,
        from: `by ${files.join(', ')} and its command line`,
      };
    }
    const why = unread === undefined ? 'by its defaults' : `by its defaults, since ${unread.where} cannot be read`;
    const isByFlags = Object.keys(flags.fields).length > 0;
    return { texts: [], flags: flags.fields, from: isByFlags ? `${why}, and its command line` : why };
  }

  return {
    seen: (observation: Observation): void => {
      const { mode: name, thresholds } = effective();
      // Capacities are known from the first look that really observes.
      if (name !== 'kubelet' || !observation.signals['memory.available'].known) return;
      if (observation.atMs - checkedMs < AGAIN_MS && checkedFor === thresholds) return;
      checkedMs = observation.atMs;
      checkedFor = thresholds;
      void check(observation);
    },
    close: (): void => {
      isClosed = true;
    },
  };
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
