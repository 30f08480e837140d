import type { CoreConfig } from '../../../src/core/core-config.ts';
import { decide } from '../../../src/core/decide.ts';
import type { HeldOutside, Observation } from '../../../src/core/observation.ts';
import type { Heard } from '../../../src/core/outcome.ts';
import type { PodView } from '../../../src/core/pod/pod.ts';
import { known } from '../../../src/core/reading.ts';
import { initialState, type State } from '../../../src/core/state/state.ts';
import type { Verdict } from '../../../src/core/verdict.ts';
import { anObservation, aPod, aThreshold, MI } from '../../a.ts';

export const CAPACITY = 10_000 * MI;
export const hardMemory = aThreshold('memory.available', 100 * MI);
export const softMemory = aThreshold('memory.available', 200 * MI, { graceMs: 1_000 });
export const hardDisk = aThreshold('nodefs.available', 100 * MI);
export const softDisk = aThreshold('nodefs.available', 200 * MI, { graceMs: 1_000 });
export const hardPids = aThreshold('pid.available', 1_000);

export const leaker = aPod({ name: 'leaker', workingSetBytes: 900 * MI });
export const writer = aPod({ name: 'writer', diskBytes: 900 * MI });
export const database = aPod({ name: 'database', priority: 1_000, workingSetBytes: 300 * MI, diskBytes: MI });

type Now = {
  readonly memory?: number;
  /** What pods may use. */
  readonly allocatable?: number;
  readonly nodefs?: number;
  readonly pids?: number;
  readonly heard?: readonly Heard[];
  readonly escaped?: readonly HeldOutside[];
};
/** A live core and its pods; amounts in MiB, and as many as nobody misses where none is named. */
export function aCore(config: CoreConfig, given: readonly PodView[] = [leaker, writer, database]) {
  let state: State = initialState('boot');
  let pods = given;
  const look = (atMs: number, now: Now): Verdict => {
    const { memory = 5_000, allocatable = 5_000, nodefs = 5_000, pids = 30_000, heard = [] } = now;
    const signals = {
      'memory.available': { available: memory * MI, capacity: CAPACITY },
      'allocatableMemory.available': { available: allocatable * MI, capacity: CAPACITY },
      'nodefs.available': { available: nodefs * MI, capacity: CAPACITY },
      'pid.available': { available: pids, capacity: 32_768 },
    };
    const { escaped } = now;
    const rest: Partial<Observation> = {
      pods: known(pods),
      outcomes: heard,
      ...(escaped === undefined ? {} : { escaped }),
    };
    const verdict = decide(state, anObservation(atMs, signals, rest), { ...config, isLive: true });
    state = verdict.state;
    return verdict;
  };
  const lose = (name: string): void => {
    pods = pods.filter((pod) => pod.name !== name);
  };
  /** As pods are seen whose stop was asked for. */
  const terminate = (name: string): void => {
    pods = pods.map((pod) => (pod.name === name ? { ...pod, isTerminating: true } : pod));
  };
  const use = (name: string, usage: Partial<PodView['usage']>): void => {
    pods = pods.map((pod) => (pod.name === name ? { ...pod, usage: { ...pod.usage, ...usage } } : pod));
  };
  /** So many process ids, threads and the unreaped among them. */
  const hold = (name: string, pids: number): void => use(name, { pidsHeld: known(pids) });
  /** It has given back all its memory. */
  const empty = (name: string): void => use(name, { workingSetBytes: known(0) });
  return { look, lose, terminate, hold, empty };
}
export const victims = ({ decisions }: Verdict): readonly string[] =>
  decisions.flatMap((decision) => (decision.kind === 'evict' ? [decision.victim.name] : []));
export const differences = ({ decisions }: Verdict): readonly string[] =>
  decisions.flatMap((decision) => (decision.kind === 'evict' ? decision.differences : []));
export const idOf = ({ decisions }: Verdict): string => decisions.find(({ kind }) => kind === 'evict')?.id ?? 'nobody';
export const hastened = ({ decisions }: Verdict) => decisions.filter(({ kind }) => kind === 'hasten');
export const codes = ({ reasons }: Verdict): readonly string[] => reasons.map(({ code }) => code);
export const sent = (of: string, atMs: number, how: 'sigterm' | 'sigkill'): Heard => ({
  of,
  atMs,
  kind: 'signalled',
  with: how,
});
export const ended = (of: string, atMs: number): Heard => ({
  of,
  atMs,
  kind: 'ended',
  via: 'sigkill',
  releasedBytes: known(MI),
});
