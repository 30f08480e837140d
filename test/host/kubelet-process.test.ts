import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { createClock } from '../../src/host/clock.ts';
import { findKubelet } from '../../src/host/process/kubelet-process.ts';

type Process = { readonly comm: string; readonly cgroup: string; readonly argv: readonly string[] };

function aProc(processes: readonly Process[]): string {
  const proc = mkdtempSync(path.join(os.tmpdir(), 'nodewarden-proc-'));
  onTestFinished(() => rmSync(proc, { recursive: true }));
  for (const [at, { comm, cgroup, argv }] of processes.entries()) {
    const directory = `${proc}/${at + 100}`;
    mkdirSync(directory);
    writeFileSync(`${directory}/comm`, `${comm}\n`);
    writeFileSync(`${directory}/cgroup`, cgroup);
    writeFileSync(`${directory}/cmdline`, argv.map((arg) => `${arg}\0`).join(''));
    symlinkSync('/var/lib/kubelet', `${directory}/cwd`);
  }
  return proc;
}
const SYSTEM = '0::/system.slice/kubelet.service\n';

describe.skipIf(process.getuid?.() !== 0)('the kubelet of this machine', () => {
  it('the kubelet is found with its command line and its directory', async () => {
    const proc = aProc([
      { comm: 'sshd', cgroup: SYSTEM, argv: ['sshd'] },
      { comm: 'kubelet', cgroup: SYSTEM, argv: ['/usr/bin/kubelet', '--config', 'a b.yaml', ''] },
    ]);
    expect(await findKubelet(createClock(), proc)).toEqual({
      known: true,
      value: { argv: ['/usr/bin/kubelet', '--config', 'a b.yaml', ''], cwd: '/var/lib/kubelet' },
    });
  });
  it('a process of this name in a pod is not the kubelet', async () => {
    const cgroup = '12:memory:/kubepods/burstable/podx/y\n';
    const proc = aProc([{ comm: 'kubelet', cgroup, argv: ['kubelet', '--eviction-hard=memory.available<90%'] }]);
    expect(await findKubelet(createClock(), proc)).toMatchObject({ known: false, why: 'absent' });
  });
});
