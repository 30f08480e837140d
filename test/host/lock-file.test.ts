import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { takeLock } from '../../src/host/lock-file.ts';

const PROGRAM = `
import { takeLock } from '${join(import.meta.dirname, '../../src/host/lock-file.ts')}';
const lock = takeLock(process.argv[1], 'boot');
process.stdout.write(typeof lock === 'string' ? lock : 'taken');
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

describe('a lock', () => {
  it('is had by one process, also while that is stopped, until it ends', async () => {
    const first = await another();
    expect(first.said).toBe('taken');
    const { pid } = first.child;
    expect(takeLock(path, 'boot')).toBe(`another nodewarden (process ${pid}) has ${path}`);
    first.child.kill('SIGSTOP');
    const stopped = `another nodewarden (process ${pid}, which is stopped: kill -CONT ${pid}) has ${path}`;
    for (let said: unknown = null; said !== stopped; said = takeLock(path, 'boot'));
    await end(first.child);
    expect(takeLock(path, 'boot')).toBeTypeOf('object');
    expect((await another()).said).toBe(`another nodewarden (process ${process.pid}) has ${path}`);
    expect(readdirSync(directory)).toEqual(['lock']);
  });

  it('of another boot, of a process that has that id by now, or of nobody is no lock', () => {
    for (const text of [`other ${process.pid} 1\n`, `boot ${process.ppid} 1\n`, 'boot 0 1\n', 'x', '']) {
      writeFileSync(path, text);
      const lock = takeLock(path, 'boot');
      expect(lock, text).toBeTypeOf('object');
      expect(readFileSync(path, 'utf8')).toMatch(new RegExp(`^boot ${process.pid} \\d+\\n$`));
    }
  });

  it('that is removed is made again; given back it removes no other', async () => {
    const lock = takeLock(path, 'boot');
    if (typeof lock === 'string') throw new Error(lock);
    expect(lock.keep()).toBeNull();
    rmSync(path);
    expect(lock.keep()).toBeNull();
    expect(existsSync(path)).toBe(true);
    rmSync(path);
    const { child } = await another();
    expect(lock.keep()).toBe(`another nodewarden (process ${child.pid}) has ${path}`);
    lock.release();
    expect(existsSync(path)).toBe(true);
  });
});
