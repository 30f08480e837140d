// `npm run bench:footprint`, as root: what it costs to have the agent run. Memory and processor time at rest, time to READY,
// processor time with a node that sits just above a threshold and how fast the agent is when it then jumps; beside earlyoom,
// systemd-oomd (where systemd runs: `--guest` measures once more in a guest) and whatever runs already: `--pid kubelet=PID`.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { sleep } from '../src/host/clock.ts';
import { clock, type Scene, until, withScene } from '../test/lab/scene.ts';
import { cpuMsOf, type Memory, memoryOf } from './footprint/of.ts';
import {
  HTTP,
  idlePeers,
  PAGE_OPEN,
  type Running,
  startAgent,
  startBesideKubelet,
  startWithPages,
} from './footprint/peers.ts';
import { breach, crossingOf, readNumber, usageFile } from './reaction/breach.ts';
import { atMost, type Bar, barsTable, has, machine, quantile, sayMachine, table, writeResult } from './result.ts';

const { values } = parseArgs({
  options: {
    // How long each share of the processor is measured; before that, how long a new process may settle.
    seconds: { type: 'string', default: '60' },
    settle: { type: 'string', default: '90' },
    starts: { type: 'string', default: '7' },
    // How long the node sits just above its threshold before the first jump.
    sits: { type: 'string', default: '60' },
    // 0: without the part just above a threshold, and without bars.
    jumps: { type: 'string', default: '5' },
    // Of the node beside a kubelet; 0: without it.
    pods: { type: 'string', default: '110' },
    // NAME=PID of what runs already; may be given again.
    pid: { type: 'string', multiple: true, default: [] },
    guest: { type: 'boolean', default: false },
    result: { type: 'string', default: 'footprint' },
  },
});
const [seconds, settle] = [Number(values.seconds), Number(values.settle)];
const [starts, sits, jumps] = [Number(values.starts), Number(values.sits), Number(values.jumps)];
const pods = Number(values.pods);

const MIB = 1024 * 1024;
const NODE_MIB = 1_024;
const THRESHOLD_MIB = 200;
/** What the fastest plausible fill of two processors takes in 4 ms: the agent may rest no longer. */
const HEADROOM_MIB = 16;
/** Between the jumps: the minute's budget of processor time is still spent. */
const REST_MS = 5_000;
/** Where the kernel kills all the time. */
const MOST_AGAIN = 5;

type Idle = {
  readonly name: string;
  readonly memory: Memory;
  readonly helpers: readonly Memory[];
  readonly cpuShare: number;
  readonly startMs: readonly number[];
};
type Sitting = {
  readonly seconds: number;
  readonly headroomMiB: number;
  readonly cpuShare: number;
  /** Of each tenth of the time: looks are 2 ms apart until the minute's budget is spent, and code is compiled meanwhile. */
  readonly cpuShares: readonly number[];
  readonly rssMiB: number;
};
/** `lost`: jumps that it did not end, or not after the crossing. */
type Above = Sitting & { readonly lost: number; readonly jumpMs: readonly number[] };

/** Anywhere on the machine. */
const kernelKills = (): number => Number(/^oom_kill (\d+)$/m.exec(fs.readFileSync('/proc/vmstat', 'utf8'))?.[1]);

/** All side by side, in the same seconds; once more while the kernel kills somewhere, which the agent looks into. */
async function measureIdle(): Promise<readonly Idle[]> {
  const running: Running[] = [];
  try {
    running.push(await startAgent('nodewarden', starts));
    running.push(await startAgent('nodewarden, swap and stall', starts));
    if (pods > 0) running.push(await startBesideKubelet(pods, starts));
    if (pods > 0 && has('chromium')) running.push(...(await startWithPages(pods, starts)));
    else console.log('skipped the page: chromium is not installed, or there are no pods');
    for (const peer of idlePeers(starts)) {
      const one = await peer.start();
      if (typeof one === 'string') console.log(`skipped ${peer.name}: ${one}`);
      else running.push(one);
    }
    for (const given of values.pid) {
      const [name = '', pid = ''] = given.split('=');
      running.push({ name, pid: Number(pid), startMs: [], stop: async () => undefined });
    }
    await sleep(clock, settle * 1_000);
    let before = running.map(({ pid }) => markOf(pid));
    let kills = kernelKills();
    await sleep(clock, seconds * 1_000);
    for (let again = 0; again < MOST_AGAIN && kernelKills() !== kills; again++) {
      before = running.map(({ pid }) => markOf(pid));
      kills = kernelKills();
      await sleep(clock, seconds * 1_000);
    }
    if (kernelKills() !== kills)
      console.log('the kernel killed on this machine meanwhile: the shares hold what that cost');
    return running.map(({ name, pid, startMs }, i) => {
      const cpuShare = shareOf(before[i], markOf(pid));
      const [memory, ...helpers] = memoryOf(pid);
      if (memory === undefined) throw new Error(`${name} has ended`);
      return { name, memory, helpers, cpuShare, startMs };
    });
  } finally {
    for (const one of running) await one.stop();
  }
}

