import { describe, expect, it } from 'vitest';
import { historyText } from '../../src/cli/history-text.ts';
import { painter } from '../../src/cli/print.ts';
import { decide } from '../../src/core/decide.ts';
import type { MemoryGrowth } from '../../src/core/eviction/attribution.ts';
import type { PodView } from '../../src/core/pod/pod.ts';
import { known, unknown } from '../../src/core/reading.ts';
import { initialState } from '../../src/core/state/state.ts';
import { parseDocuments } from '../../src/document/document.ts';
import { entryOf, joinDecisions } from '../../src/record/entry.ts';
import { scenarioOf } from '../../src/record/scenarios/scenario-of.ts';
import { runEviction } from '../../src/simulate/eviction/run.ts';
import { readEvictionScenario } from '../../src/simulate/eviction/scenario.ts';
import { sayDecision } from '../../src/words/decision.ts';
import { sayReason } from '../../src/words/reason.ts';
import { aConfig, anObservation, aPod, aThreshold, GI, MI } from '../a.ts';

const cron = (where = 'system.slice/cron.service'): MemoryGrowth => ({
  overMs: 42_000,
  podsBytes: 28 * MI,
  outsideBytes: 612 * MI,
  others: [{ where, bytes: 612 * MI }],
});
const CULPRIT =
  'most of the growth of the last 42s was not in pods: system.slice/cron.service took 612 MiB (of 640 MiB)';
const config = aConfig([aThreshold('memory.available', 100 * MI)]);

function lookAt(pods: readonly PodView[], memoryGrowth: MemoryGrowth | null, signal = 'memory.available') {
  const growth = memoryGrowth === null ? {} : { memoryGrowth: known(memoryGrowth) };
  const observation = anObservation(
    1_000,
    { [signal]: { available: 92 * MI, capacity: GI } },
    { pods: known(pods), ...growth },
  );
  return { observation, ...decide(initialState('boot'), observation, config) };
}
const web = aPod({ name: 'web', namespace: 'shop', workingSetBytes: 300 * MI });
const evictionOf = ({ decisions }: Pick<ReturnType<typeof lookAt>, 'decisions'>) => {
  const decision = decisions.find(({ kind }) => kind === 'evict');
  if (decision?.kind !== 'evict') throw new Error('nobody is evicted');
  return decision;
};

function readText(text: string): ReturnType<typeof readEvictionScenario> {
  const [document] = parseDocuments(text, 'record', 'ours').documents;
  if (document === undefined) throw new Error('no document');
  return readEvictionScenario(document);
}

describe('a decision about node memory', () => {
  it('contains what grew, and says so if that was outside pods', () => {
    const decision = evictionOf(lookAt([web], cron()));
    expect(decision.growth).toMatchObject({
      value: { totalBytes: 640 * MI, culprit: { where: 'system.slice/cron.service' } },
    });
    expect(sayDecision(decision)).toBe(`evict shop/web: memory.available 92 MiB is below 100 MiB; ${CULPRIT}`);
    expect(decision.message).not.toContain('cron');
  });

  it('says nothing more if the pods grew, or it was not requested', () => {
    const inPods = evictionOf(lookAt([web], { ...cron(), podsBytes: 700 * MI }));
    expect(inPods.growth).toMatchObject({ value: { podsBytes: 700 * MI, culprit: null } });
    const unasked = evictionOf(lookAt([web], null));
    expect(unasked).not.toHaveProperty('growth');
    for (const decision of [inPods, unasked])
      expect(sayDecision(decision)).toBe('evict shop/web: memory.available 92 MiB is below 100 MiB');
  });

  it('names it even if no pod can be evicted', () => {
    const { reasons } = lookAt([], cron());
    const nobody = reasons.find(({ code }) => code === 'no-candidate');
    expect(nobody && sayReason(nobody, String)).toBe(`memory.available: no pod may be evicted; ${CULPRIT}`);
  });

  it('is re-derived by simulate from the record, with the same culprit', () => {
    const { observation, decisions } = lookAt([web], cron());
    const decision = evictionOf({ decisions });
    const scenario = scenarioOf({ name: 'b-1', observation, config, acted: decision.threshold });
    const read = readText(JSON.stringify(scenario));
    expect(read.problems).toEqual([]);
    const [look] = read.scenario === null ? [] : runEviction(read.scenario);
    const again = look === undefined ? null : evictionOf(look).growth;
    expect(again).toEqual(decision.growth);
    expect(again).toMatchObject({ known: true });
  });

  it("is shown by history, with tenants' names escaped", () => {
    const said = (growth: MemoryGrowth): string => {
      const decision = evictionOf(lookAt([web], growth));
      const head = { atWallMs: 0, bootId: 'boot', dry: false };
      const decisions = joinDecisions([entryOf(head, { kind: 'decision', decision, reasons: [] })]);
      const history = { schema: 1, decisions, kernelOomKills: [], shutdowns: [], boots: [] } as const;
      return historyText(history, '', painter(false));
    };
    expect(said(cron())).toContain(`  growth    ${CULPRIT}\n`);
    expect(said(cron('user.slice/\u001b[2J'))).toContain(String.raw`user.slice/\u001b[2J took 612 MiB`);
  });

  it('is shown by history with the reason why the culprit is unknown', () => {
    const observation = anObservation(
      1_000,
      { 'memory.available': { available: 92 * MI, capacity: GI } },
      { pods: known([web]), memoryGrowth: unknown('absent', 'growth', 'nothing was read before to compare with') },
    );
    const decision = evictionOf(decide(initialState('boot'), observation, config));
    const head = { atWallMs: 0, bootId: 'boot', dry: false };
    const decisions = joinDecisions([entryOf(head, { kind: 'decision', decision, reasons: [] })]);
    const history = { schema: 1, decisions, kernelOomKills: [], shutdowns: [], boots: [] } as const;
    expect(historyText(history, '', painter(false))).toContain(
      '  growth    not known: growth: nothing was read before to compare with\n',
    );
  });
});

describe('memoryGrowth of a scenario', () => {
  it('is checked like everything else in it', () => {
    const text = `apiVersion: nodewarden.dev/v1alpha1
kind: EvictionScenario
metadata: { name: s }
steps: [{ at: 0, memoryGrowth: { overMs: 1.5, podsBytes: 0, others: [{ where: 7, bytes: 1 }], who: x } }]
`;
    const { problems } = readText(text);
    expect(problems.map(({ path }) => path)).toEqual([
      'steps[0].memoryGrowth.outsideBytes',
      'steps[0].memoryGrowth.overMs',
      'steps[0].memoryGrowth.others[0].where',
      'steps[0].memoryGrowth.who',
    ]);
  });
});
