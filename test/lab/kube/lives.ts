// Who lives and for how long: by the processes, which never say what is not so, and by the API server's pods.
import { createClock } from '../../../src/host/clock.ts';
import { type KubeObject, PODS, watch } from './api.ts';
import { loadPids, oomKills, type PodsMemory, podCgroups, podsMemory } from './cluster.ts';

const clock = createClock();
const SAMPLE_MS = 10;

/** A process of the lab's program, in a pod. */
export type Life = {
  readonly uid: string;
  readonly pid: number;
  readonly bornMs: number;
  /** When the sampler missed it first; null: it lives. */
  readonly goneMs: number | null;
};
export type Version = { readonly atMs: number; readonly type: string; readonly pod: KubeObject };
export type Lives = {
  readonly lives: () => readonly Life[];
  /** Every version of every pod of this scene that the API server showed, the oldest first. */
  readonly versions: () => readonly Version[];
  /** The latest one of each pod that has not been deleted. */
  readonly pods: () => readonly KubeObject[];
  readonly memory: () => PodsMemory;
  /** When the pods had less than that for the first time since then; null: never. */
  readonly crossedMs: (bytes: number, sinceMs: number) => number | null;
  readonly least: () => number;
  readonly kernelOomKills: () => number;
  readonly close: () => void;
};

/** Samples until it is closed. */
export function watchLives(): Lives {
  const lives = new Map<string, Life>();
  const versions: Version[] = [];
  const latest = new Map<string, KubeObject>();
  const kills = new Map<string, number>();
  const samples: { readonly atMs: number; readonly availableBytes: number }[] = [];
  let isClosed = false;
  let rounds = 0;

  const sample = (): void => {
    if (isClosed) return;
    const atMs = clock.monoMs();
    rounds += 1;
    samples.push({ atMs, availableBytes: podsMemory().availableBytes });
    const seen = new Set<string>();
    for (const cgroup of podCgroups()) {
      if (rounds % 10 === 0) kills.set(cgroup.uid, Math.max(kills.get(cgroup.uid) ?? 0, oomKills(cgroup)));
      for (const pid of loadPids(cgroup)) {
        const key = `${cgroup.uid}/${pid}`;
        seen.add(key);
        if (!lives.has(key)) lives.set(key, { uid: cgroup.uid, pid, bornMs: atMs, goneMs: null });
      }
    }
    for (const [key, life] of lives)
      if (life.goneMs === null && !seen.has(key)) lives.set(key, { ...life, goneMs: atMs });
    clock.after(Math.max(1, SAMPLE_MS - (clock.monoMs() - atMs)), sample);
  };
  sample();
  const stopWatch = watch(PODS, (type, pod) => {
    const { uid = '' } = pod.metadata;
    if (latest.get(uid)?.metadata.resourceVersion === pod.metadata.resourceVersion && type !== 'DELETED') return;
    versions.push({ atMs: clock.monoMs(), type, pod });
    if (type === 'DELETED') latest.delete(uid);
    else latest.set(uid, pod);
  });
  return {
    lives: () => [...lives.values()],
    versions: () => versions,
    pods: () => [...latest.values()],
    memory: podsMemory,
    crossedMs: (bytes, sinceMs) =>
      samples.find(({ atMs, availableBytes }) => atMs >= sinceMs && availableBytes < bytes)?.atMs ?? null,
    least: () => samples.reduce((least, { availableBytes }) => Math.min(least, availableBytes), Number.MAX_VALUE),
    kernelOomKills: () => [...kills.values()].reduce((sum, count) => sum + count, 0),
    close: () => {
      isClosed = true;
      stopWatch();
    },
  };
}
