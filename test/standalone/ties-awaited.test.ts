import { describe, expect, it } from 'vitest';
import { unknown } from '../../src/core/reading.ts';
import type { Systemd } from '../../src/host/systemd/systemd.ts';
import type { BoundPod } from '../../src/ports.ts';
import type { FakeUnit } from '../host/fake-systemd.ts';
import { hasDbusDaemon, until } from '../host/private-bus.ts';
import { addUnit, bound, changeUnit, clock, fake, of, tie, ties } from './a-tied-pods.ts';
import { byHand } from './needs.ts';

/** Ties in a time that passes only as the test says, asking a systemd that says only what it lets through. */
function tieWith(say: Systemd['ties'] = fake.systemd.ties) {
  const { clock: timed, pass } = byHand(clock);
  const held: (() => void)[] = [];
  const missing: boolean[] = [];
  const made = {
    missing,
    isHeld: false,
    /** The bus is there again. */
    up: (): void => undefined,
    pass,
    /** Once it was asked. */
    letThrough: async (): Promise<void> => {
      await until(() => held.length > 0);
      made.isHeld = false;
      for (const answer of held.splice(0)) answer();
    },
  };
  const asked: Systemd['ties'] = async (name) => {
    const answer = await say(name);
    if (made.isHeld) await new Promise<void>((resolve) => held.push(resolve));
    return answer;
  };
  const whenUp: Systemd['whenUp'] = (run) => {
    made.up = run;
    return () => undefined;
  };
  ties.close();
  tie({
    clock: timed,
    systemd: { ...fake.systemd, ties: asked, whenUp },
    unitOf: (uid) => `${uid}.service`,
    wake: () => undefined,
    missing: (isMissing) => missing.push(isMissing),
  });
  return made;
}
/** As a look reads and asks. */
const isHeldUp = (pods: readonly BoundPod[]): boolean => {
  ties.tied(pods);
  return ties.unsettled() !== null;
};
const REBOOTS: Partial<FakeUnit> = { actions: { FailureAction: 'reboot-force' } };
const ENDS = { endsMachine: { what: expect.stringContaining('FailureAction=reboot-force') } };

