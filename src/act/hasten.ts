import type { Hasten, PhaseCut } from '../core/eviction/hasten.ts';
import type { Clock, StopOrder } from '../ports.ts';

export type Hastening = Hasten & {
  /** `sigkill` leaves no time, whatever `graceMs` says. `phase`: a shutdown cuts it; absent: a hard threshold. */
  readonly cut: (to: Pick<StopOrder, 'first' | 'graceMs'> & { readonly phase?: Omit<PhaseCut, 'graceMs'> }) => void;
};

export function createHasten(clock: Pick<Clock, 'monoMs'>): Hastening {
  const cuts: { readonly atMs: number; readonly graceMs: number; readonly first: StopOrder['first'] }[] = [];
  let phases: readonly PhaseCut[] = [];
  let tell: (how: 'hastened') => void = () => undefined;
  const whenCut = new Promise<'hastened'>((resolve) => {
    tell = resolve;
  });
  return {
    cut: ({ first, graceMs, phase }) => {
      if (phase !== undefined) phases = [...phases, { ...phase, graceMs }];
      cuts.push({ atMs: clock.monoMs(), graceMs: first === 'sigkill' ? 0 : Math.max(0, graceMs), first });
      tell('hastened');
    },
    isCut: () => cuts.length > 0,
    endsMs: (fromMs) => Math.min(...cuts.map(({ atMs, graceMs }) => Math.max(atMs, fromMs) + graceMs)),
    first: () => (cuts.some(({ first }) => first === 'sigkill') ? 'sigkill' : 'sigterm'),
    whenCut,
    // The last phase is the one that runs.
    phase: () => (phases.length === cuts.length ? (phases.at(-1) ?? null) : null),
  };
}
