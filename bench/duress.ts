// `npm run bench:duress [-- --runs N --only NAME]`, as root, on cgroup v1: the reaction of bench:reaction at 250 MiB/s while
// the agent itself has nothing free.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { findCgroupMounts } from '../src/host/cgroup/cgroup-mounts.ts';
import { type Scene, until, withScene } from '../test/lab/scene.ts';
import { spread } from '../test/lab/spread.ts';
import { DURESSES, type Duress } from './duress/duresses.ts';
import { breach, crossingOf } from './reaction/breach.ts';
import type { Breach } from './reaction/series.ts';
import { atMost, type Bar, barsTable, machine, quantile, sayMachine, table, writeResult } from './result.ts';

const MIB = 1024 * 1024;
const NODE_MIB = 512;
const THRESHOLD_MIB = 200;
const HOLD_MIB = 160;
const RATE = '250';
const MOST_P99_MS = 100;
/** The last moments of a hog are spread over those of the agent's looks. */
const LONGEST_REST_MS = 500;
const RECORD_DEADLINE_MS = 20_000;

const { values } = parseArgs({
  options: { runs: { type: 'string', default: '50' }, only: { type: 'string', default: '' } },
});
const runs = Number(values.runs);

type Row = {
  readonly duress: string;
  readonly runs: number;
  /** The hog was ended by the agent, after it crossed, and the kernel killed nobody in the node. */
  readonly inTime: number;
  readonly reactionMs: readonly number[];
  /** Why runs are missing; empty: none are. */
  readonly broken: readonly string[];
  /** Evictions that were in the record in the end, each with its outcome, of those that were made. */
  readonly recorded: number;
};

async function measure(duress: Duress): Promise<Row> {
  const breaches: Omit<Breach, 'isOtherKilled'>[] = [];
  const broken: string[] = [];
  let recorded = 0;
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'nodewarden-bench-'));
  const config = [`evictionHard: { memory.available: ${THRESHOLD_MIB}Mi }`];
  try {
    duress.before?.(directory);
    await withScene({ pods: [{ name: 'hog' }], config, memoryMiB: NODE_MIB }, false, async (scene) => {
      const duressed = await duress.begin(scene, directory);
      try {
        for (let run = 0; run < runs; run++) {
          try {
            breaches.push(await once(scene, duressed.squeeze, directory, run));
          } catch (error) {
            broken.push(error instanceof Error ? error.message : String(error));
          }
        }
      } finally {
        await duressed.end();
      }
      const made = breaches.filter(({ endedBy }) => endedBy === 'peer').length;
      recorded = await recordedIn(scene, made);
      duressed.clear?.();
    });
  } finally {
    duress.after?.();
    fs.rmSync(directory, { recursive: true });
  }
  const mine = breaches.filter(({ endedBy, reactionMs }) => endedBy === 'peer' && reactionMs !== null);
  const reactionMs = mine.map((one) => one.reactionMs ?? 0).sort((a, b) => a - b);
  return { duress: duress.name, runs, inTime: mine.length, reactionMs, broken, recorded };
}

async function once(scene: Scene, squeeze: () => void, directory: string, run: number) {
  // The agent looks until the last one is proven gone; a hog that came sooner would be one of the same eviction.
  await until('the agent is idle', async () => ((await isIdle(scene)) ? true : null));
  return await breach({
    grounds: scene,
    rate: RATE,
    directory,
    holdMiB: HOLD_MIB,
    stayMiB: null,
    restMs: spread(run) * LONGEST_REST_MS,
    isAlone: false,
    watch: () => crossingOf(scene, NODE_MIB * MIB, THRESHOLD_MIB * MIB),
    onReady: squeeze,
  });
}

async function isIdle(scene: Scene): Promise<boolean> {
  const [last] = (await scene.status()).decisions.filter(({ kind }) => kind === 'evict');
  return last === undefined || last.outcome !== null;
}

/** Waits until so many evictions are on the disk, each with its outcome; counts what is there after a while. */
async function recordedIn(scene: Scene, made: number): Promise<number> {
  const count = (): number =>
    scene.history().decisions.filter(({ decision, outcomes }) => decision.kind === 'evict' && outcomes.length === 1)
      .length;
  await until('the record is whole', () => (count() >= made ? true : null), RECORD_DEADLINE_MS).catch(() => undefined);
  return count();
}

function say({ duress, runs: asked, inTime, reactionMs, recorded }: Row): readonly string[] {
  const figures = [0.5, 0.9, 0.99, 1].map((q) => quantile(reactionMs, q).toFixed(1));
  return [duress, `${inTime}/${asked}`, ...figures, String(recorded)];
}

function barOf({ duress, runs: asked, inTime, reactionMs, broken }: Row): Bar {
  // Who was not in time counts as later than everybody.
  const late = asked - inTime - broken.length;
  const all = [...reactionMs, ...Array.from({ length: late }, () => Number.POSITIVE_INFINITY)];
  return atMost(`p99 of the reaction: ${duress}`, MOST_P99_MS, quantile(all, 0.99), 'ms');
}

const on = machine();
console.log(sayMachine(on));
const mounts = findCgroupMounts();
if (!mounts.known || mounts.value.version !== 1)
  throw new Error('the duresses are made with the controllers of cgroup v1');
const rows: Row[] = [];
for (const duress of DURESSES.filter(({ name }) => name.includes(values.only))) {
  const row = await measure(duress);
  rows.push(row);
  console.log([...say(row), ...row.broken.slice(0, 1)].join('  '));
}
console.log(`\n${table(['duress', 'in time', 'median ms', 'p90', 'p99', 'most', 'recorded'], rows.map(say))}`);
const bars = rows.map(barOf);
console.log(`\n${barsTable(bars)}`);
writeResult('duress', { on, bars, rateMiB: RATE, thresholdMiB: THRESHOLD_MIB, nodeMiB: NODE_MIB, rows });
