import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createClock, sleep } from '../../src/host/clock.ts';
import { openNotify } from '../../src/host/systemd/notify.ts';
import type { Clock } from '../../src/ports.ts';
import { hurried } from '../standalone/needs.ts';
import { until } from './test-cgroup.ts';

/** A datagram socket as systemd has one: prints each message as a line, with line ends as |. */
const RECEIVER = `
use Socket;
$| = 1;
my $path = $ARGV[0];
$path =~ s/^@/\\0/;
socket(my $s, AF_UNIX, SOCK_DGRAM, 0) or die;
bind($s, pack_sockaddr_un($path)) or die $!;
print "listening\\n";
while (defined(recv($s, my $m, 65536, 0))) { $m =~ tr/\\n/|/; print "$m\\n"; }
`;

let directory: string;
let receiver: ChildProcess | null;

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'nodewarden-notify-'));
  receiver = null;
});
afterEach(() => {
  receiver?.kill('SIGKILL');
  rmSync(directory, { recursive: true, force: true });
});

/** The messages as they come. */
async function receive(path: string): Promise<AsyncIterator<string>> {
  receiver = spawn('perl', ['-e', RECEIVER, path], { stdio: ['ignore', 'pipe', 'inherit'] });
  if (receiver.stdout === null) throw new Error('no pipe');
  const lines = createInterface({ input: receiver.stdout })[Symbol.asyncIterator]();
  expect((await lines.next()).value).toBe('listening');
  return lines;
}

async function take(lines: AsyncIterator<string>, count: number): Promise<readonly string[]> {
  const taken: string[] = [];
  while (taken.length < count) taken.push((await lines.next()).value);
  return taken;
}

