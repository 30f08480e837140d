import { known, type Reading, unknown } from '../core/reading.ts';
import { isObject, isText } from '../core/shape.ts';
import type { ApiGet } from '../kube/api/connection.ts';
import { notDone } from '../kube/api/write-failure.ts';
import type { Clock, Findings } from '../ports.ts';
import { serverTooOld } from '../words/finding-guard.ts';

const VERSION = '/version';
/** Kubernetes frees what is out of service since 1.26; before, the feature is off unless somebody switched it on (guard.md 9.1). */
const LEAST_MINOR = 26;
const GET_MS = 5_000;

/** Whether this API server's version frees the pods and volumes of a node with the out-of-service taint. */
export async function freesOutOfService(
  get: ApiGet,
): Promise<Reading<{ readonly frees: boolean; readonly version: string }>> {
  const answer = await get(VERSION, GET_MS);
  const failed = notDone(answer, null);
  if (answer.kind !== 'answer' || failed !== null) return unknown('timed-out', VERSION, failed?.text ?? '');
  const { major, minor } = isObject(answer.body) ? answer.body : {};
  // Some distributions say 26+.
  const numbers = isText(major) && isText(minor) ? /^(\d{1,4}) (\d{1,4})\+?$/.exec(`${major} ${minor}`) : null;
  if (numbers === null) return unknown('malformed', VERSION, 'the API server does not say its version');
  const [one, two] = [Number(numbers[1]), Number(numbers[2])];
  return known({ frees: one > 1 || (one === 1 && two >= LEAST_MINOR), version: `${one}.${two}` });
}

const AGAIN_MS = 2_000;

/**
 * Asks the server for its version until it says it. An armed guard of a server that is too old must not run: nobody would act
 * on its taint (guard.md 9.1).
 */
export function watchTaintSupport(needs: {
  readonly clock: Clock;
  readonly get: ApiGet;
  readonly findings: Findings;
  readonly config: () => { readonly core: { readonly dryRun: boolean } };
  readonly refused: (why: string) => void;
}): { readonly configChanged: () => void; readonly close: () => void } {
  const { clock, get, findings, config, refused } = needs;
  let tooOld: string | null = null;
  let isClosed = false;
  let cancel = (): void => undefined;

  function judge(): void {
    if (tooOld === null) return;
    if (config().core.dryRun) findings.raise(serverTooOld(tooOld));
    else refused(serverTooOld(tooOld).text);
  }
  async function ask(): Promise<void> {
    const read = await freesOutOfService(get);
    if (isClosed) return;
    if (!read.known) cancel = clock.after(AGAIN_MS, () => void ask());
    else if (!read.value.frees) {
      tooOld = read.value.version;
      judge();
    }
  }
  void ask();
  return {
    configChanged: judge,
    close: () => {
      isClosed = true;
      cancel();
    },
  };
}
