// D17 on a node that thrashes, by the service that install.sh installed: see the script `stall`. Its last line gives the
// figures; the exit status is 0 only if all holds.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { parseArgs } from 'node:util';
import { type Peer, peers, run, SWAP_MIB, type Swap, swaps } from './stall-node.ts';
import { stallInOwnLimits } from './stall-own-limit.ts';
import { dueMs, endMs, type Sample, stallShares } from './stall-samples.ts';
import {
  configOf,
  DB,
  type Guard,
  isActive,
  onStall,
  play,
  type Run,
  STALL,
  start,
  takes,
  watched,
} from './stall-scene.ts';

const { values } = parseArgs({
  options: {
    times: { type: 'string', default: '10' },
    'peer-times': { type: 'string', default: '3' },
    only: { type: 'string' },
    list: { type: 'boolean', default: false },
  },
});
/** So much is left at the end by the formula of `belowAvailable`: below it, and before the kernel has to kill. */
const LEFT_SHARE = 0.22;
/** From the moment at which the stall has its share until nothing of the hog is in memory. */
const RELIEF_MS = 2_000;
/** A hog that nobody stops: from its start. */
const THRASHES_S = 120;
const ON_SWAP = configOf('evictionHard: { memory.available: 1%, swap.available: 50% }');
/** A hog that leaves so little has most of the swap in use. */
const SWAPPED_SHARE = 0.06;
const count = { passed: 0, failed: 0, skipped: 0 };

const seconds = (ms: number): string => `${(ms / 1_000).toFixed(1)} s`;

async function hogging(swap: Swap, guard: Guard): Promise<Run & { readonly isDatabaseAlive: boolean }> {
  let isDatabaseAlive = false;
  const of = await play(swap, guard, { pods: [DB], config: onStall(STALL) }, async () => {
    const hog = await takes('hog', ['thrash', '40'], LEFT_SHARE);
    start([hog], guard);
    const samples = await watched([hog, DB], THRASHES_S, 'kill');
    isDatabaseAlive = isActive(DB);
    return samples;
  });
  return { ...of, isDatabaseAlive };
}

/** What a run showed: how bad it was, who died, and how long after the stall was due. */
function saidOf({ samples, chosenMs, kernelKills }: Run): string {
  const due = dueMs(samples, STALL);
  const [hogMs, dbMs] = [endMs(samples, 0), endMs(samples, 1)];
  const fromMs = samples[0]?.atMs ?? 0;
  const after = (atMs: number): string => {
    if (due === null) return 'before the stall was due';
    const ms = atMs - due;
    return `${(Math.abs(ms) / 1_000).toFixed(2)} s ${ms < 0 ? 'before' : 'after'} the stall was due`;
  };
  const died = [
    ...(hogMs === null ? [] : [`the hog, ${after(hogMs)}`]),
    ...(dbMs === null ? [] : [`the database, ${after(dbMs)}`]),
    ...(kernelKills > 0 ? [`by the kernel ${kernelKills}`] : []),
  ];
  const least = Math.min(...samples.map(({ availableShare }) => availableShare));
  const most = Math.max(...stallShares(samples, STALL));
  const swap = Math.min(...samples.map(({ freeSwapMiB }) => freeSwapMiB));
  const when = due === null ? 'never due' : `due ${seconds(due - fromMs)} after its start`;
  const chosen = chosenMs === null ? '' : `chosen ${after(chosenMs)}; `;
  return `${chosen}died: ${died.join(', ') || 'nobody'}; ${when}, stall that counts up to ${Math.round(most * 100)} % of 10 s, least available ${Math.round(least * 100)} %, least free swap ${Math.round(swap)} of ${SWAP_MIB} MiB`;
}

type Check = {
  readonly name: string;
  readonly times: number;
  readonly body: () => Promise<string>;
  readonly missing?: () => string | null;
};

