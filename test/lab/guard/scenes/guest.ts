// A guest of QEMU as the machine, fenced through fence_qemu: real status, quit and start. It runs no kubelet: one of the lab
// lives and dies with it.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { sleep } from '../../../../src/host/clock.ts';
import { saysReady } from '../../kube/api.ts';
import { RUN } from '../../kube/cluster.ts';
import { clock, until } from '../../scene.ts';
import { aStatefulSet, type Fleet, patrolled } from '../fleet.ts';
import { fencingByQemu } from '../guard.ts';
import type { Lab, LabScene } from '../lab.ts';
import { switched } from '../machine.ts';
import { aQemu, kill, type Qemu } from '../qemu.ts';
import { NO_STORM } from './api-away.ts';
import { memberAt, someMachines } from './one-machine.ts';

const HELD_MS = 150_000;

function started(name: string): Qemu {
  const directory = path.join(RUN, 'guests', name);
  const file = (of: string): string => path.join(directory, of);
  fs.rmSync(directory, { recursive: true, force: true });
  fs.mkdirSync(directory, { recursive: true });
  // Without a disk, its firmware waits for one.
  const start = `#!/bin/sh
exec qemu-system-x86_64 -accel tcg -m 64 -nodefaults -display none -qmp unix:${file('qmp.sock')},server=on,wait=off \\
  -pidfile ${file('pid')} -daemonize
`;
  fs.writeFileSync(file('start'), start, { mode: 0o755 });
  execFileSync(file('start'), { stdio: 'ignore' });
  return aQemu(directory);
}

const guest: LabScene = {
  name: 'a guest of QEMU',
  point: 1,
  body: async (lab) => {
    if (!fs.existsSync('/usr/bin/qemu-system-x86_64')) return lab.skip('a guest of QEMU', 'there is no QEMU');
    const qemu = started('m0');
    try {
      const specs = someMachines(4).map((spec, at) => (at === 0 ? { ...spec, qemu } : spec));
      await play(lab, qemu, await lab.fleet(specs));
    } finally {
      kill(qemu);
    }
  },
};

async function play(lab: Lab, qemu: Qemu, fleet: Fleet): Promise<void> {
  const machine = fleet.machine('m0');
  const config = { storm: NO_STORM, fencing: fencingByQemu('g1', machine.name, qemu) };
  const [guard] = await lab.led({ name: 'g1', config });
  if (guard === undefined) throw new Error('no guard');
  await aStatefulSet('db', { 'kubernetes.io/hostname': machine.name });
  const before = await until('its member runs', () => memberAt('db-0'));
  await patrolled([machine]);

  const first = qemu.pid();
  if (first === null) throw new Error('the guest does not run');
  process.kill(first, 'SIGSTOP');
  machine.kubelet('silent');
  await until('a device that hangs holds', () => guard.logText().includes('m0: held by gate device') || null, 300_000);
  await sleep(clock, HELD_MS);
  lab.check('QEMU stopped: its status hangs, and nobody is fenced', fleet.marks.length === 0 && qemu.pid() === first);
  process.kill(first, 'SIGCONT');
  machine.kubelet('up');
  await until('it lives again', () => saysReady(fleet.node(machine.name)) || null);
  await sleep(clock, 90_000);

  await qemu.tell('stop');
  machine.kubelet('silent');
  const silentMs = Date.now();
  const mark = await until(
    'it has the taint',
    () => fleet.marks.find(({ node, isTainted }) => node === machine.name && isTainted) ?? null,
    400_000,
  );
  lab.check('its CPUs stopped: no QEMU runs when it gets the taint', !mark.isOn && qemu.pid() !== first);
  lab.figure('s from the last sign of life to the taint', ((mark.atMs - silentMs) / 1_000).toFixed(0));
  machine.kubelet('up');
  await until('it is back', () => fleet.isBack(machine.name) || null, 400_000);
  lab.check('its QEMU ended once and was started once', switched(machine) === 'off on', switched(machine));
  const after = await until('its member runs again', () => memberAt('db-0'));
  lab.check('its member is another one', after.uid !== before.uid);
}

export const GUEST: readonly LabScene[] = [guest];
