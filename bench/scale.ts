// `npx tsx bench/scale.ts [--only look|rank|status|disk]`, as root, on the built program: what many pods cost.
import { parseArgs } from 'node:util';
import { barsTable, machine, sayMachine, table, writeResult } from './result.ts';
import { barsOf, type Parts } from './scale/bars.ts';
import { type DiskRow, measureWalks } from './scale/disk.ts';
import { type LookRow, measureLooks, type Timed } from './scale/look.ts';
import { type RankRow, rankingOfNewProcess } from './scale/rank.ts';
import { measureStatus, type StatusRow } from './scale/status.ts';

const PODS = [10, 110, 500, 1_000];
const RANKED = [1_000, 10_000];
const STATUS_PODS = 500;
const DISK_PODS = 110;
const DISK_ROUNDS = 3;

const { values } = parseArgs({
  options: {
    only: { type: 'string', default: '' },
    pods: { type: 'string', default: PODS.join(',') },
    files: { type: 'string', default: '1000000' },
  },
});
const pods = values.pods.split(',').map(Number);

const tenths = (value: number): string => value.toFixed(value < 10 ? 2 : 0);

function sayLooks(rows: readonly LookRow[]): string {
  const head = [
    'pods',
    'are',
    'files',
    'kept',
    'look us',
    'p99',
    'us/pod',
    'C, kept',
    'times',
    'of CPU',
    'C, anew',
    'times',
    'of CPU',
  ];
  const against = (row: LookRow, peer: Timed | null): readonly string[] =>
    peer === null
      ? ['no gcc', '-', '-']
      : [tenths(peer.us), tenths(row.look.us / peer.us), tenths(row.look.cpuUs / peer.cpuUs)];
  const line = (row: LookRow): readonly string[] => [
    String(row.pods),
    row.shape,
    String(row.files),
    String(row.filesKept),
    tenths(row.look.us),
    tenths(row.p99Us),
    tenths(row.look.us / row.pods),
    ...against(row, row.kept),
    ...against(row, row.anew),
  ];
  return table(head, rows.map(line));
}

function sayRanking(rows: readonly RankRow[]): string {
  const line = ({ pods: count, firstMs, medianMs, p99Ms, cpuMs }: RankRow): readonly string[] => [
    String(count),
    ...[firstMs, medianMs, p99Ms, cpuMs].map(tenths),
  ];
  return table(['pods ranked', 'first ms', 'median', 'p99', 'of CPU'], rows.map(line));
}

function sayStatus(row: StatusRow): string {
  const head = ['pods', 'KiB', 'first ms', 'median', 'p99', 'command ms', 'of it start'];
  const { firstMs, medianMs, p99Ms, commandMs, startMs } = row;
  const cells = [firstMs, medianMs, p99Ms, commandMs, startMs].map(tenths);
  return table(head, [[String(row.pods), String(row.answerKiB), ...cells]]);
}

function sayWalks(row: DiskRow): string {
  const head = [
    'pods',
    'files',
    'round s',
    'CPU s',
    'of agent',
    'oldest s',
    'late ms',
    'p99',
    'most',
    'idle p99',
    'most',
  ];
  const { roundSeconds, cpuSecondsOfChild, cpuSecondsOfAgent, oldestSeconds, gapMedianMs, gapP99Ms, gapMostMs } = row;
  const seconds = [roundSeconds, cpuSecondsOfChild, cpuSecondsOfAgent, oldestSeconds];
  const late = [gapMedianMs, gapP99Ms, gapMostMs, row.idleGapP99Ms, row.idleGapMostMs];
  return table(head, [[String(row.pods), String(row.files), ...[...seconds, ...late].map(tenths)]]);
}

const on = machine();
console.log(sayMachine(on));
const isWanted = (part: string): boolean => values.only === '' || values.only === part;
let parts: Parts = {};

// First, and each in a process of its own: "first" is of one that has ranked nothing yet.
if (isWanted('rank')) {
  const rows = RANKED.map(rankingOfNewProcess);
  console.log(`\n${sayRanking(rows)}`);
  parts = { ...parts, rank: rows };
}
if (isWanted('look')) {
  const rows = await measureLooks(pods, ['unit', 'pod']);
  console.log(`\n${sayLooks(rows)}`);
  parts = { ...parts, look: rows };
}
if (isWanted('status')) {
  const row = await measureStatus(STATUS_PODS);
  console.log(`\n${sayStatus(row)}`);
  parts = { ...parts, status: row };
}
if (isWanted('disk')) {
  const row = await measureWalks(DISK_PODS, Number(values.files), DISK_ROUNDS);
  console.log(`\n${sayWalks(row)}`);
  parts = { ...parts, disk: row };
}
const bars = barsOf(parts);
console.log(`\n${barsTable(bars)}`);
// A run of one part is no result of the whole.
if (values.only === '') writeResult('scale', { on, bars, ...parts });
