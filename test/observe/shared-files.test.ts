import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chownSync, linkSync, mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { known } from '../../src/core/reading.ts';
import { sayBytes } from '../../src/core/units/quantity.ts';
import type { CgroupMounts } from '../../src/host/cgroup/cgroup-mounts.ts';
import { createClock } from '../../src/host/clock.ts';
import { createDiskWalker, type DiskWalker } from '../../src/host/disk/disk-walk.ts';
import { createPodDisk, type PodDisk } from '../../src/observe/pod-disk.ts';
import type { BoundPod, Findings } from '../../src/ports.ts';
import { parseManifest } from '../../src/standalone/manifests/manifest.ts';
import { podDisk } from '../../src/standalone/pods/pod-disk.ts';
import { hurried } from '../standalone/needs.ts';
import { someFindings, until } from './a-bound-pod.ts';

const isRoot = process.getuid?.() === 0;
/** No deadline passes on a slow machine. */
const slow = hurried(createClock(), 0.1);
let passedMs = 0;
const clock = { ...slow, monoMs: () => slow.monoMs() + passedMs };
const NOBODY = 65_534;
const FILE = 1_200_000;
/** What a first walk finds new counts as growth for so long (observe/disk-facts.ts). */
const FRESH_MS = 11_000;
let root: string;
let walker: DiskWalker;
let disk: PodDisk | null;
let findings: Findings;
let holders: ChildProcess[];

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'nodewarden-shared-'));
  walker = createDiskWalker(clock);
  disk = null;
  findings = someFindings();
  holders = [];
});
afterEach(() => {
  disk?.close();
  walker.close();
  for (const holder of holders) holder.kill('SIGKILL');
  rmSync(root, { recursive: true, force: true });
});

const at = (...names: readonly string[]): string => join(root, ...names);
/** Not a cgroup, but a directory with the same file in it. */
const mountsOf = (): CgroupMounts => ({
  ...{ layout: 'v1', version: 1, unified: null, pids: null, systemd: null },
  memory: at('cgroup'),
});

/** A pod of which this process runs in the cgroup, or the given ones. */
function pod(
  name: string,
  directories: readonly string[] = [at(name)],
  pids: readonly number[] = [process.pid],
): BoundPod {
  for (const directory of directories) mkdirSync(directory, { recursive: true });
  const cgroupDirectory = at('cgroup', name);
  mkdirSync(cgroupDirectory, { recursive: true });
  writeFileSync(join(cgroupDirectory, 'cgroup.procs'), pids.map((pid) => `${pid}\n`).join(''));
  const { pods } = parseManifest(
    JSON.stringify({
      ...{ apiVersion: 'v1', kind: 'Pod' },
      metadata: {
        name,
        annotations: { 'nodewarden.dev/cgroup': name, 'nodewarden.dev/disk': directories.join(',') },
      },
      spec: { containers: [{ name: 'main' }] },
    }),
    `${name}.yaml`,
  );
  const [manifest] = pods;
  if (manifest === undefined) throw new Error('no pod');
  const cgroup = known({ path: `/${name}`, inode: statSync(cgroupDirectory).ino });
  return {
    ...{ declared: manifest.declared, cgroup, containers: [] },
    ...podDisk({ walker, mounts: mountsOf(), manifest, cgroup }),
  };
}

/** Opens the file and stays; +< is at its start, >> at its end. */
async function holding(mode: '>>' | '<' | '+<', file: string, isUnlinked = false): Promise<number> {
  const script = `open(my $h, '${mode}', $ARGV[0]) or die; ${isUnlinked ? 'unlink $ARGV[0];' : ''} $| = 1; print 'ready'; sleep 600`;
  const holder = spawn('perl', ['-e', script, file]);
  holders.push(holder);
  await once(holder.stdout, 'data');
  return holder.pid ?? 0;
}

function open(...pods: readonly BoundPod[]) {
  disk = createPodDisk({
    clock,
    mounts: mountsOf(),
    findings,
    pods: () => known(pods),
    wake: () => undefined,
  });
  return disk;
}
/** What the pods use, in units of a file, and what their ends would save; most: of files that may be theirs. */
async function measured(...pods: readonly BoundPod[]) {
  const now = disk ?? open(...pods);
  now.follow({ afterMs: 0, pods: null });
  now.follow({ afterMs: 0, pods: 'nodefs.available' });
  await until(() => now.notReady('nodefs.available') === null, 'a round');
  const files = (bytes: number): number => Math.round((bytes / FILE) * 10) / 10;
  return Object.fromEntries(
    pods.map((of) => {
      const { usage, relief } = now.on(of, statSync(root).dev);
      const used = usage.known ? usage.value : null;
      const grown = relief.grownLastMinute.bytes;
      const unclear = relief.unattributed?.bytes ?? known(0);
      const numbers = {
        uses: files(used?.volumesBytes ?? 0),
        most: files((used?.volumesBytes ?? 0) + (used?.unattributedBytes ?? 0)),
        grew: grown.known ? files(grown.value) : null,
        mostGrew: grown.known && unclear.known ? files(grown.value + unclear.value) : null,
      };
      return [of.declared.name, numbers];
    }),
  );
}
const nothing = { uses: 0, most: 0, grew: 0, mostGrew: 0 };

