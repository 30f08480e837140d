// `npm run fuzz:guard`: worlds in which much goes wrong, and what must hold in all of them (guard.md 12.3). A world in
// which it does not is shrunk and kept as a file that `nodewarden guard simulate` plays again.
import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import * as fc from 'fast-check';
import { yamlText } from '../../../src/document/yaml-text.ts';
import { aRandomWorld } from './a-random-world.ts';
import { documentOf, run } from './a-world.ts';

const { values } = parseArgs({
  options: {
    worlds: { type: 'string', default: '10000' },
    seed: { type: 'string', default: String(Date.now() % 2 ** 31) },
    keep: { type: 'string', default: path.join(import.meta.dirname, 'kept') },
  },
});
const [numRuns, seed] = [Number(values.worlds), Number(values.seed)];

const secondsSince = (ms: number): string => ((performance.now() - ms) / 1_000).toFixed(1);
const begun = performance.now();
let fenced = 0;
let held = 0;
let played = 0;
const found = fc.check(
  fc.property(aRandomWorld, (world) => {
    const { violations, result } = run(world);
    fenced += result.fenced.length;
    held += result.held.length;
    played += 1;
    if (played % 100 === 0) process.stdout.write(`${played} worlds in ${secondsSince(begun)} s\n`);
    return violations.length === 0;
  }),
  { numRuns, seed, endOnFailure: false },
);
process.stdout.write(
  `${found.numRuns} worlds in ${secondsSince(begun)} s, seed ${seed}: ${fenced} fencings proven, ${held} holds\n`,
);
const [world] = found.counterexample ?? [];
if (world !== undefined) {
  const { violations } = run(world);
  const name = `${violations[0]?.invariant ?? 'none'}-${seed}`;
  mkdirSync(values.keep, { recursive: true });
  const file = path.join(values.keep, `${name}.yaml`);
  writeFileSync(file, yamlText({ ...documentOf(world), metadata: { name } }));
  for (const { invariant, at, text } of violations)
    process.stdout.write(`BROKEN ${invariant} at ${at / 1_000} s: ${text}\n`);
  process.stdout.write(`kept: nodewarden guard simulate ${path.relative(process.cwd(), file)}\n`);
  process.exitCode = 1;
}
