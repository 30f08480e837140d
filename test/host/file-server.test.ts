import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';

const isRoot = process.getuid?.() === 0;
const MODULE = new URL('../../src/host/process/file-server.ts', import.meta.url).pathname;
/** In a mount namespace of its own: a machine with the disks of $1, and a process that has /dev/$2 open. */
const MACHINE = `set -e
mount --bind "$1" /sys/block
mount -t tmpfs none /dev
mknod /dev/null c 1 3; mknod /dev/urandom c 1 9; : > "/dev/$2"
exec 7<"/dev/$2"
exec "$3" --import tsx --input-type=module -e "$4"`;
const PROGRAM = `import { createFileServers } from ${JSON.stringify(MODULE)};
console.log(JSON.stringify(createFileServers()([process.pid])));`;

function serverOn(disk: string, device: string): unknown {
  const block = mkdtempSync(join(tmpdir(), 'nodewarden-block-'));
  try {
    mkdirSync(join(block, disk));
    const argv = ['--mount', 'sh', '-c', MACHINE, 'sh', block, device, process.execPath, PROGRAM];
    return JSON.parse(execFileSync('unshare', argv, { encoding: 'utf8' }));
  } finally {
    rmSync(block, { recursive: true });
  }
}

describe('a process through which others use files', () => {
  // Below LVM, encryption or swap, no mount names the device.
  it.skipIf(!isRoot).each([
    ['nbd0', 'nbd0'],
    ['ublkb1', 'ublkc1'],
  ])('is found by the device that it has open, whatever is mounted: %s [needs root]', (disk, device) => {
    expect(serverOn(disk, device)).toMatchObject({ known: true, value: { device: `/dev/${device}` } });
  });
});
