import { existsSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { run } from '../../src/host/exec.ts';
import { clock, until } from './test-cgroup.ts';
import { aTree } from './tree.ts';

const usual = { timeoutMs: 20_000, maxOutputBytes: 1000 };
const sh = (script: string, options = usual, ...args: readonly string[]) =>
  run(['/bin/sh', '-c', script, ...args], options);

describe('run', () => {
  it('returns exit status and output', async () => {
    expect(await sh('echo out; echo err >&2; exit 3')).toEqual({
      kind: 'exited',
      code: 3,
      stdout: 'out\n',
      stderr: 'err\n',
    });
  });

  it('passes arguments unchanged: no shell reads them', async () => {
    const text = '$(reboot) `x` "\'; \n* ';
    expect(await run(['printf', '%s', text], usual)).toMatchObject({ code: 0, stdout: text });
  });

  it('writes standard input, even if nothing reads it', async () => {
    expect(await run(['cat'], { ...usual, stdin: 'hello' })).toMatchObject({ code: 0, stdout: 'hello' });
    expect(await run(['true'], { ...usual, stdin: 'x'.repeat(10 ** 6) })).toMatchObject({ kind: 'exited', code: 0 });
    expect(await run(['cat'], usual)).toMatchObject({ code: 0, stdout: '' });
  });

  it('keeps a limited part of the output and lets the command continue to write', async () => {
    const result = await sh('head -c 5000000 /dev/zero | tr "\\0" x; exit 4', { ...usual, maxOutputBytes: 10 });
    expect(result).toEqual({ kind: 'exited', code: 4, stdout: 'x'.repeat(10), stderr: '' });
  });

  it('passes nothing of our environment and directory', async () => {
    const { stdout } = { stdout: '', ...(await run(['env'], usual)) };
    expect(
      stdout
        .split('\n')
        .map((line) => line.split('=')[0])
        .filter(Boolean)
        .sort(),
    ).toEqual(['LC_ALL', 'PATH']);
    expect(await run(['pwd'], usual)).toMatchObject({ stdout: '/\n' });
  });

  it('says what could not be started', async () => {
    expect(await run(['/none'], usual)).toEqual({ kind: 'failed', detail: 'spawn /none ENOENT' });
    for (const argv of [[], [''], ['a\0b'], ['/'], ['/dev/null']]) {
      expect(await run(argv, usual)).toMatchObject({ kind: 'failed' });
    }
  });

  it('reports an end by a signal as a failure that names it', async () => {
    expect(await sh('kill -TERM $$')).toEqual({ kind: 'failed', detail: '/bin/sh was ended by SIGTERM' });
  });

  it('kills the whole group at the deadline, including processes that ignore SIGTERM', async () => {
    const root = aTree({});
    const script = 'trap "" TERM; (trap "" TERM; echo $$ > "$1/shell"; exec sleep 1000) & echo $! > "$1/child"; wait';
    const done = sh(script, { ...usual, timeoutMs: 500 }, 'sh', root);
    await until(() => existsSync(`${root}/child`) && readFileSync(`${root}/child`, 'latin1') !== '');
    const child = Number(readFileSync(`${root}/child`, 'latin1'));
    expect(await done).toEqual({ kind: 'timed-out' });
    await until(() => !isRunning(child));
  });

  it('kills what a command left in its group when it ends, without delaying the answer', async () => {
    const startMs = clock.monoMs();
    const result = await sh('sleep 1000 & echo $!');
    if (result.kind !== 'exited') throw new Error(result.kind);
    expect(clock.monoMs() - startMs).toBeLessThan(usual.timeoutMs / 2);
    await until(() => !isRunning(Number(result.stdout)));
  });

  it('is delayed to the deadline, not longer, by a process that left the group and holds the output', async () => {
    const root = aTree({});
    const script =
      'setsid sh -c "echo \\$\\$ > $1/pid; exec sleep 1000" & while [ ! -s "$1/pid" ]; do sleep 0.01; done; echo done';
    const startMs = clock.monoMs();
    const result = await sh(script, { ...usual, timeoutMs: 1_000 }, 'sh', root);
    process.kill(Number(readFileSync(`${root}/pid`, 'latin1')), 'SIGKILL');
    expect(clock.monoMs() - startMs).toBeGreaterThan(990);
    expect(result).toEqual({ kind: 'exited', code: 0, stdout: 'done\n', stderr: '' });
  });
});

/** A zombie, whose parent is then pid 1, runs no more. */
function isRunning(pid: number): boolean {
  try {
    return !/\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, 'latin1'));
  } catch {
    return false;
  }
}
