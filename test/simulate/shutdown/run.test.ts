import { describe, expect, it } from 'vitest';
import { compareShutdown } from '../../../src/simulate/shutdown/expect.ts';
import { aShutdown, byPriority, phasesOf, run } from '../a-shutdown.ts';

const CRITICAL = 2_000_000_000;
const PODS = {
  web: { does: { stopAfter: '6.5s' } },
  dns: { priority: CRITICAL, does: { stopAfter: '6.5s' } },
};
const cancelled = (cancelAt: string, cancelPolicy: 'promptly' | 'afterPhases' = 'promptly', pods: object = PODS) =>
  run({ ...aShutdown({ pods: { ...PODS, ...pods } }), cancelAt, cancelPolicy });

describe('a phase of 0 s', () => {
  it('leaves out pods that stop at its only instant, and names volumes that are still mounted', () => {
    const config = byPriority([[0, 0]]);
    const phases = (does: { readonly [key: string]: number }) =>
      run(aShutdown({ config, pods: { web: { does } } })).result.phases;
    const over = { priority: 0, periodSeconds: 0, start: 0, end: 0, endedBy: 'period' };
    expect(phases({ stopAfter: 0 })).toEqual([over]);
    expect(phases({ stopAfter: 1 })).toEqual([{ ...over, stillRunning: ['default/web'] }]);
    expect(phases({ stopAfter: 0, unmountAfter: 1 })).toEqual([{ ...over, volumesPending: ['default/web'] }]);
  });
});

describe('a cancel that is honoured promptly (D10)', () => {
  it('ends the phase: no other begins, the lock is kept, stops in progress continue', () => {
    const { result, reasons } = cancelled('2s');
    expect(phasesOf(result)).toEqual(['0 0-2000 cancelled, running web']);
    expect(result).toMatchObject({
      lockReleasedAt: null,
      lockRetakenAt: null,
      shutdownProceedsAt: null,
      refusesPods: { from: 0, until: 2_000 },
    });
    expect(result.pods?.['default/web']).toMatchObject({ stoppedAt: 6_500 });
    expect(result.pods?.['default/dns']).toBeNull();
    expect(reasons.at(-1)).toMatchObject({ code: 'cancelled', at: 2_000, stopped: 1 });
  });

  it('at the instant at which a phase ends begins no other', () => {
    const { result } = cancelled('6.5s');
    expect(phasesOf(result)).toEqual(['0 0-6500 done']);
    expect(result.lockReleasedAt).toBeNull();
  });

  it('at the instant of the signal stops nothing', () => {
    const { result } = cancelled('0s');
    expect(result).toMatchObject({ phases: [], refusesPods: { from: 0, until: 0 } });
    expect(result.pods).toEqual({ 'default/web': null, 'default/dns': null });
  });

  it('after the release takes the lock again', () => {
    const { result } = cancelled('20s');
    expect(result).toMatchObject({
      lockReleasedAt: 13_000,
      lockRetakenAt: 20_000,
      shutdownProceedsAt: null,
      refusesPods: { from: 0, until: 20_000 },
    });
  });
});

describe('a cancel as in the kubelet', () => {
  it.each(['0s', '6.5s', '13s'])('at %s changes no phase', (cancelAt) => {
    const { result } = cancelled(cancelAt, 'afterPhases');
    expect(phasesOf(result)).toEqual(['0 0-6500 done', '2000000000 6500-13000 done']);
    expect(result).toMatchObject({ lockReleasedAt: 13_000, lockRetakenAt: 13_000, refusesPods: { until: 13_000 } });
  });

  it('after the release is handled when it arrives', () => {
    const { result } = cancelled('20s', 'afterPhases');
    expect(result).toMatchObject({ lockReleasedAt: 13_000, lockRetakenAt: 20_000, refusesPods: { until: 20_000 } });
  });
});

