import type { CoreConfig } from '../../../src/core/core-config.ts';
import { decide } from '../../../src/core/decide.ts';
import type { HeldOutside, Observation } from '../../../src/core/observation.ts';
import type { Heard } from '../../../src/core/outcome.ts';
import type { PodView } from '../../../src/core/pod/pod.ts';
import { known, unknown } from '../../../src/core/reading.ts';
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
  /** null: it cannot be read. */
  readonly memory?: number | null;
  /** What pods may use. */
  readonly allocatable?: number;
  readonly nodefs?: number;
  readonly pids?: number;
  /** Absent: there is none. */
  readonly swap?: number;
  /** In milliseconds of 10 s; absent: not read. */
  readonly stallFree?: number;
  readonly heard?: readonly Heard[];
  readonly escaped?: readonly HeldOutside[];
  /** In the cgroups of pods without processes. */
  readonly left?: number;
  /** Of these pods without processes, by name: memory volumes that are about to be unmounted. */
  readonly comesBack?: { readonly [name: string]: number };
  /** Whose scratch directories are being emptied, evicted for nodefs. */
  readonly emptying?: readonly string[];
  /** Files of these pods without processes, by name, that the kubelet is about to remove. */
  readonly removed?: { readonly [name: string]: number };
};
/** A live core and its pods; amounts in MiB, and as many as nobody misses where none is named. */
export function aCore(config: CoreConfig, given: readonly PodView[] = [leaker, writer, database]) {
  let state: State = initialState('boot');
  let pods = given;
  const look = (atMs: number, now: Now, other: Partial<CoreConfig> = {}): Verdict => {
    const { memory = 5_000, allocatable = 5_000, nodefs = 5_000, pids = 30_000, heard = [], emptying = [] } = now;
    const { swap, stallFree } = now;
    const signals = {
      'memory.available':
        memory === null ? unknown('unreadable', 'memory.stat', 'test') : { available: memory * MI, capacity: CAPACITY },
      'allocatableMemory.available': { available: allocatable * MI, capacity: CAPACITY },
      'nodefs.available': { available: nodefs * MI, capacity: CAPACITY },
      'pid.available': { available: pids, capacity: 32_768 },
      ...(swap === undefined ? {} : { 'swap.available': { available: swap * MI, capacity: CAPACITY } }),
      ...(stallFree === undefined ? {} : { 'memory.stallFree': { available: stallFree, capacity: 10_000 } }),
    };
    const { escaped, left, comesBack = {}, removed = {} } = now;
    const uidOf = (of: string): string => given.find(({ name }) => name === of)?.uid ?? of;
    const rest: Partial<Observation> = {
      pods: known(pods),
      outcomes: heard,
      emptying: emptying.map((of) => ({ of, signal: 'nodefs.available' })),
      ...(escaped === undefined ? {} : { escaped }),
      ...(left === undefined ? {} : { leftBytes: left * MI }),
      comesBack: [
        ...Object.entries(comesBack).map(([name, mib]) => ({ uid: uidOf(name), memoryBytes: mib * MI })),
        ...Object.entries(removed).map(([name, mib]) => {
          const { disk } = aPod({ name, diskBytes: mib * MI }).usage;
          return { uid: uidOf(name), memoryBytes: 0, ...(disk.known ? { disk: disk.value } : {}) };
        }),
      ],
    };
    const verdict = decide(state, anObservation(atMs, signals, rest), { ...config, ...other, isLive: true });
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
  const limit = (name: string, limitedBy: PodView['limitedBy']): void => {
    pods = pods.map((pod) => (pod.name === name ? { ...pod, limitedBy } : pod));
  };
  return { look, lose, terminate, use, hold, empty, limit };
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
