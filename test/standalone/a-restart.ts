import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach } from 'vitest';
import { known } from '../../src/core/reading.ts';
import { createClock } from '../../src/host/clock.ts';
import { parseManifest } from '../../src/standalone/manifests/manifest.ts';
import { type HeldUnit, loadHeld } from '../../src/standalone/restart/held-file.ts';
import type { RestartNeeds } from '../../src/standalone/restart/needs.ts';
import { createRestart, type Restart } from '../../src/standalone/restart/restart.ts';
import { type FakeSystemd, openFakeSystemd } from '../host/fake-systemd.ts';
import { until } from '../host/private-bus.ts';
import { heardParts, hurried } from './needs.ts';

export const UNIT = 'web.service';
export const bootId = 'this-boot';
export const clock = createClock();

export function manifest(more = '', limits = '{ requests: { memory: 1Mi } }') {
  const text = `apiVersion: v1\nkind: Pod\nmetadata:\n  name: web\n  annotations:\n    nodewarden.dev/systemd-unit: ${UNIT}\n${more}spec:\n  containers: [{ name: a, resources: ${limits} }]\n`;
  const [pod] = parseManifest(text, 'web.yaml').pods;
  if (pod === undefined) throw new Error('no pod');
  return pod;
}

/** Of the test that runs: made before it and removed after it, for whoever imports this file. */
export let fake: FakeSystemd;
export let directory: string;
export let heard: ReturnType<typeof heardParts>;
export let restart: Restart;
let onStart: (unit: string) => void;
let onStop: (unit: string) => void;
// 10 s of back-off are 100 ms here.
export const fast = hurried(clock, 100);
/** Before the first look. */
export const openUnseen = (more: Partial<RestartNeeds> = {}): void => {
  const own = { clock: fast, systemd: fake.systemd, runtimeDirectory: directory, bootId };
  restart = createRestart({ ...heard, ...own, ...more });
};
export const open = (more: Partial<RestartNeeds> = {}): void => {
  openUnseen(more);
  restart.looked();
};
beforeEach(async () => {
  onStart = () => undefined;
  onStop = () => undefined;
  fake = await openFakeSystemd((member, unit) => {
    if (member === 'StartUnit') onStart(unit);
    if (member === 'StopUnit') onStop(unit);
    return null;
  });
  directory = mkdtempSync(join(tmpdir(), 'nodewarden-held-'));
  heard = heardParts();
  fake.units.set(UNIT, { activeState: 'active', invocation: 1, controlGroup: '/x', loadState: 'loaded' });
  open();
});
afterEach(async () => {
  await restart.close();
  await fake.remove();
  rmSync(directory, { recursive: true });
});
/** When systemd is asked to start a unit. */
export const whenStarted = (run: (unit: string) => void): void => {
  onStart = run;
};
/** When systemd is asked to stop a unit: what it stops along is stopped at once. */
export const whenStopped = (run: (unit: string) => void): void => {
  onStop = run;
};
/** As right before its stop. */
export const hold = async (unit = UNIT, pod = manifest()): Promise<void> => {
  const facts = await fake.systemd.unit(unit);
  restart.hold(pod, unit, facts.known ? facts.value : null);
};
export const evict = async (pod = manifest()): Promise<void> => {
  await hold(UNIT, pod);
  await fake.systemd.stop(UNIT);
};
/** So many are held, and their stops are over. */
export const areDown = (count: number): Promise<void> =>
  until(() => held().length === count && held().every(({ asked }) => asked === null));
/** It stays down once its stop is over. */
export const evictUnderPressure = async (): Promise<void> => {
  restart.setCondition('MemoryPressure', true);
  await evict();
  await areDown(1);
};
/** The same with another unit, in its seventh run, that systemd stops along. */
export const evictWith = async (other: string): Promise<void> => {
  await restart.close();
  open({
    stopsAlong: () => [{ unit: other, manifest: null }],
    currentRun: (unit) => known(unit === UNIT ? '01' : '07'),
  });
  restart.setCondition('MemoryPressure', true);
  await evict();
  fake.byOthers('stop', other);
  await areDown(2);
};
export const held = (): readonly HeldUnit[] => loadHeld(directory, bootId, fast).held.units;
