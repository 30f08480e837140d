import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { sleep } from '../../src/host/clock.ts';
import type { DecisionRecord } from '../../src/record/entry.ts';
import { askDaemon } from '../../src/serve/ask.ts';
import { installedAgent } from './agent.ts';
import { clock, until } from './scene.ts';

/** What needs systemd as PID 1 and the installed service. */
export type UnitCheck = { readonly name: string; readonly body: () => Promise<string> };

const UNITS = '/run/systemd/system';
const LOAD = path.join(import.meta.dirname, 'load.pl');
const SLICE_MIB = 384;
/** So long pressure lasts after the eviction; Restart=always would have brought the unit back 20 times. */
const PRESSURE_MS = 6_000;
/** Transition period 2 s, the agent's back-off 10 s, and an emulated machine. */
const BACK_DEADLINE_MS = 45_000;

const systemctl = (...args: readonly string[]): string => {
  try {
    return execFileSync('systemctl', args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] }).trim();
  } catch (error) {
    // is-active says "inactive" with status 3.
    if (error instanceof Error && 'stdout' in error) return String(error.stdout).trim();
    throw error;
  }
};
const isActive = (unit: string): boolean => systemctl('is-active', unit) === 'active';

function writeUnits(): readonly string[] {
  const service = (commands: readonly string[]): string =>
    `[Service]\nSlice=lab.slice\nRestart=always\nRestartSec=200ms\nExecStart=/usr/bin/perl ${LOAD} ${commands.map((command) => `"${command}"`).join(' ')} stay\n[Unit]\nStartLimitIntervalSec=0\n`;
  const files = new Map([
    ['lab.slice', `[Slice]\nMemoryMax=${SLICE_MIB}M\nMemorySwapMax=0\n`],
    ['lab-web.service', service(['memory 40'])],
    // Nobody's pod: the agent can do nothing about it.
    ['lab-eater.service', service(['memory 300'])],
  ]);
  for (const [name, text] of files) fs.writeFileSync(path.join(UNITS, name), text);
  systemctl('daemon-reload');
  return [...files.keys()];
}

const MANIFEST = `apiVersion: v1
kind: Pod
metadata:
  name: web
  namespace: lab
  annotations: { nodewarden.dev/systemd-unit: lab-web.service }
spec:
  containers: [{ name: main }]
`;
const CONFIG = `apiVersion: nodewarden.dev/v1alpha1
kind: NodewardenConfiguration
cgroupRoot: /lab.slice
evictionHard: { memory.available: "100Mi" }
evictionPressureTransitionPeriod: 2s
`;

async function hasMemoryPressure(socket: string): Promise<boolean> {
  const asked = await askDaemon(socket, { ask: 'status' }, clock);
  assert(asked.kind === 'answer', `no status: ${asked.kind}`);
  return JSON.stringify(asked.answer).includes('"MemoryPressure":true');
}

/** Runs `body` with the units made, the agent watching them and lab-web active; removes all of it. */
async function withUnits(body: (socket: string) => Promise<string>): Promise<string> {
  const agent = installedAgent();
  const units = writeUnits();
  try {
    fs.writeFileSync(agent.places.configFile, CONFIG);
    fs.writeFileSync(path.join(agent.places.manifests, 'web.yaml'), MANIFEST);
    systemctl('start', 'lab-web.service');
    await agent.start();
    return await body(agent.places.socket);
  } finally {
    systemctl('stop', ...units);
    await agent.close();
    for (const unit of units) fs.rmSync(path.join(UNITS, unit));
    systemctl('daemon-reload');
  }
}

const staysDown: UnitCheck = {
  name: 'a unit with Restart=always stays down while the pressure lasts, and is restarted afterwards',
  body: () =>
    withUnits(async (socket) => {
      const before = systemctl('show', '-P', 'InvocationID', 'lab-web.service');
      systemctl('start', 'lab-eater.service');
      await until('lab-web is stopped', () => !isActive('lab-web.service') || null);
      const endMs = clock.monoMs() + PRESSURE_MS;
      let looks = 0;
      for (; clock.monoMs() < endMs; looks++) {
        assert(!isActive('lab-web.service'), 'it came back under pressure');
        assert(await hasMemoryPressure(socket), 'the pressure is over: this check proves nothing');
        await sleep(clock, 200);
      }
      systemctl('stop', 'lab-eater.service');
      const calmMs = clock.monoMs();
      await until('lab-web is active again', () => isActive('lab-web.service') || null, BACK_DEADLINE_MS);
      const backMs = clock.monoMs() - calmMs;
      assert.notEqual(systemctl('show', '-P', 'InvocationID', 'lab-web.service'), before);
      const history: { readonly decisions: readonly DecisionRecord[] } = JSON.parse(
        execFileSync('nodewarden', ['history', '-o', 'json', '--evictions'], { encoding: 'utf8' }),
      );
      assert.deepEqual(
        history.decisions.map(({ decision, outcomes }) => [decision.kind, outcomes[0]?.kind]),
        [['evict', 'ended']],
      );
      return `down at ${looks} looks in ${PRESSURE_MS / 1000} s of pressure, active ${(backMs / 1000).toFixed(1)} s after it`;
    }),
};

export const unitChecks: readonly UnitCheck[] = [staysDown];
