import { CommanderError } from 'commander';
import { loadLastGood } from '../config/last-good.ts';
import { loadConfig } from '../config/load.ts';
import { sayProblem } from '../document/problem.ts';
import { clean } from './print.ts';

/** Where the daemon listens and keeps its record. */
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
 * The paths in a configuration file; null = the one at the default path. If the file is broken, the paths of the last
 * good configuration apply, because the agent still runs with them; this is printed if the file was named. Without a last
 * good one, the default file yields the default paths, and a named file is a usage error.
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
