import type { Effective } from '../config/effective.ts';
import { GUARD_KIND } from '../config/source.ts';
import type { Decision } from '../core/decision.ts';
import type { Observation } from '../core/observation.ts';
import { namesOf, type PodUid } from '../core/pod/pod.ts';
import type { Reason } from '../core/reason.ts';
import { inOrder } from '../document/document.ts';
import type { Path, Problem } from '../document/problem.ts';
import { sayReason } from '../words/reason.ts';
import {
  type Comparison,
  compareLosses,
  coreConfigOf,
  type LookResult,
  lossesOfLooks,
  lossesOfShutdowns,
} from './compare.ts';
import { headOf, headProblems } from './envelope.ts';
import { compareLook } from './eviction/expect.ts';
import { isCapture } from './eviction/recorded.ts';
import type { EvictionResult } from './eviction/result.ts';
import { type EvictionLook, runEviction } from './eviction/run.ts';
import { readEvictionScenario } from './eviction/scenario.ts';
import { compareGuard } from './guard/expect.ts';
import type { Violation } from './guard/invariants.ts';
import { type GuardRules, readGuardScenario, withDevices } from './guard/read.ts';
import { fencingsIn, type GuardResult } from './guard/result.ts';
import { runGuard } from './guard/run.ts';
import type { GuardScenario } from './guard/scenario.ts';
import { type TimelineLine, timelineOf } from './guard/timeline.ts';
import type { EvictionScenario, Mismatch, ScenarioHead } from './scenario.ts';
import { compareShutdown } from './shutdown/expect.ts';
import type { ShutdownReason, ShutdownResult } from './shutdown/result.ts';
import { runShutdown } from './shutdown/run.ts';
import { readShutdownScenario, type ShutdownScenario } from './shutdown/scenario.ts';
import type { SourceItem } from './source.ts';

type Document = Extract<SourceItem, { kind: 'document' }>;

/** Why, as data and as a sentence; a pod that was passed over also has its name. */
type ReasonReport = Reason & { readonly text: string; readonly pod?: string };
/** scenarios.md 6.3, key by key in this order. */
export type StepReport = {
  readonly step: number;
  /** Milliseconds. */
  readonly at: number;
  readonly result: EvictionResult;
  readonly reasons: readonly ReasonReport[];
  readonly decisions: readonly Decision[];
  readonly mismatches: readonly Mismatch[];
};
type ReportHead<K> = {
  readonly name: string;
  readonly kind: K;
  readonly file: string;
  readonly document: number;
  readonly line: number;
  readonly ok: boolean;
};
export type EvictionReport<Step = StepReport> = ReportHead<'EvictionScenario'> & {
  readonly steps: readonly Step[];
  /** If the simulation kills a pod of a recording: whether its usage in later steps counts as freed. */
  readonly recordedUsage?: 'freed' | 'kept';
  /** `changedSteps`: numbers of the steps with a different result. */
  readonly comparison?: Comparison & { readonly changedSteps: readonly number[] };
};
/** shutdown-scenarios.md 6.1. */
export type ShutdownReport = ReportHead<'ShutdownScenario'> & {
  readonly result: ShutdownResult;
  readonly reasons: readonly ShutdownReason[];
  readonly mismatches: readonly Mismatch[];
  readonly comparison?: Comparison;
};
/** guard.md section 12. */
export type GuardReport = ReportHead<'GuardScenario'> & {
  readonly result: GuardResult;
  readonly timeline: readonly TimelineLine[];
  /** Of what must hold in every world; any of them is a bug of the guard. */
  readonly violations: readonly Violation[];
  readonly mismatches: readonly Mismatch[];
  readonly comparison?: Comparison;
};
export type ScenarioReport<Step = StepReport> = EvictionReport<Step> | ShutdownReport | GuardReport;

