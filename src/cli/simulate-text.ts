import type { Decision } from '../core/decision.ts';
import { effectiveGraceMs, givenSeconds } from '../core/pod/grace.ts';
import { podName } from '../core/pod/pod.ts';
import { signalsOf } from '../core/signal.ts';
import { sayDuration } from '../core/units/duration.ts';
import type { Comparison, Loss } from '../simulate/compare.ts';
import type { Mismatch } from '../simulate/scenario.ts';
import type { ShutdownResult } from '../simulate/shutdown/result.ts';
import type { EvictionReport, ShutdownReport, Simulated, StepReport, Summary } from '../simulate/simulate.ts';
import { sayDecision } from '../words/decision.ts';
import { counted, sayNames, sayThreshold } from '../words/phrases.ts';
import { whyChosen } from './history-text.ts';
import { clean, type Paint } from './print.ts';
import { guardText } from './simulate-guard-text.ts';

/** What the text needs of a look: its line (null = nothing changed or was decided), and the mismatches. */
export type LookText = Pick<StepReport, 'step' | 'at' | 'mismatches'> & { readonly line: string | null };
type Shown = Extract<Simulated<LookText>, { kind: 'scenario' }>;

const TIME_COLUMNS = 8;
/** A mismatch may contain a whole ranking or result. */
const MAX_VALUE_LENGTH = 400;
const NAMES_SHOWN = 8;
const RUNS_SHOWN = 8;

/** The text for one scenario (scenarios.md 6.4, shutdown-scenarios.md 6.3); empty if nothing happened. */
export function scenarioText(shown: Shown, paint: Paint): string {
  const { report } = shown;
  const told = toldIn(report, paint);
  const lines = [...told, ...usageText(report), ...comparisonText(shown, paint)].map((line) => `  ${line}\n`);
  const head = `${paint('bold', clean(report.name))}  ${paint('dim', clean(`${report.file}:${report.line}`))}\n`;
  return `${lines.length > 0 ? head : ''}${lines.join('')}${mismatchText(shown, paint)}`;
}

function toldIn(report: Shown['report'], paint: Paint): readonly string[] {
  switch (report.kind) {
    case 'EvictionScenario':
      return report.steps.flatMap(({ line }) => line ?? []);
    case 'ShutdownScenario':
      return shutdownText(report, paint);
    case 'GuardScenario':
      return guardText(report, paint);
  }
}

/** Recorded usage cannot react to a kill that is only simulated. */
function usageText(report: Shown['report']): readonly string[] {
  if (report.kind !== 'EvictionScenario' || report.recordedUsage === undefined) return [];
  const so =
    report.recordedUsage === 'freed'
      ? 'what a victim uses in later samples counts as freed (--no-react keeps it)'
      : 'a victim keeps its usage in later samples, so more pods may be evicted than on a live node (--react subtracts it)';
  return [`recorded usage cannot react to a simulated kill: ${so}`];
}

export function summaryText({ scenarios, steps, checked, failed, malformed }: Summary, paint: Paint): string {
  const parts = [
    counted(scenarios, 'scenario'),
    // A shutdown has none.
    ...(steps > 0 ? [counted(steps, 'sample')] : []),
    ...(checked > 0 ? [`${checked} checked`, paint(failed > 0 ? 'red' : 'green', `${failed} failed`)] : []),
    ...(malformed > 0 ? [paint('red', `${malformed} malformed`)] : []),
  ];
  return `${parts.join(', ')}\n`;
}

/** Takes the looks of one scenario after another, each in order. */
export function createLookText(paint: Paint): (step: StepReport) => LookText {
  let before = AT_START;
  return (report) => {
    const { step, at, mismatches } = report;
    if (step === 1) before = AT_START;
    const after = { observed: observedAfter(report, before), standing: standingAfter(report, before) };
    const said = lookText(report, before, after, paint);
    before = after;
    return { step, at, mismatches, line: said.length > 0 ? `${timeText(at)}${said.join('; ')}` : null };
  };
}

/** State after the previous look: the thresholds that were crossed, and the reasons that were printed and still hold. */
type Before = { readonly observed: readonly string[]; readonly standing: readonly string[] };
const AT_START: Before = { observed: [], standing: [] };

/** Nobody knows whether a threshold has recovered whose signal was not read. */
function observedAfter({ result, reasons }: StepReport, { observed }: Before): readonly string[] {
  const unread = reasons.flatMap((reason) => (reason.code === 'signal-unknown' ? [reason.signal] : []));
  const kept = observed.filter((name) => unread.some((signal) => name.startsWith(`${signal}/`)));
  return [...result.thresholdsObserved, ...kept.filter((name) => !result.thresholdsObserved.includes(name))];
}

