import type { CoreConfig } from '../../core/core-config.ts';
import type { Decision, DecisionId } from '../../core/decision.ts';
import type { MetThreshold } from '../../core/eviction/threshold.ts';
import type { Observation } from '../../core/observation.ts';
import type { Outcome } from '../../core/outcome.ts';
import type { MonoMs } from '../../core/reading.ts';
import { withStopsTerminating } from '../../core/shutdown/step.ts';
import type { State } from '../../core/state/state.ts';
import type { Verdict } from '../../core/verdict.ts';
import { within } from '../../host/clock.ts';
import { writeAtomic } from '../../host/files.ts';
import { openRecordDisk } from '../../host/own/record-disk.ts';
import { isThreadFree } from '../../host/own/thread-pool.ts';
import type { Clock, Findings, Left, Recorder } from '../../ports.ts';
import { recordDamaged, STATE_FILE, stateNotSaved } from '../../words/finding-own.ts';
import { type EntryBody, entryOf, LINE_START, type RecordEntry, sayEntry } from '../entry.ts';
import { recordName } from '../reading/record-file.ts';
import { scenarioOf, scenarioPods } from '../scenarios/scenario-of.ts';
import { idsOf, openPendingLines, pendingLinesPath } from './pending-lines.ts';
import { createSpool } from './spool.ts';

export type RecorderNeeds = {
  readonly clock: Clock;
  /** stateFilePath(): on tmpfs, because it is written within the look. */
  readonly stateFile: string;
  readonly recordDirectory: string;
  /** As loaded: what an earlier run decided but did not get onto the disk is recorded now. */
  readonly adopted: State;
  readonly dry: boolean;
  readonly bootId: string;
  readonly findings: Findings;
  readonly config: () => CoreConfig;
  /** Called if the record's file was removed or replaced, and has been recreated. */
  readonly onRecordLost?: () => void;
  /** Called for every entry, whether or not the disk accepts it. */
  readonly onEntry?: (entry: RecordEntry) => void;
};
type RecentDecision = {
  readonly atWallMs: number;
  readonly decision: Decision;
  /** null: not known yet. */
  readonly outcome: Outcome | null;
  /** For an eviction: right before its first signal; null: not known yet. */
  readonly stopBeganAtMs: MonoMs | null;
};
/** `bases`: the entries with the basis of decisions for which the state still waits. */
type HandedOver = { readonly recent: readonly RecentDecision[]; readonly bases: readonly string[] };
type PartsNeeds = Pick<RecorderNeeds, 'findings' | 'config' | 'onRecordLost'>;
type Lines = { readonly lines: string; readonly ids: readonly DecisionId[]; readonly recorded: () => void };
type Observed = (step: { readonly observation: Observation; readonly verdict: Verdict }) => void;
export type OpenRecorder = Recorder & {
  /** The last decisions of this run, newest first; at most 10. */
  readonly recent: () => readonly RecentDecision[];
  /** How far a decision of an earlier run, or of earlier parts, had come for which the adopted state still waits. */
  readonly left: (of: DecisionId) => Left;
  /** Builds from a step what `intent` would write, but writes nothing. */
  readonly rehearse: Observed;
  /** Writes what is still in memory; waits at most 2 s for a disk that accepts nothing. */
  readonly close: () => Promise<void>;
  /** After close: continues for rebuilt parts, with what the disk has not accepted yet. */
  readonly reopen: (parts: PartsNeeds) => void;
  /** What a recorder in another directory continues with. */
  readonly handOver: () => HandedOver;
  /** The files next to the state were lost: writes them again. */
  readonly rewrite: () => void;
  /** Checks that the record's file is still in its place, independent of writes. */
  readonly checkRecord: () => void;
};

const RECENT_MAX = 10;
const KEEP_MS = 1_000;
/** While nothing happens, a restart loses nothing within this time. */
const CALM_KEEP_MS = 60_000;
const CLOSE_MS = 2_000;
/**
 * Serialising an observation of 1,000 pods takes 10 ms, and no kill may wait for that. Only an agent that dies within
 * this time loses it.
 */
const EVIDENCE_MS = 20;

/**
 * The recorders of one process: one per file, across reloads. A second one would write again what a full disk still delays in
 * the first, and truncate what that one appends.
 */
export function createRecorders(): (needs: RecorderNeeds) => OpenRecorder {
  const opened = new Map<string, OpenRecorder>();
  const lastOf = new Map<string, OpenRecorder>();
  return (needs) => {
    const key = JSON.stringify([needs.stateFile, needs.recordDirectory, needs.dry]);
    const earlier = opened.get(key);
    earlier?.reopen(needs);
    const recorder = earlier ?? createRecorder(needs, lastOf.get(needs.stateFile)?.handOver());
    opened.set(key, recorder);
    lastOf.set(needs.stateFile, recorder);
    return recorder;
  };
}

