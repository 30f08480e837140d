import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach } from 'vitest';
import { createHasten } from '../../src/act/hasten.ts';
import { createClock, readBootId } from '../../src/host/clock.ts';
import type { StopOrder } from '../../src/ports.ts';
import { openStandalone, type Standalone } from '../../src/standalone/open.ts';
import { loadStops, type StoppedPod, saveStops } from '../../src/standalone/stop/stops-file.ts';
import { makeCgroup, mounts, needsCgroups, type TestCgroup } from '../act/a-cgroup.ts';
import { type FakeSystemd, openFakeSystemd } from '../host/fake-systemd.ts';
import { type Answer, orDbusDaemon, until } from '../host/private-bus.ts';
import { heardParts, placedIn } from './needs.ts';

export const clock = createClock();
const boot = readBootId();
export const bootId = boot.known ? boot.value : '';
const IGNORES = "trap '' TERM; echo up; while :; do sleep 1000; done";
export const needs = orDbusDaemon(needsCgroups);

// Of the test that runs: made before it and removed after it, for whoever imports this file.
export let directory: string;
export let heard: ReturnType<typeof heardParts>;
export let cgroups: TestCgroup[];
export let fake: FakeSystemd;
export let standalone: Standalone;
/** What a test wants systemd to do before it answers. */
export const does: { react: (member: string, unit: string, body: readonly unknown[], path?: string) => Answer | null } =
  {
    react: () => null,
  };
beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), 'nodewarden-shutdown-'));
  mkdirSync(join(directory, 'pods.d'));
  heard = heardParts();
  cgroups = [];
  does.react = () => null;
  fake = await openFakeSystemd((...asked) => does.react(...asked));
});
afterEach(async () => {
  await standalone.close();
  await fake.remove();
  for (const cgroup of cgroups) await cgroup.remove();
  rmSync(directory, { recursive: true });
});

/** A pod with processes of its own, bound to its cgroup or to a unit of its name. */
export const addPod = async (name: string, by: 'unit' | 'cgroup', script = IGNORES): Promise<TestCgroup> => {
  const cgroup = makeCgroup();
  cgroups.push(cgroup);
  await cgroup.run(script);
  const unit = `${name}.service`;
  const controlGroup = cgroup.path;
  if (by === 'unit') {
    fake.units.set(unit, { activeState: 'active', invocation: 1, controlGroup, loadState: 'loaded' });
  }
  const annotation = by === 'unit' ? `systemd-unit: ${unit}` : `cgroup: ${cgroup.path}`;
  writeFileSync(
    join(directory, 'pods.d', `${name}.yaml`),
    `apiVersion: v1\nkind: Pod\nmetadata:\n  name: ${name}\n  annotations:\n    nodewarden.dev/${annotation}\nspec: { containers: [{ name: a }] }\n`,
  );
  return cgroup;
};
export const podOf = (name: string) => {
  const pods = standalone.pods.pods();
  return pods.known ? pods.value.find(({ declared }) => declared.name === name) : undefined;
};
export const openParts = async (dry: boolean): Promise<void> => {
  if (mounts === null) return;
  const { systemd } = fake;
  standalone = openStandalone({ ...heard, ...placedIn(directory), clock, mounts, systemd, dry });
  await standalone.pods.opened?.();
};
export const open = async (...names: readonly string[]): Promise<void> => {
  await openParts(false);
  await until(() => names.every((name) => podOf(name)?.cgroup.known));
};
export const stop = (name: string, more: Partial<StopOrder> = {}) => {
  const { uid = '', namespace = '', qos = 'Burstable', priority = 0 } = podOf(name)?.declared ?? {};
  const order: StopOrder = {
    decision: `stop-${name}`,
    victim: { uid, namespace, name, qos, priority },
    graceMs: 300,
    why: 'shutdown',
    isHard: false,
    resumedFromMs: null,
    first: 'sigterm',
    givesBack: 'memory',
    ...more,
  };
  return standalone.killer.stop(order, createHasten(clock));
};
export const remembered = (): readonly StoppedPod[] => loadStops(directory, bootId, clock).pods;
export const noted = (name: string, stage: StoppedPod['stage'], more: Partial<StoppedPod> = {}): StoppedPod => ({
  decision: `stop-${name}`,
  uid: podOf(name)?.declared.uid ?? '',
  pod: `default/${name}`,
  unit: `${name}.service`,
  cannot: null,
  invocationId: '01',
  activeState: 'active',
  stage,
  graceEndsMs: clock.monoMs() + 300,
  ...more,
});
/** As an earlier run of the agent left it. */
export const reopen = async (left: readonly StoppedPod[], ...names: readonly string[]): Promise<void> => {
  await standalone.close();
  saveStops(directory, bootId, left);
  await open(...names);
};
