import { groupBy } from '../core/group-by.ts';
import { keysOf, planOf } from '../core/guard/config.ts';
import { isOldCordon } from '../core/guard/health.ts';
import type { Order } from '../core/guard/observation.ts';
import { deviceKey, type NodeMemory } from '../core/guard/state.ts';
import type { MonoMs } from '../core/reading.ts';
import { sayHourNotes } from '../words/guard-capture.ts';
import {
  type Alias,
  type CapturedEvent,
  createAlias,
  markEvent,
  marksAsEvents,
  nodeOf,
  type Times,
  timesOf,
} from './captured-node.ts';
import { decidingMarks, type Mark } from './deciding-marks.ts';
import { type HourEvent, isDeaf, type NodeHour, plightEvents, plightsOf } from './hour-plights.ts';
import type { GuardLook } from './loop.ts';
import type { Change, Hour, Word } from './past-hour.ts';

/** A GuardScenario as plain JSON (docs/simulate.md). */
export type CapturedScenario = typeof HEAD & {
  readonly world?: { readonly duration: string };
  readonly nodes: readonly object[];
  readonly events: readonly CapturedEvent[];
};
export const HEAD = {
  apiVersion: 'nodewarden.dev/v1alpha1',
  kind: 'GuardScenario',
  metadata: { name: 'captured' },
} as const;

/** `notes`: what is not in it, for people. */
export type CapturedHour = { readonly scenario: CapturedScenario; readonly notes: readonly string[] };

/** Lies between the end of one leader and the election of the next one. */
const TAKEOVER_MS = 17_000;
const REPLACED_MS = 60_000;
/** Who starts leads after this at the earliest, also if nobody else does. */
const FIRST_ELECTION_MS = 30_000;
/** An outage of the API ends the authority of who leads, also in the simulation. */
const AFTER_OUTAGE_MS = 90_000;

/** What a guard saw since `fromMs`, as a world in which it comes about again, and ends now. */
export function hourScenario(hour: Hour, look: GuardLook, fromMs: MonoMs, isRedacted: boolean): CapturedHour {
  const { atMs, wallMs } = look.observation;
  const beginsMs = Math.max(fromMs, hour.sinceMs ?? atMs);
  const changes = hour.changes.filter((change) => change.atMs >= beginsMs).toSorted((a, b) => a.atMs - b.atMs);
  const alias = createAlias(isRedacted);
  const { nodes, recreated } = nodesOf(hour, changes, beginsMs, look);
  const times = timesIn(nodes, beginsMs, look);
  const names = new Set<string>();
  const told = new Set(nodes.map(({ memory }) => memory.object.name));
  const timed = ({ atMs: onMs, ...what }: HourEvent): Timed => ({
    ...{ ms: times.msOf(onMs), at: times.at(onMs) },
    ...what,
  });
  const events: readonly Timed[] = [
    ...nodes.flatMap((node) => [
      ...marksAsEvents(alias('n', nameOf(node)), node.marks, look, alias).map((event) => ({ ms: 0, ...event })),
      ...nodeEvents(node, look, alias).map(timed),
    ]),
    ...guardEvents(changes, look, beginsMs, alias, told).map(timed),
  ];
  const inOrder = events.toSorted((a, b) => a.ms - b.ms).map(({ ms: _, ...event }) => event);
  const named = (is: (node: NodeHour) => boolean): readonly string[] =>
    nodes.filter(is).map((node) => alias('n', nameOf(node)));
  const fromWallMs = wallMs - (atMs - beginsMs);
  return {
    scenario: {
      ...HEAD,
      world: { duration: times.at(atMs) },
      nodes: nodes.map(({ memory, marks, pods }) =>
        nodeOf(memory.object, { marks, pods: pods ?? [], names }, look, alias),
      ),
      events: inOrder,
    },
    notes: sayHourNotes({
      ...{ fromWallMs, toWallMs: wallMs, fromMs: times.msOf(beginsMs) },
      begins: beginsMs > fromMs ? hour.begins : null,
      isLeader: look.observation.self.leadership.isLeader,
      ledAlone: !changes.some((change) => change.kind === 'leads' && change.atMs - beginsMs > FIRST_ELECTION_MS),
      isReloaded: changes.some(({ kind }) => kind === 'reloaded'),
      joined: named(({ changes: own }) => own.some(({ kind }) => kind === 'joined')),
      recreated: recreated.map((name) => alias('n', name)),
      silentBefore: named(({ plights }) => plights.some((one) => one.atMs < beginsMs && one.is !== 'alive')),
      contradicted: named(({ memory }) => isContradicted(memory, look, fromWallMs)),
      podsUnknown: named(({ pods }) => pods === null),
    }),
  };
}

