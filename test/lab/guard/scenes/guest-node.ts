// A guest of QEMU whose kubelet is real, as the machine that dies. Its member finds refuge at the kubelet of this machine.
import path from 'node:path';
import { handshake } from '../../../../src/guard/witness.ts';
import { ask, type KubeObject, PODS } from '../../kube/api.ts';
import { NODE_NAME, RUN } from '../../kube/cluster.ts';
import { clock, until } from '../../scene.ts';
import { aStatefulSet, type Fleet, patrolled } from '../fleet.ts';
import { areClosed, fencingByQemu } from '../guard.ts';
import { BOOT_MS, type GuestNode, withGuestNode } from '../guest-node.ts';
import type { Lab, LabScene } from '../lab.ts';
import { switched } from '../machine.ts';
import { hostMachine } from '../real-machine.ts';
import { aVolume } from '../volumes.ts';
import { memberAt, someMachines } from './one-machine.ts';
import { absences, DEFAULTS, runs, TIMES } from './volumes.ts';

const MEMBER = `${PODS}/db-0`;
const RECOVERY = { powerOn: true, bootTime: '15m', stableFor: '5s', attempts: 3, perNodePerDay: 100 };

/** A member with a volume on a disk, for the two real machines, of which it takes the guest when it can. */
export async function aMember({ name }: GuestNode): Promise<void> {
  const disk = { path: path.join(RUN, 'share/data'), type: 'DirectoryOrCreate' };
  await aVolume('volume-of-db', 'data-db-0', { hostPath: disk });
  const among = (...names: readonly string[]) => ({
    matchExpressions: [{ key: 'kubernetes.io/hostname', operator: 'In', values: names }],
  });
  const nodeAffinity = {
    requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: [among(name, NODE_NAME)] },
    preferredDuringSchedulingIgnoredDuringExecution: [{ weight: 100, preference: among(name) }],
  };
  const container = {
    ...{
      name: 'main',
      image: 'docker.io/lab/load:1',
      imagePullPolicy: 'Never',
      command: ['/bin/load', 'lock=/data/lock'],
    },
    volumeMounts: [{ name: 'data', mountPath: '/data' }],
  };
  // Kubernetes itself deletes it after 300 s of silence, in which a loaded machine may not boot a guest.
  const tolerations = ['unreachable', 'not-ready'].map((state) => ({
    ...{ key: `node.kubernetes.io/${state}`, operator: 'Exists', effect: 'NoExecute' },
    tolerationSeconds: BOOT_MS / 1_000,
  }));
  await aStatefulSet('db', {}, true, { affinity: { nodeAffinity }, containers: [container], tolerations });
}

/** Before their kubelets end. */
export async function noMember(): Promise<void> {
  await ask('/apis/apps/v1/namespaces/default/statefulsets/db', { method: 'DELETE' });
  await ask(MEMBER, { method: 'DELETE' });
  await until(
    'its member is gone',
    () =>
      ask(MEMBER).then(
        () => null,
        () => true,
      ),
    60_000,
  );
}

/** Its member, once that is Ready on it. */
export const memberOn = ({ name }: GuestNode): Promise<{ readonly uid: string }> =>
  until(
    'its member runs on the guest',
    async () => {
      const member = await memberAt('db-0');
      return member?.node === name ? member : null;
    },
    BOOT_MS,
  );
type Played = { readonly lab: Lab; readonly guest: GuestNode; readonly fleet: Fleet };

const NAME = 'a guest with a kubelet';
const dies: LabScene = {
  name: NAME,
  point: 1,
  body: (lab) =>
    withGuestNode(lab, NAME, async (guest) => {
      const fleet = await lab.fleet(someMachines(3), [guest.machine, hostMachine]);
      await aMember(guest);
      await memberOn(guest);
      const fencing = fencingByQemu('g1', guest.name, guest.qemu);
      await lab.led({ name: 'g1', config: { ...DEFAULTS, recovery: RECOVERY, fencing } });
      await patrolled([fleet.machine(guest.name)]);
      await play({ lab, guest, fleet }).finally(() => noMember().catch(() => undefined));
    }),
};

async function play({ lab, guest, fleet }: Played): Promise<void> {
  const machine = fleet.machine(guest.name);
  const times = absences(lab);
  const boots: number[] = [];
  for (let at = 1; at <= TIMES; at++) {
    const { uid } = await memberOn(guest);
    const node = fleet.node(guest.name);
    const before = machine.changes().length;
    // Its file system has no journal, and it is to boot again.
    await guest.run('sync');
    await until('its kubelet answers', async () => ((await said(guest)) === 'answers' ? true : null), BOOT_MS);
    const silentMs = Date.now();
    machine.kubelet('silent');
    const after = await runs(fleet, 'db-0', uid);
    await times.isOver(guest.name, silentMs);
    lab.check(`${at}: its successor runs elsewhere`, after.machine !== machine);
    await until('it is back, without any taint', async () => isBack(fleet, guest), BOOT_MS);
    boots.push(Date.now() - (machine.changes().at(-1)?.atMs ?? 0));
    const now = fleet.node(guest.name);
    const power = switched(machine, before);
    lab.check(`${at}: it was off once, and is back without a mark`, power === 'off on', power);
    lab.check(
      `${at}: it is the same Node, in another boot`,
      now.metadata.uid === node.metadata.uid && bootOf(now) !== bootOf(node),
      `${now.metadata.uid} ${bootOf(now)}, before ${node.metadata.uid} ${bootOf(node)}`,
    );
    const left = (await guest.run('pgrep -x load || true')).trim();
    lab.check(`${at}: nothing of its old member runs on it`, left === '', left);
    await ask(MEMBER, { method: 'DELETE' });
  }
  times.check();
  lab.figure('s from power on to the end of its fencing', boots.map((ms) => (ms / 1_000).toFixed(0)).join(' '));
}

const bootOf = (node: KubeObject): string => node['status'].nodeInfo.bootID;
async function isBack(fleet: Fleet, { name }: GuestNode): Promise<true | null> {
  const taints: readonly object[] = fleet.node(name)['spec'].taints ?? [];
  return (fleet.isBack(name) && taints.length === 0 && (await areClosed())) || null;
}

async function said({ kubelet }: GuestNode): Promise<string> {
  const answer = await handshake(clock, kubelet);
  return answer.known ? answer.value : answer.detail;
}

export const GUEST_NODE: readonly LabScene[] = [dies];