export function createRecorder(needs: RecorderNeeds, before?: HandedOver): OpenRecorder {
  const { clock, bootId, dry } = needs;
  let parts: PartsNeeds = needs;
  let isOpen = true;
  const findings: Findings = {
    raise: (finding) => parts.findings.raise(finding),
    clear: (id) => parts.findings.clear(id),
    all: () => parts.findings.all(),
  };
  const say = (body: EntryBody): string => {
    const entry = entryOf({ atWallMs: clock.wallMs(), bootId, dry }, body);
    needs.onEntry?.(entry);
    return sayEntry(entry);
  };
  const disk = openRecordDisk({
    clock,
    directory: needs.recordDirectory,
    name: recordName(dry),
    lineStart: LINE_START,
    onRestored: () => parts.onRecordLost?.(),
    onCorrupt: (keptAs, line) => findings.raise(recordDamaged(line, keptAs)),
  });
  const spool = createSpool({
    clock,
    disk,
    findings,
    isThreadFree: () => isThreadFree(clock),
    sayLost: (entries) => say({ kind: 'lost', entries }),
  });
  const { pending, lost } = openPendingLines({ ...needs, path: pendingLinesPath(needs.stateFile), findings });
  for (const { line, recorded } of lost) spool.put(line, (how) => how !== 'waiting' && recorded());
  for (const line of before?.bases ?? []) spool.put(line);
  let bases: readonly { readonly of: readonly DecisionId[]; readonly line: string }[] = [];
  const stateFile = keepState({ ...needs, findings }, (state) => {
    pending.follow(state);
    const awaited = idsOf(state);
    bases = bases.filter(({ of }) => of.some((id) => awaited.has(id)));
  });
  let recent: readonly RecentDecision[] = before?.recent ?? [];
  /** The basis of the last decisions, written once the first signals are sent. */
  const evidence: (() => void)[] = [];
  const putEvidenceSoon = (put: () => void): void => {
    evidence.push(put);
    clock.after(EVIDENCE_MS, putEvidence);
  };
  /**
   * Written next to the state at once, so that it survives if the agent is killed now; the returned function hands it
   * to the disk.
   */
  const keepLine = (of: DecisionId, line: string): (() => void) => {
    const recorded = pending.add([of], line);
    return () => spool.put(line, (how) => how !== 'waiting' && recorded());
  };

  return {
    intent: ({ observation, verdict }, deadlineMs) => {
      const { decisions, reasons } = verdict;
      const ids = decisions.map(({ id }) => id);
      const lines = decisions.map((decision) => say({ kind: 'decision', decision, reasons })).join('');
      const recorded = pending.add(ids, lines);
      stateFile.write(verdict.state);
      const atWallMs = clock.wallMs();
      recent = [
        ...decisions
          .filter(isShown)
          .map((decision) => ({ atWallMs, decision, outcome: null, stopBeganAtMs: null }))
          .reverse(),
        ...recent,
      ].slice(0, RECENT_MAX);
      const config = parts.config();
      putEvidenceSoon(() => {
        const line = say(evidenceOf(observation, verdict, config));
        bases = [...bases, { of: ids, line }];
        spool.put(line);
      });
      return putWithin({ lines, ids, recorded }, deadlineMs);
    },
    keep: stateFile.keep,
    began: (note) => {
      const { of, stopBeganAtMs } = note;
      recent = recent.map((entry) => (entry.decision.id === of ? { ...entry, stopBeganAtMs } : entry));
      putEvidenceSoon(keepLine(note.of, say({ kind: 'note', note })));
    },
    outcome: (outcome) => {
      recent = recent.map((entry) => (entry.decision.id === outcome.of ? { ...entry, outcome } : entry));
      keepLine(outcome.of, say({ kind: 'outcome', outcome }))();
    },
    left: pending.left,
    note: (note, recorded) => {
      const line = say({ kind: 'note', note });
      if (note.kind === 'rung') keepLine(note.of, line)();
      else spool.put(line, (how) => how !== 'waiting' && recorded?.());
    },
    recent: () => recent,
    handOver: () => ({ recent, bases: bases.map(({ line }) => line) }),
    rehearse: ({ observation, verdict }) => {
      const { decisions, reasons, state } = verdict;
      const moment = { atWallMs: clock.wallMs(), bootId, dry };
      for (const decision of decisions) sayEntry(entryOf(moment, { kind: 'decision', decision, reasons }));
      sayEntry(entryOf(moment, evidenceOf(observation, verdict, parts.config())));
      JSON.stringify(state);
    },
    close: async () => {
      isOpen = false;
      stateFile.close();
      putEvidence();
      await within(clock, CLOSE_MS, closeDisk(), () => undefined);
    },
    rewrite: () => {
      stateFile.rewrite();
      pending.rewrite();
    },
    checkRecord: spool.check,
    reopen: (next) => {
      parts = next;
      isOpen = true;
      disk.reopen();
      // The file is then open before the first decision, and a disk that refuses is reported to the new findings.
      void spool.drained();
    },
  };

  async function closeDisk(): Promise<void> {
    await spool.drained();
    // A hanging disk may outlast the deadline, and by then it may be open again.
    if (!isOpen) await disk.close();
  }

  function putEvidence(): void {
    for (const put of evidence.splice(0)) put();
  }

  function putWithin({ lines, ids, recorded }: Lines, deadlineMs: number): Promise<'durable' | 'deferred'> {
    return new Promise((resolve) => {
      const startedMs = clock.monoMs();
      let isOver = false;
      const defer = (): void => {
        if (isOver) return;
        isOver = true;
        spool.put(say({ kind: 'deferred', of: ids, waitedMs: Math.round(clock.monoMs() - startedMs) }));
        resolve('deferred');
      };
      const cancel = clock.after(deadlineMs, defer);
      spool.put(lines, (how) => {
        cancel();
        if (how !== 'durable') defer();
        if (how !== 'waiting') recorded();
        isOver = true;
        resolve('durable');
      });
    });
  }
}

