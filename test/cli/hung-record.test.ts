import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
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
    expect(ended.stderr).toBe(
      `not read: ${directory}/state: no answer within 2 s; the mount may hang, or the machine is very busy\n`,
    );
  });
});

describe.skipIf(noHungMount !== null)(
  `directories of pods on a file system that hangs [${noHungMount ?? 'root'}]`,
  () => {
    let directory: string;
    let hung: HungMount;
    beforeEach(async () => {
      directory = mkdtempSync(join(tmpdir(), 'nodewarden-hung-'));
      for (const name of ['pods.d', 'state', 'data']) mkdirSync(join(directory, name), { mode: 0o750 });
      const own = ['stateDirectory: state', 'podManifests: pods.d', 'socket: nw.sock', 'runtimeDirectory: run'];
      const places = own.map((line) => `${line.replace(': ', `: ${directory}/`)}\n`).join('');
      writeFileSync(
        join(directory, 'config.yaml'),
        `apiVersion: nodewarden.dev/v1alpha1\nkind: NodewardenConfiguration\nmode: standalone\n${places}`,
      );
      hung = await mountHungFileSystem(join(directory, 'data'));
    });
    afterEach(async () => {
      await hung.release();
      rmSync(directory, { recursive: true });
    });

    it.each([
      ['disk', 'data/web'],
      ['scratch', 'data/web'],
      ['disk', 'link'],
    ])('are named by doctor and config check, which end: %s at %s', (annotation, place) => {
      symlinkSync(`${directory}/data/web`, `${directory}/link`);
      const [file, data] = [`${directory}/pods.d/web.yaml`, `${directory}/${place}`];
      const annotations = `{ nodewarden.dev/cgroup: nodewarden-test-absent, nodewarden.dev/${annotation}: "${data}" }`;
      const text = `apiVersion: v1\nkind: Pod\nmetadata: { name: web, annotations: ${annotations} }\nspec: { containers: [{ name: main }] }\n`;
      writeFileSync(file, text, { mode: 0o644 });
      const looked = run('doctor', '--config', join(directory, 'config.yaml'));
      expect(looked.signal).toBe(null);
      expect(looked.stdout).toContain(
        `not known whether the disk usage of every pod is known: ${data}: no answer within`,
      );
      const checked = run('config', 'check', join(directory, 'config.yaml'));
      expect(checked).toMatchObject({ status: 0, signal: null });
      expect(checked.stdout).toContain(
        `["nodewarden.dev/${annotation}"]: nothing is known of the directory ${data}: no answer within`,
      );
      const unknown = `not known whether scratch directories would be emptied: ${data}: no answer within`;
      expect(looked.stdout.includes(unknown)).toBe(annotation === 'scratch');
    });

    it('make them say nothing of others that they did not ask because of those', () => {
      for (const [i, place] of ['data/a', 'data/b', 'good', 'c', 'd', 'e'].entries()) {
        const annotations = `{ nodewarden.dev/cgroup: nodewarden-test-${i}, nodewarden.dev/scratch: "${directory}/${place}" }`;
        const text = `apiVersion: v1\nkind: Pod\nmetadata: { name: web-${i}, annotations: ${annotations} }\nspec: { containers: [{ name: main }] }\n`;
        writeFileSync(`${directory}/pods.d/web-${i}.yaml`, text, { mode: 0o644 });
      }
      const looked = run('doctor', '--config', join(directory, 'config.yaml'));
      expect(looked.stdout).toContain('not known whether scratch directories would be emptied: ');
      expect(looked.stdout).not.toContain('would not be emptied');
      const checked = run('config', 'check', join(directory, 'config.yaml'));
      expect(checked.stdout).toContain(`nothing is known of the directory ${directory}/data/a: `);
      expect(checked.stdout).not.toContain('would not be emptied');
    });
  },
);

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
  const HANGS = 'no answer within 2 s; the mount may hang, or the machine is very busy';

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
    const adopted = run('adopt', '--config', join(directory, 'config.yaml'));
    expect(adopted).toMatchObject({ status: 1, stdout: '', signal: null });
    expect(adopted.stderr).toContain(`${directory}/pods.d: ${HANGS}\n`);
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
    const adopted = run('adopt', '--config', join(directory, 'config.yaml'));
    expect(adopted).toMatchObject({ status: 1, stdout: '', stderr: `${file}: ${HANGS}\n`, signal: null });
    const looked = run('doctor', '--config', join(directory, 'config.yaml'));
    expect(looked.signal).toBe(null);
    // On a busy machine, the time of all is over first.
    const why = '(no answer within 2 s|not all of them were read within 3 s)';
    expect(looked.stdout).toMatch(new RegExp(`not known whether the manifests are valid: .*b\\.yaml: ${why}`));
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
