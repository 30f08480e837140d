import { execFileSync, spawn } from 'node:child_process';
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmdirSync,
  rmSync,
  statSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { known, type Reading, unknown, valueOrNull } from '../../src/core/reading.ts';
import type { CgroupMounts } from '../../src/host/cgroup/cgroup-mounts.ts';
import { refOf } from '../../src/host/cgroup/cgroupfs.ts';
import { maxOpenFiles } from '../../src/host/own/open-files.ts';
import { lifeOf, type PodWalk } from '../../src/observe/pod-disk.ts';
import { createPodReader, type PodReader } from '../../src/observe/usage.ts';
import type { BoundPod, Findings } from '../../src/ports.ts';
import { aBoundPod, aDiskWalk, someFindings, until } from './a-bound-pod.ts';
import { MIB, noCgroups, openTestNode, type TestNode } from './a-node.ts';

let nowMs = 0;
const clock = { monoMs: () => nowMs };
const notWalked = unknown('not-asked', 'disk', 'nobody needed it yet');
let reader: PodReader | null = null;
afterEach(() => {
  reader?.close();
  reader = null;
});

function open(
  mounts: CgroupMounts,
  findings: Findings = someFindings(),
  walk: Reading<PodWalk> = notWalked,
): PodReader {
  reader = createPodReader({ clock, mounts, findings, disk: () => walk });
  return reader;
}
const bound = (name: string, mounts: CgroupMounts, path: string): BoundPod =>
  aBoundPod({ name, cgroup: refOf(mounts, path) });
const names = (of: PodReader, pods: readonly BoundPod[]): string[] =>
  of.read(pods, 'memory.available').map(({ name }) => name);

