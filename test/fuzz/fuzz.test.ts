import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createChance } from './chance.ts';
import { mutate } from './mutate.ts';
import { PLANTED_TARGETS } from './planted-targets.ts';
import { type Fuzzer, openFuzzer } from './run.ts';
import { TARGETS } from './targets.ts';

let fuzzer: Fuzzer;
let saved: string;
beforeAll(async () => {
  fuzzer = await openFuzzer();
  saved = mkdtempSync(join(tmpdir(), 'nodewarden-fuzz-saved-'));
});
afterAll(() => {
  fuzzer.close();
  rmSync(saved, { recursive: true, force: true });
});

/** The same inputs at every run: `npm run fuzz` is for others. */
const SHORT = { seed: '1', seconds: 0.1, atLeast: 15, bombs: null };

describe('a reader of outside text', () => {
  it.each(TARGETS.map(({ name }) => name))('answers any input: %s', async (name) => {
    const { executions, failures } = await fuzzer.run(name, { ...SHORT, saved });
    expect(failures).toEqual([]);
    expect(executions).toBeGreaterThan(0);
  });
});

/** A run that finds nothing proves nothing until it has found what was planted. */
describe('the fuzz run', () => {
  const KINDS: { readonly [name: string]: string } = {
    'planted-throws': 'throws',
    'planted-hangs': 'hangs',
    'planted-is-slow': 'slow',
    'planted-is-large': 'large',
    'planted-dies': 'dies',
  };
  it.each(PLANTED_TARGETS)('finds a planted mistake, and keeps its input: $name', async ({ name }) => {
    const kind = KINDS[name] ?? 'complains';
    const limits = { slowMs: 100, rssMiB: 200, hangMs: kind === 'hangs' ? 1_000 : 10_000 };
    const { failures } = await fuzzer.run(name, { ...SHORT, executions: 20, limits, saved });
    expect(failures.map((failure) => failure.kind)).toContain(kind);
    const found = failures.find((failure) => failure.kind === kind);
    expect(readFileSync(found?.file ?? '').length).toBeGreaterThan(8);
  });
  it('finds it again in the kept input, and only there', async () => {
    const { failures } = await fuzzer.run('planted-throws', { ...SHORT, executions: 20, saved });
    const [found] = failures;
    const again = await fuzzer.run('planted-throws', { ...SHORT, saved, input: found?.file ?? '' });
    expect(again).toMatchObject({ executions: 1, failures: [{ kind: 'throws', what: found?.what }] });
    // Nine bytes are enough; what was around them is gone.
    expect(readFileSync(found?.file ?? '')).toHaveLength(9);
  });
  it('generates the same inputs for the same seed, and others for another', () => {
    const inputs = (seed: string): readonly string[] => {
      const chance = createChance(seed);
      const good = Buffer.from('a: 1\nb: [c, d]\n');
      return Array.from({ length: 100 }, () => mutate(good, chance, () => good).toString('hex'));
    };
    expect(inputs('1')).toEqual(inputs('1'));
    expect(inputs('2')).not.toEqual(inputs('1'));
  });
});
