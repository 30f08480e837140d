// A member of a StatefulSet with a volume, whose machine hangs: with a guard, without one, and with a deletion by force.
import path from 'node:path';
import { sleep } from '../../../../src/host/clock.ts';
import { ask } from '../../kube/api.ts';
import { RUN } from '../../kube/cluster.ts';
import { clock, until } from '../../scene.ts';
import { aStatefulSet, type Fleet } from '../fleet.ts';
import { areClosed, fencingsOf } from '../guard.ts';
import type { Lab, LabScene } from '../lab.ts';
import { aLedger, type Ledger, overlapMs } from '../ledger.ts';
import type { Machine } from '../machine.ts';
import { aVolume, csiAttacher, type Volumes } from '../volumes.ts';
import { NO_STORM } from './api-away.ts';
import { memberAt, someMachines } from './one-machine.ts';

export const TIMES = Number(process.env['LAB_TIMES'] ?? 5);
const MACHINES = 5;
const PODS = '/api/v1/namespaces/default/pods';
/** As by default: the other scenes are quicker. */
export const DEFAULTS = { suspectAfter: '40s', deadAfter: '2m' };

type Played = { readonly fleet: Fleet; readonly volumes: Volumes; readonly ledger: Ledger };

async function withVolumes(lab: Lab, machines: number, body: (played: Played) => Promise<void>): Promise<void> {
  const volumes = csiAttacher();
  const ledger = aLedger(path.join(RUN, 'ledger'));
  try {
    const fleet = await lab.fleet(someMachines(machines).map((spec) => ({ ...spec, volumes, ledger })));
    await body({ fleet, volumes, ledger });
  } finally {
    ledger.close();
    volumes.close();
  }
}

/** The machine on which it runs. */
export async function runs(fleet: Fleet, pod: string, uidBefore = ''): Promise<{ machine: Machine; uid: string }> {
  const { node, uid } = await until(
    `${pod} runs`,
    async () => {
      const now = await memberAt(pod);
      return now === null || now.uid === uidBefore ? null : now;
    },
    900_000,
  );
  return { machine: fleet.machine(node), uid };
}

async function aMember(fleet: Fleet, name: string): Promise<{ machine: Machine; uid: string }> {
  await aVolume(`volume-of-${name}`, `data-${name}-0`);
  await aStatefulSet(name, {}, true);
  return runs(fleet, `${name}-0`);
}

type Absences = {
  /** Now: the successor of a member on that machine is Ready. */
  readonly isOver: (machine: string, silentMs: number) => Promise<void>;
  /** All of them, against the goals. */
  readonly check: () => void;
};
/** How long a member was away. */
export function absences(lab: Lab): Absences {
  const fromProof: number[] = [];
  const fromLife: number[] = [];
  const say = (all: readonly number[]): string => all.map((ms) => (ms / 1_000).toFixed(1)).join(' ');
  return {
    isOver: async (machine, silentMs) => {
      const nowMs = Date.now();
      const steps = (await fencingsOf(machine)).flatMap((record) => record.steps);
      fromLife.push(nowMs - silentMs);
      fromProof.push(nowMs - (steps.findLast(({ phase }) => phase === 'proven')?.wallMs ?? 0));
    },
    check: () => {
      lab.figure('s from the proof to its successor Ready', say(fromProof));
      lab.figure('s from its last sign of life to its successor Ready', say(fromLife));
      lab.check('its successor is Ready within 60 s of the proof', Math.max(...fromProof) < 60_000);
      lab.check('and within 4 min of the last sign of life', Math.max(...fromLife) < 240_000);
    },
  };
}

const moves: LabScene = {
  name: 'a member with a volume',
  point: 1,
  body: (lab) =>
    withVolumes(lab, MACHINES, async ({ fleet, volumes }) => {
      let member = await aMember(fleet, 'db');
      await lab.led({ name: 'g1', config: DEFAULTS }, { name: 'g2', config: DEFAULTS });
      const times = absences(lab);
      for (let at = 0; at < TIMES; at++) {
        const { machine, uid } = member;
        const changes = machine.changes().length;
        machine.kubelet('silent');
        const silentMs = Date.now();
        member = await runs(fleet, 'db-0', uid);
        await times.isOver(machine.name, silentMs);
        lab.check(
          `${at + 1}: its volume is detached from the old machine`,
          volumes.attachedTo(machine.name).length === 0,
        );
        machine.kubelet('up');
        await until('the machine is back', () => fleet.isBack(machine.name) || null, 300_000);
        const since = machine.changes().slice(changes);
        lab.check(`${at + 1}: its machine was off once, and is back without a mark`, since.length === 2);
      }
      times.check();
    }),
};

