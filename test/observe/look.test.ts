import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { reliefOf } from '../../src/core/eviction/relief.ts';
import type { Emptying } from '../../src/core/observation.ts';
import { known, unknown } from '../../src/core/reading.ts';
import { refOf } from '../../src/host/cgroup/cgroupfs.ts';
import { createClock } from '../../src/host/clock.ts';
import { createObserver, type ObserverNeeds, type OpenObserver } from '../../src/observe/look.ts';
import type { BoundPod, Clock } from '../../src/ports.ts';
import { aBoundPod, aDiskWalk, someFindings, until } from './a-bound-pod.ts';
import { MIB, noCgroups, openTestNode, realMounts, type TestNode } from './a-node.ts';

const needs = noCgroups === null ? 'root, cgroups' : noCgroups;
const real = createClock();
const nothing = { outcomes: [], events: [] };
const quiet = { afterMs: 10_000, pods: null } as const;
const askFor = (pods: 'memory.available' | 'nodefs.available' | 'all') => ({ afterMs: 0, pods });
const opened: OpenObserver[] = [];
let disk: string;
let aheadMs = 0;
/** Real time that a test may move forward. */
const clock: Clock = { ...real, monoMs: () => real.monoMs() + aheadMs };

beforeEach(() => {
  disk = mkdtempSync(join(tmpdir(), 'nodewarden-look-'));
});
afterEach(() => {
  for (const observer of opened.splice(0)) observer.close();
  rmSync(disk, { recursive: true, force: true });
});

function open(overrides: Partial<ObserverNeeds>): OpenObserver {
  const observer = createObserver({
    clock,
    mounts: overrides.mounts ?? realMounts(),
    cgroupRoot: '/',
    nodefsPath: disk,
    imagefsPath: null,
    containerfsPath: null,
    memoryAvailable: 'workingSet',
    evictionStall: null,
    isSwapCounted: () => false,
    pods: () => known([]),
    followPods: () => undefined,
    findings: someFindings(),
    wake: () => undefined,
    ...overrides,
  });
  opened.push(observer);
  return observer;
}

it('a look says what is being emptied now', () => {
  const one = { of: 'a-1', signal: 'nodefs.available' } as const;
  const emptying: Emptying[] = [one];
  const { look } = open({ emptying: () => emptying });
  expect(look(quiet, nothing).emptying).toEqual([one]);
  emptying.pop();
  expect(look(quiet, nothing)).not.toHaveProperty('emptying');
});

describe('a look without sources', () => {
  it('never throws: every signal is unknown with its reason', async () => {
    const memory = join(disk, 'missing');
    const mounts = { layout: 'v1', version: 1, unified: null, memory, pids: memory, systemd: null } as const;
    const pods = () => unknown('stale', 'pods.d', 'not read yet');
    const observer = open({ mounts, cgroupRoot: '/node', nodefsPath: memory, pods });
    observer.look(quiet, nothing);
    await observer.reread('nodefs.available');
    const { signals, pods: seen } = observer.look(askFor('memory.available'), nothing);
    expect(signals['memory.available']).toMatchObject({ why: 'absent', where: `${memory}/node/memory.limit_in_bytes` });
    expect(signals['allocatableMemory.available']).toMatchObject({ why: 'not-applicable' });
    expect(signals['nodefs.available']).toMatchObject({ why: 'absent', where: `statfs ${memory}` });
    expect(signals['imagefs.inodesFree']).toMatchObject({ why: 'not-applicable' });
    // Without a cgroup of its own the node is the machine.
    expect(signals['pid.available']).toMatchObject({ known: true });
    expect(seen).toEqual(pods());
    expect(observer.podsNow()).toEqual(pods());
    expect(observer.memoryFacts().reclaimableAvailableBytes).toMatchObject({ why: 'absent' });
  });
});

