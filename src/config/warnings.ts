import { plainOf, type ThresholdValue } from '../core/eviction/threshold.ts';
import { resolve } from '../core/eviction/thresholds-met.ts';
import { fileSystemOf, isDisk, isSignal, SIGNAL_FACTS, SIGNALS, type Signal } from '../core/signal.ts';
import { sayDuration } from '../core/units/duration.ts';
import {
  addQuantity,
  bytesUp,
  compareQuantity,
  type Quantity,
  quantityOfBytes,
  sayBytes,
} from '../core/units/quantity.ts';
import { NO_KUBECONFIG } from '../words/doctor-kube.ts';
import { NO_PSI } from '../words/finding-own.ts';
import { sayAmount } from '../words/phrases.ts';
import { sayTiny } from '../words/tiny-amount.ts';
import type { Effective } from './effective.ts';
import { type ConfiguredThreshold, DEFAULT_HARD } from './eviction.ts';
import { kernelFirst } from './kernel-first.ts';
import { capacityOf, type HostSizes } from './margin.ts';
import { originOf, sayPlace, sayValue } from './setting.ts';
import { shutdownWarnings } from './shutdown-warnings.ts';

/** `no-threshold`: nothing can be evicted; `config-warning`: all that has no code of its own. */
export type ConfigWarning = {
  readonly code:
    | 'no-threshold'
    | 'no-pid-threshold'
    | 'swap-off'
    | 'psi-off'
    | 'kubeconfig-unusable'
    | 'kernel-first'
    | 'config-warning';
  readonly text: string;
};

/** What the sizes are of. In standalone the node may be a cgroup (product.md section 4). */
type Capacities = { readonly sizes: HostSizes; readonly machine: HostSizes; readonly ofNode: string };
type Rule = {
  /** What it judges: with a mistake in one of these fields it would judge defaults that nobody meant. */
  readonly of: 'eviction' | 'shutdown' | 'kind';
  readonly warn: (effective: Effective, capacities: Capacities) => readonly (ConfigWarning | string)[];
};
const RULES: readonly Rule[] = [
  { of: 'kind', warn: kindWarning },
  { of: 'eviction', warn: vanishedDefaults },
  { of: 'eviction', warn: softWarnings },
  { of: 'eviction', warn: valueWarnings },
  { of: 'eviction', warn: tinyAmounts },
  { of: 'eviction', warn: switchedOff },
  { of: 'eviction', warn: withoutEffect },
  { of: 'eviction', warn: pidWarning },
  { of: 'eviction', warn: minReclaimWarnings },
  { of: 'eviction', warn: reservedWarnings },
  { of: 'eviction', warn: kernelFirstWarnings },
  { of: 'eviction', warn: otherFormula },
  { of: 'eviction', warn: conditionWarning },
  { of: 'shutdown', warn: shutdownWarnings },
];
/** No rule reads them. */
const UNJUDGED: readonly string[] = [
  ...['dryRun', 'podManifests', 'preKill', 'notify', 'oomScoreAdj', 'monitoringInterval', 'guard', 'http', 'socket'],
  ...['stateDirectory', 'runtimeDirectory', 'log', 'podLogsDir', 'containerRuntimeEndpoint', 'cgroupDriver'],
];
const judgedIn = (field: string): readonly Rule['of'][] => {
  if (UNJUDGED.includes(field)) return [];
  if (field.startsWith('shutdown')) return ['shutdown'];
  return ['mode', 'kubeletConfig'].includes(field) ? ['eviction', 'shutdown'] : ['eviction'];
};

/**
 * What is valid but probably not intended (product.md section 3), each with its position and what to do. `mistaken`: fields
 * that had to be left out, and on which nothing is said.
 */
export function warnings(
  effective: Effective,
  machine: HostSizes,
  mistaken: readonly string[] = [],
): readonly ConfigWarning[] {
  const left = mistaken.flatMap(judgedIn);
  const { mode, cgroupRoot } = effective;
  const isBounded = mode === 'standalone' && cgroupRoot !== '/';
  const { memoryBytes, pids } = (isBounded ? machine.node(cgroupRoot) : machine) ?? { memoryBytes: null, pids: null };
  const capacities = {
    sizes: { ...machine, memoryBytes, pids },
    machine,
    ofNode: isBounded ? `the cgroup ${cgroupRoot}` : 'this host',
  };
  return RULES.filter((rule) => !left.includes(rule.of)).flatMap(({ warn }) =>
    warn(effective, capacities).map((said) =>
      typeof said === 'string' ? ({ code: 'config-warning', text: said } as const) : said,
    ),
  );
}

