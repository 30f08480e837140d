import type { GuardEffective } from '../config/guard/effective.ts';
import { methodFor } from '../config/guard/method.ts';
import type { Act, GuardDecision, GuardReason, GuardVerdict, OrderAnswer, Store } from '../core/guard/decision.ts';
import { MARK } from '../core/guard/node-facts.ts';
import type { ActResult, DeviceAnswer, GuardObservation, GuardOutcome } from '../core/guard/observation.ts';
import type { FencingId, NodeRef, StoredRecord } from '../core/guard/record.ts';
import { isAdopted, LEAST_AUTHORITY_MS } from '../core/guard/self.ts';
import { type MonoMs, sayCause } from '../core/reading.ts';
import { sleep } from '../host/clock.ts';
import type { ApiGet, GuardSend } from '../kube/api/connection.ts';
import type { Clock } from '../ports.ts';
import { sayNotNow } from '../words/guard-effects.ts';
import type { Agents } from './agents.ts';
import { createGuardWrites, type GuardWrites } from './api-writes.ts';
import { createDevices } from './devices.ts';
import { createKeeper, GUARD_DEVICES, GUARD_STATE, type Keeper, type KeeperNeeds } from './kept.ts';
import { createNodeEvents } from './node-events.ts';
import { createNodeMarks } from './node-marks.ts';
import { GUARD_ORDERS, isOrdered, withAnswer } from './orders.ts';
import { type OwnMapNeeds, readOwnMap } from './own-map.ts';
import { MAX_RECORD_BYTES, outlived, recordData, recordName } from './records.ts';
import type { StoredMaps } from './stored-maps.ts';
import { createUnstored, type UnstoredRecord } from './unstored.ts';

export type EffectNeeds = {
  readonly clock: Clock;
  readonly api: { readonly get: ApiGet; readonly send: GuardSend };
  readonly agents: Agents;
  /** As in force now. In dry run nothing is written and no command is sent. */
  readonly config: () => Pick<GuardEffective, 'core' | 'methods' | 'kubernetes' | 'history'>;
  /** The node that this process runs on; null: none, or not known. Its own power is never cut (G9). */
  readonly node: () => string | null;
  /** By the own clock; null: it does not lead. Asked right before each write and each start of a command. */
  readonly authorityUntilMs: () => MonoMs | null;
  /** As `whyNotNow`, with what is known at that moment. */
  readonly whyNotNow: (of: { readonly fencing: FencingId; readonly act: Act }) => string | null;
  /** What it writes is known at once, and that somebody else wrote first shows that what was read is old. */
  readonly maps: Pick<StoredMaps, 'wrote' | 'overtaken'>;
  /** There is an outcome or an answer: the next look is due at once. */
  readonly news: () => void;
  /** How many devices have no place in `guard-devices`, as the leader who writes it; 0: as another one. */
  readonly leftOut: (count: number) => void;
  /** Why a ConfigMap that outlives this leader cannot be stored; null: it is, or another one leads. */
  readonly unkept: KeeperNeeds['unkept'];
  /** The records that cannot be stored, whenever they change. */
  readonly unstored: (records: readonly UnstoredRecord[]) => void;
  /** What went wrong, and what no outcome says. */
  readonly tell: (told: EffectTold) => void;
};
/** `node` null: it is about none. */
export type EffectTold = {
  readonly what: 'not-stored' | 'not-kept' | 'not-pruned' | 'condition-unsaid' | 'event-unsaid' | 'bug';
  readonly node: string | null;
  readonly detail: string;
};

/** What changes the world (guard.md 7.3 and 8). Nothing rejects or throws. */
export type GuardEffects = {
  /**
   * Begins in the background what was decided at this observation, asks the devices, and keeps what must outlive this leader.
   * Each decision that `GuardDecision` says is answered gets its one outcome when its act is over; `resign` is the
   * leadership's.
   */
  readonly carryOut: (verdict: GuardVerdict, observation: Seen) => void;
  /** New since the last call, each once, in the order in which they ended. */
  readonly outcomes: () => readonly GuardOutcome[];
  /** As `outcomes`. */
  readonly answers: () => readonly DeviceAnswer[];
};

type Seen = Pick<GuardObservation, 'self' | 'records' | 'atMs' | 'wallMs'>;

const PRUNE_EVERY_MS = 60_000;
const FAILED = { store: { kind: 'failed' }, act: null } as const;
const NOT_STORED = { isAccepted: false, gate: null, why: 'not-stored' } as const;
const NO_AUTHORITY = 'authority has ended';
const TAKEN_BACK = 'its order was taken back, or could not be answered';
type Ended = Pick<GuardOutcome, 'store' | 'act'>;

