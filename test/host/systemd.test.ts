import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Variant } from 'dbus-next';
import fc from 'fast-check';
import { afterEach, describe, expect, it, onTestFinished } from 'vitest';
import { known } from '../../src/core/reading.ts';
import { createClock } from '../../src/host/clock.ts';
import { openSystemBus } from '../../src/host/systemd/bus.ts';
import { encodeBody, isObjectPath, splitSignature } from '../../src/host/systemd/bus-value.ts';
import { createSystemd } from '../../src/host/systemd/systemd.ts';
import { createCommandRunner } from '../../src/host/systemd/transient.ts';
import { unitNameMistake, unitPath } from '../../src/host/systemd/unit-name.ts';
import type { Clock } from '../../src/ports.ts';
import { type FakeSystemd, OWN_UNIT, openFakeSystemd } from './fake-systemd.ts';
import { hasDbusDaemon, until } from './private-bus.ts';

const clock = createClock();

describe("a unit's name", () => {
  it('becomes the object path that systemd gives it', () => {
    const root = '/org/freedesktop/systemd1/unit';
    expect(unitPath('web.service')).toBe(`${root}/web_2eservice`);
    expect(unitPath('1-a@b:c.service')).toBe(`${root}/_31_2da_40b_3ac_2eservice`);
    expect(unitPath('')).toBe(`${root}/_`);
  });

  it('always becomes a valid object path, and different names become different paths', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), fc.string({ unit: 'binary' }), (a, b) => {
        expect(isObjectPath(unitPath(a))).toBe(true);
        const isSame = Buffer.from(a).equals(Buffer.from(b)) || (a === '' && b === '');
        // An underscore alone is what systemd gives the empty name; a real one is escaped.
        expect(unitPath(a) === unitPath(b)).toBe(isSame);
      }),
    );
  });

  it('is valid only for a unit that has processes', () => {
    expect(['web.service', 'a-b.slice', 'libpod-0f.scope', 'x@1.service'].map(unitNameMistake)).toEqual([
      null,
      null,
      null,
      null,
    ]);
    for (const name of [
      'web',
      'a.timer',
      'a b.service',
      'a/b.service',
      'x@.service',
      '@1.service',
      `${'x'.repeat(255)}.service`,
    ]) {
      expect(unitNameMistake(name), name).not.toBeNull();
    }
  });
});

describe('a message body', () => {
  it('is encoded or refused, whatever is in it, and never throws', () => {
    const value = fc.letrec((tie) => ({
      any: fc.oneof(
        { maxDepth: 4 },
        fc.string({ unit: 'binary' }),
        fc.double(),
        fc.boolean(),
        fc.array(tie('any'), { maxLength: 4 }),
        fc.dictionary(fc.string(), tie('any'), { maxKeys: 3 }),
      ),
    })).any;
    const signature = fc.string({ unit: fc.constantFrom(...'ybnqiuxtdsogva(){}'), maxLength: 8 });
    fc.assert(
      fc.property(signature, fc.array(value, { maxLength: 4 }), (types, body) => {
        const encoded = encodeBody(types, body as Parameters<typeof encodeBody>[1]);
        if (encoded.ok) expect(splitSignature(types)).toHaveLength(body.length);
      }),
    );
  });
});

