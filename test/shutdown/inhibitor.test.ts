import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { ShutdownEvent } from '../../src/core/observation.ts';
import type { InhibitorStatus } from '../../src/ports.ts';
import { type InhibitorNeeds, keepInhibitor } from '../../src/shutdown/inhibitor.ts';
import { createVirtualClock } from '../../src/simulate/virtual-node.ts';
import { aTree } from '../host/tree.ts';
import { scriptedLogind } from './scripted-logind.ts';

const WALL_MS = 1_800_000_000_000;
const OWN = 'run/systemd/logind.conf.d';
const DROP_IN = `${OWN}/zz-nodewarden.conf`;
const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

function kept(given: Partial<InhibitorNeeds> = {}, files: { readonly [path: string]: string } = {}) {
  const root = aTree(files);
  const clock = createVirtualClock(WALL_MS);
  const scripted = scriptedLogind(root);
  const events: (ShutdownEvent & { readonly atMs: number })[] = [];
  const logged: string[] = [];
  const log = (_: object, text: string): void => void logged.push(text);
  let changes = 0;
  let notHonoured = 0;
  const inhibitor = keepInhibitor({
    clock,
    logind: scripted.logind,
    takeLock: scripted.takeLock,
    dropIn: scripted.dropIn,
    log: { debug: log, info: log, warn: log, error: log },
    onEvent: (event) => events.push({ ...event, atMs: clock.monoMs() }),
    onChange: () => {
      changes += 1;
    },
    onCancelNotHonoured: () => {
      notHonoured += 1;
    },
    ...given,
  });
  onTestFinished(() => inhibitor.close());
  return {
    ...scripted,
    root,
    clock,
    inhibitor,
    events,
    logged,
    changes: () => changes,
    notHonoured: () => notHonoured,
    lock: () => inhibitor.status().lock,
    pass: (ms: number) => clock.run(clock.monoMs() + ms, settled, new AbortController().signal),
    times: (call: string) => scripted.calls.filter((name) => name === call).length,
    kinds: () => events.map(({ kind }) => kind),
  };
}
type Kept = ReturnType<typeof kept>;

async function armed(given: Partial<InhibitorNeeds> = {}): Promise<Kept> {
  const all = kept(given);
  all.inhibitor.want(30_000);
  await all.pass(100);
  expect(all.lock()).toMatchObject({ kind: 'armed' });
  return all;
}

/** `systemctl poweroff`, as logind shows it. */
async function poweroff({ now, signal, pass }: Kept): Promise<void> {
  now.isPreparing = true;
  signal.preparing(true);
  await pass(0);
}