describe('a look after the pressure', () => {
  it('reads pods that could not be measured again after a minute, and ends the finding if they can', () => {
    const mounts = { layout: 'v1', version: 1, unified: null, memory: disk, pids: null, systemd: null } as const;
    const cgroup = join(disk, 'web');
    mkdirSync(cgroup);
    writeFileSync(join(cgroup, 'cgroup.procs'), `${process.pid}\n`);
    writeFileSync(join(cgroup, 'memory.usage_in_bytes'), '');
    writeFileSync(join(cgroup, 'memory.stat'), 'total_inactive_file 0\n');
    const ref = refOf(mounts, '/web');
    const findings = someFindings();
    const pods = () => known([aBoundPod({ name: 'web', cgroup: ref })]);
    const observer = open({ mounts, pods, findings });
    const isFound = (): boolean => findings.all().some(({ id }) => id === 'pods-unreadable');
    observer.look(askFor('memory.available'), nothing);
    expect(isFound()).toBe(true);
    aheadMs += 61_000;
    expect(observer.look(quiet, nothing).pods).toMatchObject({ why: 'not-asked' });
    expect(isFound()).toBe(true);
    writeFileSync(join(cgroup, 'memory.usage_in_bytes'), '1000\n');
    observer.look(quiet, nothing);
    expect(isFound()).toBe(true);
    aheadMs += 61_000;
    expect(observer.look(quiet, nothing).pods).toMatchObject({ why: 'not-asked' });
    expect(isFound()).toBe(false);
  });
});

