import type { CoreConfig } from '../core/core-config.ts';
import { decide } from '../core/decide.ts';
import type { Threshold } from '../core/eviction/threshold.ts';
import type { Observation } from '../core/observation.ts';
import type { PodView } from '../core/pod/pod.ts';
import { known, type Reading, unknown } from '../core/reading.ts';
import { forEachSignal, type SignalSample } from '../core/signal.ts';
import { initialState } from '../core/state/state.ts';
import { quantityOfBytes } from '../core/units/quantity.ts';
import type { Verdict } from '../core/verdict.ts';
import { cgroupPathOf } from '../host/cgroup/cgroup-members.ts';
import type { CgroupMounts } from '../host/cgroup/cgroup-mounts.ts';
import { sleep } from '../host/clock.ts';
import { signalInCgroup } from '../host/process/signal-process.ts';
import { isKernelThread } from '../host/procfs.ts';
import type { Clock, Findings, Killer, Log } from '../ports.ts';
import { createActor } from './actor.ts';
import { dryParts } from './dry-run.ts';
import { createHasten } from './hasten.ts';
import { killCgroup } from './kill.ts';

export type WarmUpNeeds = {
  readonly clock: Clock;
  readonly mounts: CgroupMounts;
  readonly config: () => CoreConfig;
  readonly podsNow: () => Reading<readonly PodView[]>;
  readonly killer: Pick<Killer, 'usedBytes' | 'largestProcesses'>;
  /** Builds what would be recorded of a step, and discards it. */
  readonly rehearse: (step: { readonly observation: Observation; readonly verdict: Verdict }) => void;
  /** A log that writes nothing. */
  readonly log: Log;
};

/** V8 parses a function at its first call and interprets it at first: after this many calls it is compiled. */
const ROUNDS = 24;
/** A round takes a millisecond or two: no look should wait for two. */
const APART_MS = 20;
/** The limit for all rounds together: with a thousand pods a round takes far longer, and looks have precedence. */
const MOST_MS = 100;
const GI = 2 ** 30;
const HARD: Threshold = {
  id: 'memory.available/evictionHard',
  signal: 'memory.available',
  value: { kind: 'quantity', amount: quantityOfBytes(GI, 'binary') },
  graceMs: 0,
  minReclaim: null,
};
const NOBODY = { path: '/nodewarden-warm-up', inode: 0 };
const none = unknown('not-applicable', 'warm-up', 'it is not measured');
const silent: Findings = { raise: () => undefined, clear: () => undefined, all: () => [] };

/**
 * Runs the whole path of a hard eviction several times, from the look to the signal, without effects: the first one of a
 * process took 16 ms instead of 3 to reach its signal.
 */
export async function warmUp(needs: WarmUpNeeds, stop: AbortSignal): Promise<void> {
  const { clock } = needs;
  let spentMs = 0;
  for (let round = 0; round < ROUNDS && spentMs < MOST_MS; round++) {
    await sleep(clock, APART_MS);
    if (stop.aborted) return;
    const beganMs = clock.monoMs();
    rehearseDecision(needs);
    spentMs += clock.monoMs() - beganMs;
    await rehearseKill(needs);
  }
}

function rehearseDecision(needs: WarmUpNeeds): void {
  const { clock } = needs;
  const observation = pressed(clock, needs.podsNow());
  const config: CoreConfig = { ...needs.config(), thresholds: [HARD], reclaimSignals: [] };
  const before = { ...initialState('warm-up'), lastLookMs: observation.atMs - 1 };
  const asked = decide(before, { ...observation, pods: unknown('not-asked', 'pods', 'not yet') }, config);
  const verdict = decide(asked.state, observation, config);
  needs.rehearse({ observation, verdict });
  const actor = createActor({
    ...dryParts(clock, needs.killer),
    clock,
    observer: { reread: async () => observation.signals['memory.available'] },
    recorder: {
      intent: async () => 'deferred',
      keep: () => undefined,
      began: () => undefined,
      outcome: () => undefined,
      note: () => undefined,
    },
    inbox: { put: () => undefined },
    lock: { take: () => undefined, release: () => undefined },
    announce: () => undefined,
    undoStops: () => undefined,
    log: needs.log,
    findings: silent,
    isDry: () => true,
  });
  for (const decision of verdict.decisions) actor.prepare(decision);
  for (const decision of verdict.decisions) actor.begin(decision);
}

/** A cgroup that does not exist is gone before anything is signalled, and the agent never signals itself. */
async function rehearseKill({ clock, mounts }: WarmUpNeeds): Promise<void> {
  const order = { mounts, ref: NOBODY, clock, graceMs: 0, first: 'sigkill', givesBack: 'memory', ask: null } as const;
  await killCgroup({ ...order, hasten: createHasten(clock) });
  signalInCgroup(mounts, NOBODY, process.pid, 'SIGKILL');
  isKernelThread(process.pid);
  cgroupPathOf(mounts, process.pid);
}

/** A node without available memory, with its pods and two more. */
function pressed(clock: Clock, pods: Reading<readonly PodView[]>): Observation {
  const atMs = clock.monoMs();
  const memory: Reading<SignalSample> = known({ available: 0, capacity: GI, sampledAtMs: atMs });
  return {
    atMs,
    cpuMs: 0,
    wallMs: clock.wallMs(),
    signals: forEachSignal((signal) => (signal === 'memory.available' ? memory : none)),
    fsLayout: known('nodefs-only'),
    pods: known([...(pods.known ? pods.value : []), podOf('a', GI / 2), podOf('b', GI / 4)]),
    outcomes: [],
    psi: { memory: none, io: none, cpu: none },
    shutdownEvents: [],
    volumesMounted: none,
  };
}

function podOf(name: string, bytes: number): PodView {
  const amounts = { memory: null, ephemeralStorage: null };
  return {
    uid: `warm-up-${name}`,
    namespace: 'warm-up',
    name,
    qos: 'BestEffort',
    priority: 0,
    requests: { memoryBytes: 0, ephemeralStorageBytes: 0 },
    podLevelMemoryRequest: null,
    ephemeralStorageLimit: null,
    containers: [{ name: 'main', kind: 'app', requests: amounts, limits: amounts }],
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
    usage: {
      workingSetBytes: known(bytes),
      processes: known(1),
      disk: none,
      ephemeralStorageBytes: none,
      containers: known([]),
      volumes: known([]),
    },
  };
}
