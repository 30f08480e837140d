import { connect, type Socket } from 'node:net';
import { describe, expect, it, onTestFinished } from 'vitest';
import { createClock, sleep } from '../../src/host/clock.ts';
import type { Clock } from '../../src/ports.ts';
import { type HttpNeeds, type Route, serveHttp, text } from '../../src/serve/http.ts';
import { bodyOf, freePort, get, statusOf, talk } from './a-web.ts';

const clock = createClock();
const ROUTES: readonly Route[] = [
  { path: '/', answer: () => ({ status: 200, type: 'text/html; charset=utf-8', body: '<p>ü</p>' }) },
  { path: '/named', answer: (query) => text(200, `${query.get('name')}`) },
  {
    path: '/broken',
    answer: () => {
      throw new Error('it broke');
    },
  },
  { path: '/late', answer: () => new Promise(() => undefined) },
];

async function serve(needs: Partial<HttpNeeds> = {}): Promise<number> {
  const port = await freePort();
  const served = await serveHttp({ clock, host: '127.0.0.1', port, hosts: [], routes: ROUTES, ...needs });
  if (!served.known) throw new Error(served.detail);
  onTestFinished(served.value.close);
  return port;
}

/** A clock with which these waits are over at once. */
const hurried = (...waits: readonly number[]): Clock => ({
  ...clock,
  after: (ms, run) => clock.after(waits.includes(ms) ? 50 : ms, run),
});

