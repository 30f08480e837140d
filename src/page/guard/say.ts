import { NODE_CLASSES, type NodeClass } from '../../core/guard/health.ts';
import type { GuardLive, GuardReport, Listed } from '../../guard/shown.ts';
import { el } from '../dom.ts';
import { sayFor } from '../say.ts';

export const LEVEL: { readonly [C in NodeClass]: string } = {
  ...{ healthy: 'ok', unhappy: 'warn', suspect: 'warn', dead: 'bad', planned: 'planned', new: '' },
};

export const allOf = (nodes: GuardReport['nodes']): number => NODE_CLASSES.reduce((sum, name) => sum + nodes[name], 0);

/** "500: 496 healthy, 3 suspect, 1 dead" */
export function sayClasses(nodes: GuardReport['nodes']): string {
  const classes = NODE_CLASSES.flatMap((name) => (nodes[name] > 0 ? [`${nodes[name]} ${name}`] : []));
  return `${allOf(nodes)}${classes.length === 0 ? '' : `: ${classes.join(', ')}`}`;
}

/** What the classes mean, by the limits in force. */
export const sayLimits = ({ limits: { suspectAfterMs, deadAfterMs } }: GuardLive): string =>
  `Unhappy: alive, but not Ready. Suspect: silent for more than ${sayFor(suspectAfterMs)}. Dead: for more than ${sayFor(deadAfterMs)}. Planned: its silence was announced. New: not seen alive yet.`;

/** How many more there are. */
export const moreOf = ({ leftOut }: Listed<unknown>, what: string): readonly HTMLElement[] =>
  leftOut === 0 ? [] : [el('p', { class: 'note' }, `and ${leftOut} more; ${what}`)];
