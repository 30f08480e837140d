import { type ChildProcess, spawn } from 'node:child_process';
import type { OpenFiles, SharedFiles, WalkedDirectory, WalkedRound } from '../../core/pod/disk-walk.ts';
import { known, type MonoMs, type Reading, unknown } from '../../core/reading.ts';
import type { Clock } from '../../ports.ts';
import { letGo, startChild } from '../child-process.ts';
import { WALK_PROGRAM } from './disk-walk-program.ts';

/** `isComplete` false: the walk was cut short, and the figures mean "at least". */
export type WalkedDisk = {
  readonly bytes: number;
  readonly inodes: number;
  readonly directories: readonly WalkedDirectory[];
  readonly isComplete: boolean;
};
export type DiskWalker = {
  /**
   * What the directories hold together: st_blocks and inodes, a file with several names once. Never follows a symbolic
   * link, never leaves the file system of each directory, opens no file. A directory that does not exist holds nothing;
   * one that cannot be opened makes the whole sum unknown. Stops after a minute with `isComplete` false. `soFar` is called
   * from time to time with what was counted so far, which is a lower bound. A child that hangs in the kernel gets SIGKILL, and
   * another one walks the other paths, again with `isComplete` false; the promise stays open until the first one is gone, and the
   * caller has a deadline (observe/pod-disk.ts).
   */
  readonly walk: (
    paths: readonly string[],
    soFar?: (least: WalkedDisk) => void,
    /** `several`: those of the paths that several pods have. */
    of?: OfRound & { readonly several: readonly string[] },
    /** What was created before is not fresh. */
    freshSinceMs?: MonoMs,
  ) => Promise<Reading<WalkedDisk>>;
  /**
   * Files held open by all processes below the directory of a cgroup, which must have that inode. Bounded in processes,
   * files and time.
   */
  readonly openFiles: (cgroup: string, inode: number, of?: OfRound) => Promise<Reading<OpenFiles>>;
  /**
   * Of what the walk and `openFiles` found for the pod in the round, the files that other pods of the round have, too.
   */
  readonly shared: (pod: string, walked: WalkedRound) => Promise<Reading<readonly SharedFiles[]>>;
  /**
   * What fills the file system of the directory, `by` bytes or inodes: the deepest directories that hold at least `least`, not
   * counting reported ones below them, and last the rest. The same guarantees as `walk`.
   */
  readonly survey: (path: string, by: 'bytes' | 'inodes', least: number) => Promise<Reading<DiskSurvey>>;
  readonly close: () => void;
};
/** What is found is remembered until the next round. */
type OfRound = { readonly round: number; readonly pod: string };
export type DiskSurvey = {
  readonly directories: readonly SurveyedDirectory[];
  /** The rest, outside all reported directories. */
  readonly elsewhere: SurveyedDirectory;
  readonly isComplete: boolean;
};
export type SurveyedDirectory = {
  /** As its owner chose it. */
  readonly path: string;
  readonly bytes: number;
  readonly inodes: number;
  /** The user that owns most of it. */
  readonly uid: number;
};

/** Starting a child takes some 40 ms of CPU, so one serves a whole round. It uses some 45 MiB while it lives. */
const IDLE_MS = 1_000;
/**
 * The child reports after each slice of 5 ms. A slow disk may need long for a directory; a dead mount never answers.
 */
const USUAL: WalkBounds = { deadlineMs: 60_000, silentMs: 10_000, maxLinked: 100_000 };
/** Processes and what they hold open are few beside files. */
const OPEN_FILES_MS = 5_000;
const MAX_LINE = 64 * 1024;
/** A small young generation suffices: the child keeps nothing for long. */
const FLAGS = ['--max-semi-space-size=1', '--max-old-space-size=64', '--v8-pool-size=1'];

/**
 * `deadlineMs`: for one walk. `silentMs`: a child that reports nothing for this long hangs. `maxLinked`: how many files with
 * several names are remembered, of small and of large ones each.
 */
type WalkBounds = { readonly deadlineMs: number; readonly silentMs: number; readonly maxLinked: number };
/** What the child counted so far, in its own format. */
type Counts = readonly (readonly number[])[];
type Answer = { readonly counts: Counts; readonly found: readonly SurveyedDirectory[]; readonly isComplete: boolean };
type Asked = {
  readonly soFar: (counts: Counts) => void;
  /** The path that the child was at when it hung. */
  readonly hungAt: (path: number) => void;
  /** Of several paths, that it is at; null: not yet. */
  at: number | null;
  readonly resolve: (reading: Reading<Answer>) => void;
};
type Walking = { readonly child: ChildProcess; readonly asked: Map<number, Asked>; cancelTimer: () => void };