describe.skipIf(noCgroups !== null)(`pods in real cgroups [${noCgroups ?? 'root, cgroups'}]`, () => {
  let node: TestNode;
  beforeEach(async () => {
    node = await openTestNode(256 * MIB, 50);
  });
  afterEach(async () => {
    await node.remove();
  });

  it('are presented with their working set, and with processes only if requested', async () => {
    const pod = node.addPod('web');
    await pod.start(32 * MIB);
    await pod.start(MIB);
    const web = aBoundPod({ name: 'web', cgroup: known(pod.ref()) });
    const of = open(node.mounts);
    const [byMemory] = of.read([web], 'memory.available');
    const used = byMemory?.usage.workingSetBytes;
    expect(used?.known && used.value > 33 * MIB && used.value < 60 * MIB).toBe(true);
    expect(byMemory?.usage.processes).toMatchObject({ known: false, why: 'not-asked' });
    expect(of.read([web], 'pid.available')[0]?.usage.processes).toEqual(known(2));
    expect(of.read([web], 'all')[0]?.usage.processes).toEqual(known(2));
  });

  it('are presented with their swap only if requested', async () => {
    const pod = node.addPod('web');
    await pod.start(MIB);
    const web = aBoundPod({ name: 'web', cgroup: known(pod.ref()) });
    const of = open(node.mounts);
    const isRead = (want: Parameters<PodReader['read']>[1], isSwapAsked: boolean): boolean => {
      const swap = of.read([web], want, { isSwapAsked })[0]?.usage.swapBytes;
      return swap?.known !== false || swap.why !== 'not-asked';
    };
    expect(isRead('all', false)).toBe(false);
    expect(isRead('memory.available', true)).toBe(false);
    expect(isRead('all', true)).toBe(true);
    expect(isRead('memory.stallFree', true)).toBe(true);
  });

  it('are presented with their unreaped dead processes only while they are being stopped', async () => {
    const pod = node.addPod('web');
    const directories = [node.mounts.memory, node.mounts.pids ?? ''].map((mount) => join(mount, node.path, 'web'));
    const joins = 'for directory in "$@"; do echo $$ >"$directory/cgroup.procs"; done';
    // Who joins ends at once, and its parent, which is outside, never reaps.
    const parent = spawn('sh', ['-c', `sh -c '${joins}' sh "$@" & exec sleep 60`, 'sh', ...directories]);
    const of = open(node.mounts);
    const read = (isTerminating: boolean) =>
      of.read([aBoundPod({ name: 'web', cgroup: known(pod.ref()), isTerminating })], 'pid.available');
    try {
      await until(() => read(true)[0]?.usage.processes.known === true && read(false).length === 0, 'it is dead');
      expect(read(true)[0]?.usage).toMatchObject({ pidsHeld: known(1), processes: known(0) });
    } finally {
      parent.kill('SIGKILL');
    }
    await until(() => read(true).length === 0, 'it is reaped');
  });

  it('are presented with their unreaped dead processes if these are more than a few', async () => {
    const pod = node.addPod('web');
    const child = await pod.start(MIB);
    pod.run(`perl -e 'for (1 .. 20) { fork or exit } sleep 1000' >/dev/null 2>&1 &`);
    const dead = () => open(node.mounts).read([bound('web', node.mounts, pod.ref().path)], 'pid.available')[0]?.usage;
    await until(
      () => dead()?.deadHeld?.known === true && valueOrNull(dead()?.deadHeld ?? notWalked) === 20,
      'they are dead',
    );
    expect(dead()).toMatchObject({ processes: known(2), pidsHeld: known(22) });
    child.kill('SIGKILL');
  });

  it('leave memory that is counted while it is charged to their empty cgroup', async () => {
    const [pod, other] = [node.addPod('web'), node.addPod('other')];
    const child = await pod.start(32 * MIB);
    const of = open(node.mounts);
    const left = (): number => {
      of.read([bound('web', node.mounts, pod.ref().path)], 'memory.available');
      return of.leftBytes();
    };
    expect(left()).toBe(0);
    for (const mount of [node.mounts.memory, node.mounts.pids ?? ''])
      writeFileSync(join(mount, other.ref().path, 'cgroup.procs'), String(child.pid));
    expect(left()).toBeGreaterThanOrEqual(32 * MIB);
    child.kill('SIGKILL');
    await until(() => left() === 0, 'it is free');
  });

  it('leave memory that comes back, if the mode says so: that of files, and only once they have no process', async () => {
    const pod = node.addPod('web');
    const child = await pod.start(MIB);
    const file = join('/dev/shm', `nodewarden-test-${process.pid}`);
    onTestFinished(() => rmSync(file, { force: true }));
    pod.run(`head -c ${32 * MIB} /dev/zero > ${file}`);
    const web = bound('web', node.mounts, pod.ref().path);
    const of = open(node.mounts);
    const left = (comesBack?: true) => {
      of.read([comesBack ? { ...web, comesBack } : web], 'memory.available');
      return { left: of.leftBytes() >= 32 * MIB, back: of.comesBack().map(({ uid }) => uid) };
    };
    expect(left(true)).toEqual({ left: false, back: [] });
    child.kill('SIGKILL');
    await until(() => left().left, 'it has no process');
    expect(left(true)).toEqual({ left: false, back: [web.declared.uid] });
    expect(of.comesBack()[0]?.memoryBytes).toBeGreaterThanOrEqual(32 * MIB);
    rmSync(file);
    await until(() => left(true).back.length === 0, 'it is free');
  });

  it('without processes show the files that go with them, if they are being removed and name no directories', () => {
    const walk = aDiskWalk(5 * MIB);
    const of = open(node.mounts, someFindings(), known({ ...walk, life: null, stops: 0 }));
    const gone = aBoundPod({ name: 'gone', isTerminating: true });
    const back = (pod: BoundPod, want: 'nodefs.available' | 'memory.available') => {
      of.read([pod], want);
      return of.comesBack();
    };
    const { uid } = gone.declared;
    expect(back(gone, 'nodefs.available')).toEqual([{ uid, memoryBytes: 0, disk: walk.pod }]);
    expect(back(gone, 'memory.available')).toEqual([]);
    expect(back(aBoundPod({ name: 'pending' }), 'nodefs.available')).toEqual([]);
    expect(back({ ...gone, directories: [] }, 'nodefs.available')).toEqual([]);
  });

  it('are no candidates if they are empty, gone, replaced or bound to nothing', async () => {
    const full = node.addPod('full');
    const empty = node.addPod('empty');
    const gone = node.addPod('gone');
    const replaced = node.addPod('replaced');
    const [child] = [await full.start(MIB), await replaced.start(MIB)];
    const pods = [full, empty, gone, replaced].map((pod, i) =>
      aBoundPod({ name: `pod-${i}`, cgroup: known(pod.ref()) }),
    );
    pods.push(aBoundPod({ name: 'unbound' }));
    const of = open(node.mounts);
    expect(names(of, pods)).toEqual(['pod-0', 'pod-3']);
    rmdirSync(gone.directory);
    const old = pods[3]?.cgroup;
    if (old?.known) pods[3] = aBoundPod({ name: 'pod-3', cgroup: known({ ...old.value, inode: old.value.inode + 1 }) });
    expect(names(of, pods)).toEqual(['pod-0']);
    child?.kill('SIGKILL');
    while (names(of, pods).length > 0) await new Promise((resolve) => setTimeout(resolve, 5));
  });

  it('are only part of a shutdown, without figures, if they cannot be measured', () => {
    const unseen = { ...aBoundPod({ name: 'unseen' }), isIdle: true, isUnseen: true } as const;
    const of = open(node.mounts);
    expect(of.read([unseen], 'memory.available')).toEqual([]);
    const [view] = of.read([unseen], 'all');
    expect(view?.limitedBy).toBe('not-stoppable');
    expect(view?.usage).toMatchObject({ workingSetBytes: { known: false }, processes: { known: false } });
  });

  it('show their containers, each with its own working set', async () => {
    const pod = node.addPod('web');
    const main = node.addPod('web/main');
    await main.start(16 * MIB);
    const web = aBoundPod({
      name: 'web',
      cgroup: known(pod.ref()),
      boundContainers: [
        { name: 'main', cgroup: known(main.ref()) },
        { name: 'whole', cgroup: known(pod.ref()) },
        { name: 'ended', cgroup: unknown('absent', '/web/ended', 'gone') },
      ],
    });
    const [view] = open(node.mounts).read([web], 'memory.available');
    const containers = view?.usage.containers;
    if (!containers?.known) throw new Error('no containers');
    const bytes = containers.value.map(({ workingSetBytes }) => workingSetBytes.known && workingSetBytes.value);
    expect(bytes[0] !== false && bytes[0] !== undefined && bytes[0] > 16 * MIB).toBe(true);
    expect(known(bytes[1])).toEqual(view?.usage.workingSetBytes);
    expect(bytes[2]).toBe(false);
    expect(containers.value[0]?.logsBytes).toEqual(notWalked);
  });
});

