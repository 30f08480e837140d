// Machines that go down in order: one that leaves nothing behind, one that boots again in time, and one that never comes back.
// The announcement is written here as the node agent writes it.
import { sleep } from '../../../../src/host/clock.ts';
import { ask, STRATEGIC } from '../../kube/api.ts';
import { clock, until } from '../../scene.ts';
import { aStatefulSet, patrolled } from '../fleet.ts';
import type { LabScene } from '../lab.ts';
import type { Machine } from '../machine.ts';
import { NO_STORM } from './api-away.ts';
import { memberAt, someMachines } from './one-machine.ts';

const PLANNED_MS = 240_000;
const ARMED = { status: 'True', reason: 'Armed', message: 'a shutdown is delayed' };
const GOES_DOWN = { status: 'False', reason: 'ShuttingDown', message: 'the node is shutting down' };

async function tell({ name }: Machine, said: typeof ARMED): Promise<void> {
  const at = `${new Date().toISOString().slice(0, 19)}Z`;
  const entry = { type: 'NodewardenShutdownArmed', ...said, lastHeartbeatTime: at, lastTransitionTime: at };
  const body = { status: { conditions: [entry] } };
  await ask(`/api/v1/nodes/${name}/status`, { method: 'PATCH', type: STRATEGIC, body });
}

const announced: LabScene = {
  name: 'a shutdown that was announced',
  point: 7,
  body: async (lab) => {
    const specs = someMachines(8).map((spec, at) => ({ ...spec, labels: { at: `m${at}` } }));
    const fleet = await lab.fleet(specs);
    const config = { storm: NO_STORM, plannedWait: `${PLANNED_MS / 60_000}m` };
    const [guard] = await lab.led({ name: 'g1', config });
    const [leaves, reboots, stays] = fleet.machines;
    if (!guard || !leaves || !reboots || !stays) throw new Error('no machines');
    // One bound to each of the two that do not leave.
    for (const { name } of [reboots, stays]) await aStatefulSet(`on-${name}`, { at: name });
    for (const { name } of [reboots, stays]) await until('its member runs', () => memberAt(`on-${name}-0`));
    await patrolled(fleet.machines);
    for (const machine of [leaves, reboots, stays]) await tell(machine, ARMED);
    await sleep(clock, 15_000);
    for (const machine of [leaves, reboots, stays]) {
      await tell(machine, GOES_DOWN);
      machine.power('off');
      machine.kubelet('silent');
    }
    const downMs = Date.now();
    const offs = ({ calls }: Machine): number => calls().filter(({ action }) => action === 'off').length;
    const isTainted = ({ name }: Machine): boolean => fleet.marks.some((mark) => mark.node === name && mark.isTainted);

    await sleep(clock, PLANNED_MS - 60_000);
    lab.check(
      `silent for ${(PLANNED_MS - 60_000) / 60_000} min after an announcement: no fencing`,
      [leaves, reboots, stays].every((machine) => offs(machine) === 0 && !isTainted(machine)),
    );
    reboots.power('on');
    reboots.kubelet('up');
    await until('its member runs again', () => memberAt(`on-${reboots.name}-0`));
    await tell(reboots, ARMED);
    await until('the one that stays away is out of service', () => isTainted(stays) || null, 400_000);
    const afterMs = Date.now() - downMs;
    lab.figure(
      's from the last sign of life of one that was announced and stays away to its taint',
      (afterMs / 1_000).toFixed(0),
    );
    lab.check('not before the time for a planned shutdown is over', afterMs >= PLANNED_MS);
    await sleep(clock, 60_000);
    lab.check('it was off by its own hand: it gets no off, and is left off', offs(stays) === 0 && !stays.isOn());
    lab.check('a reboot in place: no fencing', offs(reboots) === 0 && !isTainted(reboots));
    lab.check('a power-off that left nothing: no fencing, for good', offs(leaves) === 0 && !isTainted(leaves));
    lab.check('it says why', guard.logText().includes(`${leaves.name}: held by gate worth`));
  },
};

export const ANNOUNCED: readonly LabScene[] = [announced];
