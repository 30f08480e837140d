import { copyFileSync, readdirSync, writeFileSync } from 'node:fs';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createClock } from '../../src/host/clock.ts';
import type { ApiState, Connection } from '../../src/kube/api/connection.ts';
import { openConnection } from '../../src/kube/api/open-connection.ts';
import { heardParts, hurried } from '../standalone/needs.ts';
import { type Authority, createAuthority, writeKubeconfig } from './certificates.ts';
import { eventually } from './eventually.ts';
import { type StubApi, startStubApi } from './stub-api.ts';

let authority: Authority;
let stub: StubApi;
let connection: Connection | null = null;
let parts: ReturnType<typeof heardParts>;
const clock = createClock();

beforeAll(() => {
  authority = createAuthority();
});
afterAll(() => authority.remove());
beforeEach(async () => {
  stub = await startStubApi(authority);
  parts = heardParts();
});
afterEach(async () => {
  connection?.close();
  connection = null;
  await stub.stop();
});

function open(user: object = {}, times = 1): Connection {
  const kubeconfig = writeKubeconfig(authority, stub.url, { user });
  connection = openConnection({ clock: hurried(clock, times), findings: parts.findings, kubeconfig });
  return connection;
}
const isState = (state: ApiState) => eventually(() => expect(connection?.state()).toBe(state));
const asked = (path: string) => stub.heard.filter((one) => one.path === path);
const VERSION = '/version';
const NODES = '/api/v1/nodes/node-1';

