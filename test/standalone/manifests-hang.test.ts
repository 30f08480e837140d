import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { createHasten } from '../../src/act/hasten.ts';
import type { StopOrder } from '../../src/ports.ts';
import { needsCgroups } from '../act/a-cgroup.ts';
import { type HungMount, mountHungFileSystem, noHungMount } from '../host/hung-mount.ts';
import { until } from '../host/private-bus.ts';
import {
  cgroup,
  clock,
  directory,
  heard,
  IGNORES,
  open,
  order,
  podsAtChoice,
  standalone,
  write,
} from './a-standalone.ts';

const needs = needsCgroups || (noHungMount === null ? '' : `[${noHungMount}]`);

describe.skipIf(needs !== '')(`manifests on a file system that hangs ${needs}`, () => {
  let mounted: HungMount | null = null;
  afterEach(() => mounted?.release());
  const hang = async (): Promise<HungMount> => {
    mounted = await mountHungFileSystem(join(directory, 'pods.d'));
    return mounted;
  };

  it('stay in force, with a finding, and hold up no choice', async () => {
    write('web', `cgroup: ${cgroup(0).path}`);
    await open();
    const { release } = await hang();
    for (let choices = 0; choices < 3; choices++) {
      expect((await podsAtChoice()).map(({ declared }) => declared.name)).toEqual(['web']);
    }
    await until(() => heard.present.has('manifests'));
    expect(heard.present.get('manifests')).toMatch(/pods\.d: no answer within 2 s; its file system may hang/);
    await release();
    await until(() => !heard.present.has('manifests'));
  });

  it('are unknown to an agent that starts meanwhile, and read once it answers', async () => {
    write('web', `cgroup: ${cgroup(0).path}`);
    const { release } = await hang();
    await open();
    expect(standalone.pods.pods()).toMatchObject({ known: false, why: 'timed-out' });
    expect(standalone.isSettled()).toBe(true);
    expect(heard.present.has('manifests')).toBe(true);
    await release();
    write('db', `cgroup: ${cgroup(1).path}`);
    await until(() => {
      const pods = standalone.pods.pods();
      return pods.known && pods.value.length === 2;
    });
    await until(() => !heard.present.has('manifests'));
  });

  it('do not keep an agent that starts meanwhile from ending a victim that was signalled, and it says of no other that it ended', async () => {
    const running = await cgroup(0).run(IGNORES);
    write('web', `cgroup: ${cgroup(0).path}`);
    await open();
    const chosen = order('web', { resumedFromMs: clock.monoMs() + 20 });
    await standalone.close();
    await hang();
    await open();
    const end = (more: Partial<StopOrder>) => standalone.killer.stop({ ...chosen, ...more }, createHasten(clock));
    expect(await end({})).toMatchObject({ kind: 'dropped', because: 'unresolved' });
    expect(running.isAlive()).toBe(true);
    expect(await end({ sentBefore: 'sigterm' })).toMatchObject({ kind: 'ended', releasedBytes: { known: true } });
    await until(() => !running.isAlive());
  });
});
