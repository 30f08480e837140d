import type { CoreConfig } from './core-config.ts';
import type { Threshold } from './eviction/threshold.ts';
import { resolve } from './eviction/thresholds-met.ts';
import type { Observation } from './observation.ts';
import type { Reading } from './reading.ts';
import { isDisk, SIGNAL_FACTS, type SignalSample, type Unit } from './signal.ts';
import type { State } from './state/state.ts';
import { bytesUp } from './units/quantity.ts';
import type { Glance, NextLook } from './verdict.ts';

/** D2: the most that this many online CPUs can plausibly use up in a millisecond. Bench: product.md section 6, D2. */
const FASTEST_PER_MS: { readonly [U in Unit]: (cpus: number) => number } = {
  bytes: (cpus) => (cpus * 2 * 2 ** 30) / 1_000,
  pids: (cpus) => (cpus * 20_000) / 1_000,
  inodes: (cpus) => (cpus * 100_000) / 1_000,
  // Time passes equally fast on any number of CPUs.
  ms: () => 1,
};
const BUDGET_WINDOW_MS = 60_000;
const SPENT_STEP_MS = 1_000;
const SPENT_KEPT = 61;
/** The pace when the minute's CPU budget is spent and a threshold could be crossed within a second. */
const SPENT_PACE_MS = 20;
/** Decision record 0006: while memory falls, looks stay 2 ms apart beyond the budget, up to this many times it. */
const FALLING_BUDGETS = 3;
/** Memory is falling if it would cross a threshold within this at the last rate: five looks at the pace of a spent budget. */
const SOON_MS = 5 * SPENT_PACE_MS;
/** While a signal that every look reads is unknown. */
const UNKNOWN_PACE_MS = 1_000;
/** The maximum age of kernel OOM kills, stalls and what `status` shows. */
const GLANCES_MS = 1_000;

/**
 * D2: milliseconds until the fastest plausible fill could cross a threshold that is not met now, within the configured pace
 * and the CPU budget. `heldToMs`: the time that the verdict itself waits for.
 */
export function nextLookMs(
  observation: Observation,
  thresholds: readonly Threshold[],
  config: CoreConfig,
  spent: State['spent'],
  heldToMs: number,
): number {
  const { maxMs } = config.pace;
  const crossedMs = Math.min(crossedInMs(observation, thresholds, config), maxMs);
  const floorMs = floorOf(observation, config, spent);
  return Math.min(Math.max(crossedMs, floorMs), Math.max(heldToMs, floorMs), maxMs);
}

/**
 * The same for file systems. They are sampled beside the looks, at a higher cost than a look: while only memory is short,
 * they need not follow its pace.
 */
export function nextDisksMs(
  observation: Observation,
  thresholds: readonly Threshold[],
  config: CoreConfig,
  heldToMs: number,
): number {
  const ofDisks = thresholds.filter(({ signal }) => isDisk(signal));
  return Math.min(Math.max(crossedInMs(observation, ofDisks, config), config.pace.minMs), heldToMs, config.pace.maxMs);
}

/**
 * What a glance compares memory.available with until the next full look; null if that look is due sooner, or if
 * memory.available has no threshold. For a node with nothing met and nothing in progress. `paceMs`: from nextLookMs.
 */
export function glanceFor(
  observation: Observation,
  thresholds: readonly Threshold[],
  config: CoreConfig,
  spent: State['spent'],
  next: { readonly heldToMs: number; readonly paceMs: number },
): Glance | null {
  const ofMemory = thresholds.filter(({ signal }) => signal === 'memory.available');
  const sample = observation.signals['memory.available'];
  if (ofMemory.length === 0 || !sample.known) return null;
  const { capacity } = sample.value;
  const rest = thresholds.filter(({ signal }) => signal !== 'memory.available');
  const aloneMs = Math.min(crossedInMs(observation, rest, config), next.heldToMs, config.pace.maxMs, GLANCES_MS);
  if (aloneMs <= next.paceMs) return null;
  return {
    leastBytes: Math.max(...ofMemory.map(({ value }) => bytesUp(resolve(value, capacity)))),
    bytesPerMs: FASTEST_PER_MS.bytes(config.pace.cpus),
    floorMs: floorOf(observation, config, spent),
    fallingFloorMs: floorOf(observation, config, spent, FALLING_BUDGETS),
    since: sample.value,
    untilMs: observation.atMs + aloneMs,
  };
}

