import { SHUTDOWN_REFUSALS } from '../../config/shutdown.ts';
import { isObject } from '../../core/shape.ts';
import { allOrAbsent, byName, type Expectation, eachOf, exactly, keys, orAbsent, setOf } from '../expect.ts';
import type { Json, Mismatch } from '../scenario.ts';
import { among, flag, instant, readMs, type Shape, text, whole } from '../shape.ts';
import type { ShutdownResult } from './result.ts';

/**
 * shutdown-scenarios.md 1.2: the value of a key that ends in `Seconds`: whole seconds, as a number or a duration; null
 * = neither.
 */
function readSeconds(value: unknown): number | null {
  const seconds = typeof value === 'string' ? (readMs(value) ?? Number.NaN) / 1_000 : value;
  return typeof seconds === 'number' && Number.isSafeInteger(seconds) ? seconds : null;
}
const seconds: Shape = (value, at) => {
  if (readSeconds(value) === null) at.mistakes.at(at.path, 'expected whole seconds; for example 30 or "30s"');
};

const number = exactly(whole);
const said = exactly(text);
const yes = exactly(flag);
/** Compared in milliseconds. */
const time = exactly(instant, readMs);
const span = exactly(seconds, readSeconds);
const names = setOf(text);
const record = (fields: { readonly [key: string]: Expectation }): Expectation => keys(allOrAbsent(fields));

const ofPhase = record({
  priority: number,
  periodSeconds: span,
  start: time,
  end: time,
  endedBy: exactly(among(['done', 'period', 'volumeTimeout', 'cancelled'])),
  stillRunning: names,
  volumesPending: names,
});
/** An absent set is an empty one. */
const phase: Expectation = {
  shape: ofPhase.shape,
  compare: (path, written, actual) =>
    ofPhase.compare(path, { stillRunning: [], volumesPending: [], ...(isObject(written) ? written : {}) }, actual),
};
const pod = record({
  group: number,
  gracePeriodSeconds: span,
  effectiveGracePeriodSeconds: span,
  start: time,
  sigtermAt: time,
  killedAt: time,
  stoppedAt: time,
  status: record({ phase: said, reason: said, message: said, disruptionTarget: yes }),
});
const expected = record({
  configErrors: setOf(among(SHUTDOWN_REFUSALS)),
  enabled: yes,
  inhibitDelay: time,
  dropInSeconds: span,
  readBacks: number,
  armed: yes,
  groups: eachOf(record({ priority: number, periodSeconds: span, pods: names })),
  phases: eachOf(phase),
  pods: byName(orAbsent(pod)),
  lockReleasedAt: time,
  shutdownProceedsAt: time,
  refusesPods: record({ from: time, until: time }),
  lockRetakenAt: time,
});

/** shutdown-scenarios.md section 4: what an `expect` may contain; null matches absent or null. */
export const EXPECT: Shape = (value, at) => {
  expected.shape(value, at);
  if (!isObject(value)) return;
  const { configErrors, ...others } = value;
  const isRefused = Array.isArray(configErrors) && configErrors.length > 0;
  if (isRefused && Object.values(others).some((other) => other !== null)) {
    at.mistakes.at([...at.path, 'configErrors'], 'cannot be combined with other keys of expect', 'key');
  }
};

/** The differences from the expected result. `expect` has the shape of EXPECT. */
export function compareShutdown(expect: Json, result: ShutdownResult): readonly Mismatch[] {
  return expected.compare(['expect'], expect, result);
}
