// Devices that lie, hang, or say yes to everything.
import { sleep } from '../../../../src/host/clock.ts';
import { clock, until } from '../../scene.ts';
import { patrolled } from '../fleet.ts';
import type { LabScene } from '../lab.ts';
import type { Machine } from '../machine.ts';
import { NO_STORM } from './api-away.ts';
import { someMachines } from './one-machine.ts';

const lies: LabScene = {
  name: 'devices that lie',
  point: 6,
  body: async (lab) => {
    const fleet = await lab.fleet(someMachines(8));
    const [guard] = await lab.led({ name: 'g1', config: { fenceWhen: 'always', storm: NO_STORM } });
    if (guard === undefined) throw new Error('no guard');
    const [hangs, yes, flips, offHangs, offFails, liar] = ['m0', 'm1', 'm2', 'm3', 'm4', 'm5'].map(fleet.machine);
    if (!hangs || !yes || !flips || !offHangs || !offFails || !liar) throw new Error('no machines');
    await patrolled(fleet.machines);
    const marked = (name: string): boolean => fleet.marks.some(({ node, isTainted }) => node === name && isTainted);

    hangs.device('says', 'hang');
    yes.device('says', 'done');
    yes.device('off', 'nothing');
    // Off in the first round alone.
    flips.device('off', 'flip');
    offHangs.device('off', 'hang');
    offFails.device('off', 'error');
    // Off does nothing, and the device says off all the same: the machine goes on.
    liar.device('off', 'nothing');
    fleet.believe(liar.name);
    for (const machine of [hangs, yes, flips, offHangs, offFails, liar]) machine.kubelet('silent');
    await until(
      'the liar is told to go off',
      () => liar.calls().some(({ action }) => action === 'off') || null,
      300_000,
    );
    liar.device('says', 'off');
    await until('the liar is believed', () => marked(liar.name) || null, 200_000);
    const livesMs = Date.now();
    liar.kubelet('up');
    const gone = await until(
      'its taint is gone',
      () => fleet.marks.find(({ node, isTainted, atMs }) => node === liar.name && !isTainted && atMs > livesMs) ?? null,
      60_000,
    );
    const awayMs = gone.atMs - livesMs;
    lab.figure('life to the removal of a taint that a lie brought about', `${(awayMs / 1_000).toFixed(1)} s`);
    lab.check('the taint is away within 15 s of life', awayMs <= 15_000, `${awayMs} ms`);
    // Every attempt, and the retries after it.
    await sleep(clock, 120_000);
    for (const machine of [hangs, yes, flips, offHangs, offFails]) {
      lab.check(`${machine.name}: no taint`, !marked(machine.name), JSON.stringify(machine.calls().slice(-5)));
    }
    flips.kubelet('up');
    const reported: readonly (readonly [Machine, string, string])[] = [
      [hangs, 'a status that hangs', 'held by gate device'],
      [yes, 'exit status 0 for everything', 'held by gate device'],
      [flips, 'off, then on, and the same boot', 'what a device said cannot be true'],
      [offHangs, 'an off that hangs', 'off is not proven'],
      [offFails, 'an off that fails', 'off is not proven'],
      [liar, 'life after a proof', 'it lives after it was proven off'],
      [liar, 'off while the machine runs', 'what a device said cannot be true'],
    ];
    for (const [{ name }, what, words] of reported) {
      const isTold = await until(what, () => guard.logText().includes(`${name}: ${words}`) || null, 100_000).catch(
        () => false,
      );
      lab.check(`reported: ${what}`, isTold);
    }
    lab.check(
      'no machine was switched off by another one',
      [...fleet.machines].every(({ name, changes }) => changes().length === 0 || ['m3'].includes(name)),
    );
  },
};

export const LIES: readonly LabScene[] = [lies];
