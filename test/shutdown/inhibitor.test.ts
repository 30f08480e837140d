import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { armed, DROP_IN, kept, OWN, poweroff } from './kept-inhibitor.ts';

/** No name sorts after it. */
const LAST = `etc/systemd/logind.conf.d/${'\u{10ffff}'.repeat(62)}.conf`;

describe('a kubelet beside it', () => {
  it('is recognised by its lock, checked again at the signal, and reported when it releases it', async () => {
    const { now, inhibitor, pass, signal, events, kinds } = kept();
    inhibitor.want(30_000);
    await pass(1_000);
    expect(inhibitor.status().isKubeletArmed).toBe(false);
    // Nobody has told of it.
    now.isKubeletArmed = true;
    now.isPreparing = true;
    signal.preparing(true);
    await pass(100);
    expect(events.at(-1)).toMatchObject({ kind: 'preparing', byKubelet: true });
    now.isKubeletArmed = false;
    await pass(2_500);
    expect(kinds().at(-1)).toBe('kubelet-released');
    expect(inhibitor.status().isKubeletArmed).toBe(false);
  });

  it('is not waited for if it holds no lock', async () => {
    const { now, inhibitor, pass, signal, events } = kept();
    now.isKubeletArmed = true;
    inhibitor.want(30_000);
    await pass(1_000);
    expect(inhibitor.status().isKubeletArmed).toBe(true);
    now.isKubeletArmed = false;
    now.isPreparing = true;
    signal.preparing(true);
    await pass(100);
    expect(events.at(-1)).toEqual({ kind: 'preparing', atMs: expect.any(Number) });
  });
});

