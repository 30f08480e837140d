import type { Threshold, ThresholdValue } from '../core/eviction/threshold.ts';
import { isSignal, type Signal } from '../core/signal.ts';
import { parseDuration } from '../core/units/duration.ts';
import { parseFloat32 } from '../core/units/float32.ts';
import { parseQuantity, sayQuantity } from '../core/units/quantity.ts';
import type { Path, Problem } from '../document/problem.ts';
import { entryOf, type Fields, type Origin } from './field.ts';

type EvictionField = 'evictionHard' | 'evictionSoft' | 'evictionStall';
/** A threshold as configured: no twin, containerfs not yet derived (the core does that by the layout). */
export type ConfiguredThreshold = Threshold & { readonly field: EvictionField; readonly origin: Origin };

/** kubelet-eviction.md 3.1. */
export const DEFAULT_HARD: { readonly [signal: string]: string } = {
  'memory.available': '100Mi',
  'nodefs.available': '10%',
  'nodefs.inodesFree': '5%',
  'imagefs.available': '15%',
  'imagefs.inodesFree': '5%',
};

export type Eviction = {
  readonly thresholds: readonly ConfiguredThreshold[];
  readonly minReclaims: { readonly [S in Signal]?: ThresholdValue };
  /** Entries of evictionHard written as exactly 0% or 100%: not thresholds. */
  readonly off: readonly Entry[];
  readonly problems: readonly Problem[];
};
type Entry = { readonly signal: Signal; readonly text: string; readonly path: Path; readonly origin: Origin };
type Read<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly text: string };

/**
 * kubelet-eviction.md 2.2 and 3.2: the four maps as thresholds, with every error in them; the kubelet stops at the first.
 * Entries with an unknown signal or a wrong type are skipped, because the schema has reported them.
 */
export function readEviction(fields: Fields): Eviction {
  const problems: Problem[] = [];
  const told = <T>(entry: Entry, read: Read<T>): T | null => {
    if (read.ok) return read.value;
    problems.push(fields.problemAt(entry.path, read.text));
    return null;
  };
  const minReclaims: { [S in Signal]?: ThresholdValue } = {};
  for (const entry of entriesOf(fields, 'evictionMinimumReclaim')) {
    const value = told(entry, readMinReclaim(entry));
    if (value !== null) minReclaims[entry.signal] = value;
  }
  const graces = new Map<Signal, number | null>();
  for (const entry of entriesOf(fields, 'evictionSoftGracePeriod')) {
    graces.set(entry.signal, told(entry, readGrace(entry)));
  }
  const thresholdOf = (
    field: 'evictionHard' | 'evictionSoft',
    entry: Entry,
    graceMs: number,
  ): readonly ConfiguredThreshold[] => {
    const value = told(entry, readThreshold(entry));
    if (value === null) return [];
    const { signal, origin } = entry;
    const minReclaim = minReclaims[signal] ?? null;
    return [{ id: `${signal}/${field}`, signal, value, graceMs, minReclaim, field, origin }];
  };
  const entries = hardEntries(fields);
  const hard = entries.flatMap((entry) => (isDropped(entry) ? [] : thresholdOf('evictionHard', entry, 0)));
  const soft = entriesOf(fields, 'evictionSoft').flatMap((entry) => {
    if (isDropped(entry)) return [];
    const graceMs = graces.get(entry.signal);
    // An entry of a wrong type counts as present; it has been reported.
    if (entryOf(fields.get('evictionSoftGracePeriod')?.value, entry.signal) === undefined) {
      const text = `grace period must be specified for the soft eviction threshold ${entry.signal}; add it to evictionSoftGracePeriod, for example "1m30s"`;
      problems.push(fields.problemAt(entry.path, text));
    }
    return thresholdOf('evictionSoft', entry, graceMs ?? 0);
  });
  return { thresholds: [...hard, ...soft], minReclaims, off: entries.filter(isDropped), problems };
}

function entriesOf(fields: Fields, name: string): readonly Entry[] {
  const field = fields.get(name);
  if (field === null || typeof field.value !== 'object') return [];
  return Object.entries(field.value ?? {}).flatMap(([signal, text]) => {
    const path = [name, signal];
    return isSignal(signal) && typeof text === 'string' ? [{ signal, text, path, origin: fields.originOf(path) }] : [];
  });
}