/** The node is filled up to a little less than the threshold and stays there; then it jumps, as fast as the machine can. */
async function measureAbove(): Promise<Above> {
  const pods = [{ name: 'hog' }, { name: 'bystander', priority: 1000, requestMiB: 64 }];
  const config = [
    `evictionHard: { memory.available: ${THRESHOLD_MIB}Mi }`,
    'guard: { sameOwnerKills: 0, window: 10m }',
  ];
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'nodewarden-bench-'));
  const sitting: Promise<Sitting>[] = [];
  const jumpMs: number[] = [];
  try {
    await withScene({ pods, config, memoryMiB: NODE_MIB }, false, async (scene) => {
      await scene.play('bystander', 'memory 32');
      const { pid } = (await scene.status()).node;
      const watch = () => crossingOf(scene, NODE_MIB * MIB, THRESHOLD_MIB * MIB);
      for (let i = 0; i < jumps; i++) {
        const restMs = i === 0 ? sits * 1_000 : REST_MS;
        const onReady = (): void => void (i === 0 && sitting.push(watchAbove(pid)));
        const order = { grounds: scene, directory, rate: 'max', holdMiB: holdOf(scene), stayMiB: null, restMs, watch };
        const { reactionMs, endedBy } = await breach({ ...order, isAlone: false, onReady });
        if (endedBy === 'peer' && reactionMs !== null) jumpMs.push(reactionMs);
        await until('the agent is done', async () => ((await scene.status()).act.kind === 'idle' ? true : null));
      }
    });
  } finally {
    fs.rmSync(directory, { recursive: true });
  }
  const [sat] = await Promise.all(sitting);
  if (sat === undefined) throw new Error('nothing was measured above the threshold');
  return { ...sat, lost: jumps - jumpMs.length, jumpMs };
}

async function watchAbove(pid: number): Promise<Sitting> {
  const marks = [markOf(pid)];
  for (let tenth = 0; tenth < 10; tenth++) {
    // Not into the jump.
    await sleep(clock, sits * 100 - 20);
    marks.push(markOf(pid));
  }
  const cpuShares = marks.slice(1).map((mark, i) => shareOf(marks[i], mark));
  const cpuShare = shareOf(marks[0], marks.at(-1));
  const rssMiB = memoryOf(pid)[0]?.rssMiB ?? Number.NaN;
  return { seconds: sits, headroomMiB: HEADROOM_MIB, cpuShare, cpuShares, rssMiB };
}

type Mark = { readonly atMs: number; readonly cpuMs: number };
const markOf = (pid: number): Mark => ({ atMs: clock.monoMs(), cpuMs: cpuMsOf(pid) });
/** Of one core, between the two. */
const shareOf = (from: Mark | undefined, to: Mark | undefined): number =>
  from === undefined || to === undefined ? Number.NaN : (to.cpuMs - from.cpuMs) / (to.atMs - from.atMs);

/** What the hog holds, so that so much is left to the crossing. Its interpreter and page tables are some of it. */
function holdOf(scene: Scene): number {
  const { limit } = crossingOf(scene, NODE_MIB * MIB, THRESHOLD_MIB * MIB);
  return Math.floor((limit - readNumber(usageFile(scene))) / MIB) - HEADROOM_MIB - 4;
}

const one = (value: number): string => (Number.isNaN(value) ? '-' : value.toFixed(1));
const percent = (share: number): string => `${(share * 100).toFixed(3)} %`;

