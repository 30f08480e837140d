import type { GuardEffective } from '../config/guard/effective.ts';
import { type AskMetadata, loadGuard } from '../config/guard/load.ts';
import { needRestart, reloaded, withoutClosed } from '../config/guard/reload.ts';
import type { FencingRecord } from '../core/guard/record.ts';
import { sayProblem } from '../document/problem.ts';
import { watchPath } from '../host/watch-path.ts';
import type { Clock, Findings, Log } from '../ports.ts';
import { RESTART_NEEDED, restartNeeded } from '../words/finding-guard.ts';
import { CONFIG, notReloaded } from '../words/finding-own.ts';

type OpenPlan = Pick<FencingRecord, 'node' | 'plan'>;
export type GuardReload = {
  readonly inForce: () => GuardEffective;
  /** After each look: fencings may have ended. */
  readonly looked: () => void;
  readonly close: () => void;
};

/**
 * Reloads the configuration on SIGHUP and when its file or its nodesFile changes. A file with mistakes changes nothing, and a
 * fencing that is open keeps its plan (guard.md 4).
 */
export function createGuardReload(needs: {
  readonly clock: Clock;
  readonly log: Log;
  readonly findings: Findings;
  readonly file: string | null;
  readonly started: GuardEffective;
  readonly metadata: AskMetadata;
  readonly open: () => readonly OpenPlan[];
  readonly changed: () => void;
}): GuardReload {
  const { clock, log, findings, started } = needs;
  let inForce = started;
  let isLoading = false;
  let isDue = false;
  let ends: readonly (() => void)[] = [];

  function watch(): void {
    for (const end of ends) end();
    const files = [inForce.file, ...(inForce.nodesFile === null ? [] : [inForce.nodesFile])];
    ends = files.map((file) => watchPath(file, reload, clock));
  }

  function reload(): void {
    isDue = true;
    if (!isLoading) void load();
  }

  async function load(): Promise<void> {
    isLoading = true;
    while (isDue) {
      isDue = false;
      const { effective, problems } = await loadGuard(needs.file, needs.metadata);
      const [first] = problems;
      if (effective !== null) accept(effective);
      else refuse(first === undefined ? 'no reason was given' : sayProblem(first), problems.length - 1);
    }
    isLoading = false;
  }

  function refuse(first: string, more: number): void {
    const why = notReloaded(more > 0 ? `${first} (and ${more} more)` : first);
    findings.raise(why);
    log.error({ event: 'config' }, why.text);
  }

  function accept(effective: GuardEffective): void {
    findings.clear(CONFIG);
    const fields = needRestart(started, effective);
    if (fields.length > 0) findings.raise(restartNeeded(fields));
    else findings.clear(RESTART_NEEDED);
    inForce = reloaded(inForce, effective, needs.open());
    watch();
    log.info({ event: 'config', hash: inForce.hash }, `the configuration ${inForce.file} is in force`);
    needs.changed();
  }

  process.on('SIGHUP', reload);
  watch();
  return {
    inForce: () => inForce,
    looked: () => {
      inForce = withoutClosed(inForce, needs.open());
    },
    close: () => {
      process.off('SIGHUP', reload);
      for (const end of ends) end();
    },
  };
}
