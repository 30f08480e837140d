import { COMPARATORS, type Comparator, UNSAID } from '../core/eviction/comparator.ts';
import type { Obstacle } from '../core/explain.ts';
import { namesOf, type PodUid, podName } from '../core/pod/pod.ts';
import { isDisk, type Signal } from '../core/signal.ts';
import { sayDuration } from '../core/units/duration.ts';
import type { ExplainedRow, ExplainReport } from '../serve/explain-report.ts';
import { sayDecision, sayMs, sayTies } from '../words/decision.ts';
import { sayAmount } from '../words/phrases.ts';
import { sayPassedOver, sayReason } from '../words/reason.ts';
import { sayChange } from '../words/what-if.ts';
import { sayValue } from './history-text.ts';
import { clean, type Paint, sayWhen, table } from './print.ts';

const PODS_SHOWN = 20;

/** The report for people. Everything that a tenant named is escaped. */
export function explainText(report: ExplainReport, paint: Paint): string {
  const parts = [nowText(report, paint), rankingText(report, paint), whatIfText(report, paint)];
  return parts.filter((part) => part !== '').join('\n');
}

function nowText(report: ExplainReport, paint: Paint): string {
  const { source, decisions, actsOn } = report;
  const where =
    source.kind === 'live'
      ? `${source.node}${source.dryRun ? ' (dry run: nothing is stopped)' : ''}, ${sayWhen(source.atWallMs)}`
      : `${source.file}: ${source.name}, step ${source.step} at ${sayDuration(source.at)}`;
  const told = decisions.filter(({ kind }) => kind !== 'set-condition').map((decision) => sayDecision(decision));
  const isKnown = report.reasons.every(({ code }) => code !== 'signal-unknown');
  const unmet = isKnown ? 'no eviction is needed: no threshold is met' : 'no threshold is known to be met';
  const nothing = actsOn === null ? unmet : 'no pod is selected in this sample';
  const reasons = report.reasons.filter(({ code, signal, text }) => {
    // The table shows who is passed over, and a decision needs no second line.
    if (code === 'passed-over' || told.some((decision) => decision.includes(text))) return false;
    return code !== 'signal-unknown' || signal === report.signal.signal;
  });
  const lines = [
    ...(told.length > 0 ? told : [nothing]).map((text) => `now         ${clean(text)}`),
    `observed    ${signalText(report)}`,
    ...reasons.map(({ text }) => `because     ${clean(text)}`),
  ];
  return `${paint('bold', clean(where))}\n${lines.join('\n')}\n`;
}

/** "memory.available 2.1 GiB of 8 GiB; hard below 100 MiB, soft below 200 MiB for 30s" */
function signalText({ signal: status }: ExplainReport): string {
  const { signal, available, capacity, unknown, thresholds } = status;
  if (available === null || capacity === null) {
    const why = unknown === null ? 'not known' : `${unknown.detail} (${unknown.where})`;
    return clean(`${signal} unknown: ${why}`);
  }
  const said = thresholds.map(({ kind, limit, graceMs, isMet, metForMs }) => {
    const grace = graceMs > 0 ? ` for ${sayDuration(graceMs)}` : '';
    const held = metForMs !== null && metForMs > 0 ? ` for ${sayMs(metForMs)}` : '';
    const met = isMet || metForMs !== null ? ` (met${held})` : '';
    return `${kind} below ${limit === null ? 'unknown' : sayAmount(signal, limit)}${grace}${met}`;
  });
  const against = said.length === 0 ? 'no threshold' : said.join(', ');
  return `${signal} ${sayAmount(signal, available)} of ${sayAmount(signal, capacity)}; ${against}`;
}

