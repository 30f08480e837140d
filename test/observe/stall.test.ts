import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { known, unknown } from '../../src/core/reading.ts';
import type { CgroupMounts } from '../../src/host/cgroup/cgroup-mounts.ts';
import { refOf } from '../../src/host/cgroup/cgroupfs.ts';
import { createProcfs } from '../../src/host/procfs.ts';
import { createNodeStall, type NodeStallNeeds } from '../../src/observe/stall.ts';
import { createNodeSwap } from '../../src/observe/swap.ts';
import type { BoundPod, Clock } from '../../src/ports.ts';
import { aTree } from '../host/tree.ts';
import { aBoundPod } from './a-bound-pod.ts';

const GIB = 2 ** 30;
const pressure = (fullMs: number): string =>
  `some avg10=0.00 avg60=0.00 avg300=0.00 total=${fullMs * 2_000}\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=${fullMs * 1_000}\n`;
const events = (max: number): string => `low 0\nhigh 0\nmax ${max}\noom 0\noom_kill 0\n`;
const mountsAt = (root: string, version: 1 | 2): CgroupMounts => ({
  layout: version === 1 ? 'v1' : 'v2',
  version,
  unified: version === 2 ? join(root, 'cgroup') : null,
  memory: join(root, 'cgroup'),
  pids: join(root, 'cgroup'),
  systemd: null,
});
const POD_FILES = {
  'cgroup/node/memory.pressure': pressure(0),
  'cgroup/node/pod/memory.pressure': pressure(0),
  'cgroup/node/pod/memory.events': events(0),
};

type World = Partial<NodeStallNeeds> & { readonly version?: 1 | 2; readonly node?: string };
/** A node of 8 GiB of which `freeGiB` could be freed; the machine's and the pod's stall as they are set. */
function aNode({ version = 2, node = '/', ...overrides }: World = {}) {
  const root = aTree({ 'proc/pressure/memory': pressure(0), ...POD_FILES });
  const mounts = mountsAt(root, version);
  const ref = refOf(mounts, '/node/pod');
  const pod: BoundPod = aBoundPod({ name: 'pod', cgroup: ref });
  const procfs = createProcfs(root);
  let freeGiB = 1;
  let asked = 0;
  let nowMs = 0;
  let timer: { readonly atMs: number; readonly run: () => void } | null = null;
  const clock: Clock = {
    monoMs: () => nowMs,
    wallMs: () => nowMs,
    after: (ms, run) => {
      timer = { atMs: nowMs + ms, run };
      return () => {
        timer = null;
      };
    },
  };
  const stall = createNodeStall({
    clock,
    mounts,
    procfs,
    cgroupRoot: node,
    evictionStall: { fullShare: 0.3, forMs: 10_000, belowShare: 0.25 },
    pods: () => {
      asked += 1;
      return known([pod]);
    },
    nodePath: () => known(node),
    reclaimable: (atMs) => known({ available: freeGiB * GIB, capacity: 8 * GIB, sampledAtMs: atMs }),
    ...overrides,
  });
  onTestFinished(() => {
    stall.close();
    procfs.close();
  });
  const write = (path: string, text: string): void => writeFileSync(join(root, path), text);
  return {
    stall,
    asked: () => asked,
    free: (gib: number): void => {
      freeGiB = gib;
    },
    machine: (fullMs: number): void => write('proc/pressure/memory', pressure(fullMs)),
    own: (fullMs: number): void => write('cgroup/node/memory.pressure', pressure(fullMs)),
    pod: (fullMs: number, max: number): void => {
      write('cgroup/node/pod/memory.pressure', pressure(fullMs));
      write('cgroup/node/pod/memory.events', events(max));
    },
    /** Nobody samples until then. */
    passesTo: (atMs: number): void => {
      while (timer !== null && timer.atMs <= atMs) {
        const { run } = timer;
        nowMs = timer.atMs;
        run();
      }
      nowMs = atMs;
    },
    availableAt: (atMs: number): unknown => {
      const sample = stall.available(atMs);
      return sample.known ? sample.value.available : sample.why;
    },
  };
}

