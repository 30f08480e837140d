import type { ObservedStops, StopVerdict } from '../core/shutdown/stop-verdict.ts';
import { sayMs } from './decision.ts';

type Judged = {
  readonly verdict: StopVerdict;
  readonly getsMs: number;
  readonly observed: Pick<ObservedStops, 'unfinishedMs'> | null;
};

type SayTime = (ms: number) => string;

/** "cannot finish: took 12s, gets 10s" */
export function sayStopVerdict({ verdict, getsMs, observed }: Judged, sayTime: SayTime = sayMs): string {
  if (verdict.kind === 'finishes') return FINISHES[verdict.because];
  const needs = sayNeeds(verdict, observed?.unfinishedMs ?? getsMs, sayTime);
  return `${verdict.kind === 'cannot-finish' ? 'cannot finish' : 'may not finish'}: ${needs}, gets ${sayTime(getsMs)}`;
}
const FINISHES: { readonly [B in StopVerdict['because']]: string } = {
  observed: 'finishes, judging by earlier stops',
  declared: 'gets its declared grace period',
  'stop-timeout': 'gets its whole TimeoutStopSec',
};

function sayNeeds(verdict: Exclude<StopVerdict, { kind: 'finishes' }>, triedMs: number, sayTime: SayTime): string {
  const { because, needsMs } = verdict;
  switch (because) {
    case 'observed':
      return needsMs === null ? `was still running after ${sayTime(triedMs)}` : `took ${sayTime(needsMs)}`;
    case 'declared':
      return `may take ${sayTime(needsMs ?? 0)}`;
    case 'stop-timeout':
      if (verdict.kind === 'cannot-finish')
        return `systemd kills it before its declared ${sayTime(needsMs ?? 0)} are over`;
      return needsMs === null ? 'its unit has no stop timeout' : `its unit may take ${sayTime(needsMs)}`;
  }
}
