import { mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { known } from '../../src/core/reading.ts';
import type { CgroupMounts } from '../../src/host/cgroup/cgroup-mounts.ts';
import { refOf } from '../../src/host/cgroup/cgroupfs.ts';
import { maxOpenFiles } from '../../src/host/own/open-files.ts';
import { createHeldCgroups } from '../../src/observe/held-cgroups.ts';
import type { CgroupRef } from '../../src/ports.ts';

let root: string;
let mounts: CgroupMounts;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'nodewarden-held-'));
  mounts = { layout: 'v2', version: 2, unified: root, memory: root, pids: root, systemd: null };
});
afterEach(() => {
  rmSync(root, { recursive: true, force: true });
});

function make(name: string, bytes: number, populated = 1): CgroupRef {
  mkdirSync(join(root, name), { recursive: true });
  writeFileSync(join(root, name, 'cgroup.events'), `populated ${populated}\nfrozen 0\n`);
  writeFileSync(join(root, name, 'cgroup.procs'), '');
  writeFileSync(join(root, name, 'cgroup.kill'), '');
  writeFileSync(join(root, name, 'memory.current'), `${bytes}\n`);
  writeFileSync(join(root, name, 'memory.stat'), 'anon 1\ninactive_file 0\n');
  const ref = refOf(mounts, `/${name}`);
  if (!ref.known) throw new Error(ref.detail);
  return ref.value;
}
const descriptors = (): number => readdirSync('/proc/self/fd').length;

describe('cgroups that are kept open', () => {
  it("use at most half of this process's descriptors; the others are opened each time", () => {
    const refs = Array.from({ length: 20 }, (_, i) => make(`pod-${i}`, i));
    const before = descriptors();
    const cgroups = createHeldCgroups(mounts, 60);
    for (let look = 0; look < 3; look++) {
      const read = refs.map((ref) => cgroups.read(ref, (held) => held.workingSetBytes()));
      expect(read).toEqual(refs.map((_, i) => known(i)));
      expect(descriptors() - before).toBe(30);
      cgroups.sweep();
    }
    cgroups.close();
    expect(descriptors()).toBe(before);
  });

  it('are read by descriptor: a later cgroup under the path is not confused with them', () => {
    const ref = make('pod', 1);
    const cgroups = createHeldCgroups(mounts);
    const ask = (of: CgroupRef) => cgroups.read(of, (held) => held.workingSetBytes());
    expect(ask(ref)).toEqual(known(1));
    renameSync(join(root, 'pod'), join(root, 'old'));
    const next = make('pod', 2);
    expect(ask(ref)).toEqual(known(1));
    expect(ask(next)).toEqual(known(2));
    cgroups.close();
    expect(ask(ref)).toMatchObject({ known: false, why: 'absent' });
  });

  it('are reopened after a failed reading', () => {
    const ref = make('pod', 1);
    const cgroups = createHeldCgroups(mounts);
    const ask = () => cgroups.read(ref, (held) => held.isPopulated());
    expect(ask()).toEqual(known(true));
    writeFileSync(join(root, 'pod/cgroup.events'), 'garbage');
    expect(ask()).toMatchObject({ known: false, why: 'malformed' });
    rmSync(join(root, 'pod/cgroup.events'));
    make('pod', 1, 0);
    expect(ask()).toEqual(known(false));
    cgroups.close();
  });

  it('are few if the limit of descriptors cannot be read', () => {
    expect(maxOpenFiles()).toBeGreaterThanOrEqual(256);
  });
});
