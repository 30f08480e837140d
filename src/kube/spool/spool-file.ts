import type { DecisionId } from '../../core/decision.ts';
import type { PodUid } from '../../core/pod/pod.ts';
import type { MonoMs } from '../../core/reading.ts';
import { isNumber, isOneOf, isText, optional, parseJson, recordOf, shape, union } from '../../core/shape.ts';
import { readText } from '../../host/files.ts';
import type { DisruptionReason } from '../api/api-pod.ts';
import {
  type ApiEvent,
  type ApiVictim,
  EVENT_REASONS,
  type EventObject,
  mustBeDisruption,
  mustBeEvent,
  mustBeGrace,
  mustBeVictim,
} from '../api/write-rules.ts';

/** What could not be sent (C5). `nodeUid`: of the Node object it is about, which no other cluster has. Absent: not known. */
export type Spooled = { readonly nodeUid?: string } & (
  | {
      readonly kind: 'delete';
      readonly decision: DecisionId;
      readonly victim: ApiVictim;
      readonly graceSeconds: number;
      readonly why: DisruptionReason;
      readonly message: string;
      readonly madeAtMs: MonoMs;
      /** The boot of `madeAtMs`: in another boot, there is nothing left to end. */
      readonly bootId: string;
    }
  | { readonly kind: 'event'; readonly event: ApiEvent }
);

/** One act per pod, one fact per event: a later one replaces the earlier one. */
export function keyOf(entry: Spooled): string {
  if (entry.kind === 'delete') return keyOfAct(entry.victim.uid);
  const { about, name } = entry.event;
  return `event/${about.kind === 'Pod' ? about.namespace : ''}/${name}`;
}

export const keyOfAct = (uid: PodUid): string => `delete/${uid}`;

/** Throws if `create` or `delete` would refuse the entry. */
export function mustBeSpooled(entry: Spooled): void {
  if (entry.kind === 'event') mustBeEvent(entry.event);
  else {
    mustBeVictim(entry.victim);
    mustBeGrace(entry.graceSeconds);
    mustBeDisruption(entry.why);
  }
}

const LINE = '{"schema":1,';
export const SPOOL_LINE_START = LINE;
export const sayEntry = (entry: Spooled): string => `${LINE}${JSON.stringify({ entry }).slice(1)}\n`;
export const sayDone = (key: string): string => `${LINE}${JSON.stringify({ done: key }).slice(1)}\n`;

type SpoolFile = {
  readonly entries: ReadonlyMap<string, Spooled>;
  readonly lines: number;
  /** Lines that this program did not write; the last one may be torn. */
  readonly badLines: number;
  /** Null: it was read, or does not exist. */
  readonly unreadable: string | null;
};

/** 10,000 entries of 3 kB. */
const MAX_BYTES = 32 * 1024 * 1024;

export function readSpool(path: string): SpoolFile {
  const entries = new Map<string, Spooled>();
  const text = readText(path, MAX_BYTES);
  if (!text.known) return { entries, lines: 0, badLines: 0, unreadable: text.why === 'absent' ? null : text.detail };
  const lines = text.value.split('\n');
  // '' after a whole last line; otherwise a killed writer tore it.
  lines.pop();
  let badLines = 0;
  for (const line of lines) {
    const read = readLine(parseJson(line));
    if (read === null) badLines++;
    else if (typeof read === 'string') entries.delete(read);
    else {
      entries.delete(keyOf(read));
      entries.set(keyOf(read), read);
    }
  }
  return { entries, lines: lines.length, badLines, unreadable: null };
}

const isPodRef = { namespace: isText, name: isText, uid: isText };
const isEvent = shape<ApiEvent>({
  name: isText,
  about: union<EventObject>({ Node: {}, Pod: isPodRef }),
  reason: isOneOf(...EVENT_REASONS),
  type: isOneOf('Normal', 'Warning'),
  message: isText,
  annotations: recordOf(isText, isText),
  firstWallMs: isNumber,
  lastWallMs: isNumber,
  count: isNumber,
});
const isSpooled = union<Spooled>({
  delete: {
    decision: isText,
    victim: shape<ApiVictim>({ ...isPodRef, isMirror: isOneOf(false) }),
    graceSeconds: isNumber,
    why: isText,
    message: isText,
    madeAtMs: isNumber,
    bootId: isText,
    nodeUid: optional(isText),
  },
  event: { event: isEvent, nodeUid: optional(isText) },
});
const isEntryLine = shape<{ readonly schema: 1; readonly entry: Spooled }>({ schema: isOneOf(1), entry: isSpooled });
const isDoneLine = shape<{ readonly schema: 1; readonly done: string }>({ schema: isOneOf(1), done: isText });

/** A completed key, an entry, or null: not a line of ours. */
function readLine(line: unknown): Spooled | string | null {
  if (isDoneLine(line)) return line.done;
  if (!isEntryLine(line)) return null;
  try {
    mustBeSpooled(line.entry);
    return line.entry;
  } catch {
    return null; // It would be refused when it is sent.
  }
}
