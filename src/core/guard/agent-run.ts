/** What an agent is asked about a machine (G3). Never `reboot`, which leaves nothing that could be proven. */
export type AgentAction = 'status' | 'off' | 'on';

/** The answer to a write is awaited for this long. */
export const WRITE_DEADLINE_MS = 5_000;
/** A command begins so soon after its record is known to be stored, or after the step before it has ended, or never. */
export const BEGIN_WITHIN_MS = 3_000;

/** `isCut`: there was more of it. */
export type AgentOutput = { readonly stdout: string; readonly stderr: string; readonly isCut: boolean };

/** How one run of a fence agent ended (guard.md 8.1). */
export type AgentEnd =
  | { readonly kind: 'not-started'; readonly detail: string }
  | (AgentOutput & {
      /** Processes that still ran, or held the output, when the agent had ended: `name (pid)`. They were killed if found. */
      readonly left: readonly string[];
    } & AgentExit);
type AgentExit =
  | { readonly kind: 'exited'; readonly code: number }
  | { readonly kind: 'signalled'; readonly signal: string }
  | { readonly kind: 'timed-out' };
