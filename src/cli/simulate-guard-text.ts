import { sayDuration } from '../core/units/duration.ts';
import type { TimelineLine } from '../simulate/guard/timeline.ts';
import type { GuardReport } from '../simulate/simulate.ts';
import { counted, sayNames } from '../words/phrases.ts';
import { clean, type Paint } from './print.ts';

const TIME_COLUMNS = 10;
const NAMES_SHOWN = 8;
type Colour = Parameters<Paint>[0];

/** What happened and what the guards did, line by line; then what came of it, and what must not have happened. */
export function guardText({ timeline, result, violations }: GuardReport, paint: Paint): readonly string[] {
  return [
    ...timeline.map((line) => `${sayDuration(line.at).padEnd(TIME_COLUMNS)} ${lineText(line, paint)}`),
    summaryText(result),
    ...membersText(result),
    ...(result.runTwice.length > 0
      ? [paint('red', `ran twice, because what said off was wrong: ${namesText(result.runTwice)}`)]
      : []),
    ...violations.map(({ invariant, at, text }) =>
      paint('red', `BROKEN ${invariant} at ${sayDuration(at)}: ${clean(text)}; this is a bug of the guard`),
    ),
  ];
}

const COLOURS: { readonly [W in TimelineLine['what']]?: Colour } = {
  event: 'dim',
  held: 'yellow',
  decided: 'red',
  power: 'red',
  'pod-started': 'green',
};

function lineText({ what, text }: TimelineLine, paint: Paint): string {
  const colour = COLOURS[what];
  return colour === undefined ? clean(text) : paint(colour, clean(text));
}

function summaryText({ fenced, recovered, leftOff, leader }: GuardReport['result']): string {
  const facts = [
    `fenced: ${namesText(fenced)}`,
    ...(recovered.length > 0 ? [`back: ${namesText(recovered)}`] : []),
    ...(leftOff.length > 0 ? [`left off: ${namesText(leftOff)}`] : []),
    leader === null ? 'nobody leads at the end' : `${clean(leader)} leads at the end`,
  ];
  return facts.join('; ');
}

function membersText({ withoutMember }: GuardReport['result']): readonly string[] {
  const lacking = withoutMember.filter(({ seconds }) => seconds === null).map(({ pod }) => pod);
  const times = withoutMember.flatMap(({ seconds }) => seconds ?? []);
  const most = times.length === 0 ? '' : `, at most ${sayDuration(Math.max(...times) * 1_000)} without one`;
  return [
    ...(times.length > 0 ? [`${counted(times.length, 'member')} back elsewhere${most}`] : []),
    ...(lacking.length > 0 ? [`still without a member: ${namesText(lacking)}`] : []),
  ];
}

function namesText(names: readonly string[]): string {
  return names.length === 0 ? 'none' : clean(sayNames(names, NAMES_SHOWN));
}
