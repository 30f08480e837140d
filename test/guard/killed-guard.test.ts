import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { describe, expect, it } from 'vitest';
import { until } from '../host/test-cgroup.ts';
import { aBench, isRunning } from './an-agent.ts';

const DEADLINE_MS = 10_000;

describe('a guard that is killed while an agent runs', () => {
  it('leaves the deadline in force: until then the agent goes on, then it and its children are gone', async () => {
    const bench = aBench({
      fence_a: 'trap "" TERM HUP PIPE; sleep 1000 & echo "$$ $! $PPID" > pids; wait; sleep 1000',
    });
    const program = `
      import { runFenceAgent } from '${resolve('src/host/process/fence-agent.ts')}';
      await runFenceAgent({ agent: 'fence_a', input: 'action=off\\n', deadlineMs: ${DEADLINE_MS}, maxOutputBytes: 1000, directory: '${bench.directory}' });
    `;
    const guard = spawn(process.execPath, ['--import', 'tsx', '--input-type=module', '-e', program], {
      stdio: 'ignore',
    });
    const ended = new Promise((done) => guard.once('exit', (_, signal) => done(signal)));
    const pids = (await bench.appears('pids')).trim().split(' ').map(Number);
    const names = (): string => pids.map(nameOf).join(' ');
    await until(() => names() === 'fence_a sleep timeout');
    guard.kill('SIGKILL');
    expect(await ended).toBe('SIGKILL');
    expect(pids.map(isRunning)).toEqual([true, true, true]);
    await until(() => !pids.some(isRunning));
  });
});

function nameOf(pid: number): string {
  return readFileSync(join('/proc', String(pid), 'comm'), 'utf8').trim();
}
