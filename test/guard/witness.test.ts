import type { AddressInfo } from 'node:net';
import { createServer as createTcp, type Server, type Socket } from 'node:net';
import { createServer } from 'node:tls';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { createWitnesses, handshake } from '../../src/guard/witness.ts';
import { until } from '../host/test-cgroup.ts';
import { type Authority, createAuthority } from '../kube/certificates.ts';
import { hurried } from '../standalone/needs.ts';
import { clock } from './a-guard-api.ts';

let authority: Authority;
beforeAll(() => {
  authority = createAuthority();
});
afterAll(() => authority.remove());
const servers: Server[] = [];
const sockets: Socket[] = [];
afterEach(() => {
  for (const socket of sockets.splice(0)) socket.destroy();
  for (const server of servers.splice(0)) server.close();
});

async function listening(server: Server): Promise<{ readonly host: string; readonly port: number }> {
  servers.push(server);
  server.on('connection', (socket) => {
    sockets.push(socket);
    socket.on('error', () => undefined);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { host: '127.0.0.1', port: (server.address() as AddressInfo).port };
}
const hasty = hurried(clock, 30);
const said = async (address: { readonly host: string; readonly port: number }) => {
  const answer = await handshake(hasty, address);
  return answer.known ? answer.value : answer.why;
};

const PLACES = {
  answers: () => listening(createTcp((socket) => socket.end('HTTP/1.0 400 Bad Request\r\n\r\n'))),
  refused: () => listening(createTcp((socket) => socket.destroy())),
  silent: () => listening(createTcp(() => undefined)),
  malformed: async () => ({ host: 'localhost', port: 10_250 }),
} as const;

describe('the second witness', () => {
  it('answers if its kubelet serves TLS, whatever certificate it has, and is told nothing', async () => {
    const key = authority.read('server.key');
    let heard = '';
    const server = createServer(
      { key, cert: authority.read('server.crt'), requestCert: true, rejectUnauthorized: false },
      (socket) => {
        socket.on('data', (data) => {
          heard += data;
        });
        socket.on('error', () => undefined);
        heard += socket.getPeerCertificate()?.subject?.CN ?? '';
      },
    );
    expect(await said(await listening(server))).toBe('answers');
    expect(heard).toBe('');
  });

  it('refuses if nobody listens there, or hangs up at once', async () => {
    const gone = createTcp();
    const address = await listening(gone);
    await new Promise((resolve) => gone.close(resolve));
    expect(await said(address)).toBe('refused');
    expect(await said(await listening(createTcp((socket) => socket.destroy())))).toBe('refused');
  });

  it('is silent if it accepts and says nothing, as a frozen process does', async () => {
    expect(await said(await listening(createTcp(() => undefined)))).toBe('silent');
  });

  it('is heard although this process stalled past the time it has', async () => {
    const key = authority.read('server.key');
    const address = await listening(createServer({ key, cert: authority.read('server.crt') }));
    const heard = said(address);
    setImmediate(() => {
      const untilMs = hasty.monoMs() + 4_000;
      while (hasty.monoMs() < untilMs);
    });
    expect(await heard).toBe('answers');
  });

  it('answers if something else than TLS is there: against acting', async () => {
    expect(await said(await listening(createTcp((socket) => socket.end('HTTP/1.0 400 Bad Request\r\n\r\n'))))).toBe(
      'answers',
    );
  });

  it.each([
    ['localhost', 10_250],
    ['', 10_250],
    ['10.0.0.1/../x', 10_250],
    ['127.0.0.1', 0],
    ['127.0.0.1', 70_000],
    ['127.0.0.1', 1.5],
  ])('is unknown if the Node names %s:%d: no name is looked up', async (host, port) => {
    expect(await said({ host, port })).toBe('malformed');
  });

  it.each<readonly [string, readonly (keyof typeof PLACES)[], string]>([
    ['answers if it does at any of its addresses', ['silent', 'refused', 'answers'], 'answers'],
    ['refuses if it does at one, and answers at none', ['silent', 'refused'], 'refused'],
    ['is silent if one of its addresses cannot be tried', ['malformed', 'silent'], 'silent'],
    ['is unknown if none of them can be tried', ['malformed', 'malformed'], 'malformed'],
  ])('%s', async (_, places, heard) => {
    const addresses = await Promise.all(places.map((place) => PLACES[place]()));
    let arrivals = 0;
    const witnesses = createWitnesses({ clock: hasty, addressesOf: () => addresses, arrived: () => void arrivals++ });
    witnesses.ask(['u1']);
    await until(() => arrivals === 1);
    const said = witnesses.of('u1');
    expect(said.known ? said.value.value : said.why).toBe(heard);
  });

  it('is tried for ten nodes at a time, each once, with the time when it was tried', async () => {
    const address = await listening(createTcp(() => undefined));
    let begun = 0;
    let most = 0;
    let arrivals = 0;
    const witnesses = createWitnesses({
      clock: hasty,
      addressesOf: (uid) => {
        begun += 1;
        most = Math.max(most, begun - arrivals);
        return uid === 'none' ? [] : [address];
      },
      arrived: () => {
        arrivals += 1;
      },
    });
    const uids = Array.from({ length: 25 }, (_, i) => `u${i}`);
    const beganMs = hasty.monoMs();
    witnesses.ask([...uids, 'none']);
    witnesses.ask(uids);
    expect(witnesses.of('u1')).toMatchObject({ known: false, why: 'not-asked' });
    await until(() => arrivals === 26);
    expect([begun, most]).toEqual([26, 10]);
    const last = witnesses.of('u24');
    expect(last).toMatchObject({ known: true, value: { value: 'silent' } });
    expect(last.known && last.value.asOfMs).toBeGreaterThanOrEqual(beganMs);
    expect(witnesses.of('none')).toMatchObject({ known: false, why: 'absent' });
    witnesses.keepOnly(new Set(['u1']));
    expect(witnesses.of('u24').known).toBe(false);
    expect(witnesses.of('u1').known).toBe(true);
  });
});
