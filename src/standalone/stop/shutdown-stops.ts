import type { Asked } from '../../act/kill-order.ts';
import type { DecisionId } from '../../core/decision.ts';
import { type PodUid, podName } from '../../core/pod/pod.ts';
import type { UndoneStops } from '../../mode.ts';
import type { StopOrder } from '../../ports.ts';
import type { LivePod } from '../pods/source.ts';
import type { Restart } from '../restart/restart.ts';
import type { ShutdownGrace } from './shutdown-grace.ts';
import { createUnitStops, type StopInTurn, untilTold, whyNotUnit } from './stop-units.ts';
import type { StoppedPod } from './stops-file.ts';
import { createStopsMemory, type StopsMemory, type StopsMemoryNeeds, stopOf } from './stops-memory.ts';
import { undoStops } from './undo-stops.ts';

type ShutdownStopsNeeds = StopsMemoryNeeds & {
  readonly restart: Pick<Restart, 'isHeld'>;
  /** Whether the pod has processes now, or is idle. */
  readonly isAlive: (uid: PodUid) => boolean;
  /** Its unit is active without processes. */
  readonly isIdle: (uid: PodUid) => boolean;
  /** As in createUnitStops. */
  readonly others: (unit: string) => readonly string[];
};
/** Stops pods at a shutdown: each is asked once, remembered, and restarted if the shutdown is cancelled. */
export type ShutdownStops = {
  /** How to ask the pod to stop instead of SIGTERM; it is remembered before that. Null: SIGTERM, now. */
  readonly request: (live: LivePod, order: StopOrder, grace: ShutdownGrace) => (() => Promise<Asked>) | null;
  /** The state says of evictions alone what an earlier run had sent. */
  readonly withSentBefore: (order: StopOrder) => StopOrder;
  readonly toldAt: StopsMemory['toldAt'];
  /** Its stop is in progress until `ended`: an undo waits for it. */
  readonly began: (order: StopOrder) => void;
  readonly ended: (order: StopOrder, how: 'ended' | 'survived' | 'gone' | 'spared') => void;
  readonly undo: () => Promise<UndoneStops>;
  /** Those that it has stopped or is stopping, and that a cancel has not started again yet. */
  readonly units: () => ReadonlySet<string>;
  readonly isEmpty: () => boolean;
  /**
   * Of the shutdown that stops pods now. Aborted once it is cancelled: pods already asked to stop get the time that they declare,
   * and no other pod is asked.
   */
  readonly cancel: () => AbortSignal;
  /** Another pod that is asked to stop waits for its turn after this one. */
  readonly isAwaited: (uid: PodUid) => boolean;
  /** It is to be stopped, and has not been asked yet. */
  readonly isToBeStopped: (uid: PodUid) => boolean;
  readonly forget: () => void;
  readonly setShuttingDown: (isShuttingDown: boolean) => void;
  readonly rewrite: () => void;
  readonly close: () => void;
};
/** `said`: what it has come to, or how far it is while it only tries again. */
type Run = {
  isOver: boolean;
  readonly said: Promise<UndoneStops>;
  readonly end: Promise<UndoneStops>;
};

