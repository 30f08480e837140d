import { mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { known } from '../../src/core/reading.ts';
import { aKubeSource } from './a-kube-source.ts';

it('of cgroups that cannot be read, nobody knows which pods run; where there are none, none runs', () => {
  const memory = mkdtempSync(join(tmpdir(), 'nodewarden-'));
  onTestFinished(() => rmSync(memory, { recursive: true }));
  const mounts = { layout: 'v2', version: 2, unified: memory, memory, pids: memory, systemd: memory } as const;
  const source = aKubeSource({ mounts, cgroupRoot: '/', configuredDriver: 'cgroupfs' });
  expect(source.allRunning()).toEqual(known([]));
  mkdirSync(join(memory, 'kubepods'));
  symlinkSync('burstable', join(memory, 'kubepods/burstable'));
  expect(source.allRunning()).toMatchObject({ known: false, where: expect.stringContaining('burstable') });
});
