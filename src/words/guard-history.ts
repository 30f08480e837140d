import type { FencingRecord, Phase } from '../core/guard/record.ts';
import { sayTenths } from '../core/units/duration.ts';
import { sayPhase } from './guard.ts';

/** What became of a fencing, for people. Names are as the API has them: whoever prints a sentence escapes it. */

/** By the wall clock of who decided it. */
export const beganWallMs = ({ steps }: Pick<FencingRecord, 'steps'>): number => steps[0]?.wallMs ?? 0;

/** "rehearsal", or "fencing, ordered by ann: its fan is broken". */
export function sayPurpose({ purpose, order }: Pick<FencingRecord, 'purpose' | 'order'>, id = ''): string {
  const by = order === null ? '' : `, ordered by ${order.by}: ${order.because}`;
  return `${purpose === 'rehearse' ? 'rehearsal' : 'fencing'}${id}${by}`;
}

/** Of that fencing. */
export const sayPhaseOf = ({ proof, staysOff }: Pick<FencingRecord, 'proof' | 'staysOff'>, phase: Phase): string =>
  sayPhase(phase, proof?.by === 'person', staysOff);

/** Of each step. The word of a person stands for the last proof alone: before it, the devices were asked. */
export function sayStepsOf(record: Pick<FencingRecord, 'proof' | 'staysOff' | 'steps'>): readonly string[] {
  const { staysOff, steps } = record;
  const last = steps.findLastIndex(({ phase }) => phase === 'proving');
  return steps.map(({ phase }, at) => (at < last ? sayPhase(phase, false, staysOff) : sayPhaseOf(record, phase)));
}

export function sayProof({ proof }: Pick<FencingRecord, 'proof'>): string {
  if (proof === null) return 'not proven off';
  return proof.by === 'devices' ? 'proven off by its devices' : `off, as ${proof.name} says`;
}

/** Each member, pod and volume: when it was gone and back, and for how long no member ran. */
export function sayFreed(record: FencingRecord): readonly string[] {
  const { silentMs, freed } = record;
  // Nothing was told to Kubernetes: nothing of it was to go.
  if (!record.steps.some(({ phase }) => phase === 'tainted')) return [];
  if (freed === null) return ['what was gone when is not known: an earlier version wrote the record'];
  const afterMs = (wallMs: number): number => wallMs - beganWallMs(record);
  const gone = (wallMs: number | null, what: string): string =>
    wallMs === null ? `not seen ${what}` : `${what} +${sayTenths(afterMs(wallMs))}`;
  const pods = freed.pods.map(({ namespace, name, isMember, goneWallMs, readyWallMs }) => {
    const back =
      readyWallMs === null
        ? ', its successor not seen Ready'
        : `, its successor Ready +${sayTenths(afterMs(readyWallMs))}: ${sayTenths(silentMs + afterMs(readyWallMs))} without it`;
    return `${namespace}/${name}: ${gone(goneWallMs, 'gone')}${isMember ? back : ''}`;
  });
  const volumes = freed.volumes.map(({ volume, goneWallMs }) => `volume ${volume}: ${gone(goneWallMs, 'detached')}`);
  return [...pods, ...volumes];
}

/** From the last sign of life until nothing of it was left on the node: for so long none of its members ran elsewhere. */
export function saySilence(record: FencingRecord): string {
  const freed = record.steps.find(({ phase }) => phase === 'untainting');
  const silent = `silent for ${sayTenths(record.silentMs)} before`;
  if (freed === undefined || record.isAlive || record.why !== null) return silent;
  return `${silent}; free ${sayTenths(record.silentMs + freed.wallMs - beganWallMs(record))} after its last sign of life`;
}
