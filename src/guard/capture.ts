import { keysOf, type NodePlan, planOf } from '../core/guard/config.ts';
import { CONTROL_PLANE_LABELS } from '../core/guard/node-facts.ts';
import type { PodOnNode } from '../core/guard/observation.ts';
import { plannedBy } from '../core/guard/planned.ts';
import { deviceKey, type NodeMemory } from '../core/guard/state.ts';
import { isObject } from '../core/shape.ts';
import type { GuardLook } from './loop.ts';

/** A GuardScenario as plain JSON (docs/simulate.md). */
export type CapturedScenario = {
  readonly apiVersion: string;
  readonly kind: 'GuardScenario';
  readonly metadata: { readonly name: string };
  readonly nodes: readonly object[];
  readonly events: readonly CapturedEvent[];
};
type CapturedEvent = { readonly at: string; readonly node?: string; readonly [what: string]: unknown };

/** Until then every node is alive: its guards need so long for their election, and their patrol to ask. */
const LEAD_MS = 300_000;

const isCaptured = (value: unknown): value is CapturedScenario =>
  isObject(value) && value['kind'] === 'GuardScenario' && Array.isArray(value['nodes']);

/** What a guard sends to whoever captures: names that are not to be seen are replaced where they are known. */
export type Capture = { readonly plain: CapturedScenario; readonly redacted: CapturedScenario };

export const isCapture = (value: unknown): value is Capture =>
  isObject(value) && isCaptured(value['plain']) && isCaptured(value['redacted']);

export const captureOf = (look: GuardLook): Capture => ({
  plain: captureScenario(look, false),
  redacted: captureScenario(look, true),
});

/**
 * What a guard sees now, as a world in which it came about: nodes with their labels, devices, and those of their pods that are
 * known, and who fell silent when and how. With `redacted`, no name of a node, pod or domain is in it.
 */
export function captureScenario(look: GuardLook, redacted: boolean): CapturedScenario {
  const memories = [...look.verdict.state.nodes.values()].toSorted((a, b) => (a.object.name < b.object.name ? -1 : 1));
  const onsets = memories.flatMap(({ onsetMs, isSuspect }) => (isSuspect && onsetMs !== null ? [onsetMs] : []));
  const firstMs = Math.min(...onsets);
  const alias = createAlias(redacted);
  return {
    ...{ apiVersion: 'nodewarden.dev/v1alpha1', kind: 'GuardScenario', metadata: { name: 'captured' } },
    nodes: memories.map((memory) => nodeOf(memory, look, alias)),
    events: memories.flatMap((memory) => {
      const node = alias('n', memory.object.name);
      const before = memory.object.isUnschedulable ? [{ at: '0s', node, cordon: true }] : [];
      if (!memory.isSuspect || memory.onsetMs === null) return before;
      const at = `${Math.round((LEAD_MS + memory.onsetMs - firstMs) / 1_000)}s`;
      return [...before, ...silenceOf(memory, look, node).map((what) => ({ at, ...what }))];
    }),
  };
}

type Alias = (kind: string, name: string) => string;

/** The same name has the same alias. */
function createAlias(redacted: boolean): Alias {
  const known = new Map<string, string>();
  return (kind, name) => {
    if (!redacted) return name;
    const key = `${kind} ${name}`;
    const alias = known.get(key) ?? `${kind}${known.size + 1}`;
    known.set(key, alias);
    return alias;
  };
}

function nodeOf({ object }: NodeMemory, { observation, config }: GuardLook, alias: Alias): object {
  const { name, uid, labels } = object;
  const domains = config.domainLabels.filter((label) => Object.hasOwn(labels, label));
  const selecting = config.nodes.map(({ key }) => key).filter((key) => Object.hasOwn(labels, key));
  const roles = CONTROL_PLANE_LABELS.filter((label) => Object.hasOwn(labels, label));
  const kept = [
    ...[...new Set([...selecting, ...roles])].map((key) => [key, labels[key] ?? '']),
    ...domains.map((key) => [key, alias('d', labels[key] ?? '')]),
  ];
  const pods = observation.asked.get(uid)?.pods;
  const known = pods?.known === true ? pods.value.value : [];
  const plan = planOf(config, name);
  return {
    name: alias('n', name),
    ...(kept.length === 0 ? {} : { labels: Object.fromEntries(kept) }),
    ...(known.length === 0 ? {} : { pods: known.map((pod) => podOf(pod, alias)) }),
    devices: plan === null ? [] : devicesOf(plan),
  };
}

function podOf({ namespace, name, ownerKind, priority, ...pod }: PodOnNode, alias: Alias): object {
  const set = ownerKind === 'StatefulSet' ? name.replace(/-\d+$/, '') : null;
  return {
    name: alias('p', `${namespace}/${name}`),
    ...(set === null ? {} : { statefulSet: alias('s', set) }),
    ...(priority === 0 ? {} : { priority }),
    ...(pod.hasAttachedVolume ? { volumes: 1 } : {}),
    ...(pod.toleratesTaint ? { tolerates: true } : {}),
    ...(pod.finalizers.length > 0 ? { finalizer: true } : {}),
  };
}

/** That a BMC dies with its machine cannot be seen: it shows in what the device says. */
const devicesOf = ({ isolation, levels }: NodePlan): readonly object[] => [
  ...isolation.map(() => ({ kind: 'fabric' })),
  ...levels.flatMap((level, at) => level.map(() => ({ kind: 'pdu', level: at + 1 }))),
];

/** How it fell silent, as far as witness, devices and its own word show. `node`: its name, or what stands for it. */
function silenceOf(memory: NodeMemory, look: GuardLook, node: string): readonly Omit<CapturedEvent, 'at'>[] {
  const { observation, config, verdict } = look;
  const { object } = memory;
  const plan = planOf(config, object.name);
  const said = (methods: readonly string[]) =>
    methods.map((method) => verdict.state.devices.get(deviceKey(object.uid, method))?.says ?? 'unknown');
  const witness = observation.asked.get(object.uid)?.witness;
  const port = witness?.known === true ? witness.value.value : 'silent';
  const planned = plannedBy(memory, observation.atMs);
  const mute = (plan?.levels ?? []).flatMap((level, at) =>
    said(level).includes('unknown') ? [{ device: { node, level: at + 1, says: 'unknown' } }] : [],
  );
  const how = (): Omit<CapturedEvent, 'at'> => {
    if (planned === 'agent' || planned === 'kubelet') return { node, announce: 'shutdown' };
    if (plan !== null && said(keysOf(plan)).includes('off')) return { node, power: 'off' };
    if (port === 'answers') return { cut: node, from: 'api' };
    return port === 'refused' ? { node, kubelet: 'stop' } : { node, freeze: true };
  };
  return [how(), ...mute];
}
