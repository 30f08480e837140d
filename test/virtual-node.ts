import type { CoreConfig } from '../src/core/core-config.ts';
import type { Decision, DecisionId } from '../src/core/decision.ts';
import type { Observation } from '../src/core/observation.ts';
import { type Heard, isEnd, type Outcome } from '../src/core/outcome.ts';
import type { PodUid, PodView, Victim } from '../src/core/pod/pod.ts';
import { assertNever, known, type MonoMs, type Reading, unknown } from '../src/core/reading.ts';
import { forEachSignal, type Signal, type SignalSample } from '../src/core/signal.ts';
import { initialState } from '../src/core/state/state.ts';
import type { Verdict } from '../src/core/verdict.ts';
import { createInbox, runLoop } from '../src/daemon/loop.ts';
import type { Arrived, Clock, Observer, Recorder } from '../src/ports.ts';

/** A clock whose time passes only in `run`: no machine, no waiting. */
type VirtualClock = Clock & {
  /**
   * Runs what is due, in order of time, up to `untilMs`. `turn` is awaited before each step, so that promises settle
   * (and a reader can follow); it must let the event loop turn at least once. Ends early when `stop` is aborted.
   */
  readonly run: (untilMs: MonoMs, turn: (nowMs: MonoMs) => Promise<void>, stop: AbortSignal) => Promise<void>;
};

type Timer = { readonly atMs: MonoMs; readonly run: () => void };

export function createVirtualClock(startWallMs: number): VirtualClock {
  let nowMs: MonoMs = 0;
  const timers = new Set<Timer>();
  const earliest = (): Timer | null => {
    let first: Timer | null = null;
    // A Set keeps the order of insertion, so that equal times run in the order in which they were asked for.
    for (const timer of timers) if (first === null || timer.atMs < first.atMs) first = timer;
    return first;
  };
  return {
    monoMs: () => nowMs,
    wallMs: () => startWallMs + nowMs,
    after: (ms, run) => {
      const timer: Timer = { atMs: nowMs + Math.max(0, ms), run };
      timers.add(timer);
      return () => void timers.delete(timer);
    },
    run: async (untilMs, turn, stop) => {
      while (!stop.aborted) {
        await turn(nowMs);
        const next = earliest();
        if (stop.aborted || next === null || next.atMs > untilMs) break;
        timers.delete(next);
        nowMs = next.atMs;
        next.run();
      }
      if (!stop.aborted) nowMs = Math.max(nowMs, untilMs);
    },
  };
}

export type VirtualPod = {
  readonly declared: Omit<PodView, 'usage'>;
  readonly workingSetBytes: (atMs: MonoMs) => number;
  readonly processes: number;
};
export type VirtualNode = {
  readonly memoryBytes: number;
  readonly maxPids: number;
  readonly disk: { readonly bytesAvailable: number; readonly bytesCapacity: number };
  readonly inodes: { readonly free: number; readonly total: number };
};
export type World = {
  readonly observer: Observer;
  /** What the agent's effects would do to this node; their outcome arrives by `put`. */
  readonly begin: (decision: Decision) => void;
  readonly podsAlive: () => readonly VirtualPod[];
};
type WorldNeeds = {
  readonly clock: Clock;
  readonly node: VirtualNode;
  readonly pods: readonly VirtualPod[];
  /** From SIGKILL until the kernel has taken a victim's memory back: an assumption of the story, not a measurement. */
  readonly teardownMs: number;
  /** CPU time of one look, for the budget of D2: 2 ms looks cost about 3 % of a core (product.md section 6). */
  readonly lookCpuMs: number;
  readonly put: (heard: Heard) => void;
};

/** A node in virtual time: the same answers as a real one gives through observe/ and act/, out of functions of time. */
export function createWorld(needs: WorldNeeds): World {
  const { clock, pods } = needs;
  const gone = new Set<PodUid>();
  const ending = new Map<DecisionId, { readonly uid: PodUid; readonly cancel: () => void }>();
  let looks = 0;
  const alive = (): readonly VirtualPod[] => pods.filter((pod) => !gone.has(pod.declared.uid));
  const isTerminating = (uid: PodUid): boolean => [...ending.values()].some((end) => end.uid === uid);

  const end = (of: DecisionId, uid: PodUid, afterMs: number, via: 'sigterm' | 'sigkill'): void => {
    const cancel = clock.after(afterMs, () => {
      const pod = alive().find((candidate) => candidate.declared.uid === uid);
      ending.delete(of);
      gone.add(uid);
      const atMs = clock.monoMs();
      if (pod === undefined) needs.put({ of, atMs, kind: 'dropped', because: 'gone' });
      else needs.put({ of, atMs, kind: 'ended', via, releasedBytes: known(pod.workingSetBytes(atMs)) });
    });
    ending.set(of, { uid, cancel });
  };
  const stop = (of: DecisionId, victim: Victim, graceMs: number): void => {
    needs.put({ of, atMs: clock.monoMs(), kind: 'signalled', with: graceMs > 0 ? 'sigterm' : 'sigkill' });
    end(of, victim.uid, graceMs + needs.teardownMs, graceMs > 0 ? 'sigterm' : 'sigkill');
  };

  return {
    observer: {
      look: (want, arrived) => {
        looks += 1;
        const views = want.pods === null ? null : alive().map((pod) => viewOf(pod, clock, isTerminating));
        return observe(needs, alive(), views, { cpuMs: looks * needs.lookCpuMs, arrived });
      },
      reread: async (signal) => signalsOf(needs, alive())[signal],
    },
    begin: (decision) => {
      switch (decision.kind) {
        case 'evict':
          // D12: a hard memory or pid threshold kills at once. A pod that gets a grace is taken to use all of it.
          return stop(decision.id, decision.victim, decision.threshold.isHard ? 0 : decision.graceSeconds * 1000);
        case 'evict-over-limit':
        case 'stop-for-shutdown':
          return stop(decision.id, decision.victim, decision.graceSeconds * 1000);
        case 'hasten': {
          const running = ending.get(decision.eviction);
          if (running === undefined) return;
          running.cancel();
          return end(decision.eviction, running.uid, needs.teardownMs, 'sigkill');
        }
        case 'reclaim':
          return void clock.after(0, () =>
            needs.put({ of: decision.id, atMs: clock.monoMs(), kind: 'reclaimed', freed: known(0) }),
          );
        case 'set-condition':
        case 'announce-shutdown':
        case 'take-lock':
        case 'undo-stops':
        case 'release-lock':
          return;
        default:
          return assertNever(decision);
      }
    },
    podsAlive: alive,
  };
}

