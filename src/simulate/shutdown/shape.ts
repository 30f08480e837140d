import { isObject } from '../../core/shape.ts';
import { sayValue } from '../../document/check.ts';
import { HEAD, HEAD_KEYS } from '../envelope.ts';
import { among, elsewhere, flag, instant, mapOf, orNull, ours, readMs, type Shape } from '../shape.ts';
import { EXPECT } from './expect.ts';

const delay: Shape = (value, at) => {
  instant(value, at);
  if ((readMs(value) ?? 0) < 0) at.mistakes.at(at.path, `must not be negative, it is ${sayValue(value)}`);
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
    expect: orNull(EXPECT),
  },
  HEAD_KEYS,
);
