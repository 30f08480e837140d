// What systemd starts and stops besides a unit when it starts that.
import { type Reading, unknown } from '../../core/reading.ts';
import type { Systemd } from '../../host/systemd/systemd.ts';
import type { UnitFacts, UnitTies } from '../../host/systemd/unit-facts.ts';
import { CONFLICTS, STARTS_WITH } from './tie-graph.ts';

/** Properties of a unit that list the units for which systemd starts it. */
const NEEDED_BY = ['RequiredBy', 'BoundBy', 'WantedBy', 'UpheldBy'];
/** What it needs to run: a stop of that stops it, too. */
const NEEDS = ['Requires', 'BindsTo'];
/** A scope belongs to its creator, and systemd makes slices and devices by itself. */
const STARTABLE = /\.(?:service|socket|timer|path|mount|automount|swap|target)$/;
/** Units to ask systemd about before one start. */
const MOST_ASKED = 256;

/** Whether systemd can start it again once it has stopped it. */
export const isStartable = (unit: string): boolean => STARTABLE.test(unit);

/** Whether it needs to be started for one of these. */
export const isNeededBy = ({ relations }: UnitFacts, units: readonly string[]): boolean =>
  NEEDED_BY.some((list) => relations[list]?.some((name) => units.includes(name)));

/**
 * Why a unit must not be started, as a sentence. `isMeant`: somebody has decided so; else it may be otherwise in a moment.
 * `isSoon`: it only waits for its turn.
 */
type Forbidden = { readonly why: string; readonly isMeant: boolean; readonly isSoon?: true };
/** What else is known of units: none of it is so by default. */
type Others = {
  /** It was stopped with this one, and may be started again with it. */
  readonly wasStopped: (unit: string) => boolean;
  /** An eviction still holds it down. */
  readonly isKeptDown?: (unit: string) => boolean;
  /** It is to stay down: its manifest, or somebody who has stopped it, says so. */
  readonly isLeftDown?: (unit: string) => boolean;
  /** To be started, too, and no later than this one. */
  readonly ahead?: readonly string[];
};
/** By `LoadState`. */
const NOT_LOADED: { readonly [loadState: string]: Forbidden } = {
  masked: { why: 'it is masked', isMeant: true },
  'not-found': { why: 'systemd knows no such unit', isMeant: true },
  'bad-setting': { why: 'its unit file has a bad setting', isMeant: false },
};
const UNLOADABLE: Forbidden = { why: 'systemd cannot load its unit file', isMeant: false };

/**
 * Whether it cannot be started, or systemd would stop or cancel another unit to start this one, or to start what this one
 * needs and is not running, or could not start a socket any more; null: none. Then that start is the first one that counts
 * towards a start limit that would reboot or power off the machine.
 */
