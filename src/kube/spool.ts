import type { Rung } from '../core/outcome.ts';
import type { PodUid } from '../core/pod/pod.ts';
import { type MonoMs, sayCause } from '../core/reading.ts';
import { ensureDirectory, writeAtomic, writeBeside } from '../host/files.ts';
import { keepAside } from '../host/own-file.ts';
import { openRecordDisk } from '../host/record-disk.ts';
import type { Clock, Findings, Log, RecordNote } from '../ports.ts';
import { SPOOL, spoolDamaged, spoolFull, spoolNotSaved } from '../words/finding-writes.ts';
import { ACT_MS, type ApiWrites } from './api-writes.ts';
import { rightFor } from './events.ts';
import type { DeleteAnswer } from './eviction.ts';
import { acceptedBy, type EndKnown, UNANSWERED } from './ladder.ts';
import {
  keyOf,
  keyOfAct,
  mustBeSpooled,
  readSpool,
  SPOOL_LINE_START,
  type Spooled,
  sayDone,
  sayEntry,
} from './spool-file.ts';
import { saidOf } from './stop-through-api.ts';
import { type NotDone, reportWrite } from './write-failure.ts';

/** Messages to the API server, kept until it has received them (C5 to C7). */
export type Spool = {
  /**
   * Never waits; throws for an entry that could never be sent. `endKnown`: called once the API server has shown whether it
   * ends the pod of an act.
   */
  readonly put: (entry: Spooled, endKnown?: EndKnown) => void;
  /** It was sent elsewhere, or can never be sent; an entry that replaced it meanwhile stays. */
  readonly said: (entry: Spooled) => void;
  /**
   * Sends what waits, after a relist: acts first, facts last. `isThere`, by the uid of the object: an act for a pod that is being
   * deleted (false) is dropped; for one that is in no list (null), the server is asked first whether it is on this node. Nothing
   * is sent before the first call.
   */
  readonly flush: (isThere: IsThere) => void;
  /** Its end was accepted after all. */
  readonly heard: (uid: PodUid) => void;
  readonly waiting: () => { readonly acts: number; readonly facts: number };
  /** Resolves when everything put so far is on the disk, or when the disk refuses. */
  readonly saved: () => Promise<void>;
  readonly close: () => Promise<void>;
};
type IsThere = (uid: PodUid) => boolean | null;
type SpoolNeeds = {
  readonly clock: Clock;
  /** Created if missing. */
  readonly directory: string;
  /** On tmpfs: the acts that the disk does not have yet, so that an agent that is killed loses none. */
  readonly unsavedPath: string;
  readonly bootId: string;
  readonly writes: Pick<ApiWrites, 'whyNotHere' | 'deletePod' | 'rehearseDelete' | 'markDisruption' | 'createEvent'>;
  /** C5: it has been ready again for long enough that ending it now would be a second disruption. Null: not known now. */
  readonly hasRecovered: (uid: PodUid, sinceMs: MonoMs) => boolean | null;
  readonly isUp: () => boolean;
  readonly findings: Pick<Findings, 'raise' | 'clear'>;
  readonly log: Pick<Log, 'info' | 'warn'>;
  /** The result of an act belongs to its decision, whichever run made that. */
  readonly note: (rung: Extract<RecordNote, { kind: 'rung' }>) => void;
};
type Act = Extract<Spooled, { kind: 'delete' }>;

/** C5. */
export const ENTRIES_MAX = 10_000;
const ACT_MAX_AGE_MS = 300_000;
/** C7: five writes a second. */
const PACE_MS = 200;
/** For messages that got no answer although the connection is up, and for a disk that refuses. */
const AGAIN_MS = 10_000;
/** How many obsolete lines the file may contain. */
const DEAD_LINES_MAX = 1_000;
const NAME = 'spool.jsonl';

/** Why an act is not sent any more. `isEnding`: what that says about the end of its pod; null: nothing. */
type Moot = { readonly answer: string; readonly isEnding: boolean | null };
const TOO_LATE: Moot = { answer: 'it could not be sent in time', isEnding: null };
const ENDING: Moot = { answer: 'the API server shows the pod as being deleted', isEnding: true };
const GONE = 'the API server shows the pod as gone';
const RECOVERED: Moot = { answer: 'the pod had run again, ready, for a minute', isEnding: false };

