import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { sleep } from '../../src/host/clock.ts';
import { clock, type Scene } from '../../test/lab/scene.ts';

/** Something that the agent is short of. */
export type Duress = {
  readonly name: string;
  /** Before the agent's first start. */
  readonly before?: (directory: string) => void;
  readonly after?: () => void;
  readonly begin: (scene: Scene, directory: string) => Promise<Duressed>;
};
type Duressed = {
  /** While the hog waits, before it goes on. */
  readonly squeeze: () => void;
  /** The agent has again what it was short of. */
  readonly end: () => Promise<void>;
  /** When the record was read. */
  readonly clear?: () => void;
};

const MIB = 1024 * 1024;
const THRASH = path.join(import.meta.dirname, 'thrash.pl');
/** As measured for the agent alone: RSS 60 MiB and as much of the interpreter's text. */
const AGENT_MIB = 200;
const THRASHED_MIB = 130;
const STREAMED_MIB = 400;
const BUSY_LOOPS = 200;
const FAVOURED_NICE = -15;
const SETTLE_MS = 1_000;
const nothing = (): void => undefined;

/** With a binary that nobody else runs: its pages are the agent's, and leave with it. */
const ownNode = {
  before: (directory: string): void => {
    const node = path.join(directory, 'node');
    fs.copyFileSync(process.execPath, node);
    // Its pages belong to whoever reads them first: not to this process, which wrote them.
    execFileSync('sync', [node]);
    dropCache(node);
    process.env['NODEWARDEN_NODE'] = node;
  },
  after: (): void => {
    delete process.env['NODEWARDEN_NODE'];
  },
};

function dropCache(file: string): void {
  // posix_fadvise(POSIX_FADV_DONTNEED), which dd says of what it has read.
  execFileSync('dd', [`if=${file}`, 'iflag=nocache', 'count=0'], { stdio: 'ignore' });
}

const pidOf = async (scene: Scene): Promise<number> => (await scene.status()).node.pid;

/** Starts the agent anew as a member of a cgroup of the controller: what it has is charged there from the beginning. */
async function startIn(scene: Scene, controller: 'memory' | 'pids', limits: { readonly [file: string]: string }) {
  const mount = `/sys/fs/cgroup/${controller}`;
  const own =
    new RegExp(`^\\d+:${controller}:(.*)$`, 'm').exec(fs.readFileSync('/proc/self/cgroup', 'utf8'))?.[1] ?? '/';
  const directory = `${mount}/nodewarden-duress-${process.pid}`;
  fs.mkdirSync(directory);
  for (const [file, value] of Object.entries(limits)) fs.writeFileSync(`${directory}/${file}`, value);
  await scene.agent.crash();
  fs.writeFileSync(`${directory}/cgroup.procs`, String(process.pid));
  try {
    await scene.agent.start();
  } finally {
    fs.writeFileSync(`${mount}${own}/cgroup.procs`, String(process.pid));
  }
  const leave = async (): Promise<void> => {
    for (const pid of fs.readFileSync(`${directory}/cgroup.procs`, 'utf8').trim().split('\n')) {
      if (pid !== '') fs.writeFileSync(`${mount}${own}/cgroup.procs`, pid);
    }
    await sleep(clock, 100);
    fs.rmdirSync(directory);
  };
  return { directory, leave };
}

async function memoryShort(scene: Scene, directory: string): Promise<Duressed> {
  const file = path.join(directory, 'streamed');
  execFileSync('dd', ['if=/dev/zero', `of=${file}`, 'bs=1M', `count=${STREAMED_MIB}`], { stdio: 'ignore' });
  const limit = String(AGENT_MIB * MIB);
  const cgroup = await startIn(scene, 'memory', { 'memory.limit_in_bytes': limit });
  const thrash = spawn('/bin/sh', [
    '-c',
    'echo $$ > "$1"; exec perl "$2" "$3" "$4"',
    'sh',
    `${cgroup.directory}/cgroup.procs`,
    THRASH,
    String(THRASHED_MIB),
    file,
  ]);
  await once(thrash.stdout, 'data');
  await sleep(clock, SETTLE_MS);
  return {
    squeeze: nothing,
    end: async () => {
      const gone = once(thrash, 'exit');
      thrash.kill('SIGKILL');
      await gone;
      await cgroup.leave();
    },
  };
}

