import { loadConfig } from '../config/load.ts';

/** Where the daemon of a configuration is reached and keeps its record. */
export type Places = { readonly socket: string; readonly stateDirectory: string; readonly runtimeDirectory: string };

const DEFAULT_PLACES: Places = {
  socket: '/run/nodewarden/nodewarden.sock',
  stateDirectory: '/var/lib/nodewarden',
  runtimeDirectory: '/run/nodewarden',
};

/** null: the configuration at its usual path. One that is broken, or that we may not read, names no places of its own. */
export function placesOf(configFile: string | null): Places {
  const { effective } = loadConfig(configFile);
  return effective ?? DEFAULT_PLACES;
}
