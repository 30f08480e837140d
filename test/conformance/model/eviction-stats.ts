/** What one look measures: signals and pods out of a summary (scenarios.md 2.5, kubelet-eviction.md 1 and 1.6). */
import { nanoseconds } from './eviction-config.ts';
import { at, type Json, listOf, textOf } from './json.ts';
import type { Pod } from './pods.ts';
import { parseQuantity } from './quantities.ts';

/** `timeNs` null = measured at no known time, always new. */
export type Observation = { readonly available: bigint; readonly capacity: bigint; readonly timeNs: bigint | null };

export type Use = { readonly bytes: bigint | null; readonly inodes: bigint | null };

export type PodStats = {
  /** null = the entry has no memory section. A section without the number counts 0. */
  readonly memory: bigint | null;
  readonly processes: bigint;
  readonly ephemeral: bigint;
  readonly volumes: ReadonlyMap<string, Use>;
  readonly containers: readonly {
    readonly name: string;
    readonly memory: bigint | null;
    readonly rootfs: Use;
    readonly logs: Use;
  }[];
};

/** Bytes or a count: a whole number or a quantity; null = unknown. */
function whole(json: Json): bigint | null {
  if (json === null) return null;
  if (typeof json === 'number') return BigInt(json);
  const amount = parseQuantity(textOf(json, ''));
  if (amount === null || amount.nano % 1_000_000_000n !== 0n) throw new Error(`not whole: ${JSON.stringify(json)}`);
  return amount.nano / 1_000_000_000n;
}

/** `fresh`: a step without stats of its own sees everything measured at its look (scenarios.md 2.4). */
type Clock = { readonly lookNs: bigint; readonly startNs: bigint | null; readonly fresh: boolean };

export function observationsOf(summary: Json, clock: Clock): ReadonlyMap<string, Observation> {
  const found = new Map<string, Observation>();
  const put = (signal: string, section: Json, available: bigint | null, capacity: bigint | null) => {
    if (available !== null && capacity !== null) {
      found.set(signal, { available, capacity, timeNs: timeOf(at(section, 'time'), clock) });
    }
  };
  const node = at(summary, 'node');
  const pods = listOf(at(node, 'systemContainers')).find((one) => at(one, 'name') === 'pods') ?? null;
  for (const [signal, section] of [
    ['memory.available', at(node, 'memory')],
    ['allocatableMemory.available', at(pods, 'memory')],
  ] as const) {
    const available = whole(at(section, 'availableBytes'));
    const used = whole(at(section, 'workingSetBytes'));
    put(signal, section, available, available === null || used === null ? null : available + used);
  }
  for (const [name, section] of [
    ['nodefs', at(node, 'fs')],
    ['imagefs', at(node, 'runtime', 'imageFs')],
    ['containerfs', at(node, 'runtime', 'containerFs')],
  ] as const) {
    put(`${name}.available`, section, whole(at(section, 'availableBytes')), whole(at(section, 'capacityBytes')));
    put(`${name}.inodesFree`, section, whole(at(section, 'inodesFree')), whole(at(section, 'inodes')));
  }
  const limit = whole(at(node, 'rlimit', 'maxpid'));
  const tasks = whole(at(node, 'rlimit', 'curproc'));
  put('pid.available', at(node, 'rlimit'), limit === null || tasks === null ? null : limit - tasks, limit);
  return found;
}

function timeOf(json: Json, clock: Clock): bigint | null {
  if (json === null || clock.fresh) return clock.lookNs;
  if (json === 'none') return null;
  if (typeof json !== 'string' || !/^\d{4}-/.test(json)) return nanoseconds(json);
  if (clock.startNs === null) throw new Error('an RFC 3339 time without start');
  return instant(json) - clock.startNs;
}

/** RFC 3339, with up to nine digits of a second, in nanoseconds since 1970. */
export function instant(text: string): bigint {
  const found = /^(.{19})(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)$/i.exec(text);
  if (found === null) throw new Error(`not an instant: ${text}`);
  const [, seconds = '', fraction = '', zone = ''] = found;
  return BigInt(Date.parse(`${seconds}${zone}`)) * 1_000_000n + BigInt(fraction.padEnd(9, '0'));
}

/** The entry of each pod that has one; the last one wins (1.6). */
export function podStatsOf(summary: Json, pods: readonly Pod[]): ReadonlyMap<Pod, PodStats> {
  const found = new Map<Pod, PodStats>();
  for (const entry of listOf(at(summary, 'pods'))) {
    const uid = textOf(at(entry, 'podRef', 'uid'), '');
    const id = `${textOf(at(entry, 'podRef', 'namespace'), 'default')}/${textOf(at(entry, 'podRef', 'name'), '')}`;
    for (const pod of pods) {
      if (uid === '' ? pod.id === id : pod.uid === uid) found.set(pod, statsOf(entry));
    }
  }
  return found;
}

function statsOf(entry: Json): PodStats {
  const use = (json: Json): Use => ({ bytes: whole(at(json, 'usedBytes')), inodes: whole(at(json, 'inodesUsed')) });
  return {
    memory: at(entry, 'memory') === null ? null : (whole(at(entry, 'memory', 'workingSetBytes')) ?? 0n),
    processes: whole(at(entry, 'process_stats', 'process_count')) ?? 0n,
    ephemeral: whole(at(entry, 'ephemeral-storage', 'usedBytes')) ?? 0n,
    volumes: new Map(listOf(at(entry, 'volume')).map((one) => [textOf(at(one, 'name'), ''), use(one)])),
    containers: listOf(at(entry, 'containers')).map((one) => ({
      name: textOf(at(one, 'name'), ''),
      memory: whole(at(one, 'memory', 'workingSetBytes')),
      rootfs: use(at(one, 'rootfs')),
      logs: use(at(one, 'logs')),
    })),
  };
}