export async function prepareStart(
  systemd: Pick<Systemd, 'ties' | 'resetStarts'>,
  facts: UnitTies,
  { wasStopped, isKeptDown = () => false, isLeftDown = () => false, ahead = [] }: Others,
): Promise<Forbidden | null> {
  if (facts.loadState !== 'loaded') return NOT_LOADED[facts.loadState] ?? UNLOADABLE;
  const asked = new Map<string, Reading<UnitTies>>();
  const ask = async (name: string): Promise<Reading<UnitTies>> => {
    const before = asked.get(name);
    if (before !== undefined) return before;
    const answer =
      asked.size < MOST_ASKED
        ? await systemd.ties(name)
        : unknown('not-asked', name, `systemd is asked about no more than ${MOST_ASKED} units`);
    asked.set(name, answer);
    return answer;
  };
  for (const name of facts.relations['Triggers'] ?? []) {
    if (isKeptDown(name)) return isTriggered(name);
    if (!facts.id.endsWith('.socket')) continue;
    const service = await ask(name);
    if (!service.known) return isUnsaid(name, service.detail);
    if (isRunning(service.value)) return isTooLate(name);
  }
  const toStart: UnitTies[] = [facts];
  const found = new Set([facts.id]);
  for (const { id, relations } of toStart) {
    for (const name of CONFLICTS.flatMap((list) => relations[list] ?? [])) {
      const rival = await ask(name);
      if (!rival.known) return isUnsaid(name, rival.detail);
      const taken = placeTakenBy(rival.value);
      if (taken !== null) return taken;
    }
    for (const name of STARTS_WITH.flatMap((list) => relations[list] ?? [])) {
      const needed = await ask(name);
      if (!needed.known) return isUnsaid(name, needed.detail);
      // Of what is merely wanted, the agent stops it again, and nothing else with it.
      const isNeeded = NEEDS.some((list) => relations[list]?.includes(name));
      if (isNeeded && isKeptDown(needed.value.id)) return isWaitedFor(needed.value.id);
      if (isRunning(needed.value) || found.has(needed.value.id)) continue;
      if (isNeeded && isLeftDown(needed.value.id)) return isToStayDown(needed.value.id);
      // A target would bring up what somebody keeps down, and run once more what has ended.
      const isByTarget = facts.id.endsWith('.target') && id.endsWith('.target');
      if (isByTarget && needed.value.loadState === 'loaded' && !wasStopped(needed.value.id))
        return isMore(needed.value.id);
      found.add(needed.value.id);
      toStart.push(needed.value);
    }
  }
  // systemd starts a socket only before its service, and one that is stopped, and so not loaded, stands in no list of that.
  for (const name of ahead) {
    if (name === facts.id || !name.endsWith('.socket')) continue;
    const socket = await ask(name);
    const service = socket.known && socket.value.relations['Triggers']?.find((triggered) => found.has(triggered));
    if (service) return isBehind(name, service);
  }
  for (const { id, startLimitAction } of toStart) {
    if (startLimitAction === undefined) continue;
    const reset = await systemd.resetStarts(id);
    if (!reset.known) return isCounted(id, startLimitAction, reset.detail);
  }
  return null;
}

function placeTakenBy(rival: UnitTies): Forbidden | null {
  const { id, activeState } = rival;
  if (isRunning(rival)) return { why: `${id} runs, and systemd would stop it to start this unit`, isMeant: true };
  if (rival.isToStart === true)
    return { why: `${id} is about to start, and systemd would cancel that to start this unit`, isMeant: true };
  // Without an order between them, systemd does not wait for its end.
  const isStopping = activeState === 'deactivating';
  return isStopping ? { why: `${id} is still stopping, and the two must not run together`, isMeant: false } : null;
}
const isUnsaid = (unit: string, detail: string): Forbidden => ({
  why: `systemd does not report whether the start would stop a running unit: ${unit}: ${detail}`,
  isMeant: false,
});
const isMore = (unit: string): Forbidden => ({
  why: `systemd would also start ${unit}, which was not stopped with it`,
  isMeant: true,
});
const isTriggered = (unit: string): Forbidden => ({
  why: `it may start ${unit}, which an eviction still holds down`,
  isMeant: false,
});
const isTooLate = (service: string): Forbidden => ({
  why: `${service} runs, and systemd starts its socket only before that`,
  isMeant: true,
});
const isWaitedFor = (unit: string): Forbidden => ({
  why: `it needs ${unit}, which an eviction still holds down`,
  isMeant: false,
});
const isToStayDown = (unit: string): Forbidden => ({
  why: `it needs ${unit}, which is to stay down: its manifest, or who stopped it, says so`,
  isMeant: true,
});
const isBehind = (socket: string, service: string): Forbidden => ({
  why: `${socket} has to be started before ${service}`,
  isMeant: false,
  isSoon: true,
});
const isCounted = (unit: string, action: string, detail: string): Forbidden => ({
  why: `the start may trigger ${action} of ${unit}, and systemd does not reset its count of starts: ${detail}`,
  isMeant: false,
});

/** Excludes one that is just stopping. */
export function isRunning(facts: Pick<UnitFacts, 'activeState'> | null): boolean {
  return facts !== null && ['active', 'reloading', 'activating'].includes(facts.activeState);
}
