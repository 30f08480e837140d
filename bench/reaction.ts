// `npm run bench:reaction`, as root: from the moment in which a hog crosses a hard threshold of 200Mi to its last moment,
// and until the memory is back: for this agent and for others, in turn. `bench:guest` runs it in a guest as well.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { clock, type PodSpec, withScene } from '../test/lab/scene.ts';
import { spread } from '../test/lab/spread.ts';
import { breach } from './reaction/breach.ts';
import { fsyncMedianMs } from './reaction/fsync.ts';
import { type Grounds, startBystander, withGrounds } from './reaction/grounds.ts';
import { type NodeSize, PEERS, type Peer } from './reaction/peers.ts';
import {
  BARE,
  type Breach,
  barsOf,
  EARLYOOM,
  FRESH,
  PRODUCT,
  type Row,
  reactionOf,
  rowOf,
  SLOW,
} from './reaction/series.ts';
import { barsTable, machine, quantile, sayMachine, table, writeResult } from './result.ts';

const { values } = parseArgs({
  options: {
    // Of nodewarden and earlyoom, at each of `rates`.
    runs: { type: 'string', default: '100' },
    rates: { type: 'string', default: '50,250,1024,max' },
    // Of the others, and of all at the rates that only the curve has.
    few: { type: 'string', default: '20' },
    curve: { type: 'string', default: '10' },
    // With a hog that crosses and stays.
    stays: { type: 'string', default: '10' },
    // A part of the name of a peer.
    only: { type: 'string', default: '' },
    'node-mib': { type: 'string', default: '1024' },
    result: { type: 'string', default: 'reaction' },
    emulated: { type: 'boolean', default: false },
  },
});
const size: NodeSize = { nodeMiB: Number(values['node-mib']), thresholdMiB: 200 };
const list = (text: string): readonly string[] => text.split(',').filter((one) => one !== '');
const [runs, few, stays] = [Number(values.runs), Number(values.few), Number(values.stays)];

/** What is used before the hog: the bystander, the hog itself and what the kernel keeps of earlier ones. */
const REST_MIB = 48;
const BYSTANDER_MIB = 32;
/** From what the hog holds to the crossing: so much time at a slow rate, so much memory at a fast one. */
const WAY_SECONDS = 1.2;
const MOST_WAY_MIB = 150;
const STAYING = { rate: '250', beyondMiB: 8 };
/** What has a pace of 100 ms meets the crossing at every moment of it. */
const LONGEST_REST_MS = 200;
/** More than a mishap: what is measured until then is told. */
const MOST_BROKEN = 5;

/** One row of the result to be. */
type Plan = { readonly peer: Peer; readonly rate: string; readonly isStaying: boolean; readonly runs: number };
/** With an agent that acts, and without any. */
type Nodes = { readonly watched: Grounds; readonly bare: Grounds };

function plans(peers: readonly Peer[]): readonly Plan[] {
  const all: Plan[] = [];
  const often = [PRODUCT, FRESH, EARLYOOM];
  for (const rate of list(values.rates)) {
    for (const peer of peers.filter(({ fresh }) => fresh === undefined || fresh.rates.includes(rate))) {
      const most = often.includes(peer.name) ? runs : Math.min(runs, few);
      all.push({ peer, rate, isStaying: false, runs: most });
    }
  }
  const ofCurve = peers.filter(({ name, fresh }) => name !== BARE && fresh === undefined);
  for (const rate of list(values.curve)) {
    for (const peer of ofCurve) all.push({ peer, rate, isStaying: false, runs: few });
  }
  for (const peer of peers.filter(({ name }) => name === PRODUCT || name === SLOW)) {
    all.push({ peer, rate: STAYING.rate, isStaying: true, runs: stays });
  }
  return all.filter((plan) => plan.runs > 0);
}

const pods: readonly PodSpec[] = [
  { name: 'hog' },
  { name: 'fresh', isLate: true },
  { name: 'bystander', priority: 1000, requestMiB: 2 * BYSTANDER_MIB },
];
const POD_NAMES = pods.filter(({ isLate }) => isLate !== true).map(({ name }) => name);
const config = [
  `evictionHard: { memory.available: ${size.thresholdMiB}Mi }`,
  'guard: { sameOwnerKills: 0, window: 10m }',
  // The budget of a minute is meant for one breach, not for twenty.
  'monitoringInterval: { min: 2ms, max: 10s, cpu: 100% }',
];

async function run(plan: Plan, index: number, nodes: Nodes): Promise<Breach> {
  const { peer } = plan;
  if (!peer.isNodeFresh) return await runIn(peer.isAgent ? nodes.watched : nodes.bare, plan, index);
  let result: Breach | null = null;
  await withGrounds(size.nodeMiB, POD_NAMES, async (grounds) => {
    result = await runIn(grounds, plan, index);
  });
  if (result === null) throw new Error('a node without a run');
  return result;
}

