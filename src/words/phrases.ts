import type { MetThreshold } from '../core/eviction/threshold.ts';
import { SIGNAL_FACTS, type Signal, type Unit, usageUnit } from '../core/signal.ts';
import { sayDuration } from '../core/units/duration.ts';
import { bytesUp, type Quantity, sayBytes } from '../core/units/quantity.ts';

/** An amount of the signal for people: "92.1 MiB", "1204 inodes", "311 pids", "5.5s". */
export function sayAmount(signal: Signal, amount: number): string {
  return SAID_IN[SIGNAL_FACTS[signal].unit](amount);
}
/** The same of an amount and one above it, as exactly as it takes to tell them apart. */
export function sayApart(signal: Signal, amount: number, above: number): readonly [string, string] {
  const ways = [(of: number) => sayAmount(signal, of), ...EXACTER[SIGNAL_FACTS[signal].unit]];
  const say = ways.find((way) => way(amount) !== way(above)) ?? String;
  return [say(amount), say(above)];
}
const SAID_IN: { readonly [U in Unit]: (amount: number) => string } = {
  bytes: sayBytes,
  inodes: (amount) => `${amount} inodes`,
  pids: (amount) => `${amount} pids`,
  ms: (amount) => sayDuration(Math.round(amount)),
};

const EXACTER: { readonly [U in Unit]: readonly ((amount: number) => string)[] } = {
  bytes: [(amount) => sayBytes(amount, 2), (amount) => sayBytes(amount, 4), (amount) => `${amount} B`],
  inodes: [],
  pids: [],
  ms: [sayDuration],
};

/** Why no eviction helps: D3. */
export const HELD_BY_OTHERS =
  'what is lacking is held by pods that have ended, are being stopped or could not be ended, by processes that left a pod or are dead and not reaped, or by memory that a pod left';

/** Usage of a pod in what its signal's ranking counts. */
export function sayUsage(signal: Signal, amount: number): string {
  return usageUnit(signal) === 'bytes' ? sayBytes(amount) : String(amount);
}

export function sayLimit(signal: Signal, limit: Quantity): string {
  return sayAmount(signal, bytesUp(limit));
}

/** "memory.available 92.1 MiB is below 100 MiB"; of a signal in ms also the share of the time that it lacks. */
export function sayThreshold(threshold: MetThreshold): string {
  const { signal, available, limit, target, windowMs } = threshold;
  const [now, bound] = sayApart(signal, available, bytesUp(isHeld(threshold) ? target : limit));
  const said = `${signal} ${now} is below ${bound}${isHeld(threshold) ? ' with its min reclaim' : ''}`;
  if (windowMs === undefined) return said;
  const percent = Math.floor(((windowMs - available) * 100) / windowMs);
  return `${said}: all tasks stalled on memory for ${percent}% of the last ${sayAmount(signal, windowMs)}`;
}

/** The threshold itself is over: only its min reclaim is not reached yet. */
export const isHeld = ({ available, limit }: Pick<MetThreshold, 'available' | 'limit'>): boolean =>
  bytesUp(limit) <= available;

/** A time in a sentence, to the second. */
export const sayInstant = (wallMs: number): string => `${new Date(wallMs).toISOString().slice(0, 19)}Z`;

/** How many processes the kernel killed; `unwatchedSince`: since when no agent had watched, if none did. */
export function sayOomKills(count: number, unwatchedSince: string | null): string {
  const unwatched = unwatchedSince === null ? '' : ` while no agent watched, since ${unwatchedSince}`;
  return `the kernel's OOM killer killed ${count} ${count === 1 ? 'process' : 'processes'}${unwatched}`;
}

/** The pods in which the kernel killed; records of earlier versions do not say how many kills are unattributed. */
export function sayKilled({
  pods,
  unattributed = 0,
}: {
  readonly pods: readonly string[];
  readonly unattributed?: number;
}): string {
  if (pods.length === 0) return 'unattributed';
  return unattributed === 0 ? pods.join(', ') : `${pods.join(', ')}; ${unattributed} of them unattributed`;
}

const NAMES_SAID = 10;
/** A pod's name may have 317 characters. */
const NAMES_CHARACTERS = 1_000;
/** The first of them: "a, b and 3 more". Long names are fewer than `most`. */
export function sayNames(names: readonly string[], most = NAMES_SAID): string {
  const said: string[] = [];
  let characters = 0;
  for (const name of names.slice(0, most)) {
    characters += name.length + ', '.length;
    if (said.length > 0 && characters > NAMES_CHARACTERS) break;
    said.push(name);
  }
  const more = names.length - said.length;
  return `${said.join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
}

/** What a table says of a code that comes from a record, an answer, or another version; undefined: it does not have it. */
export const saidOf = <T>(table: { readonly [code: string]: T }, code: string | null): T | undefined =>
  code !== null && Object.hasOwn(table, code) ? table[code] : undefined;

/** To the second. */
export const sayToSecond = (ms: number): string => sayDuration(Math.round(ms / 1_000) * 1_000);

export const counted = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? '' : 's'}`;
export const countPods = (pods: number): string => counted(pods, 'pod');
export const and = (first: string, second: string): string => (second === '' ? first : `${first}; ${second}`);

/** "proof-lost" as people read it. */
export const sayCode = (code: string): string => code.replaceAll('-', ' ');