function rankingText(report: ExplainReport, paint: Paint): string {
  const { pods, podsUnknown, signal: status } = report;
  if (podsUnknown !== null) return `the pods are not known: ${clean(`${podsUnknown.where}: ${podsUnknown.detail}`)}\n`;
  if (pods.length === 0) return `${paint('yellow', 'there are no pods: nothing can be evicted')}\n`;
  const { signal } = status;
  const columns = report.comparators.map(({ by }) => by).filter((by) => !COMPARATORS[by].isTie || isUsed(by, pods));
  const named = columns.filter((by) => by !== 'name');
  const shown = pods
    .map((pod, i) => ({ pod, place: i + 1 }))
    .filter(({ pod, place }) => place <= PODS_SHOWN || pod.uid === report.victim || pod.uid === report.whatIf?.uid);
  const rows = shown.map(({ pod, place }) => [
    String(place),
    marked(clean(podName(pod)), pod.decidedBy === 'name'),
    ...named.map((by) => marked(cell(signal, by, pod), pod.decidedBy === by)),
    noteOf(report, pod, paint),
  ]);
  const right = [0, ...named.map((_, i) => i + 2)];
  const heading = ['#', 'POD', ...named.map((by) => (by === 'younger' ? 'STARTED' : by.toUpperCase())), ''];
  const more = pods.length > shown.length ? `and ${pods.length - shown.length} more; -o json has all\n` : '';
  return `${headText(report)}\n${table(heading, rows, right)}${more}${legend(report, paint)}${unmeasuredText(report, paint)}`;
}

function headText({ signal: { signal, thresholds }, actsOn, decisions }: ExplainReport): string {
  if (decisions.some(({ kind }) => kind === 'evict-over-limit'))
    return `storage limits need no ranking; for ${signal}, pods would be evicted in this order`;
  if (thresholds.length === 0)
    return `${signal} has no threshold, so nothing is evicted for it; with one, pods would be evicted in this order`;
  return signal === actsOn
    ? `pods in eviction order for ${signal}`
    : `if ${signal} ran short, pods would be evicted in this order`;
}

const isUsed = (by: Comparator, pods: readonly ExplainedRow[]): boolean =>
  pods.some(({ decidedBy }) => decidedBy === by);
const marked = (text: string, isDeciding: boolean): string => (isDeciding ? `${text} *` : `${text}  `);

function cell(signal: Signal, by: Comparator, { values }: ExplainedRow): string {
  const entry = values.find((of) => of.by === by);
  if (by === 'younger' && entry?.value.known && typeof entry.value.value === 'number')
    return sayWhen(entry.value.value);
  return clean(sayValue(signal, by, entry));
}

function noteOf(report: ExplainReport, row: ExplainedRow, paint: Paint): string {
  const { uid, candidate, usage, values } = row;
  const isFirst = candidate.kind === 'victim' && !isChosenNow(report, uid);
  const isOpen = values.some(({ isAtLeast }) => isAtLeast);
  const why = usage.known || !isOpen ? ', counts as 0' : `: ${usage.where}: ${usage.detail}`;
  const unknown = hasStatistics(row) ? clean(`usage unknown${why}`) : 'no statistics';
  const notes = [
    isFirst ? paint('red', 'evicted first') : '',
    ...evictedNow(report, uid).map((text) => paint('red', text)),
    candidate.kind === 'passed-over' ? paint('yellow', `passed over: ${sayPassedOver(candidate.because)}`) : '',
    usage.known ? '' : unknown,
    clean(unsaidText(row)),
    clean(sayTies(row)),
  ];
  return notes.filter(Boolean).join(', ');
}

function unsaidText({ values }: ExplainedRow): string {
  const details = values.flatMap(({ value }) => (!value.known && value.where === UNSAID ? [value.detail] : []));
  return [...new Set(details)].join(', ');
}

/** Whether this look evicts it for the ranked signal. */
const isChosenNow = ({ decisions, signal: { signal } }: ExplainReport, uid: PodUid): boolean =>
  decisions.some(
    (decision) => decision.kind === 'evict' && decision.victim.uid === uid && decision.threshold.signal === signal,
  );

/** The decision of this look that evicts it, for any signal. */
function evictedNow({ decisions, signal: { signal } }: ExplainReport, uid: PodUid): readonly string[] {
  return decisions.flatMap((decision) => {
    if (decision.kind === 'evict-over-limit' && decision.victim.uid === uid)
      return ['evicted now over a storage limit'];
    if (decision.kind !== 'evict' || decision.victim.uid !== uid) return [];
    const { threshold } = decision;
    return [threshold.signal === signal ? 'evicted now' : `evicted now for ${threshold.signal}`];
  });
}

/** Without any statistics the compared value is unknown; otherwise a missing number counts as 0 (kubelet-eviction.md 5.5). */
const hasStatistics = ({ values }: ExplainedRow): boolean =>
  values.every(({ by, value }) => COMPARATORS[by].isTie || value.known || value.where === UNSAID);

