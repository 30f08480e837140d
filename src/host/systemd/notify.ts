import { spawn } from 'node:child_process';
import type { Clock } from '../../ports.ts';
import { letGo, startChild } from '../child-process.ts';

/** Notifications to systemd (sd_notify(3)); every function returns at once and does nothing without NOTIFY_SOCKET. */
export type Notify = {
  readonly ready: () => void;
  readonly reloading: () => void;
  readonly stopping: () => void;
  /** Asks systemd not to let the stop time out before this much time has passed. */
  readonly extendMs: (ms: number) => void;
  readonly status: (text: string) => void;
  readonly watchdog: () => void;
  /** The interval at which to call `watchdog`; null: systemd does not watch us. */
  readonly watchdogMs: number | null;
  /** Lets the relay end once it has sent everything it was given. */
  readonly close: () => void;
};

/** The maximum number of messages kept for a hung systemd; further ones are lost, and its watchdog then acts. */
const QUEUED_MESSAGES = 100;
const STATUS_CHARS = 1024;
const WATCHDOG_MIN_MS = 5_000;
/** Looks, which ping, may be 10 s apart, and a full pid table may lose pings: three still arrive within the unit's minute. */
const PINGS = 8;
/** systemd waits 90 s for READY. */
const READY_RETRY_MS = 5_000;
/** Five minutes: a socket that has not received it by then has no listener, for example one inherited from a service long gone. */
const READY_RETRIES = 60;

/**
 * Node has no datagram unix sockets, so one long-lived perl child relays messages (10.8 ms for the first, 0.23 ms for each
 * other; Socket is in perl-base, which is essential on Debian). One message per line; \x1f stands for a line end inside it.
 */
const RELAY = `
use Socket;
$| = 1;
$SIG{INT} = $SIG{TERM} = 'IGNORE';
my $path = $ENV{NOTIFY_SOCKET};
$path =~ s/^@/\\0/;
socket(my $s, AF_UNIX, SOCK_DGRAM, 0) or die "socket: $!";
while (my $line = <STDIN>) {
  chomp $line;
  $line =~ tr/\\x1f/\\n/;
  print defined(send($s, $line, 0, pack_sockaddr_un($path))) ? '.' : '!';
}
`;

/** `complain` is called once if messages are lost, with the reason. Nothing here ever throws. */
export function openNotify(
  env: NodeJS.ProcessEnv,
  clock: Clock,
  complain: (line: string) => void = () => undefined,
): Notify {
  const { NOTIFY_SOCKET = '', PATH } = env;
  const isWatched = /^[/@]./.test(NOTIFY_SOCKET);
  let isClosed = false;
  let hasComplained = false;
  let retriesLeft = READY_RETRIES;
  let cancelRetry = (): void => undefined;
  const lost: Lost = (message, why) => {
    const what = message === READY ? 'that this agent is ready (retrying)' : 'of the status of this agent';
    if (!hasComplained) complain(`systemd cannot be notified ${what}: ${why}`);
    hasComplained = true;
    // systemd ends an agent that is never ready. All other messages are sent again anyway, or are useless later.
    if (message !== READY || isClosed || retriesLeft === 0) return;
    retriesLeft -= 1;
    cancelRetry();
    cancelRetry = clock.after(READY_RETRY_MS, () => send(READY));
  };
  const relay = isWatched ? startRelay({ PATH, NOTIFY_SOCKET }, lost) : NO_RELAY;
  const send = relay.send;
  return {
    ready: () => send(READY),
    // Type=notify-reload wants the time at which the reload began.
    reloading: () => send(`RELOADING=1\nMONOTONIC_USEC=${Math.trunc(clock.monoMs() * 1000)}`),
    stopping: () => send('STOPPING=1'),
    extendMs: (ms) => send(`EXTEND_TIMEOUT_USEC=${Math.trunc(ms * 1000)}`),
    // A line end in the text would start another assignment.
    status: (text) => send(`STATUS=${text.replace(/[\p{Cc}\p{Zl}\p{Zp}]/gu, ' ').slice(0, STATUS_CHARS)}`),
    watchdog: () => send('WATCHDOG=1'),
    watchdogMs: isWatched ? watchdogMs(env) : null,
    close: () => {
      isClosed = true;
      cancelRetry();
      relay.close();
    },
  };
}

/** A fraction of what systemd grants, at least 5 s, but never so long that systemd would act. */
function watchdogMs(env: NodeJS.ProcessEnv): number | null {
  const grantedMs = Number(env['WATCHDOG_USEC']) / 1000;
  const pid = env['WATCHDOG_PID'];
  if (!Number.isFinite(grantedMs) || grantedMs <= 0) return null;
  if (pid !== undefined && pid !== String(process.pid)) return null;
  return Math.min(Math.max(grantedMs / PINGS, WATCHDOG_MIN_MS), grantedMs * 0.8);
}

type RelayEnv = { readonly PATH: string | undefined; readonly NOTIFY_SOCKET: string };
type Relay = { readonly send: (message: string) => void; readonly close: () => void };
const NO_RELAY: Relay = { send: () => undefined, close: () => undefined };
type Lost = (message: string, why: string) => void;

const READY = 'READY=1';

function startRelay(env: RelayEnv, lost: Lost): Relay {
  const sendAlone = (message: string): void => sendByChild(message, env, lost);
  const child = startChild(() => spawn('perl', ['-e', RELAY], { env, stdio: ['pipe', 'pipe', 'ignore'] }));
  if (typeof child === 'string') return { send: sendAlone, close: () => undefined };
  let isUp = child.pid !== undefined;
  /** Written to the relay, which answers with one byte each: '.' sent, '!' not. */
  const sent: string[] = [];
  const hear = (answers: Buffer): void => {
    for (const answer of answers.toString('latin1')) {
      const message = sent.shift();
      if (answer === '!' && message !== undefined) sendAlone(message);
    }
  };
  const down = (): void => {
    isUp = false;
    // No perl, or it died: its unsent messages, and each later one, get a child of their own.
    for (const message of sent.splice(0)) sendAlone(message);
  };
  child.on('error', down);
  child.on('exit', down);
  // If no descriptor is left, the child has no pipes, whatever the types say.
  child.stdin?.on('error', down);
  child.stdout?.on('data', hear);
  letGo(child);
  return {
    send: (message) => {
      if (!isUp) sendAlone(message);
      else if (sent.length < QUEUED_MESSAGES) {
        sent.push(message);
        child.stdin.write(`${message.replaceAll('\n', '\x1f')}\n`);
      }
    },
    close: () => child.stdin?.end(),
  };
}

/**
 * A failed fork (no PIDs left) is no reason to end: systemd's watchdog spans several messages. Not with --no-block: if a child
 * is gone before systemd has seen which unit it belongs to, its message is ignored.
 */
function sendByChild(message: string, env: RelayEnv, lost: Lost): void {
  const child = startChild(() => spawn('systemd-notify', message.split('\n'), { env, stdio: 'ignore' }));
  if (typeof child === 'string') {
    lost(message, child);
    return;
  }
  child.on('error', (cause) => lost(message, cause.message));
  child.on('exit', (code, signal) => {
    if (code !== 0) lost(message, `systemd-notify ended with ${signal ?? code}`);
  });
  letGo(child);
}
