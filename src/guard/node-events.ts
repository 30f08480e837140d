import type { GateRow, GuardDecision, GuardReason } from '../core/guard/decision.ts';
import type { ActResult } from '../core/guard/observation.ts';
import type { FencingRecord, NodeRef, Phase } from '../core/guard/record.ts';
import type { MonoMs } from '../core/reading.ts';
import { eventName } from '../kube/spool/events.ts';
import type { Clock } from '../ports.ts';
import {
  EVENT_TYPES,
  type GuardEventReason,
  sayBack,
  sayDecided,
  sayFailed,
  sayFreed,
  sayHeld,
  sayLife,
  sayProven,
} from '../words/guard-event.ts';
import type { GuardWrites, NodeEvent } from './api-writes.ts';

export type NodeEvents = {
  readonly held: (hold: Extract<GuardDecision, { kind: 'hold' }>) => void;
  /** A decision that is stored, when its act is over. `reasons`: of its verdict. */
  readonly stored: (decision: GuardDecision, act: ActResult | null, reasons: readonly GuardReason[]) => void;
  readonly reasoned: (reason: GuardReason) => void;
};
export type EventNeeds = {
  readonly clock: Clock;
  readonly writes: Pick<GuardWrites, 'createEvent'>;
  /** Asked right before each write. */
  readonly mayAct: () => boolean;
  readonly failed: (node: string, detail: string) => void;
};

/** A hold is said once in so long for the same reason, and so many are in all: in a storm there are thousands. */
const HELD_AGAIN_MS = 600_000;
const MOST_HELD = 50;
const MOST_WAITING = 200;

/** Tells what became of a node in events on it, in the background. They say; nothing depends on them. */
export function createNodeEvents({ clock, writes, mayAct, failed }: EventNeeds): NodeEvents {
  const queue: NodeEvent[] = [];
  let held = new Map<string, MonoMs>();
  let isSending = false;

  const send = async (): Promise<void> => {
    if (isSending) return;
    isSending = true;
    for (let event = queue.shift(); event !== undefined; event = queue.shift()) {
      const { node } = event;
      const written = mayAct()
        ? await writes.createEvent(event).catch((cause: unknown) => ({ kind: 'failed' as const, detail: `${cause}` }))
        : null;
      if (written !== null && written.kind !== 'done') failed(node, written.detail);
    }
    isSending = false;
  };
  /** `once`: names it, so that told again, by a successor, it is the same event. */
  const put = ({ name: node }: NodeRef, reason: GuardEventReason, once: string, message: string): void => {
    if (!mayAct() || queue.length >= MOST_WAITING) return;
    const name = eventName(node, reason, once);
    queue.push({ name, node, reason, type: EVENT_TYPES[reason], message, wallMs: clock.wallMs() });
    void send();
  };

  const hold = (node: NodeRef, row: GateRow): void => {
    const nowMs = clock.monoMs();
    const key = `${node.uid} ${row.gate} ${row.because}`;
    const isRecent = (atMs: MonoMs | undefined): boolean => atMs !== undefined && nowMs - atMs < HELD_AGAIN_MS;
    if (isRecent(held.get(key))) return;
    held = new Map([...held].filter(([, atMs]) => isRecent(atMs)));
    if (held.size >= MOST_HELD) return;
    held.set(key, nowMs);
    const once = `${row.gate}-${row.because}-${Math.floor(clock.wallMs() / HELD_AGAIN_MS)}`;
    put(node, row.gate === 'storm' ? 'StormHeld' : 'FencingHeld', once, sayHeld(row));
  };
  const tell = (record: FencingRecord, reason: GuardEventReason, message: string): void =>
    put(record.node, reason, `${record.id}-${record.revision}`, message);

  return {
    held: ({ node, gates }) => {
      const closed = gates.find(({ isOpen }) => !isOpen);
      if (closed !== undefined) hold(node, closed);
    },
    stored: (decision, act, reasons) => {
      if (!('record' in decision)) return;
      const { record } = decision;
      const { id, phase } = record;
      if (decision.kind === 'fence') return tell(record, 'FencingDecided', sayDecided(record, decision.frees));
      if (decision.from === phase) return;
      if (phase === 'failed' || phase === 'stuck') return tell(record, 'FencingFailed', sayFailed(record));
      if (phase === 'proven') return tell(record, 'PowerOffProven', sayProven(record));
      if (isFreed(record, decision.from, reasons) && act?.kind === 'patched') {
        return tell(record, 'NodeFreed', sayFreed(id));
      }
      if (isBack(decision)) return tell(record, 'NodeBack', sayBack(id));
    },
    reasoned: (reason) => {
      if (reason.code === 'life-after-proof') {
        put(reason.node, 'LifeAfterProof', `${reason.fencing}-${reason.sign}`, sayLife(reason.fencing, reason.sign));
      }
    },
  };
}

/** Its node is there with another boot: without a node nothing is cleared, and the same boot says why. */
function isBack({ act, from, record: { phase, purpose, offSent, why } }: Moved): boolean {
  if (phase !== 'closed' || purpose !== 'fence' || from === 'aborted' || offSent.length === 0) return false;
  return act?.kind === 'clear' && !SAME_BOOT.includes(why);
}
type Moved = Extract<GuardDecision, { from: Phase }>;
const SAME_BOOT: readonly (string | null)[] = ['alive', 'life-after-proof'];

/** The taint goes also for other reasons: life, a person, or because it took too long. */
function isFreed({ id, phase, isAlive, why }: FencingRecord, from: Phase, reasons: readonly GuardReason[]): boolean {
  if (from !== 'tainted' || phase !== 'untainting' || isAlive || why === 'power-on') return false;
  return !reasons.some((reason) => reason.code === 'not-drained' && reason.fencing === id);
}
