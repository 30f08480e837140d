import { known, valueOrNull } from '../core/reading.ts';
import { isPopulated } from '../host/cgroupfs.ts';
import { readBootId } from '../host/clock.ts';
import { createDiskWalker } from '../host/disk-walk.ts';
import { createDyingHelp } from '../host/dying-help.ts';
import type { Mode, ModeNeeds, OpenMode } from '../mode.ts';
import type { BoundPod, PodSource } from '../ports.ts';
import { openLastGoodManifests } from './last-good-manifests.ts';
import { createOomScores } from './oom-scores.ts';
import { createPlaceMemory, type PlaceMemory } from './pod-place.ts';
import { createRestart } from './restart.ts';
import { createScratch } from './scratch.ts';
import { createShutdownStops } from './shutdown-stops.ts';
import { unitsIn } from './slice-units.ts';
import { createStandaloneSource } from './source.ts';
import { createStandaloneKiller } from './stop.ts';
import { createTies } from './ties.ts';

type StandaloneNeeds = Omit<ModeNeeds, 'kube'> & {
  /** Bindings known from an earlier configuration of this run; absent: none. */
  readonly places?: PlaceMemory;
};
export type Standalone = Omit<Mode, 'close'> & {
  readonly close: () => Promise<void>;
  /** The unit that is stopped through systemd; null: none, or no such pod. */
  readonly unitOf: (uid: string) => string | null;
};

/** The standalone mode of one run of the agent. */
export function createStandalone(): OpenMode {
  const places = createPlaceMemory();
  return (needs) => openStandalone({ ...needs, places });
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
  const restart = needs.dry
    ? null
    : createRestart({
        ...holding,
        conditions: needs.conditions ?? [],
        ...(needs.isDryNow === undefined ? {} : { isDryNow: needs.isDryNow }),
        unitsIn: (slice) => unitsIn(mounts, slice),
        stopsAlong: ({ declared }, unit) => [
          ...ties.others(unit).map((other) => ({ unit: other, manifest: null })),
          ...ties.podsWith(declared.uid).flatMap((uid) => {
            const pod = source.find(uid);
            return pod === null || pod.unit === null ? [] : [{ unit: pod.unit, manifest: pod.manifest }];
          }),
        ],
      });
  const unitOf = (uid: string): string | null => source.find(uid)?.unit ?? null;
  const ties = createTies({ clock, systemd, unitOf, wake: needs.wake });
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
    ...(unit.endsWith('.slice') ? unitsIn(mounts, unit) : []),
  ];
  const remembered = { clock, systemd, findings, runtimeDirectory, bootId, isAlive, isIdle, others };
  const shutdownStops = restart === null ? null : createShutdownStops({ ...remembered, restart });
  // Started in advance: when needed, there may be neither memory nor a free process ID.
  const help = needs.dry ? undefined : createDyingHelp(mounts);
  const pods: PodSource = {
    ...source,
    pods: () => {
      const bound = source.pods();
      return bound.known ? known(ties.tied(withUnseen(bound.value))) : bound;
    },
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
  const { run } = needs;
  return {
    pods,
    scratch:
      run === undefined || needs.dry
        ? { empty: async () => null }
        : createScratch({ clock, mounts, run, walker, findings, source }),
    killer: createStandaloneKiller({
      clock,
      mounts,
      systemd,
      source,
      restart,
      shutdownStops,
      findings,
      help,
      isIdle: hasNoCgroup,
      doubtRestart: ties.doubtRestart,
    }),
    marks: {
      setCondition: (condition, status) => restart?.setCondition(condition, status),
      // Reported in the log; there is no API here.
      event: () => undefined,
    },
    undoStops: async () => shutdownStops?.undo() ?? { started: [], notUndone: [] },
    hasStops: () => shutdownStops !== null && !shutdownStops.isEmpty(),
    forgetStops: () => shutdownStops?.forget(),
    setShuttingDown: (isShuttingDown) => {
      restart?.setPaused(isShuttingDown);
      shutdownStops?.setShuttingDown(isShuttingDown);
    },
    oomScores: () => scores?.now() ?? [],
    isSettled: source.isSettled,
    isToBeStopped: (uid) => shutdownStops?.isToBeStopped(uid) === true,
    running: () => {
      const bound = source.pods();
      const idle = bound.known ? bound.value.filter(({ declared }) => hasNoCgroup(declared.uid)) : [];
      return [...source.running(), ...idle.map(({ declared }) => declared)];
    },
    unitOf,
    rewrite: () => {
      restart?.rewrite();
      shutdownStops?.rewrite();
    },
    close: async () => {
      ties.close();
      await restart?.close();
      shutdownStops?.close();
      help?.close();
      scores?.close();
      walker.close();
      await source.close();
    },
  };
}