/** `afterMs` null: a full look is due now, and reads `pods`. `glance`: for the next glance. */
type AfterGlance = {
  readonly afterMs: number | null;
  readonly pods: NextLook['pods'];
  readonly glance: Glance;
};

/**
 * When to read memory.available again. Once a threshold is met, a full look with the pods is due, so that it can choose a
 * victim.
 */
export function afterGlance(glance: Glance, memory: Reading<SignalSample>): AfterGlance {
  if (!memory.known) return { afterMs: null, pods: null, glance };
  const { available, sampledAtMs } = memory.value;
  const headroom = available - glance.leastBytes;
  if (headroom < 0) return { afterMs: null, pods: 'memory.available', glance };
  const leftMs = glance.untilMs - sampledAtMs;
  if (leftMs <= 0) return { afterMs: null, pods: null, glance };
  const floorMs = isFallingTo(glance, memory.value) ? glance.fallingFloorMs : glance.floorMs;
  const afterMs = Math.min(Math.max(headroom / glance.bytesPerMs, floorMs), leftMs);
  return { afterMs, pods: null, glance: { ...glance, floorMs, since: memory.value } };
}

/** Whether a threshold would be met soon at the rate since the last sample. */
function isFallingTo({ leastBytes, since }: Glance, { available, sampledAtMs }: SignalSample): boolean {
  const fallenBytes = since.available - available;
  return fallenBytes > 0 && (available - leastBytes) * (sampledAtMs - since.sampledAtMs) <= fallenBytes * SOON_MS;
}

/** Infinity if no threshold is unmet. */
function crossedInMs(observation: Observation, thresholds: readonly Threshold[], config: CoreConfig): number {
  let afterMs = Number.POSITIVE_INFINITY;
  for (const threshold of thresholds) {
    const sample = observation.signals[threshold.signal];
    if (!sample.known) {
      // An unreadable signal may be just above its threshold. File systems have a pace of their own.
      const isBlind = sample.why !== 'not-applicable' && !isDisk(threshold.signal);
      if (isBlind) afterMs = Math.min(afterMs, UNKNOWN_PACE_MS);
      continue;
    }
    const headroom = sample.value.available - bytesUp(resolve(threshold.value, sample.value.capacity));
    if (headroom < 0) continue;
    const perMs = FASTEST_PER_MS[SIGNAL_FACTS[threshold.signal].unit](config.pace.cpus);
    afterMs = Math.min(afterMs, headroom / perMs);
  }
  return afterMs;
}

/** D2's minute: CPU time at most once a second, 61 entries. It starts anew with the process. */
export function spentAfter(spent: State['spent'], observation: Observation): State['spent'] {
  const { atMs, cpuMs } = observation;
  const last = spent.at(-1);
  if (last === undefined || cpuMs < last.cpuMs || atMs < last.atMs) return [{ atMs, cpuMs }];
  if (atMs - last.atMs < SPENT_STEP_MS) return spent;
  return [...spent.filter((entry) => atMs - entry.atMs <= BUDGET_WINDOW_MS), { atMs, cpuMs }].slice(-SPENT_KEPT);
}

/** The minimum time between looks. */
function floorOf(observation: Observation, { pace }: CoreConfig, spent: State['spent'], budgets = 1): number {
  return isBudgetSpent(observation, spent, budgets * pace.cpuShare) ? Math.max(pace.minMs, SPENT_PACE_MS) : pace.minMs;
}

function isBudgetSpent(observation: Observation, spent: State['spent'], cpuShare: number): boolean {
  const first = spent.find((entry) => observation.atMs - entry.atMs <= BUDGET_WINDOW_MS);
  return first !== undefined && observation.cpuMs - first.cpuMs >= cpuShare * BUDGET_WINDOW_MS;
}
