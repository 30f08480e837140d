import { readdirSync, writeFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import type { InhibitorStatus } from '../../src/ports.ts';
import { armed, type Kept, kept, OWN } from './kept-inhibitor.ts';
import { scriptedLogind } from './scripted-logind.ts';

describe('the proof', () => {
  it('is made each minute, and the time of the last one is shown', async () => {
    const { pass, lock, times, now, logged } = await armed();
    const proven = (): number => {
      const of = lock();
      return of.kind === 'armed' ? of.provenMs : -1;
    };
    const [firstMs, asked] = [proven(), times('list')];
    await pass(180_000);
    expect(proven() - firstMs).toBe(180_000);
    expect(times('list') - asked).toBe(3);
    expect(logged).toHaveLength(1);
    now.delayMs = 4_000;
    now.doesReload = false;
    await pass(75_000);
    expect(lock()).toMatchObject({ kind: 'not-armed', grantedMs: 4_000 });
  });

  it('is made when locks are taken or released, at most once a second, and when logind is restarted', async () => {
    const { pass, times, signal } = await armed();
    const asked = times('list');
    for (let i = 0; i < 100; i++) {
      signal.inhibitors();
      await pass(50);
    }
    expect(times('list') - asked).toBeLessThanOrEqual(5);
    expect(times('list') - asked).toBeGreaterThanOrEqual(4);
    await pass(2_000);
    const before = times('list');
    signal.restarted();
    await pass(0);
    expect(times('list')).toBe(before + 1);
  });

  it('is one at a time', async () => {
    const { inhibitor, pass, now, times, signal, letTake, lock } = kept();
    now.take = 'hangs';
    inhibitor.want(30_000);
    await pass(0);
    for (const tell of [signal.up, signal.restarted, signal.up]) {
      tell();
      await pass(10);
    }
    // Only the watch asks again, because of the new logind.
    expect([times('schedule'), times('preparing')]).toEqual([1, 2]);
    now.take = 'held';
    letTake();
    await pass(0);
    expect(lock()).toMatchObject({ kind: 'armed' });
  });

  it('finds a lock that logind has forgotten, and takes another', async () => {
    const { pass, lock, now, signal, locks, kinds } = await armed();
    now.doesList = false;
    signal.inhibitors();
    await pass(1_500);
    now.doesList = true;
    await pass(5_000);
    expect(lock()).toMatchObject({ kind: 'armed' });
    expect(locks()).toHaveLength(1);
    expect(kinds()).toEqual(['lock-granted', 'lock-lost', 'lock-granted']);
  });

  it('is not claimed while there is no bus: the lock is neither lost nor proven', async () => {
    const { pass, lock, now, signal, kinds, locks } = await armed();
    now.isUp = false;
    expect(lock()).toMatchObject({ kind: 'not-armed', isHeld: true, grantedMs: null });
    await pass(70_000);
    expect(lock()).toMatchObject({ kind: 'not-armed', isHeld: true, why: expect.stringContaining('the system bus') });
    now.isUp = true;
    signal.up();
    await pass(0);
    expect(lock()).toMatchObject({ kind: 'armed' });
    expect([kinds(), locks().length]).toEqual([['lock-granted'], 1]);
  });
});

describe('a lock that is lost', () => {
  it('is reported and taken again at once', async () => {
    const { pass, lock, locks, endChild, events, clock } = await armed();
    endChild(locks()[0] ?? 0);
    expect(lock()).toMatchObject({
      kind: 'not-armed',
      isHeld: false,
      why: expect.stringContaining('ended by SIGKILL'),
    });
    const atMs = clock.monoMs();
    await pass(0);
    expect(lock()).toMatchObject({ kind: 'armed' });
    expect(events.slice(1)).toMatchObject([
      { kind: 'lock-lost', detail: 'systemd-inhibit was ended by SIGKILL', atMs },
      { kind: 'lock-granted', delayMaxMs: 32_000, atMs },
    ]);
  });

  it('repeatedly is taken less and less often, until it was held for a minute', async () => {
    const { pass, locks, endChild, times } = await armed();
    const lostFor = async (ms: number): Promise<number> => {
      const before = times('take');
      for (let i = 0; i < ms; i += 100) {
        for (const pid of locks()) endChild(pid);
        await pass(100);
      }
      return times('take') - before;
    };
    expect(await lostFor(120_000)).toBeLessThanOrEqual(10);
    await pass(100_000);
    for (const pid of locks()) endChild(pid);
    await pass(0);
    expect(locks()).toHaveLength(1);
  });
});

describe('releasing the lock', () => {
  it('takes everything back once it is no longer wanted', async () => {
    const { root, inhibitor, pass, lock, locks, now, times, events, changes, signal } = await armed();
    writeFileSync(`${root}/${OWN}/zz-other.conf`, '[Login]\nInhibitDelayMaxSec=7\n');
    inhibitor.want(null);
    await pass(100);
    expect([lock(), locks()]).toEqual([{ kind: 'off' }, []]);
    expect([readdirSync(`${root}/${OWN}`), now.delayMs]).toEqual([['zz-other.conf'], 7_000]);
    expect(events.at(-1)).toMatchObject({ kind: 'lock-lost' });
    const before = [times('reload'), changes()];
    for (let i = 0; i < 20; i++) {
      inhibitor.want(null);
      signal.inhibitors();
      signal.restarted();
      signal.up();
      await pass(1_000);
    }
    expect([times('reload'), changes()]).toEqual(before);
    inhibitor.want(30_000);
    await pass(1_000);
    expect(lock()).toMatchObject({ kind: 'armed' });
  });

  it('removes the drop-in of an earlier run, even if the bus is not up yet', async () => {
    const { root, inhibitor, pass, now, signal, times } = kept();
    scriptedLogind(root).dropIn.write(30_000);
    now.isUp = false;
    inhibitor.want(null);
    await pass(100);
    expect(readdirSync(`${root}/${OWN}`)).toEqual([]);
    const before = times('reload');
    now.isUp = true;
    now.delayMs = 30_000;
    signal.up();
    await pass(100);
    expect([times('reload'), now.delayMs]).toEqual([before + 1, 5_000]);
  });

  it.each([
    ['released', (inhibitor: Kept['inhibitor']) => inhibitor.release()],
    ['no longer wanted', (inhibitor: Kept['inhibitor']) => inhibitor.want(null)],
    ['closed', (inhibitor: Kept['inhibitor']) => void inhibitor.close()],
  ])('leaves no lock if one is just being taken: %s', async (_, letGo) => {
    const { inhibitor, pass, now, letTake, locks } = kept();
    now.take = 'hangs';
    inhibitor.want(30_000);
    await pass(0);
    letGo(inhibitor);
    await pass(100);
    now.take = 'held';
    letTake();
    await pass(120_000);
    expect(locks()).toEqual([]);
  });

  it('waits at close for a lock that is being taken', async () => {
    const { inhibitor, pass, now, letTake, locks } = kept();
    now.take = 'hangs';
    inhibitor.want(30_000);
    await pass(0);
    let isOver = false;
    void inhibitor.close().then(() => {
      isOver = true;
    });
    await pass(100);
    expect(isOver).toBe(false);
    now.take = 'held';
    letTake();
    await pass(100);
    expect([isOver, locks()]).toEqual([true, []]);
  });

  it('ignores at close an answer that is on its way', async () => {
    const { inhibitor, pass, now, signal, kinds, timers } = await armed();
    now.isPreparing = true;
    signal.schedule();
    await inhibitor.close();
    await pass(10_000);
    expect([kinds(), timers()]).toEqual([['lock-granted'], 0]);
  });

  it('resolves close only once the lock is gone, and does nothing more', async () => {
    const { inhibitor, pass, locks, calls, signal, events, timers } = await armed();
    await inhibitor.close();
    expect(locks()).toEqual([]);
    const [asked, told] = [calls.length, events.length];
    inhibitor.want(10_000);
    inhibitor.take();
    signal.preparing(true);
    signal.restarted();
    signal.up();
    await pass(120_000);
    expect([calls.length, events.length, locks(), timers()]).toEqual([asked, told, [], 0]);
  });

  it('leaves no timer behind if it happens during a proof', async () => {
    const { inhibitor, pass, now, letTake, timers } = kept({
      onEvent: ({ kind }) => {
        if (kind === 'preparing') void inhibitor.close();
      },
    });
    now.take = 'hangs';
    inhibitor.want(30_000);
    await pass(0);
    now.isPreparing = true;
    now.take = 'too-late';
    letTake();
    await pass(0);
    expect(timers()).toBe(0);
  });

  it('is ended by `take`, even without a shutdown', async () => {
    const { inhibitor, pass, lock, locks } = await armed();
    inhibitor.release();
    await pass(100);
    const released: InhibitorStatus['lock'] = lock();
    inhibitor.take();
    await pass(100);
    expect([released.kind, lock().kind, locks().length]).toEqual(['released', 'armed', 1]);
  });
});