describe('sd_notify', () => {
  it.each(['/path', '@abstract'])('sends systemd everything, in order, over a socket of the kind %s', async (kind) => {
    const socket = kind === '/path' ? join(directory, 'notify') : `@nodewarden-test-${process.pid}`;
    const lines = await receive(socket);
    const notify = openNotify({ PATH: process.env['PATH'], NOTIFY_SOCKET: socket }, createClock());
    notify.ready();
    notify.status('evicting shop/web\nREADY=1');
    notify.watchdog();
    notify.reloading();
    notify.stopping();
    notify.extendMs(30_000);
    notify.close();
    const messages = await take(lines, 6);
    expect(messages.with(3, messages[3]?.replace(/\d+$/, 'N') ?? '')).toEqual([
      'READY=1',
      'STATUS=evicting shop/web READY=1',
      'WATCHDOG=1',
      'RELOADING=1|MONOTONIC_USEC=N',
      'STOPPING=1',
      'EXTEND_TIMEOUT_USEC=30000000',
    ]);
  });

  it('does nothing without a notification socket', () => {
    const notify = openNotify({}, createClock());
    notify.ready();
    notify.close();
    expect(notify.watchdogMs).toBeNull();
  });

  it('survives a host without perl and without systemd-notify', async () => {
    const clock = createClock();
    const notify = openNotify({ PATH: directory, NOTIFY_SOCKET: join(directory, 'none') }, clock);
    notify.ready();
    notify.watchdog();
    await new Promise<void>((resolve) => {
      clock.after(50, resolve);
    });
    notify.watchdog();
    notify.close();
    expect(notify.watchdogMs).toBeNull();
  });

  it('survives a kernel that refuses a child, says so once, and retries READY until it is sent', async () => {
    const clock = createClock();
    // What execve(2) refuses at once is thrown, as a want of memory is.
    const said: string[] = [];
    const env = { PATH: process.env['PATH'], NOTIFY_SOCKET: `/${'x'.repeat(200_000)}` };
    const refused = openNotify(env, clock, (line) => said.push(line));
    refused.ready();
    refused.watchdog();
    refused.close();
    expect(said).toEqual([expect.stringMatching(/ready \(retrying\): .*E2BIG/)]);

    const out = join(directory, 'out');
    const notify = openNotify({ PATH: directory, NOTIFY_SOCKET: '/none' }, hurried(clock, 100), (line) =>
      said.push(line),
    );
    notify.ready();
    notify.watchdog();
    await until(() => said.length === 2);
    writeFileSync(join(directory, 'systemd-notify'), `#!/bin/sh\necho "$@" >> ${out}\n`, { mode: 0o755 });
    await until(() => existsSync(out));
    await sleep(clock, 200);
    notify.close();
    expect(readFileSync(out, 'utf8')).toBe('READY=1\n');
    expect(said).toHaveLength(2);
  });

  it.each([
    ['exit 1', 'systemd-notify ended with 1'],
    ['kill -KILL $$', 'systemd-notify ended with SIGKILL'],
  ])('retries READY if systemd-notify does not send it: %s', async (failure, complaint) => {
    const clock = createClock();
    const [out, failed] = [join(directory, 'out'), join(directory, 'failed')];
    const script = `#!/bin/sh\n[ -e ${failed} ] || { : > ${failed}; ${failure}; }\necho "$@" >> ${out}\n`;
    writeFileSync(join(directory, 'systemd-notify'), script, { mode: 0o755 });
    const said: string[] = [];
    const notify = openNotify({ PATH: directory, NOTIFY_SOCKET: '/none' }, hurried(clock, 100), (line) =>
      said.push(line),
    );
    notify.ready();
    await until(() => existsSync(out));
    await sleep(clock, 200);
    notify.close();
    expect(readFileSync(out, 'utf8')).toBe('READY=1\n');
    expect(said).toEqual([`systemd cannot be notified that this agent is ready (retrying): ${complaint}`]);
  });

  it('retries READY if nothing listens yet', async () => {
    const clock = createClock();
    const socket = join(directory, 'notify');
    symlinkSync('/usr/bin/perl', join(directory, 'perl'));
    writeFileSync(join(directory, 'systemd-notify'), '#!/bin/sh\nexit 1\n', { mode: 0o755 });
    const said: string[] = [];
    const env = { PATH: directory, NOTIFY_SOCKET: socket };
    const notify = openNotify(env, hurried(clock, 100), (line) => said.push(line));
    notify.ready();
    await until(() => said.length > 0);
    expect(await take(await receive(socket), 1)).toEqual(['READY=1']);
    notify.close();
  });

  it('gives READY up if nothing ever listens', async () => {
    const clock = createClock();
    const out = join(directory, 'out');
    writeFileSync(join(directory, 'systemd-notify'), `#!/bin/sh\necho tried >> ${out}\nexit 1\n`, { mode: 0o755 });
    let retries = 0;
    const counting: Clock = {
      ...clock,
      after: (_, run) => {
        retries += 1;
        return clock.after(1, run);
      },
    };
    const notify = openNotify({ PATH: directory, NOTIFY_SOCKET: join(directory, 'none') }, counting);
    notify.ready();
    await until(() => existsSync(out) && readFileSync(out, 'utf8').split('tried').length > 61);
    await sleep(clock, 100);
    notify.close();
    expect(retries).toBe(60);
  });

  it('promises no retry for a message that is not retried', () => {
    const said: string[] = [];
    const env = { PATH: process.env['PATH'], NOTIFY_SOCKET: `/${'x'.repeat(200_000)}` };
    const notify = openNotify(env, createClock(), (line) => said.push(line));
    notify.watchdog();
    notify.close();
    expect(said).toEqual([expect.stringMatching(/^systemd cannot be notified of the status of this agent: .*E2BIG/)]);
  });

  it.each([
    ['60000000', undefined, 7_500],
    ['20000000', undefined, 5_000],
    // 5 s is what systemd would act at.
    ['5000000', undefined, 4_000],
    ['60000000', '1', null],
    ['60000000', String(process.pid), 7_500],
    ['no number', undefined, null],
    ['0', undefined, null],
  ])('with WATCHDOG_USEC=%s and WATCHDOG_PID=%s pings every %s ms', (usec, pid, expected) => {
    const env = {
      PATH: process.env['PATH'],
      NOTIFY_SOCKET: join(directory, 'none'),
      WATCHDOG_USEC: usec,
      ...(pid === undefined ? {} : { WATCHDOG_PID: pid }),
    };
    const notify = openNotify(env, createClock());
    notify.close();
    expect(notify.watchdogMs).toBe(expected);
  });
});