describe.skipIf(!hasDbusDaemon)('pods of whose units systemd has not said everything [needs dbus-daemon]', () => {
  it('are not chosen, nor is any other, once they are declared or bound to another unit, until it has', async () => {
    addUnit('old', { RequiredBy: ['critical.service'] });
    addUnit('critical');
    addUnit('reboots');
    changeUnit('reboots', REBOOTS);
    tieWith();
    expect(isHeldUp([bound('old', 0)])).toBe(true);
    await until(ties.isTold);
    const pods = [bound('old', 0), bound('critical', 1_000, true, true), bound('reboots', 0)];
    expect(isHeldUp(pods)).toBe(true);
    await until(ties.isTold);
    expect(isHeldUp(pods)).toBe(false);
    expect(of('old', pods)).toMatchObject({ inherited: { priority: 1_000 }, isProtected: true });
    expect(of('reboots', pods)).toMatchObject(ENDS);
    // Nothing is new if one is gone.
    expect(isHeldUp(pods.slice(1))).toBe(false);
    expect(of('reboots', pods.slice(1))).toMatchObject(ENDS);
  });

  it('are waited for after an outage of the bus, also if they were missing before it', async () => {
    const made = tieWith();
    addUnit('web');
    const pods = [bound('web', 0)];
    ties.tied(pods);
    await until(ties.isTold);
    changeUnit('web', REBOOTS);
    made.isHeld = true;
    made.up();
    expect(isHeldUp(pods)).toBe(true);
    made.pass(1_000);
    expect([isHeldUp(pods), made.missing]).toEqual([false, [true]]);
    made.up();
    expect(isHeldUp(pods)).toBe(true);
    await made.letThrough();
    await until(ties.isTold);
    expect([isHeldUp(pods), made.missing]).toEqual([false, [true, false]]);
    expect(of('web', pods)).toMatchObject(ENDS);
  });

  it('hold up one choice for a second in all, whatever is new again and again', async () => {
    const made = tieWith();
    const pods: BoundPod[] = [];
    const declare = (name: string): void => {
      made.isHeld = true;
      addUnit(name);
      pods.push(bound(name, 0));
    };
    for (const name of ['a', 'b', 'c']) {
      declare(name);
      expect(isHeldUp(pods)).toBe(true);
      made.pass(300);
      await made.letThrough();
      await until(ties.isTold);
    }
    declare('d');
    expect(isHeldUp(pods)).toBe(true);
    made.pass(99);
    expect(isHeldUp(pods)).toBe(true);
    made.pass(1);
    expect([isHeldUp(pods), made.missing]).toEqual([false, [true]]);
    // Nor is anything new waited for while that is missing.
    declare('e');
    expect(isHeldUp(pods)).toBe(false);
    await made.letThrough();
    await until(ties.isTold);
    expect([isHeldUp(pods), made.missing]).toEqual([false, [true, false]]);
    // The next choice may be held up as long.
    declare('f');
    expect(isHeldUp(pods)).toBe(true);
    made.pass(999);
    expect(isHeldUp(pods)).toBe(true);
  });

  it('are not waited for if it refuses to say, as it does for what cannot be a unit, unlike an error of the bus', async () => {
    const says = { refused: 'org.freedesktop.DBus.Error.InvalidArgs: Unit name refused.service is neither valid' };
    const made = tieWith(async (name) =>
      name === 'refused.service' ? unknown('unreadable', name, says.refused) : fake.systemd.ties(name),
    );
    addUnit('web');
    const pods = [bound('refused', 0), bound('web', 0)];
    expect(isHeldUp(pods)).toBe(true);
    await until(ties.isTold);
    expect([isHeldUp(pods), made.missing]).toEqual([false, []]);
    says.refused = 'org.freedesktop.DBus.Error.NoReply: Remote peer disconnected';
    made.up();
    expect(isHeldUp(pods)).toBe(true);
    made.pass(1_000);
    expect([isHeldUp(pods), made.missing]).toEqual([false, [true]]);
    // One that is asked again after 5 s puts off no question about a new one.
    addUnit('new');
    changeUnit('new', REBOOTS);
    pods.push(bound('new', 0));
    await until(() => of('new', pods)?.endsMachine !== undefined);
  });

  it('are asked for a few at a time, or thousands at once would keep each other and all other queries past their deadlines', async () => {
    const pods = Array.from({ length: 100 }, (_, i) => bound(`p${i}`, 0));
    const waiting: ((answer: Awaited<ReturnType<Systemd['ties']>>) => void)[] = [];
    const asked = new Set<string>();
    const made = tieWith((name) => {
      asked.add(name);
      return new Promise((resolve) => waiting.push(resolve));
    });
    expect(isHeldUp(pods)).toBe(true);
    await until(() => waiting.length > 0);
    expect(waiting.length).toBeLessThan(50);
    // While it is silent, the others are not asked for either.
    for (const answer of waiting.splice(0)) answer(unknown('timed-out', 'systemd', 'no answer'));
    made.pass(1_000);
    expect(made.missing).toEqual([true]);
    const tried = asked.size;
    await until(() => {
      made.pass(5_000);
      return waiting.length > 0;
    });
    expect(asked.size).toBe(tried);
    await until(() => {
      for (const answer of waiting.splice(0)) answer(unknown('malformed', 'systemd', 'not the properties of a unit'));
      made.pass(5_000);
      return ties.isTold();
    });
    expect(asked.size).toBe(100);
  });

  it('are not chosen after a reload of the unit files before systemd has said again what stops along, or has had its time', async () => {
    ties.close();
    const told = { missing: [] as boolean[], woken: 0 };
    let reload = (_isReloading: boolean): void => undefined;
    /** Of the waits for an answer, which end only as the test says. */
    const overdue: (() => void)[] = [];
    const after: typeof clock.after = (ms, run) => {
      if (ms !== 1_000) return clock.after(ms, run);
      overdue.push(run);
      return () => undefined;
    };
    const answers: (() => void)[] = [];
    let isHeld = false;
    const asked = async (name: string) => {
      const answer = await fake.systemd.ties(name);
      if (isHeld) await new Promise<void>((resolve) => answers.push(resolve));
      return answer;
    };
    const systemd = {
      ...fake.systemd,
      ties: asked,
      whenReloading: (run: typeof reload) => {
        reload = run;
        return () => undefined;
      },
    };
    tie({
      clock: { ...clock, after },
      systemd,
      unitOf: (uid) => `${uid}.service`,
      wake: () => (told.woken += 1),
      missing: (isMissing) => told.missing.push(isMissing),
    });
    addUnit('db');
    addUnit('front');
    const pods = [bound('db', 0), bound('front', 2_000)];
    of('db', pods);
    await until(() => ties.unsettled() === null);
    // An answer from before the reload settles nothing.
    isHeld = true;
    fake.begin('db.service');
    await until(() => answers.length === 1);
    reload(true);
    expect(ties.unsettled()?.detail).toContain('stop along');
    const before = told.woken;
    addUnit('db', { RequiredBy: ['front.service'] });
    isHeld = false;
    for (const answer of answers) answer();
    await until(() => told.woken > before);
    expect(ties.unsettled()).not.toBeNull();
    reload(false);
    await until(() => ties.unsettled() === null);
    expect(of('db', pods)?.inherited).toEqual({ priority: 2_000, from: 'default/front' });
    expect(told.missing).toEqual([]);

    isHeld = true;
    const waits = overdue.length;
    for (let times = 0; times < 20; times += 1) {
      reload(true);
      reload(false);
    }
    // No reload puts off the end of the wait for the first one.
    expect(overdue.length).toBe(waits + 1);
    expect(ties.unsettled()).not.toBeNull();
    overdue.at(-1)?.();
    expect([ties.unsettled(), told.missing]).toEqual([null, [true]]);
    reload(true);
    expect(ties.unsettled()).toBeNull();
    isHeld = false;
    reload(false);
    for (const answer of answers) answer();
    await until(() => told.missing.length === 2);
    expect(told.missing).toEqual([true, false]);
  });
});