/**
 * Walks directories in a child process, which exists only while it is needed: a synchronous call per file costs a tenth of a
 * trip through the thread pool, and a file system that hangs blocks only the child.
 */
export function createDiskWalker(clock: Clock, bounds: Partial<WalkBounds> = {}): DiskWalker {
  const { deadlineMs, silentMs, maxLinked } = { ...USUAL, ...bounds };
  let current: Walking | null = null;
  let lastId = 0;

  const leave = (walking: Walking): void => {
    walking.cancelTimer();
    if (current === walking) current = null;
  };
  /** Waits for the next report or, if idle, for the next request. */
  const expect = (walking: Walking): void => {
    walking.cancelTimer();
    const isIdle = walking.asked.size === 0;
    walking.cancelTimer = clock.after(isIdle ? IDLE_MS : silentMs, () => {
      leave(walking);
      if (isIdle) walking.child.stdin?.end();
      else {
        for (const { at, hungAt } of walking.asked.values()) if (at !== null) hungAt(at);
        walking.child.kill('SIGKILL');
      }
    });
  };
  const start = (): Walking | string => {
    const args = [...FLAGS, '--eval', WALK_PROGRAM];
    const child = startChild(
      (): ChildProcess => spawn(process.execPath, args, { cwd: '/', env: {}, stdio: ['pipe', 'pipe', 'ignore'] }),
    );
    if (typeof child === 'string') return child;
    const walking: Walking = { child, asked: new Map(), cancelTimer: () => undefined };
    const end = (detail: string): void => {
      leave(walking);
      for (const { resolve } of walking.asked.values()) resolve(unknown('unreadable', 'disk walk', detail));
      walking.asked.clear();
    };
    child.on('error', (cause) => end(cause.message));
    child.on('exit', (code, signal) => end(`the child that walks directories ended with ${signal ?? code}`));
    // Its input breaks if it ends first.
    child.stdin?.on('error', () => undefined);
    eachLine(child, (line) => {
      if (hear(walking, line)) expect(walking);
    });
    // The agent must not wait for a walk when it ends.
    letGo(child);
    return walking;
  };

  const ask = (
    question: object,
    soFar: Asked['soFar'] = () => undefined,
    hungAt: Asked['hungAt'] = () => undefined,
  ): Promise<Parameters<Asked['resolve']>[0]> =>
    new Promise((resolve) => {
      const walking = current ?? start();
      if (typeof walking === 'string') return resolve(unknown('unreadable', 'disk walk', walking));
      current = walking;
      const id = ++lastId;
      walking.asked.set(id, { soFar, hungAt, at: null, resolve });
      walking.child.stdin?.write(`${JSON.stringify({ id, ...question })}\n`);
      expect(walking);
    });

  return {
    walk: async (paths, soFar = () => undefined, of, freshSinceMs) => {
      const createdSinceMs = freshSinceMs === undefined ? 0 : clock.wallMs() - clock.monoMs() + freshSinceMs;
      const walkAll = async (asked: readonly string[]): Promise<Reading<WalkedDisk>> => {
        const question = { paths: asked, deadlineMs, maxLinked, createdSinceMs, ...of };
        const hung = new Set<number>();
        const answer = await ask(
          question,
          (counts) => soFar(walkedOf(asked, counts, false)),
          (at) => hung.add(at),
        );
        if (answer.known) return known(walkedOf(asked, answer.value.counts, answer.value.isComplete));
        if (hung.size === 0) return answer;
        const others = await walkAll(asked.filter((_, at) => !hung.has(at)));
        return others.known ? known({ ...others.value, isComplete: false }) : others;
      };
      return walkAll(paths);
    },
    openFiles: async (cgroup, inode, of) => {
      const question = { cgroup, inode, deadlineMs: Math.min(deadlineMs, OPEN_FILES_MS), maxLinked, ...of };
      const answer = await ask(question);
      if (!answer.known) return answer;
      const { counts, isComplete } = answer.value;
      const devices = counts.map(([device = 0, bytes = 0, inodes = 0]) => ({ device, bytes, inodes }));
      return known({ devices, isComplete });
    },
    shared: async (pod, { number, walks, isWhole }) => {
      const answer = await ask({ round: number, pod, walks, isWhole });
      return answer.known ? known(sharedOf(answer.value.counts)) : answer;
    },
    survey: async (path, by, least) => {
      const answer = await ask({ survey: path, by, least, deadlineMs, maxLinked });
      if (!answer.known) return answer;
      const directories = answer.value.found.slice(0, -1);
      const elsewhere = answer.value.found.at(-1) ?? { path, bytes: 0, inodes: 0, uid: 0 };
      return known({ directories, elsewhere, isComplete: answer.value.isComplete });
    },
    close: () => {
      if (current === null) return;
      current.child.kill('SIGKILL');
      leave(current);
    },
  };
}

