// Random secrets of devices through a whole fencing, and a search for them everywhere; and an agent that gives its secret away.
import { randomBytes } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { ask } from '../../kube/api.ts';
import { RUN } from '../../kube/cluster.ts';
import { clock, until } from '../../scene.ts';
import { areClosed } from '../guard.ts';
import type { LabScene } from '../lab.ts';
import { NO_STORM } from './api-away.ts';
import { someMachines } from './one-machine.ts';

const LOOK_EVERY_MS = 20;
const HTTP = '127.0.0.1:20262';
const PLACES: readonly string[] = [
  '/api/v1/nodes',
  '/api/v1/events',
  '/api/v1/configmaps',
  '/apis/coordination.k8s.io/v1/leases',
];

/** Looks at the arguments and the environment of every process of this machine, over and over. */
function watchProcesses(secret: string): { readonly end: () => { readonly hits: readonly string[]; looks: number } } {
  const hits = new Set<string>();
  let looks = 0;
  let cancel = (): void => undefined;
  const look = (): void => {
    for (const pid of fs.readdirSync('/proc')) {
      if (!/^\d+$/.test(pid)) continue;
      for (const file of ['cmdline', 'environ']) {
        const text = readIfThere(`/proc/${pid}/${file}`);
        if (text.includes(secret)) hits.add(`${file} of ${text.split('\0')[0]}`);
      }
    }
    looks += 1;
    cancel = clock.after(LOOK_EVERY_MS, look);
  };
  look();
  return {
    end: () => {
      cancel();
      return { hits: [...hits], looks };
    },
  };
}

function readIfThere(file: string): string {
  try {
    return fs.readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}

/** Files of a directory that have it, without those that it is kept in. */
const filesWith = (directory: string, secret: string): readonly string[] =>
  fs
    .readdirSync(directory, { recursive: true, encoding: 'utf8' })
    .map((file) => path.join(directory, file))
    .filter((file) => !file.includes('/secrets/') && fs.lstatSync(file).isFile() && readIfThere(file).includes(secret));

const secrets: LabScene = {
  name: 'secrets',
  point: 8,
  body: async (lab) => {
    const secret = randomBytes(16).toString('hex');
    const fleet = await lab.fleet(someMachines(5));
    const config = { fenceWhen: 'always', storm: NO_STORM, http: { listen: HTTP } };
    const watched = watchProcesses(secret);
    const [guard] = await lab.led({ name: 'g1', config, secret });
    const [machine] = fleet.machines;
    if (!guard || !machine) throw new Error('no machine');
    await until('its device was asked', () => machine.calls().length > 0 || null, 300_000);
    machine.kubelet('silent');
    await until('it is off', () => machine.changes().some(({ to }) => to === 'off') || null, 300_000);
    machine.kubelet('up');
    await until('it is back', async () => ((await areClosed()) && fleet.isBack(machine.name)) || null, 300_000);
    const said = [
      await guard.run('guard', 'check'),
      await guard.run('guard', 'status', '--output', 'json'),
      await guard.run('guard', 'explain', machine.name),
      await guard.run('guard', 'history'),
      await guard.run('config', 'show'),
    ].map(({ stdout, stderr }) => stdout + stderr);
    const { hits, looks } = watched.end();
    lab.figure('looks at all processes', looks);
    lab.check('no arguments and no environment have it', hits.length === 0, hits.join('; '));
    // Its agent got it all the same.
    lab.check(
      'the agent was given it',
      fs.readFileSync(path.join(machine.directory, 'given'), 'utf8').includes(secret),
    );
    for (const place of PLACES) {
      lab.check(`${place} does not have it`, !JSON.stringify(await ask(place)).includes(secret));
    }
    const metrics = await (await fetch(`http://${HTTP}/metrics`)).text();
    lab.check('the metrics do not', metrics.includes('nodewarden_guard_leader') && !metrics.includes(secret));
    lab.check('check, status, explain, history and config show do not', !said.some((text) => text.includes(secret)));
    lab.check('the log does not', guard.logText().length > 0 && !guard.logText().includes(secret));
    const files = filesWith(path.join(RUN, 'guards'), secret);
    lab.check('none of its files has it but the one it was read from', files.length === 0, files.join(' '));

    const templates = {
      bmc: {
        ...{ agent: 'fence_ipmilan', secrets: { password: 'device' } },
        // Stands in for the program that would reach a BMC: what matters is what is handed to it.
        parameters: { ip: '127.0.0.1', username: 'fencer', lanplus: '1', ipmitool_path: '/usr/sbin/fence_tool' },
      },
    };
    const fencing = {
      ...{ deadline: '25s', secretDirectory: path.join(path.dirname(guard.configFile), 'secrets') },
      ...{ templates, nodes: { [machine.name]: { power: [[{ template: 'bmc' }]] } } },
    };
    const leaky = await lab.guard({ name: 'leaky', config: { fencing }, secret });
    const { stdout, stderr, code } = await leaky.run('guard', 'check', machine.name);
    lab.check(
      'check names the program that fence_ipmilan hands the password to',
      /fence_tool|ipmitool/.test(stdout + stderr) && /argument/.test(stdout + stderr),
      `${code} ${stdout}${stderr}`,
    );
    lab.check('without the password', !(stdout + stderr).includes(secret));
  },
};

export const SECRETS: readonly LabScene[] = [secrets];
