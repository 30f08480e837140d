import { describe, expect, it } from 'vitest';
import { known } from '../../src/core/reading.ts';
import type { State, Stopping } from '../../src/core/state/state.ts';
import { initialState } from '../../src/core/state/state.ts';
import { web } from '../core/shutdown/a-shutdown.ts';
import { glued, inPhase1, no, STOPPED } from './a-going-down.ts';

describe('an agent that starts in the middle of a shutdown', () => {
  it('continues it while the machine goes down, and records how the lock ended', async () => {
    const { resume, facts, resumed, wentOn } = glued({ state: inPhase1, machine: known(true) });
    expect(await resume()).toEqual([]);
    expect(wentOn()).toBe(1);
    expect(facts).toMatchObject([{ what: 'lock-lost' }, { what: 'resumed', phase: 1 }]);
    expect(resumed).toEqual([web.uid]);
  });

  it.each([
    ['logind and systemd say that the machine stays up', known(false)],
    ['nothing can be learned', no],
  ])('treats it as cancelled if %s, and resumes no stop before that was heard', async (_, machine) => {
    const { resume, facts, resumed, look, wentOn } = glued({ state: inPhase1, machine });
    expect(await resume()).toEqual([{ kind: 'cancelled', machineStays: true }]);
    expect([facts, resumed, wentOn()]).toEqual([[], [], 0]);
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
  it('takes no new configuration until what was stopped is started again, which a dry run would not do', async () => {
    const { going, look, pass } = glued({ undoneMs: 30_000 });
    look({ kind: 'unarmed', why: 'cancelled' });
    expect(going.isBusy()).toBe(true);
    await pass(31_000);
    expect(going.isBusy()).toBe(false);
  });

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
  });

  it('waits after its phases until systemd stops everything: the shutdown may still be refused', async () => {
    const given = { state: inPhase1, leftMs: 9_000, isPreparing: true, goesDownMs: 25_000 };
    const { going, look, pass, extended } = glued(given);
    look(stopping);
    expect(await going.stopAsked()).toBe(false);
    look({ kind: 'released', atMs: 0 });
    await pass(24_000);
    expect(going.isOver()).toBe(false);
    await pass(2_000);
    expect([going.isOver(), going.machine()]).toEqual([true, 'goes-down']);
    const asked = extended.length;
    await pass(20_000);
    expect(extended.length).toBe(asked);
  });

  it('stays until what a cancelled shutdown had stopped is started again: no other run may follow', async () => {
    const { going, look, pass } = glued({ state: inPhase1, leftMs: 9_000, isPreparing: true, undoneMs: 30_000 });
    expect(await going.stopAsked()).toBe(false);
    look({ kind: 'released', atMs: 0 });
    await pass(5_000);
    look({ kind: 'unarmed', why: 'cancelled' });
    await pass(20_000);
    expect(going.isOver()).toBe(false);
    await pass(10_000);
    expect([going.isOver(), going.machine()]).toEqual([true, 'stays']);
  });

  it.each([
    ['after a look has heard of it', { kind: 'unarmed', why: 'cancelled' }],
    ['before that', { kind: 'released', atMs: 0 }],
  ] as const)('stays as long if the stop comes after the cancel, %s', async (_, atStop) => {
    const { going, look, pass } = glued({ state: inPhase1, undoneMs: 30_000 });
    look(stopping);
    look(atStop);
    expect(await going.stopAsked()).toBe(false);
    await pass(1_000);
    look({ kind: 'unarmed', why: 'cancelled' });
    await pass(28_000);
    expect(going.isOver()).toBe(false);
    await pass(2_000);
    expect([going.isOver(), going.machine()]).toEqual([true, 'stays']);
  });

  it.each([
    [0, 'it is restarted: the next run goes on with it', { isRestart: true }],
    [11_000, 'systemd does not answer', { isMachineStopping: null }],
  ])('waits %s ms until what a cancelled shutdown had stopped is started again if %s', async (ms, _, given) => {
    const { going, look, pass } = glued({ state: inPhase1, undoneMs: 60_000, ...given });
    look({ kind: 'unarmed', why: 'cancelled' });
    expect(await going.stopAsked()).toBe(false);
    await pass(Math.max(0, ms - 2_000));
    expect(going.isOver()).toBe(false);
    await pass(3_000);
    expect([going.isOver(), going.machine()]).toEqual([true, 'stays']);
  });

  it.each([
    ['would be a dry run', { dryRun: true }],
    ['would be a dry run by its configuration, which is not in force yet', { atStart: { dryRun: true } }],
    ['would run in another mode', { atStart: { mode: 'kubelet' } }],
    ['would look for what was stopped in another directory', { atStart: { runtimeDirectory: '/run/other' } }],
    ['would not start', { atStart: null }],
  ] as const)('stays until that, also if it is restarted, if the next run %s', async (_, given) => {
    const { going, look, pass } = glued({ state: inPhase1, undoneMs: 60_000, isRestart: true, ...given });
    look({ kind: 'unarmed', why: 'cancelled' });
    expect(await going.stopAsked()).toBe(false);
    await pass(59_000);
    expect(going.isOver()).toBe(false);
    await pass(2_000);
    expect(going.isOver()).toBe(true);
  });

  it('ends with its phases if it is restarted: what delays the shutdown may wait for that, and the next run goes on', async () => {
    const { going, look, pass } = glued({ state: inPhase1, leftMs: 9_000, isPreparing: true, isRestart: true });
    look(stopping);
    expect(await going.stopAsked()).toBe(false);
    await pass(3_000);
    expect(going.isOver()).toBe(false);
    look({ kind: 'released', atMs: 0 });
    await pass(1_000);
    expect([going.isOver(), going.machine()]).toEqual([true, 'goes-down']);
  });

  it('hears before its end that the shutdown of the earlier run was cancelled, if it has just started', async () => {
    const state: State = { ...initialState('boot'), shutdown: { kind: 'released', atMs: 0 } };
    const { going, resume, look, pass } = glued({ state, startMs: 3_600_000, undoneMs: 3_630_000 });
    expect(await going.stopAsked()).toBe(false);
    expect(await resume()).toEqual([{ kind: 'cancelled', machineStays: true }]);
    await pass(1_000);
    look({ kind: 'unarmed', why: 'cancelled' });
    await pass(20_000);
    expect(going.isOver()).toBe(false);
    await pass(10_000);
    expect(going.isOver()).toBe(true);
  });

  it.each([
    ['systemd does not say whether it stops everything', null, 12_000],
    ['logind goes on with nothing although its delay is over', false, 612_000],
  ])('does not wait for ever if %s', async (_, isMachineStopping, withinMs) => {
    const { going, look, pass } = glued({ state: inPhase1, leftMs: 9_000, isPreparing: true, isMachineStopping });
    look(stopping);
    expect(await going.stopAsked()).toBe(false);
    look({ kind: 'released', atMs: 0 });
    await pass(withinMs - 3_000);
    expect(going.isOver()).toBe(false);
    await pass(3_000);
    expect(going.isOver()).toBe(true);
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

  it.each([
    ['as configured', {}, false],
    ['a dry run was switched on since', { dryRun: true, isChanged: true }, false],
    ['its phases were taken out of the configuration since', { isOff: true }, false],
    ['unless it was a dry run from the start', { dryRun: true }, true],
  ])('leaves the pods that its phases leave beside a kubelet to its own stop: %s', async (_, now, isAtOnce) => {
    const { phases } = inPhase1.shutdown as Stopping;
    const state: State = { ...initialState('boot'), shutdown: { kind: 'released', atMs: 0, phases } };
    const given = { state, isKubelet: true, leftMs: 60_000, isPreparing: true, isMachineStopping: true } as const;
    const { going, pass } = glued({ ...given, machine: known(true), ...now });
    expect(going.context(null).secondTier).toBe(!isAtOnce);
    expect(await going.stopAsked()).toBe(isAtOnce);
    expect(await pass(1_000)).toEqual(isAtOnce ? [] : [STOPPED]);
  });

  it.each([
    ['a look has heard that it is over', known(true), known(false)],
    ['the system came back from it', known(false), known(true)],
  ])('asks the configuration in force as soon as %s', async (_, machine, cameBack) => {
    const state: State = { ...initialState('boot'), shutdown: { kind: 'released', atMs: 0 }, lastLookMs: 0 };
    const { going, look, resume } = glued({ state, machine, cameBack, dryRun: true, isChanged: true });
    expect(going.context(null).secondTier).toBe(true);
    await resume();
    look({ kind: 'armed', delayMaxMs: 1 });
    expect(going.context(null).secondTier).toBe(false);
  });

  it('ends at once without phases, if none has begun', async () => {
    expect(await glued({ leftMs: 60_000, isOff: true }).going.stopAsked()).toBe(true);
  });

  it('notices that a stop is cancelled, and has itself started again', async () => {
    const { going, pass, back } = glued({ leftMs: 60_000, machine: known(false) });
    await going.stopAsked();
    expect(await pass(2_000)).toEqual([STOPPED, { kind: 'cancelled', machineStays: true }]);
    expect([back, going.machine()]).toEqual([['now'], 'stays']);
    going.close();
    await going.leave();
    expect(back).toEqual(['now', 'later']);
  });

  it('is started again if the cancel comes right before its end', async () => {
    const { going, back } = glued({ leftMs: 60_000, machine: known(false) });
    await going.stopAsked();
    going.close();
    await going.leave();
    expect(back).toEqual(['now', 'later']);
  });

  it('is not started again if the machine goes down once more after the cancel', async () => {
    const { going, pass, back } = glued({ leftMs: 60_000, machine: known(false), goesDownMs: 1_000 });
    await going.stopAsked();
    await pass(2_000);
    going.close();
    await going.leave();
    expect(back).toEqual(['now']);
  });

  it('is not started again after a stop while the machine stays up', async () => {
    const { going, back } = glued({ machine: known(false) });
    expect(await going.stopAsked()).toBe(true);
    going.close();
    await going.leave();
    expect(back).toEqual([]);
  });

  it.each([known(true), no])(
    'does not end its phases while the machine goes down or nothing is known: %j',
    async (machine) => {
      const { going, pass, back } = glued({ leftMs: 60_000, machine });
      await going.stopAsked();
      expect(await pass(10_000)).toEqual([STOPPED]);
      expect(back).toEqual([]);
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

  it.each([
    ['goes on', true],
    ['was cancelled, as the agent has found out', false],
  ])('is taken at once by a restarted agent unless the shutdown %s', async (_, isUnderWay) => {
    const { resume, look, underWay } = glued({ state: inPhase1, machine: known(isUnderWay) });
    await resume();
    look(isUnderWay ? inPhase1.shutdown : unarmed);
    expect(underWay).toEqual([isUnderWay]);
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