export type Summary = {
  readonly scenarios: number;
  readonly steps: number;
  /** The number of scenarios whose expectations were compared; those without any do not count. */
  readonly checked: number;
  readonly failed: number;
  readonly malformed: number;
};
export type Simulated<Step = StepReport> =
  | {
      readonly kind: 'scenario';
      readonly labels: ScenarioHead['labels'];
      readonly report: ScenarioReport<Step>;
      /** The line in the file of a mismatch's expectation; `step` null for a shutdown. */
      readonly lineOf: (mismatch: Mismatch, step: number | null) => number;
      /** With another configuration: the result of a shutdown under its own. */
      readonly ownResult: ShutdownResult | null;
    }
  | { readonly kind: 'problems'; readonly problems: readonly Problem[] }
  /** Always the last one. */
  | {
      readonly kind: 'summary';
      readonly summary: Summary;
      /** A file could not be read to its end. */
      readonly isUnreadable: boolean;
      /** `only` chose at least one document, possibly a malformed one. */
      readonly isFound: boolean;
    };

export type SimulateAsked<Step = StepReport> = {
  readonly expectations: 'compare' | 'ignore';
  /** null = all. */
  readonly only: ((head: ScenarioHead) => boolean) | null;
  /** Instead of every scenario's own; null = as they are. */
  readonly config: Effective | null;
  /** The same for guard scenarios. With one of the two, scenarios of the other kinds are refused. */
  readonly guardRules?: GuardRules | null;
  /** What a victim uses in later steps counts as freed; null = in captures. */
  readonly isReacting?: boolean | null;
  /** Called with every look, in order: returns what its scenario's report keeps, which matters with 10,000 rankings. */
  readonly keep: (step: StepReport) => Step;
};

/** scenarios.md 7.2. */
const MAX_PROBLEMS = 20;

/** scenarios.md 6: one scenario after another; nothing of one is kept for the next. */
export async function* simulate<Step>(
  items: AsyncIterable<SourceItem>,
  asked: SimulateAsked<Step>,
): AsyncGenerator<Simulated<Step>> {
  const counts = { scenarios: 0, steps: 0, checked: 0, failed: 0, malformed: 0 };
  let isUnreadable = false;
  let isFound = false;
  for await (const item of items) {
    if (item.kind === 'problems') {
      if (item.document === null) isUnreadable = true;
      else counts.malformed += 1;
      yield { kind: 'problems', problems: shownOf(item.problems) };
      continue;
    }
    const read = withOther(item, readScenario(item, asked.only), asked);
    if (read === null) continue;
    isFound ||= read.isNamed;
    if (read.scenario === null) {
      counts.malformed += 1;
      yield { kind: 'problems', problems: read.problems };
      continue;
    }
    const ran = runScenario(item, read.scenario, asked);
    counts.scenarios += 1;
    counts.steps += ran.steps;
    if (ran.isChecked) counts.checked += 1;
    if (!ran.report.ok) counts.failed += 1;
    const { report, ownResult } = ran;
    const { labels } = read.scenario;
    yield { kind: 'scenario', labels, report, ownResult, lineOf: lineIn(item) };
  }
  yield { kind: 'summary', summary: counts, isUnreadable, isFound };
}

type Scenario = EvictionScenario | ShutdownScenario | GuardScenario;
type Read = {
  readonly scenario: Scenario | null;
  readonly problems: readonly Problem[];
  /** Its name could be read, so `only` chose by it. */
  readonly isNamed: boolean;
};

/** null = not one of `only`: only its metadata is read, and other mistakes in it are not reported. */
export function readScenario(item: Document, only: SimulateAsked<unknown>['only']): Read | null {
  const { yaml } = item;
  const head = headOf(yaml);
  if (only !== null && head !== null && !only(head)) return null;
  // A syntax mistake, which has no path, would cause follow-up problems everywhere else.
  const isBroken = item.problems.some(({ path }) => path === '');
  const read = isBroken ? NOT_READ : readKind(head?.kind ?? null, yaml);
  const problems = shownOf(inOrder([...item.problems, ...read.problems]));
  return { scenario: problems.length > 0 ? null : read.scenario, problems, isNamed: head !== null };
}