export function createShutdownStops(needs: ShutdownStopsNeeds): ShutdownStops {
  const memory = createStopsMemory(needs);
  let run: Run | null = null;
  /** Not reported yet, as after a start during a shutdown, is not cancelled. */
  let shutdown = new AbortController();
  const waiting = new Map<PodUid, ShutdownGrace>();
  const underWay = new Set<DecisionId>();
  const isUnderWay = ({ decision }: StoppedPod): boolean => underWay.has(stopOf(decision));
  const isAnyUnderWay = (): boolean => underWay.size > 0;
  const isAwaited = (uid: PodUid): boolean => [...waiting.values()].some(({ turn }) => turn().after.includes(uid));
  const tell = createUnitStops({ ...needs, memory, isAwaited });

  function undo(): Promise<UndoneStops> {
    // The undo has been notified of the cancel.
    shutdown.abort();
    if (run !== null && !run.isOver) return run.said;
    const before = run?.end ?? Promise.resolve();
    const next = { isOver: false };
    let soFar: (undone: UndoneStops) => void = () => undefined;
    const told = new Promise<UndoneStops>((resolve) => {
      soFar = (undone) => resolve({ ...undone, rest: end });
    });
    const end = before.then(() =>
      undoStops({ ...needs, memory, isUnderWay, isAnyUnderWay, isOver: () => next.isOver, soFar }),
    );
    const made: Run = Object.assign(next, { end, said: Promise.race([told, end]) });
    run = made;
    void end.then(() => {
      made.isOver = true;
    });
    return made.said;
  }

  function setShuttingDown(isShuttingDown: boolean): void {
    if (!isShuttingDown) shutdown.abort();
    if (!isShuttingDown || !shutdown.signal.aborted) return;
    shutdown = new AbortController();
    // An interrupted undo continues if this shutdown is cancelled, too. Otherwise the entries are from a completed
    // shutdown.
    if (run !== null && !run.isOver) run.isOver = true;
    else forget();
  }

  const forget = (): void => memory.forget(memory.all().map(({ decision }) => decision));

  return {
    request: (live, order, grace) => request({ ...needs, memory, tell, isAwaited, waiting }, live, order, grace),
    withSentBefore: (order) => {
      const isResumed = order.why === 'shutdown' && order.resumedFromMs !== null;
      const noted = memory.of(order.decision);
      return isResumed && isTold(noted) ? { ...order, sentBefore: 'sigterm', sentBeforeMs: noted.toldMs } : order;
    },
    toldAt: memory.toldAt,
    began: ({ decision }) => void underWay.add(decision),
    ended: (order, how) => {
      underWay.delete(order.decision);
      const noted = memory.of(order.decision);
      if (noted === null) return;
      // Not stopped by us at all, or its processes are still alive and it consists of nothing else.
      const isNothing =
        how === 'spared' ||
        (how === 'gone' && order.resumedFromMs === null) ||
        (how === 'survived' && noted.unit === null);
      // With what was stopped along: that may stop, or have stopped, although the pod itself does not.
      memory.ended(order.decision);
      if (isNothing) memory.forget([order.decision]);
    },
    undo,
    units: () => new Set(memory.all().flatMap(({ unit }) => unit ?? [])),
    isEmpty: () => memory.all().length === 0,
    cancel: () => shutdown.signal,
    isAwaited,
    isToBeStopped: (uid) => waiting.has(uid),
    forget,
    setShuttingDown,
    rewrite: memory.rewrite,
    close: () => {
      if (run !== null) run.isOver = true;
      memory.close();
    },
  };
}

function request(
  needs: Pick<ShutdownStopsNeeds, 'clock' | 'systemd' | 'isAlive'> & {
    readonly memory: StopsMemory;
    readonly tell: StopInTurn;
    readonly isAwaited: (uid: PodUid) => boolean;
    readonly waiting: Map<PodUid, ShutdownGrace>;
  },
  live: LivePod,
  order: StopOrder,
  grace: ShutdownGrace,
): (() => Promise<Asked>) | null {
  const { clock, memory, tell, waiting } = needs;
  const nowMs = clock.monoMs();
  const { decision, graceMs, victim } = order;
  const noted = memory.of(decision);
  const { unit, facts } = live;
  const declaredMs = live.manifest.declared.terminationGraceSeconds * 1_000;
  const inTurn = async (ask: () => Promise<Asked>): Promise<Asked> => {
    waiting.set(victim.uid, grace);
    return ask().finally(() => {
      if (waiting.get(victim.uid) === grace) waiting.delete(victim.uid);
    });
  };
  // An earlier run of the agent has asked for it, or may have: what is only noted would be asked once more.
  if (isTold(noted) || (noted !== null && unit !== null && grace.isCancelled())) {
    if (unit === null || noted.isSignalled === true) return async () => 'told';
    return () => inTurn(() => untilTold(needs, { uid: victim.uid, unit, hasJob: isTold(noted) }, grace));
  }
  if (grace.isCancelled()) return async () => 'spared';
  const pod: StoppedPod = {
    decision,
    uid: victim.uid,
    pod: podName(victim),
    unit,
    cannot: whyNot(live),
    invocationId: facts?.invocationId ?? '',
    activeState: facts?.activeState ?? '',
    stage: 'noted',
    graceEndsMs: Math.max(nowMs + Math.max(graceMs, declaredMs), grace.turn().endsMs),
  };
  if (unit !== null) return () => inTurn(() => tell({ ...pod, unit }, grace));
  memory.note([{ ...pod, stage: 'told' }]);
  return null;
}

const isTold = (noted: StoppedPod | null): noted is StoppedPod => noted !== null && noted.stage !== 'noted';

/** Why the agent cannot restart a stopped pod; null: it can. */
function whyNot({ manifest: { target }, unit }: LivePod): string | null {
  if (target.kind === 'podman') {
    const what = unit?.endsWith('.slice') ? 'pod start' : 'start';
    return `systemd does not restart Podman's part of it: run podman ${what} ${target.name}`;
  }
  if (unit === null) return 'its processes were ended by signals, and only what started them can restart them';
  return whyNotUnit(unit);
}
