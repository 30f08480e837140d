import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { known, type Reading, unknown } from '../../src/core/reading.ts';
import { until } from '../../src/demo/cast.ts';
import { createClock, sleep } from '../../src/host/clock.ts';
import { createDiskWalker, type DiskWalker } from '../../src/host/disk/disk-walk.ts';
import type { CommandRunner } from '../../src/host/systemd/transient.ts';
import type { CgroupRef } from '../../src/ports.ts';
import { createSeenDirectories } from '../../src/standalone/pods/seen-directories.ts';
import { createScratch } from '../../src/standalone/stop/scratch.ts';
import { makeCgroup, mounts, needsCgroups } from '../act/a-cgroup.ts';
import { asChild } from '../host/an-emptying.ts';
import { podOf } from './a-manifest.ts';
import { heardParts } from './needs.ts';

const clock = createClock();
const [TENANT, OTHER] = [65_534, 1];
const WEB = { uid: 'uid' };
const AS = { of: 'a-1', signal: 'nodefs.available' } as const;
const DOWN = unknown('absent', 'web', 'it is not running');

describe.skipIf(needsCgroups !== '')(`scratch of a dead pod ${needsCgroups}`, () => {
  let root: string;
  let walker: DiskWalker;
  beforeEach(() => {
    root = mkdtempSync(join(tmpdir(), 'nodewarden-scratch-'));
    walker = createDiskWalker(clock);
  });
  afterEach(() => {
    walker.close();
    rmSync(root, { recursive: true, force: true });
  });
  type Made = {
    readonly path?: string | null;
    readonly cgroup?: Reading<CgroupRef>;
    readonly other?: readonly string[];
    readonly run?: CommandRunner;
    readonly scratchTold?: () => Promise<void>;
    readonly patience?: number;
    readonly isDeclared?: boolean;
  };
  function open(scratch: readonly string[], made: Made = {}) {
    const { path = '/nodewarden-test-gone', cgroup = DOWN, other = [], run = asChild } = made;
    const { scratchTold = async () => undefined, patience = 50 } = made;
    if (mounts === null) throw new Error('no cgroups here');
    const heard = heardParts();
    const manifest = { ...podOf('web', []), scratch };
    const seen = createSeenDirectories();
    const uids: readonly string[] = ['uid', manifest.declared.uid];
    const source = {
      find: (uid: string) => (uids.includes(uid) && made.isDeclared !== false ? { manifest, path, cgroup } : null),
      declared: () => [manifest, { ...podOf('db', []), disk: other }],
      seen,
      scratchTold,
    };
    // A busy machine has the time to count: how long that may take is not what is tested. What comes each minute comes at once.
    const delayMs = (ms: number): number => (ms === 60_000 ? 20 : ms * patience);
    const patient = { ...clock, after: (ms: number, then: () => void) => clock.after(delayMs(ms), then) };
    const needs = { clock: patient, mounts, run, walker, findings: heard.findings, source };
    const { empty, emptying } = createScratch(needs);
    return { empty: (victim: typeof WEB) => empty(victim, AS), emptying, present: heard.present, seen };
  }

  it('is emptied, and reports how much that freed', async () => {
    const [one, two] = [join(root, 'one'), join(root, 'two')];
    for (const path of [one, two]) {
      mkdirSync(path);
      writeFileSync(join(path, 'file'), 'x'.repeat(1_000_000));
    }
    const emptied = await open([one, two, join(root, 'gone')]).empty(WEB);
    expect(emptied?.problem).toBeNull();
    expect(emptied?.freedBytes.known && emptied.freedBytes.value).toBeGreaterThanOrEqual(2_000_000);
    expect([...readdirSync(one), ...readdirSync(two)]).toEqual([]);
  });

  it('is being emptied from the call on until nothing more is removed, even when nobody waits for that any more', async () => {
    const tmp = join(root, 'tmp');
    mkdirSync(tmp);
    let remove = (): void => undefined;
    const mayRemove = new Promise<void>((resolve) => {
      remove = resolve;
    });
    const slow: CommandRunner = async (command) => {
      await mayRemove;
      return asChild(command);
    };
    const { empty, emptying } = open([tmp], { run: slow, patience: 0.05 });
    const emptied = empty(WEB);
    expect(emptying()).toEqual([AS]);
    expect((await emptied)?.problem).toBe('it takes longer than 8 s and continues');
    expect(emptying()).toEqual([AS]);
    remove();
    await until(clock, () => emptying().length === 0, 10_000);
    expect(emptying()).toEqual([]);
  });

  it('that cannot be emptied is a finding, and a pod without scratch is not affected', async () => {
    mkdirSync(join(root, 'precious'));
    writeFileSync(join(root, 'precious/data'), 'x');
    symlinkSync(join(root, 'precious'), join(root, 'link'));
    const { empty, present } = open([join(root, 'link')]);
    expect((await empty(WEB))?.problem).toContain('is not empty: it, or a directory above it, is a symbolic link');
    expect([...present.values()]).toEqual([expect.stringContaining('default/web was evicted')]);
    expect(readdirSync(join(root, 'precious'))).toEqual(['data']);
    expect(await empty({ ...WEB, uid: 'another' })).toBeNull();
    expect(await open([]).empty(WEB)).toBeNull();
  });

  it.each([
    { how: 'they are emptied', mend: (at: string) => rmSync(join(at, 'data')) },
    { how: 'they are removed', mend: (at: string) => rmSync(at, { recursive: true }) },
  ])('that cannot be emptied is no finding any more once $how by hand', async ({ mend }) => {
    const [real, other, link] = [join(root, 'real'), join(root, 'other'), join(root, 'link')];
    for (const path of [real, other]) mkdirSync(path);
    symlinkSync(real, link);
    writeFileSync(join(real, 'data'), 'x');
    const { empty, present } = open([other, link]);
    await empty(WEB);
    await sleep(clock, 500);
    expect(present.size).toBe(1);
    // The pod runs again, and uses what was emptied.
    writeFileSync(join(other, 'new'), 'x');
    mend(real);
    await until(clock, () => present.size === 0, 10_000);
    expect(present.size).toBe(0);
  });

  it('is said of no pod that is not declared any more', async () => {
    mkdirSync(join(root, 'real'));
    writeFileSync(join(root, 'real/data'), 'x');
    symlinkSync(join(root, 'real'), join(root, 'link'));
    const made = { isDeclared: true };
    const { empty, present } = open([join(root, 'link')], made);
    await empty(WEB);
    expect(present.size).toBe(1);
    made.isDeclared = false;
    await until(clock, () => present.size === 0, 10_000);
    expect(present.size).toBe(0);
  });

  /** Beside the directory of another user, and where the pod's user may put it in its place. */
  function beside(): { readonly web: string; readonly db: string; readonly replace: () => void } {
    const [above, web, db] = [join(root, 'shared'), join(root, 'shared/web'), join(root, 'shared/db')];
    for (const path of [web, db]) mkdirSync(path, { recursive: true });
    writeFileSync(join(db, 'data'), 'x'.repeat(1_000_000));
    writeFileSync(join(web, 'file'), 'x'.repeat(1_000_000));
    chownSync(web, TENANT, TENANT);
    chownSync(db, OTHER, OTHER);
    const replace = (): void => {
      renameSync(web, join(above, 'away'));
      renameSync(db, web);
    };
    return { web, db, replace };
  }

  it('that its user replaced by the directory of another one is left alone, and says that nothing was freed', async () => {
    const { web, replace } = beside();
    chmodSync(join(root, 'shared'), 0o777);
    const { empty, present } = open([web]);
    replace();
    const emptied = await empty(WEB);
    expect(emptied).toMatchObject({
      freedBytes: known(0),
      problem: expect.stringContaining(`chmod go-w ${root}/shared`),
    });
    expect([...present.values()]).toEqual([expect.stringContaining(`${web} was not emptied: ${root}/shared can be`)]);
    expect(readdirSync(web)).toEqual(['data']);
  });

  it.each([
    ['measured', 'another directory is at this path than the one that was measured'],
    ['known to be of another pod', 'it is, or is in, a directory that another pod declares'],
  ])('is left alone if another directory than the one %s is there', async (how, expected) => {
    const { web, db, replace } = beside();
    const { empty, seen } = open([web], { other: [db] });
    const [path, of] = how === 'measured' ? [web, web] : [db, db];
    const { dev, ino } = lstatSync(of);
    seen.note(path, { device: dev, inode: ino });
    replace();
    expect((await empty(WEB))?.problem).toContain(expected);
    expect(readdirSync(web)).toEqual(['data']);
  });

  it.each([
    ['its manifest names another place by now', { boundTo: 'unit before.service' }, {}],
    ['it is not known where it runs', {}, { path: null, cgroup: unknown('absent', 'web', 'podman knows none') }],
    ['its cgroup is not known', {}, { cgroup: unknown('not-asked', 'binding', 'not looked up yet') }],
  ])('is left alone if %s', async (_, victim, made) => {
    const kept = join(root, 'kept');
    mkdirSync(kept);
    writeFileSync(join(kept, 'file'), 'x');
    const { empty, present } = open([kept], made);
    const left = { freedBytes: known(0), problem: expect.stringMatching(/: what is in it stays$/) };
    expect(await empty({ ...WEB, ...victim })).toEqual(left);
    expect(readdirSync(kept)).toEqual(['file']);
    expect([...present]).toEqual([]);
  });

  it('is emptied only once it was seen which directories the pods have, for which it waits a moment', async () => {
    const { web, db, replace } = beside();
    const { dev, ino } = lstatSync(web);
    const { empty, seen } = open([web], {
      other: [db],
      scratchTold: async () => {
        await sleep(clock, 200);
        seen.note(web, { device: dev, inode: ino });
      },
    });
    replace();
    expect((await empty(WEB))?.problem).toContain('another directory is at this path than the one that was measured');
    expect(readdirSync(web)).toEqual(['data']);
    const hung = open([web], { scratchTold: () => new Promise(() => undefined), patience: 1 });
    expect((await hung.empty(WEB))?.problem).toBeNull();
  });

  it('is left as it is if the pod runs again, and says so', async () => {
    const kept = join(root, 'kept');
    mkdirSync(kept);
    writeFileSync(join(kept, 'file'), 'x');
    const cgroup = makeCgroup();
    try {
      await cgroup.run('echo up; exec sleep 1000');
      expect(await open([kept], { path: cgroup.path }).empty(WEB)).toEqual({
        freedBytes: known(0),
        problem: 'the pod runs again: what is left stays',
      });
      expect(readdirSync(kept)).toEqual(['file']);
    } finally {
      await cgroup.remove();
    }
  });

  it('loses what the pod wrote up to its end, but not what it writes when it runs again while that is counted', async () => {
    const tmp = join(root, 'tmp');
    mkdirSync(tmp);
    const cgroup = makeCgroup();
    let runs = 0;
    // It is over again before anybody could see that it ran.
    const again: CommandRunner = (command) => {
      runs += 1;
      execFileSync('sh', ['-c', 'echo x > "$1/new"', 'sh', tmp]);
      return asChild(command);
    };
    try {
      const { empty } = open([tmp], { path: cgroup.path, run: again });
      writeFileSync(join(tmp, 'old'), 'x');
      const emptied = await empty(WEB);
      expect(runs).toBe(1);
      expect(emptied?.problem).toContain('what was created or changed in it after the end of the pod stays');
      expect([existsSync(join(tmp, 'old')), existsSync(join(tmp, 'new'))]).toEqual([false, true]);
    } finally {
      await cgroup.remove();
    }
  });

  it('keeps everything if the pod runs again while it is counted', async () => {
    const tmp = join(root, 'tmp');
    mkdirSync(tmp);
    writeFileSync(join(tmp, 'old'), 'x');
    await sleep(clock, 30);
    const cgroup = makeCgroup();
    const again: CommandRunner = async (command) => {
      await cgroup.run('echo up; exec sleep 1000');
      return asChild(command);
    };
    try {
      const { empty, present } = open([tmp], { path: cgroup.path, run: again });
      expect((await empty(WEB))?.problem).toContain('the pod runs again: nothing in it was removed');
      expect([...present]).toEqual([]);
      expect(readdirSync(tmp)).toEqual(['old']);
    } finally {
      await cgroup.remove();
    }
  });
});
