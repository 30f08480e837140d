import { keysOf, planOf } from '../core/guard/config.ts';
import { isOldCordon, plannedBy } from '../core/guard/health.ts';
import { deviceKey, type NodeMemory } from '../core/guard/state.ts';
import { isObject, isText, listOf } from '../core/shape.ts';
import { type CapturedEvent, createAlias, marksAsEvents, nodeOf, timesOf } from './captured-node.ts';
import { decidingMarks } from './deciding-marks.ts';
import { type CapturedHour, type CapturedScenario, HEAD, hourScenario } from './hour-scenario.ts';
import type { GuardLook } from './loop.ts';
import type { Hour } from './past-hour.ts';

/** What a guard sends to whoever captures: names that are not to be seen are replaced where they are known. */
export type Capture = {
  readonly plain: CapturedHour;
  readonly redacted: CapturedHour;
};

const isScenario = (value: unknown): value is CapturedScenario =>
  isObject(value) && value['kind'] === 'GuardScenario' && Array.isArray(value['nodes']);
const isNotes = listOf(isText);
const isCaptured = (value: unknown): boolean =>
  isObject(value) && isScenario(value['scenario']) && isNotes(value['notes']);

export const isCapture = (value: unknown): value is Capture =>
  isObject(value) && isCaptured(value['plain']) && isCaptured(value['redacted']);

/** `forMs`: how much of the last hour; null: what is so now. */
export function captureOf(look: GuardLook, hour: Hour, forMs: number | null): Capture {
  const captured = (redacted: boolean): CapturedHour =>
    forMs === null
      ? { scenario: captureScenario(look, redacted), notes: [] }
      : hourScenario(hour, look, look.observation.atMs - forMs, redacted);
  return { plain: captured(false), redacted: captured(true) };
}

/**
 * What a guard sees now, as a world in which it came about: nodes with their labels, devices, and those of their pods that are
 * known, and who fell silent when and how. With `redacted`, no name of a node, pod or domain is in it.
 */
export function captureScenario(look: GuardLook, redacted: boolean): CapturedScenario {
  const { observation, config } = look;
  const memories = [...look.verdict.state.nodes.values()].toSorted((a, b) => (a.object.name < b.object.name ? -1 : 1));
  const silent = memories.filter(({ isSuspect, onsetMs }) => isSuspect && onsetMs !== null);
  const times = timesOf(
    silent.flatMap(({ onsetMs }) => onsetMs ?? []),
    observation.atMs,
    {
      withinMs: config.storm.burst.withinMs,
      hasOldCordon: silent.some(({ cordonedMs, onsetMs }) => isOldCordon(cordonedMs, onsetMs ?? 0)),
    },
  );
  const alias = createAlias(redacted);
  const names = new Set<string>();
  return {
    ...HEAD,
    nodes: memories.map(({ object }) => {
      const pods = observation.asked.get(object.uid)?.pods;
      const known = pods?.known === true ? pods.value.value : [];
      return nodeOf(object, { marks: decidingMarks(object, config), pods: known, names }, look, alias);
    }),
    events: memories.flatMap((memory) => {
      const node = alias('n', memory.object.name);
      const before = marksAsEvents(node, decidingMarks(memory.object, config), look, alias);
      if (!memory.isSuspect || memory.onsetMs === null) return before;
      const at = times.at(memory.onsetMs);
      return [...before, ...silenceOf(memory, look, node).map((what) => ({ at, ...what }))];
    }),
  };
}

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
