// What the node of the lab `stall` is given: swap of one kind or the other, and a peer in place of nodewarden.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';

export type Swap = { readonly name: string; readonly on: () => void; readonly off: () => void };
export type Peer = {
  readonly name: string;
  readonly missing: () => string | null;
  readonly on: () => void;
  readonly off: () => void;
};
const SWAP_FILE = '/var/lib/nodewarden-lab-swap';
const OOMD_CONF = '/run/systemd/oomd.conf.d/50-lab.conf';
export const SWAP_MIB = 128;
export const UNITS = '/run/systemd/system';
export const SLICE = 'lab.slice';

export const run = (command: string, ...args: readonly string[]): string => {
  try {
    return execFileSync(command, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] }).trim();
  } catch (error) {
    // is-active says "inactive" with status 3.
    if (command === 'systemctl' && error instanceof Error && 'stdout' in error) return String(error.stdout).trim();
    throw error;
  }
};

export const swaps: readonly Swap[] = [
  {
    name: 'swap on disk',
    on: () => {
      if (!fs.existsSync(SWAP_FILE)) {
        run('dd', 'if=/dev/zero', `of=${SWAP_FILE}`, 'bs=1M', `count=${SWAP_MIB}`);
        fs.chmodSync(SWAP_FILE, 0o600);
        run('mkswap', SWAP_FILE);
      }
      run('swapon', SWAP_FILE);
    },
    off: () => void run('swapoff', SWAP_FILE),
  },
  {
    name: 'zram',
    on: () => {
      run('modprobe', 'zram');
      fs.writeFileSync('/sys/block/zram0/disksize', `${SWAP_MIB}M`);
      run('mkswap', '/dev/zram0');
      run('swapon', '/dev/zram0');
    },
    off: () => {
      run('swapoff', '/dev/zram0');
      fs.writeFileSync('/sys/block/zram0/reset', '1');
    },
  },
];

const oomd = (name: string, drops: { readonly [file: string]: string }): Peer => ({
  name,
  missing: () => (fs.existsSync('/lib/systemd/systemd-oomd') ? null : 'the package systemd-oomd is not installed'),
  on: () => {
    for (const [file, text] of Object.entries(drops)) {
      fs.mkdirSync(path.dirname(file), { recursive: true });
      fs.writeFileSync(file, text);
    }
    run('systemctl', 'daemon-reload');
    run('systemctl', 'start', 'systemd-oomd');
  },
  off: () => {
    run('systemctl', 'stop', 'systemd-oomd');
    for (const file of Object.keys(drops)) fs.rmSync(file);
    run('systemctl', 'daemon-reload');
  },
});
export const peers: readonly Peer[] = [
  // Debian has ManagedOOMSwap=kill on -.slice, and acts on pressure for users alone.
  oomd('systemd-oomd as Debian installs it', {}),
  // What Fedora has for user.slice and system.slice, for the slice of the pods.
  oomd('systemd-oomd as Fedora configures it', {
    [`${UNITS}/${SLICE}.d/50-lab.conf`]: '[Slice]\nManagedOOMMemoryPressure=kill\nManagedOOMMemoryPressureLimit=80%\n',
    [OOMD_CONF]: '[OOM]\nDefaultMemoryPressureDurationSec=20s\n',
  }),
  {
    name: 'earlyoom as Debian installs it',
    missing: () => (fs.existsSync('/usr/bin/earlyoom') ? null : 'the package earlyoom is not installed'),
    on: () => void run('systemctl', 'start', 'earlyoom'),
    off: () => void run('systemctl', 'stop', 'earlyoom'),
  },
];