/** Those of which something is to be told first: the patrol of the simulation asks their devices before. */
function nodesOf(
  hour: Hour,
  changes: readonly Change[],
  beginsMs: MonoMs,
  look: GuardLook,
): { readonly nodes: readonly NodeHour[]; readonly recreated: readonly string[] } {
  const byNode = groupBy(
    changes.filter((change) => 'node' in change),
    ({ node }) => node,
  );
  const now = look.verdict.state.nodes;
  const present = new Set([...now.values()].map(({ object }) => object.name));
  const gone = [...hour.gone.values()].filter((one) => one.atMs >= beginsMs);
  const kept = new Map(gone.filter(({ memory }) => !present.has(memory.object.name)).map((one) => [nameOf(one), one]));
  const hourOf = (memory: NodeMemory, silence: { change: Extract<Change, { kind: 'plight' }> } | null): NodeHour => {
    const { uid } = memory.object;
    const own = byNode.get(uid) ?? [];
    const plights = plightsOf(own, silence?.change ?? null, beginsMs);
    const pods = plights.length === 0 ? [] : hour.pods.get(uid);
    return {
      uid,
      memory,
      changes: own,
      beginsMs,
      plights,
      isDeaf: isDeaf(own),
      marks: marksBefore(memory, own, look),
      pods: pods === undefined ? [] : pods,
    };
  };
  const nodes = [
    ...[...now.values()].map((memory) => hourOf(memory, hour.silent.get(memory.object.uid) ?? null)),
    ...[...kept.values()].map(({ memory, silence }) => hourOf(memory, silence)),
  ];
  const isTold = ({ changes: own, plights }: NodeHour): number => (own.length + plights.length > 0 ? 0 : 1);
  return {
    nodes: nodes.toSorted((a, b) => isTold(a) - isTold(b) || (a.memory.object.name < b.memory.object.name ? -1 : 1)),
    recreated: gone.map(nameOf).filter((name) => present.has(name)),
  };
}

const isContradicted = ({ object }: NodeMemory, { verdict, config }: GuardLook, beforeWallMs: number): boolean => {
  const plan = planOf(config, object.name);
  return (plan === null ? [] : keysOf(plan)).some((method) => {
    const contradicted = verdict.state.devices.get(deviceKey(object.uid, method))?.contradicted ?? null;
    return contradicted !== null && contradicted.wallMs < beforeWallMs;
  });
};

const nameOf = ({ memory }: { readonly memory: NodeMemory }): string => memory.object.name;

/** As they were before the first change. */
function marksBefore(
  { object }: NodeMemory,
  changes: readonly Change[],
  { config }: Pick<GuardLook, 'config'>,
): ReadonlyMap<Mark, string> {
  const marks = new Map(decidingMarks(object, config));
  for (const change of changes.toReversed()) {
    if (change.kind !== 'mark') continue;
    if (change.was === null) marks.delete(change.mark);
    else marks.set(change.mark, change.was);
  }
  return marks;
}

