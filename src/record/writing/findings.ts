import type { MonoMs } from '../../core/reading.ts';
import type { Clock, Finding, Findings, Log, Recorder, RecordNote } from '../../ports.ts';
import { tooManyFindings } from '../../words/finding-own.ts';
import { sayToSecond } from '../../words/phrases.ts';

type FindingsNeeds = { readonly clock: Clock; readonly log: Log };
export type OpenFindings = Findings & {
  /** Sets where findings are recorded, including those raised so far: some are raised before the record is open. */
  readonly recordIn: (recorder: Pick<Recorder, 'note'>) => void;
  readonly close: () => void;
};

/** Ids may name pods, which tenants create. Beyond this number, one finding says that there are more. */
const FINDINGS_MAX = 500;
const TOO_MANY = tooManyFindings(FINDINGS_MAX);
/** A finding that returns within this time is flapping: from then on, one line per interval says how often. */
const PACE_MS = 60_000;

/** A finding that was cleared a moment ago, and perhaps raised and cleared again since. */
type Episode = {
  finding: Finding;
  readonly sinceMs: MonoMs;
  /** How often it was raised, including the first time. */
  times: number;
  /** Its first return was reported. */
  isReturnReported: boolean;
  /** Changes that no log line has reported. */
  unreported: number;
  cancel: () => void;
};

/**
 * A finding is logged and recorded once when it is raised and logged once when it is cleared; a new text silently replaces
 * the old one. A flapping finding does not fill the journal: `all` follows each change, the log sums them up.
 */
export function createFindings({ clock, log }: FindingsNeeds): OpenFindings {
  const present = new Map<string, Finding>();
  const episodes = new Map<string, Episode>();
  const early: RecordNote[] = [];
  let record: Recorder['note'] = (note) => early.push(note);

  const sumUp = (episode: Episode): void => {
    if (episode.unreported === 0) return;
    episode.unreported = 0;
    const { finding, times, sinceMs } = episode;
    const span = sayToSecond(clock.monoMs() - sinceMs);
    const how = `raised ${times} times in ${span}`;
    if (present.has(finding.id)) {
      log.warn({ event: 'finding', finding: finding.id, times }, `still present (${how}): ${finding.text}`);
    } else {
      log.info({ event: 'finding', finding: finding.id, cleared: true, times }, `resolved (${how}): ${finding.text}`);
    }
  };
  const watch = (episode: Episode): void => {
    episode.cancel = clock.after(PACE_MS, () => {
      const isQuiet = episode.unreported === 0;
      sumUp(episode);
      if (isQuiet) episodes.delete(episode.finding.id);
      else watch(episode);
    });
  };
  const came = (finding: Finding): void => {
    const episode = episodes.get(finding.id);
    if (episode === undefined) {
      log.warn({ event: 'finding', finding: finding.id }, finding.text);
      record({ kind: 'finding', atMs: clock.monoMs(), finding });
      return;
    }
    episode.finding = finding;
    episode.times++;
    if (episode.isReturnReported) episode.unreported++;
    else log.warn({ event: 'finding', finding: finding.id }, `recurred: ${finding.text}`);
    episode.isReturnReported = true;
  };
  const went = (finding: Finding): void => {
    const known = episodes.get(finding.id);
    if (known !== undefined) {
      known.unreported++;
      return;
    }
    log.info({ event: 'finding', finding: finding.id, cleared: true }, `resolved: ${finding.text}`);
    if (episodes.size >= FINDINGS_MAX) return;
    const cancel = (): void => {};
    const episode: Episode = {
      finding,
      sinceMs: clock.monoMs(),
      times: 1,
      isReturnReported: false,
      unreported: 0,
      cancel,
    };
    episodes.set(finding.id, episode);
    watch(episode);
  };
  const raise = (finding: Finding): void => {
    const isNew = !present.has(finding.id);
    if (isNew && present.size >= FINDINGS_MAX && finding.id !== TOO_MANY.id) {
      raise(TOO_MANY);
      return;
    }
    present.set(finding.id, finding);
    if (isNew) came(finding);
  };
  const clear = (id: string): void => {
    const finding = present.get(id);
    if (finding === undefined) return;
    present.delete(id);
    went(finding);
    if (present.size <= FINDINGS_MAX / 2) clear(TOO_MANY.id);
  };
  return {
    raise,
    clear,
    all: () => [...present.values()],
    recordIn: ({ note }) => {
      record = note;
      for (const one of early.splice(0)) note(one);
    },
    close: () => {
      for (const episode of episodes.values()) {
        episode.cancel();
        sumUp(episode);
      }
      episodes.clear();
    },
  };
}
