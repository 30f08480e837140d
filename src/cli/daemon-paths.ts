import { CommanderError } from 'commander';
import { loadLastGood } from '../config/last-good.ts';
import { loadConfig } from '../config/load.ts';
import { DEFAULT_PATHS } from '../config/schema.ts';
import { valueOrNull } from '../core/reading.ts';
import { sayProblem } from '../document/problem.ts';
import { isThere } from '../host/files.ts';
import { clean } from './print.ts';

/** Where the daemon listens and keeps its record. */
type DaemonPaths = {
  readonly socket: string;
  readonly stateDirectory: string;
  readonly runtimeDirectory: string;
};

/**
 * The paths in a configuration file; null = the one at the default path. If the file is broken, the paths of the last
 * good configuration apply, because the agent still runs with them; this is printed if the file was named. Without a last
 * good one, the default file yields the default paths if there is a socket: an agent without may use others. Everything else
 * is a usage error.
 */
export function daemonPathsOf(configFile: string | null): DaemonPaths {
  const { effective, problems } = loadConfig(configFile);
  if (effective !== null) return effective;
  const last = loadLastGood(configFile);
  const say = (text: string): void => void process.stderr.write(`${text}\n`);
  const isUsual = configFile === null && last === null && valueOrNull(isThere(DEFAULT_PATHS.socket)) === true;
  if (isUsual) return DEFAULT_PATHS;
  if (configFile !== null || last === null) for (const problem of problems) say(clean(sayProblem(problem)));
  if (last?.loaded.effective) {
    say(`using the paths of the last good configuration instead (${last.keptIn})`);
    return last.loaded.effective;
  }
  say('without it, the socket and the record of the agent are unknown');
  throw new CommanderError(2, 'commander.noPlaces', 'the configuration names no paths');
}
