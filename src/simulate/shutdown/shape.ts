import { SHUTDOWN_REFUSALS } from '../../config/shutdown.ts';
import { isObject } from '../../core/shape.ts';
import { sayValue } from '../../document/check.ts';
import { HEAD, HEAD_KEYS } from '../envelope.ts';
import {
  among,
  elsewhere,
  flag,
  instant,
  listOf,
  mapOf,
  orNull,
  ours,
  readMs,
  type Shape,
  text,
  whole,
} from '../shape.ts';

/** shutdown-scenarios.md 1.2: a key that ends in `Seconds`, whole seconds or a duration of them; null = neither. */
export function readSeconds(value: unknown): number | null {
  const seconds = typeof value === 'string' ? (readMs(value) ?? Number.NaN) / 1_000 : value;
  return typeof seconds === 'number' && Number.isSafeInteger(seconds) ? seconds : null;
}

const delay: Shape = (value, at) => {
  instant(value, at);
  if ((readMs(value) ?? 0) < 0) at.mistakes.at(at.path, `must not be negative, it is ${sayValue(value)}`);
};
const seconds: Shape = (value, at) => {
  if (readSeconds(value) === null) at.mistakes.at(at.path, 'expected whole seconds; for example 30 or "30s"');
};

const names = orNull(listOf(text));
const time = orNull(instant);
const span = orNull(seconds);
const group = { priority: orNull(whole), periodSeconds: span, pods: names };
const phase = {
  priority: orNull(whole),
  periodSeconds: span,
  start: time,
  end: time,
  endedBy: orNull(among(['done', 'period', 'volumeTimeout', 'cancelled'])),
  stillRunning: names,
  volumesPending: names,
};
const status = ours({
  phase: orNull(text),
  reason: orNull(text),
  message: orNull(text),
  disruptionTarget: orNull(flag),
});
const pod = {
  group: orNull(whole),
  gracePeriodSeconds: span,
  effectiveGracePeriodSeconds: span,
  start: time,
  sigtermAt: time,
  killedAt: time,
  stoppedAt: time,
  status: orNull(status),
};
const refusal = { from: time, until: time };
const expected = {
  configErrors: orNull(listOf(among(SHUTDOWN_REFUSALS))),
  enabled: orNull(flag),
  inhibitDelay: time,
  dropInSeconds: span,
  readBacks: orNull(whole),
  armed: orNull(flag),
  groups: orNull(listOf(ours(group))),
  phases: orNull(listOf(ours(phase))),
  pods: orNull(mapOf(orNull(ours(pod)))),
  lockReleasedAt: time,
  shutdownProceedsAt: time,
  refusesPods: orNull(ours(refusal)),
  lockRetakenAt: time,
};
const expectKeys = ours(expected);

const keysWith = (shape: Shape): readonly string[] =>
  [group, phase, pod, refusal, expected].flatMap((fields) =>
    Object.entries(fields).flatMap(([key, own]) => (own === shape ? [key] : [])),
  );
/** Keys of an `expect` whose value is an instant or a duration; they are compared in milliseconds. */
export const MS_KEYS = keysWith(time);
/** Those in seconds. */
export const SECONDS_KEYS = keysWith(span);

/** shutdown-scenarios.md section 4. */
const expectShape: Shape = (value, at) => {
  expectKeys(value, at);
  if (!isObject(value)) return;
  const { configErrors, ...others } = value;
  const isRefused = Array.isArray(configErrors) && configErrors.length > 0;
  if (isRefused && Object.values(others).some((other) => other !== null)) {
    at.mistakes.at([...at.path, 'configErrors'], 'cannot be combined with other keys of expect', 'key');
  }
};

const stopping = { stopAfter: delay, preStop: delay };
const behaviour = ours({
  ...stopping,
  never: flag,
  killDelay: delay,
  unmountAfter: delay,
  terminatingFor: delay,
  containers: mapOf(ours(stopping)),
});

/** Of every pod, or of one by its name. */
const behaviours: Shape = (value, at) => {
  mapOf(behaviour)(value, at);
  for (const name of Object.keys(isObject(value) ? value : {})) {
    if (name === 'default' || /^[^/]+\/[^/]+$/.test(name)) continue;
    at.mistakes.at([...at.path, name], 'must be default, or a pod as namespace/name; for example "default/web"', 'key');
  }
};

/** shutdown-scenarios.md 1 to 4, but for the envelope, the configuration and the pods. */
export const ROOT = ours(
  {
    ...HEAD,
    config: elsewhere,
    pods: elsewhere,
    logind: orNull(ours({ inhibitDelayMax: delay, overrideGives: delay, overrideTakes: delay })),
    behaviour: orNull(behaviours),
    cancelAt: orNull(delay),
    cancelPolicy: orNull(among(['afterPhases', 'promptly'])),
    expect: orNull(expectShape),
  },
  HEAD_KEYS,
);