describe('a file with names in the directories of two pods', () => {
  const write = (name: string) => writeFileSync(at(name, 'file'), 'x'.repeat(FILE));
  const link = (from: string, to: string) => linkSync(at(from, 'file'), at(to, 'link'));

  it('is used by the only one that has it open for writing, and grows only that one', async () => {
    mkdirSync(at('writer'));
    write('writer');
    const writer = pod('writer', [at('writer')], [await holding('>>', at('writer', 'file'))]);
    const linker = pod('linker', [at('linker')], [await holding('<', at('writer', 'file'))]);
    link('writer', 'linker');
    expect(await measured(linker, writer)).toEqual({
      writer: { uses: 1, most: 1, grew: 1, mostGrew: 1 },
      linker: nothing,
    });
  });

  it.skipIf(!isRoot)('is used by the one of the same user [needs root]', async () => {
    const [writer, linker] = [pod('writer'), pod('linker')];
    write('writer');
    for (const path of [at('writer'), at('writer', 'file')]) chownSync(path, NOBODY, NOBODY);
    link('writer', 'linker');
    expect(await measured(linker, writer)).toEqual({
      writer: { uses: 1, most: 1, grew: 1, mostGrew: 1 },
      linker: nothing,
    });
  });

  it.skipIf(!isRoot)('may be either’s if one keeps it open and its user points to the other [needs root]', async () => {
    for (const name of ['idle', 'grower']) mkdirSync(at(name));
    write('grower');
    for (const path of [at('grower'), at('grower', 'file')]) chownSync(path, NOBODY, NOBODY);
    const idle = pod('idle', [at('idle')], [await holding('>>', at('grower', 'file'))]);
    const grower = pod('grower');
    link('grower', 'idle');
    const unclear = { uses: 0, most: 1, grew: 0, mostGrew: 1 };
    expect(await measured(grower, idle)).toEqual({ grower: unclear, idle: unclear });
  });

  it('may be either’s if the one that has it open for writing is not at its end', async () => {
    for (const name of ['idle', 'grower']) mkdirSync(at(name));
    write('grower');
    const idle = pod('idle', [at('idle')], [await holding('+<', at('grower', 'file'))]);
    const grower = pod('grower');
    link('grower', 'idle');
    const unclear = { uses: 0, most: 1, grew: 0, mostGrew: 1 };
    expect(await measured(grower, idle)).toEqual({ grower: unclear, idle: unclear });
  });

  it('may belong to either if nothing tells them apart', async () => {
    const [writer, linker] = [pod('writer'), pod('linker')];
    write('writer');
    link('writer', 'linker');
    const unclear = { uses: 0, most: 1, grew: 0, mostGrew: 1 };
    expect(await measured(linker, writer)).toEqual({ writer: unclear, linker: unclear });
    const bytes = `${sayBytes(statSync(at('writer', 'file')).blocks * 512)} in 1 such file`;
    expect(findings.all()).toMatchObject([
      {
        id: 'shared-files',
        text: expect.stringContaining(`default/linker has ${bytes}, default/writer has ${bytes}. `),
      },
    ]);
    disk?.follow({ afterMs: 10_000, pods: null });
    expect(findings.all()).toEqual([]);
  });

  it('stays one pod’s own if its other names are in no pod’s directory', async () => {
    const [writer, other] = [pod('writer'), pod('other')];
    write('writer');
    linkSync(at('writer', 'file'), at('outside'));
    expect(await measured(other, writer)).toEqual({
      writer: { uses: 1, most: 1, grew: 1, mostGrew: 1 },
      other: nothing,
    });
  });

  it('that the other one has just linked is growth of neither, and hides none', async () => {
    const [writer, linker] = [pod('writer'), pod('linker')];
    write('writer');
    await measured(writer, linker);
    passedMs += FRESH_MS;
    await measured(writer, linker);
    link('writer', 'linker');
    writeFileSync(at('writer', 'more'), 'x'.repeat(2 * FILE));
    expect(await measured(writer, linker)).toMatchObject({
      writer: { uses: 2, most: 3, grew: 1, mostGrew: 2 },
      linker: { uses: 0, most: 1, grew: 0, mostGrew: 1 },
    });
  });

  it('may be either’s if there are too many to remember', async () => {
    walker.close();
    walker = createDiskWalker(clock, { maxLinked: 1 });
    mkdirSync(at('writer'));
    write('writer');
    const writer = pod('writer', [at('writer')], [await holding('>>', at('writer', 'file'))]);
    const first = pod('first');
    writeFileSync(at('first', 'small'), '');
    linkSync(at('first', 'small'), at('outside'));
    const linker = pod('linker');
    link('writer', 'linker');
    const unclear = { uses: 0, most: 1, grew: 0, mostGrew: 1 };
    expect(await measured(first, linker, writer)).toMatchObject({ writer: unclear, linker: unclear });
  });

  it('may be either’s if the walks were made by different children', async () => {
    const [writer, linker] = [pod('writer'), pod('linker')];
    write('writer');
    link('writer', 'linker');
    const { disk: walk } = linker;
    const lost: BoundPod = {
      ...linker,
      disk: (...asked) => {
        walker.close();
        return walk(...asked);
      },
    };
    const unclear = { uses: 0, most: 1, grew: 0, mostGrew: 1 };
    expect(await measured(writer, lost)).toEqual({ writer: unclear, linker: unclear });
  });
});