export type VirtualRun = Omit<WorldNeeds, 'clock' | 'put'> & {
  readonly clock: VirtualClock;
  readonly config: CoreConfig;
  readonly untilMs: MonoMs;
  /** Every decision, every outcome and every look, in order. */
  readonly decided: (decision: Decision) => void;
  readonly ended: (outcome: Outcome) => void;
  readonly looked: (observation: Observation, verdict: Verdict, alive: readonly VirtualPod[]) => void;
  /** As `VirtualClock.run` wants it. */
  readonly turn: (nowMs: MonoMs) => Promise<void>;
};

/** The agent's own loop and core over a virtual node, until `untilMs` or until `stop` is aborted. Nothing is recorded. */
export async function runVirtually(run: VirtualRun, stop: AbortSignal): Promise<void> {
  const inbox = createInbox(run.clock);
  const put = (heard: Heard): void => {
    if (isEnd(heard)) run.ended(heard);
    inbox.put(heard);
  };
  const world = createWorld({ ...run, put });
  const recorder: Recorder = {
    intent: async () => 'durable',
    keep: () => undefined,
    began: () => undefined,
    outcome: () => undefined,
    note: () => undefined,
  };
  const end = new AbortController();
  const loop = runLoop(
    initialState('virtual'),
    {
      observer: world.observer,
      recorder,
      inbox,
      config: () => run.config,
      begin: (decision) => {
        run.decided(decision);
        world.begin(decision);
      },
      publish: (observation, verdict) => run.looked(observation, verdict, world.podsAlive()),
    },
    end.signal,
  );
  await run.clock.run(run.untilMs, run.turn, stop);
  end.abort();
  inbox.wake();
  await loop;
}

function observe(
  needs: WorldNeeds,
  alive: readonly VirtualPod[],
  views: readonly PodView[] | null,
  look: { readonly cpuMs: number; readonly arrived: Arrived },
): Observation {
  const none = unknown('not-applicable', 'virtual node', 'a virtual node has no pressure stall information');
  return {
    atMs: needs.clock.monoMs(),
    cpuMs: look.cpuMs,
    wallMs: needs.clock.wallMs(),
    signals: signalsOf(needs, alive),
    fsLayout: known('nodefs-only'),
    pods: views === null ? unknown('not-asked', 'pods', 'far from every threshold no pod is read') : known(views),
    outcomes: look.arrived.outcomes,
    psi: { memory: none, io: none, cpu: none },
    shutdownEvents: look.arrived.events,
    volumesMounted: unknown('not-applicable', 'virtual node', 'a virtual pod has no volume of its own'),
  };
}

function signalsOf(
  { clock, node }: WorldNeeds,
  alive: readonly VirtualPod[],
): { readonly [S in Signal]: Reading<SignalSample> } {
  const sampledAtMs = clock.monoMs();
  const usedBytes = alive.reduce((sum, pod) => sum + pod.workingSetBytes(sampledAtMs), 0);
  const pids = alive.reduce((sum, pod) => sum + pod.processes, 0);
  const sample = (available: number, capacity: number): Reading<SignalSample> =>
    known({ available, capacity, sampledAtMs });
  const none = unknown('not-applicable', 'virtual node', 'a virtual node has one file system and no kubepods cgroup');
  const measured: { readonly [S in Signal]?: Reading<SignalSample> } = {
    'memory.available': sample(node.memoryBytes - usedBytes, node.memoryBytes),
    'nodefs.available': sample(node.disk.bytesAvailable, node.disk.bytesCapacity),
    'nodefs.inodesFree': sample(node.inodes.free, node.inodes.total),
    'pid.available': sample(node.maxPids - pids, node.maxPids),
  };
  return forEachSignal((signal) => measured[signal] ?? none);
}

function viewOf(pod: VirtualPod, clock: Clock, isTerminating: (uid: PodUid) => boolean): PodView {
  const workingSetBytes = known(pod.workingSetBytes(clock.monoMs()));
  const disk = unknown('not-asked', 'virtual pod', 'a virtual pod writes nothing');
  return {
    ...pod.declared,
    isTerminating: isTerminating(pod.declared.uid),
    usage: {
      workingSetBytes,
      processes: known(pod.processes),
      disk,
      ephemeralStorageBytes: disk,
      containers: known(
        pod.declared.containers.map(({ name }) => ({ name, workingSetBytes, logsBytes: disk, rootfsBytes: disk })),
      ),
      volumes: known([]),
    },
  };
}
