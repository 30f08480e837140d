import { describe, expect, it } from 'vitest';
import { armed, kept, poweroff, WALL_MS } from './kept-inhibitor.ts';

describe('a shutdown', () => {
  it('is reported by the signal, with its type', async () => {
    const all = await armed();
    all.signal.type('reboot');
    await poweroff(all);
    await all.pass(5_000);
    expect(all.events.slice(1)).toMatchObject([{ kind: 'preparing', atMs: 100 }]);
    expect(all.events[1]).not.toHaveProperty('leftMs');
    expect(all.inhibitor.status()).toMatchObject({ isPreparing: true, type: 'reboot', lock: { kind: 'armed' } });
  });

  it('is ignored if logind itself denies it', async () => {
    const { signal, pass, kinds, inhibitor } = await armed();
    signal.preparing(true);
    await pass(20_000);
    expect([kinds(), inhibitor.status().isPreparing]).toEqual([['lock-granted'], false]);
  });

  it('whose signal was missed is found, with an upper bound of the remaining time', async () => {
    const { now, pass, events, clock } = await armed();
    await pass(32_000 - clock.monoMs());
    now.isPreparing = true;
    await pass(30_000);
    // Seen at 60 s; the last look that saw none was at 30 s.
    expect(events.slice(1)).toMatchObject([{ kind: 'preparing', leftMs: 2_000 }]);
  });

  it('whose signal arrives during a query to logind has all of its time', async () => {
    const all = await armed();
    await all.pass(5_000);
    all.signal.schedule();
    await poweroff(all);
    expect(all.events.slice(1)).toMatchObject([{ kind: 'preparing' }]);
    expect(all.events[1]).not.toHaveProperty('leftMs');
  });

  it('is believed if logind can no longer be queried, unless it cancelled it', async () => {
    const all = await armed();
    all.now.isUp = false;
    all.signal.preparing(true);
    all.signal.preparing(false);
    await all.pass(100);
    expect(all.kinds()).toEqual(['lock-granted']);
    all.signal.preparing(true);
    await all.pass(100);
    expect(all.kinds()).toEqual(['lock-granted', 'preparing']);
  });

  it('that began before the agent is found; no lock can be taken, and none is requested', async () => {
    const { inhibitor, now, pass, kinds, lock, times } = kept();
    now.isPreparing = true;
    now.take = 'too-late';
    inhibitor.want(30_000);
    await pass(20_000);
    expect(kinds()).toEqual(['preparing']);
    expect(lock()).toMatchObject({ kind: 'not-armed', isHeld: false, why: expect.stringContaining('in progress') });
    expect(times('take')).toBe(0);
    now.isPreparing = false;
    inhibitor.take();
    expect(lock()).toMatchObject({ kind: 'not-armed', isPending: true });
  });

  it('that begins right after the lock is taken is found at once', async () => {
    const { inhibitor, now, pass, kinds, letTake } = kept();
    now.take = 'hangs';
    inhibitor.want(30_000);
    await pass(0);
    now.isPreparing = true;
    now.take = 'held';
    letTake();
    await pass(0);
    expect(kinds()).toEqual(['lock-granted', 'preparing']);
  });

  it('that begins right before it is found at once', async () => {
    const { inhibitor, now, pass, kinds, letTake, lock } = kept();
    now.take = 'hangs';
    inhibitor.want(30_000);
    await pass(0);
    now.isPreparing = true;
    now.take = 'too-late';
    letTake();
    await pass(0);
    expect(kinds()).toEqual(['preparing']);
    expect(lock()).toMatchObject({ kind: 'not-armed', why: expect.stringContaining('in progress') });
  });

  it('is reported again to a new listener: what is granted, and what is left of it', async () => {
    const all = await armed();
    await all.pass(5_000);
    const changes = all.changes();
    all.inhibitor.retell();
    expect(all.kinds()).toEqual(['lock-granted', 'lock-granted']);
    expect(all.changes()).toBeGreaterThan(changes);
    await poweroff(all);
    await all.pass(10_000);
    all.inhibitor.retell();
    expect(all.events.slice(3)).toMatchObject([
      { kind: 'lock-granted', delayMaxMs: 32_000 },
      { kind: 'preparing', leftMs: 22_000 },
    ]);
    all.now.isPreparing = false;
    all.signal.preparing(false);
    all.inhibitor.retell();
    expect(all.kinds().slice(5)).toEqual(['cancelled', 'lock-granted']);
  });

  it('has the delay from its beginning: nothing is raised any more', async () => {
    const all = await armed();
    all.now.delayMs = 20_000;
    await poweroff(all);
    expect(all.events.slice(1)).toMatchObject([{ kind: 'lock-granted', delayMaxMs: 20_000 }, { kind: 'preparing' }]);
    const reloads = all.times('reload');
    all.inhibitor.want(60_000);
    await all.pass(65_000);
    expect(all.times('reload')).toBe(reloads);
  });

  it('continues with the lock if it is switched off during the shutdown', async () => {
    const all = await armed();
    await poweroff(all);
    all.inhibitor.want(null);
    await all.pass(5_000);
    expect([all.locks().length, all.inhibitor.status().isPreparing]).toEqual([1, true]);
    all.now.isPreparing = false;
    all.signal.preparing(false);
    await all.pass(0);
    expect([all.locks().length, all.lock()]).toEqual([0, { kind: 'off' }]);
  });
});

