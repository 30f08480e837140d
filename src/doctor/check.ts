import { type Unknown, unknown } from '../core/reading.ts';
import type { Finding } from '../ports.ts';
import type { Facts, PodsFacts } from './facts.ts';

/** `blocking`: nothing can be evicted here, or the agent refuses to start, until it is fixed. */
export type Weight = 'blocking' | 'warning';
/** The value for `<name>` in the command that fixes it; several: the command gets all of them. */
export type Fill = { readonly [name: string]: string | readonly string[] };
/** `mend`: replaces the command of the check if that names something that does not exist here. */
export type Found = { readonly text: string; readonly mend?: string; readonly fill?: Fill };
export type Result =
  | { readonly kind: 'fine'; readonly text: string }
  | { readonly kind: 'found'; readonly found: readonly Found[] }
  | { readonly kind: 'unknown'; readonly because: string }
  /** This host has nothing of that kind. */
  | { readonly kind: 'not-applicable' };
/** One row of the table. The command, its JSON and the sections of docs/doctor.md derive from it. */
export type Check = {
  readonly weight: Weight;
  /** "whether ...": printed if the answer is not known. */
  readonly asks: string;
  /** The command that fixes it, or shows what to fix; `<name>` is filled from the finding. */
  readonly mend: string;
  /** The IDs of the running agent's findings that this check reports; one that ends in `/` is a prefix. */
  readonly takes?: readonly string[];
  /** `version`: of this command. Several results: something was found, and something else is not known. */
  readonly judge: (facts: Facts, version: string) => Result | readonly Result[];
};
/** The command of a finding that only the agent has. */
export const AGENT_SHOWS = 'nodewarden status';

export const NO_SIZE = unknown('unreadable', '/proc/meminfo', 'the size of the memory is not known');
export const NOT_APPLICABLE: Result = { kind: 'not-applicable' };
export const fine = (text: string): Result => ({ kind: 'fine', text });
export const found = (...all: readonly Found[]): Result => ({ kind: 'found', found: all });
/** What was not asked is not repeated here: the check that found the reason reports it. */
export const unknownBecause = ({ why, where, detail }: Unknown): Result =>
  why === 'not-asked' ? NOT_APPLICABLE : { kind: 'unknown', because: `${where}: ${detail}` };
/** This host has nothing of that kind, or it cannot be read. */
export const notHereOrUnknown = (missing: Unknown): Result =>
  missing.why === 'not-applicable' ? NOT_APPLICABLE : unknownBecause(missing);
/** `orElse`: the result if nothing was found. */
export const foundOr = (all: readonly Found[], orElse: Result): Result => (all.length > 0 ? found(...all) : orElse);
/** What was found, and why there may be more; `orElse`: if nothing was found and everything could be read. */
export function foundOrUnknown(all: readonly Found[], unread: readonly Unknown[], orElse: Result): readonly Result[] {
  const [first] = unread.filter(({ why }) => why !== 'not-asked' && why !== 'not-applicable');
  if (first === undefined) return [foundOr(all, orElse)];
  return [...(all.length > 0 ? [found(...all)] : []), unknownBecause(first)];
}

/** Every pod of the manifests was read and examined. */
export const isWhole = ({ pods, declared, unread }: PodsFacts): boolean =>
  unread.length === 0 && pods.length === declared.length;

export const isTaken = ({ id }: Finding, takes: readonly string[]): boolean =>
  takes.some((taken) => id === taken || (taken.endsWith('/') && id.startsWith(taken)));

/** What the running agent reports about this; nothing if it is not running or cannot be asked. */
export function agentSays({ agent }: Facts, takes: readonly string[]): readonly Found[] {
  const findings = agent.status.known ? agent.status.value.findings : [];
  return findings.filter((finding) => isTaken(finding, takes)).map(({ text }) => ({ text }));
}

/** The same, and what the agent reports of it although this command could not look, or has found nothing. */
export const withAgentsWord = (check: Check): Check => ({
  ...check,
  judge: (facts, version) => {
    const results = [check.judge(facts, version)].flat();
    const shown = results.flatMap((result) => (result.kind === 'found' ? result.found : []));
    const left = agentSays(facts, check.takes ?? []).filter(({ text }) => !shown.some((one) => one.text === text));
    if (left.length === 0) return results;
    return [
      ...results.filter(({ kind }) => kind !== 'fine'),
      found(...left.map(({ text }) => ({ text, mend: AGENT_SHOWS }))),
    ];
  },
});
