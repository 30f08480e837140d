// D17 on a node that thrashes, by the service that install.sh installed: see the script `stall`. Its last line gives the
// figures; the exit status is 0 only if all holds.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { parseArgs, promisify } from 'node:util';
import { sleep } from '../../src/host/clock.ts';
import { createProcfs } from '../../src/host/procfs.ts';
import type { DecisionRecord } from '../../src/record/entry.ts';
import { installedAgent } from './agent.ts';
import { clock } from './scene.ts';
import { type Peer, peers, run, SLICE, SWAP_MIB, type Swap, swaps, UNITS } from './stall-node.ts';
import { dueMs, endMs, readSamples, type Sample, type Stall, stallShares } from './stall-samples.ts';

/** `maxMiB`: a memory limit of its own. `priority`, `requestMiB`: of its manifest. */
type Unit = {
  readonly name: string;
  readonly command: readonly string[];
  readonly priority?: number;
  readonly requestMiB?: number;
  readonly maxMiB?: number;
};
type Run = { readonly samples: readonly Sample[]; readonly evicted: readonly string[]; readonly kernelKills: number };

const { values } = parseArgs({
  options: {
    times: { type: 'string', default: '10' },
    'peer-times': { type: 'string', default: '3' },
    only: { type: 'string' },
    list: { type: 'boolean', default: false },
  },
});
const LOAD = path.join(import.meta.dirname, 'memory-load.pl');
const WATCH = path.join(import.meta.dirname, 'stall-watch.pl');
const WATCHED = '/run/nodewarden-lab-watch';
const DATABASE_MIB = 120;
/** So much is left at the end by the formula of `belowAvailable`: below it, and before the kernel has to kill. */
const LEFT_SHARE = 0.2;
/** What perl has beside what it was told to take. */
const PERL_MIB = 6;
/** `fullShare`: an emulated processor is busy with this lab and the agent for the rest of the time. */
const STALL = { fullShare: 0.15, forMs: 10_000, belowShare: 0.25 } as const;
/** From the moment at which the stall has its share until nothing of the hog is in memory. */
const RELIEF_MS = 2_000;
/** A hog that nobody stops: from its start. */
const THRASHES_S = 120;
const CAPPED_S = 60;
const CAPPED_MIB = 76;
const configOf = (rules: string): string => `apiVersion: nodewarden.dev/v1alpha1
kind: NodewardenConfiguration
memoryAvailable: reclaimable
${rules}
evictionPressureTransitionPeriod: 2s
`;
const onStall = ({ fullShare, belowShare }: Stall): string =>
  configOf(`evictionHard: { memory.available: 3% }
evictionStall: { memory: { full: ${fullShare * 100}%, for: 10s, belowAvailable: ${belowShare * 100}% } }`);
const ON_SWAP = configOf('evictionHard: { memory.available: 1%, swap.available: 50% }');
/** A hog that leaves so little has most of the swap in use. */
const SWAPPED_SHARE = 0.06;
const MIB = 2 ** 20;
const count = { passed: 0, failed: 0, skipped: 0 };

const later = promisify(execFile);
const unitOf = ({ name }: Pick<Unit, 'name'>): string => `lab-${name}.service`;
const pidOf = (unit: Unit): string => run('systemctl', 'show', '-P', 'MainPID', unitOf(unit));
const isActive = (unit: Unit): boolean => run('systemctl', 'is-active', unitOf(unit)) === 'active';
const kernelKills = (): number => Number(/^oom_kill (\d+)$/m.exec(fs.readFileSync('/proc/vmstat', 'latin1'))?.[1]);
const seconds = (ms: number): string => `${(ms / 1_000).toFixed(1)} s`;
const lowWatermark = (): number => {
  const procfs = createProcfs();
  const bytes = procfs.lowWatermarkBytes();
  procfs.close();
  if (!bytes.known) throw new Error(`${bytes.where}: ${bytes.detail}`);
  return bytes.value;
};

function writeUnit(unit: Unit): void {
  const limit = unit.maxMiB === undefined ? '' : `MemoryMax=${unit.maxMiB}M\n`;
  const exec = `ExecStart=/usr/bin/perl ${LOAD} ${unit.command.join(' ')}`;
  fs.writeFileSync(path.join(UNITS, unitOf(unit)), `[Service]\nSlice=${SLICE}\n${exec}\nOOMScoreAdjust=0\n${limit}`);
}

const manifestOf = (unit: Unit): string => `apiVersion: v1
kind: Pod
metadata:
  name: ${unit.name}
  namespace: lab
  annotations: { nodewarden.dev/systemd-unit: ${unitOf(unit)}, nodewarden.dev/after-eviction: stay }
spec:
  priority: ${unit.priority ?? 0}
  containers: [{ name: main, resources: { requests: ${unit.requestMiB === undefined ? '{}' : `{ memory: ${unit.requestMiB}Mi }`} } }]
`;