/** Adds the defaults if evictionHard is absent or, with mergeDefaultEvictionSettings, for signals it does not name. */
function hardEntries(fields: Fields): readonly Entry[] {
  const field = fields.get('evictionHard');
  const own = entriesOf(fields, 'evictionHard');
  const isMerged = fields.get('mergeDefaultEvictionSettings')?.value === true;
  if (field !== null && !isMerged) return own;
  const defaults = Object.entries(DEFAULT_HARD).flatMap(([signal, text]): readonly Entry[] => {
    const isNamed = field !== null && entryOf(field.value, signal) !== undefined;
    if (isNamed || !isSignal(signal)) return [];
    return [{ signal, text, path: ['evictionHard', signal], origin: { kind: 'default' } }];
  });
  return [...own, ...defaults];
}

/** Exactly these two texts mean no threshold, without an error (2.2). */
function isDropped({ text }: { readonly text: string }): boolean {
  return text === '0%' || text === '100%';
}

function readThreshold({ signal, text }: Entry): Read<ThresholdValue> {
  if (text.endsWith('%')) {
    const read = readFraction(text);
    if (!read.ok) return read;
    if (read.value < 0) return wrong(`eviction percentage threshold ${signal} must be >= 0%: ${text}`);
    if (read.value > 1) return wrong(`eviction percentage threshold ${signal} must be <= 100%: ${text}`);
    return { ok: true, value: { kind: 'fraction', fraction: read.value } };
  }
  const parsed = parseQuantity(text);
  if (!parsed.ok) return wrong(`${JSON.stringify(text)}: ${parsed.text}; for example "100Mi" or "10%"`);
  if (parsed.quantity.nanos === '0' || parsed.quantity.nanos.startsWith('-')) {
    return wrong(`eviction threshold ${signal} must be positive: ${sayQuantity(parsed.quantity)}`);
  }
  return { ok: true, value: { kind: 'quantity', amount: parsed.quantity } };
}

function readMinReclaim({ signal, text }: Entry): Read<ThresholdValue> {
  if (text.endsWith('%')) {
    const read = readFraction(text);
    if (!read.ok) return read;
    if (read.value <= 0) return wrong(`eviction percentage minimum reclaim ${signal} must be positive: ${text}`);
    return { ok: true, value: { kind: 'fraction', fraction: read.value } };
  }
  const parsed = parseQuantity(text);
  if (!parsed.ok) return wrong(`${JSON.stringify(text)}: ${parsed.text}; for example "500Mi" or "5%"`);
  if (parsed.quantity.nanos.startsWith('-')) return wrong(`negative eviction minimum reclaim specified for ${signal}`);
  return { ok: true, value: { kind: 'quantity', amount: parsed.quantity } };
}

/** All trailing % go; then 32-bit arithmetic throughout (2.2.4, 2.3.1). NaN is a fraction that is never met. */
function readFraction(text: string): Read<number> {
  const parsed = parseFloat32(text.replace(/%+$/, ''));
  if (!parsed.ok) return wrong(`${parsed.text}; for example "10%"`);
  return { ok: true, value: Math.fround(parsed.value / 100) };
}

function readGrace({ text }: Entry): Read<number> {
  const parsed = parseDuration(text);
  if (!parsed.ok) return wrong(`${parsed.text}; for example "1m30s"`);
  if (parsed.duration.ms < 0) {
    return wrong(`invalid eviction grace period specified: ${text}, must be a positive value`);
  }
  return { ok: true, value: parsed.duration.ms };
}

function wrong(text: string): { readonly ok: false; readonly text: string } {
  return { ok: false, text };
}

/** D17: hard, of the time that must be free of a stall. `full` is checked. */
export function stallThreshold(full: string, origin: Origin): ConfiguredThreshold {
  const fraction = (100 - Number.parseFloat(full)) / 100;
  return {
    id: 'memory.stallFree/evictionHard',
    signal: 'memory.stallFree',
    value: { kind: 'fraction', fraction },
    graceMs: 0,
    minReclaim: null,
    field: 'evictionStall',
    origin,
  };
}

/** kubelet-eviction.md 3.3: each memory threshold without grace also holds for the cgroup of all pods, appended last. */
export function withTwins(thresholds: readonly Threshold[], enforced: readonly string[]): readonly Threshold[] {
  if (!enforced.includes('pods')) return thresholds;
  const twins = thresholds
    .filter(({ signal, graceMs }) => signal === 'memory.available' && graceMs === 0)
    .map((threshold): Threshold => {
      const field = threshold.id.includes('/evictionSoft') ? 'evictionSoft' : 'evictionHard';
      const signal = 'allocatableMemory.available';
      return { ...threshold, id: `${signal}/${field}/twin`, signal };
    });
  return [...thresholds, ...twins];
}
