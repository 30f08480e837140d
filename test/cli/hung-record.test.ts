import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type HungMount, mountHungFileSystem, noHungMount } from '../host/hung-mount.ts';
import { mountSlowFileSystem, OPEN, READDIR, type SlowMount } from '../host/slow-mount.ts';
import { clock } from '../host/test-cgroup.ts';

const BUNDLE = join(import.meta.dirname, '../../dist/nodewarden.js');
/** Only ends a command that hangs. */
const LONGEST_MS = 60_000;
const run = (...args: readonly string[]) =>
  spawnSync(process.execPath, [BUNDLE, ...args], { encoding: 'utf8', timeout: LONGEST_MS, killSignal: 'SIGKILL' });

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
    const ended = run(command, '--config', join(directory, 'config.yaml'));
    expect(ended).toMatchObject({ status: 1, stdout: '', signal: null });
    expect(ended.stderr).toBe(`not read: ${directory}/state: no answer within 2 s; the mount may hang\n`);
  });
});

describe.skipIf(noHungMount !== null)(`manifests in a directory that hangs [${noHungMount ?? 'root'}]`, () => {
  let directory: string;
  let mounted: SlowMount;
  beforeEach(async () => {
    directory = mkdtempSync(join(tmpdir(), 'nodewarden-hung-'));
    for (const name of ['pods.d', 'state']) mkdirSync(join(directory, name), { mode: 0o750 });
    const own = ['stateDirectory: state', 'podManifests: pods.d', 'socket: nw.sock', 'runtimeDirectory: run'];
    const text = own.map((line) => `${line.replace(': ', `: ${directory}/`)}\n`).join('');
    writeFileSync(
      join(directory, 'config.yaml'),
      `apiVersion: nodewarden.dev/v1alpha1\nkind: NodewardenConfiguration\nmode: standalone\n${text}`,
    );
    mounted = await mountSlowFileSystem(join(directory, 'pods.d'));
  });
  afterEach(() => {
    mounted.release();
    rmSync(directory, { recursive: true });
  });
  const HANGS = 'no answer within 2 s; the mount may hang';

  // No signal ends a call that the file system has taken.
  it.each([
    ['does not answer', 'delay 100'],
    ['answers all but its listing', `hang ${READDIR}`],
  ])('are reported at once if it %s', (_, ordered) => {
    mounted.order(ordered);
    const startMs = clock.monoMs();
    const checked = run('config', 'check', join(directory, 'config.yaml'));
    expect(checked).toMatchObject({ status: 2, signal: null });
    expect(checked.stderr).toBe(`${directory}/pods.d: ${HANGS}\n1 error\n`);
    const looked = run('doctor', '--config', join(directory, 'config.yaml'));
    expect(looked.signal).toBe(null);
    expect(looked.stdout).toMatch(/not known whether the manifests are valid: .*pods\.d: no answer within 2 s/);
    expect(clock.monoMs() - startMs).toBeLessThan(60_000);
  });

  const manifest = (name: string, of = 'spec: { containers: [{ name: main }] }'): void => {
    const binding = `{ nodewarden.dev/systemd-unit: nodewarden-test-${name}.service }`;
    const text = `apiVersion: v1\nkind: Pod\nmetadata: { name: ${name}, annotations: ${binding} }\n${of}\n`;
    writeFileSync(join(mounted.backing, `${name}.yaml`), text, { mode: 0o644 });
  };

  it('are checked but for those that do not answer, which are named', () => {
    for (const name of ['a', 'b', 'c']) manifest(name);
    manifest('d', 'spec: 7');
    mounted.order(`hang ${OPEN} b.yaml`);
    const file = `${directory}/pods.d/b.yaml`;
    const startMs = clock.monoMs();
    const checked = run('config', 'check', join(directory, 'config.yaml'));
    expect(checked).toMatchObject({ status: 2, signal: null });
    expect(checked.stderr).toContain(`${file}: ${HANGS}\n`);
    expect(checked.stderr).toContain(`${directory}/pods.d/d.yaml:4:7: spec: `);
    expect(run('config', 'check', file)).toMatchObject({
      status: 2,
      signal: null,
      stderr: `${file}: ${HANGS}\n1 error\n`,
    });
    const looked = run('doctor', '--config', join(directory, 'config.yaml'));
    expect(looked.signal).toBe(null);
    expect(looked.stdout).toMatch(/not known whether the manifests are valid: .*b\.yaml: no answer within 2 s/);
    expect(clock.monoMs() - startMs).toBeLessThan(60_000);
  });

  it('are read by doctor for a few seconds, however many are slow', () => {
    for (let i = 0; i < 40; i++) manifest(`p${i}`);
    mounted.order('delay 0.1');
    const startMs = clock.monoMs();
    const looked = run('doctor', '--config', join(directory, 'config.yaml'));
    expect(looked.signal).toBe(null);
    expect(looked.stdout).toMatch(/not known whether the manifests are valid: .*not all of them were read within 3 s/);
    expect(clock.monoMs() - startMs).toBeLessThan(30_000);
  });
});
