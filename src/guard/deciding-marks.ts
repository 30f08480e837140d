import type { GuardConfig } from '../core/guard/config.ts';
import { CONTROL_PLANE_LABELS, EXCLUDING_LABELS, isOfOthers } from '../core/guard/node-facts.ts';
import type { NodeObject } from '../core/guard/observation.ts';

/** `cordon`, or the kind of a mark and its key: the same words as in a scenario. */
export type Mark = 'cordon' | `${'annotate' | 'label' | 'taint'} ${string}`;

/** What a Node carries that decides about it: its labels as far as they have a meaning, annotations, taints of others. */
export function decidingMarks(
  { labels, annotations, taints, isUnschedulable }: NodeObject,
  { domainLabels, nodes }: Pick<GuardConfig, 'domainLabels' | 'nodes'>,
): ReadonlyMap<Mark, string> {
  const meant = [...nodes.map(({ key }) => key), ...CONTROL_PLANE_LABELS, ...EXCLUDING_LABELS, ...domainLabels];
  const marks = new Map<Mark, string>();
  for (const key of meant) if (Object.hasOwn(labels, key)) marks.set(`label ${key}`, labels[key] ?? '');
  for (const [key, value] of Object.entries(annotations)) marks.set(`annotate ${key}`, value);
  for (const taint of taints) if (isOfOthers(taint)) marks.set(`taint ${taint.key}`, taint.value);
  if (isUnschedulable) marks.set('cordon', 'true');
  return marks;
}
