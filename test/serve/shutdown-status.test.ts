import { describe, expect, it } from 'vitest';
import { known } from '../../src/core/reading.ts';
import { initialState, type State } from '../../src/core/state/state.ts';
import type { InhibitorStatus } from '../../src/ports.ts';
import { createPodNames } from '../../src/serve/pod-names.ts';
import type { ShutdownContext } from '../../src/serve/shutdown-status.ts';
import { statusReport } from '../../src/serve/status.ts';
import { aConfig, anObservation, aPod } from '../a.ts';
import { aContext, aVerdict, NO_SHUTDOWN } from './a-report.ts';

const phases = [
  { fromPriority: 0, periodSeconds: 20 },
  { fromPriority: 1_000, periodSeconds: 60 },
  { fromPriority: 2_000_000_000, periodSeconds: 10 },
];
const pods = [
  aPod({ name: 'web', namespace: 'shop' }),
  aPod({ name: 'job', namespace: 'shop', priority: -5 }),
  aPod({ name: 'dns', priority: 2_000_000_000 }),
];
const ARMED: InhibitorStatus = {
  ...NO_SHUTDOWN.inhibitor,
  lock: { kind: 'armed', neededMs: 90_000, grantedMs: 95_000, provenMs: 4_000 },
};
const AT_WALL_MS = 1_700_000_600_000;
const poweroff = { type: 'poweroff', atWallMs: AT_WALL_MS };
const STOPPING: State['shutdown'] = {
  kind: 'stopping',
  startedMs: 9_000,
  phases,
  delayMaxMs: 95_000,
  tier: 'logind',
  mustEndMs: null,
  again: {},
  cancelledMs: null,
  phase: 1,
  phaseStartedMs: 9_000,
  phaseEndsMs: 29_000,
  pending: ['uid-web', 'uid-gone'],
  group: ['uid-web', 'uid-job', 'uid-gone'],
  wait: { kind: 'stops' },
};

function shutdownOf(given: Partial<ShutdownContext>, rest: Partial<State> = {}, observed = {}, names = {}) {
  const observation = anObservation(10_000, {}, { pods: known(pods), ...observed });
  const context = aContext({ shutdown: { ...NO_SHUTDOWN, nowMs: 10_000, ...given }, ...names });
  const verdict = aVerdict({ ...initialState('boot'), ...rest });
  return statusReport({ observation, verdict, config: aConfig([], { phases }), context }).shutdown;
}

