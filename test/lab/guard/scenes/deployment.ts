// The Deployment of config/kubernetes: in dry run as it is, and armed, with both of its pods on one machine.
import { sleep } from '../../../../src/host/clock.ts';
import { ask, type KubeObject, MERGE, saysReady } from '../../kube/api.ts';
import { clock, until } from '../../scene.ts';
import type { Bmc } from '../bmc.ts';
import { aStatefulSet, patrolled } from '../fleet.ts';
import { areClosed, fencings, NAMESPACE } from '../guard.ts';
import {
  type Changes,
  followLog,
  GUARD_PODS,
  guard,
  guardPods,
  inside,
  KUBELETS,
  killContainer,
  leader,
  withDeployment,
} from '../guard-pods.ts';
import type { Lab, LabScene } from '../lab.ts';
import { switched } from '../machine.ts';
import { memberAt } from './one-machine.ts';

const STATE = 'GET /redfish/v1/Systems/1';
const MAP = `/api/v1/namespaces/${NAMESPACE}/configmaps/nodewarden-guard-config`;

const MEMBERS = { lab: 'members' };
const machines = () => KUBELETS.map((address, at) => ({ name: `host${at}`, address, labels: MEMBERS }));
const readyPods = (count: number, not = ''): Promise<readonly KubeObject[]> =>
  until(
    `${count} pods of the guard are Ready`,
    async () => {
      const ready = (await guardPods()).filter((pod) => saysReady(pod) && pod.metadata.uid !== not);
      return ready.length >= count ? ready : null;
    },
    300_000,
  );

const dryRun: LabScene = {
  name: 'as a Deployment',
  point: 0,
  body: (lab) => withDeployment(lab, dryRun, [], (bmc, password) => play(lab, bmc, password)),
};

async function play(lab: Lab, bmc: Bmc, password: string): Promise<void> {
  const fleet = await lab.fleet(machines());
  await aStatefulSet('db', { 'kubernetes.io/hostname': 'host0' });
  await until('its member runs', () => memberAt('db-0'));
  const [first] = await readyPods(1);
  if (first === undefined) throw new Error('no pod');
  const log = followLog(first);
  const told = (words: string | RegExp, deadlineMs?: number): Promise<boolean> =>
    until(`it says ${words}`, () => log.text().search(words) >= 0 || null, deadlineMs).catch(() => false);
  const two = await guardPods();
  lab.check(
    'one of the two runs, and the other one waits for a second machine',
    two.length === 2 && two.some(({ status }) => status.phase === 'Pending'),
  );
  const self = (await inside(first, 'grep', '-E', '^(Uid|CapEff|CapBnd|NoNewPrivs|Seccomp):', '/proc/1/status')).said;
  lab.check(
    'it runs as its own user, without a capability, with a filter of system calls',
    /^Uid:\t20260\t/m.test(self) &&
      !/^Cap.*[1-9a-f]$/m.test(self) &&
      /^NoNewPrivs:\t1$/m.test(self) &&
      /^Seccomp:\t2$/m.test(self),
    self,
  );
  lab.check('its root is read-only', (await inside(first, 'touch', '/usr/sbin/fence_mine')).code !== 0);
  lab.check('it leads', await told('"event":"leader"'), log.text().slice(-2_000));
  await until('its device was asked', () => bmc.asked.includes(STATE) || null, 300_000).catch(() => undefined);
  lab.check(
    'its agent asks the device with the password of the Secret',
    bmc.asked.includes(STATE) && bmc.refused() === 0,
    `${bmc.asked.length} asked, ${bmc.refused()} refused\n${log.text().slice(-2_000)}`,
  );
  const check = await guard(first, 'check');
  lab.check(
    'check in its pod: all of it works',
    check.code === 0 && check.said.includes('host0'),
    `${check.code} ${check.said}`,
  );
  const status = await guard(first, 'status');
  lab.check('status in its pod', status.code === 0 && status.said.includes('dry run'), `${status.code} ${status.said}`);

  fleet.machine('host0').kubelet('silent');
  lab.check(
    'a machine that falls silent would be fenced',
    await told('host0: would be fenced', 600_000),
    log.text().slice(-4_000),
  );
  fleet.machine('host0').kubelet('up');
  lab.check(
    'no device gets anything but a request for its status',
    bmc.asked.every((line) => line.startsWith('GET ')),
  );

  const text = (await ask(MAP))['data']['guard.yaml'].replace('dryRun: true', 'dryRun: true\ndeadAfter: 3m');
  await ask(MAP, { method: 'PATCH', type: MERGE, body: { data: { 'guard.yaml': text } } });
  lab.check(
    'a change of its ConfigMap is taken without a restart',
    await told(/is in force(.|\n)*is in force/, 300_000),
    log.text().slice(-2_000),
  );

  const again = (await guardPods()).find(({ metadata }) => metadata.uid === first.metadata.uid);
  lab.check('its probes never failed it', again?.['status'].containerStatuses[0].restartCount === 0);
  lab.check('its log does not have the password', !log.text().includes(password));
  log.end();
  const holder = await leader();
  const beganMs = Date.now();
  await ask(`${GUARD_PODS}/${first.metadata.name}`, { method: 'DELETE' });
  const [second] = await readyPods(1, first.metadata.uid);
  await until('another one leads', async () => {
    const now = await leader();
    return (now !== '' && now !== holder) || null;
  });
  lab.figure(
    's from the deletion of the pod that leads to the next leader',
    ((Date.now() - beganMs) / 1_000).toFixed(0),
  );
  lab.check(
    'the pod that leads is deleted: the one that waited takes its place and leads',
    second?.metadata.uid !== first.metadata.uid,
  );
}