function say(idle: readonly Idle[]): string {
  const head = ['at rest', 'RSS MiB', 'of it own', 'helpers', 'processor', 'start ms', 'most'];
  return table(
    head,
    idle.map(({ name, memory, helpers, cpuShare, startMs }) => [
      name,
      one(memory.rssMiB),
      one(memory.anonymousMiB),
      one(helpers.reduce((sum, { rssMiB }) => sum + rssMiB, 0)),
      percent(cpuShare),
      one(quantile(startMs, 0.5)),
      one(quantile(startMs, 1)),
    ]),
  );
}

function sayAbove({ seconds, headroomMiB, cpuShare, cpuShares, rssMiB, jumpMs, lost }: Above): string {
  const tenths = cpuShares.map((share) => (share * 100).toFixed(2)).join(', ');
  const sat = `${headroomMiB} MiB above a threshold for ${seconds} s: ${percent(cpuShare)} of a core (by tenths ${tenths}), RSS ${one(rssMiB)} MiB`;
  return `\n${sat}; then it jumps: ${jumpMs.map(one).join(', ')} ms, ${lost} lost\n`;
}

const withPart = (idle: readonly Idle[], part: string): Idle | undefined =>
  idle.find(({ name }) => name.includes(part));

/** Measured beside the same agent without it. */
function barsOfPage(idle: readonly Idle[]): readonly Bar[] {
  const [open, unseen] = [withPart(idle, PAGE_OPEN), withPart(idle, HTTP)];
  const without = idle.find(({ name }) => name === `nodewarden, ${pods} pods`);
  if (open === undefined || unseen === undefined || without === undefined) return [];
  const more = (unseen.cpuShare - without.cpuShare) * 100;
  return [
    atMost(`${open.name}: RSS`, 75, open.memory.rssMiB, 'MiB'),
    atMost(`${open.name}: processor`, 1, open.cpuShare * 100, '% of a core'),
    atMost(`${unseen.name}: processor, more than without http`, 0.02, Math.max(0, more), '% of a core'),
  ];
}

function barsOf(idle: readonly Idle[], above: Above): readonly Bar[] {
  const own = idle.find(({ name }) => name === 'nodewarden');
  if (own === undefined) throw new Error('the agent was not measured');
  return [
    atMost('RSS at rest', 60, own.memory.rssMiB, 'MiB'),
    atMost('processor far from every threshold', 0.1, own.cpuShare * 100, '% of a core'),
    atMost(`processor just above a threshold, ${above.seconds} s`, 1.5, above.cpuShare * 100, '% of a core'),
    atMost(
      `crossing to SIGKILL when it then jumps, median of ${above.jumpMs.length}`,
      10,
      quantile(above.jumpMs, 0.5),
      'ms',
    ),
    atMost(`start to READY, slowest of ${own.startMs.length}`, 500, quantile(own.startMs, 1), 'ms'),
    ...idle.filter(({ name }) => name.includes('mode kubelet')).flatMap(besideKubelet),
  ];
}

function besideKubelet({ name, memory, cpuShare, startMs }: Idle): readonly Bar[] {
  return [
    atMost(`${name}: RSS at rest`, 95, memory.rssMiB, 'MiB'),
    atMost(`${name}: processor far from every threshold`, 0.3, cpuShare * 100, '% of a core'),
    atMost(`${name}: start to READY, slowest of ${startMs.length}`, 500, quantile(startMs, 1), 'ms'),
  ];
}

async function main(): Promise<void> {
  // In the guest there is no bundler.
  if (values.guest)
    return (await import('./footprint/guest.ts')).measureInGuest([
      '--seconds',
      values.seconds,
      '--settle',
      values.settle,
      '--starts',
      values.starts,
    ]);
  const on = machine();
  console.log(sayMachine(on));
  const idle = await measureIdle();
  console.log(say(idle));
  const above = jumps > 0 ? await measureAbove() : null;
  if (above !== null) console.log(sayAbove(above));
  const bars = [...(above === null ? [] : barsOf(idle, above)), ...barsOfPage(idle)];
  if (bars.length > 0) console.log(barsTable(bars));
  const [loadAfter] = os.loadavg();
  writeResult(values.result, { on, loadAfter, settleSeconds: settle, seconds, idle, above, bars });
}
await main();
