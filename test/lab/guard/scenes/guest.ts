// A guest of QEMU as the machine, fenced through fence_qemu: real status, quit and start. It runs no kubelet: one of the lab
// lives and dies with it.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { sleep } from '../../../../src/host/clock.ts';
import { RUN } from '../../kube/cluster.ts';
import { clock, until } from '../../scene.ts';
import { aStatefulSet, type Fleet, isReady, MACHINES } from '../fleet.ts';
import type { Lab, LabScene } from '../lab.ts';
import { NO_STORM } from './api-away.ts';
import { memberAt, someMachines } from './one-machine.ts';

const GUESTS = path.join(RUN, 'guests');
const LOOK_EVERY_MS = 100;
const HELD_MS = 150_000;

type Guest = {
  /** Of its QEMU; null: none runs. */
  readonly pid: () => number | null;
  /** A command of QMP without an answer that is of interest. */
  readonly tell: (command: 'stop' | 'cont') => void;
  readonly changes: () => readonly string[];
};

function aGuest(name: string): Guest {
  const directory = path.join(GUESTS, name);
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
  const pid = (): number | null => {
    try {
      const id = Number(fs.readFileSync(file('pid'), 'utf8'));
      return fs.readFileSync(`/proc/${id}/comm`, 'utf8').startsWith('qemu') ? id : null;
    } catch {
      return null;
    }
  };
  return {
    pid,
    tell: (command) => {
      const says = `import socket, time
s = socket.socket(socket.AF_UNIX); s.connect(${JSON.stringify(file('qmp.sock'))})
for c in ("qmp_capabilities", "${command}"): s.send(('{"execute": "%s"}' % c).encode()); time.sleep(.5)
`;
      execFileSync('python3', ['-c', says]);
    },
    changes: () =>
      fs.existsSync(file('power.log'))
        ? fs
            .readFileSync(file('power.log'), 'utf8')
            .trim()
            .split('\n')
            .map((line) => line.split(' ')[1] ?? '')
        : [],
  };
}

const guest: LabScene = {
  name: 'a guest of QEMU',
  point: 1,
  body: async (lab) => {
    if (!fs.existsSync('/usr/bin/qemu-system-x86_64')) return lab.skip('a guest of QEMU', 'there is no QEMU');
    const qemu = aGuest('m0');
    try {
      await play(lab, qemu, await lab.fleet(someMachines(4)));
    } finally {
      const pid = qemu.pid();
      if (pid !== null) process.kill(pid, 'SIGKILL');
    }
  },
};

async function play(lab: Lab, qemu: Guest, fleet: Fleet): Promise<void> {
  const machine = fleet.machine('m0');
  // Its rounds of status are not in the files of fence_lab.
  fleet.believe(machine.name);
  let isOver = false;
  const follows = (async () => {
    for (; !isOver; await sleep(clock, LOOK_EVERY_MS)) {
      const isOn = qemu.pid() !== null;
      if (isOn !== machine.isOn()) machine.power(isOn ? 'on' : 'off');
    }
  })();
  try {
    const secretDirectory = path.join(RUN, 'guards', 'g1', 'secrets');
    const templates = {
      lab: { agent: 'fence_lab', proof: 'power', parameters: { directory: MACHINES, plug: '{node}' } },
      qemu: { agent: 'fence_qemu', proof: 'power', parameters: { directory: GUESTS, plug: '{node}' } },
    };
    const nodes = { [machine.name]: { power: [[{ template: 'qemu' }]] } };
    const fencing = { deadline: '30s', secretDirectory, templates, nodes, default: { power: [[{ template: 'lab' }]] } };
    const [guard] = await lab.led({ name: 'g1', config: { storm: NO_STORM, fencing } });
    if (guard === undefined) throw new Error('no guard');
    await aStatefulSet('db', { 'kubernetes.io/hostname': machine.name });
    const before = await until('its member runs', () => memberAt('db-0'));
    // The patrol has to hear it say on.
    await sleep(clock, 90_000);

    const first = qemu.pid();
    if (first === null) throw new Error('the guest does not run');
    process.kill(first, 'SIGSTOP');
    machine.kubelet('silent');
    await until(
      'a device that hangs holds',
      () => guard.logText().includes('m0: held by gate device') || null,
      300_000,
    );
    await sleep(clock, HELD_MS);
    lab.check('QEMU stopped: its status hangs, and nobody is fenced', fleet.marks.length === 0 && qemu.pid() === first);
    process.kill(first, 'SIGCONT');
    machine.kubelet('up');
    await until('it lives again', () => isReady(fleet.node(machine.name)) || null);
    await sleep(clock, 90_000);

    qemu.tell('stop');
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
    await until('it is back', () => (qemu.pid() !== null && fleet.isBack(machine.name)) || null, 400_000);
    lab.check(
      'its QEMU ended once and was started once',
      qemu.changes().join(' ') === 'off on',
      qemu.changes().join(' '),
    );
    const after = await until('its member runs again', () => memberAt('db-0'));
    lab.check('its member is another one', after.uid !== before.uid);
  } finally {
    isOver = true;
    await follows;
  }
}

export const GUEST: readonly LabScene[] = [guest];
