// What the log says of an eviction.
import type { Decision } from '../core/decision.ts';
import { sayCulprit } from '../core/eviction/attribution.ts';
import { podName, saidPriority } from '../core/pod/pod.ts';
import { sayTies } from '../words/decision.ts';
import { and, sayLimit, sayThreshold } from '../words/phrases.ts';

export type Evict = Extract<Decision, { kind: 'evict' | 'evict-over-limit' }>;

export function evictFields(decision: Evict): { readonly [field: string]: unknown } {
  const { id, victim, graceSeconds } = decision;
  const common = { decision: id, pod: podName(victim), qos: victim.qos, priority: saidPriority(victim), graceSeconds };
  if (decision.kind === 'evict-over-limit') return { ...common, signal: `${decision.limit}.limit` };
  const { threshold, differences } = decision;
  const decidedBy = decision.ranking.find(({ uid }) => uid === victim.uid)?.decidedBy ?? null;
  return {
    ...common,
    signal: threshold.signal,
    kind: threshold.isHard ? 'hard' : 'soft',
    observed: threshold.available,
    threshold: sayLimit(threshold.signal, threshold.limit),
    decidedBy,
    candidates: decision.ranking.length,
    differences,
    ...(decision.growth?.known ? { growth: decision.growth.value } : {}),
  };
}

export function evictSentence(decision: Evict): string {
  const pod = podName(decision.victim);
  if (decision.kind === 'evict-over-limit') return and(`${pod}: ${decision.message.trim()}`, sayTies(decision));
  const sentence = and(`${pod}: ${sayThreshold(decision.threshold)}`, sayCulprit(decision.growth));
  return and(sentence, sayTies(decision));
}