/** Of a disk it is the machine's. */
const ownerOf = (signal: Signal, { ofNode }: Capacities): string => (isDisk(signal) ? 'this host' : ofNode);

/** Such a file cannot name what `run` needs. */
function kindWarning({ kind, file }: Effective): readonly ConfigWarning[] {
  if (kind !== 'KubeletConfiguration') return [];
  return [{ code: 'kubeconfig-unusable', text: `${file}: run does not start with this file alone: ${NO_KUBECONFIG}` }];
}

function hasThreshold({ thresholds }: Effective, signal: Signal): boolean {
  return thresholds.some((threshold) => threshold.signal === signal);
}

/** kubelet-eviction.md 3.2. A signal explicitly switched off with 0% is intended. */
function vanishedDefaults(effective: Effective): readonly (ConfigWarning | string)[] {
  const origin = originOf(effective, 'evictionHard');
  if (effective.thresholds.length === 0) {
    const text = `${sayPlace(origin)}evictionHard: no threshold is left, so nothing is ever evicted under pressure`;
    return [{ code: 'no-threshold', text }];
  }
  if (origin === undefined || effective.mergeDefaultEvictionSettings) return [];
  const gone = Object.entries(DEFAULT_HARD).filter(
    ([signal]) => originOf(effective, `evictionHard["${signal}"]`) === undefined && isApplicable(effective, signal),
  );
  if (gone.length === 0) return [];
  const lines = gone.map(([signal, text]) => `${signal}: "${text}"`).join(', ');
  return [
    `${sayPlace(origin)}evictionHard: naming one signal drops the defaults of all others; add mergeDefaultEvictionSettings: true, or add the missing ones to evictionHard: ${lines}`,
  ];
}

/** In standalone there is no imagefs unless a path is named. */
function isApplicable({ mode, imagefsPath }: Effective, signal: string): boolean {
  return mode === 'kubelet' || imagefsPath !== null || !(isSignal(signal) && fileSystemOf(signal) === 'imagefs');
}

function softWarnings(effective: Effective, { sizes }: Capacities): readonly string[] {
  const soft = effective.thresholds.filter(({ graceMs }) => graceMs > 0);
  const said = soft.flatMap((threshold) => {
    const { signal, value, origin } = threshold;
    const hard = effective.thresholds.find((other) => other.signal === signal && other.graceMs === 0);
    if (hard === undefined || !isAtMost(value, hard.value, capacityOf(signal, sizes))) return [];
    return [
      `${sayPlace(origin)}evictionSoft: ${signal} ${sayValue(value)} has no effect: it is not above the hard threshold ${sayValue(hard.value)}, which always acts first`,
    ];
  });
  const isUngraced = soft.length > 0 && effective.maxPodGraceSeconds <= 0;
  if (!isUngraced) return said;
  return [
    ...said,
    `${sayPlace(soft[0]?.origin)}evictionSoft: evictionMaxPodGracePeriod is ${effective.maxPodGraceSeconds}, so pods evicted by a soft threshold get no grace period (SIGKILL 2 s after SIGTERM); set it, for example to 60`,
  ];
}

/** Two percentages or two amounts compare without the host. Otherwise its capacity is needed; without it there is no warning. */
function isAtMost(softValue: ThresholdValue, hardValue: ThresholdValue, capacity: number | null): boolean {
  const [soft, hard] = [plainOf(softValue), plainOf(hardValue)];
  if (soft.kind === 'fraction' && hard.kind === 'fraction') return soft.fraction <= hard.fraction;
  if (soft.kind === 'quantity' && hard.kind === 'quantity') return compareQuantity(soft.amount, hard.amount) <= 0;
  return capacity !== null && compareQuantity(resolve(soft, capacity), resolve(hard, capacity)) <= 0;
}

/** Thresholds that are never, or always, met (kubelet-eviction.md 2.3.3). */
function valueWarnings(effective: Effective, capacities: Capacities): readonly string[] {
  return effective.thresholds.flatMap(({ signal, value: threshold, origin, field }) => {
    const value = plainOf(threshold);
    const place = `${sayPlace(origin)}${field}: ${signal} ${sayValue(value)}`;
    if (value.kind === 'fraction' && !(value.fraction > 0))
      return [`${place} is never met; to switch it off, write "0%"`];
    const capacity = capacityOf(signal, capacities.sizes);
    // A host that has none of it: another warning says so.
    const whole = capacity === null || capacity <= 0 ? null : quantityOfBytes(capacity, 'binary');
    const beyond = value.kind === 'fraction' ? value.fraction - 1 : whole && compareQuantity(value.amount, whole);
    if (beyond === null || beyond < 0) return [];
    const all =
      capacity === null
        ? 'the whole capacity'
        : `the whole capacity of ${ownerOf(signal, capacities)} (${sayAmount(signal, capacity)})`;
    return [
      beyond > 0
        ? `${place} is more than ${all}: it is always met`
        : `${place} is ${all}: it is met as soon as anything is used`,
    ];
  });
}

