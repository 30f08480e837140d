// A guard in dry run through an hour in which everything goes wrong: it asks and tells, and touches nothing.
import { sleep } from '../../../../src/host/clock.ts';
import { ask } from '../../kube/api.ts';
import { signalPart } from '../../kube/cluster.ts';
import { clock } from '../../scene.ts';
import { OUT_OF_SERVICE, setTaints } from '../fleet.ts';
import type { LabScene } from '../lab.ts';
import { createNode, type Machine } from '../machine.ts';
import { aPerson } from '../person.ts';
import { someMachines } from './one-machine.ts';

const LASTS_MS = Number(process.env['LAB_MINUTES'] ?? 60) * 60_000;
const EVERY_MS = 20_000;

const dryRun: LabScene = {
  name: 'dry run',
  point: 9,
  body: async (lab) => {
    const fleet = await lab.fleet(someMachines(10));
    const config = { dryRun: true, fenceWhen: 'always' };
    const [guard, other] = await lab.led({ name: 'g1', config }, { name: 'g2', config });
    if (guard === undefined || other === undefined) throw new Error('no guard');
    // The taints are those of the chaos.
    for (const { name } of fleet.machines) fleet.believe(name);
    const ann = await aPerson('ann');
    const orders: (number | null)[] = [];
    const order = async (...args: readonly string[]): Promise<void> => {
      orders.push((await ann.order(...args)).code);
    };
    const all = (act: (machine: Machine) => void, count: number) => {
      for (const machine of fleet.machines.slice(0, count)) act(machine);
    };
    /** In turn, each on another machine than the time before; nothing waits for what follows from it. */
    const chaos: readonly ((machine: Machine) => unknown)[] = [
      (machine) => machine.kubelet('silent'),
      (machine) => machine.kubelet('silent', 'refused'),
      (machine) => machine.device('says', 'off'),
      () => guard.signal('SIGKILL'),
      () => guard.start(),
      (machine) => machine.device('says', 'hang'),
      (machine) => machine.power('off'),
      () => all((one) => one.kubelet('up'), 10),
      (machine) => setTaints(machine.name, [{ key: OUT_OF_SERVICE, value: 'by-hand', effect: 'NoSchedule' }]),
      (machine) => setTaints(machine.name, [{ key: OUT_OF_SERVICE, value: 'nodewarden.0-1', effect: 'NoSchedule' }]),
      () => all((one) => one.power('on'), 10),
      () => guard.proxy.set('cut'),
      () => guard.proxy.set('open'),
      () => other.proxy.set('hang'),
      () => other.proxy.set('open'),
      () => all((one) => one.kubelet('silent'), 5),
      () => order('fence', 'm7'),
      () => order('confirm-off', 'm1', '--checked', 'm1'),
      () => order('pause'),
      () => all((one) => one.kubelet('up'), 10),
      () => signalPart('apiserver', 'SIGSTOP'),
      () => undefined,
      () => signalPart('apiserver', 'SIGCONT'),
      () => all((one) => one.device('says', null), 10),
      async (machine) => {
        await ask(`/api/v1/nodes/${machine.name}`, { method: 'DELETE' });
        await createNode(machine.name, {});
      },
      (machine) => setTaints(machine.name, []),
      (machine) => machine.kubelet('silent'),
      () => undefined,
      () => undefined,
      () => undefined,
      () => undefined,
      () => all((one) => one.kubelet('up'), 10),
    ];
    const endMs = clock.monoMs() + LASTS_MS;
    let turn = 0;
    for (; clock.monoMs() < endMs; turn++) {
      const machine = fleet.machines[(turn * 7) % fleet.machines.length];
      // What went wrong in one turn is part of the chaos.
      if (machine !== undefined) await Promise.resolve(chaos[turn % chaos.length]?.(machine)).catch(() => undefined);
      await sleep(clock, EVERY_MS);
    }
    signalPart('apiserver', 'SIGCONT');

    const writes = [...guard.proxy.writes, ...other.proxy.writes];
    const notLease = writes.filter(({ path }) => !path.includes('/leases'));
    const calls = fleet.machines.flatMap((machine) => machine.calls());
    const commands = calls.filter(({ action }) => !action.endsWith('status'));
    const decided = [guard, other].flatMap((one) => one.log()).filter(({ event }) => event === 'fence');
    lab.figure('lasted', `${LASTS_MS / 60_000} min with ${turn} turns`);
    lab.figure('writes but its lease', `${notLease.length} of ${writes.length}`);
    lab.figure('commands but status', `${commands.length} of ${calls.length}`);
    lab.figure('nodes that it would have fenced', new Set(decided.map(({ node }) => node)).size);
    lab.check('it writes nothing but its lease', notLease.length === 0, notLease.map(({ path }) => path).join(' '));
    lab.check('no device gets anything but status', commands.length === 0);
    lab.check('it would have fenced some', decided.length > 0);
    lab.check(
      'and that is no power-off',
      fleet.machines.every((one) => one.changes().length === 0),
    );
    lab.check('no order is accepted', orders.length > 0 && !orders.includes(0), orders.join(' '));
  },
};

export const DRY_RUN: readonly LabScene[] = [dryRun];