describe('the shutdown in the status', () => {
  it('says how long ago the lock was proven', () => {
    expect(shutdownOf({ inhibitor: ARMED }).lock).toEqual({
      kind: 'armed',
      neededMs: 90_000,
      grantedMs: 95_000,
      provenAgoMs: 6_000,
    });
  });

  it('says why it is not armed', () => {
    const lock = { kind: 'not-armed', neededMs: 90_000, grantedMs: null, isHeld: false, why: 'no logind' } as const;
    expect(shutdownOf({ inhibitor: { ...ARMED, lock } }).lock).toEqual(lock);
    expect(shutdownOf({}).lock).toEqual({ kind: 'off' });
  });

  it('counts the pods of each phase, and does not treat unknown pods as none', () => {
    const counts = (observed = {}) => shutdownOf({}, {}, observed).phases.map((row) => [row.phase, row.pods]);
    expect(counts()).toEqual([
      [1, 2],
      [2, 0],
      [3, 1],
    ]);
    const notAsked = anObservation(0, {}).pods;
    expect(counts({ pods: notAsked })).toEqual([
      [1, null],
      [2, null],
      [3, null],
    ]);
    expect(shutdownOf({}).phases[1]).toEqual({ phase: 2, fromPriority: 1_000, periodSeconds: 60, pods: 0 });
  });

  it('counts a pod without a process that its phase stops', () => {
    const { usage: _, ...job } = aPod({ name: 'drain', priority: 1_000 });
    const counts = (observed = {}) => shutdownOf({ idle: [job] }, {}, observed).phases.map((row) => row.pods);
    expect(counts()).toEqual([2, 1, 1]);
    // In the look of a phase it is a pod like any other.
    expect(counts({ pods: known([aPod({ name: 'drain', priority: 1_000 })]) })).toEqual([0, 1, 0]);
  });

  /** Seconds after the time that is scheduled. */
  function clocks(inhibitor: Partial<InhibitorStatus>, observed = {}) {
    const { scheduled } = shutdownOf({ inhibitor: { ...ARMED, scheduled: poweroff, ...inhibitor } }, {}, observed);
    const seconds = (wallMs: number): number => (wallMs - AT_WALL_MS) / 1_000;
    return scheduled?.phases.map((row) => [row.phase, seconds(row.startsWallMs), seconds(row.endsWallMs)]);
  }

  it('gives the clock time of each phase that has pods if a shutdown is scheduled', () => {
    expect(shutdownOf({ inhibitor: ARMED }).scheduled).toBeNull();
    expect(shutdownOf({ inhibitor: { ...ARMED, scheduled: poweroff } }).scheduled).toMatchObject(poweroff);
    expect(clocks({})).toEqual([
      [1, 0, 20],
      [3, 20, 30],
    ]);
  });

  it('counts every phase while the pods are unknown', () => {
    expect(clocks({}, { pods: anObservation(0, {}).pods })).toEqual([
      [1, 0, 20],
      [2, 20, 80],
      [3, 80, 90],
    ]);
  });

  it('shrinks the clock times to what logind grants', () => {
    const lock = { kind: 'not-armed', neededMs: 90_000, grantedMs: 17_000, isHeld: true, why: '' } as const;
    expect(clocks({ lock })).toEqual([
      [1, 0, 10],
      [3, 10, 15],
    ]);
    const enough = { ...lock, grantedMs: 60_000 };
    expect(clocks({ lock: enough })).toEqual(clocks({}));
  });

  it('shows the running phase, its remaining time, and the pods for which it waits', () => {
    expect(shutdownOf({ inhibitor: ARMED }).running).toBeNull();
    const inhibitor = { ...ARMED, isPreparing: true, type: 'reboot' };
    expect(shutdownOf({ inhibitor }, { shutdown: STOPPING }).running).toEqual({
      tier: 'logind',
      type: 'reboot',
      phase: 1,
      phaseLeftMs: 19_000,
      podsLeft: ['shop/web', 'uid-gone'],
      cancelled: false,
      cancelIgnored: false,
    });
    const named = anObservation(0, {}, { pods: known([aPod({ name: 'gone', namespace: 'shop' })]) });
    const names = createPodNames();
    names.learn(named);
    expect(shutdownOf({ inhibitor }, { shutdown: STOPPING }, {}, names).running?.podsLeft).toEqual([
      'shop/web',
      'shop/gone',
    ]);
    const late = { ...STOPPING, tier: 'stop', cancelledMs: 9_500, phaseEndsMs: 9_900 } as const;
    expect(shutdownOf({}, { shutdown: late }).running).toMatchObject({
      tier: 'stop',
      type: null,
      phaseLeftMs: 0,
      cancelled: true,
      cancelIgnored: false,
    });
  });

  it('counts to the time of the query, even long after the last look', () => {
    const asked = shutdownOf({ inhibitor: ARMED, nowMs: 12_500 }, { shutdown: STOPPING });
    expect(asked.running?.phaseLeftMs).toBe(16_500);
    expect(asked.lock).toMatchObject({ provenAgoMs: 8_500 });
  });

  it('is plain JSON that distinguishes an unlimited time from an unknown one', () => {
    const timeout = (stopTimeoutMs: number | null) =>
      JSON.parse(JSON.stringify(shutdownOf({ stopTimeoutMs }))).stopTimeoutMs;
    expect([timeout(90_000), timeout(Number.POSITIVE_INFINITY), timeout(null)]).toEqual([90_000, 'infinity', null]);
    const told = { last: 'rebooted in order', secondTier: true };
    expect(shutdownOf(told)).toMatchObject(told);
  });
});
