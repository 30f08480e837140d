import type { Effective } from '../config/effective.ts';
import { lastGoodPath, loadLastGood, sayLastGood } from '../config/last-good.ts';
import { DEFAULT_CONFIG_FILE, type LoadedConfig, loadConfig, loadConfigAgain } from '../config/load.ts';
import { type Problem, sayProblem } from '../document/problem.ts';
import { writeBeside } from '../host/files.ts';
import { watchPath } from '../host/watch-path.ts';
import type { Clock, Finding, Findings, Log } from '../ports.ts';
import { PRE_KILL, RECLAIM, reclaimId } from '../words/finding-eviction.ts';
import { RUNTIME_RECLAIM } from '../words/finding-kube.ts';
import {
  CONFIG,
  configInForce,
  configPending,
  lastGoodInForce,
  modeNotReloaded,
  NOTIFY,
  notReloaded,
  notUsable,
  runtimeDirectoryNotReloaded,
} from '../words/finding-own.ts';
import { sayInstant } from '../words/phrases.ts';

/** The last reload of the configuration; null = none yet. */
export type LastReload = {
  readonly atWallMs: number;
  readonly ok: boolean;
  /** It is good, and not in force yet. Absent: it is in force, or refused. */
  readonly isPending?: true;
  readonly text: string;
} | null;
export type Loaded = Pick<LoadedConfig, 'warnings' | 'texts'> & {
  readonly effective: Effective;
  /** Why a configuration other than the file's is in force; null: the file's is. */
  readonly refused: Finding | null;
};
type Reload = {
  readonly last: () => LastReload;
  readonly now: () => void;
  /** This configuration, which was given to `apply` as the next, does not come into force. */
  readonly refuse: (next: Loaded, why: string) => void;
  /** Writes the last good configuration again, because the stored one was lost. */
  readonly keep: () => void;
  readonly close: () => void;
};

export function withDryRun({ effective, ...loaded }: Loaded, dryRun: boolean): Loaded {
  return { ...loaded, effective: { ...effective, dryRun: effective.dryRun || dryRun } };
}

/**
 * What to run if the parts of `next` cannot be opened: the former configuration, but as a dry run if `next` is one. The texts
 * are what was read, to notice another edit.
 */
export function instead(next: Loaded, former: Loaded, why: string): Loaded {
  const { texts } = next;
  const { dryRun } = next.effective;
  return { ...withDryRun(former, dryRun), texts, refused: notUsable(why, dryRun) };
}

/** The configuration on the disk now. Without a file that was read, the defaults would end a dry run. */
function loadAgain({ effective: { file } }: Loaded, configFile: string | null): LoadedConfig {
  return file === null ? loadConfig(configFile) : loadConfigAgain(file);
}

/**
 * The configuration to start with: the file's or, if that is invalid, the last one that was in force. Null: there is none, and
 * `complain` was called with the reason.
 */
export function loadToRun(configFile: string | null, complain: (line: string) => void): Loaded | null {
  const { effective, problems, ...rest } = loadConfig(configFile);
  for (const problem of problems) complain(sayProblem(problem));
  if (effective !== null && problems.length === 0) return { ...rest, effective, refused: null };
  const last = loadLastGood(configFile);
  if (last === null || last.loaded.effective === null) return null;
  const savedAt = sayInstant(last.savedWallMs);
  const refused = lastGoodInForce(savedAt, last.keptIn, sayFirst(problems));
  complain(refused.text);
  return { ...last.loaded, effective: last.loaded.effective, refused };
}

function sayFirst(problems: readonly Problem[]): string {
  const [first] = problems;
  const more = problems.length > 1 ? ` (and ${problems.length - 1} more)` : '';
  return first === undefined ? 'no reason was given' : `${sayProblem(first)}${more}`;
}

/** The delays of the retries while the state directory is missing, or has no room. */
const KEEP_AGAIN_MS = 2_000;
const MAX_KEEP_AGAIN_MS = 60_000;

/** Stores the configuration in force for a start with a broken file, until that succeeds. */
function createKeeper(clock: Clock, inForce: () => Loaded): { readonly keep: () => void; readonly close: () => void } {
  let cancel: () => void = () => undefined;
  let isClosed = false;
  const keep = async (againMs: number): Promise<void> => {
    cancel();
    const { effective, texts, refused } = inForce();
    const text = sayLastGood({ effective, texts, warnings: [], problems: [] }, clock.wallMs());
    if (text === null || refused !== null) return;
    const kept = await writeBeside(lastGoodPath(effective.stateDirectory), text, 0o600);
    cancel();
    if (kept.known || isClosed) return;
    cancel = clock.after(againMs, () => void keep(Math.min(MAX_KEEP_AGAIN_MS, 2 * againMs)));
  };
  return {
    keep: () => void keep(KEEP_AGAIN_MS),
    close: () => {
      isClosed = true;
      cancel();
    },
  };
}

/**
 * Reloads the configuration on SIGHUP and when its file or the imported one changes. A bad file changes nothing:
 * the running configuration stays in force, and log, finding and status say so (product.md section 3). Nor does one that
 * needs other parts, before they are there: its thresholds are not for the node that is observed until then.
 */