export function openSpool(needs: SpoolNeeds): Spool {
  const { clock, directory, writes, findings, log, note } = needs;
  const path = `${directory}/${NAME}`;
  const made = ensureDirectory(directory, 0o750);
  if (!made.known) findings.raise(spoolNotSaved(made.where, made.detail));
  const found = readSpool(path);
  const unsaved = new Map(readSpool(needs.unsavedPath).entries);
  const entries = new Map([...found.entries, ...unsaved]);
  /** Who wants to know what becomes of an act, by key. */
  const askers = new Map<string, EndKnown>();
  let lines = found.lines;
  /** The file does not match `entries`, and is written as a whole. */
  const isDamaged = found.badLines > 0 || found.unreadable !== null;
  let isStale = isDamaged || unsaved.size > 0;
  if (isDamaged) findings.raise(spoolDamaged(path, found.badLines, keepAside(path, clock)));
  let pending = '';
  let saving: Promise<void> | null = null;
  let isClosed = false;
  let dropped = 0;
  let isThere: IsThere | null = null;
  let flushing: Promise<void> | null = null;
  let cancel = (): void => undefined;
  let cancelRetry = (): void => undefined;

  const disk = openRecordDisk({
    clock,
    directory,
    name: NAME,
    lineStart: SPOOL_LINE_START,
    // It grows until it is rewritten, and is never rotated.
    maxBytes: Number.POSITIVE_INFINITY,
    onCorrupt: (keptAs, line) => {
      isStale = true;
      findings.raise(spoolDamaged(path, line, `was kept as ${keptAs}`));
    },
    onRestored: () => undefined,
  });

  const writeUnsaved = (): void => {
    const text = [...unsaved.values()].map(sayEntry).join('');
    const written = writeAtomic(needs.unsavedPath, text, 0o640, 'boot');
    if (!written.known) findings.raise(spoolNotSaved(written.where, written.detail));
  };
  const rewrite = async (): Promise<boolean> => {
    await disk.close();
    const all = [...entries.values()];
    pending = '';
    lines = all.length;
    const written = await writeBeside(path, all.map(sayEntry).join(''), 0o640);
    disk.reopen();
    if (!written.known) findings.raise(spoolNotSaved(written.where, written.detail));
    return written.known;
  };
  const append = async (): Promise<boolean> => {
    const text = pending;
    pending = '';
    const written = await disk.append(text);
    if (!written.known) findings.raise(spoolNotSaved(written.where, written.detail));
    return written.known;
  };
  const pump = async (): Promise<void> => {
    do {
      const isWhole = isStale || lines - entries.size > DEAD_LINES_MAX;
      isStale = false;
      const isSaved = isWhole ? await rewrite() : await append();
      if (!isSaved) {
        isStale = true;
        cancelRetry();
        if (!isClosed) cancelRetry = clock.after(AGAIN_MS, () => (saving ??= pump()));
        break;
      }
      findings.clear(SPOOL);
    } while (pending !== '' || isStale);
    if (!isStale && unsaved.size > 0) {
      unsaved.clear();
      writeUnsaved();
    }
    saving = null;
  };
  const save = (text: string): void => {
    pending += text;
    lines++;
    saving ??= pump();
  };

  const remove = (key: string): void => {
    askers.delete(key);
    if (unsaved.delete(key)) writeUnsaved();
    if (entries.delete(key)) save(sayDone(key));
  };
  const endIs = (isEnding: boolean, uid: PodUid): void => askers.get(keyOfAct(uid))?.(isEnding);
  /** Removes this entry, but not one that replaced it meanwhile. */
  const settled = (entry: Spooled): void => {
    const key = keyOf(entry);
    if (entries.get(key) === entry) remove(key);
  };
  const tell = ({ decision }: Act, rung: Rung): void => note({ kind: 'rung', of: decision, ...rung });
  const withdraw = (entry: Act, { answer, isEnding }: Moot): void => {
    if (isEnding !== null) endIs(isEnding, entry.victim.uid);
    remove(keyOf(entry));
    // The decisions of another boot have the same numbers.
    if (entry.bootId === needs.bootId) tell(entry, { atMs: clock.monoMs(), act: 'withdraw', answer });
  };
  const whyNot = ({ victim, madeAtMs, bootId }: Act): Moot | null => {
    const ageMs = clock.monoMs() - madeAtMs;
    if (bootId !== needs.bootId || ageMs > ACT_MAX_AGE_MS || ageMs < 0) return TOO_LATE;
    if (isThere === null) return null;
    if (isThere(victim.uid) === false) return ENDING;
    return needs.hasRecovered(victim.uid, madeAtMs) ? RECOVERED : null;
  };
  const expire = (): void => {
    for (const entry of entries.values()) {
      if (entry.kind !== 'delete') continue;
      const moot = whyNot(entry);
      if (moot !== null) withdraw(entry, moot);
    }
  };
  const bound = (): void => {
    while (entries.size > ENTRIES_MAX) {
      const [oldest] = entries.keys();
      const fact = [...entries].find(([, { kind }]) => kind === 'event')?.[0] ?? oldest;
      if (fact !== undefined) remove(fact);
      findings.raise(spoolFull(++dropped, ENTRIES_MAX));
    }
  };

  /** How long to wait before the next message; null: no more now; the rest waits for the next relist, or a while. */
  const after = (failed: NotDone | null, entry: Spooled, blocked: Set<Spooled['kind']>): number | null => {
    const key = keyOf(entry);
    reportWrite(findings, entry.kind === 'delete' ? 'delete pods' : rightFor(entry.event), failed);
    switch (failed?.kind) {
      case undefined:
        settled(entry);
        return PACE_MS;
      case 'rejected':
        settled(entry);
        log.warn(
          { event: 'api-away', key, said: failed.text },
          `the API server refuses a queued message for good: ${key}`,
        );
        return PACE_MS;
      case 'forbidden':
        blocked.add(entry.kind);
        return PACE_MS;
      case 'overload':
        return Math.max(PACE_MS, failed.retryAfterMs ?? AGAIN_MS);
      case 'not-our-node':
      case 'unheard':
        return null;
    }
  };
  const say = async (entry: Spooled, blocked: Set<Spooled['kind']>): Promise<number | null> => {
    if (entry.kind === 'event') {
      const said = await writes.createEvent(entry.event);
      return after(said.kind === 'done' ? null : said, entry, blocked);
    }
    const act = entry;
    const { victim, graceSeconds, why, message } = act;
    const elsewhere = isThere?.(victim.uid) ? null : await writes.whyNotHere(victim);
    if (elsewhere?.kind === 'rejected') {
      if (entries.get(keyOf(act)) === act) withdraw(act, { answer: elsewhere.text, isEnding: null });
      return PACE_MS;
    }
    const rehearsed = elsewhere ?? (await writes.rehearseDelete(victim, graceSeconds));
    // The first request was answered meanwhile.
    if (!entries.has(keyOf(act))) return PACE_MS;
    const isOpen = rehearsed.kind === 'accepted' || rehearsed.kind === 'rejected';
    const ended = isOpen ? await markAndDelete() : rehearsed;
    const isGone = ended.kind === 'gone' || ended.kind === 'replaced';
    if (!isOpen && isGone) tell(act, { atMs: clock.monoMs(), act: 'withdraw', answer: GONE });
    const isDone = ended.kind === 'accepted' || isGone;
    if (isDone && entries.get(keyOf(act)) === act) endIs(true, victim.uid);
    const waitMs = after(isDone ? null : ended, entry, blocked);
    return waitMs === null ? null : waitMs + 2 * PACE_MS;

    /** A16, C6: sends the mark only together with a DELETE that can succeed, which does not wait for it. */
    async function markAndDelete(): Promise<DeleteAnswer> {
      const marked = writes.markDisruption(victim, why, message);
      const sent = { atMs: clock.monoMs(), act: 'delete' } as const;
      tell(act, { ...sent, answer: UNANSWERED });
      const deleted = await writes.deletePod(victim, graceSeconds, ACT_MS.soft);
      const said = saidOf(deleted);
      tell(act, { ...sent, answer: said.text, ...acceptedBy(said) });
      await marked;
      return deleted;
    }
  };
  const next = (blocked: ReadonlySet<Spooled['kind']>): Spooled | null => {
    expire();
    const mayBeWell = (entry: Spooled): boolean =>
      entry.kind === 'delete' && needs.hasRecovered(entry.victim.uid, entry.madeAtMs) === null;
    const open = [...entries.values()].filter((entry) => !blocked.has(entry.kind) && !mayBeWell(entry));
    return open.find(({ kind }) => kind === 'delete') ?? open[0] ?? null;
  };
  const run = async (): Promise<void> => {
    const blocked = new Set<Spooled['kind']>();
    for (let at = next(blocked); at !== null && !isClosed; at = next(blocked)) {
      const waitMs = await say(at, blocked);
      if (waitMs === null) break;
      await pause(waitMs);
    }
  };
  let wake = (): void => undefined;
  const pause = (ms: number): Promise<void> =>
    new Promise((resolve) => {
      const stop = clock.after(ms, resolve);
      wake = () => {
        stop();
        resolve();
      };
    });
  const start = (): void => {
    cancel();
    if (isThere === null || isClosed) return;
    flushing ??= run()
      // Nothing here should reject; if it does, that is a bug, which must not end the agent.
      .catch((error: unknown) => log.warn({ event: 'api-away' }, `the spool stopped: ${sayCause(error)}`))
      .then(() => {
        flushing = null;
        later();
      });
  };
  const later = (): void => {
    cancel();
    if (isClosed || entries.size === 0) return;
    cancel = clock.after(AGAIN_MS, () => (needs.isUp() ? start() : later()));
  };

  expire();
  if (isStale) saving ??= pump();
  return {
    put: (entry, endKnown) => {
      mustBeSpooled(entry);
      const key = keyOf(entry);
      askers.delete(key);
      if (endKnown !== undefined) askers.set(key, endKnown);
      entries.delete(key);
      entries.set(key, entry);
      if (entry.kind === 'delete') {
        unsaved.set(key, entry);
        writeUnsaved();
      }
      save(sayEntry(entry));
      bound();
      if (flushing === null) later();
    },
    flush: (present) => {
      isThere = present;
      start();
    },
    said: settled,
    heard: (uid) => {
      endIs(true, uid);
      remove(keyOfAct(uid));
    },
    waiting: () => {
      const acts = [...entries.values()].filter(({ kind }) => kind === 'delete').length;
      return { acts, facts: entries.size - acts };
    },
    saved: async () => {
      await saving;
    },
    close: async () => {
      isClosed = true;
      cancel();
      cancelRetry();
      wake();
      await flushing;
      await saving;
      await disk.close();
    },
  };
}