async function runIn(grounds: Grounds, { peer, rate, isStaying }: Plan, index: number): Promise<Breach> {
  const isFresh = peer.fresh !== undefined;
  const bystander = await startBystander(grounds.cgroups('bystander'), BYSTANDER_MIB);
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'nodewarden-bench-'));
  const phase = spread(index + 1);
  let stop = (): void => undefined;
  try {
    const ended = await breach({
      grounds,
      rate,
      directory,
      ...(isFresh ? { freshPod: 'fresh' } : {}),
      // One that is fresh takes all of it at its rate.
      holdMiB: isFresh ? 0 : Math.round(size.nodeMiB - size.thresholdMiB - REST_MIB - wayMiB(rate)),
      stayMiB: isStaying ? STAYING.beyondMiB : null,
      restMs: phase * LONGEST_REST_MS,
      isAlone: peer.isHogAlone,
      watch: () => peer.watch(grounds, size),
      onReady: (pid, watch) => {
        stop = peer.beside(pid, watch, { grounds, phase });
      },
    });
    return { ...ended, isOtherKilled: !bystander.isAlive() };
  } finally {
    stop();
    bystander.end();
    fs.rmSync(directory, { recursive: true });
  }
}

const wayMiB = (rate: string): number =>
  rate === 'max' ? MOST_WAY_MIB : Math.min(MOST_WAY_MIB, Number(rate) * WAY_SECONDS);

type Measured = { readonly rows: readonly Row[]; readonly broken: readonly string[] };

/** In rounds, so that what else the machine does meets all alike. What broke some runs leaves the others as they are. */
async function measure(todo: readonly Plan[]): Promise<Measured> {
  const breaches = todo.map((): Breach[] => []);
  const takenMs = todo.map(() => 0);
  const broken: string[] = [];
  const rounds = Math.max(...todo.map((plan) => plan.runs));
  const turn = async (plan: Plan, i: number, nodes: Nodes): Promise<void> => {
    const startMs = clock.monoMs();
    try {
      breaches[i]?.push(await run(plan, breaches[i].length, nodes));
    } catch (error) {
      broken.push(`${plan.peer.name} at ${plan.rate}: ${error instanceof Error ? error.message : String(error)}`);
      console.error(broken.at(-1));
    }
    takenMs[i] = (takenMs[i] ?? 0) + clock.monoMs() - startMs;
  };
  const sayLeft = (done: number): void => {
    const left = todo.map((plan, i) => {
      const count = breaches[i]?.length ?? 0;
      return count === 0 ? plan.runs * 3_000 : ((takenMs[i] ?? 0) / count) * (plan.runs - count);
    });
    const minutes = left.reduce((sum, ms) => sum + ms, 0) / 60_000;
    console.error(`${done} of ${rounds} rounds; some ${minutes.toFixed(minutes < 10 ? 1 : 0)} minutes to go`);
  };
  const inRounds = async (watched: Grounds): Promise<void> => {
    await withGrounds(size.nodeMiB, POD_NAMES, async (bare) => {
      for (let round = 0; round < rounds && broken.length < MOST_BROKEN; round++) {
        for (const [i, plan] of todo.entries()) {
          // The few are spread over all rounds.
          if (Math.floor((round * plan.runs) / rounds) === Math.floor(((round + 1) * plan.runs) / rounds)) continue;
          await turn(plan, i, { watched, bare });
        }
        if ((round & (round + 1)) === 0 || round % 10 === 9) sayLeft(round + 1);
      }
    });
  };
  const isAgentWanted = todo.some(({ peer }) => peer.isAgent);
  if (isAgentWanted) await withScene({ pods, config, memoryMiB: size.nodeMiB }, false, inRounds);
  else await withGrounds(size.nodeMiB, POD_NAMES, inRounds);
  const rows = todo.map((plan, i) => rowOf(plan.peer.name, plan.rate, plan.isStaying, breaches[i] ?? []));
  return { rows, broken };
}

const HEAD = [
  'who',
  'MiB/s',
  'measured',
  'in time',
  'uncrossed',
  'kernel',
  'median ms',
  'p90',
  'p99',
  'most',
  'back ms',
  'p99',
];
const tenths = (value: number): string => (Number.isNaN(value) ? '-' : value.toFixed(value < 10 ? 1 : 0));
function say(row: Row): readonly string[] {
  const reactions = [0.5, 0.9, 0.99, 1].map((q) => reactionOf(row, q));
  return [
    row.peer,
    row.isStaying ? `${row.rate}, stays` : row.rate,
    row.rateMiB === null ? '-' : String(row.rateMiB),
    `${row.inTime}/${row.runs}`,
    String(row.uncrossed),
    String(row.kernelKills),
    ...reactions.map(({ ms, isAtLeast }) => `${isAtLeast ? '>' : ''}${tenths(ms)}`),
    ...[0.5, 0.99].map((q) => tenths(quantile(row.backMs, q))),
  ];
}

const on = machine();
console.log(sayMachine(on));
const skipped = PEERS.flatMap(({ name, missing }) => {
  const why = missing();
  return why === null ? [] : [{ name, why }];
});
for (const { name, why } of skipped) console.log(`skipped ${name}: ${why}`);
const peers = PEERS.filter(({ name, missing }) => name.includes(values.only) && missing() === null);
const fsyncMs = await fsyncMedianMs(os.tmpdir());
console.log(`a line of the record is on the disk after ${fsyncMs.toFixed(2)} ms, median`);
const { rows, broken } = await measure(plans(peers));
const bars = barsOf(rows, values.emulated, fsyncMs);
console.log(`\n${table(HEAD, rows.map(say))}\n\n${barsTable(bars)}`);
console.log('\n">": runs that the kernel ended count with the time until then, so the true figure is longer.');
for (const why of broken) console.log(`broken: ${why}`);
writeResult(values.result, { on, bars, fsyncMs, ...size, skipped, broken, rows });
process.exitCode = broken.length === 0 ? 0 : 1;
