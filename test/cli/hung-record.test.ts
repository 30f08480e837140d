import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type HungMount, mountHungFileSystem, noHungMount } from '../host/hung-mount.ts';

const BUNDLE = join(import.meta.dirname, '../../dist/nodewarden.js');
/** Only ends a command that hangs. */
const LONGEST_MS = 60_000;

describe.skipIf(noHungMount !== null)(`a record on a file system that hangs [${noHungMount ?? 'root'}]`, () => {
  let directory: string;
  let hung: HungMount;
  beforeEach(async () => {
    directory = mkdtempSync(join(tmpdir(), 'nodewarden-hung-'));
    const state = join(directory, 'state');
    mkdirSync(state);
    const text = `apiVersion: nodewarden.dev/v1alpha1\nkind: NodewardenConfiguration\nstateDirectory: ${state}\n`;
    writeFileSync(join(directory, 'config.yaml'), text);
    hung = await mountHungFileSystem(state);
  });
  afterEach(async () => {
    await hung.release();
    rmSync(directory, { recursive: true });
  });

  it.each(['history', 'trial'])('is not read by %s, which says so', (command) => {
    const args = [BUNDLE, command, '--config', join(directory, 'config.yaml')];
    const ended = spawnSync(process.execPath, args, { encoding: 'utf8', timeout: LONGEST_MS, killSignal: 'SIGKILL' });
    expect(ended).toMatchObject({ status: 1, stdout: '', signal: null });
    expect(ended.stderr).toBe(`not read: ${directory}/state: no answer within 2 s; the mount may hang\n`);
  });
});
