import { spawn } from 'node:child_process';
import { chmodSync, existsSync, readdirSync, readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { describe, expect, it } from 'vitest';
import { sleep } from '../../src/host/clock.ts';
import { type LockAnswer, type LockChild, takeInhibitLock } from '../../src/host/systemd/inhibit-child.ts';
import type { Clock } from '../../src/ports.ts';
import { clock, until } from './test-cgroup.ts';
import { aTree } from './tree.ts';

/** Timers ten times as fast. */
const fast: Clock = { ...clock, after: (ms, run) => clock.after(ms / 10, run) };

function stub(script: string) {
  const root = aTree({ 'systemd-inhibit': `#!/bin/sh\ncd "\${0%/*}"\necho $$ > pid\n${script}\n` });
  chmodSync(`${root}/systemd-inhibit`, 0o755);
  const env = { PATH: `${root}:/usr/bin:/bin`, NODEWARDEN_SECRET: 'x', LANG: 'de_DE.UTF-8' };
  return {
    root,
    env,
    take: (given: Clock = clock) => takeInhibitLock(given, env),
    pid: () => Number(readFileSync(`${root}/pid`, 'utf8')),
  };
}
/** As systemd-inhibit: runs its command as a child, and ends with it. A shell hands its input on only when told to. */
const holding = () => stub(`exec 3<&0; shift 4; "$@" <&3 & exec 3<&-; echo $! > command; wait $!`);

/** The pid of what was run: it may say that it has the lock before that is written down. */
async function commandOf(root: string): Promise<number> {
  const read = (): number => (existsSync(`${root}/command`) ? Number(readFileSync(`${root}/command`, 'utf8')) : 0);
  await until(() => read() > 0);
  return read();
}

function held(answer: LockAnswer): LockChild {
  if (answer.kind !== 'held') throw new Error(JSON.stringify(answer));
  return answer.child;
}
const isAlive = (pid: number): boolean => existsSync(`/proc/${pid}`) && !/^State:\tZ/m.test(status(pid));
function status(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/status`, 'utf8');
  } catch {
    return 'State:\tZ'; // It ended meanwhile.
  }
}

describe('the lock child', () => {
  it('holds the lock until it is released, and reports its end once', async () => {
    const { take, pid, root } = holding();
    const child = held(await take());
    const gone: string[] = [];
    child.whenGone((detail) => gone.push(detail));
    expect(child.pid).toBe(pid());
    const command = await commandOf(root);
    expect([isAlive(child.pid), isAlive(command), gone]).toEqual([true, true, []]);
    await Promise.all([child.release(), child.release()]);
    await until(() => !isAlive(command));
    expect([isAlive(child.pid), gone]).toEqual([false, ['systemd-inhibit ended with status 0']]);
    await child.release();
    child.whenGone((detail) => gone.push(detail));
    await sleep(clock, 100);
    expect(gone).toHaveLength(2);
  });

  it('requests a delay of the shutdown in our name, and has nothing of our environment', async () => {
    const { take, root } = stub(`printf '%s\\n' "$@" > args; env > env; readlink /proc/$$/cwd > cwd; exit 1`);
    await take();
    expect(readFileSync(`${root}/args`, 'utf8').split('\n').slice(0, 3)).toEqual([
      '--what=shutdown',
      '--mode=delay',
      '--who=nodewarden',
    ]);
    expect(readFileSync(`${root}/env`, 'utf8')).not.toMatch(/SECRET|LANG/);
  });

  it('that ends at once gives the reason, on one line', async () => {
    const { take } = stub(`printf 'Failed to inhibit:\\n\\033[31mAccess denied\\n' >&2; exit 1`);
    expect(await take()).toMatchObject({
      kind: 'failed',
      why: {
        where: 'systemd-inhibit',
        detail: 'systemd-inhibit ended with status 1: Failed to inhibit: [31mAccess denied',
      },
    });
  });

  it('that is refused because of a shutdown in progress is distinguished', async () => {
    const { take } = stub(
      `echo 'Failed to inhibit: The operation inhibition has been requested for is already running' >&2; exit 1`,
    );
    expect(await take()).toMatchObject({ kind: 'too-late', detail: expect.stringContaining('already running') });
  });

  it('is reported as absent without systemd-inhibit, and as failed if that cannot run', async () => {
    const root = aTree({ empty: null, 'systemd-inhibit': 'no program' });
    const take = (path: string) => takeInhibitLock(clock, { PATH: path });
    expect(await take(`${root}/empty`)).toMatchObject({ kind: 'failed', why: { why: 'absent' } });
    expect(await take(root)).toMatchObject({ kind: 'failed', why: { why: 'unreadable' } });
  });

  it('that says nothing is killed after its time', async () => {
    const { take, pid } = stub(`echo waiting >&2; echo 'locked?'; exec sleep 1000`);
    expect(await take(fast)).toMatchObject({
      kind: 'failed',
      why: { why: 'timed-out', detail: expect.stringContaining('waiting') },
    });
    await until(() => !isAlive(pid()));
  });

  it('that ends while it holds the lock is reported, and what it started ends, too', async () => {
    const { take, root } = holding();
    const child = held(await take());
    const gone: string[] = [];
    child.whenGone((detail) => gone.push(detail));
    const command = await commandOf(root);
    process.kill(child.pid, 'SIGKILL');
    await until(() => gone.length > 0);
    expect(gone).toEqual(['systemd-inhibit was ended by SIGKILL']);
    await until(() => !isAlive(command));
    await child.release();
  });

  it('is reported as gone, and costs nothing more, even if something it left behind holds its output', async () => {
    const { take, root } = stub('echo locked; sleep 1000 & echo $! > command; exit 0');
    const descriptors = (): number => readdirSync('/proc/self/fd').length;
    const before = descriptors();
    const child = held(await take());
    const gone: string[] = [];
    child.whenGone((detail) => gone.push(detail));
    await until(() => gone.length > 0);
    await until(() => descriptors() <= before);
    process.kill(await commandOf(root), 'SIGKILL');
  });

  it('that does not end with its input is killed', async () => {
    const child = held(await stub('echo locked; exec sleep 1000').take(fast));
    await child.release();
    await until(() => !isAlive(child.pid));
  });

  it('that writes endlessly still holds the lock, and its output is limited', async () => {
    const { take } = stub('head -c 3000000 /dev/zero | tr "\\0" x >&2; echo locked; cat; exit 1');
    const child = held(await take());
    const gone: string[] = [];
    child.whenGone((detail) => gone.push(detail));
    await child.release();
    expect(gone[0]?.length).toBeLessThan(2_200);
  });
});

describe('an agent that has ended', () => {
  /** Takes the lock in a process of its own, which `then` ends. */
  async function agent(then: string): Promise<{ readonly lock: number; readonly agent: number }> {
    const { env } = holding();
    const script = `
      import { createClock } from '${process.cwd()}/src/host/clock.ts';
      import { takeInhibitLock } from '${process.cwd()}/src/host/systemd/inhibit-child.ts';
      const answer = await takeInhibitLock(createClock(), ${JSON.stringify(env)});
      console.log(answer.child.pid);
      ${then}`;
    const child = spawn(process.execPath, ['--import', 'tsx', '--input-type=module', '-e', script], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const [line] = await Promise.race([
      new Promise<[string]>((resolve) => createInterface(child.stdout).once('line', (text) => resolve([text]))),
      new Promise<never>((_, reject) => child.once('exit', () => reject(new Error('it ended without a lock')))),
    ]);
    return { lock: Number(line), agent: child.pid ?? 0 };
  }

  it('leaves no lock when it is killed', async () => {
    const { lock, agent: pid } = await agent('setInterval(() => undefined, 1000);');
    expect(isAlive(lock)).toBe(true);
    process.kill(pid, 'SIGKILL');
    await until(() => !isAlive(lock));
  });

  it('is not kept alive by the lock: it ends, and the lock with it', async () => {
    const { lock, agent: pid } = await agent('');
    await until(() => !isAlive(pid));
    await until(() => !isAlive(lock));
  });
});
