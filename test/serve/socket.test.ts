import { spawnSync } from 'node:child_process';
import { chownSync, linkSync, mkdirSync, mkdtempSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { connect, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createClock } from '../../src/host/clock.ts';
import { groupIdOf } from '../../src/host/own/socket-file.ts';
import { type Asked, askDaemon, watchDaemon } from '../../src/serve/ask.ts';
import { type OpenSocket, serveSocket } from '../../src/serve/socket.ts';
import { mountHungFileSystem, noHungMount } from '../host/hung-mount.ts';

const clock = createClock();
const isRoot = process.getuid?.() === 0;
const NOBODY = 65_534;
/** Ends itself: calls that hang keep a process from exiting. */
const BESIDE_HUNG_CALLS = `
  import { writeSync } from 'node:fs';
  import { stat } from 'node:fs/promises';
  import { createClock } from './src/host/clock.ts';
  import { isThreadFree } from './src/host/own/thread-pool.ts';
  import { serveSocket } from './src/serve/socket.ts';
  const { HUNG, SOCKET, GROUP } = process.env;
  const clock = createClock();
  do stat(HUNG).catch(() => undefined);
  while (await isThreadFree(clock));
  const served = await serveSocket({ clock, path: SOCKET, groupId: Number(GROUP), answer: () => null });
  writeSync(1, served.known ? 'served\\n' : served.detail);
  process.kill(process.pid, 'SIGKILL');
`;
let directory: string;
let path: string;
let opened: OpenSocket[];

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'nodewarden-socket-'));
  path = join(directory, 'nodewarden.sock');
  opened = [];
});
afterEach(async () => {
  for (const socket of opened) await socket.close();
  rmSync(directory, { recursive: true, force: true });
});

async function serve(
  answer: () => unknown = () => ({ schema: 1 }),
  groupId: number | null = null,
  observe: () => Promise<string> = () => new Promise(() => undefined),
  itsClock = clock,
) {
  const served = await serveSocket({
    clock: itsClock,
    path,
    groupId,
    answer,
    observe,
  });
  if (served.known) opened.push(served.value);
  return served;
}

/** All that it hears until it is hung up on. */
function untilSaid(client: Socket): Promise<string> {
  let heard = '';
  client.on('data', (text) => {
    heard += String(text);
  });
  return new Promise((resolve) => client.once('close', () => resolve(heard)));
}

/** Everything that comes until the daemon hangs up. */
function talk(said: string | Buffer): Promise<string> {
  return new Promise((resolve, reject) => {
    let heard = '';
    const socket = connect(path, () => socket.write(said));
    socket.setEncoding('utf8');
    socket.on('data', (text: string) => {
      heard += text;
    });
    socket.on('close', () => resolve(heard));
    // Cut off in the middle of what we said is how garbage ends.
    socket.on('error', (error) =>
      'code' in error && ['EPIPE', 'ECONNRESET'].includes(String(error.code)) ? resolve(heard) : reject(error),
    );
  });
}

