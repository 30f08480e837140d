import { Command } from 'commander';
import { openSystemBus } from '../host/bus.ts';
import { findCgroupMounts } from '../host/cgroupfs.ts';
import { createClock, readBootId, sleep } from '../host/clock.ts';
import { createSystemd } from '../host/systemd.ts';
import { putBackOomScores } from '../standalone/oom-scores.ts';
import { releaseHeld } from '../standalone/restart.ts';
import { placesOf } from './places.ts';
import { clean } from './print.ts';

const BUS_MS = 5_000;
const POLL_MS = 50;

/** For who takes the agent away: nobody else would start these units again. */
export function releaseHeldCommand(): Command {
  return new Command('release-held')
    .description(
      'starts the units that an eviction still holds down, and gives processes their old oom_score_adj back; install.sh --uninstall calls it, with the agent stopped',
    )
    .option('-c, --config <file>', 'configuration that names the runtime directory')
    .addHelpText('after', '\nExample:\n  systemctl stop nodewarden && nodewarden release-held')
    .action(async ({ config }: { readonly config?: string }) => {
      const clock = createClock();
      const boot = readBootId();
      const places = placesOf(config ?? null);
      const bus = openSystemBus(clock);
      const systemd = createSystemd(bus);
      const endMs = clock.monoMs() + BUS_MS;
      while (!systemd.isUp() && clock.monoMs() < endMs) await sleep(clock, POLL_MS);
      const bootId = boot.known ? boot.value : '';
      const { started, problems } = await releaseHeld({
        clock,
        systemd,
        runtimeDirectory: places.runtimeDirectory,
        bootId,
      });
      bus.close();
      const mounts = findCgroupMounts();
      const put = mounts.known
        ? putBackOomScores({ clock, mounts: mounts.value, runtimeDirectory: places.runtimeDirectory, bootId })
        : { count: 0, problems: [] };
      if (put.count > 0) process.stdout.write(`gave ${put.count} processes their old oom_score_adj back\n`);
      for (const unit of started) process.stdout.write(`started ${clean(unit)}\n`);
      for (const problem of [...problems, ...put.problems]) process.stderr.write(`${clean(problem)}\n`);
      if (problems.length + put.problems.length > 0) process.exitCode = 1;
    });
}