/** A limit just above what cannot be reclaimed, for a moment: the kernel takes the interpreter's code. */
async function codeEvicted(scene: Scene): Promise<Duressed> {
  const cgroup = await startIn(scene, 'memory', {});
  await sleep(clock, SETTLE_MS);
  const limit = (bytes: number): void => fs.writeFileSync(`${cgroup.directory}/memory.limit_in_bytes`, String(bytes));
  return {
    squeeze: () => {
      const stat = fs.readFileSync(`${cgroup.directory}/memory.stat`, 'utf8');
      const rss = Number(/^rss (\d+)$/m.exec(stat)?.[1]);
      try {
        limit(rss + 12 * MIB);
      } catch {
        // EBUSY: less could be reclaimed than that; what could is gone.
      }
      limit(-1);
    },
    end: cgroup.leave,
  };
}

async function diskFull(scene: Scene): Promise<Duressed> {
  const { stateDirectory } = scene.agent.places;
  await scene.agent.crash();
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=16m,mode=0750', 'nodewarden-duress', stateDirectory]);
  const ballast = path.join(stateDirectory, 'ballast');
  spawnSync('dd', ['if=/dev/zero', `of=${ballast}`, 'bs=64K'], { stdio: 'ignore' });
  await scene.agent.start();
  return {
    squeeze: nothing,
    end: async () => {
      const before = scene.history().decisions.length;
      if (before > 0) throw new Error(`the disk was not full: ${before} decisions are on it`);
      fs.rmSync(ballast);
    },
    // The agent has its record open to the end.
    clear: () => void execFileSync('umount', ['--lazy', stateDirectory]),
  };
}

async function pidsFull(scene: Scene): Promise<Duressed> {
  const cgroup = await startIn(scene, 'pids', {});
  await sleep(clock, SETTLE_MS);
  fs.writeFileSync(`${cgroup.directory}/pids.max`, fs.readFileSync(`${cgroup.directory}/pids.current`, 'utf8'));
  return { squeeze: nothing, end: cgroup.leave };
}

async function processorsBusy(scene: Scene, isFavoured: boolean): Promise<Duressed> {
  const pid = await pidOf(scene);
  if (!isFavoured) execFileSync('chrt', ['--all-tasks', '--other', '--pid', '0', String(pid)]);
  // The hog, and who watches it, go before the loops: otherwise nobody would ever cross.
  os.setPriority(FAVOURED_NICE);
  const busy = ['-n', String(-FAVOURED_NICE), 'perl', '-e', '1 while 1'];
  const loops = Array.from({ length: BUSY_LOOPS }, () => spawn('nice', busy, { stdio: 'ignore' }));
  await sleep(clock, SETTLE_MS);
  return {
    squeeze: nothing,
    end: async () => {
      const gone = loops.map((loop) => once(loop, 'exit'));
      for (const loop of loops) loop.kill('SIGKILL');
      await Promise.all(gone);
      os.setPriority(0);
    },
  };
}

export const DURESSES: readonly Duress[] = [
  { name: 'nothing short', begin: async () => ({ squeeze: nothing, end: async () => undefined }) },
  { name: 'memory', ...ownNode, begin: memoryShort },
  { name: 'disk full', begin: diskFull },
  { name: 'pids full', begin: pidsFull },
  { name: '200 busy loops', begin: (scene) => processorsBusy(scene, true) },
  { name: '200 busy loops, no real-time', begin: (scene) => processorsBusy(scene, false) },
  { name: 'code pages evicted', ...ownNode, begin: codeEvicted },
];