/** A tree of plain files, laid out as version 1: for faults that a kernel does not show on demand. */
describe('pods in a tree of files', () => {
  let root: string;
  let mounts: CgroupMounts;
  beforeEach(() => {
    root = mkdtempSync(join(tmpdir(), 'nodewarden-usage-'));
    mounts = { layout: 'v1', version: 1, unified: null, memory: root, pids: null, systemd: null };
  });
  afterEach(() => {
    rmSync(root, { recursive: true, force: true });
  });
  function write(name: string, usageBytes: number, inactiveBytes: number): void {
    mkdirSync(join(root, name), { recursive: true });
    writeFileSync(join(root, name, 'cgroup.procs'), '4242\n');
    writeFileSync(join(root, name, 'memory.usage_in_bytes'), `${usageBytes}\n`);
    writeFileSync(join(root, name, 'memory.stat'), `total_inactive_file ${inactiveBytes}\n`);
  }

  it('have usage minus inactive file pages as working set', () => {
    write('web', 1_000, 300);
    const [view] = open(mounts).read([bound('web', mounts, '/web')], 'memory.available');
    expect(view?.usage.workingSetBytes).toEqual(known(700));
  });

  it('are presented with their last known usage for a second if they cannot be read', () => {
    write('web', 1_000, 300);
    const pods = [bound('web', mounts, '/web')];
    const of = open(mounts);
    of.read(pods, 'memory.available');
    reader?.close();
    writeFileSync(join(root, 'web/memory.usage_in_bytes'), 'garbage\n');
    nowMs += 500;
    expect(of.read(pods, 'memory.available')[0]?.usage.workingSetBytes).toEqual(known(700));
    nowMs += 500;
    expect(of.read(pods, 'memory.available')[0]?.usage.workingSetBytes).toEqual(known(700));
    // By then it may use anything.
    nowMs += 1;
    expect(of.read(pods, 'memory.available')[0]?.usage.workingSetBytes).toMatchObject({ why: 'malformed' });
  });

  it('are read where their cgroup was renamed to since they were found', () => {
    write('web', 1_000, 300);
    const web = bound('web', mounts, '/web');
    renameSync(join(root, 'web'), join(root, 'other'));
    expect(open(mounts).read([web], 'memory.available')[0]?.usage.workingSetBytes).toEqual(known(700));
  });

  it('have no last known usage from another cgroup that had their path', () => {
    write('web', 1_000, 300);
    const of = open(mounts);
    of.read([bound('web', mounts, '/web')], 'memory.available');
    renameSync(join(root, 'web'), join(root, 'other'));
    write('web', 1_000, 300);
    writeFileSync(join(root, 'web/memory.usage_in_bytes'), 'garbage\n');
    const [view] = of.read([bound('web', mounts, '/web')], 'memory.available');
    expect(view?.usage.workingSetBytes).toMatchObject({ known: false, why: 'malformed' });
    expect(view).toMatchObject({ cgroupInode: statSync(join(root, 'web')).ino, cgroupPath: '/web' });
  });

  it('are presented as unknown with a finding if they could never be read, until they can', () => {
    write('web', 1_000, 300);
    write('db', 2_000, 0);
    write('api', 3_000, 0);
    for (const name of ['web', 'api']) writeFileSync(join(root, name, 'memory.usage_in_bytes'), '');
    const pods = ['web', 'db', 'api'].map((name) => bound(name, mounts, `/${name}`));
    const findings = someFindings();
    const of = open(mounts, findings);
    const used = () => of.read(pods, 'memory.available').map(({ usage }) => usage.workingSetBytes);
    const where = `${root}/web/memory.usage_in_bytes`;
    expect(used()).toMatchObject([{ why: 'malformed', where }, known(2_000), { known: false }]);
    expect(findings.all()).toEqual([
      {
        id: 'pods-unreadable',
        text: `default/web and 1 more cannot be fully measured: ${where}: empty`,
      },
    ]);
    for (const name of ['web', 'api']) write(name, 1_000, 300);
    expect(used()).toEqual([known(700), known(2_000), known(700)]);
    expect(findings.all()).toEqual([]);
    unlinkSync(where);
    of.close();
    const [missing] = open(mounts, findings).read(pods, 'memory.available');
    expect(missing?.usage.workingSetBytes).toMatchObject({ known: false, why: 'unreadable' });
    writeFileSync(join(root, 'web/cgroup.procs'), '');
    expect(names(of, pods)).toEqual(['db', 'api']);
  });

  it('are presented as maybe empty, with a finding, if it is unknown whether they have processes', () => {
    write('web', 1_000, 300);
    const pods = [bound('web', mounts, '/web')];
    const findings = someFindings();
    const of = open(mounts, findings);
    of.read(pods, 'memory.available');
    unlinkSync(join(root, 'web/cgroup.procs'));
    mkdirSync(join(root, 'web/cgroup.procs'));
    const view = () => of.read(pods, 'memory.available')[0];
    expect(view()).toMatchObject({ limitedBy: 'maybe-empty', usage: { workingSetBytes: known(700) } });
    reader?.close();
    writeFileSync(join(root, 'web/memory.usage_in_bytes'), 'garbage\n');
    expect(view()).toMatchObject({ limitedBy: 'maybe-empty', usage: { workingSetBytes: { why: 'malformed' } } });
    expect(findings.all()).toHaveLength(1);
  });

  it('are presented as maybe empty, with nothing known of them, if nobody has said where they run', () => {
    const cgroup = unknown('not-asked', 'binding', 'not looked up yet');
    const findings = someFindings();
    const of = open(mounts, findings);
    const pods = [{ ...aBoundPod({ name: 'web', cgroup }), isUnlocated: true as const }];
    for (const want of ['memory.available', 'pid.available', 'all'] as const) {
      const unreadable = { known: false, why: 'unreadable' };
      expect(of.read(pods, want)).toMatchObject([
        { limitedBy: 'maybe-empty', usage: { workingSetBytes: unreadable, processes: unreadable } },
      ]);
    }
    expect(findings.all()).toEqual([]);
    expect(of.read([aBoundPod({ name: 'web', cgroup })], 'memory.available')).toEqual([]);
  });

  it('have no last known usage that is within their request: since then, they may have exceeded it', () => {
    write('web', 1_000, 300);
    const requests = { memoryBytes: 700, ephemeralStorageBytes: 0 };
    const pods = [aBoundPod({ name: 'web', cgroup: refOf(mounts, '/web'), requests })];
    const of = open(mounts);
    of.read(pods, 'memory.available');
    reader?.close();
    writeFileSync(join(root, 'web/memory.usage_in_bytes'), 'garbage\n');
    expect(of.read(pods, 'memory.available')[0]?.usage.workingSetBytes).toMatchObject({ why: 'malformed' });
  });

  it('are all read if only a few more files may be opened than are open, and what is kept is given up for that', () => {
    const all = Array.from({ length: 30 }, (_, i) => `pod-${i}`);
    for (const name of all) write(name, 1_000, 300);
    const findings = someFindings();
    const of = open(mounts, findings);
    const pods = all.map((name) => bound(name, mounts, `/${name}`));
    const limit = (files: number | string): void => {
      execFileSync('prlimit', ['--pid', String(process.pid), `--nofile=${files}:`]);
    };
    const before = maxOpenFiles();
    limit(readdirSync('/proc/self/fd').length + 24);
    try {
      for (let look = 0; look < 3; look++) {
        expect(of.read(pods, 'memory.available').map(({ usage }) => usage.workingSetBytes)).toEqual(
          all.map(() => known(700)),
        );
      }
      expect(findings.all()).toEqual([]);
    } finally {
      limit(before);
    }
  });

  it('are a finding in a choice for disk while theirs cannot be measured, and no less a part of it', () => {
    write('web', 1_000, 300);
    const findings = someFindings();
    const disk = () => unknown('timed-out', 'disk', 'a walk hangs');
    reader = createPodReader({ clock, mounts, findings, disk });
    const pods = [{ ...bound('web', mounts, '/web'), directories: ['/srv/web'] }];
    expect(reader.read(pods, 'nodefs.available')).toMatchObject([{ usage: { disk: { why: 'timed-out' } } }]);
    expect(findings.all()).toHaveLength(1);
    expect(reader.read(pods, 'memory.available')).toHaveLength(1);
    expect(findings.all()).toEqual([]);
  });

  it('that started after the last round do not make a choice for disk wait for the next one', () => {
    write('web', 1_000, 300);
    const notYet = unknown('not-asked', 'disk', 'it has not been needed yet');
    const nothing = { bytes: notYet, inodes: notYet };
    const relief = { scratch: nothing, deletedOpen: nothing, grownLastMinute: nothing, writtenBytes: notYet };
    const diskOn = () => ({ usage: notYet, relief });
    reader = createPodReader({ clock, mounts, findings: someFindings(), disk: () => notYet, diskOn });
    const pods = [{ ...bound('web', mounts, '/web'), directories: ['/srv/web'] }];
    for (const device of [known(41), unknown('timed-out', 'statfs', 'it hangs')]) {
      const [view] = reader.read(pods, 'nodefs.available', { device });
      expect(view?.usage.disk).toMatchObject({ known: false, why: 'timed-out' });
    }
  });

  it.each([
    ['was not reached in time', unknown('timed-out', 'disk', 'a walk hangs')],
    ['started after the last round', unknown('not-asked', 'disk', 'it has not been needed yet')],
  ])('that go with all that they have free at least nothing if their disk %s', (_, unwalked) => {
    write('web', 1_000, 300);
    const of = open(mounts, someFindings(), unwalked);
    const fileSystem = { role: 'nodefs', layout: 'nodefs-only' } as const;
    const [view] = of.read([bound('web', mounts, '/web')], 'nodefs.available', { fileSystem });
    expect(view?.usage.disk).toMatchObject({ known: false, why: 'timed-out' });
    const nothing = { bytes: known(0), inodes: known(0) };
    expect(view?.diskRelief).toMatchObject({ value: { scratch: nothing, isAtLeast: true } });
  });

  it.each([
    ['nodefs', 'nodefs-only', 111],
    ['nodefs', 'imagefs-separate', 11],
    ['imagefs', 'imagefs-separate', 100],
    ['imagefs', 'containerfs-separate', 0],
  ] as const)('free on %s, %s, what they have there', (role, layout, bytes) => {
    write('web', 1_000, 300);
    const { pod, ...walk } = aDiskWalk(10);
    const partly = { ...pod, logsBytes: 1, rootfsBytes: 100, isAtLeast: true as const };
    const of = open(mounts, someFindings(), known({ ...walk, pod: partly, life: null, stops: 0 }));
    const pods = [bound('web', mounts, '/web')];
    const [view] = of.read(pods, `${role}.available`, { fileSystem: { role, layout } });
    expect(view?.diskRelief).toMatchObject({ value: { scratch: { bytes: known(bytes) }, isAtLeast: true } });
  });

  it('count without a process only for a disk, and only while their service is about to be started again', () => {
    const pod = { ...bound('web', mounts, '/web'), directories: ['/srv/web'], isBetweenRuns: true } as const;
    const walk = known({ ...aDiskWalk(5_000), life: null, stops: 0 });
    const of = open(mounts, someFindings(), walk);
    const [view] = of.read([pod], 'nodefs.available');
    expect(view).toMatchObject({
      isBetweenRuns: true,
      limitedBy: null,
      usage: { disk: known(walk.known && walk.value.pod) },
    });
    // A limit evicts only for what is proven about a run.
    expect(view?.usage.ephemeralStorageBytes).toMatchObject({ known: false, why: 'stale' });
    const { isBetweenRuns: _, ...down } = pod;
    expect([of.read([pod], 'memory.available'), of.read([pod], 'all'), of.read([down], 'nodefs.available')]).toEqual([
      [],
      [],
      [],
    ]);
  });

  it('have the last walk of their directories', () => {
    write('web', 1_000, 300);
    const pod = bound('web', mounts, '/web');
    const walk = known({
      ...aDiskWalk(5_000),
      volumes: [{ name: 'data', usedBytes: known(5_000) }],
      life: lifeOf(pod),
      stops: 0,
    });
    reader = createPodReader({ clock, mounts, findings: someFindings(), disk: () => walk });
    const [view] = reader.read([pod], 'nodefs.available');
    expect(view?.usage).toMatchObject({
      disk: known(walk.known && walk.value.pod),
      ephemeralStorageBytes: known(5_000),
      volumes: known([{ name: 'data', usedBytes: known(5_000) }]),
    });
  });

  it('cost three descriptors each while they are read, and none once they are gone', () => {
    const pods: BoundPod[] = [];
    for (let i = 0; i < 400; i++) {
      write(`pod-${i}`, 1_000 + i, 0);
      pods.push(bound(`pod-${i}`, mounts, `/pod-${i}`));
    }
    const before = descriptors();
    const of = open(mounts);
    const used = of.read(pods, 'memory.available').map(({ usage }) => usage.workingSetBytes);
    expect(used).toEqual(pods.map((_, i) => known(1_000 + i)));
    expect(descriptors() - before).toBe(1_200);
    of.read([], 'memory.available');
    of.read([], 'memory.available');
    expect(descriptors()).toBe(before);
  });
});

const descriptors = (): number => readdirSync('/proc/self/fd').length;