/** Another configuration must be one for its kind. */
function withOther(
  { yaml }: Document,
  read: Read | null,
  { config, guardRules = null }: Pick<SimulateAsked<unknown>, 'config' | 'guardRules'>,
): Read | null {
  const scenario = read?.scenario ?? null;
  if (read === null || scenario === null || (config === null && guardRules === null)) return read;
  const isGuards = scenario.kind === 'GuardScenario';
  if (isGuards ? guardRules !== null : config !== null) return read;
  const wanted = isGuards ? GUARD_KIND : 'NodewardenConfiguration or a KubeletConfiguration';
  const problem = yaml.problemAt(
    ['kind'],
    `the other configuration of ${scenario.kind === 'EvictionScenario' ? 'an' : 'a'} ${scenario.kind} must be a ${wanted}`,
  );
  return { ...read, scenario: null, problems: [problem] };
}

const NOT_READ: Omit<Read, 'isNamed'> = { scenario: null, problems: [] };

function readKind(kind: Scenario['kind'] | null, yaml: Document['yaml']): typeof NOT_READ {
  switch (kind) {
    case 'EvictionScenario':
      return readEvictionScenario(yaml);
    case 'ShutdownScenario':
      return readShutdownScenario(yaml);
    case 'GuardScenario':
      return readGuardScenario(yaml);
    case null:
      return { scenario: null, problems: headProblems(yaml) };
  }
}

function shownOf(problems: readonly Problem[]): readonly Problem[] {
  const last = problems[MAX_PROBLEMS - 1];
  if (last === undefined || problems.length <= MAX_PROBLEMS) return problems;
  return [...problems.slice(0, MAX_PROBLEMS), { ...last, path: '', text: 'there are more errors that are not shown' }];
}

type Ran<Step> = {
  readonly report: ScenarioReport<Step>;
  readonly steps: number;
  readonly isChecked: boolean;
  readonly ownResult: ShutdownResult | null;
};

function runScenario<Step>(item: Document, scenario: Scenario, asked: SimulateAsked<Step>): Ran<Step> {
  switch (scenario.kind) {
    case 'EvictionScenario':
      return runLooks(item, scenario, asked);
    case 'ShutdownScenario':
      return runOneShutdown(item, scenario, asked);
    case 'GuardScenario':
      return runOneGuard(item, scenario, asked);
  }
}

function runLooks<Step>(item: Document, scenario: EvictionScenario, asked: SimulateAsked<Step>): Ran<Step> {
  const { name, kind } = scenario;
  const isComparing = asked.expectations === 'compare';
  const other = asked.config === null ? null : coreConfigOf(asked.config);
  const isReacting = asked.isReacting ?? isCapture(scenario);
  let hasKilled = false;
  const steps: Step[] = [];
  const after: LookResult[] = [];
  let ok = true;
  // One look at a time, so that an observation of many pods is released before the next one.
  for (const look of runEviction(scenario, other ?? scenario.config, isReacting)) {
    const step = stepReport(look, isComparing ? (scenario.steps[look.step - 1]?.expect ?? null) : null);
    ok &&= step.mismatches.length === 0;
    hasKilled ||= step.result.evicted.length > 0;
    if (other !== null) after.push({ at: step.at, result: step.result });
    steps.push(asked.keep(step));
  }
  const isChecked = isComparing && scenario.steps.some(({ expect }) => expect !== null);
  const isUsageStated = hasKilled && (isReacting || isCapture(scenario));
  const recordedUsage = isUsageStated ? ({ recordedUsage: isReacting ? 'freed' : 'kept' } as const) : {};
  const report: EvictionReport<Step> = { name, kind, ...placeOf(item), ok, steps, ...recordedUsage };
  const ran = { steps: steps.length, isChecked, ownResult: null };
  if (other === null) return { ...ran, report };
  const before = Array.from(
    runEviction(scenario, scenario.config, isReacting),
    ({ atMs, result }): LookResult => ({ at: atMs, result }),
  );
  const isChanged = (i: number): boolean => JSON.stringify(before[i]) !== JSON.stringify(after[i]);
  const losses = compareLosses(lossesOfLooks(before), lossesOfLooks(after));
  const changedSteps = after.flatMap((_, i) => (isChanged(i) ? [i + 1] : []));
  return { ...ran, report: { ...report, comparison: { ...losses, changedSteps } } };
}

