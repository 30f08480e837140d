import { createSurvivorMemory, createSurvivors, type SurvivorMemory } from '../act/survivors.ts';
import type { Emptying } from '../core/observation.ts';
import { podName } from '../core/pod/pod.ts';
import { known, valueOrNull } from '../core/reading.ts';
import { isPopulated } from '../host/cgroup/cgroupfs.ts';
import { readBootId } from '../host/clock.ts';
import { createDiskWalker } from '../host/disk/disk-walk.ts';
import { actingLock, isLocked } from '../host/own/lock-file.ts';
import { createDyingHelp } from '../host/process/dying-help.ts';
import type { Mode, ModeNeeds, OpenMode } from '../mode.ts';
import type { BoundPod, PodSource } from '../ports.ts';
import { TIES_UNKNOWN, tiesUnknown } from '../words/finding-standalone.ts';
import { openLastGoodManifests } from './manifests/last-good-manifests.ts';
import { createOomScores } from './pods/oom-scores.ts';
import { createPlaceMemory, type PlaceMemory } from './pods/pod-place.ts';
import { createStandaloneSource } from './pods/source.ts';
import { createRestart } from './restart/restart.ts';
import { createScratch } from './stop/scratch.ts';
import { createShutdownStops, type ShutdownStops } from './stop/shutdown-stops.ts';
import { unitsIn } from './stop/slice-units.ts';
import { createStandaloneKiller } from './stop/stop.ts';
import { isBoundAs } from './stop/stop-target.ts';
import { createTies } from './ties/ties.ts';

type StandaloneNeeds = Omit<ModeNeeds, 'kube'> & {
  /** Bindings known from an earlier configuration of this run; absent: none. */
  readonly places?: PlaceMemory;
  /** The same for what it has found of pods that it stopped. */
  readonly memory?: SurvivorMemory;
  /** The same for what it empties. */
  readonly emptying?: Set<Emptying>;
};
export type Standalone = Omit<Mode, 'close'> & {
  readonly close: () => Promise<void>;
  /** The unit that is stopped through systemd; null: none, or no such pod. */
  readonly unitOf: (uid: string) => string | null;
};

/** The standalone mode of one run of the agent. */
export function createStandalone(): OpenMode {
  const places = createPlaceMemory();
  const memory = createSurvivorMemory();
  const emptying = new Set<Emptying>();
  return (needs) => openStandalone({ ...needs, places, memory, emptying });
}