describe.skipIf(noCgroups !== null)(`a look at the machine [${needs}]`, () => {
  it('reads memory, pids and pressure now, and has no pods', () => {
    const observer = open({});
    const { atMs, signals, pods, psi, cpuMs } = observer.look(quiet, nothing);
    const memTotal = Number(/MemTotal: +(\d+) kB/.exec(readFileSync('/proc/meminfo', 'latin1'))?.[1]) * 1024;
    expect(signals['memory.available']).toMatchObject({
      known: true,
      value: { capacity: memTotal, sampledAtMs: atMs },
    });
    const pidMax = Number(readFileSync('/proc/sys/kernel/pid_max', 'latin1'));
    const threadsMax = Number(readFileSync('/proc/sys/kernel/threads-max', 'latin1'));
    const tasks = Number(readFileSync('/proc/loadavg', 'latin1').split(/[ /]/)[4]);
    const pid = signals['pid.available'];
    expect(pid).toMatchObject({ known: true, value: { capacity: Math.min(pidMax, threadsMax) } });
    if (pid.known) expect(Math.abs(pid.value.capacity - tasks - pid.value.available)).toBeLessThan(100);
    expect(signals['allocatableMemory.available']).toMatchObject({ known: false, why: 'not-applicable' });
    expect(pods).toMatchObject({ known: false, why: 'not-asked' });
    expect(cpuMs).toBeGreaterThan(0);
    expect(psi.memory.known || psi.memory.why === 'absent').toBe(true);
  });

  it('costs nothing per pod while none are requested: a thousand bound pods are not even listed', () => {
    let listed = 0;
    const thousand = Array.from({ length: 1_000 }, (_, i) => aBoundPod({ name: `pod-${i}` }));
    const observer = open({
      pods: () => {
        listed += 1;
        return known(thousand);
      },
    });
    // Once, to know later who grew (observe/growth.ts).
    observer.look({ afterMs: 2, pods: null }, nothing);
    const once = listed;
    for (let i = 0; i < 100; i++) observer.look({ afterMs: 2, pods: null }, nothing);
    expect(listed).toBe(once);
    observer.look(askFor('memory.available'), nothing);
    expect(listed).toBeGreaterThan(once);
  });

  it('reads swap only while a threshold counts it, or a reader requests the look', () => {
    let isCounted = false;
    const observer = open({ isSwapCounted: () => isCounted });
    const isRead = (want: Parameters<typeof observer.look>[0]): boolean => {
      const swap = observer.look(want, nothing).signals['swap.available'];
      return swap.known || swap.where.startsWith('/proc/meminfo');
    };
    expect(observer.look(quiet, nothing).signals['swap.available']).toMatchObject({ why: 'not-applicable' });
    expect([isRead(quiet), isRead(askFor('all')), isRead({ ...quiet, isForReader: true })]).toEqual([
      false,
      false,
      true,
    ]);
    isCounted = true;
    expect(isRead(quiet)).toBe(true);
  });

  it('passes on what has arrived', () => {
    const outcome = { of: 'd-1', atMs: 1, kind: 'dropped', because: 'gone' } as const;
    const seen = open({}).look(quiet, { outcomes: [outcome], events: [{ kind: 'preparing' }] });
    expect(seen.outcomes).toEqual([outcome]);
    expect(seen.shutdownEvents).toEqual([{ kind: 'preparing' }]);
  });

  it('reads a memory or pid signal again at once, and a disk signal with a new sample', async () => {
    const observer = open({});
    await until(() => observer.look(quiet, nothing).signals['nodefs.available'].known, 'a first sample');
    for (const signal of ['memory.available', 'pid.available', 'nodefs.inodesFree'] as const) {
      const askedMs = clock.monoMs();
      const reading = await observer.reread(signal);
      expect(reading.known && reading.value.sampledAtMs >= askedMs, signal).toBe(true);
    }
    expect(await observer.reread('imagefs.available')).toMatchObject({ why: 'not-applicable' });
  });

  it('includes the pods once their directories have been walked, and waits for that if a disk signal requests it', async () => {
    let wakes = 0;
    const wake = (): void => {
      wakes += 1;
    };
    const web = aBoundPod({ name: 'web', cgroup: known({ path: '/', inode: rootInode() }), disk: aWalk });
    let pod: BoundPod = { ...web, directories: ['/srv/web'] };
    const findings = someFindings();
    const observer = open({ pods: () => known([pod]), wake, findings });
    const shown = { known: true, value: [{ name: 'web' }] };
    // Who only wants to see them sees them all the same, and nobody is told that they cannot be read.
    expect(observer.podsNow('nodefs.available')).toMatchObject(shown);
    expect(observer.look(askFor('nodefs.available'), nothing).pods).toMatchObject({ known: false, why: 'timed-out' });
    expect(observer.podsNow('nodefs.available')).toMatchObject(shown);
    expect(findings.all()).toEqual([]);
    await until(() => wakes > 1, 'a walk and a sample');
    const { pods } = observer.look(quiet, nothing);
    expect(pods.known && pods.value.map(({ usage }) => usage.ephemeralStorageBytes)).toEqual([known(4_096)]);
    expect(observer.look(quiet, nothing).pods).toMatchObject({ why: 'not-asked' });
    // D14: who explains or captures is told what their end frees, as the choice is.
    await until(() => observer.look(quiet, nothing).signals['nodefs.available'].known, 'a sample of the disk');
    const { pods: all } = observer.look(askFor('all'), nothing);
    expect(all.known && all.value.map(({ diskRelief }) => diskRelief?.known)).toEqual([true]);
    // Where the mode names no directories all that was walked goes with the pod.
    pod = web;
    const plain = observer.podsNow('nodefs.available');
    expect(plain.known && plain.value.map(({ diskRelief, usage }) => [diskRelief, usage.disk])).toEqual([
      [
        expect.objectContaining({
          value: expect.objectContaining({ scratch: { bytes: known(4_096), inodes: known(1) } }),
        }),
        expect.objectContaining({ value: expect.objectContaining({ volumesBytes: 4_096 }) }),
      ],
    ]);
  });

  it('finds nothing that a pod would free of a file system that is read-only', async () => {
    const mounted = join(disk, 'mounted');
    mkdirSync(mounted);
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'nodewarden-test', mounted]);
    const web = aBoundPod({ name: 'web', cgroup: known({ path: '/', inode: rootInode() }), disk: aWalk });
    const device = statSync(mounted).dev;
    const directory = { path: mounted, device, inode: 1, ownBytes: 0, freshInodes: 0, linkedBytes: 0, linkedInodes: 0 };
    const directories = [{ ...directory, bytes: 9 * MIB, inodes: 9, freshBytes: 9 * MIB }];
    const found: BoundPod['disk'] = async () => known({ ...aDiskWalk(9 * MIB), directories });
    const pod: BoundPod = { ...web, directories: [mounted], scratch: [mounted], disk: found };
    const frees = async (): Promise<number | null> => {
      let relief: number | null = null;
      const observer = open({ pods: () => known([pod]), nodefsPath: mounted });
      await until(() => {
        const { pods } = observer.look(askFor('nodefs.available'), nothing);
        const seen = pods.known ? pods.value[0]?.diskRelief : undefined;
        const known = seen?.known === true && seen.value.scratch.bytes.known;
        if (known && pods.known && pods.value[0] !== undefined) relief = reliefOf('nodefs.available', pods.value[0]);
        return relief !== null;
      }, 'a walk');
      return relief;
    };
    try {
      expect(await frees()).toBeGreaterThan(0);
      // The agent's own mount of it may be read-only: others go on writing, and its emptying has another.
      execFileSync('mount', ['-o', 'remount,bind,ro', mounted]);
      expect(await frees()).toBeGreaterThan(0);
      execFileSync('mount', ['-o', 'remount,bind,rw', mounted]);
      execFileSync('mount', ['-o', 'remount,ro', mounted]);
      expect(await frees()).toBe(0);
    } finally {
      for (const observer of opened.splice(0)) observer.close();
      execFileSync('umount', ['-l', mounted]);
    }
  });

  it('has no pods to choose from before any may be chosen, for a walk or for a reader, who still sees them; a shutdown has', async () => {
    const web = aBoundPod({ name: 'web', cgroup: known({ path: '/', inode: rootInode() }), disk: aWalk });
    let isSettled = false;
    let wakes = 0;
    const observer = open({
      pods: () => known([{ ...web, directories: ['/srv/web'] }]),
      wake: () => (wakes += 1),
      podsUnsettled: (forWhat) =>
        isSettled || forWhat === 'all' ? null : unknown('stale', 'units', 'systemd has not answered'),
    });
    const look = (want: Parameters<typeof observer.look>[0] = quiet) => observer.look(want, nothing).pods;
    const forReader = { ...quiet, isForReader: true } as const;
    const shown = { known: true, value: [{ name: 'web' }] };
    expect(look(askFor('nodefs.available'))).toMatchObject({ why: 'stale' });
    await until(() => wakes > 1, 'a walk');
    expect([look(), look(forReader)]).toMatchObject([{ why: 'not-asked' }, { why: 'not-asked' }]);
    expect(look(askFor('memory.available'))).toMatchObject({ why: 'stale' });
    expect(observer.podsNow()).toMatchObject(shown);
    isSettled = true;
    // The result of the only walk was kept for this.
    await until(() => look().known, 'the pods with the result of the walk');
    expect(look()).toMatchObject({ why: 'not-asked' });
    expect(look(forReader)).toMatchObject(shown);
    isSettled = false;
    expect([look(askFor('all')), look({ ...askFor('all'), isForReader: true })]).toMatchObject([shown, shown]);
  });

  it('has no pods to choose from if one of them is new, and not settled: they are read first, and that is asked of them', async () => {
    const web = { ...aBoundPod({ name: 'web', cgroup: known({ path: '/', inode: rootInode() }), disk: aWalk }) };
    let [isNew, isKnown, wakes] = [false, true, 0];
    const observer = open({
      pods: () => {
        isKnown &&= !isNew;
        return known([{ ...web, directories: ['/srv/web'] }]);
      },
      wake: () => (wakes += 1),
      podsUnsettled: () => (isKnown ? null : unknown('stale', 'units', 'systemd has not answered')),
    });
    const look = (want: Parameters<typeof observer.look>[0] = quiet) => observer.look(want, nothing).pods;
    const declare = (): void => {
      [isNew, isKnown] = [true, true];
    };
    expect(look(askFor('memory.available')).known).toBe(true);
    declare();
    expect(look(askFor('memory.available'))).toMatchObject({ why: 'stale' });
    declare();
    expect(look({ ...quiet, isForReader: true })).toMatchObject({ why: 'not-asked' });
    [isNew, isKnown] = [false, true];
    look(askFor('nodefs.available'));
    await until(() => wakes > 1, 'a walk');
    declare();
    expect(look()).toMatchObject({ why: 'not-asked' });
  });

  it('keeps no descriptor once it is closed', async () => {
    const before = descriptors();
    const observer = open({ memoryAvailable: 'reclaimable' });
    observer.look(askFor('all'), nothing);
    observer.memoryFacts();
    await until(() => observer.look(quiet, nothing).signals['nodefs.available'].known, 'a sample');
    observer.close();
    // The child that reads the block size may still be ending.
    await until(() => descriptors() <= before, 'all of them closed');
  });
});

