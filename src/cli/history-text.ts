import type { Decision, Difference, RankRow, RankValue } from '../core/decision.ts';
import { sayCulprit } from '../core/eviction/attribution.ts';
import { type Comparator, comparatorNamed } from '../core/eviction/comparator.ts';
import { effectiveGraceMs, givenSeconds } from '../core/pod/grace.ts';
import { type PodUid, podName, saidPriority, type Victim } from '../core/pod/pod.ts';
import type { MonoMs } from '../core/reading.ts';
import type { Signal } from '../core/signal.ts';
import { sayDuration } from '../core/units/duration.ts';
import { bytesUp, sayBytes } from '../core/units/quantity.ts';
import type { DecisionRecord } from '../record/entry.ts';
import type { BootRecord } from '../record/reading/boots.ts';
import type { ShutdownRecord } from '../record/reading/shutdown-record.ts';
import { momentOfDecision, momentOfShutdown, type Timeline } from '../record/reading/timeline.ts';
import { sayDecision, sayFirstUnknown, sayMs, sayOutcome, sayRung, sayTies, victimIn } from '../words/decision.ts';
import { isHeld, sayApart, sayKilled, sayLimit, sayOomKills, sayUsage } from '../words/phrases.ts';
import { sayReason } from '../words/reason.ts';
import { shutdownText, ungracefulText } from './history-shutdowns-text.ts';
import { clean, type Paint, sayWhen, table } from './print.ts';

export type OomKill = {
  readonly atWallMs: number;
  readonly bootId: string;
  readonly atMs: MonoMs;
  readonly count: number;
  readonly pods: readonly string[];
  readonly unattributed?: number;
  /** They fell between this time and `atWallMs`, while no agent watched. Absent: one did. */
  readonly unwatchedSinceWallMs?: number;
};
/** What `history -o json` prints; docs/json.md describes every field. */
export type History = {
  readonly schema: 1;
  /** Oldest first. */
  readonly decisions: readonly DecisionRecord[];
  /** Kills by the kernel OOM killer, never ours. */
  readonly kernelOomKills: readonly OomKill[];
  /** Plan versus actual, oldest first; their decisions are in `decisions` too. */
  readonly shutdowns: readonly ShutdownRecord[];
  /** How every earlier boot ended, oldest first. */
  readonly boots: readonly BootRecord[];
};
type Evict = Extract<Decision, { kind: 'evict' }>;

const RANKING_SHOWN = 5;

/** One block for each eviction and each shutdown, one line for everything else, oldest first; else `nothing`. */
export function historyText(
  history: History,
  nothing: string,
  paint: Paint,
  placeOf: Timeline = ({ atWallMs }) => atWallMs,
): string {
  const inBlocks = new Set(
    history.shutdowns.flatMap((shutdown) => shutdown.decisions.map((id) => keyOf(shutdown, id))),
  );
  // A dry run counts its decisions anew, in the same boot.
  const victimOf = (of: DecisionRecord) =>
    victimIn(history.decisions.filter(({ bootId, dry }) => bootId === of.bootId && dry === of.dry));
  const parts = [
    ...history.decisions
      .filter((record) => !inBlocks.has(keyOf(record, record.decision.id)))
      .map((record) => ({
        place: placeOf(momentOfDecision(record)),
        text: entryText(record.atWallMs, String(record.decision.id), () =>
          recordText(record, (id) => victimOf(record)(id), paint),
        ),
      })),
    ...history.kernelOomKills.map((kill) => ({
      place: placeOf(kill),
      text: entryText(kill.atWallMs, 'a kernel OOM kill', () => oomText(kill, paint)),
    })),
    ...history.shutdowns.map((shutdown) => ({
      place: placeOf(momentOfShutdown(shutdown)),
      text: entryText(shutdown.beganWallMs, 'a shutdown', () => shutdownText(shutdown, paint)),
    })),
    ...history.boots
      .filter(({ end }) => end === 'ungraceful')
      .map((boot) => ({ place: boot.lastWallMs, text: ungracefulText(boot, paint) })),
  ].toSorted((a, b) => a.place - b.place);
  if (parts.length === 0) return nothing;
  return parts.map(({ text }) => text).join('');
}

function keyOf({ bootId, dry }: { readonly bootId: string; readonly dry: boolean }, id: string): string {
  return `${bootId} ${dry} ${id}`;
}

/** Bodies are not checked when read: an entry that a failing disk has changed must not hide the others. */
function entryText(atWallMs: number, what: string, text: () => string): string {
  try {
    return text();
  } catch {
    // Missing from the text; `-o json` still has it.
    return `${sayWhen(atWallMs)}  ${clean(what)}  damaged in the record\n`;
  }
}

