import type { Decision } from '../core/decision.ts';
import type { ExecResult } from '../host/exec.ts';
import type { Findings } from '../ports.ts';

/** Evidence before a soft eviction, the decision on standard input. Never called for a hard one. */
export type PreKill = (decision: Extract<Decision, { kind: 'evict' }>) => Promise<void>;

const FINDING = 'pre-kill';

export function createPreKill(needs: {
  readonly command: () => { readonly argv: readonly string[]; readonly timeoutMs: number } | null;
  readonly run: (argv: readonly string[], timeoutMs: number, stdin: string) => Promise<ExecResult>;
  readonly findings: Findings;
}): PreKill {
  return async (decision) => {
    const command = needs.command();
    if (command === null) return;
    const result = await needs.run(command.argv, command.timeoutMs, `${JSON.stringify(decision)}\n`);
    if (result.kind === 'exited' && result.code === 0) return needs.findings.clear(FINDING);
    const how = result.kind === 'exited' ? `exit status ${result.code}` : result.kind;
    needs.findings.raise({ id: FINDING, text: `the preKill command failed (${how}); the eviction went on` });
  };
}
