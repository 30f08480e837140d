import { execFileSync } from 'node:child_process';
import { describe, expect, it } from 'vitest';

/** Makes 400 MiB of short-lived objects, keeping a few for a while, and says what the new space then is. */
const MAKE = `
const { getHeapSpaceStatistics } = await import('node:v8');
const kept = [];
for (let i = 0; i < 4_000; i++) {
  kept.push(Array.from({ length: 1_000 }, (_, n) => ({ n })));
  if (kept.length > 100) kept.shift();
}
console.log(getHeapSpaceStatistics().find(({ space_name }) => space_name === 'new_space').physical_space_size);
`;
/** Runs 50 large functions once, has the garbage of old objects collected some ten times, and says what is left then. */
const COMPILE = `
const { setFlagsFromString } = await import('node:v8');
const { runInNewContext } = await import('node:vm');
const steps = Array.from({ length: 2_000 }, (_, n) => 'x += ' + n + ' * x;').join('');
const once = Array.from({ length: 50 }, (_, n) => new Function('x', steps + 'return x + ' + n));
for (const run of once) run(1);
let old = [];
for (let i = 0; i < 1_500; i++) {
  old.push(new Array(50_000).fill(i));
  if (old.length > 100) old = [];
}
old = [];
setFlagsFromString('--expose-gc');
runInNewContext('gc')();
console.log(process.memoryUsage().heapUsed, once.length);
`;
const said = (script: string): number =>
  Number.parseInt(
    execFileSync(process.execPath, ['--import', 'tsx', '--input-type=module', '-e', script], { encoding: 'utf8' }),
    10,
  );
const newSpaceMiB = (before: string): number => said(before + MAKE) / 2 ** 20;

describe('the space for new objects', () => {
  it('stays small in the daemon, where it would grow', () => {
    // The loader of this test has let it grow a little already.
    expect(newSpaceMiB('')).toBeGreaterThan(8);
    expect(newSpaceMiB("(await import('./src/host/heap.ts')).keepNewSpaceSmall();")).toBeLessThan(8);
  });
});

describe('compiled code', () => {
  it('stays in the daemon, where what has not run for long would be dropped', () => {
    const keep = "(await import('./src/host/heap.ts')).keepCompiledCode();";
    const dropped = (said(keep + COMPILE) - said(COMPILE)) / 2 ** 20;
    expect(dropped).toBeGreaterThan(1);
  });
});
