import { execFileSync } from 'node:child_process';
import {
  appendFileSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createClock, momentNow, sleep } from '../../src/host/clock.ts';
import { makeCgroup, mounts, needsCgroups, type TestCgroup } from '../act/a-cgroup.ts';
import { empty } from './an-emptying.ts';

const isRoot = process.getuid?.() === 0;
const clock = createClock();
const SETTLE_MS = 30;
const HOUR_MS = 3_600_000;
const STAYS = 'is not empty: what was created or changed in it after the end of the pod stays';

let root: string;
let scratch: string;
const at = (name: string): string => join(scratch, name);
const left = (): readonly string[] => readdirSync(scratch, { recursive: true, encoding: 'utf8' }).toSorted();
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'nodewarden-again-'));
  scratch = join(root, 'tmp');
  mkdirSync(scratch);
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

describe.skipIf(!isRoot)('emptying the scratch directory of a pod that may run again [needs root]', () => {
  it('leaves what was created or changed since the end of the pod, and nothing else', async () => {
    for (const name of ['old', 'old/deep', 'both', 'renamed']) mkdirSync(at(name));
    for (const name of ['a', 'changed', 'old/b', 'old/deep/c', 'both/d', 'renamed/e']) writeFileSync(at(name), 'x');
    await sleep(clock, SETTLE_MS);
    const end = momentNow();
    for (const name of ['new', 'both/new']) writeFileSync(at(name), 'x');
    appendFileSync(at('changed'), 'x');
    renameSync(at('renamed'), at('other'));
    expect(await empty(scratch, { end })).toBe(`${scratch} ${STAYS}`);
    expect(left()).toEqual(['both', 'both/new', 'changed', 'new', 'other']);
  });

  it('leaves it also if the clock was set back meanwhile, so that what is new looks older', async () => {
    writeFileSync(at('old'), 'x');
    const { wallMs, awakeMs } = momentNow();
    writeFileSync(at('new'), 'x');
    expect(await empty(scratch, { end: { wallMs: wallMs + HOUR_MS, awakeMs } })).toBe(`${scratch} ${STAYS}`);
    expect(left()).toContain('new');
  });

  it('removes what has several names', async () => {
    mkdirSync(at('d'));
    writeFileSync(at('one'), 'x');
    for (const name of ['two', 'three', 'd/four']) linkSync(at('one'), at(name));
    linkSync(at('one'), join(root, 'elsewhere'));
    expect(await empty(scratch)).toBeNull();
    expect(left()).toEqual([]);
  });

  it('removes directories deeper than any path, and more than it remembers', { timeout: 60_000 }, async () => {
    execFileSync('mount', ['-t', 'tmpfs', 'nodewarden-test', root]);
    try {
      mkdirSync(scratch);
      const make = 'for (1 .. 55_000) { mkdir "d$_" } for (1 .. 1_000) { mkdir "deep" x 20; chdir "deep" x 20 }';
      execFileSync('perl', ['-e', make], { cwd: scratch });
      expect(await empty(scratch)).toBeNull();
      expect(readdirSync(scratch)).toEqual([]);
    } finally {
      execFileSync('umount', ['-l', root]);
    }
  });
});

describe.skipIf(needsCgroups !== '')(`emptying the scratch directory of a pod that runs again ${needsCgroups}`, () => {
  let cgroup: TestCgroup;
  beforeEach(() => {
    cgroup = makeCgroup();
  });
  afterEach(() => cgroup.remove());
  const directory = (): string => `${mounts?.memory}${cgroup.path}`;

  it.each(['in its cgroup', 'below it'])('does not begin: a process is %s', async (where) => {
    writeFileSync(at('old'), 'x');
    if (where === 'below it') await cgroup.child('below');
    else await cgroup.run('echo up; exec sleep 1000');
    expect(await empty(scratch, { cgroup: directory() })).toBe(
      `${scratch} is not empty: the pod runs again: nothing in it was removed`,
    );
    expect(left()).toEqual(['old']);
  });

  it('stops, and says so', async () => {
    const make = `for my $d (1 .. 100) { mkdir $d; for (1 .. 400) { open my $f, ">", "$d/$_" or die } }`;
    execFileSync('perl', ['-e', make], { cwd: scratch });
    const emptied = empty(scratch, { cgroup: directory() });
    while (readdirSync(scratch).length === 100) await sleep(clock, 1);
    const leave = cgroup.enter(process.pid);
    try {
      expect(await emptied).toBe(`${scratch} is not empty: the pod runs again: what is left stays`);
    } finally {
      leave();
    }
    expect(left().length).toBeGreaterThan(0);
    expect(await empty(scratch, { cgroup: directory() })).toBeNull();
  });
});
