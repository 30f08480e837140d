import { expect } from 'vitest';
import type { Effective } from '../../src/config/effective.ts';
import type { CoreConfig } from '../../src/core/core-config.ts';
import type { ShutdownEvent } from '../../src/core/observation.ts';
import { known, type Reading, unknown } from '../../src/core/reading.ts';
import type { State } from '../../src/core/state/state.ts';
import { initialState } from '../../src/core/state/state.ts';
import { createGoingDown, type GoingDownNeeds } from '../../src/daemon/going-down.ts';
import { createInbox } from '../../src/daemon/loop.ts';
import type { InhibitorStatus, ShutdownFact } from '../../src/ports.ts';
import type { ShutdownListener } from '../../src/shutdown/open.ts';
import { anObservation } from '../a.ts';
import { aCore, aShutdownConfig, LOCK, PREPARING, web } from '../core/shutdown/a-shutdown.ts';
import { createVirtualClock } from '../virtual-node.ts';

export const STOPPED = { kind: 'stopped-without-signal', leftMs: 60_000 } as const;
export const no = unknown('unreadable', 'the system bus', 'no connection');
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
/** As it is saved in the middle of phase 1, `web` told. */
export const inPhase1 = ((): State => {
  const { look, state } = aCore(aShutdownConfig(), [web]);
  look(0, { shutdownEvents: [LOCK, PREPARING] });
  return state();
})();

type Given = {
  readonly state?: State;
  /** What logind and systemd say. */
  readonly machine?: Reading<boolean>;
  /** From then on, it goes down. */
  readonly goesDownMs?: number;
  readonly dryRun?: boolean;
  /** The shutdown in progress began with another configuration: no dry run, and with phases. */
  readonly isChanged?: boolean;
  readonly isKubelet?: boolean;
  /** The configuration in force has no phases. */
  readonly isOff?: boolean;
  readonly hasStops?: boolean;
  /** Whether the system went down and came back since the earlier run. */
  readonly cameBack?: Reading<boolean>;
  readonly leftMs?: number | null;
  /** logind has announced it; and whether systemd stops everything already. */
  readonly isPreparing?: boolean;
  readonly isMachineStopping?: boolean | null;
  /** systemd starts it again once it has ended. */
  readonly isRestart?: boolean;
  /** What is another way in the configuration that it starts with; null: it would not start. */
  readonly atStart?: Partial<Effective> | null;
  /** Until then, what a cancelled shutdown stopped is being started again. */
  readonly undoneMs?: number;
  /** The daemon ends while the question is under way. */
  readonly closesWhenAsked?: boolean;
  /** How long the machine has been up when the agent starts. */
  readonly startMs?: number;
  /** When all pods are known. */
  readonly settledMs?: number;
};