function timesIn(nodes: readonly NodeHour[], beginsMs: MonoMs, { config }: GuardLook): Times {
  const onsets = nodes.flatMap(({ plights }) => plights.slice(0, 1).map((first) => first.atMs));
  return timesOf(onsets, beginsMs, {
    withinMs: config.storm.burst.withinMs,
    hasOldCordon: nodes.some(({ memory, plights }) =>
      plights.some((one) => one.is !== 'alive' && isOldCordon(memory.cordonedMs, one.atMs)),
    ),
  });
}

type Timed = CapturedEvent & { readonly ms: number };

function nodeEvents(node: NodeHour, look: GuardLook, alias: Alias): readonly HourEvent[] {
  const name = alias('n', nameOf(node));
  const marked = node.changes.flatMap((change) => {
    const { atMs } = change;
    if (change.kind === 'gone') return [{ atMs, deleteNode: name }];
    return change.kind === 'mark' ? [{ atMs, ...markEvent(name, change.mark, change.is, look, alias) }] : [];
  });
  return [...plightEvents(name, node), ...deviceEvents(name, node, look), ...marked];
}

/** What happened to the guard itself, to the API, and what persons ordered. */
function guardEvents(
  changes: readonly Change[],
  look: GuardLook,
  beginsMs: MonoMs,
  alias: Alias,
  names: ReadonlySet<string>,
): readonly HourEvent[] {
  const events: HourEvent[] = [];
  if (wasPaused(changes, look)) events.push({ atMs: beginsMs - 1_000, order: { verb: 'pause' } });
  if (changes.find((change) => change.kind === 'api')?.isUp === true) events.push({ atMs: beginsMs, api: 'down' });
  let backMs = Number.NEGATIVE_INFINITY;
  for (const change of changes) {
    const { atMs } = change;
    if (change.kind === 'api') {
      events.push({ atMs, api: change.isUp ? 'up' : 'down' });
      backMs = change.isUp ? atMs : Number.POSITIVE_INFINITY;
    } else if (change.kind === 'elected' && atMs - backMs > AFTER_OUTAGE_MS) {
      events.push({ atMs: atMs - TAKEOVER_MS, guard: { name: 'leader', kill: true, for: `${REPLACED_MS / 1_000}s` } });
    } else if (change.kind === 'records-deleted') {
      events.push({ atMs, deleteRecords: true });
    } else if (change.kind === 'clock-jumped') {
      for (const guard of ['g1', 'g2']) events.push({ atMs, clock: { guard, step: '1m' } });
    } else if (change.kind === 'order') {
      const order = orderOf(change.order, alias, names);
      if (order !== null) events.push({ atMs, order });
    }
  }
  return events;
}

/** When it begins. */
function wasPaused(changes: readonly Change[], { verdict }: GuardLook): boolean {
  const first = changes.find((change) => change.kind === 'order' && ['pause', 'resume'].includes(change.order.verb));
  if (first?.kind === 'order') return first.order.verb === 'resume';
  return verdict.state.paused !== null;
}

/** Null: it is about a node that is not in the scenario. */
function orderOf(order: Order, alias: Alias, names: ReadonlySet<string>): object | null {
  const { verb } = order;
  const whose = { by: alias('person', order.by), because: alias('reason', order.because) };
  switch (order.verb) {
    case 'unknown':
      return null;
    case 'pause':
    case 'resume':
      return { verb, ...whose };
    case 'release': {
      const { scope, forMs } = order;
      if (scope.kind === 'node' && !names.has(scope.name)) return null;
      const said =
        scope.kind === 'cluster'
          ? 'all'
          : scope.kind === 'node'
            ? alias('n', scope.name)
            : `${scope.label}=${alias('d', scope.value)}`;
      return { verb, scope: said, for: `${Math.round(forMs / 1_000)}s`, ...whose };
    }
    default: {
      if (!names.has(order.node.name)) return null;
      const isWrong = order.verb === 'confirm-off' && order.isDeviceWrong;
      return { verb, node: alias('n', order.node.name), ...(isWrong ? { deviceIsWrong: true } : {}), ...whose };
    }
  }
}