const WRITERS = 20;

const writers: LabScene = {
  name: 'single writers',
  point: 2,
  body: (lab) =>
    withVolumes(lab, WRITERS + MACHINES, async ({ fleet, ledger }) => {
      const config = { storm: NO_STORM };
      const names = Array.from({ length: WRITERS }, (_, at) => `w${at}`);
      const before = await Promise.all(names.map((name) => aMember(fleet, name)));
      await lab.led({ name: 'g1', config }, { name: 'g2', config });
      const cut = new Set(before.map(({ machine }) => machine));
      // Only their way to the API: their processes go on until the power is off.
      for (const machine of cut) machine.kubelet('silent');
      const after = await Promise.all(names.map((name, at) => runs(fleet, `${name}-0`, before[at]?.uid)));
      lab.figure('members that moved', after.length);
      lab.figure('machines that were cut', cut.size);
      lab.figure('members that ran twice', fleet.wrong.length);
      lab.check(
        'each of them was off before its members ran elsewhere',
        [...cut].every((machine) => machine.changes()[0]?.to === 'off'),
      );
      // The successors of all have written for some time.
      await sleep(clock, 5_000);
      const written = names.map((name) => ledger.writers(`default/${name}-0`));
      lab.check(
        'the ledger of each has lines of two writers',
        written.every(({ length }) => length === 2),
      );
      const gaps = written.map(([first, second]) => ((second?.firstMs ?? 0) - (first?.lastMs ?? 0)) / 1_000);
      lab.figure(
        's from the last line of a writer to the first of its successor, at least',
        Math.min(...gaps).toFixed(1),
      );
      lab.figure('ledgers with overlapping writers', written.filter((writers) => overlapMs(writers) > 0).length);
      lab.check(
        'in no ledger do two writers overlap',
        written.every((writers) => overlapMs(writers) === 0),
      );
      for (const machine of cut) machine.kubelet('up');
      await until('all are back', async () => (await areClosed()) || null, 400_000);
      lab.check(
        'each of them was off once',
        [...cut].every((machine) => machine.changes().length === 2),
      );
    }),
};

const alone: LabScene = {
  name: 'without a guard',
  point: 1,
  body: (lab) =>
    withVolumes(lab, 3, async ({ fleet, volumes, ledger }) => {
      const { machine, uid } = await aMember(fleet, 'db');
      machine.kubelet('silent');
      await sleep(clock, 720_000);
      const pod = await ask(`${PODS}/db-0`);
      lab.check(
        'after 12 min it is terminating, and has no successor',
        pod.metadata.uid === uid && pod.metadata.deletionTimestamp !== undefined,
      );
      // From here on it runs twice, and that is what is shown.
      fleet.believe(machine.name);
      await ask(`${PODS}/db-0`, { method: 'DELETE', body: { gracePeriodSeconds: 0 } });
      const forcedMs = Date.now();
      await until(
        'its volume is detached',
        () => (volumes.attachedTo(machine.name).length === 0 ? true : null),
        900_000,
      );
      lab.figure('s from a deletion by force to the detachment', ((Date.now() - forcedMs) / 1_000).toFixed(0));
      await runs(fleet, 'db-0', uid);
      lab.figure('members that ran twice after a deletion by force', fleet.overlaps.length);
      lab.check('a deletion by force lets it run twice', fleet.overlaps.length > 0);
      await sleep(clock, 5_000);
      const overlap = overlapMs(ledger.writers('default/db-0'));
      lab.figure('s in which both wrote to its ledger, in 5 s', (overlap / 1_000).toFixed(1));
      lab.check('both write to its ledger', overlap > 0);
    }),
};

export const VOLUMES: readonly LabScene[] = [moves, writers, alone];
