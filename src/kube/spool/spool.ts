import type { Rung } from '../../core/outcome.ts';
import type { PodUid } from '../../core/pod/pod.ts';
import { type MonoMs, sayCause } from '../../core/reading.ts';
import { ensureDirectory, writeAtomic, writeBeside } from '../../host/files.ts';
import { keepAside } from '../../host/own/own-file.ts';
import { openRecordDisk } from '../../host/own/record-disk.ts';
import type { Clock, Findings, Log, RecordNote } from '../../ports.ts';
import { SPOOL, spoolDamaged, spoolFull, spoolNotSaved } from '../../words/finding-writes.ts';
import { ACT_MS, type ApiWrites } from '../api/api-writes.ts';
import type { DeleteAnswer } from '../api/eviction.ts';
import { type NotDone, reportWrite } from '../api/write-failure.ts';
import { acceptedBy, type EndKnown, UNANSWERED } from '../stop/ladder.ts';
import { saidOf, tellRight } from '../stop/stop-through-api.ts';
import { rightFor } from './events.ts';
import { createLostEvents } from './lost-events.ts';
import { ENDING, GONE, type Moot, OF_ANOTHER_NODE, OVER, RECOVERED, REPLACED, TOO_LATE } from './moot-act.ts';
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
import { AGAIN, createSpoolTurns } from './spool-turns.ts';

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
  readonly writes: Pick<
    ApiWrites,
    'whyNotHere' | 'deletePod' | 'rehearseDelete' | 'markDisruption' | 'createEvent' | 'provenNodeUid'
  >;
  /** C5: it has been ready again for long enough that ending it now would be a second disruption. Null: not known now. */
  readonly hasRecovered: (uid: PodUid, sinceMs: MonoMs) => boolean | null;
  /** The API shows that its containers have ended. */
  readonly isOver: (uid: PodUid) => boolean;
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
const SAVE_AGAIN_MS = 10_000;
/** How many obsolete lines the file may contain. */
const DEAD_LINES_MAX = 1_000;
const NAME = 'spool.jsonl';

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
  const turns = createSpoolTurns(clock);
  const lostEvents = createLostEvents(findings);
  let timer: { readonly atMs: MonoMs; readonly cancel: () => void } | null = null;
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
        if (!isClosed) cancelRetry = clock.after(SAVE_AGAIN_MS, () => (saving ??= pump()));
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
  const tellWithdrawn = (entry: Act, answer: string): void => {
    // The decisions of another boot have the same numbers.
    if (entry.bootId === needs.bootId) tell(entry, { atMs: clock.monoMs(), act: 'withdraw', answer });
  };
  const withdraw = (entry: Act, { answer, isEnding }: Moot): void => {
    if (isEnding !== null) endIs(isEnding, entry.victim.uid);
    remove(keyOf(entry));
    tellWithdrawn(entry, answer);
  };
  const whyNot = ({ victim, madeAtMs, bootId }: Act): Moot | null => {
    const ageMs = clock.monoMs() - madeAtMs;
    if (bootId !== needs.bootId || ageMs > ACT_MAX_AGE_MS || ageMs < 0) return TOO_LATE;
    if (isThere === null) return null;
    if (isThere(victim.uid) === false) return ENDING;
    if (needs.isOver(victim.uid)) return OVER;
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

  const after = (failed: NotDone | null, entry: Spooled): void => {
    reportWrite(findings, entry.kind === 'delete' ? 'delete pods' : rightFor(entry.event), failed);
    if (failed !== null && failed.kind !== 'rejected') {
      turns.failed(entry, failed.kind === 'overload' ? failed.retryAfterMs : null);
      return;
    }
    turns.answered(entry);
    settled(entry);
    if (failed === null) return void lostEvents.received(entry);
    const key = keyOf(entry);
    log.warn({ event: 'api-away', key, said: failed.text }, `the API server refuses a queued message for good: ${key}`);
  };
  /** It is about a node that this server does not have. */
  const drop = (entry: Spooled): void => {
    if (entries.get(keyOf(entry)) !== entry) return;
    if (entry.kind === 'delete') withdraw(entry, OF_ANOTHER_NODE);
    else {
      remove(keyOf(entry));
      lostEvents.lost();
    }
  };
  /** How long to wait before the next message. */
  const say = async (entry: Spooled): Promise<number> => {
    if (entry.nodeUid !== undefined) {
      const node = await writes.provenNodeUid();
      if (typeof node === 'object') {
        after(node, entry);
        return PACE_MS;
      }
      if (node !== entry.nodeUid) {
        drop(entry);
        return 0;
      }
    }
    if (entry.kind === 'event') {
      const said = await writes.createEvent(entry.event);
      after(said.kind === 'done' ? null : said, entry);
      return PACE_MS;
    }
    const act = entry;
    const { victim, graceSeconds, why, message } = act;
    const elsewhere = isThere?.(victim.uid) ? null : await writes.whyNotHere(victim);
    if (elsewhere?.kind === 'rejected') return notSent({ answer: elsewhere.text, isEnding: null });
    const rehearsed = elsewhere ?? (await writes.rehearseDelete(victim, graceSeconds));
    // The first request was answered meanwhile.
    if (!entries.has(keyOf(act))) return PACE_MS;
    if (rehearsed.kind === 'over') return notSent(OVER);
    const isOpen = rehearsed.kind === 'accepted' || rehearsed.kind === 'rejected';
    // The watch may have told of it meanwhile.
    const moot = isOpen ? whyNot(act) : null;
    if (moot !== null) return notSent(moot);
    const ended = isOpen ? await markAndDelete() : rehearsed;
    const isGone = ended.kind === 'gone' || ended.kind === 'replaced';
    if (!isOpen && isGone) tell(act, { atMs: clock.monoMs(), act: 'withdraw', answer: GONE });
    const isDone = ended.kind === 'accepted' || isGone;
    if (isDone && entries.get(keyOf(act)) === act) endIs(true, victim.uid);
    after(isDone ? null : ended, entry);
    return 3 * PACE_MS;

    function notSent(moot: Moot): number {
      if (entries.get(keyOf(act)) === act) withdraw(act, moot);
      return PACE_MS;
    }

    /** A16, C6: sends the mark only together with a DELETE that can succeed, which does not wait for it. */
    async function markAndDelete(): Promise<DeleteAnswer> {
      const marked = writes.markDisruption(victim, why, message);
      const sent = { atMs: clock.monoMs(), act: 'delete' } as const;
      tell(act, { ...sent, answer: UNANSWERED });
      const deleted = await writes.deletePod(victim, graceSeconds, ACT_MS.soft);
      const said = saidOf(deleted);
      tell(act, { ...sent, answer: said.text, ...acceptedBy(said) });
      tellRight(findings, 'patch pods/status', await marked);
      return deleted;
    }
  };
  /** Without those of pods that may be well again. */
  const open = (): readonly Spooled[] => {
    const mayBeWell = (entry: Spooled): boolean =>
      entry.kind === 'delete' && needs.hasRecovered(entry.victim.uid, entry.madeAtMs) === null;
    return [...entries.values()].filter((entry) => !mayBeWell(entry));
  };
  const next = (): Spooled | null => {
    expire();
    return turns.next(open());
  };
  const run = async (): Promise<void> => {
    for (let at = next(); at !== null && !isClosed; at = next()) await pause(await say(at));
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
  const cancel = (): void => {
    timer?.cancel();
    timer = null;
  };
  const start = (): void => {
    cancel();
    if (isThere === null || isClosed) return;
    flushing ??= run()
      // Nothing here should reject; if it does, that is a bug, which must not end the agent.
      .catch((error: unknown) => log.warn({ event: 'api-away' }, `the spool stopped: ${sayCause(error)}`))
      .then(() => {
        flushing = null;
        wakeInTime();
      });
  };
  /** Never later than was intended before. */
  const wakeIn = (ms: number): void => {
    const atMs = clock.monoMs() + ms;
    if (isClosed || (timer !== null && timer.atMs <= atMs)) return;
    cancel();
    const stop = clock.after(ms, () => {
      timer = null;
      if (needs.isUp()) start();
      else wakeIn(AGAIN.firstMs);
    });
    timer = { atMs, cancel: stop };
  };
  /** For the next message that becomes due. What is held back or expires is looked at anyway. */
  const wakeInTime = (): void => {
    if (entries.size === 0) return;
    const dueMs = open().reduce((least, entry) => Math.min(least, turns.dueMs(entry)), Number.POSITIVE_INFINITY);
    wakeIn(Math.min(AGAIN.mostMs, Math.max(PACE_MS, dueMs - clock.monoMs())));
  };

  expire();
  if (isStale) saving ??= pump();
  return {
    put: (entry, endKnown) => {
      mustBeSpooled(entry);
      const key = keyOf(entry);
      const before = entries.get(key);
      const isOfAnother = before?.kind === 'delete' && entry.kind === 'delete' && before.decision !== entry.decision;
      if (isOfAnother) tellWithdrawn(before, REPLACED);
      askers.delete(key);
      if (endKnown !== undefined) askers.set(key, endKnown);
      entries.delete(key);
      entries.set(key, entry);
      turns.put(entry, before);
      if (entry.kind === 'delete') {
        unsaved.set(key, entry);
        writeUnsaved();
      }
      save(sayEntry(entry));
      bound();
      if (flushing === null) wakeIn(Math.max(0, turns.dueMs(entry) - clock.monoMs()));
    },
    flush: (present) => {
      isThere = present;
      turns.relisted(entries.values());
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