describe.skipIf(!hasDbusDaemon)('what systemd reports about a unit [needs dbus-daemon]', () => {
  let fake: FakeSystemd;
  afterEach(() => fake.remove());

  it.each([
    ['in one call', false, ['ListUnitsByNames']],
    ['one by one where it refuses to list them', true, ['ListUnitsByNames', 'Get', 'Get', 'Get']],
  ])('can be queried for many %s', async (_, isRefused, calls) => {
    const heard: string[] = [];
    fake = await openFakeSystemd((member) => {
      if (member !== 'Subscribe') heard.push(member);
      return isRefused && member === 'ListUnitsByNames' ? { error: 'org.freedesktop.systemd1.NoSuchUnit' } : null;
    });
    const unit = { invocation: 1, controlGroup: '/a', loadState: 'loaded' };
    fake.units.set('a.service', { ...unit, activeState: 'active' });
    fake.units.set('b.service', { ...unit, activeState: 'deactivating' });
    const names = ['a.service', 'b.service', 'c.service'];
    const states = await Promise.all(names.map((name) => fake.systemd.activeState(name)));
    expect(states).toEqual(['active', 'deactivating', 'inactive'].map(known));
    expect(heard).toEqual(calls);
  });

  it('as a change of its state reaches everyone who listens, and nobody else', async () => {
    fake = await openFakeSystemd();
    const heard: string[] = [];
    const listen = (who: string): (() => void) =>
      fake.systemd.whenStateChanges((unit, { activeState }) => heard.push(`${who}: ${unit} ${activeState}`));
    const change = async (count: number): Promise<void> => {
      // Answered once the rules are in force.
      await fake.systemd.activeState('db.service');
      fake.endsByItself('web.service');
      await until(() => heard.length >= count);
    };
    const [first, second] = [listen('first'), listen('second')];
    await change(2);
    first();
    await change(3);
    second();
    listen('third');
    await change(4);
    const ended = 'web.service inactive';
    expect(heard).toEqual([`first: ${ended}`, `second: ${ended}`, `second: ${ended}`, `third: ${ended}`]);
  });

  it('is under its own name, with its cgroup and its dependencies', async () => {
    fake = await openFakeSystemd();
    const unit = {
      activeState: 'active',
      invocation: 1,
      controlGroup: '/shop.slice/real.service',
      loadState: 'loaded',
    };
    const relations = { After: ['db.service', 'shop.slice'], RequiredBy: ['front.service'] };
    fake.units.set('nick.service', { ...unit, id: 'real.service', slice: 'shop.slice', relations });
    const facts = await fake.systemd.unit('nick.service');
    const named = { id: 'real.service', slice: 'shop.slice', controlGroup: '/shop.slice/real.service' };
    expect(facts).toMatchObject({ known: true, value: { ...named, relations } });
    expect(await fake.systemd.unit('none.service')).toMatchObject({
      known: true,
      value: { id: 'none.service', loadState: 'not-found', slice: null, controlGroup: null },
    });
  });
});

describe.skipIf(!hasDbusDaemon)('what systemd reports about time [needs dbus-daemon]', () => {
  let fake: FakeSystemd;
  afterEach(() => fake.remove());
  const active = { activeState: 'active', invocation: 1, controlGroup: '/system.slice/x', loadState: 'loaded' };

  it('is how long it waits for a stop: of a unit, by default, and of the unit of this process', async () => {
    fake = await openFakeSystemd();
    fake.units.set('web.service', { ...active, stopUs: 12_500_000n });
    fake.units.set('db.scope', { ...active, stopUs: 2n ** 64n - 1n });
    fake.units.set(OWN_UNIT, { ...active, stopUs: 70_000_000n });
    const { systemd } = fake;
    expect(await systemd.stopTimeoutMs('web.service')).toEqual(known(12_500));
    expect(await systemd.stopTimeoutMs('db.scope')).toEqual(known(Number.POSITIVE_INFINITY));
    expect(await systemd.defaultStopTimeoutMs()).toEqual(known(90_000));
    expect(await systemd.ownStopTimeoutMs()).toEqual(known(70_000));
    expect(await systemd.systemState()).toEqual(known('running'));
  });

  it('is unknown for a missing unit, and for a slice, which has no such time', async () => {
    fake = await openFakeSystemd();
    expect(await fake.systemd.stopTimeoutMs('none.service')).toMatchObject({ known: false, why: 'absent' });
    fake.units.set('web.slice', active);
    expect(await fake.systemd.stopTimeoutMs('web.slice')).toMatchObject({ known: false, why: 'not-applicable' });
  });

  it('is not that of the session if the agent runs in a terminal, and unknown without an answer', async () => {
    fake = await openFakeSystemd((member, _, body) => {
      const isId = member === 'Get' && body[1] === 'Id';
      return isId ? { signature: 'v', body: [new Variant('s', 'session-1.scope')] } : null;
    });
    expect(await fake.systemd.ownStopTimeoutMs()).toMatchObject({ known: false, why: 'not-applicable' });
    await fake.remove();
    fake = await openFakeSystemd((member) =>
      member === 'GetUnitByPID' || member === 'Get' ? { error: 'org.freedesktop.systemd1.NoUnitForPID' } : null,
    );
    expect(await fake.systemd.ownStopTimeoutMs()).toMatchObject({ known: false, why: 'unreadable' });
    expect(await fake.systemd.systemState()).toMatchObject({ known: false, why: 'unreadable' });
  });
});

