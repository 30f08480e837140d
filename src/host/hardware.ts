import { known, type Reading, sayCause, unknown } from '../core/reading.ts';
import type { Clock } from '../ports.ts';
import { within } from './clock.ts';

/** What people want to know about a machine. No decision depends on it. */
export type HostFacts = {
  readonly hostname: string;
  readonly distribution: string;
  readonly kernel: string;
  readonly architecture: string;
  readonly machine: string;
  readonly isVirtual: boolean;
  readonly cpu: string;
  readonly cpuCores: number;
  readonly disks: readonly {
    readonly name: string;
    readonly kind: string;
    readonly fileSystem: string;
    readonly mount: string;
    readonly sizeBytes: number;
  }[];
};

/** The package runs lscpu, lsblk, dmidecode and others as children, which can hang on a sick disk. */
const DEADLINE_MS = 10_000;
const DISKS_SHOWN = 64;

/**
 * Facts about this host from systeminformation, queried once, on first use, and kept. Never on the path of a decision and
 * never on a timer, since each call forks (12 to 15 children for `osInfo` and `system`).
 */
export function createHostFacts(clock: Clock): () => Promise<Reading<HostFacts>> {
  let asked: Promise<Reading<HostFacts>> | null = null;
  return () => {
    asked ??= within(clock, DEADLINE_MS, readFacts(), () =>
      unknown('timed-out', 'systeminformation', `no answer within ${DEADLINE_MS / 1_000} s`),
    );
    return asked;
  };
}

async function readFacts(): Promise<Reading<HostFacts>> {
  try {
    const { blockDevices, cpu, osInfo, system } = await import('systeminformation');
    const [os, machine, processor, devices] = await Promise.all([osInfo(), system(), cpu(), blockDevices()]);
    return known({
      hostname: os.hostname,
      distribution: `${os.distro} ${os.release}`.trim(),
      kernel: os.kernel,
      architecture: os.arch,
      machine: `${machine.manufacturer} ${machine.model}`.trim(),
      isVirtual: machine.virtual === true,
      cpu: `${processor.manufacturer} ${processor.brand}`.trim(),
      cpuCores: processor.cores,
      disks: devices.slice(0, DISKS_SHOWN).map((device) => ({
        name: device.name,
        kind: device.type,
        fileSystem: device.fsType,
        mount: device.mount,
        sizeBytes: device.size,
      })),
    });
  } catch (error) {
    return unknown('unreadable', 'systeminformation', sayCause(error));
  }
}
