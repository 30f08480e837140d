import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { known, unknown } from '../../src/core/reading.ts';
import { initialState } from '../../src/core/state/state.ts';
import { createCounters } from '../../src/daemon/counters.ts';
import { GUARD_METRICS } from '../../src/guard/metrics.ts';
import { METRIC_NAMES, metricsText } from '../../src/serve/metrics.ts';
import { type StatusContext, statusReport } from '../../src/serve/status.ts';
import { aConfig, anObservation, aThreshold, GI, MI } from '../a.ts';
import { aContext, aVerdict } from './a-report.ts';

type Observed = Parameters<typeof anObservation>;
const thresholds = [
  aThreshold('memory.available', 100 * MI),
  aThreshold('memory.available', 200 * MI, { graceMs: 30_000 }),
  aThreshold('imagefs.available', 100 * MI),
];

function textOf(
  signals: Observed[1] = {},
  { context = {}, rest = {} }: { readonly context?: Partial<StatusContext>; readonly rest?: Observed[2] } = {},
): Promise<string> {
  const observation = anObservation(10_000, signals, rest);
  const state = { ...initialState('b'), conditionLastMetMs: { MemoryPressure: 10_000 } };
  return metricsText(
    statusReport({ observation, verdict: aVerdict(state), config: aConfig(thresholds), context: aContext(context) }),
  );
}
const linesOf = (text: string, name: string): readonly string[] =>
  text.split('\n').filter((line) => line.startsWith(name) && !line.startsWith('#'));
