import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, it } from 'vitest';
import { loadGuard } from '../../src/config/guard/load.ts';
import { planOf } from '../../src/core/guard/config.ts';
import { unknown } from '../../src/core/reading.ts';
import { createGuardReload } from '../../src/guard/reload.ts';
import { createClock } from '../../src/host/clock.ts';
import { eventually } from '../kube/eventually.ts';
import { heardParts } from '../standalone/needs.ts';

const directory = mkdtempSync(join(tmpdir(), 'nodewarden-guard-'));
const file = join(directory, 'guard.yaml');
const nodesFile = join(directory, 'nodes.yaml');
const ends: (() => void)[] = [];
afterEach(() => {
  for (const end of ends.splice(0)) end();
  rmSync(directory, { recursive: true });
});

const HEAD = `apiVersion: nodewarden.dev/v1alpha1
kind: NodewardenGuardConfiguration
dryRun: false
fencing:
  templates:
    pdu: {agent: fence_apc, parameters: {username: fencer}, secrets: {password: q}}
  nodesFile: ${nodesFile}
`;
const outlet = (dash: string, ip: string): string => `      ${dash} template: pdu
          parameters: {ip: ${ip}, plug: "1"}
`;
const node = (name: string): string =>
  `  ${name}:\n    power:\n${outlet('- -', `${name}-a`)}${outlet('  -', `${name}-b`)}`;
const FULL = `nodes:\n${node('w1')}${node('w2')}${node('w3')}`;

it('a nodesFile that is cut off between two lines fences nobody by what is left of it, and is said', async () => {
  writeFileSync(file, HEAD);
  writeFileSync(nodesFile, FULL);
  const metadata = async () => unknown('not-asked', 'metadata', '');
  const { effective } = await loadGuard(file, metadata);
  if (effective === null) throw new Error('not loaded');
  const { findings, log, present } = heardParts();
  let names = ['w1', 'w2', 'w3', 'w4'];
  const reload = createGuardReload({
    ...{ clock: createClock(), log, findings, file, started: effective, metadata },
    open: () => [],
    nodes: () => names,
    changed: () => undefined,
  });
  ends.push(reload.close);
  const plans = () => names.map((name) => planOf(reload.inForce().core, name)?.levels[0]?.length ?? 0);
  expect(plans()).toEqual([2, 2, 2, 0]);
  writeFileSync(nodesFile, FULL.split('\n').slice(0, -9).join('\n').concat('\n'));
  await eventually(() => expect(plans()).toEqual([2, 0, 0, 0]));
  expect(present.get('guard-devices-fewer')).toContain('fewer devices for w2: ');
  expect(present.get('guard-devices-gone')).toContain('any more for w3: ');
  names = ['w1', 'w2', 'w4'];
  reload.looked();
  expect(present.has('guard-devices-gone')).toBe(false);
  expect(present.has('guard-devices-fewer')).toBe(true);
  writeFileSync(nodesFile, FULL);
  await eventually(() => expect(plans()).toEqual([2, 2, 0]));
  expect([...present.keys()]).toEqual([]);
});
