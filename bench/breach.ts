import fs from 'node:fs';
import path from 'node:path';
import { sleep } from '../src/host/clock.ts';
import { startWorkload } from '../src/host/workload.ts';
import { clock, type Scene, until } from '../test/lab/scene.ts';

/** One hog from its start to its end. Times are CLOCK_MONOTONIC, as the hog itself wrote them down. */
export type Breach = {
  /** From the crossing to its last moment. */
  readonly reactionMs: number;
  /** From its last moment until the node has its memory again. */
  readonly backMs: number;
  readonly endedBy: 'peer' | 'kernel';
};
/** A file of the kernel with its limit: a number that rises above it, or MemAvailable that falls below. */
export type Watch = { readonly file: string; readonly limit: number };
export type BreachOrder = {
  readonly scene: Scene;
  readonly rate: string;
  readonly directory: string;
  /** Asked when the hog holds what it holds from the start. */
  readonly watch: () => Watch;
  /** With a /proc of its own: whoever enters that sees no other process to kill. */
  readonly isAlone: boolean;
  /** The pid of the hog, or of who started it alone, before it goes on. */
  readonly onReady: (pid: number, watch: Watch) => void;
};

const MIB = 1024 * 1024;
export const HOLD_MIB = 640;
const HOG = path.join(import.meta.dirname, 'hog.pl');
/** Page tables, caches and what the pods' shells leave. */
const BACK_BYTES = 16 * MIB;
const DEADLINE_MS = 120_000;
// The first process of a namespace is one that no killer would take.
const ALONE = ['/usr/bin/unshare', '--pid', '--fork', '--mount-proc', '--kill-child', '/bin/sh', '-c', '"$@"; :', 'sh'];

export async function breach(order: BreachOrder): Promise<Breach> {
  const { scene, rate, directory } = order;
  const usage = usageFile(scene);
  const before = readNumber(usage);
  const killsBefore = scene.kernelOomKills();
  const log = path.join(directory, 'hog.log');
  fs.rmSync(log, { force: true });
  const plan = path.join(directory, 'watch');
  fs.rmSync(plan, { force: true });
  let isReady = false;
  const hog = startWorkload({
    argv: [...(order.isAlone ? ALONE : []), '/usr/bin/perl', HOG, log, String(HOLD_MIB), rate],
    join: scene.cgroups('hog'),
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
    hog.write(`${watch.file} ${watch.limit}`);
    const backAtMs = await whenBack(usage, before + BACK_BYTES);
    const crossedMs = Number(/^crossed (\S+)/m.exec(fs.readFileSync(log, 'utf8'))?.[1]);
    const lastMs = Number(fs.readFileSync(`${log}.beat`, 'utf8'));
    const endedBy = scene.kernelOomKills() > killsBefore ? 'kernel' : 'peer';
    return { reactionMs: lastMs - crossedMs, backMs: backAtMs - lastMs, endedBy };
  } finally {
    hog.kill('SIGKILL');
  }
}

/** As often as a timer allows: it is measured. */
async function whenBack(usage: string, bytes: number): Promise<number> {
  const endsMs = clock.monoMs() + DEADLINE_MS;
  while (readNumber(usage) >= bytes) {
    if (clock.monoMs() > endsMs) throw new Error('the memory did not come back');
    await sleep(clock, 1);
  }
  return clock.monoMs();
}

/** What the node uses, all in all. */
export function usageFile(scene: Scene): string {
  const [first = ''] = scene.cgroups('hog');
  const node = path.dirname(first);
  const names = ['memory.current', 'memory.usage_in_bytes'];
  const name = names.find((one) => fs.existsSync(path.join(node, one)));
  if (name === undefined) throw new Error(`${node} has no memory controller`);
  return path.join(node, name);
}

export const readNumber = (file: string): number => Number(fs.readFileSync(file, 'latin1'));

/** Where the working set of the node leaves less than `thresholdBytes`, as usage: the two differ by inactive file pages. */
export function crossingOf(scene: Scene, capacityBytes: number, thresholdBytes: number): Watch {
  const file = usageFile(scene);
  const stat = fs.readFileSync(path.join(path.dirname(file), 'memory.stat'), 'latin1');
  const inactive = /^total_inactive_file (\d+)$/m.exec(stat) ?? /^inactive_file (\d+)$/m.exec(stat);
  return { file, limit: capacityBytes - thresholdBytes + Number(inactive?.[1]) };
}
