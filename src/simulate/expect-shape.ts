import { SIGNAL_FACTS, SIGNALS } from '../core/signal.ts';
import { among, flag, listOf, mapOf, oneOrMore, orNull, ours, POD_NAME, type Shape, text, whole } from './shape.ts';

const RESOURCES = [...new Set(Object.values(SIGNAL_FACTS).map(({ resource }) => resource))];
const LIMITS = ['emptydirfs.limit', 'ephemeralpodfs.limit', 'ephemeralcontainerfs.limit'];

const thresholds = listOf(among(SIGNALS.flatMap((signal) => [`${signal}/hard`, `${signal}/soft`])));

const ALTERNATIVE = {
  thresholdsObserved: thresholds,
  thresholdsMet: thresholds,
  conditions: listOf(among(['MemoryPressure', 'DiskPressure', 'PIDPressure'])),
  reclaiming: orNull(ours({ signal: oneOrMore(among(SIGNALS)), soft: flag, resource: among(RESOURCES) })),
  nodeReclaim: listOf(among(['containers', 'images'])),
  ranking: listOf(oneOrMore(POD_NAME)),
  evicted: listOf(
    ours(
      {
        pod: POD_NAME,
        signal: oneOrMore(among([...SIGNALS, ...LIMITS])),
        gracePeriodSeconds: whole,
        reason: text,
        disruptionTarget: flag,
        killFailed: flag,
        message: text,
        annotations: mapOf(text),
      },
      ['pod'],
    ),
  ),
};

/** scenarios.md 4.1: what an `expect` may say. */
export const EXPECT: Shape = ours({ ...ALTERNATIVE, oneOf: listOf(ours(ALTERNATIVE), 1) });
