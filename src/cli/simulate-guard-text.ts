import { groupBy } from '../core/group-by.ts';
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
    ...costText(result),
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
  const [back, lacking] = [true, false].map((isBack) => withoutMember.filter((one) => one.isBack === isBack));
  return [
    ...(back?.length ? [`${counted(back.length, 'member')} did not run for a time, at most ${longest(back)}`] : []),
    ...(lacking?.length
      ? [`still does not run: ${namesText(lacking.map(({ pod }) => pod))}; at most ${longest(lacking)}`]
      : []),
  ];
}

function longest(members: GuardReport['result']['withoutMember']): string {
  return sayDuration(Math.max(...members.map(({ seconds }) => seconds)) * 1_000);
}

/** By gate: how long members did not run while the nodes where they ran last were held. */
function costText({ held }: GuardReport['result']): readonly string[] {
  const costly = groupBy(
    held.filter(({ memberSeconds }) => memberSeconds > 0),
    ({ gate }) => gate,
  );
  return [...costly].map(([gate, holds]) => {
    const seconds = holds.reduce((sum, { memberSeconds }) => sum + memberSeconds, 0);
    const nodes = namesText([...new Set(holds.map(({ scope }) => scope))]);
    return `held by gate ${gate}: ${nodes}; members did not run for ${sayDuration(seconds * 1_000)} in all meanwhile`;
  });
}

function namesText(names: readonly string[]): string {
  return names.length === 0 ? 'none' : clean(sayNames(names, NAMES_SHOWN));
}
