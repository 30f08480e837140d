// A machine dies: what becomes of its member of a StatefulSet, and of the machine.
import { ask, saysReady } from '../../kube/api.ts';
import { until } from '../../scene.ts';
import { aStatefulSet } from '../fleet.ts';
import { areClosed, fencings } from '../guard.ts';
import type { LabScene } from '../lab.ts';

const seconds = (ms: number): string => `${(ms / 1_000).toFixed(1)} s`;
const MOST_IN_A_LANE = 250;
/** On loopback, another network for each cluster of this machine. */
export const addressOf = (lane: number, at: number): string =>
  `127.${1 + (Number(process.env['LAB_KUBE_PORT'] ?? 0) % 250)}.${lane}.${at + 1}`;
/** Machines with a kubelet's port, of a lane. */
export const someMachines = (count: number, prefix = 'm', lane = 1) =>
  Array.from({ length: count }, (_, at) => ({
    name: `${prefix}${at}`,
    address: addressOf(lane + Math.floor(at / MOST_IN_A_LANE), at % MOST_IN_A_LANE),
  }));

/** Where it runs, when it is Ready there. */
export async function memberAt(name: string): Promise<{ readonly node: string; readonly uid: string } | null> {
  const pod = await ask(`/api/v1/namespaces/default/pods/${name}`).catch(() => null);
  if (pod === null) return null;
  return saysReady(pod) ? { node: pod['spec'].nodeName, uid: pod.metadata.uid ?? '' } : null;
}

const dies: LabScene = {
  name: 'one machine dies',
  point: 1,
  body: async (lab) => {
    const fleet = await lab.fleet(someMachines(5));
    await aStatefulSet('db', {});
    const before = await until('the member runs', () => memberAt('db-0'));
    const guard = await lab.guard({ name: 'g1' });
    guard.start();
    // The patrol has to hear it say on.
    await until(
      'the device of the machine was asked',
      () =>
        fleet
          .machine(before.node)
          .calls()
          .some(({ action }) => action === 'status') || null,
    );
    const machine = fleet.machine(before.node);
    machine.kubelet('silent');
    const diedMs = Date.now();
    const off = await until(
      'it is powered off',
      () => machine.changes().find(({ to }) => to === 'off') ?? null,
      300_000,
    );
    lab.figure('last sign of life to power off', seconds(off.atMs - diedMs));
    const mark = await until(
      'it has the taint',
      () => fleet.marks.find(({ node, isTainted }) => node === machine.name && isTainted) ?? null,
    );
    lab.figure('power off to taint', seconds(mark.atMs - off.atMs));
    const after = await until('its member runs elsewhere', async () => {
      const now = await memberAt('db-0');
      return now !== null && now.uid !== before.uid && now.node !== before.node ? now : null;
    });
    lab.figure('taint to its successor Ready', seconds(Date.now() - mark.atMs));
    lab.check('its member runs elsewhere', after.node !== machine.name);
    machine.kubelet('up');
    await until('it is powered on', () => machine.changes().find(({ to }) => to === 'on') ?? null);
    await until('it is Ready and has no mark', () => fleet.isBack(machine.name) || null, 300_000);
    await until('its record is closed', async () => (await areClosed()) || null);
    lab.check('it was powered off once and on once', machine.changes().length === 2, JSON.stringify(machine.changes()));
    lab.check(
      'nobody else was touched',
      fleet.machines.every((one) => one === machine || one.changes().length === 0),
    );
    lab.check('one record', (await fencings()).length === 1);
  },
};

export const ONE_MACHINE: readonly LabScene[] = [dies];
