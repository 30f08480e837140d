import { describe, expect, it } from 'vitest';
import type { PodResult } from '../../src/simulate/shutdown/result.ts';
import { type AShutdown, aShutdown, byPriority, phasesOf, run } from './a-shutdown.ts';

const CRITICAL = 2_000_000_000;
const NODE_CRITICAL = 2_000_001_000;
const ends = (seconds: number, more = {}) => ({ stopAfter: seconds * 1_000, ...more });
const NEVER = { never: true };

type Example = AShutdown & {
  readonly no: string;
  readonly phases: readonly string[];
  readonly released: number;
  /** What is said of single pods. */
  readonly told?: { readonly [name: string]: Partial<PodResult> | null };
};

const EXAMPLES: readonly Example[] = [
  {
    no: 'E1',
    pods: { web: { priority: 0, does: ends(2.5) }, dns: { priority: CRITICAL, does: ends(2.5) } },
    phases: ['0 0-2500 done', '2000000000 2500-5000 done'],
    released: 5_000,
    told: { web: { gracePeriodSeconds: 20 }, dns: { gracePeriodSeconds: 10 } },
  },
  {
    no: 'E2',
    pods: {
      web: { priority: 0, does: ends(2.5) },
      dns: { priority: CRITICAL, does: ends(2.5) },
      slow: { priority: 0, grace: 60, does: ends(45) },
    },
    phases: ['0 0-20000 period, running slow', '2000000000 20000-22500 done'],
    released: 22_500,
    told: { slow: { killedAt: 20_000, stoppedAt: 20_100 } },
  },
  {
    no: 'E3',
    pods: { web: { priority: 0, grace: 5, does: NEVER }, dns: { priority: CRITICAL, does: ends(2.5) } },
    phases: ['0 0-5100 done', '2000000000 5100-7600 done'],
    released: 7_600,
    told: { web: { gracePeriodSeconds: 5, killedAt: 5_000, stoppedAt: 5_100 } },
  },
  {
    no: 'E4',
    pods: { dns: { priority: CRITICAL, does: ends(1.5) }, net: { priority: NODE_CRITICAL, does: ends(12.5) } },
    phases: ['2000000000 0-10000 period, running net'],
    released: 10_000,
    told: { net: { killedAt: 10_000, stoppedAt: 10_100 } },
  },
  {
    no: 'E5',
    config: byPriority([
      [0, 60],
      [1_000, 120],
      [10_000, 180],
      [100_000, 10],
    ]),
    pods: {
      a: { priority: 99_999, does: ends(1.5) },
      b: { priority: 100_000, does: ends(1.5) },
      c: { priority: -5, does: ends(1.5) },
      d: { priority: NODE_CRITICAL, does: ends(1.5) },
      e: { does: ends(1.5) },
      f: { priority: 1_000, does: ends(1.5) },
      g: { priority: 999, does: ends(1.5) },
    },
    phases: ['0 0-1500 done', '1000 1500-3000 done', '10000 3000-4500 done', '100000 4500-6000 done'],
    released: 6_000,
    told: {
      a: { group: 10_000, gracePeriodSeconds: 30 },
      b: { group: 100_000, gracePeriodSeconds: 10 },
      c: { group: 0, gracePeriodSeconds: 30 },
      d: { group: 100_000, gracePeriodSeconds: 10 },
      e: { group: 0 },
      f: { group: 1_000 },
      g: { group: 0 },
    },
  },
  {
    no: 'E6',
    config: byPriority([
      [1_000, 20],
      [5_000, 10],
    ]),
    pods: {
      low: { priority: 0, does: ends(3.5) },
      mid: { priority: 4_999, does: ends(3.5) },
      hi: { priority: 5_000, does: ends(3.5) },
    },
    phases: ['1000 0-3500 done', '5000 3500-7000 done'],
    released: 7_000,
    told: { low: { group: 1_000 }, mid: { group: 1_000 }, hi: { group: 5_000 } },
  },
  {
    no: 'E7',
    config: { shutdownGracePeriod: '30.9s', shutdownGracePeriodCriticalPods: '10.5s' },
    pods: { web: { priority: 0, grace: 60, does: NEVER }, dns: { priority: CRITICAL, grace: 60, does: NEVER } },
    phases: ['0 0-20000 period, running web', '2000000000 20000-30000 period, running dns'],
    released: 30_000,
    told: { web: { killedAt: 20_000 }, dns: { killedAt: 30_000 } },
  },
  {
    no: 'E8',
    config: { shutdownGracePeriod: '20s', shutdownGracePeriodCriticalPods: '20s' },
    pods: { web: { priority: 0, does: ends(4.5) }, dns: { priority: CRITICAL, does: ends(4.5) } },
    phases: ['0 0-0 period, running web', '2000000000 0-4500 done'],
    released: 4_500,
    told: { web: { gracePeriodSeconds: 0, effectiveGracePeriodSeconds: 1, killedAt: 2_000 } },
  },
  {
    no: 'E9',
    config: { shutdownGracePeriod: '20s' },
    pods: { web: { priority: 0, does: ends(4.5) }, dns: { priority: CRITICAL, does: ends(4.5) } },
    phases: ['0 0-4500 done', '2000000000 4500-4500 period, running dns'],
    released: 4_500,
    told: { dns: { gracePeriodSeconds: 0, killedAt: 6_500 } },
  },
  {
    no: 'E10',
    pods: { zero: { priority: 0, grace: 0, does: NEVER }, one: { priority: 0, grace: 1, does: NEVER } },
    phases: ['0 0-2100 done'],
    released: 2_100,
    told: { zero: { killedAt: 2_000, stoppedAt: 2_100 }, one: { killedAt: 2_000, stoppedAt: 2_100 } },
  },
  {
    no: 'E11',
    pods: {
      web: { priority: 0, does: ends(2.5) },
      del: {
        priority: 0,
        grace: 60,
        metadata: { deletionGracePeriodSeconds: 60 },
        does: { ...NEVER, terminatingFor: '10.5s' },
      },
    },
    phases: ['0 0-20000 period, running del'],
    released: 20_000,
    told: {
      del: { gracePeriodSeconds: 20, effectiveGracePeriodSeconds: 60, start: -10_500, killedAt: 49_500, status: null },
    },
  },
  {
    no: 'E12',
    pods: {
      del: {
        priority: 0,
        grace: 2,
        metadata: { deletionGracePeriodSeconds: 60 },
        does: { ...NEVER, terminatingFor: '10.5s' },
      },
      dns: { priority: CRITICAL, does: ends(2.5) },
    },
    phases: ['0 0-10000 done, running del', '2000000000 10000-12500 done'],
    released: 12_500,
    told: { del: { gracePeriodSeconds: 2, killedAt: 49_500 } },
  },
  {
    no: 'E13',
    pods: {
      db: { priority: 0, does: ends(3, { unmountAfter: '4s' }) },
      csi: { priority: NODE_CRITICAL, does: ends(2) },
    },
    phases: ['0 0-7200 done', '2000000000 7200-9200 done'],
    released: 9_200,
    told: { db: { stoppedAt: 3_000 } },
  },
  {
    no: 'E14',
    pods: {
      db: { priority: 0, does: ends(3, { unmountAfter: '100s' }) },
      csi: { priority: NODE_CRITICAL, does: ends(2) },
    },
    phases: ['0 0-20000 period, volumes db', '2000000000 20000-22000 done'],
    released: 22_000,
  },
  {
    no: 'E15',
    config: byPriority([
      [0, 300],
      [CRITICAL, 30],
    ]),
    pods: {
      db: { priority: 0, does: ends(3, { unmountAfter: '200s' }) },
      csi: { priority: NODE_CRITICAL, does: ends(2) },
    },
    phases: ['0 0-126000 volumeTimeout, volumes db', '2000000000 126000-128000 done'],
    released: 128_000,
  },
  {
    no: 'E16',
    pods: { web: { priority: 0, does: ends(6.5) }, dns: { priority: CRITICAL, does: ends(6.5) } },
    rest: { cancelAt: '2s' },
    phases: ['0 0-6500 done', '2000000000 6500-13000 done'],
    released: 13_000,
  },
  {
    no: 'E17',
    pods: {
      etcd: { metadata: { annotations: { 'kubernetes.io/config.source': 'file' } }, does: ends(3.5) },
      'etcd-mirror': {
        metadata: {
          annotations: { 'kubernetes.io/config.source': 'api', 'kubernetes.io/config.mirror': 'c0ffee' },
        },
        does: ends(3.5),
      },
      job: { phase: 'Succeeded', does: ends(3.5) },
      next: { phase: 'Pending', does: ends(3.5) },
    },
    phases: ['0 0-3500 done'],
    released: 3_500,
    told: { etcd: { group: 0, stoppedAt: 3_500 }, next: { group: 0 }, 'etcd-mirror': null, job: null },
  },
  {
    no: 'E18',
    pods: {
      web: {
        priority: 0,
        grace: 15,
        containers: [{ name: 'main', lifecycle: { preStop: { exec: { command: ['/bin/drain'] } } } }],
        does: { ...NEVER, preStop: '6.5s' },
      },
    },
    phases: ['0 0-15600 done'],
    released: 15_600,
    told: { web: { sigtermAt: 6_500, killedAt: 15_500, stoppedAt: 15_600 } },
  },
  {
    no: 'E19',
    pods: {
      web: {
        priority: 0,
        grace: 15,
        spec: { initContainers: [{ name: 'mesh', restartPolicy: 'Always' }] },
        does: { stopAfter: '4.5s', containers: { mesh: { stopAfter: '2s' } } },
      },
    },
    phases: ['0 0-6500 done'],
    released: 6_500,
    told: { web: { sigtermAt: 0, stoppedAt: 6_500 } },
  },
  { no: 'E22', phases: [], released: 0 },
  {
    no: 'E23',
    config: byPriority([
      [0, 0],
      [CRITICAL, 10],
    ]),
    pods: { web: { priority: 0, does: ends(4.5) }, dns: { priority: CRITICAL, does: ends(4.5) } },
    phases: ['0 0-0 period, running web', '2000000000 0-4500 done'],
    released: 4_500,
    told: { web: { start: 0, killedAt: 2_000 } },
  },
];