const namesIn = (text: string): readonly string[] =>
  [...text.matchAll(/^# TYPE (\w+) /gm)].map(([, name]) => name ?? '');
const memory = { available: 150 * MI, capacity: GI };

describe('metrics', () => {
  it('have the documented names', () => {
    expect([...METRIC_NAMES].sort()).toEqual([
      'nodewarden_build_info',
      'nodewarden_condition',
      'nodewarden_eviction_duration_seconds',
      'nodewarden_evictions_total',
      'nodewarden_findings',
      'nodewarden_graceful_shutdown_end_time_seconds',
      'nodewarden_graceful_shutdown_start_time_seconds',
      'nodewarden_kernel_oom_kills_total',
      'nodewarden_look_duration_seconds',
      'nodewarden_looks_total',
      'nodewarden_psi_full_ratio',
      'nodewarden_psi_some_ratio',
      'nodewarden_reclaimed_bytes_total',
      'nodewarden_shutdown_armed',
      'nodewarden_signal_age_seconds',
      'nodewarden_signal_available',
      'nodewarden_signal_capacity',
      'nodewarden_threshold',
    ]);
  });

  it('are all documented, and no others', () => {
    const docs = readFileSync(path.resolve(import.meta.dirname, '../../docs/metrics.md'), 'utf8');
    const all = [...METRIC_NAMES, ...Object.keys(GUARD_METRICS)];
    expect([...new Set(docs.match(/\bnodewarden_[a-z_]+/g))].sort()).toEqual(all.sort());
  });

  it('show a signal against its thresholds, each once', async () => {
    const text = await textOf({ 'memory.available': known({ ...memory, sampledAtMs: 7_500 }) });
    expect(linesOf(text, 'nodewarden_signal')).toEqual([
      `nodewarden_signal_available{signal="memory.available",unit="bytes"} ${150 * MI}`,
      `nodewarden_signal_capacity{signal="memory.available",unit="bytes"} ${GI}`,
      'nodewarden_signal_age_seconds{signal="memory.available",unit="bytes"} 2.5',
    ]);
    expect(linesOf(text, 'nodewarden_threshold')).toEqual([
      `nodewarden_threshold{signal="memory.available",unit="bytes",kind="hard",id="memory.available/evictionHard"} ${100 * MI}`,
      `nodewarden_threshold{signal="memory.available",unit="bytes",kind="soft",id="memory.available/evictionSoft"} ${200 * MI}`,
    ]);
    expect(linesOf(text, 'nodewarden_condition')).toContain('nodewarden_condition{condition="MemoryPressure"} 1');
    expect(linesOf(text, 'nodewarden_condition')).toContain('nodewarden_condition{condition="DiskPressure"} 0');
  });
  it('show increasing ages while the loop hangs', async () => {
    const shutdown = { ...aContext().shutdown, nowMs: 40_000 };
    const text = await textOf(
      { 'memory.available': known({ ...memory, sampledAtMs: 7_500 }) },
      { context: { shutdown } },
    );
    expect(linesOf(text, 'nodewarden_signal_age_seconds')).toEqual([expect.stringMatching(/ 32\.5$/)]);
  });
  it('have no sample for unknown values, which are not zero', async () => {
    const text = await textOf(
      { 'memory.available': unknown('unreadable', '/proc/meminfo', 'EIO') },
      {
        rest: {
          psi: {
            memory: unknown('absent', 'x', 'y'),
            io: unknown('absent', 'x', 'y'),
            cpu: unknown('absent', 'x', 'y'),
          },
        },
      },
    );
    for (const name of [
      'nodewarden_signal',
      'nodewarden_threshold',
      'nodewarden_psi',
      'nodewarden_graceful',
      'nodewarden_shutdown',
    ]) {
      expect(linesOf(text, name)).toEqual([]);
    }
    // What was counted is known to be 0.
    expect(linesOf(text, 'nodewarden_kernel')).toEqual(['nodewarden_kernel_oom_kills_total 0']);
  });
  it('show no signal twice if the node has no containerfs of its own', async () => {
    const disk = { available: 5, capacity: 10 };
    const signals = { 'nodefs.available': disk, 'containerfs.available': disk };
    const one = await textOf(signals, { rest: { fsLayout: known('nodefs-only') } });
    expect(linesOf(one, 'nodewarden_signal_available')).toEqual([expect.stringContaining('nodefs.available')]);
    const two = await textOf(signals, { rest: { fsLayout: known('containerfs-separate') } });
    expect(linesOf(two, 'nodewarden_signal_available')).toHaveLength(2);
  });
  it('show stall as shares of the time', async () => {
    const psi = { some: { avg10: 12.5, avg60: 1, avg300: 0 }, full: null };
    const text = await textOf({}, { rest: { psi: { memory: known(psi), io: known(psi), cpu: known(psi) } } });
    expect(linesOf(text, 'nodewarden_psi_some_ratio')).toContain(
      'nodewarden_psi_some_ratio{resource="memory",window="10s"} 0.125',
    );
    expect(linesOf(text, 'nodewarden_psi_full_ratio')).toEqual([]);
  });
  it('count findings by kind, and contain no name that a tenant chose', async () => {
    const hostile = 'a"}\n# EVIL 1\\';
    const findings = [
      { id: `survived/${hostile}`, text: hostile },
      { id: 'survived/b', text: 'b' },
      { id: 'statfs-block-size:/srv', text: 'c' },
    ];
    const text = await textOf({}, { context: { findings } });
    expect(linesOf(text, 'nodewarden_findings')).toEqual([
      'nodewarden_findings{finding="survived"} 2',
      'nodewarden_findings{finding="statfs-block-size"} 1',
    ]);
    expect(text).not.toContain('EVIL');
  });
  it('say whether the shutdown is armed, if it is configured', async () => {
    const armed = { kind: 'armed', neededMs: 1, grantedMs: 1, provenMs: 1 } as const;
    const lockOf = (lock: typeof armed | { readonly kind: 'released' }) => {
      const { shutdown } = aContext();
      return textOf({}, { context: { shutdown: { ...shutdown, inhibitor: { ...shutdown.inhibitor, lock } } } });
    };
    expect(linesOf(await lockOf(armed), 'nodewarden_shutdown_armed')).toEqual(['nodewarden_shutdown_armed 1']);
    expect(linesOf(await lockOf({ kind: 'released' }), 'nodewarden_shutdown_armed')).toEqual([
      'nodewarden_shutdown_armed 0',
    ]);
  });
  it('begin with 0 for possible evictions, so that a rate includes the first', async () => {
    expect(linesOf(await textOf({ 'memory.available': memory }), 'nodewarden_evictions_total')).toEqual([
      'nodewarden_evictions_total{signal="memory.available",kind="hard"} 0',
      'nodewarden_evictions_total{signal="memory.available",kind="soft"} 0',
    ]);
  });
  it('have cumulative buckets', async () => {
    const counters = createCounters(0);
    for (const ms of [0.05, 0.2, 0.2, 7, 5_000]) counters.looked(ms);
    const lines = linesOf(await textOf({}, { context: { counts: counters.now() } }), 'nodewarden_look');
    expect(lines).toContain('nodewarden_looks_total 5');
    const bucket = (le: string) => lines.find((line) => line.includes(`{le="${le}"}`))?.split(' ')[1];
    expect(['0.0001', '0.00025', '0.005', '0.01', '1', '+Inf'].map(bucket)).toEqual(['1', '3', '3', '4', '4', '5']);
    expect(Number(lines.find((line) => line.includes('_sum'))?.split(' ')[1])).toBeCloseTo(5.00745);
  });

  const hasPromtool = spawnSync('promtool', ['--version']).status === 0;
  it.runIf(hasPromtool)('are parsed by Prometheus without complaint', async () => {
    const psi = known({ some: { avg10: 1, avg60: 1, avg300: 1 }, full: { avg10: 1, avg60: 1, avg300: 1 } });
    const counters = createCounters(0);
    counters.lastShutdown({ startWallMs: 1_000, endWallMs: 2_000 });
    const { shutdown } = aContext();
    const lock = { kind: 'not-armed', neededMs: 1, grantedMs: null, isHeld: false, why: 'x' } as const;
    const text = await textOf(
      { 'memory.available': memory },
      {
        rest: { psi: { memory: psi, io: psi, cpu: psi } },
        context: {
          counts: counters.now(),
          findings: [{ id: 'config', text: 'x' }],
          shutdown: { ...shutdown, inhibitor: { ...shutdown.inhibitor, lock } },
        },
      },
    );
    expect([...namesIn(text)].sort()).toEqual([...METRIC_NAMES].sort());
    const checked = spawnSync('promtool', ['check', 'metrics'], { input: text, encoding: 'utf8' });
    expect([checked.stdout, checked.stderr, checked.status]).toEqual(['', '', 0]);
  });
});
