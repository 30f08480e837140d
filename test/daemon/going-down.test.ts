import { describe, expect, it } from 'vitest';
import type { Effective } from '../../src/config/effective.ts';
import type { ShutdownEvent } from '../../src/core/observation.ts';
import { known, type Reading, unknown } from '../../src/core/reading.ts';
import type { State, Stopping } from '../../src/core/state/state.ts';
import { initialState } from '../../src/core/state/state.ts';
import { createGoingDown, type GoingDownNeeds } from '../../src/daemon/going-down.ts';
import { createInbox } from '../../src/daemon/loop.ts';
import type { InhibitorStatus, ShutdownFact } from '../../src/ports.ts';
import type { ShutdownListener } from '../../src/shutdown/open.ts';
import { anObservation } from '../a.ts';
import { aCore, aShutdownConfig, LOCK, PREPARING, web } from '../core/shutdown/a-shutdown.ts';
import { createVirtualClock } from '../virtual-node.ts';

const STOPPED = { kind: 'stopped-without-signal', leftMs: 60_000 } as const;
const no = unknown('unreadable', 'the system bus', 'no connection');
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
/** As it is saved in the middle of phase 1, `web` told. */
const inPhase1 = ((): State => {
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
  /** The configuration in force has no phases. */
  readonly isOff?: boolean;
  readonly hasStops?: boolean;
  /** Whether the system went down and came back since the earlier run. */
  readonly cameBack?: Reading<boolean>;
  readonly leftMs?: number | null;
  /** logind has announced it; and whether systemd stops everything already. */
  readonly isPreparing?: boolean;
  readonly isMachineStopping?: boolean;
  /** The daemon ends while the question is under way. */
  readonly closesWhenAsked?: boolean;
  /** When all pods are known. */
  readonly settledMs?: number;
};

/** The glue of the daemon with a machine that says what it is told. */
function glued({
  state = initialState('boot'),
  machine = known(false),
  dryRun = false,
  isOff = false,
  hasStops = false,
  cameBack = known(false),
  leftMs = null,
  isPreparing = false,
  isMachineStopping = false,
  closesWhenAsked = false,
  settledMs = 0,
  goesDownMs = Number.POSITIVE_INFINITY,
}: Given) {
  const clock = createVirtualClock(0);
  const inbox = createInbox(clock);
  const wanted: (number | null)[] = [];
  const facts: ShutdownFact[] = [];
  const raised = new Map<string, string>();
  const resumed: string[] = [];
  const extended: number[] = [];
  const statusLines: string[] = [];
  const forgotten: true[] = [];
  let undone = 0;
  let back = 0;
  let asked = 0;
  const comeBack = async (): Promise<void> => {
    back += 1;
  };
  let listener: ShutdownListener | null = null;
  let lock: InhibitorStatus['lock'] = { kind: 'off' };
  const config = aShutdownConfig();
  const quiet = (): void => undefined;
  const needs: GoingDownNeeds = {
    clock,
    side: {
      inhibitor: {
        want: (neededMs) => void wanted.push(neededMs),
        take: quiet,
        release: quiet,
        retell: quiet,
        status: () => ({ lock, isPreparing, type: null, scheduled: null, isKubeletArmed: null }),
        close: async () => undefined,
      },
      secondTier: {
        leftMs: async () => leftMs,
        isMachineStopping: async () => isMachineStopping,
        comeBack,
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
        left: () => ({ decision: null, begunMs: null, usedBefore: null, processes: [], rungs: [], outcome: null }),
      },
      progress: { seen: quiet, tell: (fact) => void facts.push(fact) },
      mode: {
        pods: { pods: () => known([]), follow: quiet, close: async () => quiet() },
        isSettled: () => clock.monoMs() >= settledMs,
        running: () => [],
        hasStops: () => hasStops,
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
    },
    notify: { status: (line) => void statusLines.push(line), extendMs: (ms) => void extended.push(ms) },
    // Of the whole configuration it asks for these two.
    effective: () =>
      ({ dryRun, shutdown: { secondTier: true, phases: isOff ? [] : config.phases } }) as unknown as Effective,
  };
  const going = createGoingDown(needs);
  return {
    going,
    wanted,
    facts,
    raised,
    resumed,
    extended,
    statusLines,
    undone: () => undone,
    forgotten,
    back: () => back,
    asked: () => asked,
    /** Time passes; what arrived meanwhile. */
    pass: async (ms: number): Promise<readonly ShutdownEvent[]> => {
      await clock.run(clock.monoMs() + ms, turn, new AbortController().signal);
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
      await clock.run(60_000, settle, stop.signal);
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

describe('an agent that starts in the middle of a shutdown', () => {
  it('continues it while the machine goes down, and records how the lock ended', async () => {
    const { resume, facts, resumed } = glued({ state: inPhase1, machine: known(true) });
    expect(await resume()).toEqual([]);
    expect(facts).toMatchObject([{ what: 'lock-lost' }, { what: 'resumed', phase: 1 }]);
    expect(resumed).toEqual([web.uid]);
  });

  it.each([
    ['logind and systemd say that the machine stays up', known(false)],
    ['nothing can be learned', no],
  ])('treats it as cancelled if %s, and resumes no stop before that was heard', async (_, machine) => {
    const { resume, facts, resumed, look } = glued({ state: inPhase1, machine });
    expect(await resume()).toEqual([{ kind: 'cancelled', machineStays: true }]);
    expect([facts, resumed]).toEqual([[], []]);
    const shutdown = { kind: 'unarmed', why: 'cancelled' } as const;
    look(shutdown);
    look(shutdown);
    expect(resumed).toEqual([web.uid]);
  });

  it('does not take a shutdown that stops it while the pods are not known yet for the cancelled one', async () => {
    const given = { state: inPhase1, leftMs: 60_000, isMachineStopping: true, goesDownMs: 500, settledMs: 1_500 };
    const { resume, going } = glued(given);
    expect(await resume(() => void going.stopAsked())).toEqual([STOPPED]);
  });

  it('also asks if it had released the lock', async () => {
    const state: State = { ...initialState('boot'), shutdown: { kind: 'released', atMs: 0 } };
    expect(await glued({ state }).resume()).toEqual([{ kind: 'cancelled', machineStays: true }]);
    expect(await glued({ state, machine: known(true) }).resume()).toEqual([]);
  });
});

describe('an agent that starts after a soft-reboot', () => {
  const released: State = { ...inPhase1, shutdown: { kind: 'released', atMs: 0 }, lastLookMs: 0 };
  const cancelled: State = { ...released, shutdown: { kind: 'unarmed', why: 'cancelled' } };

  it.each([{ state: { ...inPhase1, lastLookMs: 0 } }, { state: released }, { state: cancelled, hasStops: true }])(
    'neither treats it as a cancel nor stops or starts anything: $state.shutdown.kind',
    async (given) => {
      const { resume, undone, resumed, forgotten } = glued({ ...given, cameBack: known(true) });
      expect(await resume()).toEqual([{ kind: 'came-back' }]);
      expect([undone(), resumed, forgotten]).toEqual([0, [], [true]]);
    },
  );

  it('relies on logind and systemd if the age of the user space is unknown', async () => {
    expect(await glued({ state: released, cameBack: no }).resume()).toEqual([
      { kind: 'cancelled', machineStays: true },
    ]);
  });
});

describe('an agent that starts after a cancel', () => {
  it('undoes what the earlier run left, even while stops are in progress', async () => {
    const cancelled: State = { ...inPhase1, shutdown: { kind: 'unarmed', why: 'cancelled' } };
    const { resume, undone, resumed } = glued({ state: cancelled, hasStops: true });
    expect(await resume()).toEqual([]);
    expect([undone(), resumed]).toEqual([1, [web.uid]]);
  });
});

describe('an agent that is asked to stop', () => {
  const stopping: State['shutdown'] = { kind: 'stopping', ...(inPhase1.shutdown as Stopping) };

  it('ends at once while the machine stays up', async () => {
    expect(await glued({}).going.stopAsked()).toBe(true);
  });

  it('runs the phases first while the machine goes down', async () => {
    const { going, look } = glued({ leftMs: 60_000 });
    expect(await going.stopAsked()).toBe(false);
    // A look that was under way has not heard of it.
    look({ kind: 'armed', delayMaxMs: 1 });
    expect(going.isOver()).toBe(false);
    look(stopping, [STOPPED]);
    expect(going.isOver()).toBe(false);
    look({ kind: 'released', atMs: 0 });
    expect(going.isOver()).toBe(true);
  });

  it('continues the phases unchanged if it is restarted during them, and systemd waits for it', async () => {
    const { going, look, pass, extended } = glued({ state: inPhase1, leftMs: 9_000, isPreparing: true });
    expect(await going.stopAsked()).toBe(false);
    // Nothing shortens them.
    expect(await pass(20_000)).toEqual([]);
    expect(extended.length).toBeGreaterThanOrEqual(4);
    look(stopping);
    expect(going.isOver()).toBe(false);
    look({ kind: 'released', atMs: 0 });
    expect([going.isOver(), going.machine()]).toEqual([true, 'goes-down']);
    const asked = extended.length;
    await pass(20_000);
    expect(extended.length).toBe(asked);
  });

  it.each([false, true])(
    'shortens the phases to what systemd leaves if that is already stopping everything, lost by a reload: %s',
    async (isOff) => {
      const state = { leftMs: 9_000, isPreparing: true, isMachineStopping: true, machine: known(true) };
      const { going, pass } = glued({ ...state, state: inPhase1, isOff });
      expect(await going.stopAsked()).toBe(false);
      expect(await pass(1_000)).toEqual([{ ...STOPPED, leftMs: 9_000 }]);
    },
  );

  it('ends at once without phases, if none has begun', async () => {
    expect(await glued({ leftMs: 60_000, isOff: true }).going.stopAsked()).toBe(true);
  });

  it('notices that a stop is cancelled, and has itself started again', async () => {
    const { going, pass, back } = glued({ leftMs: 60_000, machine: known(false) });
    await going.stopAsked();
    expect(await pass(2_000)).toEqual([STOPPED, { kind: 'cancelled', machineStays: true }]);
    expect([back(), going.machine()]).toEqual([1, 'stays']);
  });

  it.each([known(true), no])(
    'does not end its phases while the machine goes down or nothing is known: %j',
    async (machine) => {
      const { going, pass, back } = glued({ leftMs: 60_000, machine });
      await going.stopAsked();
      expect(await pass(10_000)).toEqual([STOPPED]);
      expect(back()).toBe(0);
    },
  );

  it('leaves no timer behind, even if it ends during the query about the machine', async () => {
    const { going, pass, asked } = glued({ leftMs: 60_000, machine: known(true), closesWhenAsked: true });
    await going.stopAsked();
    await pass(10_000);
    expect(asked()).toBe(1);
  });

  it('ends when the shutdown is cancelled', async () => {
    const { going, look } = glued({ leftMs: 60_000 });
    await going.stopAsked();
    look(stopping, [STOPPED]);
    look({ kind: 'unarmed', why: 'cancelled' });
    expect(going.isOver()).toBe(true);
  });
});

describe('the lock', () => {
  const unarmed = { kind: 'unarmed', why: 'not started' } as const;

  it('is taken for the sum of all phases', () => {
    const { look, wanted } = glued({});
    look(unarmed);
    expect(wanted).toEqual([35_000]);
  });

  it('is not touched by a dry run, unless this agent holds it', () => {
    const { look, wanted, hold } = glued({ dryRun: true });
    look(unarmed);
    expect(wanted).toEqual([]);
    hold({ kind: 'armed', neededMs: 1, grantedMs: 1, provenMs: 0 });
    look(unarmed);
    expect(wanted).toEqual([null]);
  });

  it('is neither taken again nor a finding while the machine goes down, but logind is watched from the start', () => {
    const { look, wanted, raised, hold } = glued({});
    look(inPhase1.shutdown);
    expect(wanted.splice(0)).toEqual([35_000]);
    hold({ kind: 'not-armed', neededMs: 1, grantedMs: 0, isHeld: true, why: 'the machine goes down' });
    look(inPhase1.shutdown);
    expect([wanted, [...raised]]).toEqual([[], []]);
  });

  it('is a finding while it is not armed', () => {
    const { hold, raised } = glued({});
    hold({ kind: 'not-armed', neededMs: 1, grantedMs: 0, isHeld: false, why: 'logind is busy' });
    expect([...raised]).toEqual([['shutdown-not-armed', 'the shutdown is not armed: logind is busy']]);
    hold({ kind: 'not-armed', neededMs: 1, grantedMs: null, isHeld: false, why: 'it is asked', isPending: true });
    expect(raised.size).toBe(0);
    hold({ kind: 'armed', neededMs: 1, grantedMs: 1, provenMs: 0 });
    expect(raised.size).toBe(0);
  });

  it('is a finding again after a cancelled shutdown, and the status line says so', () => {
    const { hold, look, raised, statusLines } = glued({});
    hold({ kind: 'not-armed', neededMs: 35_000, grantedMs: 5_000, isHeld: true, why: 'logind grants 5s' });
    look(inPhase1.shutdown);
    // logind proves it meanwhile.
    hold({ kind: 'not-armed', neededMs: 35_000, grantedMs: 5_000, isHeld: true, why: 'logind grants 5s' });
    statusLines.splice(0);
    expect(raised.size).toBe(0);
    look(unarmed);
    expect([...raised.keys()]).toEqual(['shutdown-not-armed']);
    expect(statusLines).toEqual([expect.stringContaining('logind grants 5s')]);
  });
});
