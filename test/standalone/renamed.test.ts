import { renameSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { createHasten } from '../../src/act/hasten.ts';
import { until } from '../../src/demo/cast.ts';
import { mounts, needsCgroups } from '../act/a-cgroup.ts';
import { cgroup, clock, IGNORES, open, order, podOf, standalone, stop, write } from './a-standalone.ts';

const needsV1 = needsCgroups || (mounts?.version === 1 ? '' : '[needs cgroup v1: version 2 renames none]');
const at = (i: number): string => `${mounts?.memory}${cgroup(i).path}`;
const aside = (): string => `${at(0)}-aside`;
function swapNames(): void {
  renameSync(at(0), aside());
  renameSync(at(1), at(0));
  renameSync(aside(), at(1));
}
/** As it was measured in the first cgroup. */
const measured = () => ({ ...order('one').victim, cgroupInode: cgroup(0).ref.inode });

describe.skipIf(needsV1 !== '')(`pods whose cgroup is renamed ${needsV1}`, () => {
  it('are evicted where it is now, and who has its path lives', async () => {
    const [victim, other] = [await cgroup(0).run(IGNORES), await cgroup(1).run(IGNORES)];
    write('one', `cgroup: ${cgroup(0).path}`);
    await open();
    const stopped = { first: 'sigkill', victim: measured() } as const;
    swapNames();
    try {
      expect(await stop('one', stopped)).toMatchObject({
        kind: 'ended',
        via: 'sigkill',
        releasedBytes: { known: true },
      });
      await until(clock, () => victim.ended() !== null, 10_000);
      expect(other.isAlive()).toBe(true);
    } finally {
      swapNames();
    }
  });

  it('are ended where it is now if they were signalled before the agent restarted', async () => {
    const victim = await cgroup(0).run(IGNORES);
    write('one', `cgroup: ${cgroup(0).path}`);
    await open();
    const signalled = order('one', { resumedFromMs: clock.monoMs() + 20, sentBefore: 'sigterm' });
    await standalone.close();
    renameSync(at(0), aside());
    try {
      await open();
      const end = await standalone.killer.stop(signalled, createHasten(clock));
      expect(end).toMatchObject({ kind: 'ended', releasedBytes: { known: true } });
      await until(clock, () => victim.ended() !== null, 10_000);
    } finally {
      renameSync(aside(), at(0));
    }
  });

  it('keep it while no other one has its path', async () => {
    await cgroup(0).run(IGNORES);
    write('one', `cgroup: ${cgroup(0).path}`);
    await open();
    expect(podOf('one').cgroup).toEqual({ known: true, value: cgroup(0).ref });
    renameSync(at(0), aside());
    try {
      const { inode } = cgroup(0).ref;
      expect(podOf('one').cgroup).toEqual({ known: true, value: { path: `${cgroup(0).path}-aside`, inode } });
    } finally {
      renameSync(aside(), at(0));
    }
    expect(podOf('one').cgroup).toEqual({ known: true, value: cgroup(0).ref });
  });
});

describe.skipIf(needsCgroups !== '')(`pods whose cgroup was replaced since the choice ${needsCgroups}`, () => {
  it('are not evicted in its place, and the outcome does not say that they had ended', async () => {
    const innocent = await cgroup(0).run(IGNORES);
    write('one', `cgroup: ${cgroup(0).path}`);
    await open();
    const before = { ...measured(), cgroupInode: 1 };
    const stopped = { first: 'sigkill', victim: before } as const;
    expect(await stop('one', stopped)).toMatchObject({ kind: 'dropped', because: 'moved' });
    expect(innocent.isAlive()).toBe(true);
    // A shutdown stops what runs.
    expect(await stop('one', { why: 'shutdown', victim: before })).toMatchObject({ kind: 'ended' });
  });
});
