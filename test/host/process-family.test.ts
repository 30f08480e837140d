import { spawn } from 'node:child_process';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { createClock } from '../../src/host/clock.ts';
import { familyOf, tellsInArguments } from '../../src/host/process/process-family.ts';

const FOR_MS = 2_000;

it('a program that takes the place of one with a secret in its arguments is not named for it', () => {
  const directory = mkdtempSync(join(tmpdir(), 'nodewarden-family-'));
  const tool = join(directory, 'tool');
  // Each of its children has its arguments until it becomes another program.
  writeFileSync(tool, '#!/bin/sh\nwhile :; do /bin/true; done\n');
  chmodSync(tool, 0o755);
  const child = spawn(tool, ['geheim-4711'], { stdio: 'ignore' });
  const names = new Set<string>();
  const clock = createClock();
  const untilMs = clock.monoMs() + FOR_MS;
  while (clock.monoMs() < untilMs) {
    for (const pid of familyOf(child.pid ?? 0)) {
      const name = tellsInArguments(pid, ['geheim-4711']);
      if (name !== null) names.add(name);
    }
  }
  child.kill('SIGKILL');
  rmSync(directory, { recursive: true });
  expect([...names]).toEqual(['tool']);
});
