// Orders of persons, given by the program with their own kubeconfig, and carried out by a guard that leads.
import { sleep } from '../../../../src/host/clock.ts';
import { ask, MERGE } from '../../kube/api.ts';
import { clock, until } from '../../scene.ts';
import { type Fleet, MACHINES, patrolled } from '../fleet.ts';
import { fencingsOf, type Guard, type Ran } from '../guard.ts';
import { type Lab, type LabScene, leads } from '../lab.ts';
import { offs, switched } from '../machine.ts';
import { aPerson, type Person } from '../person.ts';
import { someMachines } from './one-machine.ts';

const said = ({ code, stdout, stderr }: Ran): string => `${code}: ${stdout}${stderr}`;
const phaseOf = async (name: string): Promise<string | undefined> => (await fencingsOf(name)).at(-1)?.phase;
const isOver = async (name: string): Promise<true | null> => ((await phaseOf(name)) === 'closed' ? true : null);

const expects =
  (lab: Lab) =>
  async (what: string, run: Promise<Ran>, code: number, text: string | RegExp): Promise<void> => {
    const ran = await run;
    const all = `${ran.stdout}${ran.stderr}`;
    const isSaid = typeof text === 'string' ? all.includes(text) : text.test(all);
    lab.check(`${what}: status ${code}`, ran.code === code && isSaid, said(ran));
  };

const ordersScene: LabScene = {
  name: 'orders of persons',
  point: 9,
  body: async (lab) => {
    const fleet = await lab.fleet(someMachines(9));
    const expect = expects(lab);
    const storm = { maxUnhealthy: '60%', domainShare: '100%', burst: { nodes: 3, within: '30s' }, coolDown: '10m' };
    const [g1, g2] = await lab.led(
      { name: 'g1', config: { fenceWhen: 'always', storm } },
      { name: 'g2', config: { fenceWhen: 'always', storm } },
    );
    if (g1 === undefined || g2 === undefined) throw new Error('no guards');
    const ann = await aPerson('ann');
    const bob = await aPerson('bob');
    const eve = await aPerson('eve', { mayOrder: false });
    await patrolled(fleet.machines);

    await expect('without the roles, nothing is written', eve.order('pause'), 3, 'forbidden');
    await expect('a node that is not there', ann.order('fence', 'm99'), 1, 'there is no Node m99');
    await expect('a release of nobody', ann.order('release', 'm99', '--for', '10m'), 1, 'there is no such node');
    await expect('a release of no domain', ann.order('release', 'rack=1', '--for', '10m'), 1, 'failure domain');
    await expect('a living node', ann.order('fence', 'm1'), 1, 'its kubelet answers (gate witness)');
    await expect('confirm-off of a living node', ann.order('confirm-off', 'm1', '--checked', 'm1'), 1, 'signs of life');

    await paused(lab, fleet, ann, [g1, g2]);
    await confirmed(lab, fleet, ann);
    await fencedAtOnce(lab, fleet, [ann, bob]);
    await released(lab, fleet, ann);
    await taken(lab, fleet, ann, [g1, g2]);

    const history = await ann.run('history');
    lab.check(
      'history names the persons',
      /fencing \S+, closed, ordered by ann: the lab says so/.test(history.stdout),
      said(history),
    );
    lab.check('m1 was never touched', offs(fleet.machine('m1')) === 0);
  },
};

/** A pause holds, also under the next leader. */
async function paused(lab: Lab, fleet: Fleet, ann: Person, guards: readonly Guard[]): Promise<void> {
  const expect = expects(lab);
  await expect('pause', ann.order('pause'), 0, 'accepted');
  fleet.machine('m0').kubelet('silent');
  const leader = guards.find(leads);
  if (leader === undefined) throw new Error('nobody leads');
  leader.signal('SIGKILL');
  const other = guards.find((guard) => guard !== leader);
  if (other === undefined) throw new Error('no other guard');
  await until('the other one leads', () => leads(other) || null, 120_000);
  await sleep(clock, 150_000);
  lab.check('a pause holds, also under the next leader', offs(fleet.machine('m0')) === 0);
  await expect('resume', ann.order('resume'), 0, 'accepted');
  await until('and is over: m0 is fenced', () => offs(fleet.machine('m0')) === 1 || null, 120_000);
  fleet.machine('m0').kubelet('up');
  await until('m0 is back', () => fleet.isBack('m0') || null, 300_000);
  leader.start();
}

