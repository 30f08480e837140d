import fs from 'node:fs';
import path from 'node:path';
import { sleep } from '../../src/host/clock.ts';
import { startWorkload } from '../../src/host/process/workload.ts';
import { clock, until } from '../../test/lab/scene.ts';
import type { Grounds } from './grounds.ts';
import type { Breach } from './series.ts';

/** A file of the kernel with its limit: a number that rises above it, or MemAvailable that falls below. */
export type Watch = { readonly file: string; readonly limit: number };
export type BreachOrder = {
  readonly grounds: Grounds;
  /** MiB a second, or "max". */
  readonly rate: string;
  /** Instead of "hog" the pod of a cgroup that it makes when it goes on, and that is gone with it. */
  readonly freshPod?: string;
  /** What the hog has before it goes on at that rate. */
  readonly holdMiB: number;
  /** So much beyond the crossing the hog stops to grow; null: never. */
  readonly stayMiB: number | null;
  /** Between its readiness and its going on, so that it crosses at any moment of who looks at a pace. */
  readonly restMs: number;
  readonly directory: string;
  /** Asked when the hog holds what it holds from the start. */
  readonly watch: () => Watch;
  /** With a /proc of its own: whoever enters that sees no other process to kill. */
  readonly isAlone: boolean;
  /** The pid of the hog, or of who started it alone, before it goes on. */
  readonly onReady: (pid: number, watch: Watch) => void;
};

const MIB = 1024 * 1024;
const HOG = path.join(import.meta.dirname, 'hog.pl');
/** Page tables, caches and what the pods' shells leave. */
const BACK_BYTES = 16 * MIB;
/** A step of the hog, and what the kernel counts late. */
const STEP_BYTES = 3 * MIB;
const DEADLINE_MS = 60_000;
// The first process of a namespace is one that no killer would take.
const ALONE = ['/usr/bin/unshare', '--pid', '--fork', '--mount-proc', '--kill-child', '/bin/sh', '-c', '"$@"; :', 'sh'];

/** One hog from its start until the node has its memory again. */
export async function breach(order: BreachOrder): Promise<Omit<Breach, 'isOtherKilled'>> {
  const { grounds, directory } = order;
  const usage = usageFile(grounds);
  const before = readNumber(usage);
  const killsBefore = await grounds.kernelOomKills();
  const cgroups = grounds.cgroups(order.freshPod ?? 'hog');
  const log = path.join(directory, 'hog.log');
  for (const file of [log, `${log}.beat`]) fs.rmSync(file, { force: true });
  let isReady = false;
  const hog = startWorkload({
    argv: [...(order.isAlone ? ALONE : []), '/usr/bin/perl', HOG, log, ...hogArguments(order)],
    join: order.freshPod === undefined ? cgroups : [],
    monoMs: clock.monoMs,
    line: (line) => {
      isReady ||= line === 'ready';
    },
  });
  if (typeof hog === 'string') throw new Error(hog);
  try {
    await until('the hog holds its memory', () => isReady || null);
    const watch = order.watch();
    order.onReady(hog.pid, watch);
    await sleep(clock, order.restMs);
    hog.write(`${watch.file} ${watch.limit} ${order.freshPod === undefined ? '' : cgroups.join(',')}`);
    // One that is fresh has taken nothing yet.
    while (readNumber(usage) < before + BACK_BYTES && hog.isAlive()) await sleep(clock, 1);
    let backAtMs = await whenBack(usage, before + BACK_BYTES);
    const endedBy = backAtMs === null ? 'nobody' : (await grounds.kernelOomKills()) > killsBefore ? 'kernel' : 'peer';
    hog.kill('SIGKILL');
    backAtMs ??= await whenBack(usage, before + BACK_BYTES);
    if (backAtMs === null) throw new Error('the memory did not come back');
    return { endedBy, ...readLog(log, watch, backAtMs) };
  } finally {
    hog.kill('SIGKILL');
    if (order.freshPod !== undefined) await removeCgroups(cgroups);
  }
}

/** A dying process keeps its cgroup for a moment. */
async function removeCgroups(directories: readonly string[]): Promise<void> {
  for (const directory of directories) {
    await until(`${directory} is empty`, () => {
      if (!fs.existsSync(directory)) return true;
      try {
        fs.rmdirSync(directory);
        return true;
      } catch {
        return null;
      }
    });
  }
}

const hogArguments = ({ holdMiB, rate, stayMiB }: BreachOrder): readonly string[] => [
  String(holdMiB),
  rate,
  ...(stayMiB === null ? [] : [String(stayMiB)]),
];

function readLog(log: string, { limit }: Watch, backAtMs: number): Pick<Breach, 'reactionMs' | 'backMs' | 'rateMiB'> {
  const text = fs.readFileSync(log, 'utf8');
  const wentMs = Number(/^went (\S+)/m.exec(text)?.[1]);
  const crossed = /^crossed (\S+) (\d+)/m.exec(text);
  const [beatMs = Number.NaN, value = Number.NaN] = fs
    .readFileSync(`${log}.beat`, 'utf8')
    .trim()
    .split(/\s+/)
    .map(Number);
  if (crossed !== null) {
    const crossedMs = Number(crossed[1]);
    // One that the kernel holds back may be ended before it writes down anything after the crossing.
    const lastMs = Math.max(beatMs, crossedMs);
    const rateMiB = Number(crossed[2]) / MIB / ((crossedMs - wentMs) / 1000);
    return { reactionMs: lastMs - crossedMs, backMs: backAtMs - lastMs, rateMiB };
  }
  const backMs = backAtMs - beatMs;
  // Ended within the step that crossed; else it was ended without a reason.
  return { reactionMs: Math.abs(limit - value) < STEP_BYTES ? 0 : null, backMs, rateMiB: null };
}

/** As often as a timer allows: it is measured. Null: not within the deadline. */
async function whenBack(usage: string, bytes: number): Promise<number | null> {
  const endsMs = clock.monoMs() + DEADLINE_MS;
  while (readNumber(usage) >= bytes) {
    if (clock.monoMs() > endsMs) return null;
    await sleep(clock, 1);
  }
  return clock.monoMs();
}

/** What the node uses, all in all. */
export function usageFile(grounds: Grounds): string {
  const node = nodeDirectory(grounds);
  const names = ['memory.current', 'memory.usage_in_bytes'];
  const name = names.find((one) => fs.existsSync(path.join(node, one)));
  if (name === undefined) throw new Error(`${node} has no memory controller`);
  return path.join(node, name);
}

export const nodeDirectory = (grounds: Grounds): string => path.dirname(grounds.cgroups('hog')[0] ?? '');
export const readNumber = (file: string): number => Number(fs.readFileSync(file, 'latin1'));

/** Where the working set of the node leaves less than `thresholdBytes`, as usage: the two differ by inactive file pages. */
export function crossingOf(grounds: Grounds, capacityBytes: number, thresholdBytes: number): Watch {
  const file = usageFile(grounds);
  const stat = fs.readFileSync(path.join(path.dirname(file), 'memory.stat'), 'latin1');
  const inactive = /^total_inactive_file (\d+)$/m.exec(stat) ?? /^inactive_file (\d+)$/m.exec(stat);
  return { file, limit: capacityBytes - thresholdBytes + Number(inactive?.[1]) };
}