const aWalk: BoundPod['disk'] = () => Promise.resolve(known(aDiskWalk(4_096)));
const rootInode = (): number => statSync(realMounts().memory).ino;
const descriptors = (): number => readdirSync('/proc/self/fd').length;

describe.skipIf(noCgroups !== null)(`a look at a bounded node [${needs}]`, () => {
  let node: TestNode;
  beforeEach(async () => {
    node = await openTestNode(256 * MIB, 50);
  });
  afterEach(async () => {
    await node.remove();
  });

  it('has the limit of its cgroup as capacity and counts only its own processes', async () => {
    await node.addPod('web').start(64 * MIB);
    const { signals } = open({ cgroupRoot: node.path }).look(quiet, nothing);
    const memory = signals['memory.available'];
    expect(memory).toMatchObject({ known: true, value: { capacity: 256 * MIB } });
    if (!memory.known) return;
    expect(memory.value.available).toBeLessThanOrEqual(192 * MIB);
    expect(memory.value.available).toBeGreaterThan(150 * MIB);
    expect(signals['pid.available']).toMatchObject({ known: true, value: { capacity: 50, available: 49 } });
  });

  it('follows a changing limit, and is the machine without one', () => {
    const observer = open({ cgroupRoot: node.path });
    const machine = open({}).look(quiet, nothing).signals;
    const capacities = (): unknown[] => {
      aheadMs += 1_000;
      const { signals } = observer.look(quiet, nothing);
      return [signals['memory.available'], signals['pid.available']].map((of) => of.known && of.value.capacity);
    };
    expect(capacities()).toEqual([256 * MIB, 50]);
    const { version } = node.mounts;
    node.write(version === 1 ? 'memory.limit_in_bytes' : 'memory.max', String(128 * MIB));
    node.write('pids.max', '60', 'pids');
    expect(capacities()).toEqual([128 * MIB, 60]);
    node.write(version === 1 ? 'memory.limit_in_bytes' : 'memory.max', version === 1 ? '-1' : 'max');
    node.write('pids.max', 'max', 'pids');
    const whole = [machine['memory.available'], machine['pid.available']].map((of) => of.known && of.value.capacity);
    expect(capacities()).toEqual(whole);
  });

  it('sees a raised limit at the last look before a kill; a glance keeps the limit of the last full look', async () => {
    const observer = open({ cgroupRoot: node.path });
    observer.look(quiet, nothing);
    node.write(node.mounts.version === 1 ? 'memory.limit_in_bytes' : 'memory.max', String(512 * MIB));
    expect(observer.glance?.()).toMatchObject({ value: { capacity: 256 * MIB } });
    expect(await observer.reread('memory.available')).toMatchObject({ value: { capacity: 512 * MIB } });
  });

  it('reports what grew at every look with pods, because any may cause an eviction for memory', async () => {
    const [web, backup] = [node.addPod('web'), node.addPod('backup')];
    const bound = [aBoundPod({ name: 'web', cgroup: known(web.ref()) })];
    const observer = open({ cgroupRoot: node.path, pods: () => known(bound) });
    // For a reader, or a disk signal, also when one of them asks all the time.
    expect(observer.look(askFor('all'), nothing).memoryGrowth).toMatchObject({ why: 'absent', where: 'growth' });
    await backup.start(48 * MIB);
    aheadMs += 5_000;
    const { memoryGrowth } = observer.look(askFor('all'), nothing);
    expect(memoryGrowth).toMatchObject({ known: true, value: { others: [{ where: 'backup' }] } });
    expect(observer.look(quiet, nothing)).not.toHaveProperty('memoryGrowth');
  });

  it.each([
    ['reclaimable', true],
    ['workingSet', false],
  ] as const)(
    'counts what is left in empty cgroups only where the kernel does not choose before: %s',
    async (how, isCounted) => {
      const [web, other] = [node.addPod('web'), node.addPod('other')];
      const { pid } = await web.start(32 * MIB);
      for (const mount of [node.mounts.memory, node.mounts.pids ?? ''])
        writeFileSync(join(mount, other.ref().path, 'cgroup.procs'), String(pid));
      const bound = [aBoundPod({ name: 'web', cgroup: known(web.ref()) })];
      const observer = open({ cgroupRoot: node.path, pods: () => known(bound), memoryAvailable: how });
      const { leftBytes = 0 } = observer.look(askFor('memory.available'), nothing);
      expect(leftBytes >= 32 * MIB).toBe(isCounted);
    },
  );

  it('shows what comes back of pods without processes, however available memory is counted', async () => {
    const web = node.addPod('web');
    const file = join('/dev/shm', `nodewarden-look-${process.pid}`);
    onTestFinished(() => rmSync(file, { force: true }));
    web.run(`head -c ${32 * MIB} /dev/zero > ${file}`);
    const bound = [{ ...aBoundPod({ name: 'web', cgroup: known(web.ref()) }), comesBack: true } as const];
    const observer = open({ cgroupRoot: node.path, pods: () => known(bound), memoryAvailable: 'workingSet' });
    const { comesBack = [] } = observer.look(askFor('memory.available'), nothing);
    expect(comesBack).toMatchObject([{ uid: bound[0]?.declared.uid }]);
  });

  it('has the limit of kubepods minus its working set as allocatable memory, even below zero', async () => {
    const pods = node.addPod('kubepods');
    const observer = open({ cgroupRoot: node.path });
    const allocatable = () => {
      aheadMs += 1_000;
      return observer.look(quiet, nothing).signals['allocatableMemory.available'];
    };
    expect(allocatable()).toMatchObject({ known: false, why: 'not-applicable', detail: 'it has no limit' });
    const child = await pods.start(32 * MIB);
    const limit = node.mounts.version === 1 ? 'memory.limit_in_bytes' : 'memory.max';
    node.write(`kubepods/${limit}`, String(48 * MIB));
    const reading = allocatable();
    expect(reading).toMatchObject({ known: true, value: { capacity: 48 * MIB } });
    expect(reading.known && reading.value.available < 16 * MIB && reading.value.available > 8 * MIB).toBe(true);
    child.kill('SIGKILL');
  });

  it('is unknown if its cgroup is gone, rather than the machine', async () => {
    const observer = open({ cgroupRoot: `${node.path}/gone` });
    expect(observer.look(quiet, nothing).signals['memory.available']).toMatchObject({ known: false, why: 'absent' });
  });

  it('counts unused page cache as reclaimable, although the working set includes it', async () => {
    const file = join(disk, 'cached');
    const read = `cat ${file} > /dev/null`;
    node.addPod('reader').run(`head -c ${80 * MIB} /dev/zero > ${file}; sync ${file}; ${read}; ${read}; ${read}`);
    // The kernel counts with a delay of some seconds which pages are written and which it calls active.
    const reclaimable = await vi.waitFor(
      () => {
        const facts = open({ cgroupRoot: node.path }).memoryFacts();
        const { workingSetAvailableBytes: working, reclaimableAvailableBytes } = facts;
        if (!working.known || !reclaimableAvailableBytes.known) throw new Error(JSON.stringify(facts));
        // How many of the pages read three times are active, and so working set, is the kernel's own affair.
        expect(reclaimableAvailableBytes.value - working.value).toBeGreaterThan(16 * MIB);
        expect(reclaimableAvailableBytes.value).toBeGreaterThan(240 * MIB);
        return reclaimableAvailableBytes;
      },
      { timeout: 10_000, interval: 200 },
    );
    const counted = open({ cgroupRoot: node.path, memoryAvailable: 'reclaimable' }).look(quiet, nothing);
    const available = counted.signals['memory.available'];
    expect(available.known && Math.abs(available.value.available - reclaimable.value) < 4 * MIB).toBe(true);
  });
});
