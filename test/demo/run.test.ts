import { type ChildProcess, spawn } from 'node:child_process';
import {
  chmodSync,
  constants,
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { until } from '../../src/demo/cast.ts';
import { clearLeftovers, openDemoNode } from '../../src/demo/node.ts';
import { findCgroupMounts } from '../../src/host/cgroup/cgroup-mounts.ts';
import { createClock, sleep } from '../../src/host/clock.ts';
import { isBoundedCgroupPossible } from './possible.ts';

/** The built command, as `npm start` runs it. */
const PROGRAM = join(import.meta.dirname, '../../dist/nodewarden.js');
const clock = createClock();
const isRoot = process.getuid?.() === 0;
const running: ChildProcess[] = [];
afterEach(async () => {
  for (const child of running.splice(0)) child.kill('SIGKILL');
  await clearLeftovers(clock);
});

type Run = {
  readonly child: ChildProcess;
  readonly text: () => string;
  /** It has ended, and all that it printed has arrived. */
  readonly isOver: () => boolean;
};
type As = { readonly uid?: number; readonly gid?: number; readonly cwd?: string };
const HERE = { node: process.execPath, program: PROGRAM };
function demo(args: readonly string[], as: As = {}, flags: readonly string[] = [], { node, program } = HERE): Run {
  const child = spawn(node, [...flags, program, 'demo', ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
    ...as,
  });
  running.push(child);
  let text = '';
  child.stdout.setEncoding('utf8').on('data', (more: string) => {
    text += more;
  });
  let isOver = false;
  child.on('close', () => {
    isOver = true;
  });
  return { child, text: () => text, isOver: () => isOver };
}
const ended = async (run: Run, withinMs = 58_000): Promise<number | null> => {
  await until(clock, run.isOver, withinMs);
  return run.child.exitCode;
};
const lastLine = (run: Run): string => run.text().trimEnd().split('\n').at(-1) ?? '';

/** Cgroups, directories and processes that bear the name of the demo with this pid. */
function traces(pid: number | undefined): readonly string[] {
  const prefix = `nodewarden-demo-${pid}-`;
  const mounts = findCgroupMounts();
  const roots = mounts.known ? [mounts.value.memory, mounts.value.pids].filter((path) => path !== null) : [];
  const places = [...roots, ...roots.map((root) => join(root, 'system.slice')), tmpdir(), '/dev/shm'];
  const names = places.flatMap((place) => namesIn(place)).filter((name) => name.startsWith(prefix));
  const processes = namesIn('/proc').filter((name) => /^[0-9]+$/.test(name) && cgroupsOf(name).includes(prefix));
  return [...names, ...processes];
}
function namesIn(path: string): readonly string[] {
  try {
    return readdirSync(path);
  } catch {
    return [];
  }
}
function cgroupsOf(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cgroup`, 'latin1');
  } catch {
    return '';
  }
}

/** Longer than a server of Node.js keeps an idle connection. */
const HELD_MS = 7_000;
/** The process that sends requests to the web server of the demo with this pid. */
function visitorsOf(demoPid: number | undefined): number | null {
  const isIt = (pid: string): boolean => {
    try {
      const parent = /^\d+ \(.*\) \S (\d+)/s.exec(readFileSync(`/proc/${pid}/stat`, 'latin1'))?.[1];
      return parent === String(demoPid) && readFileSync(`/proc/${pid}/cmdline`, 'latin1').includes('\0visit\0');
    } catch {
      return false;
    }
  };
  const pid = namesIn('/proc').find((name) => /^[0-9]+$/.test(name) && isIt(name));
  return pid === undefined ? null : Number(pid);
}

describe('demo --simulated', () => {
  it('tells the same story twice, exits with 0 and names itself simulated', async () => {
    const [one, two] = [demo(['--simulated']), demo(['--simulated'])];
    expect([await ended(one), await ended(two)]).toEqual([0, 0]);
    expect(one.text()).toBe(two.text());
    expect(lastLine(one)).toMatch(/^ok: demo\/web evicted, .*\(simulated\)$/);
  });

  it.skipIf(!isRoot)('is what an ordinary user gets, after the reason [needs root to become one]', async () => {
    // A clone, and a Node.js, may lie where only root may enter.
    const place = mkdtempSync(join(tmpdir(), 'nodewarden-ordinary-'));
    chmodSync(place, 0o755);
    cpSync(dirname(PROGRAM), join(place, 'dist'), { recursive: true });
    copyFileSync(process.execPath, join(place, 'node'), constants.COPYFILE_FICLONE);
    const run = demo([], { uid: 65_534, gid: 65_534, cwd: '/' }, [], {
      node: join(place, 'node'),
      program: join(place, 'dist/nodewarden.js'),
    });
    expect(await ended(run)).toBe(0);
    rmSync(place, { recursive: true });
    const [first] = run.text().split('\n');
    expect(first).toBe('Simulated, in virtual time: not root (uid 65534), and only root can create cgroups.');
    expect(lastLine(run)).toMatch(/\(simulated\)$/);
  });
});

describe.skipIf(!isBoundedCgroupPossible)('the real demo [needs root and memory and pids cgroups]', () => {
  it('evicts the leaker within a minute, with its figures, and leaves nothing behind', async () => {
    const run = demo([]);
    expect(await ended(run), run.text()).toBe(0);
    expect(lastLine(run)).toMatch(
      /^ok: demo\/web evicted, memory\.available \S+ MiB < 60 MiB, SIGKILL after \S+ ms, \S+ MiB recovered, 3 innocents alive \(real\)$/,
    );
    expect(run.text()).toContain('0 kills by the kernel');
    expect(traces(run.child.pid)).toEqual([]);
  });

  it('continues if its visitors are late, even if the server may have given them up', async () => {
    const run = demo([]);
    let visitors: number | null = null;
    const haveCome = (): boolean => {
      visitors = visitorsOf(run.child.pid);
      return visitors !== null;
    };
    expect(await until(clock, haveCome, 30_000)).toBe(true);
    await sleep(clock, 1_000);
    process.kill(visitors ?? Number.NaN, 'SIGSTOP');
    await sleep(clock, HELD_MS);
    process.kill(visitors ?? Number.NaN, 'SIGCONT');
    expect(await ended(run), run.text()).toBe(0);
    expect(lastLine(run)).toMatch(/^ok: demo\/web evicted/);
  });

  it('leaves nothing behind when interrupted, and does not call that proven', async () => {
    const run = demo([]);
    await until(clock, () => /memory\.available \d/.test(run.text()), 30_000);
    expect(traces(run.child.pid)).not.toEqual([]);
    run.child.kill('SIGINT');
    expect(await ended(run, 20_000)).toBe(1);
    expect(lastLine(run)).toBe('not proven: stopped before the demo was over (real)');
    expect(traces(run.child.pid)).toEqual([]);
  });

  it('says why its agent ended, and ends', async () => {
    const broken = join(mkdtempSync(join(tmpdir(), 'nodewarden-broken-')), 'broken.cjs');
    writeFileSync(broken, 'Array.prototype.toSorted = () => { throw new Error("it is broken on purpose"); };');
    const run = demo([], {}, ['--require', broken]);
    expect(await ended(run, 30_000)).toBe(1);
    rmSync(dirname(broken), { recursive: true });
    expect(lastLine(run)).toBe('not proven: the agent ended with status 1: it is broken on purpose (real)');
    expect(traces(run.child.pid)).toEqual([]);
  });

  it('is cleaned up by the next run if it was killed', async () => {
    const run = demo([]);
    await until(clock, () => /memory\.available \d/.test(run.text()), 30_000);
    run.child.kill('SIGKILL');
    await ended(run, 5_000);
    expect(traces(run.child.pid)).not.toEqual([]);
    expect((await clearLeftovers(clock)).join('\n')).toContain(`nodewarden-demo-${run.child.pid}-`);
    expect(traces(run.child.pid)).toEqual([]);
  });

  // In this file, since every start of the demo clears leftovers: two files of tests run at the same time.
  it('cleans up a dead demo with its processes, and leaves a living one alone', async () => {
    const living = await openDemoNode(clock);
    if (!living.known) throw new Error(living.detail);
    const mounts = [living.value.mounts.memory, living.value.mounts.pids].filter((path) => path !== null);
    // This pid is alive, but no process has that start time: another process was given the pid since.
    const name = `nodewarden-demo-${process.pid}-1`;
    const sleeper = spawn('sleep', ['60'], { stdio: 'ignore' });
    running.push(sleeper);
    for (const mount of mounts) {
      mkdirSync(join(mount, name, 'web'), { recursive: true });
      writeFileSync(join(mount, name, 'web', 'cgroup.procs'), String(sleeper.pid));
    }
    const said = await clearLeftovers(clock);
    await until(clock, () => sleeper.signalCode !== null, 5_000);
    const isLivingThere = [
      ...mounts.map((mount) => join(mount, living.value.cgroup.path)),
      living.value.configFile,
    ].every(existsSync);
    expect(await living.value.close()).toEqual([]);
    expect(said).toContain(`removed the cgroup ${name} that a killed demo left behind`);
    expect(sleeper.signalCode).toBe('SIGKILL');
    expect(isLivingThere).toBe(true);
    expect(traces(process.pid)).toEqual([]);
  });
});
