import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { known, type Reading, unknown } from '../../src/core/reading.ts';
import type { CgroupMounts } from '../../src/host/cgroup-mounts.ts';
import { createClock } from '../../src/host/clock.ts';
import { createDiskWalker, type DiskWalker } from '../../src/host/disk-walk.ts';
import { run } from '../../src/host/exec.ts';
import type { CgroupRef } from '../../src/ports.ts';
import { type ManifestPod, parseManifest } from '../../src/standalone/manifest.ts';
import { createScratch, createScratchPlaces, withSafeScratch } from '../../src/standalone/scratch.ts';
import { heardParts } from './needs.ts';

function podOf(name: string, annotations: readonly string[]): ManifestPod {
  const text = `apiVersion: v1
kind: Pod
metadata:
  name: ${name}
  annotations:
    nodewarden.dev/cgroup: ${name}
${annotations.map((line) => `    nodewarden.dev/${line}\n`).join('')}spec: { containers: [{ name: a }] }
`;
  const { pods, problems } = parseManifest(text, `${name}.yaml`);
  const [pod] = pods;
  if (pod === undefined || problems.length > 0) throw new Error(JSON.stringify(problems));
  return pod;
}

describe('the scratch directories of a manifest', () => {
  it.each([
    ['/srv', '/srv may hold more'],
    ['/var/lib', '/var/lib may hold more'],
    ['/home/web', '/home/web may hold more'],
    ['/usr/local/web/tmp', '/usr belongs to the system'],
    ['/etc/web', '/etc belongs to the system'],
    ['srv/web', 'must be absolute'],
    ['/srv/web/../../etc', 'must not contain ..'],
    ['//', 'the whole file system'],
  ])("are refused if they may contain more than this pod's data: %s", (path, expected) => {
    expect(() => podOf('web', [`scratch: ${path}`])).toThrow(expected);
  });

  it('are refused if they would empty what `disk` names, but not the other way round', () => {
    expect(() => podOf('web', ['disk: /srv/web/data', 'scratch: /srv/web'])).toThrow('would empty /srv/web/data');
    const pod = podOf('web', ['disk: /srv/web', 'scratch: "/srv/web/tmp/, /var/cache/./web"']);
    expect(pod).toMatchObject({ disk: ['/srv/web'], scratch: ['/srv/web/tmp', '/var/cache/web'] });
  });

  it('are left out, with a finding, if a directory of another pod or nodewarden overlaps', () => {
    const web = podOf('web', ['scratch: "/srv/shared/tmp,/srv/web/tmp,/var/lib/nodewarden"']);
    const { pods, refused } = withSafeScratch([web, podOf('db', ['disk: /srv/shared'])], ['/var/lib/nodewarden']);
    expect(pods[0]?.scratch).toEqual(['/srv/web/tmp']);
    expect(refused.map(({ text }) => text)).toEqual([
      expect.stringContaining('/srv/shared/tmp is never emptied: it overlaps with /srv/shared of default/db'),
      expect.stringContaining('/var/lib/nodewarden of nodewarden itself'),
    ]);
  });
});

describe('scratch directories that would not be emptied', () => {
  let root: string;
  beforeEach(() => {
    root = mkdtempSync(join(tmpdir(), 'nodewarden-scratch-'));
    mkdirSync(join(root, 'real/tmp'), { recursive: true });
  });
  afterEach(() => rmSync(root, { recursive: true, force: true }));

  it('are reported with file and line when the manifest is read, until they can be emptied', async () => {
    const { findings, present } = heardParts();
    const tell = createScratchPlaces(findings);
    const told = (): readonly string[] => [...present.values()];
    symlinkSync(join(root, 'real'), join(root, 'link'));
    writeFileSync(join(root, 'real/file'), '');
    const paths = ['real/tmp', 'link/tmp', 'real/file', 'gone'].map((name) => join(root, name));
    const pod = podOf('web', [`scratch: "${paths.join(',')}"`]);
    tell([pod]);
    await expect.poll(told).toHaveLength(1);
    expect(told()[0]).toMatch(/^web\.yaml:\d+/);
    expect(told()[0]).toContain(`${root}/link/tmp would not be emptied: ${root}/link is a symbolic link`);
    expect(told()[0]).toContain(`${root}/real/file would not be emptied: it is no directory`);
    expect(told()[0]).not.toContain('gone');
    rmSync(join(root, 'link'));
    rmSync(join(root, 'real/file'));
    tell([pod]);
    await expect.poll(told).toEqual([]);
  });

  it.skipIf(process.getuid?.() !== 0)('are those with a mount at or below them [needs root]', async () => {
    const { findings, present } = heardParts();
    execFileSync('mount', ['-t', 'tmpfs', 'nodewarden-test', join(root, 'real/tmp')]);
    try {
      const places = `scratch: "${join(root, 'real')}"`;
      createScratchPlaces(findings)([podOf('web', [places]), podOf('db', [`scratch: "${join(root, 'real/tmp')}"`])]);
      await expect.poll(() => present.size).toBe(2);
      expect([...present.values()]).toEqual([
        expect.stringContaining(`a file system is mounted at ${root}/real/tmp`),
        expect.stringContaining('a file system is mounted at it'),
      ]);
    } finally {
      execFileSync('umount', [join(root, 'real/tmp')]);
    }
  });
});

