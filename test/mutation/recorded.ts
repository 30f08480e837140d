import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { parseJsonDocument } from '../../src/document/json.ts';
import { compareLook } from '../../src/simulate/eviction/expect.ts';
import { runEviction } from '../../src/simulate/eviction/run.ts';
import { readEvictionScenario } from '../../src/simulate/eviction/scenario.ts';
import { compareShutdown } from '../../src/simulate/shutdown/expect.ts';
import { runShutdown } from '../../src/simulate/shutdown/run.ts';
import { readShutdownScenario } from '../../src/simulate/shutdown/scenario.ts';
import { configOutcome } from '../conformance/conformance.ts';

/** Each nth recorded scenario: all of them would take seconds for each of some thousand mutants. */
const SHARE = { eviction: 16, shutdown: 8, config: 1 };

const data = join(import.meta.dirname, '../conformance');
const linesOf = (name: keyof typeof SHARE): readonly string[] =>
  gunzipSync(readFileSync(join(data, `${name}.jsonl.gz`)))
    .toString()
    .split('\n')
    .filter((line, i) => line !== '' && i % SHARE[name] === 0);
const documentOf = (line: string) => {
  const [document] = parseJsonDocument(line, 'recorded').documents;
  if (document === undefined) throw new Error('no document');
  return document;
};

describe('recorded looks of the kubelet', () => {
  it.each([0, 1, 2, 3])('are decided the same way, part %i', (part) => {
    for (const line of linesOf('eviction').filter((_, i) => i % 4 === part)) {
      const { scenario } = readEvictionScenario(documentOf(line));
      if (scenario === null) throw new Error(line.slice(0, 200));
      for (const look of runEviction(scenario)) {
        const { expect: wanted } = scenario.steps[look.step - 1] ?? {};
        if (wanted) expect(compareLook(wanted, look.result), scenario.name).toEqual([]);
      }
    }
  });
});

describe('recorded shutdowns of the kubelet', () => {
  it('go the same way', () => {
    for (const line of linesOf('shutdown')) {
      const { scenario } = readShutdownScenario(documentOf(line));
      if (scenario === null) throw new Error(line.slice(0, 200));
      if (scenario.expect !== null) expect(compareShutdown(scenario.expect, runShutdown(scenario).result)).toEqual([]);
    }
  });
});

describe('recorded quantities, durations and thresholds of the kubelet', () => {
  it.each(['quantity', 'duration', 'threshold', 'minReclaim'])('%s: are read the same way', (kind) => {
    const cases = linesOf('config').map((line) => JSON.parse(line));
    for (const entry of cases.filter((one) => one.case === kind)) {
      expect(configOutcome(entry), JSON.stringify(entry)).toMatchObject({ kind: 'passed' });
    }
  });
});
