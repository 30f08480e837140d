import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createClock } from '../../src/host/clock.ts';
import { openSystemBus, type SystemBus } from '../../src/host/systemd/bus.ts';
import { createSystemd, type Systemd } from '../../src/host/systemd/systemd.ts';
import { until } from './private-bus.ts';

const MIB = 1024 ** 2;
const METHOD_RETURN = 2;
const SIGNAL = 4;

const u32 = (value: number): Buffer => {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
};
const padded = (bytes: Buffer, to: number): Buffer =>
  Buffer.concat([bytes, Buffer.alloc(Math.ceil(bytes.length / to) * to - bytes.length)]);
const text = (value: string): Buffer => Buffer.concat([u32(Buffer.byteLength(value)), Buffer.from(`${value}\0`)]);
/** A header field: its code, a signature of one letter, its value. */
const field = (code: number, type: string, value: Buffer): Buffer =>
  Buffer.concat([Buffer.from([code, 1, type.charCodeAt(0), 0]), value]);
const signature = (types: string): Buffer => field(8, 'g', Buffer.from([types.length, ...Buffer.from(types), 0]));

function message(type: number, serial: number, fields: readonly Buffer[], body: Buffer): Buffer {
  // Each begins at a multiple of 8; what pads the last one does not count.
  const all = fields.reduce((before, next) => Buffer.concat([padded(before, 8), next]), Buffer.alloc(0));
  const head = [Buffer.from(['l'.charCodeAt(0), type, 1, 1]), u32(body.length), u32(serial), u32(all.length)];
  return Buffer.concat([...head, padded(all, 8), body]);
}
/** An answer from the bus itself. */
const reply = (serial: number, types: string, body: Buffer): Buffer =>
  message(METHOD_RETURN, 99, [field(5, 'u', u32(serial)), field(7, 's', text(':1.1')), signature(types)], body);
const signal = (types: string, body: Buffer): Buffer =>
  message(
    SIGNAL,
    7,
    [
      field(1, 'o', text('/a')),
      field(2, 's', text('a.b')),
      field(3, 's', text('C')),
      field(7, 's', text(':1.9')),
      signature(types),
    ],
    body,
  );
/** `depth` variants in one another, a byte in the innermost. */
const nested = (depth: number): Buffer =>
  Buffer.concat([
    ...Array.from({ length: depth }, () => Buffer.from([1, 'v'.charCodeAt(0), 0])),
    Buffer.from([1, 'y'.charCodeAt(0), 0, 7]),
  ]);
const array = (bytes: number): Buffer => Buffer.concat([u32(bytes), Buffer.alloc(bytes)]);

/** A bus that authenticates anybody and answers Hello; every later call goes to `answer`. No real bus sends what this one does. */
async function openHostileBus(socketPath: string, answer: (serial: number, socket: Socket) => void) {
  const sockets = new Set<Socket>();
  const server: Server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined);
    let isOpen = false;
    let got = Buffer.alloc(0);
    socket.on('data', (part) => {
      got = Buffer.concat([got, part]);
      if (!isOpen) {
        if (got.includes('AUTH ')) socket.write('OK 0123456789abcdef0123456789abcdef\r\n');
        const begin = got.indexOf('BEGIN\r\n');
        got = begin === -1 ? Buffer.alloc(0) : got.subarray(begin + 7);
        isOpen = begin !== -1;
      }
      while (isOpen && got.length >= 16) {
        const size = 16 + Math.ceil(got.readUInt32LE(12) / 8) * 8 + got.readUInt32LE(4);
        if (got.length < size) break;
        const serial = got.readUInt32LE(8);
        got = got.subarray(size);
        if (serial === 1) socket.write(reply(1, 's', text(':1.1')));
        else answer(serial, socket);
      }
    });
  });
  server.listen(socketPath);
  await once(server, 'listening');
  return {
    sockets,
    close: () => {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}

describe('a bus that is hostile', () => {
  const clock = createClock();
  let directory = '';
  let hostile: Awaited<ReturnType<typeof openHostileBus>> | null = null;
  let bus: SystemBus | null = null;
  beforeEach(() => {
    directory = mkdtempSync(path.join(os.tmpdir(), 'nodewarden-hostile-'));
  });
  afterEach(() => {
    bus?.close();
    hostile?.close();
    rmSync(directory, { recursive: true });
  });
  const open = async (answer: (serial: number, socket: Socket) => void): Promise<Systemd> => {
    const socket = path.join(directory, 'socket');
    hostile = await openHostileBus(socket, answer);
    bus = openSystemBus(clock, { DBUS_SYSTEM_BUS_ADDRESS: `unix:path=${socket}` });
    const opened = bus;
    await until(() => opened.state() === 'up');
    return createSystemd(opened);
  };

  it.each<[string, (serial: number) => Buffer]>([
    ['of another type', (serial) => reply(serial, 'u', u32(7))],
    ['without a body', (serial) => message(METHOD_RETURN, 9, [field(5, 'u', u32(serial))], Buffer.alloc(0))],
    ['that lies about its length', (serial) => reply(serial, 's', u32(0xffff_fff0))],
    ['with a thousand variants in one another', (serial) => reply(serial, 'v', nested(1_000))],
    ['with a hundred thousand variants in one another', (serial) => reply(serial, 'v', nested(100_000))],
    ['of a type that does not exist', (serial) => reply(serial, '{', u32(7))],
    ['whose header is noise', () => Buffer.alloc(64, 0x6c)],
  ])('that gives an answer %s leaves the value unknown, and is asked again', { timeout: 60_000 }, async (_, answer) => {
    const systemd = await open((serial, socket) => void socket.write(answer(serial)));
    const [timeout, unit] = await Promise.all([systemd.stopTimeoutMs('web.service'), systemd.unit('web.service')]);
    expect([timeout.known, unit.known]).toEqual([false, false]);
    await until(() => bus?.state() === 'up');
  });

  it('that sends unrequested messages, larger than any answer, costs neither memory nor time', {
    timeout: 60_000,
  }, async () => {
    const large = signal('au', array(64 * MIB));
    await open((serial, socket) => {
      socket.write(large);
      socket.write(reply(serial, 's', text('here')));
    });
    // What 16 million numbers would take as values of the program.
    const beforeBytes = process.memoryUsage().heapUsed;
    const call = { destination: 'a.b', path: '/', interface: 'a.b', member: 'Ask', deadlineMs: 50_000 };
    expect(await bus?.call(call)).toEqual({ known: true, value: ['here'] });
    expect(process.memoryUsage().heapUsed - beforeBytes).toBeLessThan(64 * MIB);
    expect(bus?.state()).toBe('up');
  });

  it('whose answer never ends is given up at the deadline', { timeout: 60_000 }, async () => {
    const part = Buffer.alloc(MIB);
    const systemd = await open((serial, socket) => {
      const begin = reply(serial, 'ay', Buffer.alloc(0));
      begin.writeUInt32LE(128 * MIB, 4);
      socket.write(begin);
      const more = (): void => {
        while (!socket.destroyed && socket.write(part));
        if (!socket.destroyed) socket.once('drain', more);
      };
      more();
    });
    const beforeBytes = process.memoryUsage().rss;
    expect(await systemd.stopTimeoutMs('web.service')).toMatchObject({ known: false, why: 'timed-out' });
    expect(process.memoryUsage().rss - beforeBytes).toBeLessThan(128 * MIB);
  });
});
