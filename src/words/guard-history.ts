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

/** `time`: that of `silentMs`. Nobody knows since when one is silent that was not heard. */
export const saySilentFor = ({ wasHeard }: Pick<FencingRecord, 'wasHeard'>, time: string): string =>
  `silent for ${wasHeard ? '' : 'at least '}${time}`;

/** Each member, pod and volume: when it was gone and back, and for how long no member ran. */
export function sayFreed(record: Pick<FencingRecord, 'silentMs' | 'wasHeard' | 'freed' | 'steps'>): readonly string[] {
  const { silentMs, wasHeard, freed } = record;
  // Nothing was told to Kubernetes: nothing of it was to go.
  if (!record.steps.some(({ phase }) => phase === 'tainted')) return [];
  if (freed === null)
    return ['what was gone when is not known: what was to go was not read, or an earlier version wrote the record'];
  const afterMs = (wallMs: number): number => wallMs - beganWallMs(record);
  const gone = (wallMs: number | null, isBy: true | undefined, what: string): string =>
    wallMs === null ? `not seen ${what}` : `${what} ${isBy ? 'by ' : ''}+${sayTenths(afterMs(wallMs))}`;
  const pods = freed.pods.map(({ namespace, name, isMember, goneWallMs, isGoneBy, readyWallMs, isReadyBy }) => {
    const without = (ms: number): string =>
      wasHeard ? `: ${isReadyBy ? 'at most ' : ''}${sayTenths(silentMs + ms)} without it` : '';
    const back =
      readyWallMs === null
        ? 'not seen Ready'
        : `Ready ${isReadyBy ? 'by ' : ''}+${sayTenths(afterMs(readyWallMs))}${without(afterMs(readyWallMs))}`;
    return `${namespace}/${name}: ${gone(goneWallMs, isGoneBy, 'gone')}${isMember ? `, its successor ${back}` : ''}`;
  });
  const volumes = freed.volumes.map(
    ({ volume, goneWallMs, isGoneBy }) => `volume ${volume}: ${gone(goneWallMs, isGoneBy, 'detached')}`,
  );
  return [...pods, ...volumes];
}

/** From the last sign of life until nothing of it was left on the node: for so long none of its members ran elsewhere. */
export function saySilence(
  record: Pick<FencingRecord, 'silentMs' | 'wasHeard' | 'steps' | 'isAlive' | 'why' | 'freed'>,
): string {
  const freed = record.steps.find(({ phase }) => phase === 'untainting');
  const silent = `${saySilentFor(record, sayTenths(record.silentMs))} before`;
  if (freed === undefined || record.isAlive || record.why !== null || !record.wasHeard) return silent;
  const isBy = [...(record.freed?.pods ?? []), ...(record.freed?.volumes ?? [])].some(({ isGoneBy }) => isGoneBy);
  return `${silent}; free ${isBy ? 'at most ' : ''}${sayTenths(record.silentMs + freed.wallMs - beganWallMs(record))} after its last sign of life`;
}
