import { planOf } from '../core/guard/config.ts';
import { deviceKey } from '../core/guard/state.ts';
import type { MonoMs } from '../core/reading.ts';
import type { HourEvent, NodeHour } from './hour-plights.ts';
import type { GuardLook } from './loop.ts';
import type { Change, Word } from './past-hour.ts';

/** A word is told a moment before it was asked for, so that it is heard then. */
const BEFORE_MS = 1_000;

/** Where the devices of a node said otherwise than devices that do their duty: as faults of each level. */
export function deviceEvents(name: string, node: NodeHour, look: GuardLook): readonly HourEvent[] {
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