/** Who writes "100m" hardly means a tenth of a byte. */
function tinyAmounts(effective: Effective): readonly string[] {
  const told = new Set<string>();
  return effective.thresholds.flatMap(({ signal, value, origin, field, minReclaim }) => {
    const tiny = (threshold: ThresholdValue | null): string | null => {
      const of = threshold && plainOf(threshold);
      const { unit } = SIGNAL_FACTS[signal];
      return of?.kind !== 'quantity' || unit === 'ms' ? null : sayTiny(of.amount, unit === 'bytes' ? 'bytes' : 'count');
    };
    const reclaimed = 'evictionMinimumReclaim';
    const places = [
      { field, origin, said: tiny(value) },
      { field: reclaimed, origin: originOf(effective, `${reclaimed}["${signal}"]`), said: tiny(minReclaim) },
    ];
    return places.flatMap((place) => {
      if (place.said === null || told.has(`${place.field} ${signal}`)) return [];
      told.add(`${place.field} ${signal}`);
      return [`${sayPlace(place.origin)}${place.field}: ${signal} ${place.said}`];
    });
  });
}

/** kubelet-eviction.md 2.2: who writes "100%" hardly means that. */
function switchedOff({ settings, thresholds }: Effective): readonly string[] {
  return settings.flatMap(({ path, value, origin }) => {
    const [, field, signal] = /^(evictionHard|evictionSoft)\["(.+)"\]$/.exec(path) ?? [];
    const isOn = thresholds.some((threshold) => threshold.field === field && threshold.signal === signal);
    if (value !== '100%' || signal === undefined || isOn) return [];
    return [
      `${sayPlace(origin)}${field}: ${signal} 100% is no threshold, as in the kubelet; to switch it off on purpose, write "0%"`,
    ];
  });
}

function withoutEffect(effective: Effective, { sizes }: Capacities): readonly (ConfigWarning | string)[] {
  const said: string[] = [];
  const isSoft = (signal: Signal) =>
    effective.thresholds.some((threshold) => threshold.signal === signal && threshold.field === 'evictionSoft');
  for (const signal of SIGNALS) {
    const grace = originOf(effective, `evictionSoftGracePeriod["${signal}"]`);
    if (grace !== undefined && !isSoft(signal)) {
      said.push(
        `${sayPlace(grace)}evictionSoftGracePeriod: ${signal} has no effect: it has no threshold in evictionSoft`,
      );
    }
    const reclaim = originOf(effective, `evictionMinimumReclaim["${signal}"]`);
    if (reclaim !== undefined && !hasThreshold(effective, signal)) {
      said.push(`${sayPlace(reclaim)}evictionMinimumReclaim: ${signal} has no effect: it has no threshold`);
    }
  }
  const reclaimed = effective.reclaimCommands.filter(({ signal }) => !hasThreshold(effective, signal));
  for (const { signal } of reclaimed) {
    said.push(
      `${sayPlace(originOf(effective, 'reclaimCommands'))}reclaimCommands: ${signal} has no threshold, so its command never runs`,
    );
  }
  if (effective.mode === 'standalone' && effective.kubernetes !== null) {
    said.push(`${sayPlace(originOf(effective, 'kubernetes'))}kubernetes: has no effect in mode standalone`);
  }
  const inapplicables = effective.thresholds.flatMap((threshold) => inapplicable(effective, threshold, sizes));
  return [...said, ...inapplicables];
}

function inapplicable(
  effective: Effective,
  { signal, origin, field }: ConfiguredThreshold,
  sizes: HostSizes,
): readonly (ConfigWarning | string)[] {
  if (origin.kind === 'default') return [];
  const place = `${sayPlace(origin)}${field}: ${signal} has no effect`;
  const { source } = SIGNAL_FACTS[signal];
  if (source === 'containerfs') {
    return [`${place}: containerfs thresholds are always copied from nodefs or imagefs`];
  }
  if (source === 'swap' && sizes.swapBytes === 0)
    return [{ code: 'swap-off', text: `${place}: this host has no swap` }];
  if (source === 'memory-stall' && sizes.hasMemoryPressure === false)
    return [{ code: 'psi-off', text: `${place}: ${NO_PSI}` }];
  if (effective.mode === 'kubelet') return [];
  if (source === 'imagefs' && effective.imagefsPath === null) return [`${place}: imagefs.path is not set`];
  if (source === 'pods-memory') return [`${place} in mode standalone: there is no cgroup of all pods`];
  return [];
}

