import { type Unknown, unknown } from '../core/reading.ts';
import type { Finding } from '../ports.ts';
import type { Facts } from './facts.ts';

/** `blocking`: as it is, nothing can be evicted here, or the agent refuses to start. */
export type Weight = 'blocking' | 'warning';
/** What stands for `<name>` in the command that mends it, or each of several. */
export type Fill = { readonly [name: string]: string | readonly string[] };
/** `mend`: instead of the command of the check, where that names something that is not here. */
export type Found = { readonly text: string; readonly mend?: string; readonly fill?: Fill };
export type Result =
  | { readonly kind: 'fine'; readonly text: string }
  | { readonly kind: 'found'; readonly found: readonly Found[] }
  | { readonly kind: 'unknown'; readonly because: string }
  /** Nothing of that kind is here. */
  | { readonly kind: 'not-applicable' };
/** One row of the table: command, JSON and the sections of docs/doctor.md derive from it. */
export type Check = {
  readonly weight: Weight;
  /** "whether ...": said where it cannot be told. */
  readonly asks: string;
  /** The command that mends it, or shows what to mend; `<name>` is filled by what was found. */
  readonly mend: string;
  /** Ids of findings of the running agent, or what they begin with, which this check tells. */
  readonly takes?: readonly string[];
  /** `version`: of this command. Several: something was found beside what cannot be told. */
  readonly judge: (facts: Facts, version: string) => Result | readonly Result[];
};

export const NO_SIZE = unknown('unreadable', '/proc/meminfo', 'the size of the memory is not known');
export const NOT_APPLICABLE: Result = { kind: 'not-applicable' };
export const fine = (text: string): Result => ({ kind: 'fine', text });
export const found = (...all: readonly Found[]): Result => ({ kind: 'found', found: all });
/** What was not asked is said once, where the reason for it is found. */
export const unknownBecause = ({ why, where, detail }: Unknown): Result =>
  why === 'not-asked' ? NOT_APPLICABLE : { kind: 'unknown', because: `${where}: ${detail}` };
/** Nothing of that kind is here, or what is here cannot be read. */
export const notHereOrUnknown = (missing: Unknown): Result =>
  missing.why === 'not-applicable' ? NOT_APPLICABLE : unknownBecause(missing);
/** `orElse`: where nothing was found. */
export const foundOr = (all: readonly Found[], orElse: Result): Result => (all.length > 0 ? found(...all) : orElse);
/** What was found, and why it may not be all; `orElse`: where nothing was found and everything could be read. */
export function foundOrUnknown(all: readonly Found[], unread: readonly Unknown[], orElse: Result): readonly Result[] {
  const [first] = unread.filter(({ why }) => why !== 'not-asked' && why !== 'not-applicable');
  if (first === undefined) return [foundOr(all, orElse)];
  return [...(all.length > 0 ? [found(...all)] : []), unknownBecause(first)];
}

export const isTaken = ({ id }: Finding, takes: readonly string[]): boolean =>
  takes.some((taken) => id === taken || (taken.endsWith('/') && id.startsWith(taken)));

/** What the running agent says of this; nothing where it does not run or cannot be asked. */
export function agentSays({ agent }: Facts, takes: readonly string[]): readonly Found[] {
  const findings = agent.status.known ? agent.status.value.findings : [];
  return findings.filter((finding) => isTaken(finding, takes)).map(({ text }) => ({ text }));
}