export function createReload(needs: {
  readonly clock: Clock;
  readonly log: Log;
  readonly findings: Findings;
  readonly configFile: string | null;
  /** Whatever the file says. */
  readonly dryRun: boolean;
  /** What the parts were made of. */
  readonly loaded: Loaded;
  /** These parts replace others. */
  readonly isRebuild: boolean;
  /** `next`: the parts are to be replaced by those of this configuration. */
  readonly apply: (inForce: Loaded, next: Loaded | null) => void;
}): Reload {
  const { clock, log, findings, configFile } = needs;
  const made = needs.loaded.effective;
  let last: LastReload = null;
  let inForce = needs.loaded;
  let next: Loaded | null = null;
  const keeper = createKeeper(clock, () => inForce);

  const refuse = (why: Finding): void => {
    const { text } = why;
    findings.raise(why);
    last = { atWallMs: clock.wallMs(), ok: false, text };
    log.error({ event: 'config' }, text);
    // The running one stays in force: nor does one come that was read before. Only its dry run does, and is kept for a start.
    if (next !== null && !(isMixed() && next.effective.dryRun)) apply(isMixed() ? inForce : null);
  };
  const take = (how: { readonly isPending?: true }, text: string): void => {
    last = { atWallMs: clock.wallMs(), ok: true, ...how, text };
    log.info({ event: 'config' }, text);
  };
  const takeNow = (): void => {
    const { file, notify, preKill, reclaimCommands } = inForce.effective;
    findings.clear(CONFIG);
    // A command that is no longer configured cannot recover.
    if (notify === null) findings.clear(NOTIFY);
    if (preKill === null) findings.clear(PRE_KILL);
    const kept = new Set([
      RUNTIME_RECLAIM,
      ...reclaimCommands.map(({ signal, command }) => reclaimId(signal, command)),
    ]);
    const gone = findings.all().filter(({ id }) => id.startsWith(RECLAIM) && !kept.has(id));
    for (const { id } of gone) findings.clear(id);
    take({}, configInForce(file));
    keeper.keep();
  };
  /** Parts that were made live and then served a dry run are not live again: what they hold is mixed. */
  const isMixed = (): boolean => inForce.effective.dryRun !== made.dryRun;
  const accept = (loaded: Loaded): void => {
    const { effective } = loaded;
    const isPending = isMixed() || !hasSameParts(made, effective);
    // Dry run is the kill switch.
    inForce = isPending ? withDryRun(inForce, effective.dryRun) : loaded;
    if (isPending) take({ isPending }, configPending(effective.file));
    else takeNow();
    apply(isPending ? loaded : null);
  };
  const apply = (then: Loaded | null): void => {
    next = then;
    needs.apply(inForce, then);
  };
  const reload = (): void => {
    const { effective, problems, ...rest } = loadAgain(inForce, configFile);
    if (effective === null || problems.length > 0) {
      refuse(notReloaded(sayFirst(problems)));
    } else if (effective.mode !== made.mode) {
      refuse(modeNotReloaded(effective.mode));
    } else if (effective.runtimeDirectory !== made.runtimeDirectory) {
      refuse(runtimeDirectoryNotReloaded(made.runtimeDirectory, effective.runtimeDirectory));
    } else accept(withDryRun({ ...rest, effective, refused: null }, needs.dryRun));
  };

  if (needs.loaded.refused !== null) refuse(needs.loaded.refused);
  else if (needs.isRebuild) takeNow();
  else keeper.keep();
  process.on('SIGHUP', reload);
  const watched = [made.file ?? DEFAULT_CONFIG_FILE, made.kubeletConfig].filter((path) => path !== null);
  const unwatch = watched.map((path) => watchPath(path, reload, clock));
  // The file was not watched while the parts were rebuilt.
  const isAsLoaded = JSON.stringify(loadAgain(inForce, configFile).texts) === JSON.stringify(inForce.texts);
  if (!isAsLoaded && (needs.isRebuild || needs.loaded.refused === null)) reload();
  return {
    last: () => last,
    now: reload,
    refuse: ({ effective }, why) => {
      // Nor do parts for a dry run of the running one: they may hang as well.
      next = null;
      refuse(notUsable(why, effective.dryRun));
    },
    keep: keeper.keep,
    close: () => {
      keeper.close();
      process.off('SIGHUP', reload);
      for (const end of unwatch) end();
    },
  };
}

/**
 * These take effect at the next look, or not yet. A change of any other field, including future ones, rebuilds the
 * parts.
 */
const AT_NEXT_LOOK: readonly string[] = [
  'file',
  'kind',
  'mode',
  'settings',
  'ignoredFields',
  'thresholds',
  'minReclaims',
  'mergeDefaultEvictionSettings',
  'pressureTransitionMs',
  'maxPodGraceSeconds',
  'localStorageCapacityIsolation',
  'enforceNodeAllocatable',
  'imageMinimumGCAgeMs',
  'imageGCHighThresholdPercent',
  'systemReserved',
  'kubeReserved',
  'monitoringInterval',
  'reclaimCommands',
  'preKill',
  'notify',
  'guard',
  'shutdown',
  'http',
] satisfies readonly (keyof Effective)[];

function hasSameParts(a: Effective, b: Effective): boolean {
  const partsOf = (effective: Effective) => Object.entries(effective).filter(([name]) => !AT_NEXT_LOOK.includes(name));
  return JSON.stringify(partsOf(a)) === JSON.stringify(partsOf(b));
}
