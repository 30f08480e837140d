import { loadConfig } from '../config/load.ts';
import { sayProblem } from '../document/problem.ts';

/** Where the daemon of a configuration is reached and keeps its record. */
export type Places = { readonly socket: string; readonly stateDirectory: string; readonly runtimeDirectory: string };

const DEFAULT_PLACES: Places = {
  socket: '/run/nodewarden/nodewarden.sock',
  stateDirectory: '/var/lib/nodewarden',
  runtimeDirectory: '/run/nodewarden',
};

/**
 * null: the configuration at its usual path. One that is broken, or that we may not read, names no places of its own;
 * whoever named it hears so.
 */
export function placesOf(configFile: string | null): Places {
  const { effective, problems } = loadConfig(configFile);
  if (effective !== null) return effective;
  if (configFile !== null) {
    for (const problem of problems) process.stderr.write(`${sayProblem(problem)}\n`);
    const { runtimeDirectory, stateDirectory } = DEFAULT_PLACES;
    process.stderr.write(`so the usual places are taken: ${runtimeDirectory}, ${stateDirectory}\n`);
  }
  return DEFAULT_PLACES;
}