/** A look that judged no pod, because its stats failed or are old, does not change why no pod could be evicted. */
function standingAfter({ result, reasons }: StepReport, { standing }: Before): readonly string[] {
  const told = reasons.flatMap(({ code, text }) => (STANDING.includes(code) ? [text] : []));
  const isUnjudged = told.length === 0 && result.ranking.length === 0 && result.thresholdsMet.length > 0;
  return isUnjudged ? standing : told;
}
const STANDING: readonly string[] = ['passed-over', 'no-candidate', 'order-unproven', 'waiting-for-victim'];

/** What this look changed or decided, safe for a terminal. */
function lookText(step: StepReport, before: Before, after: Before, paint: Paint): readonly string[] {
  const { decisions, reasons } = step;
  const known = before.observed;
  // A decision names its threshold itself.
  const isQuiet = decisions.every(({ kind }) => kind === 'set-condition');
  const crossed = isQuiet ? reasons.flatMap((reason) => crossedText(reason, known)) : [];
  const recovered = known.filter((name) => !after.observed.includes(name) && !isDerived(name));
  const why = reasons.flatMap((reason) => (isNews(reason, before) ? [reason.text] : []));
  return [
    ...crossed.map(clean),
    ...recovered.map((name) => `${clean(name)} has recovered`),
    ...decisions.map((decision) => decisionText(decision, step, paint)),
    ...why.map(clean),
  ];
}

function isNews(reason: StepReport['reasons'][number], { observed, standing }: Before): boolean {
  if (reason.code === 'signal-unknown') {
    return reason.failedLooks === 1 && observed.some((name) => name.startsWith(`${reason.signal}/`));
  }
  return reason.code === 'reclaim-sufficed' || (STANDING.includes(reason.code) && !standing.includes(reason.text));
}

function crossedText(reason: StepReport['reasons'][number], known: readonly string[]): readonly string[] {
  if (reason.code === 'below-threshold') {
    const { threshold } = reason;
    const name = `${threshold.signal}/${threshold.isHard ? 'hard' : 'soft'}`;
    return known.includes(name) || isDerived(name) ? [] : [sayThreshold(threshold)];
  }
  if (reason.code !== 'grace-running') return [];
  const name = `${signalIn(reason.threshold)}/soft`;
  const left = `${sayDuration(reason.remainingMs)} of its grace period left`;
  return known.includes(name) || isDerived(name) ? [] : [`${name} is crossed, ${left}`];
}

/** Whether it is derived from a threshold that is already named. */
function isDerived(name: string): boolean {
  return DERIVED.some((signal) => name.startsWith(`${signal}/`));
}
const DERIVED = [...signalsOf('containerfs'), ...signalsOf('pods-memory')];

function signalIn(id: string): string {
  return id.split('/')[0] ?? id;
}

function decisionText(decision: Decision, { result }: StepReport, paint: Paint): string {
  const said = clean(sayDecision(decision));
  if (decision.kind === 'reclaim') return `${paint('yellow', said)} (${result.nodeReclaim.join(', ')})`;
  if (decision.kind !== 'evict' && decision.kind !== 'evict-over-limit') return paint('yellow', said);
  const name = podName(decision.victim);
  const isFailed = result.evicted.some(({ pod, killFailed }) => pod === name && killFailed);
  const isSoft = decision.kind === 'evict' && !decision.threshold.isHard;
  const facts = [
    ...(isSoft ? [`soft, met for ${sayDuration(decision.atMs - decision.threshold.sinceMs)}`] : []),
    graceText(decision),
    ...(decision.kind === 'evict' ? [whyChosen(decision.ranking, decision.victim.uid)] : []),
    ...(isFailed ? [paint('red', 'the kill failed')] : []),
  ];
  return `${paint('red', said)}; ${facts.join('; ')}`;
}

/**
 * What its processes get before SIGKILL on a live node; `gracePeriodSeconds` in an expectation is what the kubelet
 * gives (D12).
 */
function graceText(decision: Extract<Decision, { kind: 'evict' | 'evict-over-limit' }>): string {
  const saidMs = givenSeconds(decision.graceSeconds) * 1_000;
  const liveMs = decision.kind === 'evict' ? effectiveGraceMs(decision.threshold, decision.graceSeconds) : saidMs;
  return liveMs > 0 ? `grace ${sayDuration(liveMs)}` : `SIGKILL at once (kubelet: grace ${sayDuration(saidMs)})`;
}