function pidWarning(effective: Effective, { sizes, ofNode }: Capacities): readonly ConfigWarning[] {
  if (hasThreshold(effective, 'pid.available') || effective.thresholds.length === 0) return [];
  const percent = 10;
  const here =
    sizes.pids === null ? '' : ` (on ${ofNode} ${Math.trunc((sizes.pids * percent) / 100)} of ${sizes.pids})`;
  const isDefault = originOf(effective, 'evictionHard') === undefined;
  const merged = isDefault ? ' together with mergeDefaultEvictionSettings: true, which keeps the defaults' : '';
  const text = `evictionHard: no threshold for pid.available, so a fork bomb is not stopped; add pid.available: "${percent}%"${here}${merged}`;
  return [{ code: 'no-pid-threshold', text }];
}

function minReclaimWarnings(effective: Effective, capacities: Capacities): readonly string[] {
  const told = new Set<Signal>();
  return effective.thresholds.flatMap(({ signal, field, value, minReclaim }) => {
    const capacity = capacityOf(signal, capacities.sizes);
    if (minReclaim === null || capacity === null || told.has(signal)) return [];
    const target = addQuantity(resolve(value, capacity), resolve(minReclaim, capacity));
    if (compareQuantity(target, quantityOfBytes(capacity, 'binary')) <= 0) return [];
    told.add(signal);
    const origin = originOf(effective, `evictionMinimumReclaim["${signal}"]`);
    return [
      `${sayPlace(origin)}evictionMinimumReclaim: ${signal} ${sayValue(minReclaim)} above its ${field} threshold is more than the capacity of ${ownerOf(signal, capacities)} (${sayAmount(signal, capacity)}): once met, it stays met and pod after pod is evicted`,
    ];
  });
}

/** kubelet-eviction.md 3.3: the kubelet does not start with it. */
function reservedWarnings(effective: Effective, { sizes }: Capacities): readonly string[] {
  if (effective.cgroupRoot !== '/' && effective.mode === 'standalone') return [];
  const rules = [
    { resource: 'memory', signal: 'memory.available' },
    { resource: 'ephemeral-storage', signal: 'nodefs.available' },
  ] as const;
  return rules.flatMap(({ resource, signal }) => {
    const capacity = capacityOf(signal, sizes);
    const reserved = [effective.systemReserved[resource], effective.kubeReserved[resource]];
    if (capacity === null || reserved.every((amount) => amount === undefined)) return [];
    const hard = effective.thresholds.find((threshold) => threshold.signal === signal && threshold.graceMs === 0);
    const parts: readonly (Quantity | undefined)[] = [...reserved, hard && resolve(hard.value, capacity)];
    const sum = parts.reduce<Quantity>(
      (total, part) => (part === undefined ? total : addQuantity(total, part)),
      NOTHING,
    );
    if (compareQuantity(sum, quantityOfBytes(capacity, 'binary')) <= 0) return [];
    return [
      `systemReserved, kubeReserved and the hard threshold of ${signal} together (${sayBytes(bytesUp(sum))}) exceed the capacity of this host (${sayBytes(capacity)}): a kubelet does not start with them`,
    ];
  });
}

function kernelFirstWarnings(effective: Effective, { machine }: Capacities): readonly ConfigWarning[] {
  return kernelFirst(effective, machine).map((text) => ({ code: 'kernel-first', text }));
}

/** The kubelet counts page cache in use as used: what is higher by its formula need not be so by another. */
function otherFormula(effective: Effective): readonly string[] {
  if (effective.mode !== 'kubelet' || effective.memoryAvailable === 'workingSet') return [];
  return [
    `${sayPlace(originOf(effective, 'memoryAvailable'))}memoryAvailable: the kubelet counts by the working set, so it may evict for memory first, whatever the thresholds; write workingSet`,
  ];
}

const NOTHING: Quantity = quantityOfBytes(0, 'binary');

function conditionWarning(effective: Effective): readonly string[] {
  const { pressureTransitionMs } = effective;
  if (pressureTransitionMs > 0) return [];
  const origin = originOf(effective, 'evictionPressureTransitionPeriod');
  return [
    `${sayPlace(origin)}evictionPressureTransitionPeriod: with ${sayDuration(pressureTransitionMs)} no condition is ever reported; write, for example, "5m"`,
  ];
}