describe('arming', () => {
  it('requests nothing before the lock is wanted', async () => {
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

  it('writes nothing if logind grants enough', async () => {
    const { root, now, inhibitor, pass, lock, times } = kept();
    now.delayMs = 32_000;
    inhibitor.want(30_000);
    await pass(1_000);
    expect(lock()).toMatchObject({ kind: 'armed', grantedMs: 32_000 });
    expect([existsSync(`${root}/${OWN}`), times('reload')]).toEqual([false, 0]);
  });

  it('is armed for an unlimited grant, as a number that JSON can represent', async () => {
    const { now, inhibitor, pass, lock } = kept();
    now.delayMs = Number.POSITIVE_INFINITY;
    inhibitor.want(30_000);
    await pass(1_000);
    expect(lock()).toMatchObject({ kind: 'armed', grantedMs: Number.MAX_SAFE_INTEGER });
  });

  it.each([
    ['90', 90_000],
    ['infinity', Number.MAX_SAFE_INTEGER],
  ])('does not lower what a file requests that logind has not read yet: %s', async (text, grantedMs) => {
    const file = 'etc/systemd/logind.conf.d/50-long.conf';
    const { inhibitor, pass, lock } = kept({}, { [file]: `[Login]\nInhibitDelayMaxSec=${text}\n` });
    inhibitor.want(30_000);
    await pass(1_000);
    expect(lock()).toMatchObject({ kind: 'armed', grantedMs });
  });

  it('says nothing yet of a bus that is not connected at the start, for some seconds', async () => {
    const { now, inhibitor, pass, lock, logged, signal } = kept();
    now.isUp = false;
    inhibitor.want(30_000);
    await pass(3_000);
    expect([lock(), logged]).toEqual([expect.objectContaining({ kind: 'not-armed', isPending: true }), []]);
    now.isUp = true;
    signal.up();
    await pass(100);
    expect(lock()).toMatchObject({ kind: 'armed' });
    expect(logged).toEqual([expect.stringMatching(/^armed: /)]);
  });

  it('says so if nobody answers by then, and of a bus that is lost later at once', async () => {
    const { now, inhibitor, pass, lock, logged } = kept();
    now.isUp = false;
    inhibitor.want(30_000);
    await pass(5_100);
    expect(logged).toEqual([expect.stringMatching(/^not armed: logind cannot be asked .*connection was closed/)]);
    expect(lock()).not.toHaveProperty('isPending');
    now.isUp = true;
    await pass(30_000);
    now.isUp = false;
    await pass(61_000);
    expect(logged).toHaveLength(3);
  });

  it('names the file that stands in the way, holds the lock for what is granted, and arms once the file is gone', async () => {
    const { root, inhibitor, pass, lock, events, locks } = kept({}, { [LAST]: '[Login]\nInhibitDelayMaxSec=3\n' });
    inhibitor.want(30_000);
    await pass(15_000);
    expect(lock()).toMatchObject({ kind: 'not-armed', neededMs: 30_000, grantedMs: 5_000, isHeld: true });
    expect(lock()).toMatchObject({
      why: expect.stringContaining(`${root}/${LAST} sets it to 3: write InhibitDelayMaxSec=32`),
    });
    expect(locks()).toHaveLength(1);
    expect(events).toMatchObject([{ kind: 'lock-granted', delayMaxMs: 5_000 }]);
    rmSync(`${root}/${LAST}`);
    await pass(30_000);
    expect(lock()).toMatchObject({ kind: 'armed', grantedMs: 32_000 });
    expect(events.at(-1)).toMatchObject({ kind: 'lock-granted', delayMaxMs: 32_000 });
  });

  it('continues to name that file, without further log lines, while the machine goes down', async () => {
    const scene = kept({}, { [LAST]: '[Login]\nInhibitDelayMaxSec=3\n' });
    const { inhibitor, pass, lock, logged, signal, times } = scene;
    inhibitor.want(30_000);
    await pass(15_000);
    const [before, lines, asked] = [lock(), logged.length, times('list')];
    await poweroff(scene);
    signal.inhibitors();
    await pass(3_000);
    expect(times('list')).toBeGreaterThan(asked);
    expect(lock()).toEqual(before);
    expect(logged).toHaveLength(lines);
  });

  it('says why its drop-in cannot be written, and retries', async () => {
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

  it('reports that logind does not use its file, rarely asks it to, and is armed as soon as it does', async () => {
    const { root, inhibitor, pass, lock, now, times, signal } = kept();
    now.doesReload = false;
    inhibitor.want(30_000);
    await pass(9_900);
    expect(lock()).toMatchObject({ kind: 'not-armed', why: 'waiting for logind to answer' });
    await pass(5_000);
    expect(lock()).toMatchObject({ kind: 'not-armed', why: expect.stringContaining(`${root}/${DROP_IN}`) });
    const written = statSync(`${root}/${DROP_IN}`).ino;
    await pass(3_600_000);
    expect(times('reload')).toBeLessThanOrEqual(7);
    expect(statSync(`${root}/${DROP_IN}`).ino).toBe(written);
    now.delayMs = 32_000;
    signal.restarted();
    await pass(0);
    expect(lock()).toMatchObject({ kind: 'armed' });
    now.delayMs = 3_000;
    now.doesReload = true;
    await pass(700_000);
    expect(lock()).toMatchObject({ kind: 'armed' });
  });

  it('is not armed while logind does not list the lock, which is then taken again, less and less often', async () => {
    const { inhibitor, pass, lock, now, times, locks, events } = kept();
    now.delayMs = 60_000;
    now.doesList = false;
    inhibitor.want(30_000);
    await pass(60_000);
    expect(lock()).toMatchObject({ kind: 'not-armed', why: expect.stringContaining('no longer holds it') });
    // At once, then after 1, 2, 4, 8, 16 and 30 s.
    expect(times('take')).toBe(7);
    expect([locks().length, events]).toEqual([0, []]);
    now.doesList = true;
    await pass(30_000);
    expect(lock()).toMatchObject({ kind: 'armed' });
    expect(locks()).toHaveLength(1);
  });

  it('retries forever if no lock can be taken: after 1 s, doubling to 30 s', async () => {
    const { inhibitor, pass, lock, now, calls, clock, logged, times, locks, endChild } = kept();
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
    const before = times('take');
    now.take = 'fails';
    for (const pid of locks()) endChild(pid);
    await pass(4_000);
    // At once, and again after 1 and 2 s.
    expect(times('take') - before).toBe(3);
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
