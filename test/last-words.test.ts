import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

const PROGRAM = join(import.meta.dirname, '../dist/nodewarden.js');
let directory = '';
let child: ChildProcess | null = null;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'nodewarden-last-'));
  mkdirSync(join(directory, 'pods'));
  const places = ['stateDirectory: state', 'runtimeDirectory: run', 'socket: asked.sock', 'podManifests: pods'];
  const fields = places.map((place) => place.replace(': ', `: ${directory}/`)).join('\n');
  writeFileSync(
    join(directory, 'config.yaml'),
    `apiVersion: nodewarden.dev/v1alpha1\nkind: NodewardenConfiguration\n${fields}\n`,
    { mode: 0o644 },
  );
});
afterEach(() => {
  child?.kill('SIGKILL');
  rmSync(directory, { recursive: true });
});

/** The daemon, with `code` run in it before its own; `watching` resolves at its first look. */
function run(code = '', env: NodeJS.ProcessEnv = {}) {
  writeFileSync(join(directory, 'before.cjs'), code);
  const args = ['--require', join(directory, 'before.cjs'), PROGRAM, 'run', '--dry-run', '--config'];
  const started = spawn(process.execPath, [...args, join(directory, 'config.yaml')], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, JOURNAL_STREAM: undefined, ...env },
  });
  child = started;
  let stderr = '';
  started.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
  });
  const watching = new Promise<void>((resolve) => {
    let seen = '';
    started.stdout.setEncoding('utf8').on('data', (text: string) => {
      seen += text;
      if (seen.includes('nodewarden monitors')) resolve();
    });
  });
  const ended = once(started, 'close').then(([status]) => ({ status, stderr: stderr.trimEnd().split('\n') }));
  return { started, watching, ended };
}

describe('the daemon never ends silently', () => {
  it('when it is asked to stop', async () => {
    const { started, watching, ended } = run();
    await watching;
    started.kill('SIGTERM');
    expect(await ended).toEqual({ status: 0, stderr: ['nodewarden stopped: received SIGTERM'] });
  });

  it('when the watchdog of systemd ends it', async () => {
    const { started, watching, ended } = run();
    await watching;
    started.kill('SIGABRT');
    const { status, stderr } = await ended;
    expect(status).toBe(1);
    expect(stderr[0]).toMatch(/^SIGABRT stopped nodewarden: if systemd's watchdog sent it, no keep-alive arrived/);
  });

  it('when a reload is requested before there is anything to reload: then it does not end at all', async () => {
    const { started, watching, ended } = run('setImmediate(() => process.kill(process.pid, "SIGHUP"));');
    await watching;
    started.kill('SIGTERM');
    expect(await ended).toMatchObject({ status: 0 });
  });

  it.each([
    [
      'setTimeout(() => { throw new Error("broken on purpose"); }, 100);',
      /^nodewarden crashed; this is a bug: Error: broken on purpose \|/,
    ],
    ['setTimeout(() => Promise.reject(new Error("no")), 100);', /^nodewarden crashed; this is a bug: Error: no \|/],
    ['setTimeout(() => process.exit(7), 100);', /^nodewarden exited early with status 7$/],
    [
      'const m = require("module"), load = m._load; m._load = (name, ...more) => name.includes("daemon-program") ? { runProgram: () => new Promise(() => {}) } : load(name, ...more);',
      /^nodewarden crashed; this is a bug: no pending work was left$/,
    ],
  ])('if it has a bug: %s', async (code, word) => {
    const { status, stderr } = await run(code).ended;
    expect(status).toBeGreaterThan(0);
    expect(stderr).toEqual([expect.stringMatching(word)]);
  });

  it('and under the journal with the priority of its message', async () => {
    const { stderr } = await run('setTimeout(() => process.exit(7), 100);', { JOURNAL_STREAM: '8:1' }).ended;
    expect(stderr).toEqual(['<3>nodewarden exited early with status 7']);
  });
});

describe('a daemon whose reader goes away', () => {
  it('continues', async () => {
    const { started, watching, ended } = run();
    await watching;
    started.stdout.destroy();
    // It says so on the closed pipe.
    started.kill('SIGHUP');
    started.kill('SIGHUP');
    started.kill('SIGTERM');
    expect(await ended).toMatchObject({ status: 0 });
  });
});