/** One sample of now. */
async function availableMiB(): Promise<number> {
  await later('/usr/bin/perl', [WATCH, WATCHED, '0.05']);
  const [sample] = readSamples(WATCHED, lowWatermark());
  const procfs = createProcfs();
  const total = procfs.memTotalBytes();
  const facts = procfs.meminfo();
  procfs.close();
  if (sample === undefined || !total.known || !facts.known) throw new Error('nothing is known of the memory');
  const { anonBytes, shmemBytes, swapFreeBytes } = facts.value;
  // Free swap in which nothing is yet is more than what is taken: the formula does not go below nothing.
  const unused = [anonBytes, shmemBytes].reduce(
    (left, of) => left - (of.known ? of.value : 0),
    swapFreeBytes.known ? swapFreeBytes.value : 0,
  );
  return (sample.availableShare * total.value + Math.max(0, unused)) / MIB;
}

/** Who takes so much that this share of the memory is left. */
async function takes(
  name: string,
  verb: readonly string[],
  { alreadyMiB = 0, leftShare = LEFT_SHARE } = {},
): Promise<Unit> {
  const procfs = createProcfs();
  const total = procfs.memTotalBytes();
  procfs.close();
  if (!total.known) throw new Error(total.detail);
  const mib = Math.floor((await availableMiB()) - (leftShare * total.value) / MIB - PERL_MIB - alreadyMiB);
  const [first = '', ...rest] = verb;
  return { name, command: [first, String(mib), ...rest] };
}

const DB: Unit = { name: 'db', command: ['hold', String(DATABASE_MIB)], priority: 1000, requestMiB: 300 };

/** Watches until one of the units is dead, or for so long; the first is ended then. */
async function watched(units: readonly Unit[], forSeconds: number): Promise<readonly Sample[]> {
  await later('/usr/bin/perl', [WATCH, WATCHED, String(forSeconds), ...units.map(pidOf)]);
  return readSamples(WATCHED, lowWatermark());
}

/** `guard`: nodewarden, or what is started in its place. `units`: the first grows last, once the others have what they hold. */
async function play(
  swap: Swap,
  guard: 'nodewarden' | Peer,
  body: () => Promise<readonly Sample[]>,
  config = onStall(STALL),
): Promise<Run> {
  const agent = installedAgent();
  const closers: (() => unknown)[] = [];
  fs.writeFileSync('/proc/sys/vm/drop_caches', '3');
  swap.on();
  try {
    fs.writeFileSync(agent.places.configFile, config);
    if (guard !== 'nodewarden') {
      closers.push(guard.off);
      guard.on();
    }
    writeUnit(DB);
    if (guard === 'nodewarden') fs.writeFileSync(path.join(agent.places.manifests, 'db.yaml'), manifestOf(DB));
    run('systemctl', 'daemon-reload');
    run('systemctl', 'start', unitOf(DB));
    await sleep(clock, 5_000);
    if (guard === 'nodewarden') await agent.start();
    const before = kernelKills();
    const samples = await body();
    // Its outcome is recorded, and what it holds given back.
    await sleep(clock, 3_000);
    return { samples, evicted: guard === 'nodewarden' ? evictions() : [], kernelKills: kernelKills() - before };
  } catch (error) {
    throw new Error(`${error instanceof Error ? error.message : error}\n${agent.log().slice(-4_000)}`);
  } finally {
    run('systemctl', 'stop', 'lab-*.service');
    run('systemctl', 'reset-failed');
    await agent.close();
    for (const close of closers) close();
    for (const file of fs.readdirSync(UNITS)) if (/^lab-.*\.service$/.test(file)) fs.rmSync(path.join(UNITS, file));
    run('systemctl', 'daemon-reload');
    swap.off();
  }
}

/** Who, and for what. */
function evictions(): readonly string[] {
  const history = run('nodewarden', 'history', '-o', 'json', '--evictions');
  const { decisions }: { readonly decisions: readonly DecisionRecord[] } = JSON.parse(history);
  return decisions
    .filter(({ outcomes }) => outcomes.every(({ kind }) => kind !== 'dropped'))
    .map(({ decision }) =>
      decision.kind === 'evict' ? `${decision.victim.name} for ${decision.threshold.signal}` : decision.kind,
    );
}

/** A new pod, known to the agent before it takes anything. */
function start(unit: Unit, guard: 'nodewarden' | Peer): void {
  writeUnit(unit);
  if (guard === 'nodewarden') fs.writeFileSync(`/etc/nodewarden/pods.d/${unit.name}.yaml`, manifestOf(unit));
  run('systemctl', 'daemon-reload');
  run('systemctl', 'start', unitOf(unit));
}