describe('a directory that two pods declare', () => {
  const unclear = { uses: 0, most: 1, grew: 0, mostGrew: 1 };

  it('is counted for the one that has its files open for writing', async () => {
    const both = at('both');
    mkdirSync(both);
    writeFileSync(at('both', 'log'), 'x'.repeat(FILE));
    const writer = pod('writer', [both], [await holding('>>', at('both', 'log'))]);
    const reader = pod('reader', [both], [await holding('<', at('both', 'log'))]);
    writeFileSync(at('both', 'old'), 'x'.repeat(FILE));
    expect(await measured(reader, writer)).toMatchObject({
      writer: { uses: 1, most: 2, grew: 1 },
      reader: { uses: 0, most: 1, grew: 0 },
    });
  });

  it('is counted for neither', async () => {
    const both = at('both');
    const pods = [pod('one', [both]), pod('two', [both])];
    writeFileSync(at('both', 'file'), 'x'.repeat(FILE));
    expect(await measured(...pods)).toEqual({ one: unclear, two: unclear });
  });

  it('is counted for neither if it is inside the other’s', async () => {
    const pods = [pod('outer', [at('outer')]), pod('inner', [at('outer', 'some', 'inner')])];
    writeFileSync(at('outer', 'some', 'inner', 'file'), 'x'.repeat(FILE));
    writeFileSync(at('outer', 'some', 'own'), 'x'.repeat(2 * FILE));
    expect(await measured(...pods)).toMatchObject({ outer: { uses: 2, most: 3 }, inner: unclear });
  });

  it.skipIf(!isRoot)('is counted for neither if it has two names [needs root]', async () => {
    const pods = [pod('one'), pod('two')];
    writeFileSync(at('one', 'file'), 'x'.repeat(FILE));
    execFileSync('mount', ['--bind', at('one'), at('two')]);
    try {
      expect(await measured(...pods)).toEqual({ one: unclear, two: unclear });
    } finally {
      execFileSync('umount', [at('two')]);
    }
  });
});

describe('a deleted file that two pods hold open', () => {
  it('is freed by the end of neither, unless only that one writes to it', async () => {
    pod('writer');
    pod('reader');
    writeFileSync(at('writer', 'log'), 'x'.repeat(FILE));
    const [reading, writing] = [
      await holding('<', at('writer', 'log')),
      await holding('>>', at('writer', 'log'), true),
    ];
    const writer = pod('writer', [at('writer')], [writing]);
    const reader = pod('reader', [at('reader')], [reading]);
    await measured(reader, writer);
    const freed = (of: BoundPod) => disk?.on(of, statSync(root).dev).relief.deletedOpen.bytes;
    expect(freed(reader)).toEqual(known(0));
    expect(freed(writer)).toEqual(known(statSync(`/proc/${writing}/fd/3`).blocks * 512));
  });

  it.skipIf(!isRoot)('is freed by the end of neither if its user points to the reader [needs root]', async () => {
    for (const name of ['idle', 'mapper']) mkdirSync(at(name));
    writeFileSync(at('mapper', 'log'), 'x'.repeat(FILE));
    for (const path of [at('mapper'), at('mapper', 'log')]) chownSync(path, NOBODY, NOBODY);
    const [reading, writing] = [
      await holding('<', at('mapper', 'log')),
      await holding('>>', at('mapper', 'log'), true),
    ];
    const idle = pod('idle', [at('idle')], [writing]);
    const mapper = pod('mapper', [at('mapper')], [reading]);
    await measured(mapper, idle);
    const freed = (of: BoundPod) => disk?.on(of, statSync(root).dev).relief.deletedOpen.bytes;
    expect([freed(mapper), freed(idle)]).toEqual([known(0), known(0)]);
  });
});
