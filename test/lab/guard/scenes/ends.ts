// How fencings end when they do not end well: a loop, a machine that does not come back or does not switch on, a Node that is
// deleted, and taints of others.
import { sleep } from '../../../../src/host/clock.ts';
import { ask } from '../../kube/api.ts';
import { clock, until } from '../../scene.ts';
import { marksOf, OUT_OF_SERVICE, patrolled, setTaints, taintOf } from '../fleet.ts';
import { fencingsOf } from '../guard.ts';
import type { LabScene } from '../lab.ts';
import { type Machine, offs } from '../machine.ts';
import { NO_STORM } from './api-away.ts';
import { someMachines } from './one-machine.ts';

const BY_HAND = [{ key: OUT_OF_SERVICE, value: 'by-hand', effect: 'NoSchedule' }];

const ends: LabScene = {
  name: 'ends',
  point: 9,
  body: async (lab) => {
    const fleet = await lab.fleet(someMachines(10));
    const recovery = { powerOn: true, bootTime: '2m', stableFor: '5s', attempts: 2, perNodePerDay: 1 };
    const config = { fenceWhen: 'always', storm: NO_STORM, recovery };
    const [guard] = await lab.led({ name: 'g1', config });
    const [loops, late, gone, foreign, added, refuses] = fleet.machines;
    if (!guard || !loops || !late || !gone || !foreign || !added || !refuses) throw new Error('no machines');
    await patrolled(fleet.machines);
    const is = (what: string, holds: () => boolean | Promise<boolean>, deadlineMs = 900_000): Promise<boolean> =>
      until(what, async () => (await holds()) || null, deadlineMs);
    const commands = ({ calls }: Machine, which: string): number =>
      calls().filter(({ action }) => action === which).length;
    /** The phases of all fencings of the node, the oldest first. */
    const phases = async ({ name }: Machine): Promise<string> =>
      (await fencingsOf(name))
        .map(({ phase, staysOff }) => `${phase}${staysOff === null ? '' : `(${staysOff})`}`)
        .join(' ');
    const isBack = async (machine: Machine): Promise<boolean> =>
      fleet.isBack(machine.name) && (await phases(machine)) === 'closed';

    await setTaints(foreign.name, BY_HAND);
    refuses.device('on', 'nothing');
    for (const machine of [loops, late, gone, foreign, added, refuses]) machine.kubelet('silent');

    await Promise.all([
      (async () => {
        await is('the Node to be deleted is off', () => offs(gone) === 1);
        await ask(`/api/v1/nodes/${gone.name}`, { method: 'DELETE' });
        await is('its fencing ends', async () => (await phases(gone)) === 'left-off(node-deleted)');
        lab.check('a Node deleted in the middle: left off, and never powered on', commands(gone, 'on') === 0);
      })(),
      (async () => {
        await is('the one that gets a taint by hand is off', () => offs(added) === 1);
        await setTaints(added.name, BY_HAND);
        await is('it is left to the one who set that', async () => (await phases(added)) === 'untainting');
        await sleep(clock, 30_000);
        const { taints = [] } = fleet.node(added.name)['spec'];
        lab.check(
          'beside an out-of-service taint of others, there is none of ours',
          taintOf(fleet.node(added.name)) === null,
        );
        lab.check('and the machine is not powered on under it', !added.isOn());
        lab.check(
          'the foreign taint stays',
          taints.some(
            ({ key, value }: { key: string; value: string }) => key === OUT_OF_SERVICE && value === 'by-hand',
          ),
        );
        await setTaints(added.name, []);
        await is('it is powered on', () => added.isOn());
        added.kubelet('up');
        await is('it is back', () => isBack(added));
      })(),
      (async () => {
        await is('the late one is given up', async () => (await phases(late)) === 'not-back');
        lab.check('not back: no new pods for it', marksOf(fleet.node(late.name)).includes('nodewarden.dev/fenced'));
        lab.check('and no out-of-service taint', taintOf(fleet.node(late.name)) === null);
        await sleep(clock, 60_000);
        lab.check('and no blind cycling', offs(late) === 1 && commands(late, 'on') === 1);
        late.kubelet('up');
        await is('it is back by somebody else’s hand', () => isBack(late));
        lab.check('it closes by itself when it is back', true);
      })(),
      (async () => {
        await is('the one that does not switch on is given up', async () => (await phases(refuses)) === 'not-back');
        lab.check(
          'a device that refuses on: two attempts',
          commands(refuses, 'on') === 2,
          `${commands(refuses, 'on')}`,
        );
        refuses.power('on');
        refuses.kubelet('up');
        await is('it is back', () => isBack(refuses));
      })(),
      (async () => {
        await is('the first power-off', () => offs(loops) === 1);
        loops.kubelet('up');
        await is('it is back', () => isBack(loops));
        loops.kubelet('silent');
        await is('the loop is broken', async () => (await phases(loops)).includes('left-off(loop)'));
        await sleep(clock, 60_000);
        lab.check(
          'a loop: the second time it is left off',
          offs(loops) === 2 && !loops.isOn() && commands(loops, 'on') === 1,
        );
        lab.check('and its taint is gone', taintOf(fleet.node(loops.name)) === null);
      })(),
    ]);
    lab.check('a foreign out-of-service taint: not fenced', commands(foreign, 'off') === 0);
    lab.check('and it says why', guard.logText().includes(`${foreign.name}: held by gate scope`));
    const left = fleet.node(foreign.name)['spec'].taints ?? [];
    lab.check(
      'its taint stays',
      left.some(({ value }: { value?: string }) => value === 'by-hand'),
    );
    const others = fleet.machines.slice(6);
    lab.check(
      'nobody else was touched',
      others.every(({ changes }) => changes().length === 0),
    );
  },
};

export const ENDS: readonly LabScene[] = [ends];
