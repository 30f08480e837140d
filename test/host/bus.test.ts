import { EventEmitter } from 'node:events';
import { rmSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Duplex } from 'node:stream';
import { sessionBus } from 'dbus-next';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createClock, sleep } from '../../src/host/clock.ts';
import { openSystemBus, type SystemBus } from '../../src/host/systemd/bus.ts';
import { hasDbusDaemon, openPrivateBus, openService, type PrivateBus, type Service, until } from './private-bus.ts';

const clock = createClock();
const NAME = 'org.nodewarden.test';
const said = (what: string) => ({ path: '/test', iface: NAME, member: 'Said', signature: 's', body: [what] });
const TO = { destination: NAME, path: '/test', interface: NAME };

describe.skipIf(!hasDbusDaemon)('the system bus [needs dbus-daemon]', () => {
  let daemon: PrivateBus;
  let bus: SystemBus;
  let services: Service[] = [];
  beforeEach(async () => {
    daemon = await openPrivateBus();
    services = [];
  });
  afterEach(async () => {
    bus.close();
    for (const service of services) service.close();
    await daemon.remove();
  });
  const serve = async (
    ...given: [string | null, ...(Parameters<typeof openService> extends [unknown, unknown, ...infer R] ? R : never)]
  ): Promise<Service> => {
    const service = await openService(daemon.address, ...given);
    services.push(service);
    return service;
  };
  const open = async (): Promise<void> => {
    bus = openSystemBus(clock, daemon.env);
    await until(() => bus.state() === 'up');
  };

  it('calls, and returns bodies without any type of the package', async () => {
    await serve(NAME, () => ({ signature: 'tsas', body: [2n ** 64n - 1n, 'text', ['a']] }));
    await open();
    const call = { ...TO, member: 'Get', signature: 'sv', body: ['x', { signature: 'u', value: 7 }] };
    expect(await bus.call(call)).toEqual({ known: true, value: [Number.MAX_SAFE_INTEGER, 'text', ['a']] });
    expect(services[0]?.calls).toMatchObject([
      { member: 'Get', path: '/test', body: ['x', { signature: 'u', value: 7 }] },
    ]);
  });

  it('returns an error reply with its name', async () => {
    await serve(NAME, () => ({ error: 'org.nodewarden.test.No' }));
    await open();
    const reply = await bus.call({ ...TO, member: 'Get' });
    expect(reply).toMatchObject({ known: false, why: 'unreadable', where: `${NAME}.Get` });
    if (!reply.known) expect(reply.detail).toBe('org.nodewarden.test.No: as the test wants it');
  });

  it('gives up a call at its deadline, and forgets it', async () => {
    await serve(NAME, () => 'silence');
    await open();
    expect(await bus.call({ ...TO, member: 'Get', deadlineMs: 50 })).toMatchObject({ known: false, why: 'timed-out' });
  });

  describe('more calls at once than the bus allows for one connection', () => {
    // As on a system bus.
    const LIMIT = '<limit name="max_replies_per_connection">128</limit>';
    beforeEach(async () => {
      await daemon.remove();
      daemon = await openPrivateBus(LIMIT);
    });

    it('are all answered, an urgent one before those that wait', async () => {
      const service = await serve(NAME, (member) => ({ signature: 's', body: [member] }));
      await open();
      const calls = Array.from({ length: 300 }, () => bus.call({ ...TO, member: 'Get' }));
      const stop = bus.call({ ...TO, member: 'Stop', isUrgent: true });
      const answers = await Promise.all([...calls, stop]);
      expect(answers.filter(({ known }) => !known)).toEqual([]);
      expect(service.calls.findIndex(({ member }) => member === 'Stop')).toBeLessThan(100);
    });

    it('go to other names while one does not answer, and to that one again once it does', async () => {
      let isSlow = true;
      const other = `${NAME}.other`;
      await serve(NAME, () => (isSlow ? 'silence' : { signature: '', body: [] }));
      await serve(other, () => ({ signature: '', body: [] }));
      await open();
      const lost = await Promise.all(
        Array.from({ length: 200 }, () => bus.call({ ...TO, member: 'Get', deadlineMs: 100 })),
      );
      expect(new Set(lost.map((reply) => !reply.known && reply.why))).toEqual(new Set(['timed-out']));
      expect(await bus.call({ ...TO, destination: other, member: 'Get' })).toMatchObject({ known: true });
      // Whoever did not answer has ended: the bus says so for each call.
      isSlow = false;
      services[0]?.close();
      await serve(NAME, () => ({ signature: '', body: [] }));
      expect(await bus.call({ ...TO, member: 'Get' })).toMatchObject({ known: true });
    });
  });

  it('never sends what would cost the connection', async () => {
    const service = await serve(NAME, () => ({ signature: '', body: [] }));
    await open();
    const bad = [
      { signature: 'o', body: ['not a path'] },
      { signature: 'u', body: [-1] },
      { signature: 'u', body: [1.5] },
      { signature: 's', body: ['a\0b'] },
      { signature: 's', body: ['\ud800'] },
      { signature: 'ss', body: ['one'] },
      { signature: 'a{uv}', body: [{}] },
      { signature: '(s', body: [['x']] },
      { signature: 'v', body: ['plain'] },
      { signature: 'd', body: [Number.NaN] },
      { signature: 'b', body: [1] },
    ];
    for (const { signature, body } of bad) {
      expect(await bus.call({ ...TO, member: 'Set', signature, body }), signature).toMatchObject({ why: 'malformed' });
    }
    expect(await bus.call({ ...TO, path: 'nowhere', member: 'Set' })).toMatchObject({ why: 'malformed' });
    expect(await bus.call({ ...TO, member: 'Set' })).toMatchObject({ known: true });
    expect(service.calls).toHaveLength(1);
  });

  it('ends every call in progress when the bus dies, and works again when it is back', async () => {
    await serve(NAME, () => 'silence');
    await open();
    let ups = 0;
    bus.whenUp(() => {
      ups += 1;
    });
    const pending = bus.call({ ...TO, member: 'Get', deadlineMs: 60_000 });
    await sleep(clock, 50);
    await daemon.kill();
    expect(await pending).toMatchObject({ known: false, why: 'absent', where: 'the system bus' });
    expect(bus.state()).not.toBe('up');
    expect(await bus.call({ ...TO, member: 'Get' })).toMatchObject({ known: false, why: 'absent' });
    await daemon.start();
    await until(() => bus.state() === 'up');
    await serve(NAME, () => ({ signature: 's', body: ['again'] }));
    expect(await bus.call({ ...TO, member: 'Get' })).toEqual({ known: true, value: ['again'] });
    expect(ups).toBe(1);
  });

  it('delivers a signal only from the owner of the name, even after a new owner and a new bus', async () => {
    const heard: unknown[] = [];
    await open();
    bus.subscribe({ sender: NAME, interface: NAME, member: 'Said' }, (body) => heard.push(...body));
    const first = await serve(NAME, () => 'silence');
    const stranger = await serve(null, () => 'silence');
    await sleep(clock, 100);
    void bus.call({ ...TO, member: 'Get' });
    await until(() => first.calls.length > 0);
    stranger.signal(said('forged'));
    stranger.signal(said('forged'), first.calls[0]?.sender);
    first.signal({ ...said('another'), member: 'Other' });
    await sleep(clock, 100);
    first.signal(said('one'));
    await until(() => heard.length > 0);
    expect(heard).toEqual(['one']);
    first.close();
    const second = await serve(NAME, () => 'silence');
    await sleep(clock, 100);
    second.signal(said('two'));
    await until(() => heard.length > 1);
    await daemon.kill();
    await daemon.start();
    await until(() => bus.state() === 'up');
    const third = await serve(NAME, () => 'silence');
    await sleep(clock, 100);
    third.signal(said('three'));
    await until(() => heard.length > 2);
    expect(heard).toEqual(['one', 'two', 'three']);
  });

  it('delivers what a call causes that is made right after the subscription', async () => {
    const heard: unknown[] = [];
    const service: Service = await serve(NAME, () => {
      service.signal(said('at once'));
      return { signature: '', body: [] };
    });
    await open();
    bus.subscribe({ sender: NAME, interface: NAME, member: 'Said' }, (body) => heard.push(...body));
    expect(await bus.call({ ...TO, member: 'Get' })).toMatchObject({ known: true });
    expect(heard).toEqual(['at once']);
  });

  it('decodes a signal once, however many hear it: hundreds of stops do', async () => {
    const heard: unknown[] = [];
    const service = await serve(NAME, () => 'silence');
    await open();
    for (let i = 0; i < 3; i++)
      bus.subscribe({ sender: NAME, interface: NAME, member: 'Said' }, (body) => heard.push(body));
    await sleep(clock, 100);
    service.signal(said('one'));
    await until(() => heard.length === 3);
    expect(heard[0]).toEqual(['one']);
    expect(new Set(heard).size).toBe(1);
  });

  it('uses one match rule per rule, however often it is subscribed', async () => {
    await daemon.remove();
    daemon = await openPrivateBus('<limit name="max_match_rules_per_connection">20</limit>');
    await open();
    let ups = 0;
    bus.whenUp(() => {
      ups += 1;
    });
    for (let i = 0; i < 100; i++) bus.subscribe({ sender: NAME, interface: NAME, member: 'Said' }, () => undefined)();
    bus.subscribe({ sender: NAME, interface: NAME, member: 'Said' }, () => undefined);
    await sleep(clock, 200);
    // A refused rule would have begun the connection anew.
    expect([bus.state(), ups]).toEqual(['up', 0]);
  });

  it('is said to be connecting also between two attempts, as long as its socket is there', async () => {
    await open();
    await daemon.kill();
    await until(() => bus.state() !== 'up');
    const states = new Set<string>();
    for (let i = 0; i < 50; i++) {
      states.add(bus.state());
      await sleep(clock, 10);
    }
    expect([...states]).toEqual(['connecting']);
    await daemon.remove();
    await until(() => bus.state() === 'down');
  });

  it('survives a bus that refuses the connection at Hello', async () => {
    await daemon.remove();
    daemon = await openPrivateBus('<limit name="max_completed_connections">1</limit>');
    const first = await serve(null, () => 'silence');
    bus = openSystemBus(clock, daemon.env);
    await sleep(clock, 500);
    expect(bus.state()).not.toBe('up');
    first.close();
    await until(() => bus.state() === 'up');
  });

  it('relies only on private names of the package that this test pins', async () => {
    const raw = sessionBus({ busAddress: daemon.address });
    bus = openSystemBus(clock, daemon.env);
    raw.on('error', () => undefined);
    const connection: unknown = Reflect.get(raw, '_connection');
    expect(connection).toBeInstanceOf(EventEmitter);
    expect(Reflect.get(Object(connection), 'stream')).toBeInstanceOf(Duplex);
    expect(Object.keys(Object(Reflect.get(raw, '_methodReturnHandlers')))).toEqual(['1']);
    raw.disconnect();
  });
});

