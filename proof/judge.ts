import { atMost, type Machine } from '../bench/result.ts';
import type { Check, Evidence } from './evidence.ts';
import type { Line, Use } from './lines.ts';
import { commandOf, type PartName } from './parts.ts';

/** A command of this run. `ended`: null if it exited with 0. */
export type Ran = Evidence & {
  readonly seconds: number;
  readonly loadBefore: number;
  readonly ended: string | null;
};
/** Why it was not run. */
export type Left = { readonly why: string };
export type Run = { readonly on: Machine; readonly parts: { readonly [name in PartName]?: Ran | Left } };

export type Verdict = 'holds' | 'does not hold' | 'not run here';
export type Judged = {
  readonly verdict: Verdict;
  readonly figure: string;
  readonly uses: readonly Shown[];
};
/** What one command showed; `all` are its figures. */
type Shown = { readonly use: Use; readonly shown: readonly Check[]; readonly all: readonly string[] };

export function judge({ uses }: Line, { parts }: Run): Judged {
  const byUse = uses.map((use) => shownBy(use, parts[use.part]));
  const checks = byUse.flatMap(({ shown }) => shown);
  const is = (holds: boolean | null): readonly Check[] => checks.filter((check) => check.holds === holds);
  const verdict = is(false).length > 0 ? 'does not hold' : is(null).length > 0 ? 'not run here' : 'holds';
  const tried = is(true).length + is(false).length;
  const sentences = [
    tried === 0 ? '' : `${is(true).length} of ${tried} checks hold`,
    ...is(false).map(({ name, figures }) => `not: ${name}${figures === '' ? '' : ` (${figures})`}`),
    ...is(null).map(({ name, figures }) => `not run: ${name} (${figures})`),
    ...byUse.flatMap(sayFigures),
  ];
  return { verdict, figure: sentences.filter((text) => text !== '').join('; '), uses: byUse };
}

/** The figures for the table, from the command and from its checks. */
function sayFigures({ use: { figures: wanted }, shown, all }: Shown): readonly string[] {
  if (wanted === undefined) return [];
  const checks = shown.filter(({ name, holds, figures }) => holds === true && figures !== '' && wanted.test(name));
  const sayCheck = ({ name, figures }: Check): string => (shown.length === 1 ? figures : `${name}: ${figures}`);
  return [...all.filter((figure) => wanted.test(figure)), ...checks.map(sayCheck)];
}

function shownBy(use: Use, ran: Ran | Left | undefined): Shown {
  if (ran === undefined || 'why' in ran) {
    const figures = ran?.why ?? 'not asked for';
    return { use, shown: [{ name: commandOf(use.part), holds: null, figures }], all: [] };
  }
  const { checks, figures } = ran;
  const asked = checks.filter(({ name }) => use.checks?.test(name) ?? true);
  // A skipped command reports that under a name of its own.
  const shown = asked.length > 0 ? asked : checks.filter(({ holds }) => holds === null);
  const bar =
    use.atMost === undefined || shown.every(({ holds }) => holds === null) ? [] : [barOf(use.atMost, figures)];
  return { use, shown: [...shown, ...bar, ...brokenOf(use, ran, shown)], all: figures };
}

/** A command that ended without showing what it was run for. */
function brokenOf({ part }: Use, { checks, ended, isWhole }: Ran, shown: readonly Check[]): readonly Check[] {
  // If it failed because of a check, that check says so.
  const isExplained = ended === null || (isWhole && checks.some(({ holds }) => holds === false));
  if (isExplained && isWhole && shown.length > 0) return [];
  const figures = ended ?? 'it ended without a word of it';
  return [{ name: commandOf(part), holds: false, figures }];
}

function barOf({ figure, most, unit }: NonNullable<Use['atMost']>, figures: readonly string[]): Check {
  const said = figures.find((one) => one.startsWith(`${figure} `));
  const value = said === undefined ? Number.NaN : Number(said.slice(figure.length + 1));
  const bar = atMost(figure, most, value, unit);
  return { name: figure, holds: bar.holds, figures: `${bar.value}, wanted ${bar.bar}` };
}