describe('at one instant', () => {
  it('a pod that stops exactly at the deadline has stopped', () => {
    const { result } = run(aShutdown({ pods: { web: { does: { stopAfter: '20s' } } } }));
    expect(phasesOf(result)).toEqual(['0 0-20000 done']);
  });

  it('volumes that are unmounted exactly at the deadline are', () => {
    const config = byPriority([[0, 3]]);
    const { result } = run(
      aShutdown({ config, pods: { web: { does: { stopAfter: '2.7s', unmountAfter: '300ms' } } } }),
    );
    expect(phasesOf(result)).toEqual(['0 0-3000 done']);
  });

  it('volumes that are unmounted between the last look and the deadline are no longer pending, but cost the whole phase', () => {
    const config = byPriority([[0, 3]]);
    const { result } = run(
      aShutdown({ config, pods: { web: { does: { stopAfter: '2.8s', unmountAfter: '100ms' } } } }),
    );
    expect(phasesOf(result)).toEqual(['0 0-3000 period']);
  });

  it('a static pod and its mirror share a name: the stopped one is shown', () => {
    const document = aShutdown({ pods: { etcd: { metadata: { uid: 'static' }, does: { stopAfter: '1s' } } } });
    const [etcd] = document['pods'] as readonly { metadata: object }[];
    const annotations = { 'kubernetes.io/config.mirror': 'c0ffee' };
    const mirror = { ...etcd, metadata: { name: 'etcd', uid: 'mirror', annotations } };
    for (const pods of [
      [etcd, mirror],
      [mirror, etcd],
    ]) {
      const { result } = run({ ...document, pods });
      expect(result.pods?.['default/etcd']).toMatchObject({ stoppedAt: 1_000 });
      expect(result.groups?.[0]?.pods).toEqual(['default/etcd']);
    }
  });
});

describe('an expectation', () => {
  const { result } = run(aShutdown({ pods: PODS }));
  const paths = (expectation: { readonly [key: string]: unknown }) =>
    compareShutdown(expectation, result).map(({ path }) => path);

  it('is not checked if it is absent, and accepts durations and milliseconds', () => {
    expect(paths({})).toEqual([]);
    expect(paths({ inhibitDelay: '30s', phases: [{ end: '6.5s' }, { end: 13_000 }] })).toEqual([]);
    expect(paths({ groups: [{ periodSeconds: '20s' }, { periodSeconds: 10 }] })).toEqual([]);
  });

  it('is null for what must be absent or null', () => {
    expect(paths({ lockRetakenAt: null, refusesPods: { until: null }, configErrors: null })).toEqual([]);
    expect(paths({ lockReleasedAt: null, pods: { 'default/web': null } })).toEqual([
      'expect.lockReleasedAt',
      'expect.pods["default/web"]',
    ]);
  });

  it('names the path of every difference, with both values', () => {
    expect(compareShutdown({ phases: [{ end: '7s' }, { endedBy: 'done' }] }, result)).toEqual([
      { path: 'expect.phases[0].end', expected: 7_000, actual: 6_500 },
    ]);
    expect(paths({ phases: [{}] })).toEqual(['expect.phases[1]']);
    expect(paths({ phases: [{}, {}, {}] })).toEqual(['expect.phases[2]']);
    expect(paths({ pods: { 'default/wbe': { group: 0 } } })).toEqual(['expect.pods["default/wbe"]']);
    expect(paths({ pods: { 'default/web': { killedAt: '1s', status: { reason: 'Evicted' } } } })).toEqual([
      'expect.pods["default/web"].killedAt',
      'expect.pods["default/web"].status.reason',
    ]);
  });

  it('is a set where order does not matter, and an absent set of a phase is empty', () => {
    const both = run(aShutdown({ pods: { a: { does: { never: true } }, b: { does: { never: true } } } })).result;
    const running = { stillRunning: ['default/b', 'default/a'] };
    expect(compareShutdown({ phases: [running], groups: [{ pods: ['default/b', 'default/a'] }, {}] }, both)).toEqual(
      [],
    );
    expect(compareShutdown({ phases: [{}] }, both)).toEqual([
      { path: 'expect.phases[0].stillRunning', expected: [], actual: ['default/a', 'default/b'] },
    ]);
  });

  it('for a shutdown that does not happen has empty lists and no values', () => {
    const off = run(aShutdown({ config: {} })).result;
    expect(compareShutdown({ enabled: false, phases: [], armed: null, configErrors: [] }, off)).toEqual([]);
    expect(compareShutdown({ armed: true }, off)).toEqual([{ path: 'expect.armed', expected: true, actual: null }]);
  });
});
