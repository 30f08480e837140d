// A guest with a real kubelet and the node agent goes down in order: first it boots again in time, then it stays away.
import { sleep } from '../../../../src/host/clock.ts';
import { ask, type KubeObject, PODS } from '../../kube/api.ts';
import { NODE_NAME } from '../../kube/cluster.ts';
import { clock, until } from '../../scene.ts';
import { type Fleet, patrolled } from '../fleet.ts';
import { fencingByQemu, type Guard } from '../guard.ts';
import { BOOT_MS, type GuestNode, withGuestNode } from '../guest-node.ts';
import type { Lab, LabScene } from '../lab.ts';
import { isOn } from '../qemu.ts';
import { hostMachine } from '../real-machine.ts';
import { aMember, memberOn, noMember } from './guest-node.ts';
import { memberAt, someMachines } from './one-machine.ts';
import { DEFAULTS } from './volumes.ts';

/** `deadAfter`, and some time to act in. */
const DEAD_MS = 150_000;
/** It boots on an emulated processor. */
const PLANNED_MS = 480_000;
const OFF_MS = 400_000;
const PHASES = `shutdownGracePeriodByPodPriority:
- { priority: 0, shutdownGracePeriodSeconds: 20 }
`;
const STAYS_BOUND = 'shutdownMode: restart';
const NAME = 'a guest with a kubelet and the node agent goes down in order';

type Played = { readonly lab: Lab; readonly guest: GuestNode; readonly fleet: Fleet; readonly guard: Guard };

const goesDown: LabScene = {
  name: NAME,
  point: 7,
  body: (lab) =>
    withGuestNode(lab, NAME, async (guest) => {
      const fleet = await lab.fleet(someMachines(3), [guest.machine, hostMachine]);
      await guest.install(PHASES, STAYS_BOUND);
      await aMember(guest);
      const fencing = fencingByQemu('g1', guest.name, guest.qemu);
      const config = { ...DEFAULTS, plannedWait: `${PLANNED_MS / 60_000}m`, fencing };
      const [guard] = await lab.led({ name: 'g1', config });
      if (guard === undefined) throw new Error('no guard');
      await patrolled([fleet.machine(guest.name)]);
      await play({ lab, guest, fleet, guard }).finally(() => noMember().catch(() => undefined));
    }),
};

async function play(played: Played): Promise<void> {
  const { lab, guest, fleet } = played;
  const { uid } = await memberOn(guest);
  await isArmed(played, 0);
  await powerOff(played);
  lab.check('its last word says that it goes down', condition(played, ARMED)?.reason === 'ShuttingDown');
  await sleep(clock, DEAD_MS);
  lab.check('silent for longer than deadAfter: no fencing', isUntouched(played));
  lab.check('the guard says why', /^planned +closed/m.test(await explained(played)), await explained(played));
  const onMs = Date.now();
  await guest.switchOn();
  await isArmed(played, onMs);
  lab.check('after the reboot the same member runs on it', (await memberOn(guest)).uid === uid);
  const { reason } = condition(played, 'NodewardenLastBoot') ?? { reason: 'absent' };
  lab.check('it says that the boot before ended in order', reason === 'Graceful', reason);
  lab.check('a reboot in place: no fencing', isUntouched(played));

  const restartMs = Date.now();
  await guest.run(`sed -i 's/, ${STAYS_BOUND}//' /etc/nodewarden/config.yaml; systemctl restart nodewarden`);
  await isArmed(played, restartMs);
  await powerOff(played);
  const offMs = Date.now();
  const isLeft = (await ask(PODS))['items'].some(({ spec }: KubeObject) => spec.nodeName === guest.name);
  // The one on it stays Ready for as long as nobody says otherwise.
  const elsewhere = async () => {
    const member = await memberAt('db-0');
    return member === null || member.node === guest.name ? null : member;
  };
  const after = await until('its member runs elsewhere', elsewhere, PLANNED_MS + OFF_MS);
  const awayMs = Date.now() - offMs;
  lab.figure('s from off to its successor Ready', (awayMs / 1_000).toFixed(0));
  lab.check('its member runs elsewhere', after.node === NODE_NAME, after.node);
  // Its kubelet may be too slow to say that the deleted pod has ended: the guard frees it then, not before its time.
  if (isLeft) lab.check('what was left on it is freed once plannedWait is over', awayMs >= PLANNED_MS - DEAD_MS);
  else await sleep(clock, PLANNED_MS + DEAD_MS);
  const { length } = fleet.machine(guest.name).changes();
  lab.check('it was off by its own hand: it gets no off, and is left off', length === 0 && !isOn(guest.qemu));
  if (isLeft) return;
  lab.check('a power-off that left nothing: no fencing, for good', isUntouched(played));
  lab.check('the guard says why it goes on waiting', /^worth +closed/m.test(await explained(played)));
}

const ARMED = 'NodewardenShutdownArmed';
type Condition = {
  readonly type: string;
  readonly status: string;
  readonly reason: string;
  readonly lastHeartbeatTime: string;
};
const condition = ({ fleet, guest }: Played, type: string): Condition | undefined => {
  const { status }: KubeObject = fleet.node(guest.name);
  return (status.conditions as readonly Condition[] | undefined)?.find((one) => one.type === type);
};
/** By a run of the agent that began after it. */
const isArmed = (played: Played, sinceMs: number): Promise<true> =>
  until(
    'it is armed',
    () => {
      const armed = condition(played, ARMED);
      return (armed?.status === 'True' && Date.parse(armed.lastHeartbeatTime) > sinceMs) || null;
    },
    BOOT_MS,
  );

async function powerOff(played: Played): Promise<void> {
  const { guest, lab } = played;
  await guest.run('sync; systemd-run -q --on-active=1 systemctl poweroff');
  const askedMs = Date.now();
  await until('it is off', () => !isOn(guest.qemu) || null, OFF_MS);
  lab.figure('s from the request to off', ((Date.now() - askedMs) / 1_000).toFixed(0));
}

/** Nothing was asked of its device but status, and it never had the taint. */
function isUntouched({ fleet, guest }: Played): boolean {
  const machine = fleet.machine(guest.name);
  const isTainted = fleet.marks.some(({ node, isTainted }) => node === guest.name && isTainted);
  return !isTainted && machine.changes().length === 0;
}

const explained = async ({ guard, guest }: Played): Promise<string> =>
  (await guard.run('guard', 'explain', guest.name)).stdout;

export const GUEST_SHUTDOWN: readonly LabScene[] = [goesDown];
