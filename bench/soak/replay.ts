import type { DecisionRecord } from '../../src/record/entry.ts';
import type { EvictionScenario } from '../../src/record/scenarios/scenario-of.ts';
import type { Json } from '../../src/record/scenarios/scenario-pod.ts';
import type { EvictionResult } from '../../src/simulate/eviction/result.ts';

/** What the record says of one decision, and the scenario from which `simulate` must come to the same. */
export type Replay = {
  readonly id: string;
  readonly scenario: EvictionScenario;
  readonly signal: string;
  /** `namespace/name` */
  readonly victim: string;
  /** Empty: the decision has none (local storage limits). */
  readonly ranking: readonly string[];
  /** null: a soft threshold stands in the scenario as a hard one, with a grace of its own. */
  readonly graceSeconds: number | null;
};
export type Guard = { readonly kills: number; readonly windowMs: number } | null;
type Metadata = {
  readonly name: string;
  readonly namespace: string;
  readonly uid: string;
  readonly ownerReferences?: readonly { readonly uid?: string }[];
};
type Evict = Extract<DecisionRecord['decision'], { kind: 'evict' }>;

/** The agent writes these; the record is believed in its form and in nothing else. */
const metadataOf = (pod: Json): Metadata => pod['metadata'] as Metadata;
const nameOf = ({ namespace, name }: { readonly namespace: string; readonly name: string }): string =>
  `${namespace}/${name}`;

/**
 * null: a decision that chooses nobody. A sentence: the record cannot be derived again, or who was passed over because of
 * what happened before (D3, D6) is not borne out by what the record says of that. `earlier`: of the same run.
 */
export function replayOf(
  record: DecisionRecord,
  earlier: readonly DecisionRecord[],
  guard: Guard,
): Replay | string | null {
  const { decision, observation } = record;
  if (decision.kind !== 'evict' && decision.kind !== 'evict-over-limit') return null;
  const scenario = observation?.scenario ?? null;
  if (scenario === null) return 'the record holds no scenario';
  const { id } = decision;
  const named = { ...scenario, metadata: { ...scenario.metadata, name: id } };
  const victim = nameOf(decision.victim);
  if (decision.kind === 'evict-over-limit') {
    return { id, scenario: named, signal: `${decision.limit}.limit`, victim, ranking: [], graceSeconds: 1 };
  }
  const barred = barredByHistory(record, earlier, guard);
  if (typeof barred === 'string') return barred;
  const left = without(named, barred, staleSignals(record));
  const names = new Map(left.pods.map(metadataOf).map((pod) => [pod.uid, nameOf(pod)]));
  const { threshold, ranking, graceSeconds } = decision;
  return {
    id,
    scenario: left,
    signal: threshold.signal,
    victim,
    // Who ended already, or was ending, stands in the ranking and not in the scenario.
    ranking: ranking.flatMap(({ uid }) => names.get(uid) ?? []),
    graceSeconds: threshold.isHard ? graceSeconds : null,
  };
}

/** The uids that a scenario without a history cannot know to pass over; a sentence where history says otherwise. */
function barredByHistory(
  record: DecisionRecord,
  earlier: readonly DecisionRecord[],
  guard: Guard,
): ReadonlySet<string> | string {
  const barred = new Set<string>();
  const scenario = record.observation?.scenario;
  for (const reason of record.reasons) {
    if (reason.code !== 'passed-over') continue;
    const pod = scenario?.pods.map(metadataOf).find(({ uid }) => uid === reason.uid);
    if (pod === undefined) continue;
    if (reason.because === 'terminating' && !isUnderWay(reason.uid, record, earlier)) {
      return `${nameOf(pod)} was passed over as terminating, and no earlier decision ends it`;
    }
    if (reason.because === 'guard' && ownerLosses(pod, record, earlier, guard) < (guard?.kills ?? Infinity)) {
      return `${nameOf(pod)} was passed over by the guard, and its owner has not lost so many`;
    }
    if (reason.because === 'terminating' || reason.because === 'guard') barred.add(reason.uid);
  }
  return barred;
}

function isUnderWay(uid: string, { decision }: DecisionRecord, earlier: readonly DecisionRecord[]): boolean {
  return earlier.some(
    (other) =>
      'victim' in other.decision &&
      other.decision.victim.uid === uid &&
      !other.outcomes.some(({ atMs }) => atMs < decision.atMs),
  );
}

