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
const newSpaceMiB = (before: string): number =>
  Number(execFileSync(process.execPath, ['--import', 'tsx', '--input-type=module', '-e', before + MAKE])) / 2 ** 20;

describe('the space for new objects', () => {
  it('stays small in the daemon, where it would otherwise grow', () => {
    // The loader of this test has let it grow a little already.
    expect(newSpaceMiB('')).toBeGreaterThan(8);
    expect(newSpaceMiB("(await import('./src/host/own/heap.ts')).keepHeapSmall();")).toBeLessThan(8);
  });
});