/** The mode without Kubernetes: pods from manifests, stopped by systemd and by signals. */
export function openStandalone(needs: StandaloneNeeds): Standalone {
  const { clock, mounts, systemd, findings, log, note, runtimeDirectory } = needs;
  let podsChanged = (): void => undefined;
  const wake = (): void => {
    podsChanged();
    needs.wake();
  };
  const kept = openLastGoodManifests(runtimeDirectory, needs.podManifests, clock);
  const source = createStandaloneSource({ ...needs, wake, kept });
  const boot = readBootId();
  // Without a boot id, units held before cannot be distinguished from those of another boot.
  const bootId = boot.known ? boot.value : '';
  const holding = { clock, systemd, runtimeDirectory, bootId, log, findings, note };
  const restart = createRestart({
    ...holding,
    ...(needs.dry
      ? { isDryNow: () => true, isTaken: () => isLocked(actingLock(runtimeDirectory), bootId) }
      : { conditions: needs.conditions ?? [], isDryNow: needs.isDryNow ?? (() => false) }),
    unitsIn: (slice) => allIn(slice),
    isToStart: (unit) => ties.isToStart(unit),
    ofShutdown: () => shutdownStops?.units() ?? new Set(),
    mayBeDeclared: (pod) => {
      const bound = source.pods();
      const mayBe = ({ declared }: BoundPod): boolean =>
        podName(declared) === pod || declared.limitedBy === 'manifest-unread';
      return !bound.known || !source.isSettled() || bound.value.some(mayBe);
    },
    stopsAlong: (_, unit) => [
      ...ties
        .others(unit)
        .filter(ties.runsNow)
        .map((other) => ({ unit: other, manifest: null })),
      ...ties.podsWith(unit).flatMap((uid) => {
        const pod = source.find(uid);
        return pod === null || pod.unit === null ? [] : [{ unit: pod.unit, manifest: pod.manifest }];
      }),
    ],
  });
  const unitOf = (uid: string): string | null => source.find(uid)?.unit ?? null;
  const untied = (isMissing: boolean): void =>
    isMissing ? findings.raise(tiesUnknown()) : findings.clear(TIES_UNKNOWN);
  const ties = createTies({ clock, systemd, unitOf, wake: needs.wake, missing: untied });
  /** Also those that have no cgroup now. */
  const allIn = (slice: string): readonly string[] => [...new Set([...unitsIn(mounts, slice), ...ties.upIn(slice)])];
  const isAlive = (uid: string): boolean => {
    const live = source.find(uid);
    const populated = live?.cgroup.known ? isPopulated(mounts, live.cgroup.value) : null;
    return (populated?.known === true && populated.value) || hasNoCgroup(uid);
  };
  const { isIdle } = ties;
  /** Whether it can be stopped only through systemd. */
  const hasNoCgroup = (uid: string): boolean => ties.isIdle(uid) || source.unseen().has(uid);
  const withUnseen = (bound: readonly BoundPod[]): readonly BoundPod[] => {
    const unseen = source.unseen();
    if (unseen.size === 0) return bound;
    return bound.map((pod) =>
      !pod.cgroup.known && unseen.has(pod.declared.uid) ? { ...pod, isIdle: true, isUnseen: true } : pod,
    );
  };
  const others = (unit: string): readonly string[] => [
    ...ties.others(unit),
    // A shutdown stops no pod that has no process.
    ...ties
      .podsWith(unit)
      .flatMap((uid) => unitOf(uid) ?? [])
      .filter(ties.isBetweenRuns),
    ...(unit.endsWith('.slice') ? allIn(unit) : []),
  ];
  const remembered = { clock, systemd, findings, runtimeDirectory, bootId, isAlive, isIdle, others };
  const shutdownStops: ShutdownStops | null = needs.dry ? null : createShutdownStops({ ...remembered, restart });
  // Started in advance: when needed, there may be neither memory nor a free process ID.
  const help = needs.dry ? undefined : createDyingHelp(mounts);
  const pods: PodSource = {
    ...source,
    pods: () => {
      const bound = source.pods();
      return bound.known ? known(ties.tied(withUnseen(bound.value))) : bound;
    },
    // Reading them is what asks systemd about their units: at once, and before the first choice.
    opened: async () => {
      await source.opened?.();
      pods.pods();
    },
    unsettled: (forWhat) => source.unsettled?.(forWhat) ?? (forWhat === 'all' ? null : ties.unsettled()),
  };
  const scores =
    needs.dry || needs.setOomScores === undefined
      ? null
      : createOomScores({
          ...needs,
          bootId,
          run: needs.setOomScores,
          pods: () => valueOrNull(source.pods()) ?? [],
          unitOf,
        });
  podsChanged = scores?.changed ?? podsChanged;
  const walker = createDiskWalker(clock);
  const survivors = createSurvivors({
    ...needs,
    isGone: (victim) => {
      const live = source.find(victim.uid);
      return live === null ? source.pods().known : !isBoundAs(victim, live);
    },
  });
  const { run } = needs;
  return {
    pods,
    scratch:
      run === undefined || needs.dry
        ? { empty: async () => null }
        : createScratch({ clock, mounts, run, walker, findings, source, emptying: needs.emptying }),
    killer: createStandaloneKiller({
      clock,
      mounts,
      systemd,
      source,
      restart,
      shutdownStops,
      findings,
      survivors,
      help,
      isIdle: hasNoCgroup,
      doubtRestart: ties.doubtRestart,
    }),
    marks: {
      setCondition: (condition, status) => restart.setCondition(condition, status),
      // Reported in the log; there is no API here.
      event: () => undefined,
    },
    undoStops: async () => shutdownStops?.undo() ?? { started: [], notUndone: [] },
    hasStops: () => shutdownStops !== null && !shutdownStops.isEmpty(),
    forgetStops: () => shutdownStops?.forget(),
    setShuttingDown: (isShuttingDown) => {
      restart.setPaused(isShuttingDown);
      shutdownStops?.setShuttingDown(isShuttingDown);
    },
    oomScores: () => scores?.now() ?? [],
    looked: restart.looked,
    isSettled: source.isSettled,
    isToBeStopped: (uid) => shutdownStops?.isToBeStopped(uid) === true,
    running: () => {
      const bound = source.pods();
      const idle = bound.known ? bound.value.filter(({ declared }) => hasNoCgroup(declared.uid)) : [];
      return [...source.running(), ...idle.map(({ declared }) => declared)];
    },
    unitOf,
    rewrite: () => {
      restart.rewrite();
      shutdownStops?.rewrite();
    },
    close: async () => {
      survivors.close();
      ties.close();
      await restart.close();
      shutdownStops?.close();
      help?.close();
      scores?.close();
      walker.close();
      await source.close();
    },
  };
}
