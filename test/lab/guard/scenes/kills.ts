// The guard that leads is killed, paused or cut off from the API before and after each write of a fencing and each run of an
// agent: the other one goes on.
import fs from 'node:fs';
import path from 'node:path';
import { sleep } from '../../../../src/host/clock.ts';
import { ask } from '../../kube/api.ts';
import { clock } from '../../scene.ts';
import type { Write } from '../api-proxy.ts';
import { aStatefulSet, type Fleet } from '../fleet.ts';
import { areClosed, cleanNamespace, type Guard, NAMESPACE } from '../guard.ts';
import type { Lab, LabScene } from '../lab.ts';
import { switched } from '../machine.ts';
import { NO_STORM } from './api-away.ts';
import { addressOf, memberAt } from './one-machine.ts';

/** Played at the same time, each with a namespace, machines and two guards of its own. */
const LANES = Number(process.env['LAB_LANES'] ?? 5);
const MACHINES = 3;
type When = 'before' | 'after';
/** The how manieth write of that kind in the fencing, or a run of an agent with that action. */
type Point = { readonly when: When } & ({ readonly write: Kind; readonly nth: number } | { readonly agent: string });
type Kind = 'record' | 'taint' | 'condition' | 'event' | 'devices';

const WRITES: readonly { readonly write: Kind; readonly nth: number }[] = [
  // decided, off-sent, proving, proven, tainted, untainting, on-sent, booting, closed
  ...Array.from({ length: 9 }, (_, nth) => ({ write: 'record', nth }) as const),
  { write: 'taint', nth: 0 },
  { write: 'taint', nth: 1 },
  { write: 'condition', nth: 0 },
  { write: 'event', nth: 0 },
  { write: 'devices', nth: 0 },
];
const POINTS: readonly Point[] = (['before', 'after'] as const).flatMap((when) => [
  ...WRITES.map((write) => ({ ...write, when })),
  ...['off', 'on', 'status'].map((agent) => ({ agent, when })),
]);
const sayPoint = (point: Point): string =>
  'agent' in point
    ? `${point.when} ${point.agent} of an agent`
    : `${point.when} write ${point.nth + 1} of a ${point.write}`;

function kindOf({ path: place, method, body }: Write): Kind | null {
  if (place.endsWith('/events')) return 'event';
  if (/\/nodes\/[^/]+\/status/.test(place)) return 'condition';
  if (/\/nodes\/[^/]+$/.test(place)) return 'taint';
  if (!place.includes('/configmaps') || method === 'DELETE') return null;
  const { name } = JSON.parse(body).metadata;
  if (name === 'guard-devices') return 'devices';
  return name.startsWith('fencing-') ? 'record' : null;
}

/** What becomes of the one that leads. */
type Harm = {
  readonly name: string;
  readonly begin: (guard: Guard) => void;
  readonly end: (guard: Guard) => void;
  /** A write that was held is passed on when the harm is over, as one that was long on its way. */
  readonly isPassed: boolean;
  /** It ends so long after the other one leads; null: when all is over. */
  readonly lastsMs: (at: number) => number | null;
};
const SOME_MS = 15_000;
const HARMS: readonly Harm[] = [
  {
    name: 'killed',
    begin: (guard) => guard.signal('SIGKILL'),
    end: (guard) => guard.start(),
    isPassed: false,
    lastsMs: () => null,
  },
  {
    name: 'paused, and goes on',
    begin: (guard) => guard.signal('SIGSTOP'),
    end: (guard) => guard.signal('SIGCONT'),
    isPassed: true,
    // Before the other one may act, while it acts, and when it is done.
    lastsMs: (at) => (at % 6) * SOME_MS,
  },
  {
    name: 'cut off from the API',
    begin: (guard) => guard.proxy.set('cut'),
    end: (guard) => guard.proxy.set('open'),
    isPassed: false,
    lastsMs: (at) => (at % 6) * SOME_MS,
  },
];

const scene = (harm: Harm): LabScene => ({
  name: `the leader is ${harm.name}`,
  point: 5,
  body: async (lab) => {
    const points = POINTS.filter((point) => sayPoint(point).includes(process.env['LAB_POINT'] ?? ''));
    const lanes = Math.min(LANES, points.length);
    const fleet = await lab.fleet(
      Array.from({ length: lanes * MACHINES }, (_, at) => ({
        name: `l${Math.floor(at / MACHINES)}-${at % MACHINES}`,
        labels: { lane: `l${Math.floor(at / MACHINES)}` },
        address: addressOf(10 + Math.floor(at / MACHINES), at % MACHINES),
      })),
    );
    let next = 0;
    let held = 0;
    const lane = async (index: number): Promise<void> => {
      const both = await twoGuards(lab, `l${index}`);
      await aStatefulSet(`l${index}`, { lane: `l${index}` });
      for (let at = next++; at < points.length; at = next++) {
        const point = points[at] as Point;
        const wrong = await atPoint({ fleet, lane: both, point, harm, lastsMs: harm.lastsMs(at) }).catch(
          (error: Error) => error.message,
        );
        lab.check(`${sayPoint(point)}: one power-off, and it ends`, wrong === null, `l${index}: ${wrong}`);
        if (wrong !== null) return;
        held += 1;
      }
    };
    await Promise.all(Array.from({ length: lanes }, (_, index) => lane(index)));
    lab.check('every point was played', held === points.length, `${held} of ${points.length}`);
    lab.figure('points', `${held} of ${points.length}`);
  },
});