export function createEffects(needs: EffectNeeds): GuardEffects {
  const { clock, api, agents, config, authorityUntilMs, maps, news, tell } = needs;
  const mayAct = (): boolean => {
    const untilMs = authorityUntilMs();
    return !config().core.dryRun && untilMs !== null && untilMs - clock.monoMs() >= LEAST_AUTHORITY_MS;
  };
  const { namespace } = config().kubernetes;
  const writes = createGuardWrites({ send: api.send, namespace, stored: maps.wrote });
  const devices = createDevices({
    clock,
    agents,
    methodOf: (node, key) => methodFor(config().methods, node, key),
    arrived: news,
  });
  const unsaid = ({ name }: NodeRef, detail: string): void => tell({ what: 'condition-unsaid', node: name, detail });
  const marks = createNodeMarks({ clock, get: api.get, writes, mayAct, unsaid });
  const failed = (detail: string): void => tell({ what: 'not-kept', node: null, detail });
  const mapNeeds = { clock, get: api.get, writes, namespace, mayAct, failed };
  const events = createNodeEvents({
    ...{ clock, writes, mayAct },
    failed: (node, detail) => tell({ what: 'event-unsaid', node, detail }),
  });
  const answers = createAnswers(mapNeeds);
  const unstored = createUnstored({
    ...{ clock, unstored: needs.unstored },
    tell: ({ node, why }) => tell({ what: 'not-stored', node, detail: why }),
  });
  let ended: GuardOutcome[] = [];
  /** What this leadership keeps: another one reads first what was kept since. */
  let kept: { readonly sinceMs: MonoMs; readonly keeper: Keeper } | null = null;
  let prunedMs = Number.NEGATIVE_INFINITY;

  const perform = (act: Act, node: NodeRef, id: string): Promise<ActResult> | ActResult => {
    const whyNot = (): string | null => {
      if (!mayAct()) return NO_AUTHORITY;
      const why = needs.whyNotNow({ fencing: id, act });
      return why === null ? null : sayNotNow(why);
    };
    const detail = whyNot();
    if (detail !== null) return { kind: 'not-begun', detail };
    switch (act.kind) {
      case 'off':
        return node.name === needs.node() ? OWN_NODE : devices.off(node, act.methods, whyNot);
      case 'on':
        return devices.on(node, act.steps, whyNot);
      case 'tell':
        return marks.tell(node, id, act);
      case 'untell':
      case 'clear':
        return marks[act.kind](node, id);
    }
  };

  /** First the compare-and-swap, then the act, if it was stored and authority still holds (guard.md 7.3). */
  const storeThenAct = async (node: NodeRef, store: Store): Promise<Ended> => {
    const { fencing, act } = store;
    if (!mayAct()) {
      tell({ what: 'not-stored', node: node.name, detail: NO_AUTHORITY });
      return FAILED;
    }
    const stored = await storeRecord(writes, store);
    if (stored.kind === 'failed') unstored.failed({ id: fencing, node: node.name, why: stored.detail });
    else unstored.over(fencing);
    if (stored.kind !== 'stored') {
      if (stored.kind !== 'failed') maps.overtaken();
      // Deleted by hand: nothing was done, and the records show it.
      return stored.kind === 'failed' ? FAILED : { store: { kind: 'conflict' }, act: null };
    }
    const { version } = stored;
    return { store: { kind: 'stored', version }, act: act === null ? null : await perform(act, node, fencing) };
  };

  const carry = async (decision: Answered): Promise<Ended> => {
    switch (decision.kind) {
      case 'unmark':
        return { store: null, act: await perform(decision.act, decision.node, idOf(decision.value)) };
      case 'answer': {
        const { order, answer, keeps } = decision;
        // A pause that a person was told of outlives this leader.
        if (!keeps || (await kept?.keeper.stored())) return { store: await answers.store(order, answer), act: null };
        await answers.store(order, NOT_STORED);
        return { store: { kind: 'conflict' }, act: null };
      }
      default:
        return storeThenAct(decision.node, decision);
    }
  };

  /** `answered`: the end of the answer to the order that it carries out; null: no person ordered it. */
  const begin = async (
    decision: Answered,
    reasons: readonly GuardReason[],
    answered: Promise<Ended> | null = null,
  ): Promise<Ended> => {
    const fencing = 'record' in decision ? decision.fencing : null;
    const isDropped = answered !== null && (await answered).store?.kind !== 'stored';
    const outcome = await (isDropped ? drop(decision) : carry(decision)).catch((cause: unknown): Ended => {
      tell({ what: 'bug', node: 'node' in decision ? decision.node.name : null, detail: sayCause(cause) });
      return decision.kind === 'unmark' ? { store: null, act: null } : FAILED;
    });
    ended.push({ of: decision.id, fencing, atMs: clock.monoMs(), ...outcome });
    if (outcome.store?.kind === 'stored') events.stored(decision, outcome.act, reasons);
    news();
    return outcome;
  };

  const drop = async (decision: Answered): Promise<Ended> => {
    tell({ what: 'not-stored', node: 'node' in decision ? decision.node.name : null, detail: TAKEN_BACK });
    return FAILED;
  };

  const keep = ({ state }: GuardVerdict, { self: { leadership }, records, atMs, wallMs }: Seen): void => {
    const isIdle = !leadership.isLeader || config().core.dryRun;
    unstored.looked(isIdle ? null : state);
    if (isIdle) {
      needs.leftOut(0);
      for (const name of [GUARD_STATE, GUARD_DEVICES] as const) needs.unkept(name, null);
    }
    if (!leadership.isLeader || !isAdopted(state, { leadership }) || !mayAct()) return;
    if (kept?.sinceMs !== leadership.sinceMs) {
      kept = {
        sinceMs: leadership.sinceMs,
        keeper: createKeeper({ ...mapNeeds, leftOut: needs.leftOut, unkept: needs.unkept }),
      };
      // A person may change it, and not create it. If it exists, this is a conflict.
      void writes.putMap(GUARD_ORDERS, {}, null);
    }
    kept.keeper.keep(state, config().core);
    if (!records.known || clock.monoMs() - prunedMs < PRUNE_EVERY_MS) return;
    prunedMs = clock.monoMs();
    void prune(outlived(records.value, config().history, { atMs, wallMs, ahead: state.ahead }));
  };

  const prune = async (records: readonly StoredRecord[]): Promise<void> => {
    for (const { id, version } of records) {
      if (!mayAct()) return;
      const deleted = await writes.deleteRecord(id, version);
      if (deleted.kind === 'failed') return tell({ what: 'not-pruned', node: null, detail: deleted.detail });
    }
  };

  return {
    carryOut: (verdict, seen) => {
      const { decisions, reasons, next } = verdict;
      keep(verdict, seen);
      const answered = new Map<string, Promise<Ended>>();
      for (const decision of decisions) {
        if (decision.kind !== 'answer') continue;
        const ended = begin(decision, reasons);
        if (decision.carries !== null) answered.set(decision.carries, ended);
      }
      for (const decision of decisions) {
        if (decision.kind === 'hold') events.held(decision);
        else if (decision.kind !== 'answer' && isAnswered(decision)) {
          void begin(decision, reasons, answered.get(decision.id) ?? null);
        }
      }
      for (const reason of reasons) events.reasoned(reason);
      devices.ask(next.status);
    },
    outcomes: () => {
      const all = ended;
      ended = [];
      return all;
    },
    answers: devices.answers,
  };
}

