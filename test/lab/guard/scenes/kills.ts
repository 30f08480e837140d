// The guard that leads is killed before and after each write of a fencing and each run of an agent: the other one goes on.
import fs from 'node:fs';
import path from 'node:path';
import { ask } from '../../kube/api.ts';
import { until } from '../../scene.ts';
import type { Write } from '../api-proxy.ts';
import { type Fleet, isReady, marksOf } from '../fleet.ts';
import { aGuard, cleanNamespace, fencings, type Guard, NAMESPACE } from '../guard.ts';
import { type LabScene, leads } from '../lab.ts';
import { NO_STORM } from './api-away.ts';
import { addressOf } from './one-machine.ts';

/** Played at the same time, each with a namespace, machines and two guards of its own. */
const LANES = 5;
const MACHINES = 3;
type When = 'before' | 'after';
/** The how manieth write of that kind in the fencing, or run of an agent with that action. */
type Point = { readonly when: When } & ({ readonly write: string; readonly nth: number } | { readonly agent: string });

const WRITES: readonly { readonly write: string; readonly nth: number }[] = [
  // decided, off-sent, proving, proven, tainted, untainting, on-sent, booting, closed
  ...Array.from({ length: 9 }, (_, nth) => ({ write: 'record', nth })),
  { write: 'taint', nth: 0 },
  { write: 'taint', nth: 1 },
  { write: 'condition', nth: 0 },
];
const POINTS: readonly Point[] = (['before', 'after'] as const).flatMap((when) => [
  ...WRITES.map((write) => ({ ...write, when })),
  ...['off', 'on', 'status'].map((agent) => ({ agent, when })),
]);
const sayPoint = (point: Point): string =>
  'agent' in point
    ? `${point.when} ${point.agent} of an agent`
    : `${point.when} write ${point.nth + 1} of a ${point.write}`;

function kindOf({ path: place, method, body }: Write): string | null {
  if (/\/configmaps(\/fencing-|$)/.test(place) && method !== 'DELETE')
    return body.includes('"guard-') ? null : 'record';
  if (/\/nodes\/[^/]+\/status/.test(place)) return 'condition';
  return /\/nodes\/[^/]+$/.test(place) ? 'taint' : null;
}

const kills: LabScene = {
  name: 'the leader is killed',
  point: 5,
  body: async (lab) => {
    const points = POINTS.filter((point) => sayPoint(point).includes(process.env['LAB_POINT'] ?? ''));
    const fleet = await lab.fleet(
      Array.from({ length: LANES * MACHINES }, (_, at) => ({
        name: `l${at % LANES}-${Math.floor(at / LANES)}`,
        labels: { lane: `l${at % LANES}` },
        address: addressOf(10 + (at % LANES), Math.floor(at / LANES)),
      })),
    );
    let next = 0;
    let held = 0;
    const lane = async (index: number): Promise<void> => {
      const namespace = `guard-l${index}`;
      await aNamespace(namespace);
      for (let point = points[next++]; point !== undefined; point = points[next++]) {
        const wrong = await atPoint(fleet, `l${index}`, namespace, point).catch((error: Error) => error.message);
        lab.check(`${sayPoint(point)}: one power-off, and it ends`, wrong === null, wrong ?? '');
        if (wrong === null) held += 1;
      }
    };
    await Promise.all(Array.from({ length: LANES }, (_, index) => lane(index)));
    lab.figure('points', `${held} of ${points.length}`);
  },
};

/** The same rights in another namespace. */
async function aNamespace(name: string): Promise<void> {
  const isThere = (error: Error): void => {
    if (!error.message.includes(': 409 ')) throw error;
  };
  const rbac = '/apis/rbac.authorization.k8s.io/v1/namespaces';
  const post = (place: string, body: object): Promise<unknown> => ask(place, { method: 'POST', body }).catch(isThere);
  await post('/api/v1/namespaces', { metadata: { name } });
  for (const kind of ['roles', 'rolebindings']) {
    const { metadata: _, ...rest } = await ask(`${rbac}/${NAMESPACE}/${kind}/nodewarden-guard`);
    await post(`${rbac}/${name}/${kind}`, { ...rest, metadata: { name: 'nodewarden-guard' } });
  }
}

/** Null: it holds. */
async function atPoint(fleet: Fleet, lane: string, namespace: string, point: Point): Promise<string | null> {
  await cleanNamespace(namespace);
  const machine = fleet.machine(`${lane}-0`);
  const begun = machine.changes().length;
  const config = { fenceWhen: 'always', storm: NO_STORM, nodes: { matchLabels: { lane } } };
  const guards = [
    await aGuard({ name: `${lane}-a`, namespace, config }),
    await aGuard({ name: `${lane}-b`, namespace, config }),
  ] as const;
  try {
    guards[0].start();
    await until('the first one leads', () => leads(guards[0]) || null, 400_000);
    guards[1].start();
    const calls = machine.calls().length;
    await until('its device was asked', () => machine.calls().length > calls || null, 150_000);
    const killed = killAt(guards[0], machine.directory, point);
    machine.kubelet('silent');
    await until('it is killed', () => killed() || null, 400_000);
    await until(
      'the machine is off',
      () =>
        machine
          .changes()
          .slice(begun)
          .some(({ to }) => to === 'off') || null,
      400_000,
    );
    machine.kubelet('up');
    await until(
      'it is back',
      async () => {
        const isOver = (await fencings(namespace)).every(({ record }) => record?.['phase'] === 'closed');
        return (
          (isOver &&
            machine.isOn() &&
            isReady(fleet.node(machine.name)) &&
            marksOf(fleet.node(machine.name)).length === 0) ||
          null
        );
      },
      500_000,
    );
    const changes = machine
      .changes()
      .slice(begun)
      .map(({ to }) => to)
      .join(' ');
    return changes === 'off on' ? null : `its power went ${changes}`;
  } finally {
    machine.kubelet('up');
    for (const guard of guards) await guard.close();
    for (const file of fs.readdirSync(machine.directory))
      if (file.startsWith('pause-')) fs.rmSync(path.join(machine.directory, file));
    if (!machine.isOn()) machine.power('on');
  }
}

/** Whether it was killed by now. */
function killAt(guard: Guard, machine: string, point: Point): () => boolean {
  let isKilled = false;
  const kill = (): void => {
    isKilled = true;
    guard.signal('SIGKILL');
  };
  if ('agent' in point) {
    const pause = path.join(machine, `pause-${point.when}-${point.agent}`);
    const before = countOf(machine, point);
    fs.writeFileSync(pause, '');
    return () => {
      // The agent stands still and says so in its calls: its guard dies, and the agent goes on.
      if (!isKilled && countOf(machine, point) > before) {
        kill();
        fs.rmSync(pause);
      }
      return isKilled;
    };
  }
  let seen = 0;
  guard.proxy.hook(async (write, when) => {
    if (isKilled || kindOf(write) !== point.write || when !== point.when) return;
    if (seen++ === point.nth) {
      kill();
      // Not passed on: the one that is dead by now has not sent it.
      if (when === 'before') await new Promise(() => undefined);
    }
  });
  return () => isKilled;
}

function countOf(machine: string, { when, ...point }: Point): number {
  const word = 'agent' in point ? `${when === 'before' ? '' : 'ended-'}${point.agent} ` : '';
  const file = path.join(machine, 'calls');
  if (!fs.existsSync(file)) return 0;
  return fs
    .readFileSync(file, 'utf8')
    .split('\n')
    .filter((line) => line.includes(` ${word}`)).length;
}

export const KILLS: readonly LabScene[] = [kills];