function shutdownText({ result, reasons }: ShutdownReport, paint: Paint): readonly string[] {
  const { phases = [], pods = {} } = result;
  const groups = new Map((result.groups ?? []).map((group) => [group.priority, group.pods]));
  return [
    armingText(result, paint),
    ...phases.map((phase) => {
      const { start, end, priority, periodSeconds, endedBy, stillRunning = [], volumesPending = [] } = phase;
      const left = [
        ...(stillRunning.length > 0 ? [`still running: ${namesText(stillRunning)}`] : []),
        ...(volumesPending.length > 0 ? [`volumes still mounted: ${namesText(volumesPending)}`] : []),
      ];
      const facts = [
        `to ${sayDuration(end)}: priority ${priority}, ${periodSeconds} s for ${namesText(groups.get(priority) ?? [])}`,
        ENDED_BY[endedBy],
        ...left.map((text) => paint('yellow', text)),
      ];
      return `${timeText(start)}${facts.join('; ')}`;
    }),
    ...Object.entries(pods).flatMap(([name, pod]) => {
      const leftBy = phases.find(({ stillRunning = [] }) => stillRunning.includes(name)) ?? null;
      if (pod === null || (pod.killedAt === undefined && leftBy === null)) return [];
      return [`${timeText(pod.killedAt ?? pod.stoppedAt)}${clean(name)}: ${endText(pod, leftBy, paint)}`];
    }),
    ...reasonLines(reasons).map((text) => paint('dim', clean(text))),
  ];
}

type Ended = NonNullable<NonNullable<ShutdownResult['pods']>[string]>;
type Phase = NonNullable<ShutdownResult['phases']>[number];

/** For a pod that was killed, or left running by its phase, or both. */
function endText(
  { killedAt, stoppedAt, effectiveGracePeriodSeconds }: Ended,
  leftBy: Phase | null,
  paint: Paint,
): string {
  const gone = `${sayDuration(stoppedAt)} after the signal`;
  if (killedAt === undefined) return paint('yellow', `left running, stops ${gone}`);
  if (leftBy === null) return paint('red', `killed at the end of its grace period of ${effectiveGracePeriodSeconds} s`);
  const late = killedAt > leftBy.end ? ', after its phase' : '';
  const killed = `killed at the end of its grace period of ${effectiveGracePeriodSeconds} s${late}`;
  return `${paint('red', killed)}; ${paint('yellow', `gone ${gone}`)}`;
}

/** Pods cut below their own grace are named together; a pod that is killed has its line already. */
function reasonLines(reasons: ShutdownReport['reasons']): readonly string[] {
  const cut = reasons.filter(({ code }) => code === 'cut').map(({ pod }) => String(pod));
  const others = reasons.filter(({ code }) => code !== 'cut' && code !== 'killed-late').map(({ text }) => text);
  return cut.length > 0 ? [`shorter grace period than declared: ${namesText(cut)}`, ...others] : others;
}
const ENDED_BY: { readonly [E in NonNullable<ShutdownResult['phases']>[number]['endedBy']]: string } = {
  done: 'all its pods stopped',
  period: 'its time was used up',
  volumeTimeout: 'volumes took too long to unmount',
  cancelled: 'the shutdown was cancelled',
};

function armingText(
  { configErrors, enabled, armed, inhibitDelay = 0, dropInSeconds }: ShutdownResult,
  paint: Paint,
): string {
  if (configErrors !== undefined && configErrors.length > 0) {
    return paint('red', `the kubelet refuses the configuration: ${configErrors.join(', ')}`);
  }
  if (enabled === false) return 'off: no grace period is configured, no lock is taken';
  const dropIn = typeof dropInSeconds === 'number' ? `, a drop-in requests ${dropInSeconds} s` : '';
  const wanted = `needs ${sayDuration(inhibitDelay)} from logind${dropIn}`;
  return armed === true
    ? `${paint('green', 'armed')}: ${wanted}`
    : `${paint('red', 'not armed')}: ${wanted}, not granted`;
}

function namesText(names: readonly string[]): string {
  return names.length === 0 ? 'no pods' : clean(sayNames(names, NAMES_SHOWN));
}

