import { CommanderError } from 'commander';
import { loadLastGood } from '../config/last-good.ts';
import { loadConfig } from '../config/load.ts';
import { sayProblem } from '../document/problem.ts';
import { clean } from './print.ts';

/** Where the daemon of a configuration is reached and keeps its record. */
type DaemonPaths = {
  readonly socket: string;
  readonly stateDirectory: string;
  readonly runtimeDirectory: string;
};

const DEFAULT_PATHS: DaemonPaths = {
  socket: '/run/nodewarden/nodewarden.sock',
  stateDirectory: '/var/lib/nodewarden',
  runtimeDirectory: '/run/nodewarden',
};

/**
 * null: the configuration at its usual path. Of one that is broken the paths of the last one that was in force count, by
 * which an agent still runs; whoever named it hears so. Without any, one at its usual path names the usual paths; one
 * that was named is a mistake in the command.
 */
export function daemonPathsOf(configFile: string | null): DaemonPaths {
  const { effective, problems } = loadConfig(configFile);
  if (effective !== null) return effective;
  const last = loadLastGood(configFile);
  const say = (text: string): void => void process.stderr.write(`${text}\n`);
  if (configFile !== null) for (const problem of problems) say(clean(sayProblem(problem)));
  if (last?.loaded.effective) {
    say(`using the paths of the last good configuration instead (${last.keptIn})`);
    return last.loaded.effective;
  }
  if (configFile === null) return DEFAULT_PATHS;
  say('without it, the socket and the record of the agent are unknown');
  throw new CommanderError(2, 'commander.noPlaces', 'the configuration names no paths');
}