/** Also in dry run: then nothing of it is done, and its outcome says so. */
type Answered = Exclude<GuardDecision, { kind: 'hold' | 'resign' }>;
export const isAnswered = (decision: GuardDecision): decision is Answered =>
  decision.kind !== 'hold' && decision.kind !== 'resign' && !(decision.kind === 'fence' && decision.isDry);

const OWN_NODE: ActResult = { kind: 'ran', runs: [] };

/** The fencing that a mark of ours names. */
const idOf = (value: string): string => (value.startsWith(MARK) ? value.slice(MARK.length) : value);

async function storeRecord(writes: Pick<GuardWrites, 'putMap'>, { fencing, record, replaces }: Store) {
  const data = recordData(record);
  const bytes = Buffer.byteLength(Object.values(data).join(''));
  if (bytes > MAX_RECORD_BYTES) return { kind: 'failed', detail: `its record would have ${bytes} bytes` } as const;
  return writes.putMap(recordName(fencing), data, replaces);
}

/** A person waits 30 s for it, and the core may have taken some of it. */
const ANSWER_WITHIN_MS = 25_000;
const ANSWER_AGAIN_MS = 250;

/** Stores answers in `guard-orders`, one after the other, however often a person writes in between. */
type Answers = {
  /** As a `GuardOutcome` has it. `conflict`: nobody waits for it any more. */
  readonly store: (id: string, answer: OrderAnswer) => Promise<AnswerEnd>;
};

type AnswerEnd = { readonly kind: 'stored'; readonly version: string } | { readonly kind: 'conflict' | 'failed' };

function createAnswers(needs: OwnMapNeeds): Answers {
  const { clock, writes, mayAct, failed } = needs;
  let turn: Promise<unknown> = Promise.resolve();

  async function store(id: string, answer: OrderAnswer): Promise<AnswerEnd> {
    const untilMs = clock.monoMs() + ANSWER_WITHIN_MS;
    const answered = { answer, wallMs: clock.wallMs() };
    for (;;) {
      const read = await readOwnMap(needs, GUARD_ORDERS);
      if (read.kind === 'read' && (read.version === null || !isOrdered(read.data, id))) return { kind: 'conflict' };
      if (!mayAct()) return { kind: 'failed' };
      const put =
        read.kind === 'read'
          ? await writes.putMap(GUARD_ORDERS, withAnswer(read.data, id, answered), read.version, read.labels)
          : read;
      if (put.kind === 'stored') return { kind: 'stored', version: put.version };
      if (clock.monoMs() >= untilMs) {
        failed(`${GUARD_ORDERS}: ${put.detail}`);
        return { kind: 'failed' };
      }
      await sleep(clock, ANSWER_AGAIN_MS * (0.5 + Math.random()));
    }
  }
  return {
    store: (id, answer) => {
      const mine = turn.then(() => store(id, answer));
      turn = mine.catch(() => undefined);
      return mine;
    },
  };
}