const thrashing = (swap: Swap): Check => ({
  name: `${swap.name}: a hog thrashes the node beside a database within its request: it is stopped within ${RELIEF_MS / 1_000} s`,
  times: Number(values.times),
  body: async () => {
    const of = await hogging(swap, 'nodewarden');
    const said = saidOf(of);
    const [due, dead] = [dueMs(of.samples, STALL), endMs(of.samples, 0)];
    assert.equal(of.kernelKills, 0, `the kernel killed nobody: ${said}`);
    assert(of.isDatabaseAlive, `the database runs: ${said}`);
    assert.deepEqual(of.evicted, ['hog for memory.stallFree'], said);
    assert(due !== null && dead !== null, `the node stalled, and the hog died of it: ${said}`);
    assert(dead - due <= RELIEF_MS, `in time: ${said}`);
    return said;
  },
});

const compared = (swap: Swap, peer: Peer): Check => ({
  name: `${swap.name}, for comparison: the same under ${peer.name}`,
  times: Number(values['peer-times']),
  missing: peer.missing,
  body: async () => {
    const of = await hogging(swap, peer);
    return `${saidOf(of)}; the database ${of.isDatabaseAlive ? 'runs' : 'is gone'}`;
  },
});

/** Swap fills before the memory is short: `swap.available` alone is crossed. */
const swapped = (swap: Swap): Check => ({
  name: `${swap.name}: a hog fills the swap beside a database within its request: it is stopped for swap.available`,
  times: Number(values.times),
  body: async () => {
    let isDatabaseAlive = false;
    const body = async (): Promise<readonly Sample[]> => {
      const hog = await takes('hog', ['grow', '100'], SWAPPED_SHARE);
      start([hog], 'nodewarden');
      const samples = await watched([hog, DB], THRASHES_S, 'kill');
      isDatabaseAlive = isActive(DB);
      return samples;
    };
    const of = await play(swap, 'nodewarden', { pods: [DB], config: ON_SWAP }, body);
    const free = Math.min(...of.samples.map(({ freeSwapMiB }) => freeSwapMiB));
    const figures = `least free swap ${Math.round(free)} of ${SWAP_MIB} MiB, evicted: ${of.evicted.join(', ') || 'nobody'}`;
    assert.deepEqual([of.evicted, of.kernelKills, isDatabaseAlive], [['hog for swap.available'], 0, true], figures);
    return figures;
  },
});

const inOwnLimits = (swap: Swap): Check => ({
  name: `${swap.name}: pods stall in limits of their own beside one that grows within its request: nobody is stopped`,
  times: Number(values.times),
  body: () => stallInOwnLimits(swap),
});

async function judge(check: Check): Promise<void> {
  const { name, times } = check;
  const why = check.missing?.() ?? null;
  if (why !== null) {
    count.skipped += 1;
    return console.log(`skipped ${name}: ${why}`);
  }
  const lines: string[] = [];
  let held = 0;
  for (let i = 1; i <= times; i++) {
    try {
      const figures = await check.body();
      held += 1;
      lines.push(`${i} held: ${figures}`);
    } catch (error) {
      lines.push(`${i} FAILED: ${error instanceof Error ? error.message : error}`);
    }
    console.log(`        ${lines.at(-1)}`);
  }
  const hasHeld = held === times;
  if (hasHeld) count.passed += 1;
  else count.failed += 1;
  console.log(`${hasHeld ? 'ok     ' : 'FAILED '} ${name} (${held} of ${times})`);
}

const checksOn = (swap: Swap): readonly Check[] => [
  thrashing(swap),
  swapped(swap),
  inOwnLimits(swap),
  ...peers.map((peer) => compared(swap, peer)),
];
/** Why it cannot be had here; null: it can. */
function whyNot(swap: Swap): string | null {
  try {
    swap.on();
    swap.off();
    return null;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

if (values.list) for (const { name } of swaps.flatMap(checksOn)) console.log(name);
else {
  console.log(
    `memory ${Math.round(Number(/\d+/.exec(fs.readFileSync('/proc/meminfo', 'latin1'))?.[0]) / 1024)} MiB, swap ${SWAP_MIB} MiB, kernel ${run('uname', '-r')}`,
  );
  for (const swap of swaps) {
    const checks = checksOn(swap).filter(({ name }) => name.includes(values.only ?? ''));
    const why = checks.length === 0 ? null : whyNot(swap);
    for (const check of checks) await judge(why === null ? check : { ...check, missing: () => why });
  }
  console.log(`stall, the installed service: ${count.passed} passed, ${count.failed} failed, ${count.skipped} skipped`);
  process.exitCode = count.failed === 0 ? 0 : 1;
}