describe('arming', () => {
  it('asks for nothing before the lock is wanted', async () => {
    const { calls, pass, lock, locks } = kept();
    await pass(120_000);
    expect([calls, lock(), locks()]).toEqual([[], { kind: 'off' }, []]);
  });

  it('has the delay raised by a drop-in, with a reserve, and is armed once logind grants it and lists the lock', async () => {
    const { root, inhibitor, pass, lock, events, now, locks, logged } = kept();
    inhibitor.want(30_000);
    expect(lock()).toMatchObject({ kind: 'not-armed', neededMs: 30_000, grantedMs: null });
    await pass(1_000);
    expect(readFileSync(`${root}/${DROP_IN}`, 'utf8')).toMatch(/^#.*\n\[Login\]\nInhibitDelayMaxSec=32\n$/);
    expect(now.delayMs).toBe(32_000);
    expect(lock()).toEqual({ kind: 'armed', neededMs: 30_000, grantedMs: 32_000, provenMs: expect.any(Number) });
    expect(locks()).toHaveLength(1);
    expect(events).toMatchObject([{ kind: 'lock-granted', delayMaxMs: 32_000 }]);
    expect(logged).toEqual(['armed: logind waits up to 32s for the phases, which need 30s']);
  });

  it('writes nothing where logind grants enough', async () => {
    const { root, now, inhibitor, pass, lock, times } = kept();
    now.delayMs = 32_000;
    inhibitor.want(30_000);
    await pass(1_000);
    expect(lock()).toMatchObject({ kind: 'armed', grantedMs: 32_000 });
    expect([existsSync(`${root}/${OWN}`), times('reload')]).toEqual([false, 0]);
  });

  it('is armed for what is granted without end, which JSON can hold', async () => {
    const { now, inhibitor, pass, lock } = kept();
    now.delayMs = Number.POSITIVE_INFINITY;
    inhibitor.want(30_000);
    await pass(1_000);
    expect(lock()).toMatchObject({ kind: 'armed', grantedMs: Number.MAX_SAFE_INTEGER });
  });

  it.each([
    ['90', 90_000],
    ['infinity', Number.MAX_SAFE_INTEGER],
  ])('does not lower what a file asks for that logind has not read yet: %s', async (text, grantedMs) => {
    const file = 'etc/systemd/logind.conf.d/50-long.conf';
    const { inhibitor, pass, lock } = kept({}, { [file]: `[Login]\nInhibitDelayMaxSec=${text}\n` });
    inhibitor.want(30_000);
    await pass(1_000);
    expect(lock()).toMatchObject({ kind: 'armed', grantedMs });
  });

  it('names the file that stands in the way, holds the lock for what is granted, and arms once it is gone', async () => {
    // No name sorts after it.
    const last = `etc/systemd/logind.conf.d/${'\u{10ffff}'.repeat(62)}.conf`;
    const { root, inhibitor, pass, lock, events, locks } = kept({}, { [last]: '[Login]\nInhibitDelayMaxSec=3\n' });
    inhibitor.want(30_000);
    await pass(15_000);
    expect(lock()).toMatchObject({ kind: 'not-armed', neededMs: 30_000, grantedMs: 5_000, isHeld: true });
    expect(lock()).toMatchObject({
      why: expect.stringContaining(`${root}/${last} sets it to 3: write InhibitDelayMaxSec=32`),
    });
    expect(locks()).toHaveLength(1);
    expect(events).toMatchObject([{ kind: 'lock-granted', delayMaxMs: 5_000 }]);
    rmSync(`${root}/${last}`);
    await pass(30_000);
    expect(lock()).toMatchObject({ kind: 'armed', grantedMs: 32_000 });
    expect(events.at(-1)).toMatchObject({ kind: 'lock-granted', delayMaxMs: 32_000 });
  });

  it('says why its drop-in cannot be written, and tries again', async () => {
    const { root, inhibitor, pass, lock } = kept();
    mkdirSync(`${root}/${OWN}`, { recursive: true });
    chmodSync(`${root}/${OWN}`, 0o777);
    inhibitor.want(30_000);
    await pass(1_000);
    expect(lock()).toMatchObject({
      kind: 'not-armed',
      isHeld: true,
      why: expect.stringContaining('can be written by'),
    });
    chmodSync(`${root}/${OWN}`, 0o755);
    await pass(30_000);
    expect(lock()).toMatchObject({ kind: 'armed' });
  });

  it('says that logind does not take its file up, and is armed as soon as it does', async () => {
    const { root, inhibitor, pass, lock, now } = kept();
    now.doesReload = false;
    inhibitor.want(30_000);
    await pass(9_900);
    expect(lock()).toMatchObject({ kind: 'not-armed', why: 'logind is being asked' });
    await pass(5_000);
    expect(lock()).toMatchObject({ kind: 'not-armed', why: expect.stringContaining(`${root}/${DROP_IN}`) });
    now.doesReload = true;
    await pass(45_000);
    expect(lock()).toMatchObject({ kind: 'armed' });
  });

  it('is not armed while logind does not list the lock, which is then taken anew, ever less often', async () => {
    const { inhibitor, pass, lock, now, times, locks, events } = kept();
    now.delayMs = 60_000;
    now.doesList = false;
    inhibitor.want(30_000);
    await pass(60_000);
    expect(lock()).toMatchObject({ kind: 'not-armed', why: expect.stringContaining('says logind') });
    // At once, then after 1, 2, 4, 8, 16 and 30 s.
    expect(times('take')).toBe(7);
    expect([locks().length, events]).toEqual([0, []]);
    now.doesList = true;
    await pass(30_000);
    expect(lock()).toMatchObject({ kind: 'armed' });
    expect(locks()).toHaveLength(1);
  });

  it('tries for ever where no lock can be had: after 1 s, doubling to 30 s', async () => {
    const { inhibitor, pass, lock, now, calls, clock, logged } = kept();
    now.take = 'fails';
    inhibitor.want(30_000);
    const atSeconds: number[] = [];
    for (let taken = 0; clock.monoMs() < 130_000; ) {
      await pass(100);
      const all = calls.filter((call) => call === 'take').length;
      if (all > taken) atSeconds.push(Math.floor(clock.monoMs() / 1_000));
      taken = all;
    }
    expect(atSeconds).toEqual([0, 1, 3, 7, 15, 31, 61, 91, 121]);
    expect(lock()).toMatchObject({
      kind: 'not-armed',
      isHeld: false,
      why: expect.stringContaining('systemd-inhibit: not installed'),
    });
    expect(logged).toHaveLength(1);
    now.take = 'held';
    await pass(30_000);
    expect(lock()).toMatchObject({ kind: 'armed' });
  });

  it('follows what is needed, without a moment without the lock', async () => {
    const { inhibitor, pass, lock, locks, root, times } = await armed();
    const before = locks();
    inhibitor.want(10_000);
    expect(lock()).toMatchObject({ kind: 'armed', neededMs: 10_000 });
    await pass(100);
    expect(lock()).toMatchObject({ kind: 'armed', neededMs: 10_000, grantedMs: 32_000 });
    inhibitor.want(60_000);
    expect(lock()).toMatchObject({ kind: 'not-armed', neededMs: 60_000, isHeld: true });
    await pass(1_000);
    expect(lock()).toMatchObject({ kind: 'armed', neededMs: 60_000, grantedMs: 62_000 });
    expect(readdirSync(`${root}/${OWN}`)).toEqual(['zz-nodewarden.conf']);
    expect([locks(), times('take')]).toEqual([before, 1]);
  });
});

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

  it('is made when locks come or go, at most once a second however many, and when there is another logind', async () => {
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

  it('is claimed by nobody while there is no bus: the lock is neither lost nor proven', async () => {
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
  it('is said and taken again at once', async () => {
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

  it('again and again is taken ever less often, until it held for a minute', async () => {
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

describe('a shutdown', () => {
  it('is heard by the signal, with its type', async () => {
    const all = await armed();
    all.signal.type('reboot');
    await poweroff(all);
    await all.pass(5_000);
    expect(all.events.slice(1)).toMatchObject([{ kind: 'preparing', atMs: 100 }]);
    expect(all.events[1]).not.toHaveProperty('leftMs');
    expect(all.inhibitor.status()).toMatchObject({ isPreparing: true, type: 'reboot', lock: { kind: 'armed' } });
  });

  it('is not believed when logind itself says that there is none', async () => {
    const { signal, pass, kinds, inhibitor } = await armed();
    signal.preparing(true);
    await pass(20_000);
    expect([kinds(), inhibitor.status().isPreparing]).toEqual([['lock-granted'], false]);
  });

  it('whose signal was missed is found, with what is left of its time at most', async () => {
    const { now, pass, events, clock } = await armed();
    await pass(12_000 - clock.monoMs());
    now.isPreparing = true;
    await pass(10_000);
    // Seen at 20.1 s; the last look that saw none was at 10.1 s.
    expect(events.slice(1)).toMatchObject([{ kind: 'preparing', leftMs: 22_000 }]);
  });

  it('that began before the agent did is found; there is no lock to be had, and it is not asked for', async () => {
    const { inhibitor, now, pass, kinds, lock, times } = kept();
    now.isPreparing = true;
    now.take = 'too-late';
    inhibitor.want(30_000);
    await pass(20_000);
    expect(kinds()).toEqual(['preparing']);
    expect(lock()).toMatchObject({ kind: 'not-armed', isHeld: false, why: expect.stringContaining('under way') });
    expect(times('take')).toBe(0);
  });

  it('that begins while the lock is taken is found at once', async () => {
    const { inhibitor, now, pass, kinds, letTake, lock } = kept();
    now.take = 'hangs';
    inhibitor.want(30_000);
    await pass(0);
    now.isPreparing = true;
    now.take = 'too-late';
    letTake();
    await pass(0);
    expect(kinds()).toEqual(['preparing']);
    expect(lock()).toMatchObject({ kind: 'not-armed', why: expect.stringContaining('under way') });
  });

  it('has the delay of its beginning: nothing is raised any more', async () => {
    const all = await armed();
    all.now.delayMs = 20_000;
    await poweroff(all);
    expect(all.events.slice(1)).toMatchObject([{ kind: 'lock-granted', delayMaxMs: 20_000 }, { kind: 'preparing' }]);
    const reloads = all.times('reload');
    all.inhibitor.want(60_000);
    await all.pass(65_000);
    expect(all.times('reload')).toBe(reloads);
  });

  it('goes on with the lock when it is switched off in the middle', async () => {
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
  it('by signal is heard at once, and the lock is kept', async () => {
    const all = await armed();
    const before = all.locks();
    await poweroff(all);
    all.now.isPreparing = false;
    all.signal.preparing(false);
    expect(all.kinds()).toEqual(['lock-granted', 'preparing', 'cancelled']);
    await all.pass(5_000);
    expect(all.inhibitor.status()).toMatchObject({ isPreparing: false, type: null, lock: { kind: 'armed' } });
    expect([all.locks(), all.kinds().length]).toEqual([before, 3]);
  });

  it('without a signal is seen by two looks within 2 s, not by one', async () => {
    const all = await armed();
    await poweroff(all);
    await all.pass(3_500);
    all.now.isPreparing = false;
    await all.pass(600);
    all.now.isPreparing = true;
    await all.pass(3_000);
    expect(all.kinds()).toEqual(['lock-granted', 'preparing']);
    all.now.isPreparing = false;
    const atMs = all.clock.monoMs();
    await all.pass(5_000);
    expect(all.kinds()).toEqual(['lock-granted', 'preparing', 'cancelled']);
    expect((all.events.at(-1)?.atMs ?? 0) - atMs).toBeLessThanOrEqual(2_000);
  });

  it('is what a new logind means, which knows nothing of the shutdown', async () => {
    const all = await armed();
    await poweroff(all);
    all.now.isPreparing = false;
    all.signal.restarted();
    await all.pass(0);
    expect(all.kinds()).toEqual(['lock-granted', 'preparing', 'cancelled']);
  });

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

  it('of a shutdown that an earlier run of the agent had begun is told', async () => {
    const { inhibitor, pass, kinds } = kept({ wasPreparing: true });
    inhibitor.want(30_000);
    await pass(3_000);
    expect(kinds().filter((kind) => kind !== 'lock-granted')).toEqual(['cancelled']);
  });

  it('is not told of one that goes on: the earlier run was told of it', async () => {
    const { inhibitor, now, pass, kinds } = kept({ wasPreparing: true });
    now.isPreparing = true;
    inhibitor.want(30_000);
    await pass(20_000);
    expect([kinds(), inhibitor.status().isPreparing]).toEqual([[], true]);
  });

  it('that logind does not honour is told once', async () => {
    const all = await armed();
    all.now.schedule = { type: 'poweroff', atWallMs: WALL_MS + 15_000 };
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

  it('is shown within 10 s, and no more when it is gone; it stops nothing', async () => {
    const { now, inhibitor, pass, kinds, changes } = await armed();
    now.schedule = shutdown;
    const before = changes();
    await pass(10_000);
    expect([inhibitor.status().scheduled, changes()]).toEqual([shutdown, before + 1]);
    now.schedule = null;
    await pass(10_000);
    expect([inhibitor.status().scheduled, changes()]).toEqual([null, before + 2]);
    expect(kinds()).toEqual(['lock-granted']);
  });

  it('is shown at once where logind tells of it', async () => {
    const { now, inhibitor, pass, signal } = await armed();
    now.schedule = shutdown;
    signal.schedule();
    await pass(0);
    expect(inhibitor.status().scheduled).toEqual(shutdown);
  });

  it('is none when its time is over', async () => {
    const { now, inhibitor, pass } = await armed();
    now.schedule = { ...shutdown, atWallMs: WALL_MS - 1_000 };
    await pass(10_000);
    expect(inhibitor.status().scheduled).toBeNull();
  });
});

describe('letting go', () => {
  it('takes everything back when it is wanted no more, once', async () => {
    const { root, inhibitor, pass, lock, locks, now, times, events, changes } = await armed();
    writeFileSync(`${root}/${OWN}/zz-other.conf`, '[Login]\nInhibitDelayMaxSec=7\n');
    inhibitor.want(null);
    await pass(100);
    expect([lock(), locks()]).toEqual([{ kind: 'off' }, []]);
    expect([readdirSync(`${root}/${OWN}`), now.delayMs]).toEqual([['zz-other.conf'], 7_000]);
    expect(events.at(-1)).toMatchObject({ kind: 'lock-lost' });
    const before = [times('reload'), changes()];
    for (let i = 0; i < 20; i++) {
      inhibitor.want(null);
      await pass(1_000);
    }
    expect([times('reload'), changes()]).toEqual(before);
    inhibitor.want(30_000);
    await pass(1_000);
    expect(lock()).toMatchObject({ kind: 'armed' });
  });

  it('removes the drop-in of an earlier run, also where the bus is not up yet', async () => {
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
    ['wanted no more', (inhibitor: Kept['inhibitor']) => inhibitor.want(null)],
    ['closed', (inhibitor: Kept['inhibitor']) => void inhibitor.close()],
  ])('of a lock that is being taken just now leaves none: %s', async (_, letGo) => {
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

  it('resolves its close only when the lock is gone, and does nothing more', async () => {
    const { inhibitor, pass, locks, calls, signal, events } = await armed();
    await inhibitor.close();
    expect(locks()).toEqual([]);
    const [asked, told] = [calls.length, events.length];
    inhibitor.want(10_000);
    inhibitor.take();
    signal.preparing(true);
    signal.restarted();
    signal.up();
    await pass(120_000);
    expect([calls.length, events.length, locks()]).toEqual([asked, told, []]);
  });

  it('is ended by `take`, also without a shutdown', async () => {
    const { inhibitor, pass, lock, locks } = await armed();
    inhibitor.release();
    await pass(100);
    const released: InhibitorStatus['lock'] = lock();
    inhibitor.take();
    await pass(100);
    expect([released.kind, lock().kind, locks().length]).toEqual(['released', 'armed', 1]);
  });
});