function legend({ comparators }: ExplainReport, paint: Paint): string {
  const rules = comparators.filter(({ by }) => !COMPARATORS[by].isTie);
  const said = rules.map(({ by, first }) => `${by} (${first === 'true' ? 'yes' : first} first)`).join(', then ');
  return paint('dim', `order: ${said}; ties: newest first, then by name. * marks what put a pod before the next one\n`);
}

function unmeasuredText({ signal: { signal }, pods }: ExplainReport, paint: Paint): string {
  const unmeasured = pods.filter((pod) => !pod.usage.known && hasStatistics(pod));
  if (unmeasured.length === 0 || !isDisk(signal)) return '';
  const isSoon = unmeasured.every(({ usage }) => !usage.known && usage.why === 'not-asked');
  const [what, so] = unmeasured.length === 1 ? ['1 pod', 'it counts'] : [`${unmeasured.length} pods`, 'they count'];
  return paint('yellow', `the disk usage of ${what} is not measured${isSoon ? ' yet' : ''}: ${so} as 0 above\n`);
}

function whatIfText(report: ExplainReport, paint: Paint): string {
  const { whatIf, signal: status } = report;
  if (whatIf === null) {
    const nobody = clean(report.unproven ?? 'no pod may be evicted');
    return report.pods.length > 0 ? `${paint('yellow', nobody)}\n` : '';
  }
  const { signal } = status;
  const nameOf = namesOf(report.pods);
  const { isVictim, uid, other, changes, usageObstacle } = whatIf;
  const name = paint('bold', clean(nameOf(uid)));
  const row = report.pods.find((pod) => pod.uid === uid);
  const chosen = isChosenNow(report, uid) ? 'is chosen first' : 'would be chosen first';
  const instead = other === null ? 'no other pod could be chosen' : `without it ${clean(nameOf(other))} would be`;
  const is = isVictim ? `${name} ${chosen}; ${instead}.` : safeText(report, name, row);
  const ways = changes.map((change) => sayChange(signal, change, report.source));
  const would = isVictim ? 'It would be safe' : 'It would be chosen first';
  const lines = [
    is,
    ...(ways.length > 0 ? [`${would} ${ways.join(', or ')}.`] : []),
    // The reason it is passed over is already printed.
    ...(usageObstacle === null || usageObstacle.kind === 'passed-over' ? [] : [obstacleText(report, usageObstacle)]),
  ];
  return `${lines.join('\n')}\n`;
}

function safeText(report: ExplainReport, name: string, row: ExplainedRow | undefined): string {
  const nameOf = namesOf(report.pods);
  if (row?.candidate.kind === 'passed-over') {
    const { because } = row.candidate;
    return `${clean(sayReason({ code: 'passed-over', uid: row.uid, because }, nameOf))}.`;
  }
  const { victim, signal } = report;
  const [evicted] = row === undefined ? [] : evictedNow(report, row.uid);
  if (evicted !== undefined && victim !== null)
    return `${name} is ${evicted}; for ${signal.signal} ${clean(nameOf(victim))} would be chosen first.`;
  return `${name} is safe: ${victim === null ? 'no pod may be evicted' : `${clean(nameOf(victim))} is chosen first`}.`;
}

function obstacleText(report: ExplainReport, obstacle: Exclude<Obstacle, { kind: 'passed-over' }>): string {
  const { whatIf, signal } = report;
  const outcome = whatIf?.isVictim ? 'make it safe' : 'make it the first choice';
  return `No value of its usage would ${outcome}: ${why()}.`;

  function why(): string {
    switch (obstacle.kind) {
      case 'only-candidate':
        return 'no other pod may be evicted';
      case 'not-counted':
        return `the ranking for ${signal.signal} does not count usage on this node`;
      case 'other-passed-over': {
        const other = clean(namesOf(report.pods)(obstacle.against));
        return `even without any usage, ${other} would be passed over: ${sayPassedOver(obstacle.because)}`;
      }
      case 'decided': {
        const against = clean(namesOf(report.pods)(obstacle.against));
        const by = COMPARATORS[obstacle.by].by;
        return whatIf?.isVictim
          ? `even without any usage, it comes before ${against} by ${by}`
          : `even if it used all that the node has, ${against} would come first by ${by}`;
      }
    }
  }
}
