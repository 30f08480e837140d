import { marginOf } from '../core/eviction/margin.ts';
import { resolve } from '../core/eviction/thresholds-met.ts';
import { known, type Reading, unknown } from '../core/reading.ts';
import { isObject } from '../core/shape.ts';
import { SIGNAL_FACTS, type Signal } from '../core/signal.ts';
import { bytesUp } from '../core/units/quantity.ts';
import { parseDocuments } from '../document/document.ts';
import { sayProblem } from '../document/problem.ts';
import type { KubeletFirst } from '../words/finding-kube.ts';
import { type ConfiguredThreshold, DEFAULT_HARD, readEviction } from './eviction.ts';
import { createFields } from './field.ts';
import type { KubeletFlags } from './kubelet-flags.ts';

type Json = { readonly [name: string]: unknown };

/** F3: the kubelet starts the grace period of a soft threshold at its own sample, up to this much later than ours. */
const SOFT_LEAD_MS = 15_000;

/** One text of a kubelet's configuration, YAML or JSON, as a mapping. */
export function readKubeletText(text: string, file: string): Reading<Json> {
  const { documents, problems } = parseDocuments(text, file, 'kubelet');
  const [problem] = problems;
  if (problem !== undefined) return unknown('malformed', file, sayProblem(problem));
  const value = documents[0]?.value;
  return isObject(value) ? known(value) : unknown('malformed', file, 'not a mapping');
}

/** The file that a kubelet is started with, and what it fills in before any file beside it (kubelet-eviction.md 2.7.4). */
export function withDefaults(file: Json): Json {
  const own = file['evictionHard'] ?? null;
  if (own === null) return { ...file, evictionHard: DEFAULT_HARD };
  if (file['mergeDefaultEvictionSettings'] !== true || !isObject(own)) return file;
  return { ...file, evictionHard: { ...DEFAULT_HARD, ...own } };
}

/** The thresholds that a kubelet makes of its file, the files beside it in their order, and its flags (F1). No defaults. */
export function kubeletThresholds(
  texts: readonly Json[],
  flags: KubeletFlags['fields'],
): Reading<readonly ConfiguredThreshold[]> {
  const merged = texts.reduce<Json>((all, next) => mergePatch(all, next), {});
  const all = { evictionHard: {}, ...merged, ...flags, mergeDefaultEvictionSettings: false };
  const { documents } = parseDocuments(JSON.stringify(all), 'the kubelet', 'kubelet');
  const [document] = documents;
  if (document === undefined) return unknown('malformed', 'the kubelet', 'its configuration cannot be read');
  const { thresholds, problems } = readEviction(createFields({ document, kind: 'kubelet' }, null));
  const [problem] = problems;
  return problem === undefined ? known(thresholds) : unknown('malformed', 'the kubelet', sayProblem(problem));
}

/** As RFC 7396, by which the kubelet merges the files of --config-dir. */
function mergePatch(base: Json, patch: Json): Json {
  const merged: { [name: string]: unknown } = { ...base };
  for (const [name, value] of Object.entries(patch)) {
    const before = merged[name];
    if (value === null) delete merged[name];
    else merged[name] = isObject(value) ? mergePatch(isObject(before) ? before : {}, value) : value;
  }
  return merged;
}

/** Thresholds that the kubelet reaches before this agent (F2, F3, F5), or continues to (F7). Skipped without a capacity. */
export function kubeletFirsts(
  ours: readonly ConfiguredThreshold[],
  theirs: readonly ConfiguredThreshold[],
  capacityOf: (signal: Signal) => number | null,
): readonly Omit<KubeletFirst, 'from'>[] {
  return theirs.flatMap((their) => {
    const { signal } = their;
    const capacity = capacityOf(signal);
    if (capacity === null) return [];
    const at = ({ value }: Pick<ConfiguredThreshold, 'value'>): number => bytesUp(resolve(value, capacity));
    const reach = (one: ConfiguredThreshold): number =>
      at(one) + (one.minReclaim === null ? 0 : at({ value: one.minReclaim }));
    const same = ours.filter((one) => one.signal === signal);
    const isHard = their.graceMs === 0;
    const counting = same.filter(
      ({ graceMs }) => graceMs === 0 || (!isHard && graceMs <= their.graceMs - SOFT_LEAD_MS),
    );
    const highest = highestOf(counting.map(at));
    const margin = isHard ? Math.ceil(marginOf(SIGNAL_FACTS[signal].margin, capacity)) : 0;
    const first =
      highest !== null && highest >= at(their) + margin
        ? []
        : [{ signal, kind: isHard ? ('hard' as const) : ('soft' as const), theirs: at(their), ours: highest, margin }];
    const ourReach = highestOf(same.map(reach));
    const goesOn = their.minReclaim !== null && ourReach !== null && ourReach < reach(their);
    return goesOn
      ? [...first, { signal, kind: 'reclaim' as const, theirs: reach(their), ours: ourReach, margin: 0 }]
      : first;
  });
}

const highestOf = (amounts: readonly number[]): number | null =>
  amounts.reduce<number | null>((most, amount) => (most === null || amount > most ? amount : most), null);
