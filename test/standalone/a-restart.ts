import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach } from 'vitest';
import { createClock } from '../../src/host/clock.ts';
import { type HeldUnit, loadHeld } from '../../src/standalone/held-file.ts';
import { parseManifest } from '../../src/standalone/manifest.ts';
import { createRestart, type Restart, type RestartNeeds } from '../../src/standalone/restart.ts';
import { type FakeSystemd, openFakeSystemd } from '../host/fake-systemd.ts';
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
// 10 s of back-off are 100 ms here.
export const fast = hurried(clock, 100);
export const open = (more: Partial<RestartNeeds> = {}): void => {
  const own = { clock: fast, systemd: fake.systemd, runtimeDirectory: directory, bootId };
  restart = createRestart({ ...heard, ...own, ...more });
};
beforeEach(async () => {
  onStart = () => undefined;
  fake = await openFakeSystemd((member, unit) => {
    if (member === 'StartUnit') onStart(unit);
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
export const evict = async (pod = manifest()): Promise<void> => {
  const facts = await fake.systemd.unit(UNIT);
  restart.hold(pod, UNIT, facts.known ? facts.value : null);
  await fake.systemd.stop(UNIT);
};
export const held = (): readonly HeldUnit[] => loadHeld(directory, bootId, fast).held.units;
