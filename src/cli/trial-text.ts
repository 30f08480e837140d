import { sayDuration } from '../core/units/duration.ts';
import type { Trial, TrialCause, TrialRun } from '../record/reading/trial.ts';
import { counted, countPods, sayUsage } from '../words/phrases.ts';
import { sayAdvice } from '../words/trial.ts';
import { clean, type Paint, sayNames, sayWhen, table } from './print.ts';

/** `isWhole`: every file of the record could be read. `actedWallMs`: when an agent that acts last recorded; null: never. */
type RecordFiles = { readonly directory: string; readonly isWhole: boolean; readonly actedWallMs: number | null };

export function trialText(trial: Trial, { directory, isWhole, actedWallMs }: RecordFiles, paint: Paint): string {
  const { fromWallMs, toWallMs, stops, findings, advice } = trial;
  if (fromWallMs === null || toWallMs === null) {
    // What could not be read may hold one.
    if (!isWhole) return '';
    return nothingText(trial, directory);
  }
  const sections = [
    `Dry run, as recorded from ${sayWhen(fromWallMs)} to ${sayWhen(toWallMs)}: ${counted(trial.runs.length, 'run')} of the agent\n`,
    unknownText(trial, isWhole),
    stops.length === 0
      ? 'No pod would have been stopped.\n'
      : `${paint('bold', `${countPods(stops.length)} would have been stopped${unlessText(trial)}`)}\n${stopsText(trial)}`,
    othersText(trial),
    findings.length === 0
      ? ''
      : `${paint('bold', 'Findings during the dry run')}\n${findings.map(({ text, times }) => `  ${clean(text)}${times > 1 ? ` (${times} times)` : ''}\n`).join('')}`,
    `${paint('bold', 'Before arming')}\n${advice.map((shown) => `  ${clean(sayAdvice(shown))}\n`).join('')}${(actedWallMs ?? 0) > toWallMs ? ACTS : ARM}`,
  ];
  return sections.filter(Boolean).join('\n');
}

/** A run that decides nothing has little to record. */
function nothingText({ sinceWallMs, before }: Trial, directory: string): string {
  const since = sinceWallMs === null ? '' : ` since ${sayWhen(sinceWallMs)}`;
  if (before !== null && !before.hasEnded)
    return `Nothing is recorded under ${clean(directory)}${since}. The dry run before, last recorded at ${sayWhen(before.atWallMs)}, has no recorded end: if it has run since (see: nodewarden status), it has decided nothing.\n`;
  return `No dry run in the record under ${clean(directory)}${since}. Start one: set dryRun: true, or nodewarden run --dry-run.\n`;
}

const ACTS = '  An agent that acts has run since then: nodewarden status shows what it does.\n';
const ARM =
  '  To arm: set dryRun: false in the configuration (or leave out --dry-run), then look at nodewarden status.\n';

function unknownText({ isWhole, missing, runs, fromWallMs, sinceWallMs }: Trial, isRead: boolean): string {
  const lines = [
    ...(isRead ? [] : ['Part of the record could not be read: what it holds is unknown.']),
    ...(isWhole || fromWallMs === null || sinceWallMs === null
      ? []
      : [`The record begins at ${sayWhen(fromWallMs)}, later than asked for: what came before is unknown.`]),
    ...(missing === 0
      ? []
      : [`${counted(missing, 'line')} of the record missing or damaged: what they said is unknown.`]),
    ...runs.slice(1).map((run, i) => gapText(runs[i], run)),
  ];
  return lines.map((line) => `${line}\n`).join('');
}

/** Between two runs, nothing was observed. */
function gapText(before: TrialRun | undefined, { fromWallMs, lastEntryWallMs }: TrialRun): string {
  const ended = before?.toWallMs ?? null;
  const from = ended ?? before?.lastEntryWallMs ?? lastEntryWallMs;
  const to = fromWallMs ?? lastEntryWallMs;
  const span = sayDuration(Math.max(0, Math.round((to - from) / 1_000)) * 1_000);
  if (to < from)
    return `The clock was set back: the run before was last recorded at ${sayWhen(from)}, and the next one first at ${sayWhen(to)}. For how long no dry run watched is not known.`;
  return ended === null
    ? `The run before ${sayWhen(to)} has no recorded end: up to ${span} before that may not have been observed.`
    : `No dry run was running from ${sayWhen(from)} to ${sayWhen(to)} (${span}).`;
}

function unlessText({ stops }: Trial): string {
  const causes = stops.flatMap((stop) => stop.causes);
  const times = causes.reduce((sum, cause) => sum + cause.times, 0);
  const after = causes.reduce((sum, { afterReclaim }) => sum + afterReclaim, 0);
  if (after === 0) return '';
  const which = after === times ? ',' : `; ${after} of the ${times} stops`;
  return `${which} unless a reclaim had freed enough`;
}

function stopsText({ stops }: Trial): string {
  const rows = stops.flatMap(({ pod, causes, lastWallMs }) =>
    causes.map((cause, i) => [
      i === 0 ? clean(pod) : '',
      String(cause.times),
      `${cause.signal} (${cause.kind})`,
      atMostText(cause),
      i === 0 ? sayWhen(lastWallMs) : '',
    ]),
  );
  const note = stops.some(({ times }) => times > 1)
    ? 'A dry run stops no pod, so the same pod is counted at every new crossing of a threshold.\n'
    : '';
  return `${table(['POD', 'TIMES', 'FOR', 'AT MOST BACK', 'LAST'], rows, [1])}${note}`;
}

function atMostText({ signal, atMost }: TrialCause): string {
  return atMost === null || signal === 'ephemeral-storage.limit' ? 'unknown' : sayUsage(signal, atMost);
}

function othersText({ reclaims, kernelOomKills }: Trial): string {
  const killed = kernelOomKills.reduce((sum, { count }) => sum + count, 0);
  const names = [...new Set(kernelOomKills.flatMap(({ pods }) => pods))].map(clean);
  const whose = names.length === 0 ? '' : ` (${sayNames(names)})`;
  const lines = [
    ...reclaims.map(
      ({ signal, times }) => `The reclaim for ${signal} would have run ${times === 1 ? 'once' : `${times} times`}.`,
    ),
    ...(killed === 0
      ? []
      : [`The kernel's OOM killer killed ${killed === 1 ? '1 process' : `${killed} processes`}${whose}.`]),
  ];
  return lines.map((line) => `${line}\n`).join('');
}