function stepReport(look: EvictionLook, expect: EvictionScenario['steps'][number]['expect']): StepReport {
  const nameOf = namesIn(look.observation);
  return {
    step: look.step,
    at: look.atMs,
    result: look.result,
    reasons: look.reasons.map((reason) => reasonReport(reason, nameOf)),
    decisions: look.decisions,
    mismatches: expect === null ? [] : compareLook(expect, look.result),
  };
}

/** Code and sentence first, then the facts; a pod has its name next to its uid. */
function reasonReport(reason: Reason, nameOf: (uid: PodUid) => string): ReasonReport {
  const said = { code: reason.code, text: sayReason(reason, nameOf) };
  return reason.code === 'passed-over' ? { ...said, pod: nameOf(reason.uid), ...reason } : { ...said, ...reason };
}

/** Collects the names on first use: most looks need none. */
function namesIn(observation: Observation | null): (uid: PodUid) => string {
  let nameOf: ReturnType<typeof namesOf> | null = null;
  return (uid) => {
    nameOf ??= namesOf(observation?.pods.known ? observation.pods.value : []);
    return nameOf(uid);
  };
}

function runOneShutdown<Step>(item: Document, scenario: ShutdownScenario, asked: SimulateAsked<Step>): Ran<Step> {
  const { config } = asked;
  const { result, reasons } = runShutdown(config === null ? scenario : underConfig(scenario, config.shutdown));
  const isChecked = asked.expectations === 'compare' && scenario.expect !== null;
  const mismatches = isChecked && scenario.expect !== null ? compareShutdown(scenario.expect, result) : [];
  const head = { name: scenario.name, kind: scenario.kind, ...placeOf(item) } as const;
  const report: ShutdownReport = { ...head, ok: mismatches.length === 0, result, reasons, mismatches };
  const ran = { steps: 0, isChecked };
  if (config === null) return { ...ran, report, ownResult: null };
  const ownResult = runShutdown(scenario).result;
  const comparison = compareLosses(...lossesOfShutdowns(ownResult, result));
  return { ...ran, report: { ...report, comparison }, ownResult };
}

function runOneGuard<Step>(item: Document, scenario: GuardScenario, asked: SimulateAsked<Step>): Ran<Step> {
  const { guardRules = null } = asked;
  const { deadlineMs } = scenario.config;
  const other =
    guardRules === null ? scenario : { ...scenario, config: withDevices(guardRules, deadlineMs, scenario.nodes) };
  const { result, facts, violations } = runGuard(other);
  const isChecked = asked.expectations === 'compare' && scenario.expect !== null;
  const mismatches = isChecked && scenario.expect !== null ? compareGuard(scenario.expect, result) : [];
  const ok = mismatches.length === 0 && violations.length === 0;
  const head = { name: scenario.name, kind: scenario.kind, ...placeOf(item), ok } as const;
  const report: GuardReport = {
    ...head,
    result,
    timeline: timelineOf(facts),
    violations,
    mismatches,
    ...(guardRules === null
      ? {}
      : { comparison: compareLosses(fencingsIn(runGuard(scenario).facts), fencingsIn(facts)) }),
  };
  return { report, steps: 0, isChecked, ownResult: null };
}

function placeOf({ file, document, line }: Document): Pick<ReportHead<string>, 'file' | 'document' | 'line'> {
  return { file, document, line };
}

function underConfig(scenario: ShutdownScenario, { phases, cancelPolicy }: Effective['shutdown']): ShutdownScenario {
  return { ...scenario, refusals: [], warnings: [], phases, cancelPolicy };
}

function lineIn({ yaml }: Document): (mismatch: Mismatch, step: number | null) => number {
  return ({ path }, step) => yaml.problemAt([...(step === null ? [] : ['steps', step - 1]), ...stepsOf(path)], '').line;
}

/** `expect.evicted[0]` -> its steps: the reverse of sayPath. */
function stepsOf(path: string): Path {
  return [...path.matchAll(/\[(\d+)\]|\[("(?:[^"\\]|\\.)*")\]|([^.[]+)/g)].map(([, index, quoted, name = '']) =>
    index !== undefined ? Number(index) : quoted !== undefined ? String(JSON.parse(quoted)) : name,
  );
}
