import { aheadMs } from '../core/guard/ahead.ts';
import { livesTainted } from '../core/guard/marks.ts';
import { recordsOf } from '../core/guard/rate.ts';
import { owedOn, seenSign, staysOff } from '../core/guard/turn.ts';
import type { MonoMs } from '../core/reading.ts';
import type { Findings } from '../ports.ts';
import {
  OFF_IN_DRY_RUN,
  offInDryRun,
  RECORD_AHEAD,
  recordAhead,
  TAINT_ON_LIVING,
  TAINTS_IN_DRY_RUN,
  taintOnLiving,
  taintsInDryRun,
} from '../words/finding-guard.ts';
import type { GuardLook } from './loop.ts';

/** Clocks that are kept by NTP are nearer to each other than this. */
const CLOCKS_APART_MS = 60_000;

/** That a taint is gone is heard within this. */
const REMOVED_WITHIN_MS = 15_000;

type Tell = (look: GuardLook) => void;

/** What a look shows that a person should know, for as long as it does. */
export function tellOfLooks({ raise, clear }: Pick<Findings, 'raise' | 'clear'>): Tell {
  /** A dry run removes nothing: what a fencing set before it was loaded stays. */
  const taintsOfDryRun: Tell = ({ config, verdict }) => {
    const nodes = config.dryRun ? [...verdict.state.nodes.values()] : [];
    const tainted = nodes.flatMap(({ object, facts }) => (facts.outOfServiceBy === null ? [] : [object.name]));
    if (tainted.length === 0) clear(TAINTS_IN_DRY_RUN);
    else raise(taintsInDryRun(tainted));
  };
  /** Nor does it power on what a fencing switched off before it was loaded. */
  const offOfDryRun: Tell = ({ config, verdict: { state } }) => {
    const fencings = config.dryRun ? [...state.fencings.values()] : [];
    const off = fencings.filter(({ record }) => {
      const memory = state.nodes.get(record.node.uid);
      if (memory === undefined || seenSign(record, memory) !== null) return false;
      return owedOn(record).length > 0 && staysOff(record) === null && record.phase !== 'left-off';
    });
    if (off.length === 0) clear(OFF_IN_DRY_RUN);
    else raise(offInDryRun(off.map(({ record }) => record.node.name)));
  };
  let living: ReadonlyMap<string, MonoMs> = new Map();
  const taintsOfLiving: Tell = ({ config, observation: { atMs }, verdict: { state } }) => {
    const nodes = config.dryRun ? [] : [...state.nodes.values()].filter((memory) => livesTainted(memory, state));
    living = new Map(nodes.map(({ object }) => [object.uid, living.get(object.uid) ?? atMs]));
    const stay = nodes.filter(({ object }) => atMs - (living.get(object.uid) ?? atMs) >= REMOVED_WITHIN_MS);
    if (stay.length === 0) clear(TAINT_ON_LIVING);
    else raise(taintOnLiving(stay.map(({ object }) => object.name)));
  };
  const recordsAhead: Tell = ({ observation: { records, wallMs }, verdict }) => {
    if (!records.known) return;
    const ahead = recordsOf(records.value, verdict.state.fencings)
      .map((record) => ({ id: record.id, byMs: aheadMs(record, wallMs) }))
      .filter(({ byMs }) => byMs > CLOCKS_APART_MS);
    if (ahead.length === 0) return clear(RECORD_AHEAD);
    const ids = ahead.map(({ id }) => id);
    raise(recordAhead(ids, Math.max(...ahead.map(({ byMs }) => byMs))));
  };
  return (look) => {
    taintsOfDryRun(look);
    offOfDryRun(look);
    taintsOfLiving(look);
    recordsAhead(look);
  };
}
