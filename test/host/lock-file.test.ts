import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readdirSync, readlinkSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { takeLock } from '../../src/host/own/lock-file.ts';

const PROGRAM = `
import { takeLock } from '${join(import.meta.dirname, '../../src/host/own/lock-file.ts')}';
const lock = takeLock(process.argv[1], 'boot');
process.stdout.write('why' in lock ? lock.why : 'taken');
process.stdin.resume();
`;
let directory: string;
let path: string;
let children: ChildProcess[];

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'nodewarden-lock-'));
  path = join(directory, 'lock');
  children = [];
});
afterEach(async () => {
  for (const child of children) await end(child);
  rmSync(directory, { recursive: true, force: true });
});

/** Another process that tries to take it, and what came of it. */
async function another(): Promise<{ readonly child: ChildProcess; readonly said: string }> {
  const options = ['--import', 'tsx', '--input-type=module', '-e', PROGRAM, path];
  const child = spawn(process.execPath, options, { stdio: ['pipe', 'pipe', 'inherit'] });
  children.push(child);
  const [said] = await once(child.stdout, 'data');
  return { child, said: String(said) };
}
async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const gone = once(child, 'exit');
  child.kill('SIGKILL');
  await gone;
}

const whyNot = (lock: ReturnType<typeof takeLock>): string | null => ('why' in lock ? lock.why : null);

describe('a lock', () => {
  it('that an earlier version created as a file counts as long as its process lives', async () => {
    const { child } = await another();
    const text = readlinkSync(path);
    rmSync(path);
    writeFileSync(path, `${text}\n`);
    expect(whyNot(takeLock(path, 'boot'))).toBe(`another nodewarden (process ${child.pid}) has ${path}`);
    await end(child);
    expect(whyNot(takeLock(path, 'boot'))).toBeNull();
  });

  it('is held by one process until it ends, even while that is stopped', async () => {
    const first = await another();
    expect(first.said).toBe('taken');
    const { pid } = first.child;
    expect(takeLock(path, 'boot')).toEqual({ why: `another nodewarden (process ${pid}) has ${path}`, isHeld: true });
    first.child.kill('SIGSTOP');
    const stopped = `another nodewarden (process ${pid}, which is stopped: kill -CONT ${pid}) has ${path}`;
    for (let said: unknown = null; said !== stopped; ) said = whyNot(takeLock(path, 'boot'));
    await end(first.child);
    expect(whyNot(takeLock(path, 'boot'))).toBeNull();
    expect((await another()).said).toBe(`another nodewarden (process ${process.pid}) has ${path}`);
    expect(readdirSync(directory)).toEqual(['lock']);
  });

  it.skipIf(process.getuid?.() !== 0)('is taken and released even if the disk is full [needs root]', () => {
    const full = join(directory, 'full');
    mkdirSync(full);
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=64k', 'nodewarden-test', full]);
    try {
      expect(() => writeFileSync(join(full, 'filler'), Buffer.alloc(1_000_000))).toThrow('ENOSPC');
      expect(() => writeFileSync(join(full, 'one'), 'more')).toThrow('ENOSPC');
      const lock = takeLock(join(full, 'lock'), 'boot');
      if ('why' in lock) throw new Error(lock.why);
      expect(lock.keep()).toBeNull();
      lock.release();
      expect(readdirSync(full)).not.toContain('lock');
    } finally {
      execFileSync('umount', [full]);
    }
  });

  it('of another boot, of a process whose pid was reused, or of no process does not count', () => {
    for (const text of [`other ${process.pid} 1\n`, `boot ${process.ppid} 1\n`, 'boot 0 1\n', 'x', '']) {
      writeFileSync(path, text);
      const lock = takeLock(path, 'boot');
      expect(whyNot(lock), text).toBeNull();
      expect(readlinkSync(path)).toMatch(new RegExp(`^boot ${process.pid} \\d+$`));
      rmSync(path);
    }
  });

  it('that is removed is recreated; releasing it removes no other', async () => {
    const lock = takeLock(path, 'boot');
    if ('why' in lock) throw new Error(lock.why);
    expect(lock.keep()).toBeNull();
    rmSync(path);
    expect(lock.keep()).toBeNull();
    expect(readdirSync(directory)).toEqual(['lock']);
    rmSync(path);
    const { child } = await another();
    expect(lock.keep()).toEqual({ why: `another nodewarden (process ${child.pid}) has ${path}`, isHeld: true });
    lock.release();
    expect(readdirSync(directory)).toEqual(['lock']);
  });
});
