import { livesSince } from '../core/guard/decide.ts';
import type { GuardDecision } from '../core/guard/decision.ts';
import { type GuardState, nameOfNode } from '../core/guard/state.ts';
import { isFlag, isNumber, isOneOf, isText, orNull, parseJson, shape } from '../core/shape.ts';
import { kindOf } from '../host/files.ts';
import { openRecordDisk } from '../host/own/record-disk.ts';
import { withRefusedMark } from '../host/own/refused-mark.ts';
import { isThreadFree } from '../host/own/thread-pool.ts';
import type { Clock, Findings } from '../ports.ts';
import { readRotated } from '../record/reading/record-file.ts';
import { createSpool } from '../record/writing/spool.ts';
import { recordDamaged } from '../words/finding-own.ts';
import {
  LOST_BEFORE,
  sayAliveAgain,
  sayGuardDecision,
  sayLostEntries,
  sayRefusedEntries,
  sayStorm,
} from '../words/guard-decision.ts';
import type { GuardLook } from './loop.ts';

/**
 * What the guard of this machine keeps in its `stateDirectory` while it leads: what no ConfigMap tells. A dry run has no other
 * record.
 */
export type LocalEntry = {
  readonly schema: 1;
  readonly wallMs: number;
  readonly dryRun: boolean;
  /** `alive`: a node that would have been fenced shows life again. */
  readonly kind: (typeof KINDS)[number];
  /** Null: it is about none. */
  readonly node: string | null;
  /** That held it; null: none did. */
  readonly gate: string | null;
  readonly text: string;
};
const KINDS = ['would-fence', 'alive', 'held', 'storm-began', 'storm-ended', 'lost'] as const;

const LOCAL_RECORD = 'record.jsonl';
/** Of a file, before it is rotated. */
const LOCAL_RECORD_BYTES = 4 * 1024 * 1024;
const LOCAL_LINE_START = '{"schema":1,';

const isEntry = shape<LocalEntry>({
  schema: isOneOf(1),
  wallMs: isNumber,
  dryRun: isFlag,
  kind: isOneOf(...KINDS),
  node: orNull(isText),
  gate: orNull(isText),
  text: isText,
});

const sayLocalEntry = (entry: Omit<LocalEntry, 'schema'>): string => `${JSON.stringify({ schema: 1, ...entry })}\n`;

type LocalRecord = {
  /** Oldest first. */
  readonly entries: readonly LocalEntry[];
  /** What exists and could not be read: a sentence each. */
  readonly unreadable: readonly string[];
};

/** Without a record, it is empty. Lines that are no entries are passed over: a guard that was killed leaves a torn one. */
export function readLocalRecord(directory: string): LocalRecord {
  const entries: LocalEntry[] = [];
  const unreadable = readRotated(directory, LOCAL_RECORD, LOCAL_RECORD_BYTES, (line) => {
    const entry = parseJson(line);
    if (isEntry(entry)) entries.push(entry);
  });
  const isRefused = kindOf(refusedMarkIn(directory)) !== null;
  return { entries, unreadable: isRefused ? [...unreadable, sayRefusedEntries(directory)] : unreadable };
}

const refusedMarkIn = (directory: string): string => `${directory}/${LOCAL_RECORD}.refused`;

/** How often it is made sure that the file is still there. */
const CHECK_MS = 60_000;

/** Keeps what was held, and in dry run what would have been done. A disk that refuses is a finding, and never waited for. */
export function keepLocalRecord({
  clock,
  findings,
  directory,
}: {
  readonly clock: Clock;
  readonly findings: Findings;
  readonly directory: string;
}): { readonly keep: (look: GuardLook) => void; readonly close: () => Promise<void> } {
  const onDisk = openRecordDisk({
    ...{ clock, directory, name: LOCAL_RECORD, lineStart: LOCAL_LINE_START, maxBytes: LOCAL_RECORD_BYTES },
    onRestored: () => undefined,
    onCorrupt: (keptAs, line) => findings.raise(recordDamaged(line, keptAs)),
  });
  let last: GuardLook | null = null;
  const lost = (text: string): string =>
    sayLocalEntry({
      ...{ wallMs: clock.wallMs(), dryRun: last?.config.dryRun ?? false },
      ...{ kind: 'lost', node: null, gate: null, text },
    });
  const sayLost = (lines: number): string => lost(sayLostEntries(lines));
  const disk = withRefusedMark(onDisk, refusedMarkIn(directory), () => lost(LOST_BEFORE));
  const spool = createSpool({ clock, disk, findings, isThreadFree: () => isThreadFree(clock), sayLost });
  let checkedMs = clock.monoMs();

  return {
    keep: (look) => {
      const before = last;
      last = look;
      if (clock.monoMs() - checkedMs >= CHECK_MS) {
        checkedMs = clock.monoMs();
        spool.check();
      }
      if (!look.observation.self.leadership.isLeader) return;
      for (const entry of entriesOf(look, before?.verdict.state.dryFenced ?? new Map()))
        spool.put(sayLocalEntry(entry));
    },
    close: async () => {
      await spool.drained();
      await disk.close();
    },
  };
}

type Entry = Omit<LocalEntry, 'schema'>;

function entriesOf({ observation, verdict, config }: GuardLook, before: GuardState['dryFenced']): readonly Entry[] {
  const { state, decisions, reasons } = verdict;
  const common = { wallMs: observation.wallMs, dryRun: config.dryRun, node: null, gate: null };
  const nameOf = (uid: string): string => nameOfNode(state.nodes, uid);
  const alive = [...before].flatMap(([uid, fenced]): readonly Entry[] => {
    const memory = state.nodes.get(uid);
    // Also those of which it is not said any more because the guard was armed meanwhile.
    if (memory === undefined || !livesSince(memory, fenced)) return [];
    const { name } = memory.object;
    return [{ ...common, kind: 'alive', node: name, text: sayAliveAgain(name, observation.wallMs - fenced.wallMs) }];
  });
  const storms = reasons.flatMap((reason): readonly Entry[] =>
    reason.code === 'storm-began' || reason.code === 'storm-ended'
      ? [
          {
            ...common,
            kind: reason.code,
            text: sayStorm(reason.code === 'storm-ended', reason.kind, reason.scope, nameOf),
          },
        ]
      : [],
  );
  return [...alive, ...storms, ...decisions.flatMap((decision) => ofDecision(decision, common))];
}

function ofDecision(decision: GuardDecision, common: Omit<Entry, 'kind' | 'text'>): readonly Entry[] {
  const text = sayGuardDecision(decision) ?? '';
  if (decision.kind === 'fence' && decision.isDry) {
    return [{ ...common, kind: 'would-fence', node: decision.node.name, text }];
  }
  if (decision.kind !== 'hold') return [];
  const gate = decision.gates.find(({ isOpen }) => !isOpen)?.gate ?? null;
  return [{ ...common, kind: 'held', node: decision.node.name, gate, text }];
}
