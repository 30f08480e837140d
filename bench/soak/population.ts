import { quantityOfBytes } from '../../src/core/units/quantity.ts';
import type { VirtualNode, VirtualPod } from '../../test/virtual-node.ts';
import type { Random } from './random.ts';

const MIB = 2 ** 20;
const GIB = 2 ** 30;
const OWNERS = 25;
export const MEMORY_SOFT_BYTES = 6 * GIB;
export const MEMORY_HARD_BYTES = 2 * GIB;
export const PIDS_SOFT = 4_000;
export const PIDS_HARD = 1_000;
export const VIRTUAL_NODE: VirtualNode = {
  memoryBytes: 64 * GIB,
  maxPids: 32_768,
  disk: { bytesAvailable: 200 * GIB, bytesCapacity: 400 * GIB },
  inodes: { free: 20_000_000, total: 25_000_000 },
};

type Amounts = { readonly bytes: number; readonly processes: number };
/** On top of what the pod holds, at an instant. */
type Growth = (atMs: number) => Amounts;
type Member = VirtualPod & { readonly grow: (growth: Growth) => void };

/** Pods that come and go, and grow one at a time. */
export type Population = {
  /** What the world looks at: changed in place. */
  readonly pods: readonly VirtualPod[];
  readonly arrive: () => void;
  readonly leave: () => void;
  /** It was ended. */
  readonly lose: (uid: string) => void;
  /** Somebody grows, from now on for some seconds. */
  readonly pressure: () => void;
};

export function createPopulation(random: Random, nowMs: () => number): Population {
  const pods: Member[] = [];
  let made = 0;
  const removeAt = (at: number): void => void pods.splice(at, 1);
  return {
    pods,
    arrive: () => {
      made += 1;
      pods.push(newPod(random, made, nowMs));
    },
    leave: () => removeAt(random.whole(0, pods.length - 1)),
    lose: (uid) => {
      const at = pods.findIndex(({ declared }) => declared.uid === uid);
      if (at >= 0) removeAt(at);
    },
    pressure: () => {
      const atMs = nowMs();
      const usedBytes = pods.reduce((sum, pod) => sum + pod.workingSetBytes(atMs), 0);
      const processes = pods.reduce((sum, pod) => sum + pod.processes, 0);
      const free = { bytes: VIRTUAL_NODE.memoryBytes - usedBytes, processes: VIRTUAL_NODE.maxPids - processes };
      // Now and then two at once.
      for (let growers = random.whole(1, 10) === 1 ? 2 : 1; growers > 0; growers--) {
        random.of(pods).grow(someGrowth(random, atMs, free));
      }
    },
  };
}

function someGrowth(random: Random, atMs: number, free: Amounts): Growth {
  const kind = random.whole(0, 99);
  if (kind < 12) {
    const most = free.processes - random.of([PIDS_SOFT + 2_000, random.whole(PIDS_HARD + 200, PIDS_SOFT - 200), 500]);
    const processesASecond = random.whole(200, 10_000);
    return ramp(atMs, { bytes: 0, processes: most }, most / processesASecond, random.whole(2, 30));
  }
  const leaveBytes = random.of([
    random.whole(6_500, 16_000) * MIB,
    random.whole(2_200, 5_900) * MIB,
    random.whole(200, 2_000) * MIB,
    -1 * GIB,
  ]);
  const bytes = Math.max(0, free.bytes - leaveBytes);
  if (kind < 25) return touches(atMs, bytes, random.whole(1, 40));
  const bytesASecond = random.of([random.whole(20, 200), random.whole(200, 4_000)]) * MIB;
  return ramp(atMs, { bytes, processes: 0 }, bytes / bytesASecond, random.whole(2, 40));
}

/** Up to `most` within so many seconds, held for some more, then given back. */
function ramp(fromMs: number, most: Amounts, upSeconds: number, holdSeconds: number): Growth {
  return (atMs) => {
    const seconds = (atMs - fromMs) / 1_000;
    const share = seconds > upSeconds + holdSeconds ? 0 : Math.min(1, seconds / Math.max(upSeconds, 0.001));
    return { bytes: Math.floor(most.bytes * share), processes: Math.floor(most.processes * share) };
  };
}

/** For 50 ms of every second. */
function touches(fromMs: number, bytes: number, times: number): Growth {
  return (atMs) => {
    const ms = atMs - fromMs;
    return { bytes: ms < times * 1_000 && ms % 1_000 < 50 ? bytes : 0, processes: 0 };
  };
}

function newPod(random: Random, number: number, nowMs: () => number): Member {
  const qos = random.of(['Guaranteed', 'Burstable', 'Burstable', 'BestEffort'] as const);
  const requestMiB = qos === 'BestEffort' ? 0 : random.whole(32, 512);
  const restBytes = Math.round(
    (qos === 'BestEffort' ? random.whole(8, 128) : requestMiB * (0.3 + random.next())) * MIB,
  );
  const restProcesses = random.whole(2, 60);
  const memory = requestMiB === 0 ? null : quantityOfBytes(requestMiB * MIB, 'binary');
  const priority = random.whole(0, 99) < 3 ? 2_000_000_000 : random.of([0, 0, 0, 100, 1_000]);
  const name = `pod-${number}`;
  let growth: Growth = () => ({ bytes: 0, processes: 0 });
  return {
    declared: {
      uid: `uid-${number}`,
      namespace: random.of(['shop', 'batch', 'tools']),
      name,
      qos,
      priority,
      requests: { memoryBytes: requestMiB * MIB, ephemeralStorageBytes: 0 },
      podLevelMemoryRequest: null,
      ephemeralStorageLimit: null,
      containers: [
        {
          name: 'main',
          kind: 'app',
          requests: { memory, ephemeralStorage: null },
          limits: { memory: qos === 'Guaranteed' ? memory : null, ephemeralStorage: null },
        },
      ],
      volumes: [],
      tolerations: [],
      terminationGraceSeconds: random.whole(1, 60),
      startedAtWallMs: random.whole(0, 9) === 0 ? null : Math.round(nowMs()),
      ownerKey: random.whole(0, 4) === 0 ? null : `owner-${random.whole(1, OWNERS)}`,
      isDaemonSet: random.whole(0, 19) === 0,
      isStaticCritical: priority >= 2_000_000_000,
      isProtected: random.whole(0, 19) === 0,
      isTerminating: false,
      limitedBy: null,
    },
    workingSetBytes: (atMs) => restBytes + growth(atMs).bytes,
    get processes() {
      return restProcesses + growth(nowMs()).processes;
    },
    grow: (next) => {
      growth = next;
    },
  };
}