/** Two machines that run pods are more than this one has. */
const ON_ONE_MACHINE: Changes = [['topologyKey: kubernetes.io/hostname', 'topologyKey: lab/none']];
const ARMED: Changes = [
  ['dryRun: true', 'dryRun: false\n    settle: 30s\n    recovery: { stableFor: 5s }\n    patrol: { every: 1m }'],
];

const armed: LabScene = {
  name: 'as an armed Deployment',
  point: 5,
  body: (lab) => withDeployment(lab, armed, [...ON_ONE_MACHINE, ...ARMED], (bmc) => fences(lab, bmc)),
};

const preferring = (name: string) => ({
  preferredDuringSchedulingIgnoredDuringExecution: [
    {
      weight: 100,
      preference: { matchExpressions: [{ key: 'kubernetes.io/hostname', operator: 'In', values: [name] }] },
    },
  ],
});

/** The pod that leads is killed right after it has sent the off. */
async function fences(lab: Lab, bmc: Bmc): Promise<void> {
  const fleet = await lab.fleet(machines());
  const host = fleet.machine('host0');
  bmc.of(host);
  await aStatefulSet('db', MEMBERS, false, { affinity: { nodeAffinity: preferring(host.name) } });
  const before = await until('its member runs', () => memberAt('db-0'));
  lab.check('the member runs on the machine that is to die', before.node === host.name, before.node);
  const both = await readyPods(2);
  lab.check('both pods are Ready at once', both.length === 2);
  const logs = new Map(both.map((pod) => [pod.metadata.name ?? '', followLog(pod)]));
  const logText = (): string => [...logs].map(([name, log]) => `--- ${name}\n${log.text().slice(-3_000)}`).join('\n');
  const leads = async (): Promise<KubeObject> =>
    until('one of them leads', async () => {
      const holder = await leader();
      return both.find(({ metadata: { name } }) => name !== undefined && holder.includes(name)) ?? null;
    });
  const first = await leads();
  const holder = await leader();
  await patrolled([host]);
  // What the patrol has heard is in its record of devices by then, and it may decide.
  await sleep(clock, 60_000);
  host.kubelet('silent');
  const diedMs = Date.now();
  const off = await until('it is powered off', () => host.changes().find(({ to }) => to === 'off') ?? null, 600_000);
  killContainer(first);
  lab.figure('s from the last sign of life to the power-off', ((off.atMs - diedMs) / 1_000).toFixed(0));
  const mark = await until(
    'it has the taint',
    () => fleet.marks.find(({ node, isTainted }) => node === host.name && isTainted) ?? null,
    300_000,
  ).catch((error: Error) => {
    throw new Error(`${error.message}\n${logText()}`);
  });
  lab.figure(
    's from the power-off, when its leader is killed, to the taint',
    ((mark.atMs - off.atMs) / 1_000).toFixed(0),
  );
  const second = await leads();
  lab.check('another one goes on with it', (await leader()) !== holder, second.metadata.name);
  const after = await until(
    'its member runs elsewhere',
    async () => {
      const now = await memberAt('db-0');
      return now !== null && now.uid !== before.uid ? now : null;
    },
    300_000,
  );
  lab.check('its member runs elsewhere', after.node !== host.name, after.node);
  host.kubelet('up');
  await until('it is back without a mark', () => fleet.isBack(host.name) || null, 600_000);
  await until('its record is closed', async () => (await areClosed()) || null, 300_000);
  lab.check('off once and on once, by two leaders', switched(host) === 'off on', switched(host));
  lab.check('one record', (await fencings()).length === 1);
  lab.check(
    'nobody else was touched',
    fleet.marks.every(({ node }) => node === host.name),
  );
  const again = await readyPods(2);
  const restarts = again.map(({ status }) => status.containerStatuses[0].restartCount).sort();
  lab.check('the one that was killed stands by again', restarts.join() === '0,1', restarts.join());
  const history = await guard(second, 'history');
  lab.check('history in its pod tells of it', history.said.includes(host.name), history.said);
  for (const log of logs.values()) log.end();
}

export const DEPLOYMENT: readonly LabScene[] = [dryRun, armed];
