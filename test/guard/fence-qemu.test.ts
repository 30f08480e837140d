import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { GuardMethod } from '../../src/config/guard/method.ts';
import { until } from '../host/test-cgroup.ts';
import { aBench, anExecutable, detailOf, isRunning } from './an-agent.ts';

const canRun = existsSync('/usr/bin/qemu-system-x86_64') && existsSync('/usr/bin/python3');
/** A machine without a processor, which costs nothing: it has QMP, and its power is that of its process. */
const START = `#!/bin/sh
cd "$(dirname "$0")" && exec qemu-system-x86_64 -machine none -nodefaults -display none \\
  -qmp unix:qmp.sock,server=on,wait=off -pidfile pid -daemonize
`;

function aGuest() {
  const bench = aBench({});
  // A checkout may be writable by a group, and what others can write is not run.
  anExecutable(join(bench.directory, 'fence_qemu'), readFileSync(resolve('test/lab/guard/fence_qemu'), 'utf8'));
  const guest = join(bench.directory, 'guest');
  mkdirSync(guest);
  anExecutable(join(guest, 'start'), START);
  const pid = (): number => Number(readFileSync(join(guest, 'pid'), 'latin1'));
  // QEMU removes the file when it is told to quit.
  const runs = (): boolean => existsSync(join(guest, 'pid')) && isRunning(pid());
  onTestFinished(() => {
    if (runs()) process.kill(pid(), 'SIGKILL');
  });
  const methodOf = (plug: string): GuardMethod =>
    bench.method('fence_qemu', { parameters: { directory: bench.directory, plug, qmp_timeout: '1' } });
  const power = async (plug = 'guest') => (await bench.agents.status(methodOf(plug), 'dead')).power;
  const send = async (action: 'on' | 'off') =>
    (await bench.agents.command(methodOf('guest'), action, () => null)).saysDone;
  /** Without the times. */
  const written = (file: string): readonly string[] =>
    readFileSync(join(guest, file), 'utf8')
      .trim()
      .split('\n')
      .map((line) => line.replace(/^[\d.]+ /, ''));
  return { power, send, pid, runs, written };
}

describe.skipIf(!canRun)('fence_qemu, with a real QEMU', () => {
  it('asks for, and changes, the power of a guest, which outlives the run that switched it on', async () => {
    const { power, send, runs, written } = aGuest();
    expect(await power()).toEqual({ known: true, value: 'off' });
    for (const action of ['on', 'on', 'off', 'off'] as const) {
      expect(await send(action)).toEqual({ known: true, value: true });
      expect(await power()).toEqual({ known: true, value: action });
      expect(runs()).toBe(action === 'on');
    }
    expect(written('power.log')).toEqual(['on', 'off']);
  });

  it('does not know the power of a guest whose QEMU hangs, or of one that does not exist', async () => {
    const { power, send, pid } = aGuest();
    await send('on');
    process.kill(pid(), 'SIGSTOP');
    expect(detailOf(await power())).toBe('exit status 1; it said: Failed: QEMU does not answer');
    process.kill(pid(), 'SIGCONT');
    expect(await power()).toEqual({ known: true, value: 'on' });
    expect(detailOf(await power('other'))).toMatch(/it said: Failed: there is no guest .*other$/);
  });

  it('writes down each run that begins, and its end if that was no error, with the power of the moment', async () => {
    const { power, send, pid, written } = aGuest();
    await power();
    await send('on');
    process.kill(pid(), 'SIGSTOP');
    await power();
    process.kill(pid(), 'SIGCONT');
    await send('off');
    expect(written('calls')).toEqual([
      ...['status off', 'ended-status off', 'on off', 'ended-on on'],
      ...['status on', 'off on', 'ended-off off'],
    ]);
  });

  it('says off of a guest whose QEMU was killed', async () => {
    const { power, send, pid, runs } = aGuest();
    await send('on');
    process.kill(pid(), 'SIGKILL');
    await until(() => !runs());
    expect(await power()).toEqual({ known: true, value: 'off' });
  });
});
