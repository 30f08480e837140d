import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach } from 'vitest';
import { unknown } from '../../src/core/reading.ts';
import { createClock } from '../../src/host/clock.ts';
import type { Systemd } from '../../src/host/systemd/systemd.ts';
import type { Clock, StopOrder } from '../../src/ports.ts';
import { parseManifest } from '../../src/standalone/manifests/manifest.ts';
import type { LivePod } from '../../src/standalone/pods/source.ts';
import { createShutdownGrace } from '../../src/standalone/stop/shutdown-grace.ts';
import { createShutdownStops, type ShutdownStops } from '../../src/standalone/stop/shutdown-stops.ts';
import { type FakeSystemd, openFakeSystemd } from '../host/fake-systemd.ts';
import { until } from '../host/private-bus.ts';
import { heardParts } from './needs.ts';

export const clock = createClock();

/** Of the test that runs: made before it and removed after it, for whoever imports this file. */
export let fake: FakeSystemd;
export let directory: string;
let opened: ShutdownStops[];
/** What each unit was last told to be, by name. */
export let toldStates: Map<string, string>;
export const held = new Set<string>();
export const alive = new Set<string>();
beforeEach(async () => {
  fake = await openFakeSystemd();
  directory = mkdtempSync(join(tmpdir(), 'nodewarden-undo-'));
  opened = [];
  toldStates = new Map();
  held.clear();
  alive.clear();
});
afterEach(async () => {
  for (const stops of opened) stops.close();
  await fake.remove();
  rmSync(directory, { recursive: true });
});

export const heeded = (): Systemd => ({
  ...fake.systemd,
  unit: async (name) => {
    const facts = await fake.systemd.unit(name);
    if (facts.known) toldStates.set(name, facts.value.activeState);
    return facts;
  },
  activeState: async (name) => {
    const state = await fake.systemd.activeState(name);
    if (state.known) toldStates.set(name, state.value);
    return state;
  },
});
export const open = (more: { readonly clock?: Clock; readonly systemd?: Systemd } = {}): ShutdownStops => {
  const restart = { isHeld: (unit: string) => held.has(unit) };
  const isAlive = (uid: string): boolean => alive.has(uid);
  const fixed = {
    ...heardParts(),
    runtimeDirectory: directory,
    bootId: 'this-boot',
    restart,
    isAlive,
    isIdle: () => false,
    others: (unit: string) => (unit === 'shop.slice' ? ['till.service', 'guest.scope'] : []),
  };
  const stops = createShutdownStops({ clock, systemd: heeded(), ...fixed, ...more });
  opened.push(stops);
  return stops;
};
export const live = async (name: string, annotation: string, unit: string | null): Promise<LivePod> => {
  const text = `apiVersion: v1\nkind: Pod\nmetadata:\n  name: ${name}\n  uid: ${name}\n  annotations:\n    nodewarden.dev/${annotation}\nspec: { containers: [{ name: a }] }\n`;
  const [manifest] = parseManifest(text, `${name}.yaml`).pods;
  if (manifest === undefined) throw new Error('no pod');
  const facts = unit === null ? null : await fake.systemd.unit(unit);
  return {
    manifest,
    cgroup: unknown('absent', name, ''),
    path: null,
    unit,
    facts: facts?.known ? facts.value : null,
  };
};
export const liveUnit = (name: string): Promise<LivePod> =>
  live(name, `systemd-unit: ${name}.service`, `${name}.service`);
export const order = ({ manifest: { declared } }: LivePod): StopOrder => ({
  decision: `stop-${declared.name}`,
  victim: declared,
  graceMs: 1_000,
  why: 'shutdown',
  isHard: false,
  resumedFromMs: null,
  first: 'sigterm',
  givesBack: 'memory',
});
export const request = (stops: ShutdownStops, pod: LivePod): ReturnType<ShutdownStops['request']> => {
  const needs = { clock, cancel: stops.cancel(), isAwaited: () => false, declaredMs: 0 };
  return stops.request(pod, order(pod), createShutdownGrace(needs, order(pod)));
};
export const addUnit = (name: string, activeState = 'active', loadState = 'loaded'): void =>
  void fake.units.set(`${name}.service`, { activeState, invocation: 1, controlGroup: '/x', loadState });
export const stateOf = (name: string): string => fake.units.get(`${name}.service`)?.activeState ?? '';
export const isSeen = (name: string, state: string): boolean => toldStates.get(`${name}.service`) === state;

/** Stops it, and waits until it is down. */
export const stop = async (stops: ShutdownStops, name: string): Promise<void> => {
  const pod = await liveUnit(name);
  await request(stops, pod)?.();
  // What somebody else was stopping.
  if (stateOf(name) === 'deactivating' && !fake.asked().includes(`StopUnit ${name}.service`)) {
    fake.byOthers('stop', `${name}.service`);
  }
  await until(() => ['inactive', 'failed'].includes(stateOf(name)));
  await until(() => isSeen(name, stateOf(name)));
  stops.ended(order(pod), 'ended');
};
/** What becomes of a unit before the cancel. */
export type Others = 'nothing' | 'stop' | 'start' | 'start and stop';
export const byOthers = async (name: string, others: Others): Promise<void> => {
  const unit = `${name}.service`;
  const jobs = { nothing: [], stop: ['stop'], start: ['start'], 'start and stop': ['start', 'stop'] } as const;
  for (const job of jobs[others]) {
    let isDone = false;
    const end = fake.systemd.whenJobEnds((ended) => {
      isDone ||= ended.unit === unit;
    });
    // Its answer comes once the rule for the signal is in force, and after the end of an earlier job.
    await fake.systemd.activeState(unit);
    isDone = false;
    fake.byOthers(job, unit);
    await until(() => isDone);
    end();
  }
};
