// `npm run bench:http [-- --runs N --only NAME]`, as root: the reaction of bench:reaction at 250 MiB/s while clients ask the
// agent's port without pause.
import { type ChildProcess, spawn } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { sleep } from '../src/host/clock.ts';
import { clock, type Scene, until, withScene } from '../test/lab/scene.ts';
import { spread } from '../test/lab/spread.ts';
import { freePort, get, statusOf } from '../test/serve/a-web.ts';
import { cpuMsOf } from './footprint/of.ts';
import { breach, crossingOf } from './reaction/breach.ts';
import { atMost, type Bar, barsTable, machine, quantile, sayMachine, table, writeResult } from './result.ts';

const MIB = 1024 * 1024;
const NODE_MIB = 512;
const THRESHOLD_MIB = 200;
const HOLD_MIB = 160;
const LONGEST_REST_MS = 500;
/** Clients that ask at the same time, and how: client.mjs. */
const LOADS = [
  { name: 'nobody asks', clients: 0, how: 'none' },
  { name: 'one scraper without pause', clients: 1, how: 'scrapes' },
  { name: 'four scrapers without pause', clients: 4, how: 'scrapes' },
  { name: '5,000 silent connections, made again when cut', clients: 4, how: 'silent' },
  { name: 'sixteen times 2,000 requests in one packet', clients: 4, how: 'pipelined' },
  { name: 'garbage without pause', clients: 4, how: 'garbage' },
] as const;

const { values } = parseArgs({
  options: { runs: { type: 'string', default: '30' }, only: { type: 'string', default: '' } },
});
const runs = Number(values.runs);

type Row = {
  readonly load: string;
  readonly runs: number;
  /** Ended by the agent, after the crossing. */
  readonly inTime: number;
  readonly reactionMs: readonly number[];
  /** Of the agent, of one core, meanwhile. */
  readonly cpuShare: number;
  /** Scrapes that a client among them got answered within 5 s, of 5. */
  readonly answered: number;
};

async function measure({ name, clients, how }: (typeof LOADS)[number]): Promise<Row> {
  const port = await freePort();
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'nodewarden-bench-'));
  const config = [`evictionHard: { memory.available: ${THRESHOLD_MIB}Mi }`, `http: { listen: "127.0.0.1:${port}" }`];
  const asking: ChildProcess[] = [];
  const reactionMs: number[] = [];
  const row = { cpuShare: Number.NaN, answered: 0 };
  try {
    await withScene({ pods: [{ name: 'hog' }], config, memoryMiB: NODE_MIB }, false, async (scene) => {
      const client = path.join(import.meta.dirname, 'http/client.mjs');
      for (let i = 0; i < clients; i++) asking.push(spawn(process.execPath, [client, String(port), how]));
      await sleep(clock, 2_000);
      const { pid } = (await scene.status()).node;
      const [fromMs, fromCpuMs] = [clock.monoMs(), cpuMsOf(pid)];
      for (let run = 0; run < runs; run++) {
        const { reactionMs: ms, endedBy } = await once(scene, directory, run);
        if (endedBy === 'peer' && ms !== null) reactionMs.push(ms);
      }
      row.cpuShare = (cpuMsOf(pid) - fromCpuMs) / (clock.monoMs() - fromMs);
      for (let i = 0; i < 5; i++) {
        const answer = await Promise.race([get(port, '/metrics'), sleep(clock, 5_000)]);
        if (answer !== undefined && statusOf(answer) === 200) row.answered++;
      }
    });
  } finally {
    for (const child of asking) child.kill('SIGKILL');
    fs.rmSync(directory, { recursive: true });
  }
  return { load: name, runs, inTime: reactionMs.length, reactionMs, ...row };
}

async function once(scene: Scene, directory: string, run: number) {
  await until('the agent is done', async () => {
    const [last] = (await scene.status()).decisions.filter(({ kind }) => kind === 'evict');
    return last === undefined || last.outcome !== null ? true : null;
  });
  const restMs = spread(run) * LONGEST_REST_MS;
  const watch = () => crossingOf(scene, NODE_MIB * MIB, THRESHOLD_MIB * MIB);
  const order = { grounds: scene, directory, rate: '250', holdMiB: HOLD_MIB, stayMiB: null, restMs, watch };
  return await breach({ ...order, isAlone: false, onReady: () => undefined });
}

function barOf({ load, reactionMs, runs: asked, inTime }: Row): Bar {
  const all = [...reactionMs, ...Array.from({ length: asked - inTime }, () => Number.POSITIVE_INFINITY)];
  return atMost(`p99 of the reaction: ${load}`, 25, quantile(all, 0.99), 'ms');
}

const on = machine();
console.log(sayMachine(on));
const rows: Row[] = [];
for (const load of LOADS.filter(({ name }) => name.includes(values.only))) rows.push(await measure(load));
const figuresOf = ({ load, runs: asked, inTime, reactionMs, cpuShare, answered }: Row): readonly string[] => [
  load,
  `${inTime}/${asked}`,
  ...[0.5, 0.9, 0.99].map((q) => quantile(reactionMs, q).toFixed(1)),
  `${(cpuShare * 100).toFixed(1)} %`,
  `${answered}/5`,
];
console.log(table(['load', 'in time', 'median ms', 'p90', 'p99', 'agent', 'answered'], rows.map(figuresOf)));
const bars = rows.map(barOf);
console.log(barsTable(bars));
writeResult('http', { on, loadAfter: os.loadavg()[0], rows, bars });