function ownerLosses(
  pod: Metadata,
  { decision }: DecisionRecord,
  earlier: readonly DecisionRecord[],
  guard: Guard,
): number {
  const owner = ownerOf(pod);
  if (owner === null || guard === null) return 0;
  return earlier.filter((other) => {
    if (other.decision.kind !== 'evict' || decision.atMs - other.decision.atMs >= guard.windowMs) return false;
    const victim = victimIn(other, other.decision);
    return victim !== undefined && ownerOf(victim) === owner;
  }).length;
}

const ownerOf = (pod: Metadata): string | null => pod.ownerReferences?.[0]?.uid ?? null;
const victimIn = ({ observation }: DecisionRecord, { victim }: Evict): Metadata | undefined =>
  observation?.scenario?.pods.map(metadataOf).find(({ uid }) => uid === victim.uid);

/** Thresholds of these were met and not acted on: their sample was that of an earlier look. */
function staleSignals({ reasons }: DecisionRecord): ReadonlySet<string> {
  return new Set(reasons.flatMap((reason) => (reason.code === 'sample-not-new' ? [reason.signal] : [])));
}

function without(
  scenario: EvictionScenario,
  uids: ReadonlySet<string>,
  signals: ReadonlySet<string>,
): EvictionScenario {
  const pods = scenario.pods.filter((pod) => !uids.has(metadataOf(pod).uid));
  if (signals.size === 0) return { ...scenario, pods };
  const rest = (thresholds: unknown): Json =>
    Object.fromEntries(Object.entries(thresholds as Json).filter(([signal]) => !signals.has(signal)));
  const { config } = scenario;
  const keys = ['evictionHard', 'evictionSoft', 'evictionSoftGracePeriod', 'evictionMinimumReclaim'];
  return {
    ...scenario,
    pods,
    config: { ...config, ...Object.fromEntries(keys.map((key) => [key, rest(config[key])])) },
  };
}

/** What `simulate` says otherwise than the record; null: the same. `result`: of the only step. */
export function differenceOf(replay: Replay, result: Pick<EvictionResult, 'ranking' | 'evicted'>): string | null {
  const { signal, victim, ranking, graceSeconds } = replay;
  const evicted = result.evicted.find((pod) => pod.pod === victim);
  const said = result.evicted.map((pod) => `${pod.pod} for ${pod.signal}`).join(', ') || 'nobody';
  if (evicted === undefined || evicted.signal !== signal) {
    return `the record evicted ${victim} for ${signal}, simulate ${said}`;
  }
  if (graceSeconds !== null && evicted.gracePeriodSeconds !== graceSeconds) {
    return `${victim} has ${graceSeconds} s in the record, ${evicted.gracePeriodSeconds} s in simulate`;
  }
  if (ranking.length === 0) return null;
  if (result.evicted.length !== 1) return `the record evicted ${victim}, simulate ${said}`;
  if (result.ranking.join() === ranking.join()) return null;
  return `the record ranks ${ranking.join(', ')}; simulate ranks ${result.ranking.join(', ')}`;
}

/** The scenarios as a .jsonl file, for `nodewarden simulate -o jsonl`. */
export const scenarioLines = (replays: readonly Replay[]): string =>
  replays.map(({ scenario }) => `${JSON.stringify(scenario)}\n`).join('');

/** What `simulate -o jsonl` printed of them, against the record: a sentence for each decision that is not the same. */
export function differencesIn(replays: readonly Replay[], printed: string): readonly string[] {
  const results = new Map<string, EvictionResult>();
  for (const line of printed.split('\n')) {
    if (line === '') continue;
    // Our own program's output.
    const report = JSON.parse(line) as { name?: string; steps?: readonly { readonly result: EvictionResult }[] };
    const result = report.steps?.[0]?.result;
    if (report.name !== undefined && result !== undefined) results.set(report.name, result);
  }
  return replays.flatMap((replay) => {
    const result = results.get(replay.id);
    const difference = result === undefined ? 'simulate says nothing of it' : differenceOf(replay, result);
    return difference === null ? [] : [`decision ${replay.id}: ${difference}`];
  });
}