describe('a cancel', () => {
  it('by signal is noticed at once, and the lock is kept', async () => {
    const all = await armed();
    const before = all.locks();
    all.signal.type('reboot');
    await poweroff(all);
    all.now.isPreparing = false;
    all.signal.preparing(false);
    expect(all.kinds()).toEqual(['lock-granted', 'preparing', 'cancelled']);
    await all.pass(5_000);
    expect(all.inhibitor.status()).toMatchObject({ isPreparing: false, type: null, lock: { kind: 'armed' } });
    expect([all.locks(), all.kinds().length]).toEqual([before, 3]);
  });

  it('without a signal is found by two looks within 2 s, not by one', async () => {
    const all = await armed();
    await poweroff(all);
    await all.pass(3_500);
    for (let i = 0; i < 3; i++) {
      all.now.isPreparing = false;
      await all.pass(600);
      all.now.isPreparing = true;
      await all.pass(1_400);
    }
    expect(all.kinds()).toEqual(['lock-granted', 'preparing']);
    all.now.isPreparing = false;
    const atMs = all.clock.monoMs();
    await all.pass(5_000);
    expect(all.kinds()).toEqual(['lock-granted', 'preparing', 'cancelled']);
    expect((all.events.at(-1)?.atMs ?? 0) - atMs).toBeLessThanOrEqual(2_000);
  });

  it('follows from a new logind, which knows nothing of the shutdown', async () => {
    const all = await armed();
    await poweroff(all);
    all.now.isPreparing = false;
    all.signal.restarted();
    await all.pass(0);
    expect(all.kinds()).toEqual(['lock-granted', 'preparing', 'cancelled']);
  });

  it.each(['in its phases', 'after the release'])(
    'follows %s from the end of logind, at once or by a look',
    async (when) => {
      for (const isHeard of [true, false]) {
        const all = await armed();
        await poweroff(all);
        if (when === 'after the release') all.inhibitor.release();
        all.now.isUp = false;
        all.signal.ended();
        await all.pass(20_000);
        // It may only hang, or systemd may be stopping everything.
        expect(all.kinds()).toEqual(['lock-granted', 'preparing']);
        all.now.hasDied = true;
        if (isHeard) all.signal.ended();
        await all.pass(isHeard ? 0 : 2_000);
        expect(all.kinds()).toEqual(['lock-granted', 'preparing', 'cancelled']);
      }
    },
  );

  it('after the release has the lock taken again', async () => {
    const all = await armed();
    await poweroff(all);
    all.inhibitor.release();
    await all.pass(3_000);
    expect([all.locks().length, all.lock()]).toEqual([0, { kind: 'released' }]);
    all.now.isPreparing = false;
    all.signal.preparing(false);
    await all.pass(100);
    expect(all.lock()).toMatchObject({ kind: 'armed' });
    expect([all.locks().length, all.kinds()]).toEqual([1, ['lock-granted', 'preparing', 'cancelled', 'lock-granted']]);
  });

  it('of a shutdown that an earlier run of the agent had begun is reported', async () => {
    const { inhibitor, pass, kinds } = kept();
    inhibitor.want(30_000, true);
    await pass(3_000);
    expect(kinds().filter((kind) => kind !== 'lock-granted')).toEqual(['cancelled']);
  });

  it('is not reported for one in progress that the earlier run had been told of', async () => {
    const { inhibitor, now, pass, kinds } = kept();
    now.isPreparing = true;
    inhibitor.want(30_000, true);
    await pass(20_000);
    expect([kinds(), inhibitor.status().isPreparing]).toEqual([[], true]);
  });

  it('that logind does not honour is reported once', async () => {
    const all = await armed();
    all.now.schedule = { type: 'poweroff', atWallMs: WALL_MS + 15_000 };
    all.signal.schedule();
    await all.pass(15_000);
    await poweroff(all);
    expect(all.inhibitor.status()).toMatchObject({ type: 'poweroff', scheduled: null });
    all.now.schedule = null;
    await all.pass(10_000);
    expect([all.notHonoured(), all.kinds()]).toEqual([1, ['lock-granted', 'preparing']]);
  });
});

describe('a schedule', () => {
  const shutdown = { type: 'poweroff', atWallMs: WALL_MS + 600_000 };

  it('is shown when logind reports it, until it is gone, and stops nothing', async () => {
    const { now, inhibitor, pass, kinds, changes, signal } = await armed();
    now.schedule = shutdown;
    const before = changes();
    signal.schedule();
    await pass(0);
    expect([inhibitor.status().scheduled, changes()]).toEqual([shutdown, before + 1]);
    await pass(90_000);
    expect(changes()).toBe(before + 1);
    now.schedule = null;
    signal.schedule();
    await pass(0);
    expect([inhibitor.status().scheduled, changes()]).toEqual([null, before + 2]);
    expect(kinds()).toEqual(['lock-granted']);
  });

  it('that was not reported is found within a minute', async () => {
    const { now, inhibitor, pass } = await armed();
    now.schedule = shutdown;
    await pass(60_000);
    expect(inhibitor.status().scheduled).toEqual(shutdown);
  });

  it('is hidden while another shutdown is in progress', async () => {
    const all = await armed();
    all.now.schedule = shutdown;
    await poweroff(all);
    await all.pass(2_000);
    expect(all.inhibitor.status()).toMatchObject({ isPreparing: true, scheduled: null, type: null });
  });

  it('is hidden once its time is over', async () => {
    const { now, inhibitor, pass, signal } = await armed();
    now.schedule = { ...shutdown, atWallMs: WALL_MS - 1_000 };
    signal.schedule();
    await pass(0);
    expect(inhibitor.status().scheduled).toBeNull();
  });
});
