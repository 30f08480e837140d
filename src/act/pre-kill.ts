import type { Decision } from '../core/decision.ts';
import type { CommandRunner } from '../host/transient.ts';
import type { Findings } from '../ports.ts';
import { PRE_KILL, preKillFailed } from '../words/finding-eviction.ts';

/** Evidence before a soft eviction, the decision on standard input. Never called for a hard one. */
export type PreKill = (decision: Extract<Decision, { kind: 'evict' }>) => Promise<void>;

export function createPreKill(needs: {
  readonly configured: () => { readonly command: readonly string[]; readonly timeoutMs: number } | null;
  readonly run: CommandRunner;
  readonly findings: Findings;
}): PreKill {
  return async (decision) => {
    const configured = needs.configured();
    if (configured === null) return;
    const { command: argv, timeoutMs } = configured;
    const result = await needs.run({ argv, timeoutMs, stdin: `${JSON.stringify(decision)}\n` });
    if (result.kind === 'exited' && result.code === 0) return needs.findings.clear(PRE_KILL);
    const how = result.kind === 'exited' ? `exit status ${result.code}` : result.kind;
    needs.findings.raise(preKillFailed(how));
  };
}