/** With --config: what the other configuration changes. */
function comparisonText({ report, ownResult }: Shown, paint: Paint): readonly string[] {
  const { comparison } = report;
  if (comparison === undefined) return [];
  if (report.kind === 'GuardScenario') return lossesText(comparison, 'fencing', paint);
  const changed = report.kind === 'EvictionScenario' ? changedIn(report) : [];
  const losses = lossLines(comparison, paint);
  const isChanged =
    report.kind === 'EvictionScenario'
      ? changed.length > 0
      : JSON.stringify(ownResult) !== JSON.stringify(report.result);
  if (!isChanged) return ['compared with its own configuration: no difference'];
  const looks =
    report.kind === 'EvictionScenario' ? ` in ${changed.length} of ${counted(report.steps.length, 'sample')}` : '';
  const isInLooksOnly = report.kind === 'EvictionScenario' && losses.length === 0;
  return [
    `compared with its own configuration, a difference${looks}${isInLooksOnly ? ', but in no eviction:' : ':'}`,
    ...(changed.length > 0 ? [`  samples ${runsText(changed)}`] : []),
    ...(ownResult === null ? [] : [`  its own: ${armingText(ownResult, paint)}`]),
    ...losses,
  ];
}

function lossLines(comparison: Comparison, paint: Paint): readonly string[] {
  return LISTS.flatMap(([list, said, colour]) =>
    comparison[list].map((loss) => `${paint(colour, said)} ${lossText(loss)}`),
  );
}

function lossesText(comparison: Comparison, what: string, paint: Paint): readonly string[] {
  const losses = lossLines(comparison, paint);
  if (losses.length === 0) return [`compared with its own configuration: no other ${what}`];
  return [`compared with its own configuration, a difference in ${what}s:`, ...losses];
}

const LISTS: readonly (readonly [keyof Comparison, string, 'red' | 'green' | 'yellow'])[] = [
  ['avoided', '  avoided', 'green'],
  ['added', '  added  ', 'red'],
  ['earlier', '  earlier', 'yellow'],
  ['later', '  later  ', 'yellow'],
];

type Changed = Pick<LookText, 'step' | 'at'>;
function changedIn({ steps, comparison }: EvictionReport<LookText>): readonly Changed[] {
  const changed = new Set(comparison?.changedSteps);
  return steps.filter(({ step }) => changed.has(step));
}

/** `2 (at 10s), 4 to 9 (at 30s to 1m20s)` */
function runsText(changed: readonly Changed[]): string {
  const runs: { readonly first: Changed; last: Changed }[] = [];
  for (const look of changed) {
    const run = runs.at(-1);
    if (run !== undefined && run.last.step + 1 === look.step) run.last = look;
    else runs.push({ first: look, last: look });
  }
  const said = runs
    .slice(0, RUNS_SHOWN)
    .map(({ first, last }) =>
      first === last
        ? `${first.step} (at ${sayDuration(first.at)})`
        : `${first.step} to ${last.step} (at ${sayDuration(first.at)} to ${sayDuration(last.at)})`,
    );
  const last = changed.at(-1);
  const more =
    runs.length > RUNS_SHOWN && last !== undefined
      ? ` and more, the last one ${last.step} (at ${sayDuration(last.at)})`
      : '';
  return said.join(', ') + more;
}

function lossText({ pod, at, signal }: Loss): string {
  return `${clean(pod)} at ${sayDuration(at)} (${signal})`;
}

/** scenarios.md 6.4. */
function mismatchText({ report, lineOf }: Shown, paint: Paint): string {
  const told = (mismatch: Mismatch, step: LookText | null): string => {
    const { path, expected, actual } = mismatch;
    const place = `${clean(report.file)}:${lineOf(mismatch, step?.step ?? null)}: ${clean(report.name)}`;
    const look = step === null ? '' : ` step ${step.step} (at ${sayDuration(step.at)})`;
    return `${place}${look}: ${clean(path)}: ${paint('red', `expected ${valueText(expected)}, got ${valueText(actual)}`)}\n`;
  };
  if (report.kind !== 'EvictionScenario') return report.mismatches.map((mismatch) => told(mismatch, null)).join('');
  return report.steps.flatMap((step) => step.mismatches.map((mismatch) => told(mismatch, step))).join('');
}

function valueText(value: unknown): string {
  const said = clean(JSON.stringify(value) ?? 'nothing');
  return said.length > MAX_VALUE_LENGTH ? `${said.slice(0, MAX_VALUE_LENGTH)}…` : said;
}

function timeText(ms: number): string {
  return `${sayDuration(ms).padEnd(TIME_COLUMNS - 1)} `;
}
