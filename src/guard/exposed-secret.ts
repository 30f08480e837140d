import { familyOf, tellsInArguments } from '../host/process-family.ts';
import type { Clock } from '../ports.ts';

/** The name of a program that had a secret among its arguments. */
export type ExposedSecret = string;

/** A program that an agent starts runs for longer than this. */
const LOOK_EVERY_MS = 5;

/** Looks at a run's processes again and again, from `begin` to `end`, for secrets in their arguments (guard.md 8.5). */
export function watchSecrets(clock: Clock): {
  readonly begin: (pid: number, secrets: readonly string[]) => void;
  readonly end: () => readonly ExposedSecret[];
} {
  const found = new Set<ExposedSecret>();
  let cancel = (): void => undefined;
  return {
    begin: (pid, secrets) => {
      const look = (): void => {
        for (const one of familyOf(pid)) {
          const name = tellsInArguments(one, secrets);
          if (name !== null) found.add(name);
        }
        cancel = clock.after(LOOK_EVERY_MS, look);
      };
      look();
    },
    end: () => {
      cancel();
      return [...found];
    },
  };
}