/** A word is told a moment before it was asked for, so that it is heard then. */
const BEFORE_MS = 1_000;

/** Where the devices of a node said otherwise than devices that do their duty: as faults of each level. */
function deviceEvents(name: string, node: NodeHour, look: GuardLook): readonly HourEvent[] {
  const plan = planOf(look.config, node.memory.object.name);
  if (plan === null || node.plights.length + node.changes.length === 0) return [];
  const levels = [plan.isolation, ...plan.levels];
  return levels.flatMap((methods, level) => (methods.length === 0 ? [] : ofLevel(name, node, level, methods, look)));
}

function ofLevel(
  name: string,
  { uid, changes, plights, isDeaf, beginsMs }: NodeHour,
  level: number,
  methods: readonly string[],
  { verdict }: GuardLook,
): readonly HourEvent[] {
  const said = changes.filter((change): change is Said => change.kind === 'device' && methods.includes(change.method));
  const words = new Map(
    methods.map((method) => {
      const now = verdict.state.devices.get(deviceKey(uid, method))?.says ?? 'on';
      return [method, said.find((one) => one.method === method)?.was ?? now];
    }),
  );
  const truthAt = (atMs: MonoMs): Word => truthOf(plights, changes, level, atMs);
  const events: HourEvent[] = [];
  let fault: Word | null = null;
  const judge = (atMs: MonoMs, truth: Word): void => {
    const word = together([...words.values()]);
    const next = word === truth ? null : word;
    if (next === fault) return;
    fault = next;
    events.push({ atMs, device: { node: name, level, ...faultOf(next, isDeaf) } });
  };
  const [first] = plights;
  const isSilent = first !== undefined && first.atMs < beginsMs;
  const firstMs = isSilent ? first.atMs : Number.NEGATIVE_INFINITY;
  if (isDeaf) events.push({ atMs: firstMs, device: { node: name, level, lies: true } });
  // An on from before it fell silent says nothing of what came then.
  if (together([...words.values()]) !== 'on') judge(firstMs, truthAt(firstMs));
  for (const one of said) {
    words.set(one.method, one.is);
    judge(sinceWhen(one, plights), truthAt(one.atMs));
  }
  return events;
}

/** `says` null: the truth. */
function faultOf(says: Word | null, isDeaf: boolean): object {
  if (says === null) return isDeaf ? { lies: true } : { works: true };
  return { says, ...(isDeaf ? { lies: true } : {}) };
}

type Said = Extract<Change, { kind: 'device' }>;

/** If the node fell silent since the device was last heard, both have one cause. */
function sinceWhen({ atMs, notBeforeMs }: Said, plights: NodeHour['plights']): MonoMs {
  const onset = plights.findLast((one) => one.atMs <= atMs);
  const isOnset = onset !== undefined && onset.is !== 'alive' && onset.atMs >= notBeforeMs;
  return isOnset ? onset.atMs : Math.max(notBeforeMs, atMs - BEFORE_MS);
}

/** What devices that do their duty say. */
function truthOf(plights: NodeHour['plights'], changes: readonly Change[], level: number, atMs: MonoMs): Word {
  const sent = changes.findLast((change) => change.kind === 'sent' && change.atMs <= atMs);
  const plight = plights.findLast((one) => one.atMs <= atMs);
  if (sent?.kind === 'sent' && sent.atMs >= (plight?.atMs ?? Number.NEGATIVE_INFINITY)) return sent.act;
  const isOff = level > 0 && (plight?.is === 'off' || plight?.is === 'goes-down');
  return isOff ? 'off' : 'on';
}

function together(words: readonly Word[]): Word {
  if (words.includes('unknown')) return 'unknown';
  return words.includes('on') ? 'on' : 'off';
}