/** A person stands for a device that answers no more, and not for a machine that runs. */
async function confirmed(lab: Lab, fleet: Fleet, ann: Person): Promise<void> {
  const expect = expects(lab);
  const [burnt, alone, lost] = ['m2', 'm3', 'm8'].map(fleet.machine);
  if (burnt === undefined || alone === undefined || lost === undefined) throw new Error('no machines');
  burnt.device('says', 'error');
  burnt.power('off');
  alone.device('says', 'error');
  alone.kubelet('silent', 'answers');
  await sleep(clock, 60_000);
  await expect(
    'confirm-off with another name',
    ann.order('confirm-off', 'm2', '--checked', 'm3'),
    1,
    'the name that was checked is another one',
  );
  await expect(
    'confirm-off of a machine whose kubelet answers',
    ann.order('confirm-off', 'm3', '--checked', 'm3', '--device-is-wrong'),
    1,
    'its kubelet answers (gate witness)',
  );
  alone.device('says', null);
  alone.kubelet('up');
  // Its device cannot say that it is off: the person does.
  fleet.believe('m2');
  await expect('confirm-off', ann.order('confirm-off', 'm2', '--checked', 'm2'), 0, 'accepted');
  await until(
    'it gets the taint',
    () => fleet.marks.some(({ node, isTainted }) => node === 'm2' && isTainted) || null,
    120_000,
  );
  await until('it is left off', async () => ((await phaseOf('m2')) === 'left-off' ? true : null), 180_000);
  lab.check(
    'no device was sent an off',
    burnt.calls().every(({ action }) => action !== 'off'),
  );
  lost.kubelet('silent');
  // Suspect, and not yet dead.
  await sleep(clock, 50_000);
  await expect(
    'confirm-off of a machine whose device says on',
    ann.order('confirm-off', 'm8', '--checked', 'm8'),
    1,
    'a device of the node says on (gate device)',
  );
  await expect('a machine that is off is not rehearsed', ann.run('rehearse', 'm2', '--by', 'ann'), 1, 'open already');
  burnt.device('says', null);
  await expect('power-on', ann.order('power-on', 'm2'), 0, 'accepted');
  await until('m2 is back', () => fleet.isBack('m2') || null, 300_000);
  await until('and its fencing over', () => isOver('m2'), 60_000);
  lost.kubelet('up');
  await until('m8 is as before', () => fleet.isBack('m8') || null, 300_000);
}

/** Two persons order the same at once: one of them is told that it is under way. */
async function fencedAtOnce(lab: Lab, fleet: Fleet, persons: readonly Person[]): Promise<void> {
  const machine = fleet.machine('m4');
  machine.kubelet('up', 'refused');
  await sleep(clock, 3_000);
  const ran = await Promise.all([...persons, ...persons].map((person) => person.order('fence', 'm4')));
  const codes = ran.map(({ code }) => code).toSorted();
  lab.check(
    'fence of a living node by two persons, twice each: one is accepted',
    codes.join() === '0,1,1,1',
    ran.map(said).join('; '),
  );
  await until('it is off', () => offs(fleet.machine('m4')) === 1 || null, 60_000);
  machine.kubelet('up');
  await until('it is back', () => fleet.isBack('m4') || null, 300_000);
  await until('and its fencing over', () => isOver('m4'), 60_000);
  lab.check('it was powered off once', switched(machine) === 'off on');
}

/** Three that fall silent together are held, until a person releases one of them. */
async function released(lab: Lab, fleet: Fleet, ann: Person): Promise<void> {
  const expect = expects(lab);
  const three = ['m5', 'm6', 'm7'].map(fleet.machine);
  for (const machine of three) machine.kubelet('silent');
  await sleep(clock, 150_000);
  lab.check(
    'a burst is held',
    three.every((machine) => offs(machine) === 0),
  );
  await expect('release', ann.order('release', 'm5', '--for', '10m'), 0, 'accepted');
  await until('the one that was released is fenced', () => offs(fleet.machine('m5')) === 1 || null, 120_000);
  await sleep(clock, 20_000);
  lab.check('and no other one', offs(fleet.machine('m6')) + offs(fleet.machine('m7')) === 0);
  for (const machine of three) machine.kubelet('up');
  await until('m5 is back', () => fleet.isBack('m5') || null, 300_000);
}