describe('a bus that does not exist', () => {
  const path = join(tmpdir(), `nodewarden-no-bus-${process.pid}`);
  const env = { DBUS_SYSTEM_BUS_ADDRESS: `unix:path=${path}` };
  let server: Server | null = null;
  let bus: SystemBus | null = null;
  afterEach(() => {
    bus?.close();
    server?.close();
    rmSync(path, { force: true });
  });

  it('is reported as missing in each call, and costs nothing else', async () => {
    bus = openSystemBus(clock, env);
    await sleep(clock, 100);
    expect(bus.state()).not.toBe('up');
    expect(await bus.call({ ...TO, member: 'Get' })).toMatchObject({ known: false, why: 'absent' });
  });

  it('is found once it exists', async () => {
    bus = openSystemBus(clock, env);
    await sleep(clock, 100);
    let connections = 0;
    server = createServer(() => {
      connections += 1;
    });
    server.listen(path);
    await until(() => connections > 0);
  });

  it('is given up after 3 s if it accepts but says nothing', async () => {
    let connections = 0;
    server = createServer(() => {
      connections += 1;
    });
    await new Promise<void>((resolve) => server?.listen(path, resolve));
    bus = openSystemBus(clock, env);
    await until(() => connections >= 2);
    expect(await bus.call({ ...TO, member: 'Get' })).toMatchObject({ known: false, why: 'absent' });
  });

  it.each(['unix:abstract=/tmp/x', 'tcp:host=localhost,port=1', 'unix:path=/a;unix:path=/b', 'unix:path=/%41'])(
    'is not searched for at %s, which the package cannot handle',
    async (address) => {
      bus = openSystemBus(clock, { DBUS_SYSTEM_BUS_ADDRESS: address });
      expect(await bus.call({ ...TO, member: 'Get' })).toMatchObject({ known: false, why: 'malformed' });
      expect(bus.state()).toBe('down');
    },
  );
});
