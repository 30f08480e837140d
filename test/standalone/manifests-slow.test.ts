import { rmSync, writeFileSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { sleep } from '../../src/host/clock.ts';
import type { BoundPod } from '../../src/ports.ts';
import { needsCgroups } from '../act/a-cgroup.ts';
import { noHungMount } from '../host/hung-mount.ts';
import { mountSlowFileSystem, type SlowMount } from '../host/slow-mount.ts';
import { cgroup, clock, directory, heard, open, podsAtChoice, standalone, write } from './a-standalone.ts';

const needs = needsCgroups || (noHungMount === null ? '' : `[${noHungMount}]`);
const podsD = (): string => join(directory, 'pods.d');
const named = (pods: readonly BoundPod[]): readonly string[] =>
  pods.map(({ declared: { name, limitedBy } }) => (limitedBy === null ? name : `${name}: ${limitedBy}`));
const atChoice = async (): Promise<readonly string[]> => named(await podsAtChoice());
const ALL_MS = 30_000;
const all = async (...names: readonly string[]): Promise<void> => {
  const endMs = clock.monoMs() + ALL_MS;
  let now = await atChoice();
  for (; JSON.stringify(now) !== JSON.stringify(names) && clock.monoMs() < endMs; now = await atChoice()) {
    await sleep(clock, 20);
  }
  expect(now).toEqual(names);
};

describe.skipIf(needs !== '')(`manifests that are read late, or not at all ${needs}`, () => {
  let mounted: SlowMount | null = null;
  afterEach(() => mounted?.release());
  const slow = async (): Promise<SlowMount> => {
    mounted = await mountSlowFileSystem(podsD());
    return mounted;
  };
  const twoPods = (): void => {
    write('db', `cgroup: ${cgroup(0).path}`);
    write('hog', `cgroup: ${cgroup(1).path}`);
  };

  it.each([
    ['new', () => write('hog', `cgroup: ${cgroup(1).path}`), ['db: manifest-unread'], ['db', 'hog']],
    ['edited', () => write('db', 'cgroup: /edited', 'spec: { priority: 7 }\n'), ['db: manifest-unread'], ['db']],
  ])('a pod within its request is spared until a manifest that is %s was read', async (_, change, meanwhile, then) => {
    write('db', `cgroup: ${cgroup(0).path}`);
    const { order } = await slow();
    await open();
    await all('db');
    await sleep(clock, 300);
    change();
    order('delay 0.06');
    expect(await atChoice()).toEqual(meanwhile);
    await all(...then);
  });

  it('a directory that answers late holds up and spares nobody if nothing in it has changed', async () => {
    twoPods();
    const { order } = await slow();
    await open();
    await all('db', 'hog');
    order('delay 0.06');
    for (let choices = 0; choices < 5; choices++) {
      expect(await atChoice()).toEqual(['db', 'hog']);
      await sleep(clock, 30);
    }
  });

  it('an input error at the start is no pod that does not exist', async () => {
    twoPods();
    const { order } = await slow();
    order('fail open hog.yaml');
    await open();
    expect(await atChoice()).toEqual(['db: manifest-unread']);
    expect(heard.present.get('manifest/hog.yaml')).toMatch(
      /hog\.yaml: EIO.*; which pods it declares is not known, and until it can be read, no other pod is evicted/,
    );
    order();
    write('hog', `cgroup: ${cgroup(1).path}`, '# again\n');
    await all('db', 'hog');
    expect([...heard.present]).toEqual([]);
  });

  it('after a restart, the last text that was read is in force instead of an input error', async () => {
    twoPods();
    const { order } = await slow();
    await open();
    await all('db', 'hog');
    await standalone.close();
    order('fail read hog.yaml');
    await open();
    await all('db', 'hog');
    expect(heard.present.get('manifest/hog.yaml')).toMatch(/EIO.*; its last good version stays in force/);
  });

  it('a directory that cannot be listed at the start declares unknown pods, not none', async () => {
    twoPods();
    const { order } = await slow();
    order('fail readdir .');
    await open();
    expect(standalone.pods.pods()).toMatchObject({ known: false, why: 'unreadable', detail: /EIO/ });
    expect(standalone.isSettled()).toBe(true);
    expect(heard.present.get('manifests')).toMatch(/EIO/);
  });

  it('what was read of many within two seconds is in force, and the rest follows', async () => {
    twoPods();
    const others = Array.from({ length: 20 }, (_, i) => `other-${i}`);
    for (const other of others) write(other, `cgroup: /${other}`);
    const { order } = await slow();
    order('delay 0.04');
    const startMs = clock.monoMs();
    await open();
    const tookMs = clock.monoMs() - startMs;
    expect(tookMs).toBeLessThan(2_500);
    expect(await atChoice()).toContain('db: manifest-unread');
    order();
    await all('db', 'hog', ...others.toSorted());
  });
});

describe.skipIf(needsCgroups !== '')(`manifests that change while nobody looks ${needsCgroups}`, () => {
  it.each([
    ['edited', (file: string) => writeFileSync(file, edited()), ['edited']],
    [
      'removed and written anew',
      (file: string) => {
        rmSync(file);
        writeFileSync(file, edited());
      },
      ['edited'],
    ],
  ])('while the agent stands still, %s: the choice knows them', async (_, change, names) => {
    write('db', `cgroup: ${cgroup(0).path}`);
    await open();
    await all('db');
    // The answer of a file system is heard in the middle of a turn of the event loop.
    await stat(podsD());
    change(join(podsD(), 'db.yaml'));
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 400);
    // A busy machine may take too long to read it for this choice, which then spares a pod within its request.
    expect([names, ['db: manifest-unread']]).toContainEqual(await atChoice());
    await all(...names);
  });

  it.each([
    ['emptied', ''],
    ['broken', 'apiVersion: v1\nkind: Pod\nmetadata: [\n'],
  ])('over a restart, %s: the last good version stays in force', async (_, text) => {
    write('db', `cgroup: ${cgroup(0).path}`);
    await open();
    await all('db');
    await standalone.close();
    writeFileSync(join(podsD(), 'db.yaml'), text);
    await open();
    await all('db');
    expect(heard.present.get('manifest/db.yaml')).toMatch(/its last good version stays in force/);
  });

  it('a name that is not UTF-8 is refused as such', async () => {
    write('db', `cgroup: ${cgroup(0).path}`);
    writeFileSync(Buffer.concat([Buffer.from(`${podsD()}/`), Buffer.from([0x61, 0xff]), Buffer.from('.yaml')]), 'x');
    await open();
    await all('db');
    expect([...heard.present.values()].join()).toMatch(/UTF-8.*rename it/);
  });
});

const edited = (): string =>
  'apiVersion: v1\nkind: Pod\nmetadata: { name: edited, annotations: { nodewarden.dev/cgroup: /edited } }\nspec: { containers: [{ name: a }] }\n';