describe('the connection to the API server', () => {
  it('uses the identity of its certificate, over one warm connection', async () => {
    const { get } = open();
    await isState('up');
    for (let i = 0; i < 5; i++) {
      expect(await get(NODES, 5_000)).toMatchObject({ kind: 'answer', status: 200, body: { kind: 'Node' } });
    }
    expect(stub.heard.every(({ user }) => user === 'nodewarden:node:node-1')).toBe(true);
    expect(stub.sockets()).toBe(1);
  });

  it("sends requests unchanged, and returns the server's answers", async () => {
    const { send } = open();
    const body = { metadata: { name: 'ö' } };
    const path = '/api/v1/namespaces/default/pods/a/eviction';
    stub.fault(/eviction/, { kind: 'status', status: 429, headers: { 'retry-after': '3' }, body: { kind: 'Status' } });
    const answer = await send({ method: 'POST', path, contentType: 'application/json', body, deadlineMs: 5_000 });
    expect(answer).toEqual({ kind: 'answer', status: 429, body: { kind: 'Status' }, retryAfterMs: 3_000 });
    expect(asked(path)).toMatchObject([{ method: 'POST', body }]);
  });

  it.each(['600', 'Fri, 31 Dec 9999 23:59:59 GMT'])(
    'waits 10 s at most if it should wait longer (%s)',
    async (said) => {
      const { get, stream } = open();
      await isState('up');
      const busy = { kind: 'status', status: 503, headers: { 'retry-after': said } } as const;
      stub.fault(/nodes/, busy);
      expect(await get(NODES, 5_000)).toMatchObject({ status: 503, retryAfterMs: 10_000 });
      const ends: unknown[] = [];
      stub.fault(/watch/, busy);
      const ended = (why: unknown) => void ends.push(why);
      stream('/api/v1/pods?watch=true', { opened: () => undefined, line: () => undefined, ended }, 60_000);
      await eventually(() => expect(ends).toMatchObject([{ status: 503, retryAfterMs: 10_000 }]));
    },
  );

  it.each([
    ['hang', { kind: 'hang' }, { detail: 'no answer within 200 ms', isTimeout: true }],
    [
      'bytes that come one by one',
      { kind: 'slow' },
      { detail: 'not all of the answer within 200 ms', isTimeout: true, isTooMuch: true },
    ],
    ['a reset', { kind: 'reset' }, { detail: 'socket hang up', isTimeout: false }],
    ['half a body', { kind: 'cut-body' }, { detail: 'the answer broke off', isTimeout: false }],
  ] as const)('ends at its deadline at the latest, with the reason: %s', async (_, fault, why) => {
    const { get } = open();
    await isState('up');
    // A warm connection that is gone is tried once more.
    stub.fault(/nodes/, fault, fault.kind === 'reset' ? 2 : 1);
    const startMs = clock.monoMs();
    expect(await get(NODES, 200)).toEqual({ kind: 'none', ...why });
    expect(clock.monoMs() - startMs).toBeLessThan(5_000);
    expect(connection?.state()).toBe('suspect');
    expect(await get(NODES, 5_000)).toMatchObject({ status: 200 });
    expect(connection?.state()).toBe('up');
  });

  it.each([
    ['no JSON', { kind: 'garbage' }, 'not JSON'],
    ['more than it may', { kind: 'huge', bytes: 70 * 1024 * 1024 }, 'larger than 64 MiB'],
  ] as const)('treats %s as an answer without a body', async (_, fault, problem) => {
    const { get } = open();
    stub.fault(/nodes/, fault);
    expect(await get(NODES, 20_000)).toMatchObject({ kind: 'answer', status: 200, body: null, problem });
    expect(await get(NODES, 5_000)).toMatchObject({ status: 200 });
  });

  it('is away after two missed deadlines, then only probes, and recovers by itself', async () => {
    const { get } = open();
    await isState('up');
    stub.fault(/./, { kind: 'hang' }, 2);
    await get(NODES, 50);
    await get(NODES, 50);
    expect(connection?.state()).toBe('away');
    expect(parts.present.get('api-away')).toBe(
      'the API server is away (no answer within 50 ms): the last known state of the pods stays in force, and they are stopped only by their cgroups',
    );
    const before = stub.heard.length;
    expect(await get(NODES, 5_000)).toMatchObject({ kind: 'none', detail: expect.stringContaining('is away') });
    await isState('up');
    expect(stub.heard.slice(before).every(({ path }) => path === VERSION)).toBe(true);
    expect(parts.present.has('api-away')).toBe(false);
  });

  it('is away at once if nothing listens, and reports each change', async () => {
    const { get, onState } = open({}, 10);
    await isState('up');
    const states: ApiState[] = [];
    onState((state) => states.push(state));
    await stub.stop();
    await get(NODES, 50_000);
    await isState('away');
    await stub.listen();
    await isState('up');
    expect(states.at(-1)).toBe('up');
    expect(states).toContain('away');
  });

  it('keeps its connection warm, which reveals a hanging server', async () => {
    const { onState } = open({}, 50);
    const states: ApiState[] = [];
    onState((state) => states.push(state));
    await eventually(() => expect(asked(VERSION).length).toBeGreaterThan(2));
    await eventually(() => expect(stub.sockets()).toBe(1));
    stub.fault(/version/, { kind: 'hang' }, 2);
    await eventually(() => expect(states).toContain('away'));
    await isState('up');
  });

  it('gives each stream a socket, and delivers complete lines', async () => {
    const { stream } = open();
    await isState('up');
    const lines: string[] = [];
    const ends: string[] = [];
    let stop = (): void => undefined;
    const path = '/api/v1/pods?watch=true&resourceVersion=100';
    const mine = stream(
      path,
      {
        opened: () => lines.push('open'),
        line: (text) => {
          lines.push(text);
          stop();
        },
        ended: ({ detail }) => ends.push(detail),
      },
      60_000,
    );
    await eventually(() => expect(lines).toEqual(['open']));
    expect(stub.sockets()).toBe(2);
    // In the middle of a letter too.
    const text = Buffer.from('{"a":"ö"}\n{"b"');
    stub.sayRaw(text.subarray(0, 7).toString('latin1').slice(0, 6));
    stub.sayRaw('ö"}\n{"b"');
    await eventually(() => expect(lines).toEqual(['open', '{"a":"ö"}']));
    stub.sayRaw(':1}\n');
    await eventually(() => expect(lines).toEqual(['open', '{"a":"ö"}', '{"b":1}']));
    // No line comes after the end, though it came with the last one.
    stop = () => mine.close();
    stub.sayRaw('last\nnever\n');
    await eventually(() => expect(ends).toHaveLength(1));
    mine.close();
    expect(lines.slice(3)).toEqual(['last']);
    expect(ends).toEqual(['closed']);
    await eventually(() => expect(stub.sockets()).toBe(1));
  });

  it.each([
    ['cut', () => stub.breakAll(), /hang up|closed|ended|aborted/],
    ['silent', () => undefined, /nothing for/],
    ['one endless line', () => stub.sayRaw('x'.repeat(9 * 1024 * 1024)), /longer than 8 MiB/],
  ])('ends a stream once that is %s', async (name, happen, detail) => {
    const { stream } = open();
    const ends: string[] = [];
    let isOpen = false;
    stream(
      '/api/v1/pods?watch=true&resourceVersion=100',
      { opened: () => (isOpen = true), line: () => undefined, ended: (why) => ends.push(why.detail) },
      name === 'silent' ? 300 : 60_000,
    );
    await eventually(() => expect(isOpen).toBe(true));
    happen();
    await eventually(() => expect(ends).toEqual([expect.stringMatching(detail)]));
    await eventually(() => expect(stub.sockets()).toBeLessThan(2));
  });

  it('reports the status with which a stream was refused, and ends it when the server is away', async () => {
    const { stream, get } = open();
    await isState('up');
    const ends: unknown[] = [];
    const listener = { opened: () => undefined, line: () => undefined, ended: (why: unknown) => void ends.push(why) };
    stub.fault(/watch/, { kind: 'status', status: 429, headers: { 'retry-after': '2' } });
    stream('/api/v1/pods?watch=true', listener, 60_000);
    await eventually(() => expect(ends).toEqual([{ status: 429, detail: 'a planted fault', retryAfterMs: 2_000 }]));
    stream('/api/v1/pods?watch=true&resourceVersion=100', listener, 60_000);
    await eventually(() => expect(stub.store.counts().open).toBe(1));
    stub.fault(/nodes/, { kind: 'hang' }, 2);
    await Promise.all([get(NODES, 50), get(NODES, 50)]);
    expect(ends.at(-1)).toMatchObject({ status: null, detail: expect.stringContaining('is away') });
  });

  it('that is closed during a request opens no other', async () => {
    const { get, close } = open();
    await isState('up');
    stub.fault(/nodes/, { kind: 'hang' });
    const asking = get(NODES, 5_000);
    await eventually(() => expect(asked(NODES)).toHaveLength(1));
    close();
    expect(await asking).toMatchObject({ kind: 'none' });
    await eventually(() => expect(stub.sockets()).toBe(0));
    expect(asked(NODES)).toHaveLength(1);
  });

  it('leaves nothing behind', async () => {
    const { get, stream, close } = open();
    const ends: unknown[] = [];
    const listener = { opened: () => undefined, line: () => undefined, ended: (why: unknown) => void ends.push(why) };
    await get(NODES, 5_000);
    stream('/api/v1/pods?watch=true&resourceVersion=100', listener, 60_000);
    await eventually(() => expect(stub.store.counts().open).toBe(1));
    const descriptors = readdirSync('/proc/self/fd').length;
    for (let i = 0; i < 40; i++) {
      const { close: stop } = stream('/api/v1/pods?watch=true&resourceVersion=100', listener, 60_000);
      if (i % 2 === 0) await eventually(() => expect(stub.store.counts().open).toBe(2));
      stop();
      await eventually(() => expect(stub.store.counts().open).toBe(1));
    }
    await eventually(() => expect(readdirSync('/proc/self/fd').length).toBeLessThanOrEqual(descriptors + 2));
    close();
    expect(ends).toHaveLength(41);
    await eventually(() => expect(stub.sockets()).toBe(0));
    expect(await get(NODES, 5_000)).toMatchObject({ kind: 'none', detail: 'closed' });
  });
});