describe('the HTTP server', () => {
  it('answers GET with headers that keep other sites out, and hangs up', async () => {
    const answer = await get(await serve(), '/');
    expect(statusOf(answer)).toBe(200);
    expect(bodyOf(answer)).toBe(Buffer.from('<p>ü</p>').toString('latin1'));
    const csp = /^Content-Security-Policy: (.*)\r$/m.exec(answer)?.[1] ?? '';
    expect(csp).toContain("default-src 'none'");
    expect(csp).toContain("frame-ancestors 'none'");
    expect(csp).not.toContain('unsafe-inline');
    for (const header of ['X-Content-Type-Options: nosniff', 'Referrer-Policy: no-referrer', 'Content-Length: 9']) {
      expect(answer).toContain(`\r\n${header}\r\n`);
    }
  });
  it('answers HEAD with the same headers and no body', async () => {
    const port = await serve();
    const head = await talk(port, 'HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n');
    expect(head).toBe(`${(await get(port, '/')).split('\r\n\r\n')[0]}\r\n\r\n`);
  });
  it('passes the query to the route', async () => {
    expect(bodyOf(await get(await serve(), '/named?name=a%20b?&c'))).toBe('a b?\n');
  });
  it('accepts a request in pieces, and from a client that has closed its side', async () => {
    const port = await serve();
    const heard = await new Promise((resolve) => {
      const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
      let said = '';
      socket.on('data', (chunk) => {
        said += chunk;
      });
      socket.on('end', () => resolve(said));
      const pieces = [...'GET /named?name=x HTTP/1.1\r\nHost: localhost\r\n\r\n'];
      const next = (): void => {
        const piece = pieces.shift();
        if (piece === undefined) socket.end();
        else socket.write(piece, () => setImmediate(next));
      };
      next();
    });
    expect(bodyOf(String(heard))).toBe('x\n');
  });

  it.each([
    ['POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc', 405],
    ['DELETE / HTTP/1.1\r\nHost: localhost\r\n\r\n', 405],
    ['CONNECT localhost:1 HTTP/1.1\r\nHost: localhost\r\n\r\n', 405],
    ['GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n', 404],
    ['GET http://localhost/ HTTP/1.1\r\nHost: localhost\r\n\r\n', 404],
    ['GET /../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n', 404],
    ['GET /__proto__ HTTP/1.1\r\nHost: localhost\r\n\r\n', 404],
    ['GET /broken HTTP/1.1\r\nHost: localhost\r\n\r\n', 500],
    ['GET / HTTP/1.1\r\n\r\n', 400],
    ['GET / HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n', 400],
    ['GET / HTTP/1.1\r\nHost: localhost\r\n folded\r\n\r\n', 400],
    ['GET / HTTP/1.1\nHost: localhost\n\n\r\n\r\n', 400],
    ['GET / HTTP/1.1\r\nHost : localhost\r\n\r\n', 400],
    ['GET / HTTP/9.9\r\nHost: localhost\r\n\r\n', 400],
    ['GET  / HTTP/1.1\r\nHost: localhost\r\n\r\n', 400],
    ['PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 400],
    ['\x16\x03\x01\x02\x00\x01\x00\x01\r\n\r\n', 400],
    [`GET /${'a'.repeat(9_000)} HTTP/1.1\r\nHost: localhost\r\n\r\n`, 431],
    [`GET / HTTP/1.1\r\nHost: localhost\r\nX: ${'a'.repeat(60_000)}`, 431],
  ])('refuses %j with %i, and says why', async (said, status) => {
    const answer = await talk(await serve(), Buffer.from(said, 'latin1'));
    expect(statusOf(answer)).toBe(status);
    expect(bodyOf(answer)).toMatch(/^.+\n$/);
  });
  it('echoes nothing from a request', async () => {
    expect(await get(await serve(), '/<script>')).not.toContain('script>');
  });

  it.each(['localhost', 'LOCALHOST:9090', '127.0.0.1:1', '[::1]', '[::1]:80', 'node1.example', 'node2.example:81'])(
    'answers requests for %s',
    async (host) => {
      const port = await serve({ hosts: ['Node1.example', 'node2.example:81'] });
      expect(statusOf(await get(port, '/', host))).toBe(200);
    },
  );
  it.each([
    'evil.example',
    'localhost.evil.example',
    '127.0.0.1.evil.example:80',
    'evil.example:127.0.0.1',
    'localhost@evil.example',
    'localhost, evil.example',
    '127.1',
    '2130706433',
    '10.0.0.1',
    '',
    ':80',
    'node2.example:82',
  ])('does not answer requests for %j: a name can be made to resolve to this machine', async (host) => {
    const answer = await get(await serve({ hosts: ['node2.example:81'] }), '/', host);
    expect(statusOf(answer)).toBe(421);
    expect(bodyOf(answer)).toContain('http.hosts');
  });
  it('answers requests for the address that the client connected to if it listens on all of them', async () => {
    const port = await serve({ host: '0.0.0.0' });
    const request = 'GET / HTTP/1.1\r\nHost: 127.0.0.2:80\r\n\r\n';
    expect(statusOf(await talk(port, request, '127.0.0.2'))).toBe(200);
    expect(statusOf(await talk(port, request, '127.0.0.3'))).toBe(421);
  });

  it('answers one request per connection, however many arrive at once', async () => {
    const answer = await talk(await serve(), 'GET /named?name=x HTTP/1.1\r\nHost: localhost\r\n\r\n'.repeat(1_000));
    expect(answer.match(/HTTP\/1\.1/g)).toHaveLength(1);
  });
  it('answers at most every 10 ms, even if clients ask without pause', async () => {
    const waits: number[] = [];
    const after: Clock['after'] = (ms, run) => {
      waits.push(ms);
      return clock.after(ms > 1_000 ? ms : 0, run);
    };
    const port = await serve({ clock: { ...clock, monoMs: () => 0, after } });
    await Promise.all(Array.from({ length: 5 }, () => get(port, '/')));
    expect(waits.filter((ms) => ms < 1_000)).toEqual([0, 10, 20, 30, 40]);
  });
  it('hangs up on a client that sends endlessly', async () => {
    const port = await serve();
    const socket = connect(port, '127.0.0.1');
    socket.on('error', () => undefined);
    const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()));
    socket.write('GET / HTTP/1.1\r\nHost: localhost\r\n\r\n');
    const send = (): void => {
      if (!socket.destroyed) socket.write('x'.repeat(16_384), () => setImmediate(send));
    };
    send();
    socket.resume();
    await closed;
    expect(statusOf(await get(port, '/'))).toBe(200);
  });
  it('hangs up on a client whose request does not end in time, and on one that does not read its answer', async () => {
    const body = 'x'.repeat(64 * 1024 * 1024);
    const large = { path: '/large', answer: () => text(200, body) };
    const port = await serve({ clock: hurried(10_000), routes: [large] });
    expect(await talk(port, 'GET / HTTP/1.1\r\nHost: local')).toBe('');
    const unread = connect(port, '127.0.0.1', () => unread.write('GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n'));
    unread.on('error', () => undefined);
    await sleep(clock, 500);
    const closed = new Promise<void>((resolve) => unread.once('close', () => resolve()));
    let heard = 0;
    unread.on('data', (chunk) => {
      heard += chunk.length;
    });
    await closed;
    expect(heard).toBeLessThan(body.length);
  });
  it('does not wait for a route that never ends', async () => {
    const answer = await get(await serve({ clock: hurried(5_000) }), '/late');
    expect([statusOf(answer), bodyOf(answer)]).toEqual([500, 'no answer within 5 s\n']);
  });
  it('keeps 32 connections, preferring the newest', async () => {
    const port = await serve();
    const silent: Socket[] = [];
    let cut = 0;
    for (let i = 0; i < 100; i++) {
      const socket = connect(port, '127.0.0.1');
      socket.on('error', () => undefined).on('close', () => cut++);
      silent.push(socket);
      await new Promise((resolve) => socket.once('connect', resolve));
    }
    expect(statusOf(await get(port, '/'))).toBe(200);
    while (cut < 68) await sleep(clock, 10);
    for (const socket of silent) socket.destroy();
  });

  it('says why it does not listen', async () => {
    const port = await serve();
    const again = await serveHttp({ clock, host: '127.0.0.1', port, hosts: [], routes: [] });
    expect(again).toMatchObject({
      known: false,
      where: `127.0.0.1:${port}`,
      detail: expect.stringContaining('EADDRINUSE'),
    });
    const elsewhere = await serveHttp({ clock, host: '192.0.2.1', port, hosts: [], routes: [] });
    expect(elsewhere).toMatchObject({ known: false, detail: expect.stringContaining('EADDRNOTAVAIL') });
  });
});