describe.skipIf(!hasDbusDaemon)("an operator's command [needs dbus-daemon]", () => {
  let fake: FakeSystemd;
  afterEach(() => fake.remove());

  it('runs as a transient service with unchanged arguments, and returns the exit status', async () => {
    const properties: string[] = [];
    fake = await openFakeSystemd((member, _, body) => {
      if (member === 'StartTransientUnit')
        properties.push(JSON.stringify(body, (_, value) => (typeof value === 'bigint' ? Number(value) : value)));
      return null;
    });
    const run = createCommandRunner({ systemd: fake.systemd, clock });
    const argv = ['/bin/echo', '$HOME; "x"', '%n'];
    // What is left of a longer time is no whole number. So long that a busy machine does not decide it.
    expect(await run({ argv, timeoutMs: 30_000.123_456_7, stdin: 'in', maxMemoryBytes: 1_000_000 })).toEqual({
      kind: 'exited',
      code: 3,
      stdout: '',
      stderr: '',
    });
    expect(fake.asked()).toEqual([expect.stringMatching(/^StartTransientUnit nodewarden-command-\d+-\d+-1\.service$/)]);
    const [sent = ''] = properties;
    // Doubled, or systemd would put the variable's value there.
    expect(sent).toContain(JSON.stringify([['/bin/echo', ['/bin/echo', '$$HOME; "x"', '%n'], false]]));
    expect(sent).toMatch(/"MemoryMax",\{"signature":"t","value":1000000\}/);
    for (const name of ['TimeoutStartUSec', 'CollectMode', 'AddRef', 'StandardInputData']) expect(sent).toContain(name);
  });

  it('returns what it prints if that is asked for, and leaves nothing behind, nor does one before it that was killed', async () => {
    const directory = mkdtempSync(join(tmpdir(), 'nodewarden-prints-'));
    onTestFinished(() => rmSync(directory, { recursive: true }));
    mkdirSync(join(directory, 'command-0-left'));
    writeFileSync(join(directory, 'state.json'), '');
    let text = 'said';
    fake = await openFakeSystemd((member, _, body) => {
      if (member !== 'StartTransientUnit') return null;
      const all = new Map(
        (body[2] as readonly [string, { value: unknown }][]).map(([name, { value }]) => [name, value]),
      );
      writeFileSync(String(all.get('StandardOutputFile')), text);
      writeFileSync(String(all.get('StandardErrorFile')), 'no');
      return null;
    });
    const run = createCommandRunner({ systemd: fake.systemd, clock });
    const command = { argv: ['true'], timeoutMs: 30_000, printsIn: directory };
    expect(await run(command)).toEqual({ kind: 'exited', code: 3, stdout: 'said', stderr: 'no' });
    text = 'x'.repeat(100_000);
    expect(await run(command)).toEqual({ kind: 'failed', detail: expect.stringMatching(/larger|more/) });
    expect(readdirSync(directory)).toEqual(['state.json']);
    const nowhere = await run({ ...command, printsIn: join(directory, 'none') });
    expect(nowhere).toEqual({ kind: 'failed', detail: expect.stringContaining('ENOENT') });
  });

  it('leaves what a living process beside it has printed, as a dry run has', async () => {
    const directory = mkdtempSync(join(tmpdir(), 'nodewarden-prints-'));
    onTestFinished(() => rmSync(directory, { recursive: true }));
    for (const name of [`command-${process.ppid}-beside`, 'command-0-left']) mkdirSync(join(directory, name));
    fake = await openFakeSystemd(() => null);
    const run = createCommandRunner({ systemd: fake.systemd, clock });
    await run({ argv: ['true'], timeoutMs: 30_000, printsIn: directory });
    expect(readdirSync(directory)).toEqual([`command-${process.ppid}-beside`]);
  });

  it('is a child if there is no systemd on the bus', async () => {
    fake = await openFakeSystemd((member) =>
      member === 'StartTransientUnit' ? { error: 'org.freedesktop.DBus.Error.ServiceUnknown' } : null,
    );
    const run = createCommandRunner({ systemd: fake.systemd, clock });
    expect(await run({ argv: ['cat'], timeoutMs: 5_000, stdin: 'in' })).toMatchObject({
      kind: 'exited',
      code: 0,
      stdout: 'in',
    });
    const none = openSystemBus(clock, { DBUS_SYSTEM_BUS_ADDRESS: 'unix:path=/nowhere' });
    await until(() => none.state() === 'down');
    // Whatever waits for a bus waits for ever.
    const after: Clock['after'] = (ms, run) => (ms > 1_000 ? () => undefined : clock.after(ms, run));
    const alone = createCommandRunner({ systemd: createSystemd(none), clock: { ...clock, after } });
    const ended = await alone({ argv: ['false'], timeoutMs: 5_000, waitsForBus: true });
    expect(ended).toMatchObject({ kind: 'exited', code: 1 });
    none.close();
  });

  it('is a child if the bus is not connected yet, and it cannot wait for it', async () => {
    fake = await openFakeSystemd();
    const bus = openSystemBus(clock, fake.daemon.env);
    const run = createCommandRunner({ systemd: createSystemd(bus), clock });
    const cannot = await run({ argv: ['echo', 'child'], timeoutMs: 5_000 });
    expect([cannot, fake.asked()]).toEqual([expect.objectContaining({ stdout: 'child\n' }), []]);
    bus.close();
  });

  it('waits for the end of the same one that an earlier run of the agent has left', async () => {
    let isRunning = true;
    let asked = 0;
    fake = await openFakeSystemd((member) => {
      if (member !== 'StartTransientUnit') return null;
      asked += 1;
      return isRunning ? { error: 'org.freedesktop.systemd1.UnitExists' } : null;
    });
    const run = createCommandRunner({ systemd: fake.systemd, clock });
    const command = { argv: ['true'], timeoutMs: 30_000, name: 'reclaim' };
    const running = run(command);
    await until(() => asked > 1);
    isRunning = false;
    fake.byOthers('stop', 'nodewarden-command-reclaim.service');
    expect(await running).toMatchObject({ kind: 'exited', code: 3 });
    expect(new Set(fake.asked())).toEqual(new Set(['StartTransientUnit nodewarden-command-reclaim.service']));
    isRunning = true;
    const never = {
      monoMs: () => clock.monoMs() * 1_000,
      after: (ms: number, then: () => void) => clock.after(ms, then),
    };
    const impatient = createCommandRunner({ systemd: fake.systemd, clock: { ...clock, ...never } });
    expect(await impatient(command)).toEqual({ kind: 'failed', detail: 'an earlier run of it has not ended' });
  });

  it('does not take the end of the stop of an earlier run, which this agent asked for, for its own', async () => {
    const name = 'nodewarden-command-reclaim.service';
    let isStopped = false;
    fake = await openFakeSystemd((member) => {
      if (member !== 'StartTransientUnit') return null;
      if (!isStopped) return { error: 'org.freedesktop.systemd1.UnitExists' };
      return { signature: 'o', body: ['/org/freedesktop/systemd1/job/77'] };
    });
    fake.systemd.whenJobEnds(({ unit }) => {
      isStopped ||= unit === name;
    });
    // Its own job never ends.
    const after: Clock['after'] = (ms, run) => clock.after(Math.min(ms, 100), run);
    const run = createCommandRunner({ systemd: fake.systemd, clock: { ...clock, after } });
    const running = run({ argv: ['true'], timeoutMs: 30_000, name: 'reclaim' });
    await until(() => fake.asked().length > 0);
    await fake.systemd.stop(name);
    expect(await running).toEqual({ kind: 'timed-out' });
  });

  it("fails with systemd's reason if it was refused", async () => {
    fake = await openFakeSystemd((member) =>
      member === 'StartTransientUnit' ? { error: 'org.freedesktop.DBus.Error.AccessDenied' } : null,
    );
    const run = createCommandRunner({ systemd: fake.systemd, clock });
    expect(await run({ argv: ['true'], timeoutMs: 100 })).toMatchObject({
      kind: 'failed',
      detail: expect.stringContaining('AccessDenied'),
    });
  });

  it('is given up and stopped if systemd never reports its end', async () => {
    fake = await openFakeSystemd((member) =>
      member === 'StartTransientUnit' ? { signature: 'o', body: ['/org/freedesktop/systemd1/job/9'] } : null,
    );
    const run = createCommandRunner({ systemd: fake.systemd, clock });
    expect(await run({ argv: ['true'], timeoutMs: 100 })).toEqual({ kind: 'timed-out' });
    expect(fake.asked()[1]).toMatch(/^StopUnit nodewarden-command-/);
  });
});
