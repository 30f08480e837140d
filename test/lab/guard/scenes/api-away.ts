// The API server is away: every node falls silent by it, and nobody is fenced for it, also not when it is back.
import { sleep } from '../../../../src/host/clock.ts';
import { signalPart, startPart } from '../../kube/cluster.ts';
import { clock, until } from '../../scene.ts';
import type { LabScene } from '../lab.ts';
import { someMachines } from './one-machine.ts';

const AWAY_MS = 600_000;

const away: LabScene = {
  name: 'the API server is away',
  point: 4,
  body: async (lab) => {
    const fleet = await lab.fleet(someMachines(6));
    const config = { fenceWhen: 'always', storm: NO_STORM };
    await lab.led({ name: 'g1', config }, { name: 'g2', config });
    const offs = () => fleet.machines.filter((machine) => machine.changes().length > 0).map(({ name }) => name);
    for (const how of ['SIGSTOP', 'SIGKILL'] as const) {
      signalPart('apiserver', how);
      await sleep(clock, AWAY_MS);
      if (how === 'SIGSTOP') signalPart('apiserver', 'SIGCONT');
      else startPart('apiserver');
      await sleep(clock, 100_000);
      lab.check(
        `${how} for ${AWAY_MS / 60_000} min: nobody is powered off, then and in 100 s after it`,
        offs().length === 0,
        offs().join(' '),
      );
    }
    const dying = fleet.machine('m5');
    dying.kubelet('silent');
    await until(
      'afterwards one that dies is fenced',
      () => dying.changes().some(({ to }) => to === 'off') || null,
      300_000,
    );
    lab.check('and nobody else', offs().join(' ') === 'm5', offs().join(' '));
  },
};
/** What is to be shown here holds without the storm's limits as well. */
export const NO_STORM = {
  maxUnhealthy: '100%',
  domainShare: '100%',
  burst: { nodes: 1_000, within: '20s' },
  coolDown: '1m',
};

export const API_AWAY: readonly LabScene[] = [away];
