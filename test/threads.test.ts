import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, it } from 'vitest';

const PROGRAM = join(import.meta.dirname, '../dist/nodewarden.js');
const needs = process.getuid?.() === 0 ? '' : '[needs root]';
let child: ChildProcess | null = null;
afterEach(() => child?.kill('SIGKILL'));

/** As proc(5) counts. */
const NICE = 16;
const niceOf = (pid: number, tid: string): number =>
  Number(readFileSync(`/proc/${pid}/task/${tid}/stat`, 'utf8').split(') ')[1]?.split(' ')[NICE]);

it.skipIf(needs !== '')(
  `the threads that read files run ahead of busy loops, as its main thread does ${needs}`,
  async () => {
    const directory = mkdtempSync(join(tmpdir(), 'nodewarden-threads-'));
    mkdirSync(join(directory, 'pods'));
    const config = join(directory, 'config.yaml');
    const places = ['stateDirectory: state', 'runtimeDirectory: run', 'socket: asked.sock', 'podManifests: pods'];
    const fields = places.map((place) => place.replace(': ', `: ${directory}/`)).join('\n');
    writeFileSync(config, `apiVersion: nodewarden.dev/v1alpha1\nkind: NodewardenConfiguration\n${fields}\n`, {
      mode: 0o644,
    });
    const started = spawn(process.execPath, [PROGRAM, 'run', '--dry-run', '--config', config], {
      stdio: ['ignore', 'pipe', 'inherit'],
      // In a session of its own, as a service is.
      detached: true,
    });
    child = started;
    await new Promise((resolve) => started.stdout.once('data', resolve));
    const pid = started.pid ?? 0;
    const others = readdirSync(`/proc/${pid}/task`).filter((tid) => Number(tid) !== pid);
    expect(others.length).toBeGreaterThan(4);
    expect(others.map((tid) => niceOf(pid, tid))).toEqual(others.map(() => -20));
    const group = `/proc/${pid}/autogroup`;
    if (existsSync(group)) expect(readFileSync(group, 'utf8')).toMatch(/ nice -20$/m);
    started.kill('SIGKILL');
    rmSync(directory, { recursive: true });
  },
);