describe('credentials', () => {
  const client = (name: string) => {
    for (const end of ['crt', 'key']) copyFileSync(authority.at(`${name}.${end}`), authority.at(`client.${end}`));
  };

  it('that are renewed take over, with a new connection and without an error', async () => {
    authority.issue('first', '/CN=first');
    authority.issue('second', '/CN=second');
    client('first');
    const { get } = open({}, 20);
    await isState('up');
    client('second');
    await eventually(async () => {
      expect(await get(NODES, 50_000)).toMatchObject({ status: 200 });
      expect(stub.heard.at(-1)?.user).toBe('second');
    });
    expect(parts.present.size).toBe(0);
    await eventually(() => expect(stub.sockets()).toBe(1));
  });

  it('that are half written are not used, and the old ones stay in use', async () => {
    const { get } = open({}, 20);
    await isState('up');
    writeFileSync(authority.at('client.key'), 'half of a k');
    await eventually(() => expect(parts.present.get('api-credentials')).toMatch(/the previous ones stay in use$/));
    expect(await get(NODES, 50_000)).toMatchObject({ status: 200 });
    authority.issue('client', '/CN=renewed');
    await eventually(() => expect(parts.present.has('api-credentials')).toBe(false));
    expect(await get(NODES, 50_000)).toMatchObject({ status: 200 });
  });

  it('that are refused are read again, and the request is sent once more', async () => {
    const tokenFile = authority.at('token');
    writeFileSync(tokenFile, 'old\n');
    stub.tokens.add('old');
    const { get } = open({ 'client-certificate': undefined, 'client-key': undefined, tokenFile: 'token' });
    await isState('up');
    stub.tokens.delete('old');
    stub.tokens.add('new');
    writeFileSync(tokenFile, 'new\n');
    expect(await get(NODES, 5_000)).toMatchObject({ status: 200 });
    stub.tokens.delete('new');
    const before = asked(NODES).length;
    expect(await get(NODES, 5_000)).toMatchObject({ kind: 'answer', status: 401 });
    expect(asked(NODES).length - before).toBe(2);
    expect(parts.present.get('api-refused')).toMatch(/401/);
    expect(connection?.state()).toBe('up');
    stub.tokens.add('new');
    expect(await get(NODES, 5_000)).toMatchObject({ status: 200 });
    expect(parts.present.has('api-refused')).toBe(false);
  });

  it('that expire soon are a finding, and expired ones say so', async () => {
    authority.issue('client', '/CN=short', '', 0);
    open();
    await eventually(() => expect(parts.present.get('api-certificate')).toMatch(/has expired/));
    authority.issue('client', '/CN=long');
    await eventually(() => expect(parts.present.has('api-certificate')).toBe(false));
  });

  it.each([
    ['another authority than that of the server', 'other', /self-signed|unable|unknown|issuer/],
    ['a name that is not the server’s', 'name', /does not match|altnames/i],
  ])('are not sent to a server with %s', async (_, kind, why) => {
    const other = createAuthority();
    if (kind === 'other') copyFileSync(other.at('ca.crt'), authority.at('other.crt'));
    const cluster = kind === 'other' ? { 'certificate-authority': 'other.crt' } : { 'tls-server-name': 'kubernetes' };
    const kubeconfig = writeKubeconfig(authority, stub.url, { cluster });
    other.remove();
    connection = openConnection({ clock: hurried(clock, 10), findings: parts.findings, kubeconfig });
    await isState('away');
    expect(parts.present.get('api-away')).toMatch(why);
    expect(stub.heard).toEqual([]);
  });
});
