import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { filesHang } from '../../src/host/disk/hung-disk.ts';
import { noHungMount } from './hung-mount.ts';
import { until } from './private-bus.ts';
import { mountSlowFileSystem, OPEN } from './slow-mount.ts';

describe.skipIf(noHungMount !== null)(`files of which one hangs [${noHungMount ?? 'root'}]`, () => {
  it('may not be read if they have not answered when the time is over', async () => {
    const directory = mkdtempSync(join(tmpdir(), 'nodewarden-hung-'));
    const files = join(directory, 'files');
    mkdirSync(files);
    const mounted = await mountSlowFileSystem(files);
    onTestFinished(() => {
      mounted.release();
      rmSync(directory, { recursive: true });
    });
    const paths = ['a', 'b', 'c', 'd'].map((name) => join(files, name));
    for (const name of ['a', 'b', 'c', 'd']) writeFileSync(join(mounted.backing, name), name);
    mounted.order(`hang ${OPEN} a`);
    const hung = await filesHang(paths, 1_500);
    expect(hung.get(join(files, 'a'))).toMatchObject({ detail: 'not all of them were read within 1.5 s' });
    expect(hung.get(join(files, 'b'))).toMatchObject({ detail: 'not all of them were read within 1.5 s' });
  });
});

describe('files that answer', () => {
  const MANY = 3_000;
  const many = (): readonly string[] => {
    const directory = mkdtempSync(join(tmpdir(), 'nodewarden-many-'));
    onTestFinished(() => rmSync(directory, { recursive: true }));
    const paths = Array.from({ length: MANY }, (_, i) => join(directory, String(i)));
    for (const path of paths) writeFileSync(path, 'x');
    return paths;
  };

  it('are read as long as the time lasts, and no longer though each answers at once', async () => {
    const paths = many();
    for (let times = 1; times <= 5; times++) {
      const hung = await filesHang(paths, 200);
      const details = [...hung.values()].map(({ detail }) => detail);
      expect(new Set(details)).toEqual(new Set(['not all of them were read within 0.2 s']));
    }
  });

  it('are not known to answer if their reader cannot be started, or is killed', async () => {
    const tooLong = `/${'a'.repeat(200_000)}`;
    expect((await filesHang([tooLong])).get(tooLong)).toMatchObject({
      why: 'unreadable',
      detail: expect.stringContaining('E2BIG'),
    });
    const paths = many();
    const asked = filesHang(paths);
    await until(() => readers(paths[0] ?? '').length > 0);
    for (const pid of readers(paths[0] ?? '')) process.kill(pid, 'SIGKILL');
    const hung = await asked;
    expect(hung.get(paths[MANY / 2 - 1] ?? '')).toMatchObject({ detail: expect.stringContaining('SIGKILL') });
    expect(hung.has(paths[MANY - 1] ?? '')).toBe(false);
  });
});

function readers(path: string): readonly number[] {
  const tasks = readdirSync('/proc/self/task').map((task) => `/proc/self/task/${task}/children`);
  const children = tasks.flatMap((file) => readFileSync(file, 'utf8').split(' ').filter(Boolean).map(Number));
  return children.filter((pid) => readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').includes(path));
}