describe('memory.stallFree', () => {
  it.each([1, 2] as const)("falls by the machine's stall, on version %i", (version) => {
    const node = aNode({ version });
    expect(node.availableAt(1_000)).toBe(10_000);
    node.machine(200);
    expect(node.availableAt(1_500)).toBe(9_800);
    node.machine(250);
    expect(node.availableAt(1_550)).toBe(9_750);
  });

  it('does not fall while enough memory is available, and then starts over', () => {
    const node = aNode();
    node.availableAt(0);
    node.machine(200);
    expect(node.availableAt(1_000)).toBe(9_800);
    node.free(2);
    node.machine(900);
    expect(node.availableAt(2_000)).toBe(10_000);
    node.free(1);
    expect(node.availableAt(3_000)).toBe(10_000);
  });

  it('requests the pods once per window while little stalls', () => {
    const node = aNode();
    for (let ms = 0; ms <= 25_000; ms += 100) {
      node.machine(ms / 100);
      node.availableAt(ms);
    }
    expect(node.asked()).toBe(3);
  });

  it('counts the whole stall from its start', () => {
    const node = aNode();
    for (let ms = 0; ms <= 20_000; ms += 500) node.availableAt(ms);
    for (let ms = 500; ms <= 3_000; ms += 500) {
      node.machine(ms);
      node.availableAt(20_000 + ms);
    }
    expect(node.availableAt(23_000)).toBe(7_000);
  });

  it('counts from when too little is available, however far apart the samples are', () => {
    const node = aNode();
    node.free(4);
    expect(node.availableAt(0)).toBe(10_000);
    node.free(1);
    node.passesTo(600);
    node.machine(2_400);
    expect(node.availableAt(3_000)).toBe(7_600);
  });

  it('does not count the stall of a pod that reaches its own limit between two samples far apart', () => {
    const node = aNode();
    for (let ms = 0; ms <= 20_000; ms += 500) node.availableAt(ms);
    node.machine(4_000);
    node.pod(4_000, 40);
    expect(node.availableAt(24_000)).toBe(10_000);
  });

  it('does not count the stall of a pod that reaches its own limit, and names it', () => {
    const node = aNode();
    for (let ms = 0; ms <= 8_000; ms += 500) {
      node.machine(ms * 0.9);
      node.pod(ms * 0.9, ms / 10);
      node.availableAt(ms);
    }
    expect(node.availableAt(8_000)).toBe(10_000);
    expect(node.stall.isByOwnLimit('uid-pod')).toBe(true);
    expect(node.stall.isByOwnLimit('uid-other')).toBe(false);
  });

  it('counts that of a pod that stalls without reaching a limit of its own', () => {
    const node = aNode();
    for (let ms = 0; ms <= 8_000; ms += 500) {
      node.machine(ms * 0.9);
      node.pod(ms * 0.9, 7);
      node.availableAt(ms);
    }
    // All but the first 2 s: it may have reached a limit just before it was first read.
    expect(node.availableAt(8_000)).toBe(10_000 - 0.9 * 6_000);
    expect(node.stall.isByOwnLimit('uid-pod')).toBe(false);
  });

  it("is the node's own for a bounded node on version 2", () => {
    const node = aNode({ node: '/node' });
    node.availableAt(0);
    node.machine(900);
    node.own(100);
    expect(node.availableAt(1_000)).toBe(9_900);
  });

  it.each([
    ['evictionStall is not configured', { evictionStall: null }, 'not-applicable'],
    [
      'a bounded node is on version 1, which has no pressure of its own',
      { version: 1, node: '/node' },
      'not-applicable',
    ],
    [
      'what could be freed cannot be read',
      { reclaimable: () => unknown('unreadable', 'memory', 'test') },
      'unreadable',
    ],
  ] as const)('is unknown if %s', (_, world, why) => {
    expect(aNode(world).availableAt(0)).toBe(why);
  });

  it('does not apply if the kernel records no pressure', () => {
    const procfs = createProcfs(aTree({ proc: null }));
    expect(aNode({ procfs }).availableAt(0)).toBe('not-applicable');
  });
});

describe.skipIf(!existsSync('/proc/pressure/memory'))('the stall of this machine [needs PSI]', () => {
  it("matches the kernel's counter", () => {
    const procfs = createProcfs();
    const shown = (): number =>
      Number(/^full .*total=(\d+)/m.exec(readFileSync('/proc/pressure/memory', 'latin1'))?.[1]);
    const least = shown() / 1_000;
    const read = procfs.memoryStallMs();
    procfs.close();
    expect(read.known && read.value).toBeGreaterThanOrEqual(least);
    expect(read.known && read.value).toBeLessThanOrEqual(shown() / 1_000);
  });
});

describe('swap.available', () => {
  const meminfo = (totalKiB: number, freeKiB: number): string =>
    `MemTotal: 100 kB\nSwapTotal: ${totalKiB} kB\nSwapFree: ${freeKiB} kB\n`;
  const V1 = {
    'memory.memsw.limit_in_bytes': '800000\n',
    'memory.limit_in_bytes': '300000\n',
    'memory.memsw.usage_in_bytes': '390000\n',
    'memory.usage_in_bytes': '290000\n',
  };
  it.each([
    ['of the machine', '/', 2, {}, meminfo(1_000, 400), [409_600, 1_024_000]],
    ['without swap does not apply', '/', 2, {}, meminfo(0, 0), 'not-applicable'],
    ['of a node without a limit of its own', '/node', 2, {}, meminfo(1_000, 400), [409_600, 1_024_000]],
    [
      'of a bounded node',
      '/node',
      2,
      { 'memory.swap.max': '200000\n', 'memory.swap.current': '50000\n' },
      meminfo(1_000, 400),
      [150_000, 200_000],
    ],
    [
      'of a bounded node on a machine with less left',
      '/node',
      2,
      { 'memory.swap.max': '200000\n', 'memory.swap.current': '50000\n' },
      meminfo(1_000, 100),
      [102_400, 200_000],
    ],
    [
      'of a node that may not swap does not apply',
      '/node',
      2,
      { 'memory.swap.max': '0\n', 'memory.swap.current': '0\n' },
      meminfo(1_000, 400),
      'not-applicable',
    ],
    ['of a bounded node on version 1', '/node', 1, V1, meminfo(1_000, 900), [400_000, 500_000]],
    ['on version 1 without swap accounting', '/node', 1, {}, meminfo(1_000, 400), [409_600, 1_024_000]],
  ] as const)('%s', (_, path, version, cgroup, text, expected) => {
    const files = Object.entries(cgroup).map(([name, value]) => [`cgroup/node/${name}`, value]);
    const limit = version === 1 ? { 'cgroup/node/memory.limit_in_bytes': '300000\n' } : {};
    const root = aTree({ 'proc/meminfo': text, 'cgroup/node/x': '', ...limit, ...Object.fromEntries(files) });
    const procfs = createProcfs(root);
    const swap = createNodeSwap({
      mounts: mountsAt(root, version),
      procfs,
      cgroupRoot: path,
      nodePath: () => known(path),
    });
    const sample = swap.available(5);
    swap.close();
    procfs.close();
    expect(sample.known ? [sample.value.available, sample.value.capacity] : sample.why).toEqual(expected);
  });
});