/** `member`: of a StatefulSet, on one of its machines. */
type Lane = { readonly namespace: string; readonly guards: readonly Guard[]; readonly member: string };

async function twoGuards(lab: Lab, lane: string): Promise<Lane> {
  const namespace = `guard-${lane}`;
  await aNamespace(namespace);
  await cleanNamespace(namespace);
  const config = { fenceWhen: 'always', storm: NO_STORM };
  // The lanes are clusters of their own: a guard takes the marks of another one for forgotten.
  const spec = { namespace, nodes: `lane=${lane}`, config };
  const guards = [await lab.guard({ ...spec, name: `${lane}-a` }), await lab.guard({ ...spec, name: `${lane}-b` })];
  for (const guard of guards) guard.start();
  return { namespace, guards, member: `${lane}-0` };
}

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

/** Less often than a scene with one guard would ask: all lanes ask the same API server. */
async function waitFor(what: string, holds: () => boolean | Promise<boolean>, deadlineMs = 500_000): Promise<void> {
  const endMs = clock.monoMs() + deadlineMs;
  while (!(await holds())) {
    if (clock.monoMs() > endMs) throw new Error(`waited ${deadlineMs / 1_000} s in vain: ${what}`);
    await sleep(clock, 500);
  }
}

/** When it last renewed the lease; 0: never. */
const renewedMs = ({ proxy }: Guard): number =>
  proxy.writes.findLast(({ path: place }) => place.endsWith('/leases/nodewarden-guard'))?.atMs ?? 0;

type Try = {
  readonly fleet: Fleet;
  readonly lane: Lane;
  readonly point: Point;
  readonly harm: Harm;
  readonly lastsMs: number | null;
};

/** On the machine where the member runs. Null: it holds. */
async function atPoint({ fleet, lane, point, harm, lastsMs }: Try): Promise<string | null> {
  const { namespace, guards, member } = lane;
  await waitFor('its member runs', async () => (await memberAt(member)) !== null);
  const before = await memberAt(member);
  if (before === null) return 'its member does not run';
  const machine = fleet.machine(before.node);
  const begun = machine.changes().length;
  const changes = (): string => switched(machine, begun);
  const calls = machine.calls().length;
  // Known as on by the one that leads now, or kept for it.
  await waitFor('its device was asked', () => machine.calls().length > calls);
  const meets = meetAt(guards, machine.directory, point, harm);
  try {
    machine.kubelet('silent');
    await waitFor('the point is reached', () => meets.victim() !== null);
    const victim = meets.victim();
    const other = guards.find((guard) => guard !== victim);
    if (victim === null || other === undefined) return 'no guard';
    const harmedMs = Date.now();
    const end = (): void => {
      harm.end(victim);
      meets.release();
    };
    if (lastsMs !== null) {
      await waitFor('the other one leads', () => renewedMs(other) > harmedMs);
      await sleep(clock, lastsMs);
      end();
    }
    await waitFor('the machine is off', () => changes().startsWith('off'));
    machine.kubelet('up');
    await waitFor('it is back', async () => fleet.isBack(machine.name) && (await areClosed(namespace)));
    if (lastsMs === null) end();
    await waitFor('its member runs again', async () => ((await memberAt(member))?.uid ?? before.uid) !== before.uid);
    return changes() === 'off on' ? null : `its power went ${changes()}`;
  } finally {
    meets.close();
    machine.kubelet('up');
  }
}

type Meets = {
  /** The guard that was harmed; null: none yet. */
  readonly victim: () => Guard | null;
  readonly release: () => void;
  readonly close: () => void;
};

/** Whichever guard comes to the point first. */
function meetAt(guards: readonly Guard[], machine: string, point: Point, harm: Harm): Meets {
  let victim: Guard | null = null;
  let release = (): void => undefined;
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  const meet = (guard: Guard): void => {
    victim = guard;
    harm.begin(guard);
  };
  if ('agent' in point) {
    const pause = path.join(machine, `pause-${point.when}-${point.agent}`);
    const before = countOf(machine, point);
    fs.writeFileSync(pause, '');
    return {
      victim: () => {
        // The agent stands still and says so in its calls: its guard is met, and the agent goes on.
        if (victim === null && countOf(machine, point) > before) {
          const [leader] = guards.toSorted((one, another) => renewedMs(another) - renewedMs(one));
          if (leader !== undefined) meet(leader);
          fs.rmSync(pause);
        }
        return victim;
      },
      release,
      close: () => fs.rmSync(pause, { force: true }),
    };
  }
  let seen = 0;
  for (const guard of guards) {
    guard.proxy.hook(async (write, when) => {
      if (victim !== null || when !== point.when || kindOf(write) !== point.write) return;
      if (seen++ < point.nth) return;
      meet(guard);
      if (when === 'before') await (harm.isPassed ? released : new Promise(() => undefined));
    });
  }
  return {
    victim: () => victim,
    release,
    close: () => {
      release();
      for (const guard of guards) guard.proxy.hook(null);
    },
  };
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

export const KILLS: readonly LabScene[] = HARMS.map(scene);