function recordText(record: DecisionRecord, victimOf: (id: string) => string, paint: Paint): string {
  const { decision } = record;
  const marks = `${record.dry ? paint('yellow', ' [dry run]') : ''}${record.isDeferred ? ' [recorded late]' : ''}`;
  const head = `${sayWhen(record.atWallMs)}  ${clean(String(decision.id))}${marks}  `;
  if (decision.kind !== 'evict' && decision.kind !== 'evict-over-limit') {
    const isOpen = decision.kind === 'reclaim' && record.outcomes.length === 0;
    const ends = record.outcomes.map((outcome) => `: ${clean(sayOutcome(outcome, null, decision))}`);
    const outcomes = isOpen ? ': what it freed is not recorded' : ends.join('');
    const differs = decision.kind === 'hasten' ? (decision.differences ?? []) : [];
    const differing = differs.length > 0 ? `; differs ${sayDifferences(differs)}` : '';
    return `${head}${clean(`${sayDecision(decision, victimOf)}${differing}`)}${outcomes}\n`;
  }
  const lines = [
    ['victim', sayVictim(decision.victim)],
    ...(decision.kind === 'evict'
      ? evictLines(record, decision)
      : [['because', decision.message.trim()], ...tieLines(decision)]),
    ...processLines(record),
    ['grace', sayGrace(decision)],
    ...outcomeLines(record),
  ];
  // Everything is cleaned here, including names that the record itself wrote.
  const block = lines.map(([name = '', text = '']) => `  ${name.padEnd(10)}${clean(text)}\n`).join('');
  return `${head}${paint('bold', `${sayEnd(record)} ${clean(podName(decision.victim))}`)}\n${block}\n`;
}

const sayVictim = (victim: Victim): string =>
  `${podName(victim)} (${victim.qos}, priority ${saidPriority(victim) ?? 'unknown'})`;

/** The time its processes get before SIGKILL. */
function sayGrace(decision: Evict | Extract<Decision, { kind: 'evict-over-limit' }>): string {
  const { graceSeconds } = decision;
  const givenMs =
    decision.kind === 'evict' ? effectiveGraceMs(decision.threshold, graceSeconds) : givenSeconds(graceSeconds) * 1_000;
  return givenMs > 0 ? sayDuration(givenMs) : 'none, SIGKILL at once';
}

/** An attempt is not yet an eviction. */
function sayEnd({ outcomes }: DecisionRecord): string {
  switch (outcomes.at(-1)?.kind) {
    case 'ended':
      return 'evicted';
    case 'dropped':
      return 'did not evict';
    case 'unknown':
      return 'may have evicted';
    case 'survived':
      return 'could not evict';
    default:
      return 'began to evict';
  }
}

function evictLines(record: DecisionRecord, decision: Evict): string[][] {
  const { threshold, ranking, victim, differences, growth } = decision;
  const { signal } = threshold;
  const met = isHeld(threshold) ? 'counts as met until its min reclaim is reached,' : 'met';
  const { available, limit, target } = threshold;
  const [observed, bound] = sayApart(signal, available, bytesUp(isHeld(threshold) ? target : limit));
  const reclaim = isHeld(threshold) ? `, ${bound} with its min reclaim` : '';
  const nameOf = namesIn(record);
  const passedOver = record.reasons
    .filter(({ code }) => code === 'passed-over')
    .map((reason) => ['', sayReason(reason, nameOf)]);
  return [
    [
      'signal',
      `${signal}, ${threshold.isHard ? 'hard' : 'soft'} threshold, ${met} for ${sayMs(record.decision.atMs - threshold.sinceMs)}`,
    ],
    ['observed', observed],
    ['threshold', `${isHeld(threshold) ? sayLimit(signal, limit) : bound}${reclaim}`],
    ['why', whyChosen(ranking, victim.uid)],
    ...passedOver,
    ...rankingLines(signal, ranking, victim.uid, nameOf),
    ...growthLines(growth),
    ...tieLines(decision),
    ...(differences.length > 0 ? [['differs', sayDifferences(differences)]] : []),
  ];
}

function tieLines(decision: Parameters<typeof sayTies>[0]): string[][] {
  const ties = sayTies(decision);
  return ties === '' ? [] : [['ties', ties]];
}

const sayDifferences = (differences: readonly Difference[]): string => `from the kubelet in ${differences.join(', ')}`;

/** Growth in pods needs no line of its own: the ranking shows them. */
function growthLines(growth: Evict['growth']): string[][] {
  if (growth?.known === false) return [['growth', `not known: ${growth.where}: ${growth.detail}`]];
  const culprit = sayCulprit(growth);
  return culprit === '' ? [] : [['growth', culprit]];
}

