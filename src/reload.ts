import type { Effective } from './config/effective.ts';
import { loadConfig } from './config/load.ts';
import { sayProblem } from './document/problem.ts';
import { watchPath } from './host/files.ts';
import type { Clock, Findings, Log } from './ports.ts';

/** The last attempt to load the configuration anew; null = none yet. */
export type LastReload = { readonly atWallMs: number; readonly ok: boolean; readonly text: string } | null;
export type Loaded = { readonly effective: Effective; readonly warnings: readonly string[] };
export type Reload = { readonly last: () => LastReload; readonly now: () => void; readonly close: () => void };

const FINDING = 'config';

/**
 * Loads the configuration anew on SIGHUP and when its file or the imported one changes. A bad file changes nothing:
 * the running configuration stays in force, and log, finding and status say so (product.md section 3).
 */
export function createReload(needs: {
  readonly clock: Clock;
  readonly log: Log;
  readonly findings: Findings;
  readonly configFile: string | null;
  readonly effective: Effective;
  readonly apply: (loaded: Loaded) => void;
}): Reload {
  const { clock, log, findings, configFile } = needs;
  let last: LastReload = null;

  const refuse = (text: string): void => {
    findings.raise({ id: FINDING, text });
    last = { atWallMs: clock.wallMs(), ok: false, text };
    log.error({ event: 'config' }, text);
  };
  const accept = (loaded: Loaded): void => {
    const text = `the configuration ${loaded.effective.file ?? '(all defaults)'} is in force`;
    findings.clear(FINDING);
    last = { atWallMs: clock.wallMs(), ok: true, text };
    log.info({ event: 'config' }, text);
    needs.apply(loaded);
  };
  const reload = (): void => {
    const { effective, problems, warnings } = loadConfig(configFile);
    const [first] = problems;
    if (effective === null || first !== undefined) {
      const more = problems.length > 1 ? ` (and ${problems.length - 1} more)` : '';
      const why = first === undefined ? 'no reason was given' : sayProblem(first);
      refuse(`the configuration was not reloaded, the running one stays in force: ${why}${more}`);
    } else if (effective.mode !== needs.effective.mode) {
      refuse(`mode ${effective.mode} needs a restart, the running configuration stays in force`);
    } else accept({ effective, warnings });
  };

  process.on('SIGHUP', reload);
  const watched = [needs.effective.file, needs.effective.kubeletConfig].filter((path) => path !== null);
  const unwatch = watched.map((path) => watchPath(path, reload, clock));
  return {
    last: () => last,
    now: reload,
    close: () => {
      process.off('SIGHUP', reload);
      for (const end of unwatch) end();
    },
  };
}

/** What the parts are made from: a change here makes them anew, any other takes effect at the next look. */
export function hasSameParts(a: Effective, b: Effective): boolean {
  const partsOf = ({ dryRun, podManifests, cgroupRoot, nodefsPath, imagefsPath, containerfsPath }: Effective) => [
    dryRun,
    podManifests,
    cgroupRoot,
    nodefsPath,
    imagefsPath,
    containerfsPath,
  ];
  const placesOf = ({
    memoryAvailable,
    oomScoreAdj,
    socket,
    stateDirectory,
    runtimeDirectory,
    logLevel,
    kubeletConfig,
  }: Effective) => [memoryAvailable, oomScoreAdj, socket, stateDirectory, runtimeDirectory, logLevel, kubeletConfig];
  return JSON.stringify([partsOf(a), placesOf(a)]) === JSON.stringify([partsOf(b), placesOf(b)]);
}
