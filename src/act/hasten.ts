import type { Hasten } from '../core/eviction/hasten.ts';
import type { Clock, StopOrder } from '../ports.ts';

export type Hastening = Hasten & {
  /** `sigkill` leaves no time, whatever `graceMs` says. */
  readonly cut: (to: Pick<StopOrder, 'first' | 'graceMs'>) => void;
};

export function createHasten(clock: Pick<Clock, 'monoMs'>): Hastening {
  const cuts: { readonly atMs: number; readonly graceMs: number; readonly first: StopOrder['first'] }[] = [];
  let tell: (how: 'hastened') => void = () => undefined;
  const whenCut = new Promise<'hastened'>((resolve) => {
    tell = resolve;
  });
  return {
    cut: ({ first, graceMs }) => {
      cuts.push({ atMs: clock.monoMs(), graceMs: first === 'sigkill' ? 0 : Math.max(0, graceMs), first });
      tell('hastened');
    },
    isCut: () => cuts.length > 0,
    endsMs: (fromMs) => Math.min(...cuts.map(({ atMs, graceMs }) => Math.max(atMs, fromMs) + graceMs)),
    first: () => (cuts.some(({ first }) => first === 'sigkill') ? 'sigkill' : 'sigterm'),
    whenCut,
  };
}
