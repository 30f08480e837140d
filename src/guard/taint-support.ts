import { known, type Reading, unknown } from '../core/reading.ts';
import { isObject, isText } from '../core/shape.ts';
import type { ApiGet } from '../kube/connection.ts';
import { notDone } from '../kube/write-failure.ts';

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
