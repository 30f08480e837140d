// What somebody else stops while a unit is held down: for one that is down already, systemd makes no job.
import type { JobEnd, Systemd } from '../../host/systemd/systemd.ts';
import type { UnitTies } from '../../host/systemd/unit-facts.ts';
import { MAX_REMEMBERED } from '../manifests/runtime-file.ts';
import { isAnswer } from '../ties/awaited-answer.ts';
import { isRunning } from '../ties/start-effects.ts';
import { STOPS_FROM, stopsWith } from '../ties/tie-graph.ts';

type StoppedBases = {
  /**
   * A unit that somebody else has stopped, and systemd with it this one, had it been running; null: none. `undecided`: systemd
   * did not say. Asks it only if some unit was stopped since the last call.
   */
  readonly of: (unit: string) => Promise<string | 'undecided' | null>;
  readonly forget: (units: readonly string[]) => void;
  /** A shutdown was announced: of a stop that goes on, it is not known any more whether it is anybody's wish. */
  readonly shutsDown: () => void;
  readonly close: () => void;
};
type StoppedBasesNeeds = {
  readonly systemd: Pick<Systemd, 'ties' | 'whenStateChanges' | 'whenJobBegins' | 'whenJobEnds'>;
  /** Of which a stop counts now: none while the agent stops one of them, since what goes along with that is nobody's wish. */
  readonly waiting: () => readonly string[];
  /** A shutdown may be stopping units: what begins or ends then is not known to be anybody's wish, also if it is cancelled. */
  readonly isShuttingDown: () => boolean;
  /** What a shutdown has stopped and a cancel has not started again yet: nor is what stops because of that. */
  readonly ofShutdown: () => ReadonlySet<string>;
  readonly isHeld: (unit: string) => boolean;
};
/** `units`: for which it may count, with how often systemd did not say whether it does. `byShutdown`: as its job was queued. */
type Stop = {
  readonly job: JobEnd;
  readonly byShutdown: ReadonlySet<string>;
  readonly units: Map<string, number>;
  along: Promise<ReadonlySet<string> | null> | null;
};

const NONE: ReadonlySet<string> = new Set();
/** Units whose state is remembered. */
const MOST_UNITS = 4_096;
/** Units to ask systemd about in each direction, for one stop. */
const MOST_ASKED = 256;
/** A unit is not left down for what systemd does not say. Asked once a second, while it answers about the unit itself. */
const MOST_UNDECIDED = 60;

export function createStoppedBases(needs: StoppedBasesNeeds): StoppedBases {
  const { systemd, waiting, isShuttingDown, isHeld } = needs;
  /** As systemd told last. It tells of a unit before it tells that a job of it was queued, or has ended. */
  const states = new Map<string, string>();
  /** Active when their job was queued: one that ends with the unit down is a stop then, and not the start of a oneshot. */
  const wereActive = new Map<string, ReadonlySet<string>>();
  let stops: readonly Stop[] = [];
  const ends = [
    systemd.whenStateChanges((unit, { activeState }) => {
      if (states.size >= MOST_UNITS) states.clear();
      if (activeState !== '') states.set(unit, activeState);
    }),
    systemd.whenJobBegins((unit) => {
      if (states.get(unit) === 'active' && !isShuttingDown()) wereActive.set(unit, needs.ofShutdown());
    }),
    systemd.whenJobEnds((job) => {
      const byShutdown = wereActive.get(job.unit);
      wereActive.delete(job.unit);
      const isDown = ['inactive', 'failed'].includes(states.get(job.unit) ?? '');
      const units = new Map(waiting().map((name) => [name, 0]));
      if (byShutdown === undefined || !isDown || job.result !== 'done' || units.size === 0) return;
      if (isHeld(job.unit) || isShuttingDown()) return;
      stops = [...stops, { job, byShutdown, units, along: null }].slice(-MAX_REMEMBERED);
    }),
  ];

  /** It and what can be reached from it, the nearest first; in it, null: systemd refuses to speak of that one. Null: it did not say. */
  async function reach(from: string, lists: (ties: UnitTies) => readonly string[]) {
    const names = new Set([from]);
    const reached = new Map<string, UnitTies | null>();
    for (const name of names) {
      if (reached.size >= MOST_ASKED) break;
      const ties = await systemd.ties(name);
      if (!isAnswer(ties)) return null;
      reached.set(name, ties.known ? ties.value : null);
      for (const other of ties.known ? lists(ties.value) : []) names.add(other);
    }
    return reached;
  }

  async function alongWith(base: string, byShutdown: ReadonlySet<string>): Promise<ReadonlySet<string> | null> {
    const along = await reach(base, stopsWith);
    if (along === null) return null;
    const isUpAgain = isRunning(along.get(base) ?? null) || along.get(base)?.isToStart === true;
    if (isUpAgain || ![...along.keys()].some(isHeld)) return NONE;
    const above = await reach(base, ({ relations }) => STOPS_FROM.flatMap((list) => relations[list] ?? []));
    if (above === null) return null;
    // The agent's own stop of such a unit may be what has stopped it, or what left it without need.
    const isByAgent = (name: string): boolean => isHeld(name) || byShutdown.has(name);
    const isNoWish = [...above].some(([name, ties]) => ties?.stopsUnneeded === true || isByAgent(name));
    return isNoWish || above.size >= MOST_ASKED ? NONE : new Set(along.keys());
  }

  async function of(unit: string): Promise<string | 'undecided' | null> {
    for (const stop of stops.filter(({ units }) => units.has(unit))) {
      stop.along ??= stop.job.isOurs() ? Promise.resolve(NONE) : alongWith(stop.job.unit, stop.byShutdown);
      const along = await stop.along;
      if (along === null) {
        stop.along = null;
        const times = (stop.units.get(unit) ?? 0) + 1;
        stop.units.set(unit, times);
        if (times < MOST_UNDECIDED) return 'undecided';
      }
      stop.units.delete(unit);
      stops = stops.filter(({ units }) => units.size > 0);
      if (along?.has(unit) === true) return stop.job.unit;
    }
    return null;
  }

  return {
    of,
    forget: (units) => {
      for (const stop of stops) for (const unit of units) stop.units.delete(unit);
      stops = stops.filter(({ units }) => units.size > 0);
    },
    shutsDown: () => wereActive.clear(),
    close: () => {
      for (const end of ends) end();
    },
  };
}
