/** Thresholds out of a scenario's config: kubelet-eviction.md 2.2, 3.1 to 3.4 and scenarios.md 2.1, 2.2. */
import { at, entriesOf, type Json, listOf, numberOf, textOf } from './json.ts';
import { type Amount, bytes, parseDuration, parseFraction, parseQuantity } from './quantities.ts';

export type Value = { readonly quantity: Amount } | { readonly fraction: number };

export type Threshold = {
  readonly signal: string;
  /** Where it is written, and whether it is the allocatable copy of that. */
  readonly map: 'evictionHard' | 'evictionSoft';
  readonly twin: boolean;
  readonly graceNs: bigint;
  readonly value: Value;
  readonly minReclaim: Value | null;
};

export type Config = {
  /** The list of the first look. */
  readonly first: readonly Threshold[];
  /** The list of every later look, and of the second reading after a node-level reclaim at any look. */
  readonly later: readonly Threshold[];
  /** A containerfs entry was written by hand; what it does at the first look is not defined (scenarios.md 2.2). */
  readonly undefinedAtFirst: boolean;
  readonly transitionNs: bigint;
  readonly maxPodGrace: number;
  readonly localStorage: boolean;
  readonly guard: { readonly kills: number; readonly windowNs: bigint } | null;
};

export type Layout = 'one' | 'dedicated' | 'split';

const DEFAULTS = {
  'memory.available': '100Mi',
  'nodefs.available': '10%',
  'nodefs.inodesFree': '5%',
  'imagefs.available': '15%',
  'imagefs.inodesFree': '5%',
};

/** Hard is a grace period of 0, wherever it was written (2.2.2). */
export const isHard = (threshold: Threshold) => threshold.graceNs === 0n;

/** 2.3.2; the amount of a percentage is printed as bytes whatever the signal. */
export function amountOf(value: Value, capacity: bigint): Amount {
  if ('quantity' in value) return value.quantity;
  const product = Number(capacity) * value.fraction;
  return bytes(Number.isNaN(product) ? -(2n ** 63n) : BigInt(Math.trunc(product)));
}

export function readConfig(json: Json, layout: Layout): Config {
  const configured = thresholdsOf(json);
  const later = withContainerFs(configured, layout);
  const transition = at(json, 'evictionPressureTransitionPeriod');
  const transitionNs = transition === null ? 0n : nanoseconds(transition);
  return {
    // Appended entries act from the second look on, overwritten ones at once (3.4).
    first: later.filter((one) => !one.signal.startsWith('containerfs.') || configured.some((own) => isAlike(own, one))),
    later,
    undefinedAtFirst: configured.some((one) => one.signal.startsWith('containerfs.')),
    transitionNs: transitionNs === 0n ? 300_000_000_000n : transitionNs,
    maxPodGrace: numberOf(at(json, 'evictionMaxPodGracePeriod'), 0),
    localStorage: at(json, 'localStorageCapacityIsolation') !== false,
    guard: guardOf(at(json, 'guard')),
  };
}

function guardOf(json: Json): Config['guard'] {
  if (json === null) return null;
  const window = at(json, 'window');
  return {
    kills: numberOf(at(json, 'sameOwnerKills'), 3),
    windowNs: window === null ? 600_000_000_000n : nanoseconds(window),
  };
}

/** A Go duration, or milliseconds. */
export function nanoseconds(json: Json): bigint {
  const ns = typeof json === 'number' ? BigInt(json) * 1_000_000n : parseDuration(textOf(json, ''));
  if (ns === null) throw new Error(`not a duration: ${JSON.stringify(json)}`);
  return ns;
}

function thresholdsOf(json: Json): readonly Threshold[] {
  const written = at(json, 'evictionHard');
  const merge = at(json, 'mergeDefaultEvictionSettings') === true;
  const hard = written === null || merge ? { ...DEFAULTS, ...entriesOf(written) } : entriesOf(written);
  const reclaims = entriesOf(at(json, 'evictionMinimumReclaim'));
  const threshold = (map: Threshold['map'], signal: string, text: Json, graceNs: bigint): readonly Threshold[] => {
    // Exactly these two spellings switch a threshold off.
    if (text === '0%' || text === '100%') return [];
    const reclaim = reclaims[signal];
    const minReclaim = reclaim === undefined ? null : limitOf(reclaim);
    return [{ signal, map, twin: false, graceNs, value: limitOf(text), minReclaim }];
  };
  const graces = at(json, 'evictionSoftGracePeriod');
  const own = [
    ...Object.entries(hard).flatMap(([signal, text]) => threshold('evictionHard', signal, text, 0n)),
    ...Object.entries(entriesOf(at(json, 'evictionSoft'))).flatMap(([signal, text]) =>
      threshold('evictionSoft', signal, text, text === '0%' || text === '100%' ? 0n : nanoseconds(at(graces, signal))),
    ),
  ];
  const enforce = at(json, 'enforceNodeAllocatable');
  const twins = enforce === null || listOf(enforce).includes('pods');
  const memory = own.filter((one) => one.signal === 'memory.available' && isHard(one));
  return [
    ...own,
    ...(twins ? memory.map((one) => ({ ...one, signal: 'allocatableMemory.available', twin: true })) : []),
  ];
}

function limitOf(json: Json): Value {
  const text = textOf(json, '');
  if (text.endsWith('%')) {
    const fraction = parseFraction(text);
    if (fraction === null) throw new Error(`not a percentage: ${text}`);
    return { fraction };
  }
  const quantity = parseQuantity(text);
  if (quantity === null) throw new Error(`not a quantity: ${text}`);
  return { quantity };
}

const isAlike = (a: Threshold, b: Threshold) => a.signal === b.signal && isHard(a) === isHard(b);

/**
 * 3.4: containerfs thresholds are copies, whatever was written. Of two entries of one kind (a soft one without grace is
 * hard) only the last is overwritten: the texts do not say so, the kubelet's data does (config.jsonl).
 */
function withContainerFs(configured: readonly Threshold[], layout: Layout): readonly Threshold[] {
  const source = layout === 'dedicated' ? 'imagefs' : 'nodefs';
  const lastOf = (signal: string, hard: boolean) =>
    configured.filter((one) => one.signal === signal && isHard(one) === hard).at(-1);
  const overwritten: Threshold[] = [];
  const copies = ['available', 'inodesFree'].flatMap((what) =>
    [true, false].flatMap((hard) => {
      const signal = `containerfs.${what}`;
      const own = lastOf(signal, hard);
      if (own !== undefined) overwritten.push(own);
      const from = lastOf(`${source}.${what}`, hard);
      return from === undefined ? [] : [{ ...from, map: own?.map ?? from.map, signal }];
    }),
  );
  return [...configured.filter((one) => !overwritten.includes(one)), ...copies];
}
