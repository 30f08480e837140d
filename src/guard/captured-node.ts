import { type NodePlan, planOf } from '../core/guard/config.ts';
import { FRESH_CORDON_MS } from '../core/guard/health.ts';
import type { NodeObject, PodOnNode } from '../core/guard/observation.ts';
import type { MonoMs } from '../core/reading.ts';
import type { Mark } from './deciding-marks.ts';
import type { GuardLook } from './loop.ts';

export type CapturedEvent = { readonly at: string; readonly node?: string; readonly [what: string]: unknown };
type What = Omit<CapturedEvent, 'at'>;

/** The same name has the same alias. */
export type Alias = (kind: string, name: string) => string;

export function createAlias(redacted: boolean): Alias {
  const known = new Map<string, string>();
  return (kind, name) => {
    if (!redacted) return name;
    const key = `${kind} ${name}`;
    const alias = known.get(key) ?? `${kind}${known.size + 1}`;
    known.set(key, alias);
    return alias;
  };
}

/** `names`: of the pods of all nodes so far. */
export function nodeOf(
  { name }: NodeObject,
  {
    marks,
    pods,
    names,
  }: { readonly marks: ReadonlyMap<Mark, string>; readonly pods: Pods; readonly names: Set<string> },
  { config }: Pick<GuardLook, 'config'>,
  alias: Alias,
): object {
  const labels = [...marks].flatMap(([mark, value]) => {
    const [kind, key] = partsOf(mark);
    return kind === 'label' ? [[key, labelValue(key, value, config, alias)]] : [];
  });
  const plan = planOf(config, name);
  return {
    name: alias('n', name),
    ...(labels.length === 0 ? {} : { labels: Object.fromEntries(labels) }),
    ...(pods.length === 0 ? {} : { pods: pods.map((pod) => podOf(pod, names, alias)) }),
    devices: plan === null ? [] : devicesOf(plan),
  };
}
type Pods = readonly PodOnNode[];

function podOf({ namespace, name, ownerKind, priority, ...pod }: PodOnNode, names: Set<string>, alias: Alias): object {
  const set = ownerKind === 'StatefulSet' ? name.replace(/-\d+$/, '') : null;
  const own = alias('p', `${namespace}/${name}`);
  return {
    name: unused(own, names),
    ...(set === null ? {} : { statefulSet: alias('s', set) }),
    ...(priority === 0 ? {} : { priority }),
    ...(pod.hasAttachedVolume ? { volumes: 1 } : {}),
    ...(pod.toleratesTaint ? { tolerates: true } : {}),
    ...(pod.finalizers.length > 0 ? { finalizer: true } : {}),
  };
}

/** A member that went from one silent node to another one stands on both. */
function unused(name: string, names: Set<string>): string {
  let free = name;
  for (let i = 2; names.has(free); i++) free = `${name}~${i}`;
  names.add(free);
  return free;
}

/** In level 0 stands what cuts storage. A device of each level shows and switches the whole machine, like a BMC. */
const devicesOf = ({ isolation, levels }: NodePlan): readonly object[] => [
  ...isolation.map(() => ({ kind: 'fabric', level: 0 })),
  ...levels.flatMap((level, at) => level.map(() => ({ kind: 'bmc', level: at + 1 }))),
];

/** What it carries that is no label, as set before anything happens; labels belong to the node itself. */
export const marksAsEvents = (node: string, marks: ReadonlyMap<Mark, string>, look: GuardLook, alias: Alias) =>
  [...marks].flatMap(([mark, value]) =>
    mark.startsWith('label ') ? [] : [{ at: '0s', ...markEvent(node, mark, value, look, alias) }],
  );

/** `value` null: it is removed. */
export function markEvent(
  node: string,
  mark: Mark,
  value: string | null,
  { config }: Pick<GuardLook, 'config'>,
  alias: Alias,
): What {
  const [kind, key] = partsOf(mark);
  if (kind === 'cordon') return { node, cordon: value !== null };
  if (value === null) return { node, [kind]: { [key]: null } };
  const isPlain = key === SKIP_KEY;
  const said = kind === 'label' ? labelValue(key, value, config, alias) : isPlain ? value : alias('v', value);
  return { node, [kind]: { [key]: said } };
}
const SKIP_KEY = 'nodewarden.dev/guard';

const labelValue = (key: string, value: string, { domainLabels }: GuardLook['config'], alias: Alias): string =>
  domainLabels.includes(key) ? alias('d', value) : value;

function partsOf(mark: Mark): readonly [string, string] {
  const at = mark.indexOf(' ');
  return at < 0 ? [mark, ''] : [mark.slice(0, at), mark.slice(at + 1)];
}

/** Until then every node is alive: its guards need so long for their election, and their patrol to ask. */
const LEAD_MS = 300_000;
/** A cordon of the beginning is old by then. */
const OLD_CORDON_LEAD_MS = FRESH_CORDON_MS + LEAD_MS;
/** What has lasted for so long makes no difference any more. */
const LONG_MS = 1_800_000;
/** Beyond the `within` of a burst. */
const APART_MS = 30_000;

/** Which instant of a scenario stands for which one of the guard's clock. */
export type Times = {
  readonly at: (atMs: MonoMs) => string;
  readonly msOf: (atMs: MonoMs) => number;
};

/**
 * From `fromMs` on as it was. What fell silent before, at `onsets`, does so in the same order, and together only if it did:
 * long times in which nothing happened are left out.
 */
export function timesOf(
  onsets: readonly MonoMs[],
  fromMs: MonoMs,
  { withinMs, hasOldCordon }: { readonly withinMs: number; readonly hasOldCordon: boolean },
): Times {
  const before = [...new Set(onsets.filter((atMs) => atMs < fromMs))].toSorted((a, b) => a - b);
  /** What belongs to an onset comes a moment before it. */
  const placed = new Map<MonoMs, number>();
  let ms = hasOldCordon ? OLD_CORDON_LEAD_MS : LEAD_MS;
  for (const [i, atMs] of before.entries()) {
    placed.set(atMs, ms);
    const next = before[i + 1];
    ms += next === undefined ? Math.min(fromMs - atMs, LONG_MS) : Math.min(next - atMs, withinMs + APART_MS);
  }
  const msOf = (atMs: MonoMs): number => {
    const onset = before.find((one) => one >= atMs) ?? fromMs;
    return Math.max(0, (placed.get(onset) ?? ms) + atMs - onset);
  };
  return { msOf, at: (atMs) => `${Math.round(msOf(atMs) / 100) / 10}s` };
}