/** Decisions that a person asks about; conditions and the lock are shown elsewhere. */
function isShown({ kind }: Decision): boolean {
  return kind !== 'set-condition' && kind !== 'take-lock' && kind !== 'release-lock';
}

function evidenceOf(seen: Observation, { decisions, state }: Verdict, config: CoreConfig): EntryBody {
  const observation = withStopsTerminating(seen, state.stops);
  const { atMs, signals, psi, pods } = observation;
  const of = decisions.map(({ id }) => id);
  const victims = decisions.flatMap((decision) => ('victim' in decision ? [decision.victim.uid] : []));
  const input = { name: of[0] ?? 'look', observation, state, config, acted: actedOn(decisions), victims };
  const inside = scenarioPods(input);
  const inIt = new Set(inside.map(({ uid }) => uid));
  const outside = pods.known ? pods.value.filter(({ uid }) => !inIt.has(uid)) : [];
  const others = outside.map(({ uid, namespace, name }) => ({ uid, namespace, name }));
  const scenario = scenarioOf(input, inside);
  return { kind: 'observation', of, atMs, signals, psi, scenario, ...(others.length === 0 ? {} : { others }) };
}

function actedOn(decisions: readonly Decision[]): MetThreshold | null {
  for (const decision of decisions) {
    if (decision.kind === 'evict' || decision.kind === 'reclaim') return decision.threshold;
  }
  return null;
}

type StateFile = {
  readonly write: (state: State) => void;
  /** Writes the present state once more. */
  readonly rewrite: () => void;
  readonly keep: (state: State) => void;
  readonly close: () => void;
};

/**
 * Written at once if anything changed that a restart would miss, else at most once a second, and less often while all
 * is calm.
 */
function keepState({ clock, stateFile, findings }: RecorderNeeds, written: (state: State) => void): StateFile {
  let writtenMs = Number.NEGATIVE_INFINITY;
  let writtenKey = '';
  let latest: State | null = null;
  let now: State | null = null;
  let cancelTimer: (() => void) | null = null;
  const write = (state: State): void => {
    cancelTimer?.();
    cancelTimer = null;
    latest = null;
    now = state;
    writtenMs = clock.monoMs();
    writtenKey = urgentPart(state);
    // Nothing in it matters after the boot, so an fsync would only delay the look.
    const done = writeAtomic(stateFile, JSON.stringify(state), 0o640, 'boot');
    if (done.known) {
      findings.clear(STATE_FILE);
      written(state);
      return;
    }
    findings.raise(stateNotSaved(stateFile, done.detail));
  };
  return {
    write,
    rewrite: () => {
      if (now !== null) write(now);
    },
    keep: (state) => {
      now = state;
      const isAtRest = isCalm(state);
      const waitMs = writtenMs + (isAtRest ? CALM_KEEP_MS : KEEP_MS) - clock.monoMs();
      if (waitMs <= 0 || urgentPart(state) !== writtenKey) {
        write(state);
        return;
      }
      latest = state;
      // While all is calm, it waits for the next write: a timer would wake the process.
      if (isAtRest) return;
      cancelTimer ??= clock.after(waitMs, () => {
        cancelTimer = null;
        if (latest !== null) write(latest);
      });
    },
    close: () => {
      cancelTimer?.();
      cancelTimer = null;
      if (latest !== null) write(latest);
    },
  };
}

/** Nothing is met, unknown, remembered or in progress. */
function isCalm({ firstMetMs, conditionLastMetMs, failedLooks, act, reclaims, shutdown }: State): boolean {
  const isWorking = act.kind !== 'idle' || reclaims.length > 0 || shutdown.kind === 'stopping';
  return (
    !isWorking && [firstMetMs, conditionLastMetMs, failedLooks].every((moving) => Object.keys(moving).length === 0)
  );
}

/**
 * Everything except samples, paces and the instants of conditions and timers, which may be older: after a restart, the time
 * since that look is left out of a timer. New fields of the state count.
 */
function urgentPart(state: State): string {
  const { lastLookMs, lastSample, spent, heldBackMs, trail, firstMetMs, conditionLastMetMs, failedLooks, ...urgent } =
    state;
  return JSON.stringify([urgent, ...[firstMetMs, conditionLastMetMs, failedLooks].map(Object.keys)]);
}
