import { failureOf, inputOf } from '../act/operator-command.ts';
import type { Effective } from '../config/effective.ts';
import type { Decision, DecisionId } from '../core/decision.ts';
import type { Outcome } from '../core/outcome.ts';
import { escapeUnsafe } from '../core/units/escape.ts';
import { type CommandRunner, TELLING_MAX_BYTES } from '../host/systemd/transient.ts';
import type { Clock, Finding, Findings } from '../ports.ts';
import type { RecordEntry } from '../record/entry.ts';
import { sayDecision, sayOutcome } from '../words/decision.ts';
import { NOT_ARMED, NOTIFY, notifyFailed } from '../words/finding-own.ts';

type Evict = Extract<Decision, { kind: 'evict' | 'evict-over-limit' }>;
/** What the command gets on standard input, as one line of JSON (docs/json.md). */
type Notice = {
  readonly schema: 1;
  readonly event: 'evicted' | 'not-armed' | 'finding';
  readonly node: string;
  readonly atWallMs: number;
  readonly text: string;
  /** How many before this one were not sent. */
  readonly dropped: number;
  /** As in the record, but without the ranking, which may name a thousand pods. */
  readonly decision?: Omit<Evict, 'ranking'>;
  readonly outcome?: Outcome;
  readonly finding?: Finding;
};
type Event = Omit<Notice, 'dropped'>;

/** What the notifier needs from the current parts. */
type Context = {
  /** Null: no notifications, as in a dry run. */
  readonly configured: () => Effective['notify'];
  readonly findings: Pick<Findings, 'raise' | 'clear'>;
  /** Also from an earlier run, as long as it is in progress. */
  readonly decisionOf: (of: DecisionId) => Decision | null;
};
export type Notifier = {
  /** Takes every entry of the record; those that are events are sent later. Never waits. */
  readonly seen: (entry: RecordEntry) => void;
  /** Null: events wait, between two configurations. */
  readonly follow: (context: Context | null) => void;
  readonly close: () => void;
};

const QUEUE_MAX = 20;
const BEGUN_MAX = 100;
const APART_MS = 1_000;

/** Runs the operator's `notify` command for one event after another, at most once a second. */
export function createNotifier(needs: {
  readonly clock: Clock;
  readonly run: CommandRunner;
  readonly node: string;
}): Notifier {
  const { clock, run, node } = needs;
  const queue: Event[] = [];
  /** Evictions in progress, and those whose end may be told yet. The recorder knows the decisions of an earlier run. */
  const begun = new Map<DecisionId, Evict>();
  let context: Context | null = null;
  let dropped = 0;
  let isBusy = false;
  let cancel = (): void => {};

  const next = (): void => {
    if (isBusy || context === null) return;
    const configured = context.configured();
    const event = queue.shift();
    if (configured === null) queue.length = 0;
    if (configured === null || event === undefined) return;
    isBusy = true;
    const beganMs = clock.monoMs();
    void send(configured, event).then(() => {
      cancel = clock.after(Math.max(0, beganMs + APART_MS - clock.monoMs()), () => {
        isBusy = false;
        next();
      });
    });
  };

  async function send({ command, timeoutMs }: NonNullable<Effective['notify']>, event: Event): Promise<void> {
    const notice: Notice = { ...event, dropped };
    dropped = 0;
    const failure = failureOf(
      await run({
        ...{ argv: command, timeoutMs, stdin: inputOf(notice), maxMemoryBytes: TELLING_MAX_BYTES },
        waitsForBus: true,
      }),
    );
    if (failure === null) context?.findings.clear(NOTIFY);
    else context?.findings.raise(notifyFailed(failure));
  }

  const eventOf = (entry: RecordEntry): Event | null => {
    const said = (event: Event['event'], text: string) =>
      ({ schema: 1, event, node, atWallMs: entry.atWallMs, text: escapeUnsafe(text) }) as const;
    if (entry.kind === 'note' && entry.note.kind === 'finding') {
      const { finding } = entry.note;
      // The command cannot report its own failure.
      if (finding.id === NOTIFY) return null;
      return { ...said(finding.id === NOT_ARMED ? 'not-armed' : 'finding', finding.text), finding };
    }
    if (entry.kind !== 'outcome' || entry.outcome.kind !== 'ended') return null;
    const { outcome } = entry;
    const decision = evictionOf(outcome.of);
    if (decision === null) return null;
    const { ranking: _, ...rest } = { ranking: null, ...decision };
    return {
      ...said('evicted', `${sayDecision(decision)}; ${sayOutcome(outcome, null, decision)}`),
      decision: rest,
      outcome,
    };
  };

  return {
    seen: (entry) => {
      if (entry.kind === 'decision' && isEvict(entry.decision)) keep(entry.decision);
      tell(entry);
      if (entry.kind === 'outcome') over(entry.outcome);
    },
    follow: (now) => {
      context = now;
      next();
    },
    close: () => cancel(),
  };

  function over({ of, kind }: Outcome): void {
    // It may become known, or end later.
    const decision = kind === 'unknown' || kind === 'survived' ? evictionOf(of) : null;
    if (decision === null) begun.delete(of);
    else keep(decision);
  }

  /** Without the ranking, which may name a thousand pods; and not for ever, because of a survivor nobody may hear again. */
  function keep(decision: Evict): void {
    begun.delete(decision.id);
    begun.set(decision.id, decision.kind === 'evict' ? { ...decision, ranking: [] } : decision);
    const [oldest = decision.id] = begun.keys();
    if (begun.size > BEGUN_MAX) begun.delete(oldest);
  }

  function evictionOf(of: DecisionId): Evict | null {
    const decision = begun.get(of) ?? context?.decisionOf(of) ?? null;
    return decision !== null && isEvict(decision) ? decision : null;
  }

  function tell(entry: RecordEntry): void {
    const configured = context?.configured() ?? null;
    if (configured === null) return;
    const event = eventOf(entry);
    if (event === null || !configured.on.includes(event.event)) return;
    if (queue.length >= QUEUE_MAX) dropped++;
    else queue.push(event);
    // Not in the turn of the event loop that records, because a kill may be in progress.
    clock.after(0, next);
  }
}

const isEvict = (decision: Decision): decision is Evict =>
  decision.kind === 'evict' || decision.kind === 'evict-over-limit';
