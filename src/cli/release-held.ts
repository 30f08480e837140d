import { Command } from 'commander';
import { findCgroupMounts } from '../host/cgroup/cgroup-mounts.ts';
import { createClock, readBootId, sleep } from '../host/clock.ts';
import { listDirectory } from '../host/files.ts';
import { actingLock, takeLock } from '../host/own/lock-file.ts';
import { openSystemBus } from '../host/systemd/bus.ts';
import { createLogind } from '../host/systemd/logind.ts';
import { createLogindDropIn } from '../host/systemd/logind-drop-in.ts';
import { createSystemd } from '../host/systemd/systemd.ts';
import { putBackOomScores } from '../standalone/pods/oom-scores.ts';
import { releaseHeld } from '../standalone/restart/release-held.ts';
import { daemonPathsOf } from './daemon-paths.ts';
import { withRights } from './denied.ts';
import { clean } from './print.ts';

const BUS_MS = 5_000;
const POLL_MS = 50;

/** For uninstalling the agent: nothing else would undo this. */
export function releaseHeldCommand(): Command {
  return new Command('release-held')
    .description("Restore what outlives the agent: held units, oom_score_adj, logind's delay")
    .option('-c, --config <file>', 'Configuration file that names the runtime directory')
    .addHelpText(
      'after',
      '\nExample:\n  systemctl stop nodewarden && nodewarden release-held\n\nIt starts the units that an eviction still holds down. Uninstalling calls it, with the agent stopped.',
    )
    .action(async ({ config }: { readonly config?: string }) => {
      const clock = createClock();
      const boot = readBootId();
      const places = daemonPathsOf(config ?? null);
      const bootId = boot.known ? boot.value : '';
      // A running agent would stop again what is started here.
      const there = listDirectory(places.runtimeDirectory, 1);
      const isAbsent = !there.known && there.why === 'absent';
      const lock = isAbsent ? null : takeLock(actingLock(places.runtimeDirectory), bootId);
      if (lock !== null && 'why' in lock) {
        const then = lock.isHeld ? '; stop it first: systemctl stop nodewarden' : '';
        process.stderr.write(`${clean(withRights(lock.why, 'root'))}${then}\n`);
        process.exitCode = 1;
        return;
      }
      const bus = openSystemBus(clock);
      const systemd = createSystemd(bus);
      const endMs = clock.monoMs() + BUS_MS;
      while (!systemd.isUp() && clock.monoMs() < endMs) await sleep(clock, POLL_MS);
      const { started, left, problems } = await releaseHeld({
        clock,
        systemd,
        runtimeDirectory: places.runtimeDirectory,
        bootId,
      });
      const delay = createLogindDropIn(places.runtimeDirectory).remove();
      const applied = delay.known && delay.value === 'removed' ? await createLogind(bus, clock).reload() : delay;
      bus.close();
      const mounts = findCgroupMounts();
      const put = mounts.known
        ? putBackOomScores({ clock, mounts: mounts.value, runtimeDirectory: places.runtimeDirectory, bootId })
        : { count: 0, problems: [] };
      lock?.release();
      if (put.count > 0)
        process.stdout.write(`restored oom_score_adj of ${put.count} ${put.count === 1 ? 'process' : 'processes'}\n`);
      for (const text of left) process.stdout.write(`${clean(text)}\n`);
      for (const unit of started) process.stdout.write(`started ${clean(unit)}\n`);
      const ofDelay = applied.known ? [] : [`logind may keep the longer delay: ${applied.detail}`];
      for (const problem of [...problems, ...put.problems, ...ofDelay]) process.stderr.write(`${clean(problem)}\n`);
      if (problems.length + put.problems.length + ofDelay.length > 0) process.exitCode = 1;
    });
}
