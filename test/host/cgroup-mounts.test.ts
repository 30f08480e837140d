import { describe, expect, it } from 'vitest';
import { known } from '../../src/core/reading.ts';
import { openMemory } from '../../src/host/cgroup/cgroup-memory.ts';
import { findCgroupMounts } from '../../src/host/cgroup/cgroup-mounts.ts';
import { openPids } from '../../src/host/cgroup/cgroupfs.ts';
import { aTree } from './tree.ts';

const line = (point: string, type: string, options: string, top = '/'): string =>
  `35 31 0:32 ${top} ${point} rw,relatime shared:9 - ${type} ${type} rw,${options}\n`;
const CGROUP2 = line('/sys/fs/cgroup', 'cgroup2', 'nsdelegate');
const CONTROLLERS = 'sys/fs/cgroup/cgroup.controllers';

function mountinfo(...lines: readonly string[]): { readonly [path: string]: string } {
  return { 'proc/self/mountinfo': `20 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n${lines.join('')}` };
}

describe('findCgroupMounts', () => {
  it('finds version 2', () => {
    const root = aTree({ ...mountinfo(CGROUP2), [CONTROLLERS]: 'cpuset cpu io memory pids\n' });
    const unified = `${root}/sys/fs/cgroup`;
    expect(findCgroupMounts(root)).toEqual(
      known({ layout: 'v2', version: 2, unified, memory: unified, pids: unified, systemd: unified }),
    );
  });

  it('version 2 without the pids controller has none', () => {
    const root = aTree({ ...mountinfo(CGROUP2), [CONTROLLERS]: 'cpu memory\n' });
    expect(findCgroupMounts(root)).toMatchObject({ value: { version: 2, pids: null } });
  });

  it('finds version 1, even if controllers share a mount', () => {
    const root = aTree({
      ...mountinfo(
        line('/sys/fs/cgroup/memory,pids', 'cgroup', 'memory,pids'),
        line('/sys/fs/cgroup/systemd', 'cgroup', 'xattr,name=systemd'),
      ),
      'sys/fs/cgroup/memory,pids/a/pids.current': '3\n',
      'sys/fs/cgroup/memory,pids/a/memory.usage_in_bytes': '5\n',
      'sys/fs/cgroup/memory,pids/a/memory.stat': 'total_inactive_file 1\n',
    });
    const joint = `${root}/sys/fs/cgroup/memory,pids`;
    const mounts = findCgroupMounts(root);
    expect(mounts).toEqual(
      known({
        layout: 'v1',
        version: 1,
        unified: null,
        memory: joint,
        pids: joint,
        systemd: `${root}/sys/fs/cgroup/systemd`,
      }),
    );
    if (!mounts.known) return;
    expect(openMemory(mounts.value, '/a').read()).toMatchObject({ value: { workingSetBytes: 4 } });
    expect(openPids(mounts.value, '/a').current()).toEqual(known(3));
  });

  it('treats a cgroup2 mount without controllers beside version 1 as hybrid, which is version 1', () => {
    const root = aTree({
      ...mountinfo(
        line('/sys/fs/cgroup/unified', 'cgroup2', 'nsdelegate'),
        line('/sys/fs/cgroup/memory', 'cgroup', 'memory'),
      ),
      'sys/fs/cgroup/unified/cgroup.controllers': '\n',
    });
    expect(findCgroupMounts(root)).toMatchObject({
      value: { layout: 'hybrid', version: 1, unified: `${root}/sys/fs/cgroup/unified`, pids: null, systemd: null },
    });
  });

  it('prefers the mount below /sys/fs/cgroup if a hierarchy is mounted twice', () => {
    const root = aTree(
      mountinfo(line('/mnt/memory', 'cgroup', 'memory'), line('/sys/fs/cgroup/memory', 'cgroup', 'memory')),
    );
    expect(findCgroupMounts(root)).toMatchObject({ value: { memory: `${root}/sys/fs/cgroup/memory` } });
  });

  it('ignores a mount that shows only part of the hierarchy, or is hidden by another', () => {
    const part = line('/sys/fs/cgroup/memory', 'cgroup', 'memory', '/docker/0123');
    const hidden = [
      line('/sys/fs/cgroup/memory', 'cgroup', 'memory'),
      line('/sys/fs/cgroup/memory', 'tmpfs', 'size=1k'),
    ];
    for (const lines of [[part], hidden]) {
      expect(findCgroupMounts(aTree(mountinfo(...lines)))).toMatchObject({ known: false, why: 'absent' });
    }
  });

  it('decodes the escapes of a mount point', () => {
    const root = aTree(mountinfo(line('/mnt/my\\040cgroups\\134', 'cgroup', 'memory')));
    expect(findCgroupMounts(root)).toMatchObject({ value: { memory: `${root}/mnt/my cgroups\\` } });
  });

  it.each([
    ['empty', '', 'absent'],
    ['garbage', '\0\0 - - \n - cgroup\n1 2 3 / /x -', 'absent'],
    ['a directory', null, 'unreadable'],
  ])('finds no mounts in a mountinfo that is %s', (_, text, why) => {
    expect(findCgroupMounts(aTree({ 'proc/self/mountinfo': text }))).toMatchObject({ known: false, why });
  });

  it('is unknown without mountinfo, and if the controllers of version 2 cannot be read', () => {
    expect(findCgroupMounts(aTree({}))).toMatchObject({ known: false, why: 'absent' });
    expect(findCgroupMounts(aTree({ ...mountinfo(CGROUP2), [CONTROLLERS]: null }))).toMatchObject({
      known: false,
      why: 'unreadable',
    });
  });
});
