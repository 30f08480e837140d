import type { Effective } from './config/effective.ts';
import { takeLock } from './host/lock-file.ts';
import { distrustDirectory } from './host/own-places.ts';

type Directories = Pick<Effective, 'runtimeDirectory' | 'stateDirectory'>;

/** What is read from them decides who is stopped. */
const RUNTIME_FILES = /^(state|held|shutdown-stops)[^/]*\.json|^lock/;
const STATE_FILES = /^record[^/]*\.jsonl/;

/** Why the directories of our own must not be used, as a sentence; null: they may. */
export function distrustOwn({ runtimeDirectory, stateDirectory }: Directories): string | null {
  return (
    distrustDirectory(runtimeDirectory, (name) => RUNTIME_FILES.test(name)) ??
    distrustDirectory(stateDirectory, (name) => STATE_FILES.test(name))
  );
}

/** That nobody else acts, or writes a dry run's record, on the same directory. Throws where somebody does. */
export function lockOwn({ runtimeDirectory, dryRun }: Directories & Pick<Effective, 'dryRun'>, bootId: string) {
  const lock = takeLock(`${runtimeDirectory}/${dryRun ? 'lock-dry' : 'lock'}`, bootId);
  if (typeof lock !== 'string') return lock;
  const then = dryRun
    ? 'a second dry run needs a configuration with its own stateDirectory and runtimeDirectory'
    : 'beside it only a dry run is possible (--dry-run)';
  throw new Error(`${lock}; ${then}`);
}