function walkedOf(paths: readonly string[], counts: Counts, isComplete: boolean): WalkedDisk {
  const directories = counts.map(
    ([
      at = 0,
      device = 0,
      inode = 0,
      ownBytes = 0,
      bytes = 0,
      inodes = 0,
      freshBytes = 0,
      freshInodes = 0,
      ...linked
    ]) => {
      const [linkedBytes = 0, linkedInodes = 0] = linked;
      const path = paths[at] ?? '';
      return { path, device, inode, bytes, inodes, ownBytes, freshBytes, freshInodes, linkedBytes, linkedInodes };
    },
  );
  const sum = (count: 'bytes' | 'inodes'): number => directories.reduce((total, of) => total + of[count], 0);
  return { bytes: sum('bytes'), inodes: sum('inodes'), directories, isComplete };
}

function sharedOf(counts: Counts): readonly SharedFiles[] {
  return counts.map(([device = 0, inode = 0, ...numbers]) => {
    return { device, inode, unattributed: fileCounts(numbers.slice(0, 4)), others: fileCounts(numbers.slice(4)) };
  });
}

const fileCounts = ([bytes = 0, inodes = 0, freshBytes = 0, freshInodes = 0]: readonly number[]) => ({
  ...{ bytes, inodes, freshBytes, freshInodes },
});

/** False: not a line of our child. */
function hear({ child, asked }: Walking, line: string): boolean {
  const said = parse(line);
  const asker = said === null ? undefined : asked.get(said.id);
  if (said === null || asker === undefined) {
    child.kill('SIGKILL');
    return false;
  }
  if (said.kind === 'at') {
    asker.at = said.path;
    return true;
  }
  if (said.kind === 'least') {
    asker.soFar(said.counts);
    return true;
  }
  asked.delete(said.id);
  asker.resolve(said.kind !== 'failed' ? known(said) : unknown('unreadable', said.path, said.detail));
  return true;
}

type Said =
  | { readonly id: number; readonly kind: 'at'; readonly path: number }
  | { readonly id: number; readonly kind: 'least'; readonly counts: Counts }
  | ({ readonly id: number; readonly kind: 'done' } & Answer)
  | { readonly id: number; readonly kind: 'failed'; readonly path: string; readonly detail: string };

/** Our own program wrote it: only its shape is checked. */
function parse(line: string): Said | null {
  try {
    const [id, kind, first, second]: unknown[] = JSON.parse(line);
    if (typeof id !== 'number') return null;
    if (kind === 'failed') return { id, kind, path: String(first), detail: String(second) };
    if (kind === 'at') return { id, kind, path: Number(first) };
    if (!Array.isArray(first)) return null;
    const isComplete = second === true;
    if (kind === 'found') return { id, kind: 'done', counts: [], found: first.map(surveyed), isComplete };
    if (kind !== 'least' && kind !== 'done') return null;
    const counts = first.map((row: unknown) => (Array.isArray(row) ? row.map(Number) : []));
    return kind === 'least' ? { id, kind, counts } : { id, kind, counts, found: [], isComplete };
  } catch {
    return null; // Something else wrote this: the caller ends the child.
  }
}

function surveyed(row: unknown): SurveyedDirectory {
  const [bytes, inodes, uid, path]: unknown[] = Array.isArray(row) ? row : [];
  return { path: String(path), bytes: Number(bytes), inodes: Number(inodes), uid: Number(uid) };
}

function eachLine({ stdout }: ChildProcess, run: (line: string) => void): void {
  let text = '';
  stdout?.setEncoding('utf8');
  stdout?.on('data', (chunk: string) => {
    text += chunk;
    for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n')) {
      run(text.slice(0, at));
      text = text.slice(at + 1);
    }
    if (text.length > MAX_LINE) run('');
  });
}