async function hogging(swap: Swap, guard: 'nodewarden' | Peer): Promise<Run & { readonly isDatabaseAlive: boolean }> {
  let isDatabaseAlive = false;
  const of = await play(swap, guard, async () => {
    const hog = await takes('hog', ['thrash', '100']);
    start(hog, guard);
    const samples = await watched([hog, DB], THRASHES_S);
    isDatabaseAlive = isActive(DB);
    return samples;
  });
  return { ...of, isDatabaseAlive };
}

/** What a run showed: how bad it was, who died, and how long after the stall was due. */
function saidOf({ samples, kernelKills }: Run): string {
  const due = dueMs(samples, STALL);
  const [hogMs, dbMs] = [endMs(samples, 0), endMs(samples, 1)];
  const fromMs = samples[0]?.atMs ?? 0;
  const after = (atMs: number): string =>
    due === null ? 'before the stall was due' : `${((atMs - due) / 1_000).toFixed(2)} s after the stall was due`;
  const died = [
    ...(hogMs === null ? [] : [`the hog, ${after(hogMs)}`]),
    ...(dbMs === null ? [] : [`the database, ${after(dbMs)}`]),
    ...(kernelKills > 0 ? [`by the kernel ${kernelKills}`] : []),
  ];
  const least = Math.min(...samples.map(({ availableShare }) => availableShare));
  const most = Math.max(...stallShares(samples, STALL));
  const swap = Math.min(...samples.map(({ freeSwapMiB }) => freeSwapMiB));
  const when = due === null ? 'never due' : `due ${seconds(due - fromMs)} after its start`;
  return `died: ${died.join(', ') || 'nobody'}; ${when}, stall that counts up to ${Math.round(most * 100)} % of 10 s, least available ${Math.round(least * 100)} %, least free swap ${Math.round(swap)} of ${SWAP_MIB} MiB`;
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

/** Any stall counts, however much is available: that of others would be a stall of the node in earnest. */
const capped = (swap: Swap): Check => ({
  name: `${swap.name}: a pod thrashes in a memory limit of its own: nobody is stopped`,
  times: Number(values.times),
  body: async () => {
    const stall = { ...STALL, belowShare: 0.99 };
    // So little more than its limit that the kernel takes what it reads back for its working set, and the wait for a stall.
    const pod: Unit = { name: 'capped', command: ['thrash', String(CAPPED_MIB), '100'], maxMiB: CAPPED_MIB - 16 };
    const other: Unit = { name: 'other', command: ['grow', '50', '100'] };
    let isRunning = false;
    const body = async (): Promise<readonly Sample[]> => {
      start(other, 'nodewarden');
      await sleep(clock, 15_000);
      start(pod, 'nodewarden');
      const samples = await watched([pod, DB, other], CAPPED_S);
      isRunning = [pod, other, DB].every(isActive);
      return samples;
    };
    const of = await play(swap, 'nodewarden', body, onStall(stall));
    const most = Math.max(...stallShares(of.samples, stall));
    const figures = `stall of the node up to ${Math.round(most * 100)} % of 10 s, evicted: ${of.evicted.join(', ') || 'nobody'}`;
    assert.deepEqual([of.evicted, of.kernelKills, isRunning], [[], 0, true], figures);
    assert(most >= stall.fullShare, `it would be due if the pod's own stall counted: ${figures}`);
    return figures;
  },
});

/** Swap fills before the memory is short: `swap.available` alone is crossed. */
const swapped = (swap: Swap): Check => ({
  name: `${swap.name}: a hog fills the swap beside a database within its request: it is stopped for swap.available`,
  times: Number(values.times),
  body: async () => {
    let isDatabaseAlive = false;
    const body = async (): Promise<readonly Sample[]> => {
      const hog = await takes('hog', ['grow', '100'], { leftShare: SWAPPED_SHARE });
      start(hog, 'nodewarden');
      const samples = await watched([hog, DB], THRASHES_S);
      isDatabaseAlive = isActive(DB);
      return samples;
    };
    const of = await play(swap, 'nodewarden', body, ON_SWAP);
    const free = Math.min(...of.samples.map(({ freeSwapMiB }) => freeSwapMiB));
    const figures = `least free swap ${Math.round(free)} of ${SWAP_MIB} MiB, evicted: ${of.evicted.join(', ') || 'nobody'}`;
    assert.deepEqual([of.evicted, of.kernelKills, isDatabaseAlive], [['hog for swap.available'], 0, true], figures);
    return figures;
  },
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
  capped(swap),
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