describe('the worked examples of kubelet-shutdown.md section 13', () => {
  it.each(EXAMPLES)('have the documented results: $no', ({ phases, released, told = {}, ...given }) => {
    const { result } = run(aShutdown(given));
    expect(phasesOf(result)).toEqual(phases);
    expect(result.lockReleasedAt).toBe(released);
    for (const [name, pod] of Object.entries(told)) {
      const actual = result.pods?.[`default/${name}`];
      if (pod === null) expect(actual).toBeNull();
      else expect(actual).toMatchObject(pod);
    }
    // A kill that is not named did not happen where the example names one of another pod.
    for (const name of Object.keys(given.pods ?? {})) {
      if (told[name]?.killedAt === undefined && given.pods?.[name]?.does?.['never'] !== true) {
        const { killedAt } = result.pods?.[`default/${name}`] ?? {};
        expect(killedAt, name).toBeUndefined();
      }
    }
  });

  it('E16 handles a cancel after the last phase: the lock is requested again and admission opens', () => {
    const { result } = run(
      aShutdown({
        pods: { web: { does: ends(6.5) }, dns: { priority: CRITICAL, does: ends(6.5) } },
        rest: { cancelAt: '2s' },
      }),
    );
    expect(result).toMatchObject({
      lockReleasedAt: 13_000,
      lockRetakenAt: 13_000,
      shutdownProceedsAt: null,
      refusesPods: { from: 0, until: 13_000 },
    });
  });

  it('E20 never arms if another drop-in fixes 30 s: the shutdown passes by', () => {
    const { result, reasons } = run(
      aShutdown({
        config: { shutdownGracePeriod: '60s', shutdownGracePeriodCriticalPods: '20s' },
        pods: { web: {} },
        rest: { logind: { overrideGives: '30s' } },
      }),
    );
    expect(result).toEqual({ enabled: true, armed: false, inhibitDelay: 60_000, dropInSeconds: 60, readBacks: 5 });
    expect(reasons).toMatchObject([{ code: 'not-armed', neededMs: 60_000, grantedMs: 30_000 }]);
  });

  it('E21 arms at the fourth reading if logind needs half a second to reload', () => {
    const { result } = run(aShutdown({ rest: { logind: { overrideTakes: '500ms' } } }));
    expect(result).toMatchObject({ armed: true, dropInSeconds: 30, readBacks: 4 });
  });

  it('E24 differs: no wait for a pod that ended by itself before its phase (kubelet-shutdown.md 12.3)', () => {
    const { result, reasons } = run(
      aShutdown({
        pods: {
          web: { priority: 0, does: ends(8.5) },
          gone: {
            priority: CRITICAL,
            grace: 20,
            metadata: { deletionGracePeriodSeconds: 20 },
            does: { stopAfter: '14.5s', terminatingFor: '10.5s' },
          },
        },
      }),
    );
    expect(phasesOf(result)).toEqual(['0 0-8500 done']);
    expect(result.lockReleasedAt).toBe(8_500);
    expect(result.groups?.[1]?.pods).toEqual(['default/gone']);
    expect(result.pods?.['default/gone']).toBeNull();
    expect(reasons).toMatchObject([
      { code: 'cut', pod: 'default/web' },
      { code: 'gone-before-phase', pod: 'default/gone' },
    ]);
  });
});
