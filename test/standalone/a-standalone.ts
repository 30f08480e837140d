import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach } from 'vitest';
import { createHasten } from '../../src/act/hasten.ts';
import type { SurvivorMemory } from '../../src/act/survivors.ts';
import { createClock } from '../../src/host/clock.ts';
import { openSystemBus, type SystemBus } from '../../src/host/systemd/bus.ts';
import { createSystemd, type Systemd } from '../../src/host/systemd/systemd.ts';
import type { CommandRunner } from '../../src/host/systemd/transient.ts';
import type { BoundPod, Clock, StopOrder } from '../../src/ports.ts';
import { openStandalone, type Standalone } from '../../src/standalone/open.ts';
import { makeCgroup, mounts, type TestCgroup } from '../act/a-cgroup.ts';
import type { FakeSystemd } from '../host/fake-systemd.ts';
import { heardParts, placedIn } from './needs.ts';

export const clock = createClock();
export const IGNORES = "trap '' TERM; echo up; while :; do sleep 1000; done";
export const HELD_MIB = 40;
/** The same with so much memory of its own. */
export const HOLDS = `exec perl -e '$SIG{TERM} = "IGNORE"; $| = 1; my @held = map { "x" x ${1024 ** 2} } 1 .. ${HELD_MIB}; print "up\\n"; sleep 1000 while 1'`;

/** Of the test that runs: made before it and removed after it, for whoever imports this file. */
export let directory: string;
export let heard: ReturnType<typeof heardParts>;
let cgroups: TestCgroup[];
export let standalone: Standalone;
let bus: SystemBus;
let fake: FakeSystemd | null;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'nodewarden-pods-'));
  mkdirSync(join(directory, 'pods.d'));
  heard = heardParts();
  cgroups = [makeCgroup(), makeCgroup()];
  fake = null;
  bus = openSystemBus(clock, { DBUS_SYSTEM_BUS_ADDRESS: `unix:path=${directory}/no-bus` });
});
afterEach(async () => {
  await standalone.close();
  bus.close();
  await fake?.remove();
  for (const cgroup of cgroups) await cgroup.remove();
  rmSync(directory, { recursive: true });
});
export const cgroup = (i: number): TestCgroup => {
  const found = cgroups[i];
  if (found === undefined) throw new Error('no such cgroup');
  return found;
};
export const write = (name: string, annotation: string, more = ''): void =>
  writeFileSync(
    join(directory, 'pods.d', `${name}.yaml`),
    `apiVersion: v1\nkind: Pod\nmetadata:\n  name: ${name}\n  annotations:\n    nodewarden.dev/${annotation}\n${more}spec: { containers: [{ name: a }] }\n`,
  );
export const open = async (
  more: {
    readonly clock?: Clock;
    readonly wake?: () => void;
    readonly systemd?: Systemd;
    readonly cgroupRoot?: string;
    readonly run?: CommandRunner;
    readonly memory?: SurvivorMemory;
  } = {},
): Promise<void> => {
  if (mounts === null) return;
  const systemd = createSystemd(bus);
  standalone = openStandalone({ ...heard, ...placedIn(directory), clock, mounts, systemd, ...more });
  await standalone.pods.opened?.();
  standalone.looked?.();
};
export const pods = (): readonly BoundPod[] => {
  const reading = standalone.pods.pods();
  return reading.known ? reading.value : [];
};
export const podOf = (name: string): BoundPod => {
  const found = pods().find(({ declared }) => declared.name === name);
  if (found === undefined) throw new Error(`no pod ${name}`);
  return found;
};
/** False also while its manifest is not read yet. */
export const runs = (name: string): boolean =>
  pods().some(({ declared, cgroup }) => declared.name === name && cgroup.known);
export const order = (name: string, more: Partial<StopOrder> = {}): StopOrder => {
  const { cgroup: at, declared, isBetweenRuns } = podOf(name);
  const { uid, namespace, qos, priority, boundTo } = declared;
  const bound = boundTo === undefined ? {} : { boundTo };
  const measured = at.known ? { cgroupInode: at.value.inode, cgroupPath: at.value.path } : {};
  const waits = isBetweenRuns ? { isBetweenRuns } : {};
  const victim = { uid, namespace, name, qos, priority, ...bound, ...measured, ...waits };
  return {
    decision: 'd1',
    victim,
    graceMs: 200,
    why: 'eviction',
    isHard: false,
    resumedFromMs: null,
    first: 'sigterm',
    givesBack: 'memory',
    ...more,
  };
};
export const stop = (name: string, more: Partial<StopOrder> = {}) =>
  standalone.killer.stop(order(name, more), createHasten(clock));
/** As before a choice. */
export const podsAtChoice = async (): Promise<readonly BoundPod[]> => {
  await standalone.pods.freshen?.();
  return pods();
};
/** Instead of a bus without systemd; removed after the test. */
export const useSystemd = (made: FakeSystemd): void => {
  bus.close();
  fake = made;
  bus = made.bus;
};
