import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmdirSync, statSync, writeFileSync } from 'node:fs';
import { getPriority } from 'node:os';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { CgroupMounts } from '../../src/host/cgroup/cgroup-mounts.ts';
import { findHierarchy } from '../../src/host/cgroup/cgroup-mounts.ts';
import { refOf } from '../../src/host/cgroup/cgroupfs.ts';
import { createDyingHelp } from '../../src/host/process/dying-help.ts';
import { rssBytes } from '../../src/host/procfs.ts';
import { aCgroup, aProcess, machine, until } from './test-cgroup.ts';
import { aTree } from './tree.ts';

const v2 = (root: string): CgroupMounts => ({
  layout: 'v2',
  version: 2,
  unified: root,
  memory: root,
  pids: root,
  systemd: root,
});

function help(mounts: CgroupMounts, path: string) {
  const opened = createDyingHelp(mounts);
  onTestFinished(opened.close);
  const ref = refOf(mounts, path);
  if (!ref.known) throw new Error(ref.detail);
  return opened.begin(ref.value);
}

describe('help to die, on a tree of files', () => {
  it('gives the cgroup the maximum weight while needed, thaws it, and restores the weight', () => {
    const root = aTree({ 'a/cpu.weight': '100\n', 'a/cpu.max': '1000 100000\n', 'a/cgroup.freeze': '1\n' });
    const now = (file: string): string => readFileSync(`${root}/a/${file}`, 'latin1');
    const { remain, end } = help(v2(root), '/a');
    remain([]);
    expect([now('cpu.weight'), now('cpu.max'), now('cgroup.freeze')].map((text) => text.split('\n')[0])).toEqual([
      expect.stringMatching(/^10000/),
      expect.stringMatching(/^max/),
      '0',
    ]);
    end();
    expect([now('cpu.weight').slice(0, 4), now('cpu.max').slice(0, 12)]).toEqual(['100\n', '1000 100000\n']);
    expect(now('cgroup.freeze').startsWith('0')).toBe(true);
  });
});

const freezer = findHierarchy('freezer');
const cpu = findHierarchy('cpu');
describe.skipIf(machine === null || machine.version === 2)('help to die [needs root and version 1]', () => {
  const mounts = machine ?? v2('/none');

  it('gives killed processes precedence over all others', async () => {
    const path = aCgroup(mounts.memory);
    const { pid } = await aProcess('', mounts.memory + path);
    help(mounts, path).killed([pid]);
    expect(getPriority(pid)).toBe(-20);
  });

  it.skipIf(!existsSync('/proc/self/autogroup'))(
    'gives precedence to their sessions, where the kernel shares the processors among these [needs autogroups]',
    async () => {
      const path = aCgroup(mounts.memory);
      const child = spawn('/bin/sleep', ['1000'], { detached: true, stdio: 'ignore' });
      onTestFinished(() => void child.kill('SIGKILL'));
      const session = (): string => readFileSync(`/proc/${child.pid}/autogroup`, 'latin1');
      await until(() => session() !== readFileSync('/proc/self/autogroup', 'latin1'));
      expect(session()).toMatch(/nice 0$/m);
      help(mounts, path).killed([child.pid ?? 0]);
      expect(session()).toMatch(/nice -20$/m);
    },
  );

  it.skipIf(freezer === null)('frees the memory of a killed process that cannot run', async () => {
    const path = aCgroup(mounts.memory);
    const frozen = `${freezer}${path}-frozen`;
    mkdirSync(frozen);
    const hold = 'globalThis.held = Buffer.alloc(200 * 1024 * 1024, 1)';
    const { pid, kill, isAlive } = await aProcess(hold, mounts.memory + path, frozen);
    onTestFinished(async () => {
      writeFileSync(`${frozen}/freezer.state`, 'THAWED');
      await until(() => {
        try {
          rmdirSync(frozen);
        } catch {
          // Busy for some milliseconds.
        }
        return !existsSync(frozen);
      });
    });
    writeFileSync(`${frozen}/freezer.state`, 'FROZEN');
    await until(() => readFileSync(`${frozen}/freezer.state`, 'latin1') === 'FROZEN\n');
    kill('SIGKILL');
    help(mounts, path).killed([pid]);
    const resident = (): number => {
      const rss = rssBytes(pid);
      return rss.known ? rss.value : 0;
    };
    await until(() => resident() < 100 * 1024 * 1024);
    expect(isAlive()).toBe(true);
  });

  it.skipIf(cpu === null)("raises the shares of the process's own cgroup, and restores them", async () => {
    const path = aCgroup(mounts.memory, cpu ?? '');
    const { pid } = await aProcess('', mounts.memory + path);
    const shares = (): string => readFileSync(`${cpu}${path}/cpu.shares`, 'latin1');
    expect(statSync(`${cpu}${path}`).isDirectory()).toBe(true);
    const { remain, end } = help(mounts, path);
    remain([pid]);
    expect(shares()).toBe('262144\n');
    end();
    expect(shares()).toBe('1024\n');
  });
});
