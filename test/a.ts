import type { CoreConfig } from '../src/core/core-config.ts';
import type { Threshold } from '../src/core/eviction/threshold.ts';
import type { Observation } from '../src/core/observation.ts';
import type { PodView } from '../src/core/pod/pod.ts';
import { known, type Reading, unknown } from '../src/core/reading.ts';
import { SIGNALS, type Signal, type SignalSample } from '../src/core/signal.ts';
import { quantityOfBytes } from '../src/core/units/quantity.ts';

export const MI = 2 ** 20;
export const GI = 2 ** 30;
export const NOT_ASKED = unknown('not-asked', 'pods', 'no decision needs them');

type PodOverrides = Partial<Omit<PodView, 'usage'>> & {
  readonly workingSetBytes?: number;
  readonly processes?: number;
  readonly diskBytes?: number;
  readonly usage?: Partial<PodView['usage']>;
};

/** A Burstable pod of priority 0 that uses nothing and asks for nothing. */
export function aPod({ workingSetBytes = 0, processes = 1, diskBytes = 0, usage, ...declared }: PodOverrides): PodView {
  const name = declared.name ?? 'pod';
  return {
    uid: `uid-${name}`,
    namespace: 'default',
    name,
    qos: 'Burstable',
    priority: 0,
    requests: { memoryBytes: 0, ephemeralStorageBytes: 0 },
    podLevelMemoryRequest: null,
    ephemeralStorageLimit: null,
    containers: [{ name: 'main', kind: 'app', requests: noAmounts, limits: noAmounts }],
    volumes: [],
    tolerations: [],
    terminationGraceSeconds: 30,
    startedAtWallMs: 0,
    ownerKey: null,
    isDaemonSet: false,
    isStaticCritical: false,
    isProtected: false,
    isTerminating: false,
    limitedBy: null,
    ...declared,
    usage: {
      workingSetBytes: known(workingSetBytes),
      processes: known(processes),
      disk: known({
        logsBytes: 0,
        rootfsBytes: 0,
        volumesBytes: diskBytes,
        logsInodes: 0,
        rootfsInodes: 0,
        volumesInodes: 0,
      }),
      ephemeralStorageBytes: known(diskBytes),
      containers: known([
        { name: 'main', workingSetBytes: known(workingSetBytes), logsBytes: known(0), rootfsBytes: known(0) },
      ]),
      volumes: known([]),
      ...usage,
    },
  };
}
const noAmounts = { memory: null, ephemeralStorage: null };

const notApplicable = unknown('not-applicable', 'test', 'this node has no such source');

/** A look at `atMs` with the signals given, freshly measured; every other signal is not applicable, pods not asked. */
export function anObservation(
  atMs: number,
  signals: {
    readonly [S in Signal]?: Reading<SignalSample> | { readonly available: number; readonly capacity: number };
  },
  rest: Partial<Observation> = {},
): Observation {
  const all = Object.fromEntries(
    SIGNALS.map((signal) => {
      const given = signals[signal];
      if (given === undefined) return [signal, notApplicable];
      return [signal, 'known' in given ? given : known({ ...given, sampledAtMs: atMs })];
    }),
  ) as Observation['signals'];
  return {
    atMs,
    cpuMs: 0,
    wallMs: 1_700_000_000_000 + atMs,
    signals: all,
    fsLayout: known('nodefs-only'),
    pods: NOT_ASKED,
    outcomes: [],
    psi: { memory: notApplicable, io: notApplicable, cpu: notApplicable },
    shutdownEvents: [],
    volumesMounted: notApplicable,
    ...rest,
  };
}

export function aThreshold(
  signal: Signal,
  amountBytes: number,
  rest: { readonly graceMs?: number; readonly minReclaimBytes?: number } = {},
): Threshold {
  const quantity = (amount: number) => ({ kind: 'quantity', amount: quantityOfBytes(amount, 'binary') }) as const;
  const { graceMs = 0, minReclaimBytes } = rest;
  return {
    id: `${signal}/${graceMs === 0 ? 'evictionHard' : 'evictionSoft'}`,
    signal,
    value: quantity(amountBytes),
    graceMs,
    minReclaim: minReclaimBytes === undefined ? null : quantity(minReclaimBytes),
  };
}

export function aConfig(thresholds: readonly Threshold[], rest: Partial<CoreConfig> = {}): CoreConfig {
  return {
    thresholds,
    pressureTransitionMs: 300_000,
    maxPodGraceSeconds: 0,
    pace: { minMs: 2, maxMs: 10_000, cpuShare: 0.01, cpus: 2 },
    guard: null,
    localStorageLimits: 'enforce',
    reclaimSignals: [],
    phases: [],
    shutdownCancel: 'promptly',
    shutdownCarryOver: false,
    ...rest,
  };
}