describe('scratch of a dead pod', () => {
  let root: string;
  let walker: DiskWalker;
  const clock = createClock();
  beforeEach(() => {
    root = mkdtempSync(join(tmpdir(), 'nodewarden-scratch-'));
    walker = createDiskWalker(clock);
  });
  afterEach(() => {
    walker.close();
    rmSync(root, { recursive: true, force: true });
  });
  /** A cgroup in plain files, as version 1 lays it out. */
  const mounts = (): CgroupMounts => ({
    layout: 'v1',
    version: 1,
    unified: null,
    memory: root,
    pids: null,
    systemd: null,
  });
  function open(
    scratch: readonly string[],
    cgroup: Reading<CgroupRef> = unknown('absent', 'web', 'it is not running'),
  ) {
    const heard = heardParts();
    const manifest: ManifestPod = { ...podOf('web', []), scratch };
    const command = ({ argv, timeoutMs, stdin = '' }: { argv: readonly string[]; timeoutMs: number; stdin?: string }) =>
      run(argv, { timeoutMs, stdin, maxOutputBytes: 1_000 });
    const find = (uid: string) => (uid === 'uid' ? { manifest, cgroup } : null);
    // A busy machine has the time to count: how long that may take is not what is tested.
    const patient = { ...clock, after: (ms: number, run: () => void) => clock.after(ms * 50, run) };
    const needs = { clock: patient, mounts: mounts(), run: command, walker, findings: heard.findings, find };
    return { ...createScratch(needs), present: heard.present };
  }

  it('is emptied, and reports how much that freed', async () => {
    const [one, two] = [join(root, 'one'), join(root, 'two')];
    for (const path of [one, two]) {
      mkdirSync(path);
      writeFileSync(join(path, 'file'), 'x'.repeat(1_000_000));
    }
    const emptied = await open([one, two, join(root, 'gone')]).empty('uid');
    expect(emptied?.problem).toBeNull();
    expect(emptied?.freedBytes.known && emptied.freedBytes.value).toBeGreaterThanOrEqual(2_000_000);
    expect([...readdirSync(one), ...readdirSync(two)]).toEqual([]);
  });

  it('that cannot be emptied is a finding, and a pod without scratch is not affected', async () => {
    mkdirSync(join(root, 'precious'));
    writeFileSync(join(root, 'precious/data'), 'x');
    symlinkSync(join(root, 'precious'), join(root, 'link'));
    const { empty, present } = open([join(root, 'link')]);
    expect((await empty('uid'))?.problem).toContain('is not empty: it, or a directory above it, is a symbolic link');
    expect([...present.values()]).toEqual([expect.stringContaining('default/web was evicted')]);
    expect(readdirSync(join(root, 'precious'))).toEqual(['data']);
    expect(await empty('another')).toBeNull();
    expect(await open([]).empty('uid')).toBeNull();
  });

  it('is left as it is if the pod runs again', async () => {
    const kept = join(root, 'kept');
    mkdirSync(kept);
    writeFileSync(join(kept, 'file'), 'x');
    mkdirSync(join(root, 'cgroup'));
    writeFileSync(join(root, 'cgroup/cgroup.procs'), '4242\n');
    const cgroup = known({ path: '/cgroup', inode: statSync(join(root, 'cgroup')).ino });
    expect((await open([kept], cgroup).empty('uid'))?.problem).toContain('the pod runs again');
    expect(readdirSync(kept)).toEqual(['file']);
  });
});
