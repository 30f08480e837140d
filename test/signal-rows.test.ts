import { describe, expect, it } from 'vitest';
import { decide } from '../src/core/decide.ts';
import { TIES } from '../src/core/eviction/comparator.ts';
import { explain } from '../src/core/explain.ts';
import { known } from '../src/core/reading.ts';
import { type FsLayout, isDisk, SIGNAL_FACTS, SIGNALS } from '../src/core/signal.ts';
import { initialState } from '../src/core/state/state.ts';
import { summaryOf } from '../src/record/scenarios/scenario-of.ts';
import { metricsText } from '../src/serve/metrics.ts';
import { statusReport } from '../src/serve/status.ts';
import { createStatsReader } from '../src/simulate/eviction/stats.ts';
import { aConfig, anObservation, aPod, aThreshold } from './a.ts';
import { effective } from './config/a-config.ts';
import { aContext, aVerdict } from './serve/a-report.ts';

const memory = { availableBytes: 40, workingSetBytes: 60 };
const fs = { availableBytes: 40, capacityBytes: 100, inodesFree: 40, inodes: 100 };
/** The kubelet's statistics of a node on which everything that can be measured is. */
const summary = {
  node: {
    memory,
    swap: { swapAvailableBytes: 40, swapUsageBytes: 60 },
    memoryStall: { stalledMs: 60, windowMs: 100 },
    systemContainers: [{ name: 'pods', memory }],
    fs,
    runtime: { imageFs: fs, containerFs: fs },
    rlimit: { maxpid: 100, curproc: 60 },
  },
  pods: [],
};

describe.each(SIGNALS)('%s, a row of the table of signals', (signal) => {
  const facts = SIGNAL_FACTS[signal];
  // Of all: those of containerfs are copies of another one's.
  const config = aConfig(SIGNALS.map((each) => aThreshold(each, 50)));
  const observation = anObservation(
    10_000,
    { [signal]: { available: 40, capacity: 100 } },
    { pods: known([aPod({ name: 'web' }), aPod({ name: 'job' })]), podsFor: signal, fsLayout: known('nodefs-only') },
  );
  const state = initialState('boot');

  it.runIf(facts.configuredIn === 'own-section')('is configured in a section of its own, as a hard threshold', () => {
    const { thresholds } = effective('evictionStall: {memory: {}}');
    expect(thresholds.filter((threshold) => threshold.signal === signal)).toMatchObject([
      { graceMs: 0, field: 'evictionStall' },
    ]);
  });

  it.runIf(facts.configuredIn !== 'own-section')('can be configured, hard and soft', () => {
    const lines = [
      `evictionHard: {"${signal}": 5%}`,
      `evictionSoft: {"${signal}": 10%}`,
      `evictionSoftGracePeriod: {"${signal}": 1m}`,
      `evictionMinimumReclaim: {"${signal}": 1%}`,
    ];
    const { thresholds } = effective(lines.join('\n'));
    expect(thresholds.filter((threshold) => threshold.signal === signal).map(({ graceMs }) => graceMs)).toEqual([
      0, 60_000,
    ]);
  });

  it("is read by simulate from the node's statistics", () => {
    expect(createStatsReader(null).signalsOf(summary, 0, 'fresh')[signal]).toMatchObject({
      known: true,
      value: { available: 40, capacity: 100 },
    });
  });

  it('is written by capture as simulate reads it', () => {
    const { known: isKnown, ...written } = createStatsReader(null).signalsOf(summaryOf(observation, [], 0), 0, 'fresh')[
      signal
    ];
    expect({ isKnown, ...written }).toMatchObject({ isKnown: true, value: { available: 40, capacity: 100 } });
  });

  it.runIf(!isDisk(signal))(
    'is never written as a negative number by capture, even if more is in use than the capacity',
    () => {
      const low = anObservation(10_000, { [signal]: { available: -5, capacity: 100 } });
      expect(JSON.stringify(summaryOf(low, [], 0))).not.toContain('-');
    },
  );

  it('sets its condition', () => {
    const { decisions } = decide({ ...state, lastLookMs: 0 }, observation, config);
    expect(decisions).toContainEqual(
      expect.objectContaining({ kind: 'set-condition', condition: facts.condition, status: true }),
    );
  });

  it('is shown by status in its unit, against its threshold', () => {
    const report = statusReport({ observation, verdict: aVerdict(state), config, context: aContext() });
    expect(report.signals.find((shown) => shown.signal === signal)).toMatchObject({
      unit: facts.unit,
      available: 40,
      thresholds: [{ id: `${signal}/evictionHard` }],
    });
  });

  it('is in the metrics in its unit, with its threshold, and its evictions are counted', async () => {
    const verdict = aVerdict(state);
    const fsLayout = known<FsLayout>('containerfs-separate');
    const own = { ...observation, fsLayout };
    const said = await metricsText(statusReport({ observation: own, verdict, config, context: aContext() }));
    for (const line of [
      `nodewarden_signal_available{signal="${signal}",unit="${facts.unit}"} 40`,
      `nodewarden_signal_capacity{signal="${signal}",unit="${facts.unit}"} 100`,
      `nodewarden_threshold{signal="${signal}",unit="${facts.unit}",kind="hard",id="${signal}/evictionHard"} 50`,
      `nodewarden_evictions_total{signal="${signal}",kind="hard"} 0`,
    ]) {
      expect(said.split('\n')).toContain(line);
    }
  });

  it('is explained by its comparators, then by the tie-breaks', () => {
    const explained = explain({ observation, config, state, decisions: [], reasons: [] }, signal);
    expect(explained?.comparators.map(({ by }) => by)).toEqual([...facts.rankedBy, ...TIES]);
    expect(explained?.pods).toHaveLength(2);
  });
});
