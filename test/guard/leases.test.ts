import { expect, it } from 'vitest';
import { createLeases } from '../../src/guard/leases.ts';
import type { Clock } from '../../src/ports.ts';
import { heardParts } from '../standalone/needs.ts';

/** One list every 5 s, each of whichever API server answers it: what the guard takes the lease of w1 to say. */
async function listed(...lists: readonly (readonly [version: string, renewTime: string] | null)[]) {
  let nowMs = 0;
  let next = 0;
  const leases = createLeases({
    connection: {
      get: async () => {
        const list = lists[next];
        next += 1;
        const items =
          list == null ? [] : [{ metadata: { name: 'w1', resourceVersion: list[0] }, spec: { renewTime: list[1] } }];
        return { kind: 'answer', status: 200, body: { items }, problem: null } as never;
      },
    },
    clock: { monoMs: () => nowMs } as Clock,
    findings: heardParts().findings,
    isNode: () => true,
    count: () => 1,
  });
  const said: (string | null)[] = [];
  for (const _ of lists) {
    await leases.refresh();
    const all = leases.all();
    said.push(all.known ? (all.value.value.get('w1')?.lease.renewed ?? null) : null);
    nowMs += 5_000;
  }
  return said;
}

const FRESH = ['1002', 't3'] as const;
const STALE = ['999', 't1'] as const;

it('a dead node does not live because every other list comes from an API server that stands still', async () => {
  expect(await listed(FRESH, STALE, FRESH, STALE, FRESH)).toEqual(Array(5).fill('t3'));
});
it('a node that renews its lease is heard all the same', async () => {
  expect(await listed(FRESH, STALE, ['1010', 't4'], STALE, ['1020', 't5'])).toEqual(['t3', 't3', 't4', 't4', 't5']);
});
it('a lease that was deleted and made anew counts at once', async () => {
  expect(await listed(FRESH, null, ['1030', 't9'])).toEqual(['t3', null, 't9']);
});
it('after a restore of etcd, which numbers anew, nodes are heard again within a minute', async () => {
  const restored = Array.from({ length: 14 }, (_, i) => [String(500 + i), `r${i}`] as const);
  const said = await listed(FRESH, ...restored);
  expect(said.slice(0, 12)).toEqual(Array(12).fill('t3'));
  expect(said.slice(12)).toEqual(['r11', 'r12', 'r13']);
});
it('versions that are no numbers are not compared', async () => {
  expect(await listed(['b', 't3'], ['a', 't4'], ['', 't5'])).toEqual(['t3', 't4', 't5']);
});
