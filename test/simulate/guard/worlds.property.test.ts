import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseDocuments } from '../../../src/document/document.ts';
import { INVARIANTS } from '../../../src/simulate/guard/invariants.ts';
import { readGuardScenario } from '../../../src/simulate/guard/read.ts';
import { runGuard } from '../../../src/simulate/guard/run.ts';
import { aRandomWorld } from './a-random-world.ts';
import { run } from './a-world.ts';

const WORLDS = 200;
const kept = path.join(import.meta.dirname, 'kept');

describe('a world in which much goes wrong', () => {
  it(`breaks none of ${Object.keys(INVARIANTS).length} invariants, and is fenced in often enough to show it`, () => {
    let fenced = 0;
    fc.assert(
      fc.property(aRandomWorld, (world) => {
        const { violations, result } = run(world);
        fenced += result.fenced.length;
        expect(violations).toEqual([]);
      }),
      { numRuns: WORLDS, seed: 20_261_126 },
    );
    expect(fenced).toBeGreaterThan(WORLDS / 2);
  }, 900_000);

  it('is the same in every run', () => {
    fc.assert(
      fc.property(aRandomWorld, (world) => {
        expect(run(world).facts).toEqual(run(world).facts);
      }),
      { numRuns: 5, seed: 7 },
    );
  }, 60_000);

  it.each(readdirSync(kept))('once broke an invariant, and does no longer: %s', (name) => {
    const [yaml] = parseDocuments(readFileSync(path.join(kept, name), 'utf8'), name, 'core').documents;
    const { scenario } = yaml === undefined ? { scenario: null } : readGuardScenario(yaml);
    expect(scenario === null ? 'not read' : runGuard(scenario).violations).toEqual([]);
  });
});