/** The glue of the daemon with a machine that says what it is told. */
export function glued({
  state = initialState('boot'),
  machine = known(false),
  dryRun = false,
  isChanged = false,
  isKubelet = false,
  isOff = false,
  hasStops = false,
  cameBack = known(false),
  leftMs = null,
  isPreparing = false,
  isMachineStopping = false,
  isRestart = false,
  atStart = {},
  undoneMs = 0,
  closesWhenAsked = false,
  settledMs = 0,
  startMs = 0,
  goesDownMs = Number.POSITIVE_INFINITY,
}: Given) {
  const time = createVirtualClock(0);
  const clock = { ...time, monoMs: () => startMs + time.monoMs() };
  const inbox = createInbox(clock);
  const wanted: (number | null)[] = [];
  /** What logind is taken to have announced when the lock was wanted. */
  const underWay: (boolean | undefined)[] = [];
  const facts: ShutdownFact[] = [];
  const raised = new Map<string, string>();
  const resumed: string[] = [];
  const extended: number[] = [];
  const statusLines: string[] = [];
  const forgotten: true[] = [];
  let undone = 0;
  let isOver = false;
  let wentOn = 0;
  const back: ('now' | 'later')[] = [];
  let asked = 0;
  let listener: ShutdownListener | null = null;
  let lock: InhibitorStatus['lock'] = { kind: 'off' };
  const config = aShutdownConfig(isKubelet ? { tiers: { announceMs: 2_000, confirmMs: 10_000 } } : {});
  // Of the whole configuration it asks for these two.
  const configured = (isDry: boolean, phases: CoreConfig['phases']): Effective =>
    ({ dryRun: isDry, shutdown: { secondTier: true, phases } }) as unknown as Effective;
  const effective = (): Effective => configured(dryRun, isOff ? [] : config.phases);
  const quiet = (): void => undefined;
  const needs: GoingDownNeeds = {
    clock,
    side: {
      inhibitor: {
        want: (neededMs, isUnderWay) => {
          wanted.push(neededMs);
          underWay.push(isUnderWay);
        },
        take: quiet,
        release: quiet,
        retell: quiet,
        status: () => ({ lock, isPreparing, type: null, scheduled: null, isKubeletArmed: null }),
        close: async () => undefined,
      },
      secondTier: {
        leftMs: async () => leftMs,
        isMachineStopping: async () =>
          clock.monoMs() >= goesDownMs ? known(true) : isMachineStopping === null ? no : known(isMachineStopping),
        isToStart: async () => isRestart,
        comeBack: async () => void back.push('now'),
        comeBackLater: async () => void back.push('later'),
        stopTimeoutMs: () => null,
        close: quiet,
      },
      listen: (next) => {
        listener = next;
        next.changed();
        return quiet;
      },
      goesDown: async () => {
        asked += 1;
        if (closesWhenAsked) going.close();
        return clock.monoMs() >= goesDownMs ? known(true) : machine;
      },
      cameBackSince: async () => cameBack,
      close: async () => undefined,
    },
    parts: {
      inbox,
      findings: {
        raise: ({ id, text }) => void raised.set(id, text),
        clear: (id) => void raised.delete(id),
        all: () => [],
      },
      recorder: {
        left: () => ({ decision: null, begunMs: null, usedBefore: null, rungs: [], outcome: null }),
      },
      progress: { seen: quiet, tell: (fact) => void facts.push(fact) },
      mode: {
        pods: { pods: () => known([]), follow: quiet, close: async () => quiet() },
        isSettled: () => clock.monoMs() >= settledMs,
        running: () => [],
        hasStops: () => hasStops,
        goOn: () => {
          wentOn += 1;
        },
        forgetStops: () => void forgotten.push(true),
        setShuttingDown: quiet,
      },
      log: { debug: quiet, info: quiet, warn: quiet, error: quiet },
      state,
      core: () => config,
      actor: {
        prepare: quiet,
        begin: quiet,
        resume: quiet,
        resumeStop: ({ uid }) => void resumed.push(uid),
        underWay: () => 0,
      },
      undoStops: () => {
        undone += 1;
      },
      isUndoing: () => clock.monoMs() < undoneMs,
      ofShutdown: () => (isChanged && !isOver ? configured(false, config.phases) : effective()),
      shutdownOver: () => {
        isOver = true;
      },
    },
    atStart: () => (atStart === null ? null : { ...effective(), ...atStart }),
    notify: { status: (line) => void statusLines.push(line), extendMs: (ms) => void extended.push(ms) },
    effective,
  };
  const going = createGoingDown(needs);
  return {
    going,
    wanted,
    underWay,
    facts,
    raised,
    resumed,
    extended,
    statusLines,
    undone: () => undone,
    wentOn: () => wentOn,
    forgotten,
    back,
    asked: () => asked,
    /** Time passes; what arrived meanwhile. */
    pass: async (ms: number): Promise<readonly ShutdownEvent[]> => {
      await time.run(time.monoMs() + ms, turn, new AbortController().signal);
      return inbox.drain().events;
    },
    hold: (next: InhibitorStatus['lock']) => {
      lock = next;
      listener?.changed();
    },
    /** Resolves when the daemon would begin to look. */
    resume: async (meanwhile: () => void = quiet): Promise<readonly ShutdownEvent[]> => {
      clock.after(500, meanwhile);
      let isOver = false;
      void going.resume().then(() => {
        isOver = true;
      });
      const stop = new AbortController();
      const settle = async (): Promise<void> => {
        await turn();
        if (isOver) stop.abort();
      };
      await time.run(60_000, settle, stop.signal);
      expect(isOver).toBe(true);
      return inbox.drain().events;
    },
    look: (shutdown: State['shutdown'], shutdownEvents: readonly ShutdownEvent[] = []) =>
      going.seen(anObservation(0, {}, { shutdownEvents }), {
        state: { ...state, shutdown },
        decisions: [],
        reasons: [],
        next: { afterMs: 0, pods: null },
        intentWaitMs: 5,
      }),
  };
}