export function whyChosen(ranking: readonly RankRow[], uid: PodUid): string {
  const place = ranking.findIndex((entry) => entry.uid === uid);
  const row = ranking[place];
  if (row === undefined) return 'not in the ranking';
  if (row.decidedBy === null) {
    return ranking.length === 1 ? 'the only pod' : `of ${ranking.length} pods, the only one that is not passed over`;
  }
  const passed = place === 0 ? '' : `, ${place} passed over,`;
  const unknown = sayFirstUnknown(row.decidedBy, row.values);
  const how = unknown === null ? ` by ${comparatorNamed(row.decidedBy)?.by ?? row.decidedBy}` : `: ${unknown}`;
  return `of ${ranking.length} pods${passed} it comes first${how}`;
}

/** The first rows, and the victim's. */
function rankingLines(
  signal: Signal,
  ranking: readonly RankRow[],
  victim: PodUid,
  nameOf: (uid: PodUid) => string,
): string[][] {
  const rules = (ranking[0]?.values ?? []).map(({ by }) => by).filter((by) => comparatorNamed(by)?.isTie !== true);
  const shown = ranking.filter((row, place) => place < RANKING_SHOWN || row.uid === victim);
  const rows = shown.map((row) => [
    // Escaped first, or the columns would not line up.
    clean(nameOf(row.uid)),
    ...rules.map((by) =>
      sayValue(
        signal,
        by,
        row.values.find((value) => value.by === by),
      ),
    ),
  ]);
  const lines = table(['POD', ...rules.map((by) => by.toUpperCase())], rows)
    .trimEnd()
    .split('\n');
  const more = ranking.length > shown.length ? [['', `and ${ranking.length - shown.length} more`]] : [];
  return [...lines.map((line, i) => [i === 0 ? 'ranking' : '', line]), ...more];
}

export function sayValue(signal: Signal, by: Comparator, entry: RankValue | undefined): string {
  if (entry === undefined) return '-';
  const { value, isAtLeast, isMissing } = entry;
  if (!value.known || isMissing) return 'unknown';
  if (typeof value.value === 'boolean') return value.value ? 'yes' : isAtLeast ? 'not known' : 'no';
  if (isAtLeast) return `at least ${sayValue(signal, by, { by, value })}`;
  const isAmount = typeof value.value === 'number' && comparatorNamed(by)?.isUsage === true;
  return isAmount ? sayUsage(signal, Number(value.value)) : String(value.value);
}

function processLines({ evidence }: DecisionRecord): string[][] {
  if (evidence === null) return [];
  const { largestProcesses } = evidence;
  if (!largestProcesses.known) return [['processes', `not read: ${largestProcesses.detail}`]];
  return largestProcesses.value.map(({ pid, name, rssBytes }, i) => [
    i === 0 ? 'processes' : '',
    `${name} (pid ${pid}) ${sayBytes(rssBytes)}`,
  ]);
}

function outcomeLines({ outcomes, evidence, decision, rungs }: DecisionRecord): string[][] {
  const reacted =
    evidence === null ? [] : [['reacted', `within ${sayMs(Math.max(0, evidence.stopBeganAtMs - decision.atMs))}`]];
  const ended = outcomes.map((outcome) => {
    const afterMs = evidence === null ? null : Math.max(0, outcome.atMs - evidence.stopBeganAtMs);
    return ['outcome', sayOutcome(outcome, afterMs, decision)];
  });
  const steps = rungs.map((rung, i) => [
    i === 0 ? 'steps' : '',
    sayRung(rung, rung.atMs - (evidence?.stopBeganAtMs ?? decision.atMs)),
  ]);
  if (outcomes.length === 0)
    return [...steps, ['outcome', 'none recorded: the agent is still stopping it, or ended before that was known']];
  return [...reacted, ...steps, ...ended];
}

/** The observation also has the pods that are not ranked, but an agent that was killed may not have written it. */
function namesIn({ observation, decision }: DecisionRecord): (uid: PodUid) => string {
  const names = new Map<unknown, string>();
  for (const { uid, values } of decision.kind === 'evict' ? decision.ranking : []) {
    const name = values.find(({ by }) => by === 'name')?.value;
    if (name?.known && typeof name.value === 'string') names.set(uid, name.value);
  }
  if ('victim' in decision) names.set(decision.victim.uid, podName(decision.victim));
  for (const { metadata } of observation?.scenario?.pods ?? []) {
    if (typeof metadata !== 'object' || metadata === null) continue;
    const { uid, namespace, name } = { uid: '', namespace: '', name: '', ...metadata };
    names.set(uid, podName({ namespace, name }));
  }
  for (const other of observation?.others ?? []) names.set(other.uid, podName(other));
  return (uid) => names.get(uid) ?? uid;
}

function oomText({ atWallMs, count, unwatchedSinceWallMs: since, ...whose }: OomKill, paint: Paint): string {
  const what = clean(sayOomKills(count, since === undefined ? null : sayWhen(since)));
  return `${sayWhen(atWallMs)}  ${paint('red', what)}: ${clean(sayKilled(whose))}\n`;
}
