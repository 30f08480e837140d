import type { Decision } from '../core/decision.ts';
import type { Hasten } from '../core/eviction/hasten.ts';
import { EVIDENCE_MS } from '../core/eviction/under-way.ts';
import { type CommandRunner, TELLING_MAX_BYTES } from '../host/systemd/transient.ts';
import type { Clock, Findings } from '../ports.ts';
import { PRE_KILL, preKillFailed } from '../words/finding-eviction.ts';
import { failureOf, inputOf } from './operator-command.ts';

export type PreKill = {
  /** Collects evidence before a soft eviction; the command gets the decision on standard input. */
  readonly collect: (decision: Extract<Decision, { kind: 'evict' }>) => Promise<void>;
  /** A sentence for an eviction that does not wait for evidence; '': no command is configured. */
  readonly skipped: () => string;
};

export function createPreKill(needs: {
  readonly configured: () => { readonly command: readonly string[]; readonly timeoutMs: number } | null;
  readonly run: CommandRunner;
  readonly findings: Findings;
}): PreKill {
  const collect: PreKill['collect'] = async (decision) => {
    const configured = needs.configured();
    if (configured === null) return;
    const { command: argv, timeoutMs } = configured;
    const failure = failureOf(
      await needs.run({ argv, timeoutMs, stdin: inputOf(decision), maxMemoryBytes: TELLING_MAX_BYTES }),
    );
    if (failure === null) needs.findings.clear(PRE_KILL);
    else needs.findings.raise(preKillFailed(failure));
  };
  return {
    collect,
    skipped: () => (needs.configured() === null ? '' : 'preKill is not run: this eviction waits for nothing'),
  };
}

/** A hard threshold that is met meanwhile does not wait for it (D4). */
export function collectEvidence(
  { clock, preKill }: { readonly clock: Clock; readonly preKill: PreKill },
  decision: Extract<Decision, { kind: 'evict' }>,
  hasten: Hasten,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const cancel = clock.after(EVIDENCE_MS, resolve);
    void hasten.whenCut.then(() => resolve());
    preKill.collect(decision).finally(cancel).then(resolve, reject);
  });
}
