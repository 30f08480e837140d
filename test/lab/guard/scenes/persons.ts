// Orders of a person against the live guard: confirm-off and its refusals, power-on, and a pause.
import { sleep } from '../../../../src/host/clock.ts';
import { clock, until } from '../../scene.ts';
import { isReady, marksOf } from '../fleet.ts';
import { fencings, personsKubeconfig, type Ran, runProgram } from '../guard.ts';
import type { LabScene } from '../lab.ts';
import type { Machine } from '../machine.ts';
import { NO_STORM } from './api-away.ts';
import { someMachines } from './one-machine.ts';

const persons: LabScene = {
  name: 'a person',
  point: 9,
  body: async (lab) => {
    const fleet = await lab.fleet(someMachines(10));
    const config = { fenceWhen: 'always', storm: NO_STORM };
    const [guard] = await lab.led({ name: 'g1', config });
    const [mute, frozen, healthy, paused] = fleet.machines;
    if (!guard || !mute || !frozen || !healthy || !paused) throw new Error('no machines');
    const order = (...args: readonly string[]): Promise<Ran> =>
      runProgram('guard', ...args, '--by', 'ann', '--because', 'lab', '--kubeconfig', personsKubeconfig());
    const confirm = ({ name }: Machine, checked = name, ...more: readonly string[]): Promise<Ran> =>
      order('confirm-off', name, '--checked', checked, ...more);
    const say = ({ code, stderr, stdout }: Ran): string => `${code} ${stderr || stdout}`.trim();
    const is = (what: string, holds: () => boolean | Promise<boolean>): Promise<boolean> =>
      until(what, async () => (await holds()) || null, 400_000);
    const phase = async ({ name }: Machine): Promise<unknown> =>
      (await fencings()).find(({ record }) => (record?.['node'] as { name?: string } | undefined)?.name === name)
        ?.record?.['phase'];
    const commands = ({ calls }: Machine, which: string): number =>
      calls().filter(({ action }) => action === which).length;
    const marked = ({ name }: Machine): boolean =>
      fleet.marks.some(({ node, isTainted }) => node === name && isTainted);
    await is('every device has said on', () =>
      fleet.machines.every((one) => one.calls().some(({ action }) => action === 'status')),
    );

    const alive = await confirm(healthy);
    lab.check('confirm-off of a living node: refused', alive.code === 1 && !marked(healthy), say(alive));

    // Really off, and no device says so: one is silent, one is frozen at on.
    for (const machine of [mute, frozen]) {
      machine.power('off');
      machine.kubelet('silent');
      fleet.believe(machine.name);
    }
    mute.device('says', 'error');
    frozen.device('says', 'on');
    await is('the silent device holds', () => guard.logText().includes(`${mute.name}: held by gate device`));
    const typo = await confirm(mute, healthy.name);
    lab.check('confirm-off with another name: refused', typo.code === 1 && !marked(mute), say(typo));
    const said = await confirm(mute);
    lab.check('confirm-off while its device is silent: accepted', said.code === 0, say(said));
    await is('the taint is set', () => marked(mute));

    await is('the frozen device is not believed', async () => (await phase(frozen)) === 'failed');
    const refused = await confirm(frozen);
    lab.check('confirm-off while its device says on: refused', refused.code === 1 && !marked(frozen), say(refused));
    const overruled = await confirm(frozen, frozen.name, '--device-is-wrong');
    lab.check('with --device-is-wrong: accepted', overruled.code === 0, say(overruled));
    await is('the taint is set', () => marked(frozen));
    await is(
      'its taint is gone again',
      () => !marksOf(fleet.node(frozen.name)).includes('node.kubernetes.io/out-of-service'),
    );

    await is('it is left off', async () => (await phase(mute)) === 'left-off');
    await sleep(clock, 30_000);
    lab.check('what a person said to be off is not powered on', commands(mute, 'on') === 0 && !mute.isOn());
    mute.device('says', null);
    const on = await order('power-on', mute.name);
    lab.check('power-on: accepted', on.code === 0, say(on));
    await is('it is on', () => mute.isOn());
    mute.kubelet('up');
    await is('it is back', () => isReady(fleet.node(mute.name)) && marksOf(fleet.node(mute.name)).length === 0);

    const pause = await order('pause');
    lab.check('pause: accepted', pause.code === 0, say(pause));
    paused.kubelet('silent');
    await sleep(clock, 120_000);
    lab.check('in a pause nobody is fenced', commands(paused, 'off') === 0);
    const resume = await order('resume');
    lab.check('resume: accepted', resume.code === 0, say(resume));
    await is('then it is fenced', () => paused.changes().some(({ to }) => to === 'off'));
    const off = fleet.machines.filter((one) => one.changes().some(({ to }) => to === 'off'));
    lab.check(
      'and nobody else',
      off.every((one) => one === paused),
      off.map(({ name }) => name).join(' '),
    );
  },
};

export const PERSONS: readonly LabScene[] = [persons];
