import type { GuardEffective } from '../config/guard/effective.ts';
import { type AskMetadata, loadGuard } from '../config/guard/load.ts';
import { needRestart, type Plans, reloaded, withoutClosed, withoutLess } from '../config/guard/reload.ts';
import { planOf } from '../core/guard/config.ts';
import type { FencingRecord } from '../core/guard/record.ts';
import { type Problem, sayProblem } from '../document/problem.ts';
import { watchPath } from '../host/watch-path.ts';
import type { Clock, Findings, Log } from '../ports.ts';
import {
  DEVICES_FEWER,
  DEVICES_GONE,
  devicesFewer,
  devicesGone,
  RESTART_NEEDED,
  restartNeeded,
} from '../words/finding-guard.ts';
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
  /** Names of the cluster's nodes, as far as they are known. */
  readonly nodes: () => readonly string[];
  readonly changed: () => void;
}): GuardReload {
  const { clock, log, findings, started } = needs;
  let inForce = started;
  let isLoading = false;
  let isDue = false;
  let ends: readonly (() => void)[] = [];
  let plans: Plans = started.core;
  /** Nodes that had devices until a reload. */
  let without: readonly string[] = [];

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
      const { effective, problems, warnings } = await loadGuard(needs.file, needs.metadata);
      const [first] = problems;
      if (effective !== null) accept(effective, warnings);
      else refuse(first === undefined ? 'no reason was given' : sayProblem(first), problems.length - 1);
    }
    isLoading = false;
  }

  function refuse(first: string, more: number): void {
    const why = notReloaded(more > 0 ? `${first} (and ${more} more)` : first);
    findings.raise(why);
    log.error({ event: 'config' }, why.text);
  }

  function accept(effective: GuardEffective, warnings: readonly Problem[]): void {
    findings.clear(CONFIG);
    const fields = needRestart(started, effective);
    if (fields.length > 0) findings.raise(restartNeeded(fields));
    else findings.clear(RESTART_NEEDED);
    const next = withoutLess(plans, effective);
    if (next.less.length > 0 || next.isDefaultLess) findings.raise(devicesFewer(next.less, next.isDefaultLess));
    else findings.clear(DEVICES_FEWER);
    const had = needs.nodes().filter((name) => planOf(plans, name) !== null);
    without = [...new Set([...without, ...had])].filter((name) => planOf(next.plans, name) === null);
    plans = next.plans;
    sayWithout();
    inForce = reloaded(inForce, next.effective, needs.open());
    watch();
    log.info({ event: 'config', hash: inForce.hash }, `the configuration ${inForce.file} is in force`);
    for (const { text } of warnings) log.warn({ event: 'config' }, text);
    needs.changed();
  }

  /** Whose Node is deleted needs none. */
  function sayWithout(): void {
    const nodes = without.length === 0 ? null : new Set(needs.nodes());
    without = without.filter((name) => nodes?.has(name));
    if (without.length === 0) findings.clear(DEVICES_GONE);
    else findings.raise(devicesGone(without));
  }

  process.on('SIGHUP', reload);
  watch();
  return {
    inForce: () => inForce,
    looked: () => {
      inForce = withoutClosed(inForce, needs.open());
      sayWithout();
    },
    close: () => {
      process.off('SIGHUP', reload);
      for (const end of ends) end();
    },
  };
}
