import type { PodOnNode } from '../core/guard/observation.ts';
import type { NodeMemory } from '../core/guard/state.ts';
import type { MonoMs } from '../core/reading.ts';
import type { Mark } from './deciding-marks.ts';
import type { Change } from './past-hour.ts';
import type { Plight } from './plight.ts';

/** What a capture tells of one node: its changes in order of time. */
export type NodeHour = {
  readonly uid: string;
  readonly memory: NodeMemory;
  readonly changes: readonly Change[];
  readonly beginsMs: MonoMs;
  /** The first one may be from before. */
  readonly plights: readonly PlightAt[];
  /** It was sent off, and lives on with the same boot: its devices do nothing of what they are told. */
  readonly isDeaf: boolean;
  /** At the beginning. */
  readonly marks: ReadonlyMap<Mark, string>;
  /** Null: there was no room for them. */
  readonly pods: readonly PodOnNode[] | null;
};
type PlightAt = {
  readonly atMs: MonoMs;
  readonly is: Plight;
  readonly isBoot: boolean;
  /** Its own commands brought the guard there. */
  readonly isOurs: boolean;
};
type Became = Extract<Change, { kind: 'plight' }>;

/** `now`: with which it is silent now; null: it lives. */
export function plightsOf(changes: readonly Change[], now: Became | null, beginsMs: MonoMs): readonly PlightAt[] {
  const became = changes.filter((change): change is Became => change.kind === 'plight');
  const [first] = became;
  const before =
    first === undefined
      ? now === null
        ? []
        : [{ ...now, atMs: Math.min(now.atMs, beginsMs - 1) }]
      : first.was === 'alive'
        ? []
        : [{ ...first, atMs: Math.min(first.wasSinceMs, beginsMs - 1), is: first.was, isBoot: false, isOurs: false }];
  return [...before, ...became].map((one, at, all) => {
    const next = all[at + 1];
    // A machine that lives on with the same boot was never off.
    const isLie = next?.is === 'alive' && !next.isBoot;
    const { atMs, is, isBoot, isOurs } = one;
    return { atMs, isBoot, isOurs, is: is === 'off' && isLie ? 'hangs' : is };
  });
}

export const isDeaf = (changes: readonly Change[]): boolean =>
  changes.some((one) => one.kind === 'plight' && one.is === 'alive' && one.wasCut && !one.isBoot);

/** An event of the scenario, at a time of the guard's clock. */
export type HourEvent = { readonly atMs: MonoMs; readonly [what: string]: unknown };

/** A machine that was switched on is back so long after, and its lease renewed within this. */
const BOOT_MS = 67_000;
/** What lasts until the sign of life ends so long before: a lease is renewed every 10 s. */
const RENEWAL_MS = 5_500;
/** A shutdown that was announced is over after this. */
const GOES_DOWN_MS = 20_000;

export function plightEvents(
  node: string,
  { plights, pods }: Pick<NodeHour, 'plights' | 'pods'>,
): readonly HourEvent[] {
  const isDrained = pods?.length === 0;
  const events: HourEvent[] = [];
  let was: Plight = 'alive';
  let sinceMs = Number.NEGATIVE_INFINITY;
  for (const { atMs, is, isBoot, isOurs } of plights) {
    if (is === 'alive') {
      const endMs = Math.max(sinceMs, atMs - RENEWAL_MS);
      if (was === 'cut' || !(isOurs || isBoot)) events.push(...undone(node, was, endMs));
      if (isBoot && !isOurs) {
        const onMs = Math.max(sinceMs, atMs - BOOT_MS);
        events.push({ atMs: onMs, node, power: 'off' }, { atMs: onMs, node, power: 'on' });
      }
    } else {
      events.push(...undone(node, was, atMs));
      // What the guard itself switched off, it switches off again.
      if (!isOurs) events.push(...done(node, is, atMs, isDrained));
    }
    was = isOurs && is !== 'alive' ? 'alive' : is;
    sinceMs = atMs;
  }
  return events;
}

/** `isDrained`: it has nothing left that had to be freed. */
function done(node: string, is: Plight, atMs: MonoMs, isDrained: boolean): readonly HourEvent[] {
  switch (is) {
    case 'alive':
      return [];
    case 'hangs':
      return [{ atMs, node, freeze: true }];
    case 'cut':
      return [{ atMs, cut: node, from: 'api' }];
    case 'no-kubelet':
      return [{ atMs, node, kubelet: 'stop' }];
    case 'off':
      return [{ atMs, node, power: 'off' }];
    case 'goes-down': {
      const announced = { atMs: atMs - GOES_DOWN_MS, node };
      if (isDrained) return [{ ...announced, announce: 'shutdown' }];
      // It hangs before it is down.
      return [
        { ...announced, announce: 'reboot' },
        { atMs: atMs - 1, node, freeze: true },
      ];
    }
  }
}

function undone(node: string, was: Plight, atMs: MonoMs): readonly HourEvent[] {
  switch (was) {
    case 'alive':
      return [];
    case 'hangs':
      return [{ atMs, node, freeze: false }];
    case 'cut':
      return [{ atMs, heal: node }];
    case 'no-kubelet':
      return [{ atMs, node, kubelet: 'start' }];
    case 'off':
      return [{ atMs, node, power: 'on' }];
    case 'goes-down':
      return [
        { atMs, node, freeze: false },
        { atMs, node, power: 'on' },
      ];
  }
}