describe('the socket', () => {
  it('answers with the status, only to owner and group', async () => {
    await serve(() => ({ schema: 1, node: 'a' }));
    expect(await askDaemon(path, { ask: 'status' }, clock)).toEqual({
      kind: 'answer',
      answer: { schema: 1, node: 'a' },
    });
    expect(statSync(path).mode & 0o777).toBe(0o660);
    // The umask is as before.
    writeFileSync(join(directory, 'other'), '', { mode: 0o666 });
    expect(statSync(join(directory, 'other')).mode & 0o111).toBe(0);
    expect(statSync(join(directory, 'other')).mode & 0o444).not.toBe(0o440);
  });

  it.skipIf(!isRoot)('belongs to the configured group [needs root]', async () => {
    const daemonGroup = groupIdOf('daemon');
    await serve(undefined, daemonGroup);
    expect(statSync(path)).toMatchObject({ gid: daemonGroup, mode: 0o140660 });
  });

  const needs = noHungMount === null ? '' : ` [${noHungMount}]`;
  it.skipIf(noHungMount !== null)(`is there although calls to a file system hang${needs}`, async () => {
    const hung = join(directory, 'hung');
    mkdirSync(hung);
    const { release } = await mountHungFileSystem(hung);
    const served = spawnSync(
      process.execPath,
      ['--import', 'tsx', '--input-type=module', '--eval', BESIDE_HUNG_CALLS],
      {
        cwd: join(import.meta.dirname, '../..'),
        env: { ...process.env, HUNG: join(hung, 'x'), SOCKET: path, GROUP: String(groupIdOf('daemon')) },
        encoding: 'utf8',
        timeout: 120_000,
        killSignal: 'SIGKILL',
      },
    );
    await release();
    expect(served.stdout).toBe('served\n');
    expect(statSync(path).gid).toBe(groupIdOf('daemon'));
  });

  it.each([
    ['no JSON', 'GET / HTTP/1.1\n'],
    ['another question', '{"ask":"stop"}\n'],
    ['a list', '[1]\n'],
    ['binary', Buffer.from([0, 255, 254, 10])],
    ['a line of more than 64 KiB', 'x'.repeat(65 * 1024)],
    ['a line of more than 64 KiB with an end', `${' '.repeat(65 * 1024)}{"ask":"status"}\n`],
  ])('answers %s with one sentence and hangs up', async (_, said) => {
    await serve();
    const heard = await talk(said);
    const requests = '{"ask":"status"}, {"ask":"watch"} or {"ask":"observe"}';
    expect(heard).toBe(`${JSON.stringify({ error: `a request is one line: ${requests}` })}\n`);
    expect(await askDaemon(path, { ask: 'status' }, clock)).toMatchObject({ kind: 'answer' });
  });

  it('says that its directory is missing, not that permission is', async () => {
    path = join(directory, 'gone', 's.sock');
    expect(await serve()).toMatchObject({
      known: false,
      detail: `the directory ${join(directory, 'gone')} does not exist`,
    });
  });

  it.skipIf(!isRoot)('says to a user who may not enter its directory who may query it [root]', async () => {
    await serve();
    process.seteuid?.(NOBODY);
    const asked = await askDaemon(path, { ask: 'status' }, clock).finally(() => process.seteuid?.(0));
    expect(asked).toMatchObject({
      kind: 'failed',
      detail: expect.stringContaining('only root and the group nodewarden may query it'),
    });
  });

  it('answers with a look as soon as there is one', async () => {
    await serve(undefined, null, () => Promise.resolve('{"schema":1,"pods":[]}'));
    expect(await askDaemon(path, { ask: 'observe' }, clock)).toEqual({
      kind: 'answer',
      answer: { schema: 1, pods: [] },
    });
  });

  it('gives a look to four clients at a time, and refuses the fifth with the reason', async () => {
    let look: (text: string) => void = () => undefined;
    const next = new Promise<string>((resolve) => {
      look = resolve;
    });
    let asked = 0;
    await serve(undefined, null, () => {
      asked++;
      return next;
    });
    const four = Array.from({ length: 4 }, () => askDaemon(path, { ask: 'observe' }, clock));
    while (asked < 4) await new Promise<void>((resolve) => clock.after(5, resolve));
    const detail = `${path}: 4 clients already wait for a sample: retry in a moment`;
    expect(await askDaemon(path, { ask: 'observe' }, clock)).toEqual({ kind: 'failed', detail });
    look('{"schema":1}');
    for (const one of await Promise.all(four)) expect(one).toEqual({ kind: 'answer', answer: { schema: 1 } });
    expect(await askDaemon(path, { ask: 'observe' }, clock)).toMatchObject({ kind: 'answer' });
  });

  it("says why there is no sample within the client's deadline", async () => {
    await serve();
    const detail = `${path}: no sample within 4 s`;
    expect(await askDaemon(path, { ask: 'observe' }, clock)).toEqual({ kind: 'failed', detail });
  }, 10_000);

  it('does not send a look of unlimited size', async () => {
    await serve(undefined, null, () => Promise.resolve(JSON.stringify('x'.repeat(33 * 2 ** 20))));
    const detail = `${path}: the sample is larger than 32 MiB: too large to send`;
    expect(await askDaemon(path, { ask: 'observe' }, clock)).toEqual({ kind: 'failed', detail });
  });

  it('says that nothing was observed yet while that is true', async () => {
    await serve(() => null);
    const detail = `${path}: no sample was taken yet: retry in a moment`;
    expect(await askDaemon(path, { ask: 'status' }, clock)).toEqual({ kind: 'failed', detail });
  });

  it('hangs up on a client that asks nothing within 5 s', async () => {
    await serve();
    expect(await talk('{"ask":')).toBe('{"error":"no request within 5 s"}\n');
  });

  it('sends a watcher an answer each second, until it hangs up', async () => {
    let n = 0;
    await serve(() => ({ n: ++n }));
    const heard: Asked[] = [];
    await new Promise<void>((resolve) => {
      const stop = watchDaemon(path, { ask: 'watch' }, clock, (asked) => {
        if (heard.push(asked) < 3) return;
        stop();
        resolve();
      });
    });
    expect(heard.map((asked) => (asked.kind === 'answer' ? asked.answer : asked))).toEqual([
      { n: 1 },
      { n: 2 },
      { n: 3 },
    ]);
  });

  it('disconnects a watcher that reads nothing, and serves the others meanwhile', async () => {
    await serve(() => ({ padding: 'x'.repeat(2 * 1024 * 1024) }));
    const deaf: Socket = connect(path, () => deaf.write('{"ask":"watch"}\n'));
    deaf.pause();
    deaf.on('error', () => {});
    const began = clock.monoMs();
    const isOpen = await new Promise<boolean>((resolve) => {
      const look = (): void => {
        // A destroyed peer shows only when written to.
        if (deaf.destroyed || deaf.write(' ') === false) resolve(false);
        else if (clock.monoMs() - began > 20_000) resolve(true);
        else clock.after(200, look);
      };
      deaf.on('close', () => resolve(false));
      look();
    });
    expect(isOpen).toBe(false);
    expect(await askDaemon(path, { ask: 'status' }, clock)).toMatchObject({ kind: 'answer' });
    deaf.destroy();
  });

  it('drops a watcher that reads nothing, and has to make room, without waiting until it reads', async () => {
    await serve(() => ({ padding: 'x'.repeat(2 * 1024 * 1024) }));
    const deaf: Socket = connect(path, () => deaf.write('{"ask":"watch"}\n'));
    deaf.pause();
    deaf.on('error', () => {});
    const isGone = new Promise<true>((resolve) => deaf.once('close', () => resolve(true)));
    await new Promise<void>((resolve) => clock.after(500, resolve));
    const others = Array.from({ length: 16 }, () => connect(path));
    await Promise.all(others.map((other) => new Promise((resolve) => other.once('connect', resolve))));
    // A destroyed peer shows only when written to.
    await new Promise<void>((resolve) => clock.after(500, resolve));
    deaf.write(' ');
    const isLate = new Promise<false>((resolve) => clock.after(8_000, () => resolve(false)));
    expect(await Promise.race([isGone, isLate])).toBe(true);
    for (const client of [deaf, ...others]) client.destroy();
  });

  it('is never blocked by clients that ask nothing or only watch: the oldest is dropped', async () => {
    let laterMs = 0;
    const monoMs = (): number => clock.monoMs() + laterMs;
    await serve(undefined, null, undefined, { ...clock, monoMs });
    const connected = (): Promise<Socket> =>
      new Promise((resolve) => {
        const client = connect(path, () => resolve(client));
      });
    const hears = (client: Socket): Promise<string> =>
      new Promise((resolve) => client.once('data', (text) => resolve(String(text))));
    const watchers = await Promise.all(Array.from({ length: 15 }, connected));
    for (const watcher of watchers) watcher.write('{"ask":"watch"}\n');
    await Promise.all(watchers.map(hears));
    const silent = await connected();
    const [told, toldSilent] = [watchers[0], silent].map((client) => (client === undefined ? '' : untilSaid(client)));
    const status = (): Promise<string> => talk('{"ask":"status"}\n');
    // It may have only just come, and ask in a moment.
    expect(await Promise.all([status(), status()])).toEqual(Array(2).fill('{"answer":{"schema":1}}\n'));
    expect(await told).toContain('{"error":"more than 16 clients: the newest are served"}\n');
    expect(silent.destroyed).toBe(false);
    laterMs = 1_500;
    for (let i = 0; i < 3 && !silent.destroyed; i++) expect(await status()).toBe('{"answer":{"schema":1}}\n');
    const more = await Promise.all(Array.from({ length: 4 }, connected));
    expect(await toldSilent).toBe('{"error":"more than 16 clients: the newest are served"}\n');
    for (const client of [...watchers, ...more]) client.destroy();
  });

  it('is replaced if a dead daemon left it', async () => {
    const dead = createServer().listen(path);
    await new Promise((resolve) => dead.once('listening', resolve));
    // Closing would remove the file: a killed process leaves it. A hard link keeps it here.
    linkSync(path, `${path}.kept`);
    await new Promise((resolve) => dead.close(resolve));
    renameSync(`${path}.kept`, path);
    expect(await askDaemon(path, { ask: 'status' }, clock)).toMatchObject({ kind: 'not-running', isStale: true });
    expect((await serve()).known).toBe(true);
    expect(await askDaemon(path, { ask: 'status' }, clock)).toMatchObject({ kind: 'answer' });
  });

  it('is left to a living daemon', async () => {
    await serve();
    expect(await serve()).toMatchObject({ known: false, detail: 'another nodewarden answers there' });
    expect(await askDaemon(path, { ask: 'status' }, clock)).toMatchObject({ kind: 'answer' });
  });

  it('of another agent stays when this one ends', async () => {
    const served = await serve();
    if (!served.known) throw new Error(served.detail);
    expect(served.value.isThere()).toBe(true);
    rmSync(path);
    expect(served.value.isThere()).toBe(false);
    const next = await serve(() => 'next');
    expect([next.known, served.value.isThere()]).toEqual([true, false]);
    await served.value.close();
    expect(await askDaemon(path, { ask: 'status' }, clock)).toEqual({ kind: 'answer', answer: 'next' });
    opened.shift();
  });

  it.skipIf(!isRoot)('of another user is neither trusted nor waited for, and is replaced [root]', async () => {
    const fake = createServer((socket) => socket.resume().end('{"answer":{"schema":1}}\n')).listen(path);
    await new Promise((resolve) => fake.once('listening', resolve));
    expect(await askDaemon(path, { ask: 'status' }, clock)).toMatchObject({ kind: 'answer' });
    chownSync(path, 1234, 1234);
    const refused = { kind: 'failed', detail: expect.stringContaining('belongs to user 1234, not to root') };
    expect(await askDaemon(path, { ask: 'status' }, clock)).toMatchObject(refused);
    expect((await serve(() => 'ours')).known).toBe(true);
    expect(await askDaemon(path, { ask: 'status' }, clock)).toEqual({ kind: 'answer', answer: 'ours' });
    await new Promise((resolve) => fake.close(resolve));
  });

  it('on which nobody answers is taken after a second', async () => {
    const silent = createServer((socket) => socket.resume()).listen(path);
    await new Promise((resolve) => silent.once('listening', resolve));
    expect((await serve(() => 'ours')).known).toBe(true);
    expect(await askDaemon(path, { ask: 'status' }, clock)).toEqual({ kind: 'answer', answer: 'ours' });
    silent.close();
  });

  it('replaces no file that is not a socket, and is not created without its directory', async () => {
    writeFileSync(path, 'mine');
    expect(await serve()).toMatchObject({ known: false, detail: 'there is a file that is not a socket' });
    rmSync(path);
    path = join(directory, 'none', 'nodewarden.sock');
    expect(await serve()).toMatchObject({ known: false });
  });
});

describe('a query', () => {
  it('reports that nobody listens if there is no socket', async () => {
    expect(await askDaemon(path, { ask: 'status' }, clock)).toMatchObject({ kind: 'not-running', isStale: false });
  });

  it('does not wait forever, and accepts only JSON', async () => {
    const server = createServer((socket) => socket.resume().write('hello\n')).listen(path);
    await new Promise((resolve) => server.once('listening', resolve));
    expect(await askDaemon(path, { ask: 'status' }, clock)).toMatchObject({
      kind: 'failed',
      detail: `${path}: another program answers there`,
    });
    await new Promise((resolve) => server.close(resolve));
  });
});