/** Guards that do not answer: the order is taken back, or it is too old when they read it. */
async function taken(lab: Lab, fleet: Fleet, ann: Person, guards: readonly Guard[]): Promise<void> {
  const expect = expects(lab);
  const machine = fleet.machine('m1');
  machine.kubelet('up', 'refused');
  for (const guard of guards) guard.signal('SIGSTOP');
  await expect('nobody answers', ann.order('fence', 'm1'), 3, 'the order was taken back');
  const map = await ask('/api/v1/namespaces/nodewarden-guard/configmaps/guard-orders');
  const kept = Object.entries((map['data'] ?? {}) as Record<string, string>).find(([, text]) =>
    text.includes('"resume"'),
  );
  if (kept === undefined) throw new Error('no order is left');
  const lease = await ask('/apis/coordination.k8s.io/v1/namespaces/nodewarden-guard/leases/nodewarden-guard');
  const again = (id: string, change: object): Record<string, string> => ({
    [`order-${id}`]: JSON.stringify({
      ...{ id, by: 'ann', because: 'again', verb: 'fence', node: { name: 'm1', uid: fleet.node('m1').metadata.uid } },
      ...change,
    }),
  });
  const to = lease['spec'].holderIdentity;
  // One that its command left behind, one of the past written again, and what nobody can read.
  await ask('/api/v1/namespaces/nodewarden-guard/configmaps/guard-orders', {
    ...{ method: 'PATCH', type: MERGE },
    body: {
      data: {
        ...again('left', { to, lease: lease.metadata.resourceVersion }),
        ...again('past', { ...JSON.parse(kept[1]), id: 'past', verb: 'fence' }),
        ...again('bare', { to }),
        'order-junk': 'x'.repeat(9_000),
      },
    },
  });
  await sleep(clock, 20_000);
  for (const guard of guards) guard.signal('SIGCONT');
  await until(
    'all of them are answered',
    async () => {
      const now = await ask('/api/v1/namespaces/nodewarden-guard/configmaps/guard-orders');
      return ['left', 'past', 'bare', 'junk'].every((id) => `answer-${id}` in now['data']) || null;
    },
    120_000,
  );
  const now = await ask('/api/v1/namespaces/nodewarden-guard/configmaps/guard-orders');
  const whys = ['left', 'past', 'bare', 'junk'].map((id) => JSON.parse(now['data'][`answer-${id}`]).answer.why);
  lab.check('old orders are refused', whys.join() === 'stale,stale,stale,stale', whys.join());
  await sleep(clock, 30_000);
  lab.check('and not carried out', offs(fleet.machine('m1')) === 0);
  machine.kubelet('up');
}

const cordon = (name: string, isCordoned: boolean): Promise<unknown> =>
  ask(`/api/v1/nodes/${name}`, { method: 'PATCH', type: MERGE, body: { spec: { unschedulable: isCordoned || null } } });

const rehearsal: LabScene = {
  name: 'a rehearsal',
  point: 9,
  body: async (lab) => {
    const fleet = await lab.fleet(someMachines(5));
    const expect = expects(lab);
    // The device of m3 is plugged into m4.
    const lab1 = { template: 'lab', parameters: { plug: 'm4' } };
    const [guard] = await lab.led({
      name: 'g1',
      config: { requireRehearsal: true, fencing: crossed(lab1) },
    });
    if (guard === undefined) throw new Error('no guard');
    const ann = await aPerson('ann');
    const rehearse = (name: string): Promise<Ran> => ann.run('rehearse', name, '--by', 'ann');
    await patrolled(fleet.machines.filter(({ name }) => name !== 'm3'));

    await expect('of a node in use', rehearse('m0'), 1, 'the node is not cordoned');
    await cordon('m0', true);
    const beganMs = Date.now();
    await expect('of a drained one', rehearse('m0'), 0, 'm0: proven: lab');
    lab.figure('a rehearsal', `${((Date.now() - beganMs) / 1_000).toFixed(0)} s`);
    lab.check('it was powered off once', switched(fleet.machine('m0')) === 'off on');
    lab.check('nobody was tainted', fleet.marks.length === 0);
    lab.check('it is back', fleet.isBack('m0'));
    // What a device has shown is stored once a minute.
    await sleep(clock, 70_000);
    const check = await guard.run('guard', 'check', 'm0');
    lab.check('check says when', /m0 .*20\d\d-\d\d/.test(check.stdout), said(check));

    const capture = await guard.run('guard', 'capture');
    lab.check('what it sees is captured', capture.code === 0 && capture.stdout.includes('name: m4'), said(capture));

    // A wrong plug: the innocent one is off for as long as it takes to see it.
    await cordon('m3', true);
    await expect('of a crossed wire', rehearse('m3'), 1, 'm3: not proven by');
    lab.check(
      'the other machine was switched on again',
      switched(fleet.machine('m4')) === 'off on',
      JSON.stringify(fleet.machine('m4').changes()),
    );
    lab.check('m3 never went off', fleet.machine('m3').changes().length === 0);
    await until('m4 is back', () => fleet.isBack('m4') || null, 120_000);
    lab.check(
      'and the device is not believed any more',
      guard.logText().includes('is not believed any more'),
      guard.logText().slice(-2_000),
    );
    await cordon('m0', false);
    await cordon('m3', false);
  },
};
const crossed = (m3: object) => ({
  deadline: '10s',
  templates: { lab: { agent: 'fence_lab', proof: 'power', parameters: { directory: MACHINES, plug: '{node}' } } },
  nodes: { m3: { power: [[m3]] } },
  default: { power: [[{ template: 'lab' }]] },
});

export const ORDERS: readonly LabScene[] = [ordersScene, rehearsal];
