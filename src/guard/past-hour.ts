import type { MethodKey } from '../core/guard/config.ts';
import type { Order } from '../core/guard/observation.ts';
import type { DecisionId, FencingRecord, Phase } from '../core/guard/record.ts';
import { READ_AWAY_MS, WRITE_AWAY_MS } from '../core/guard/self.ts';
import { type DeviceMemory, deviceKey, type Fencing, type NodeMemory } from '../core/guard/state.ts';
import type { MonoMs } from '../core/reading.ts';
import { decidingMarks, type Mark } from './deciding-marks.ts';
import { createHourPods, type PodsOfHour } from './hour-pods.ts';
import type { GuardLook } from './loop.ts';
import { type Plight, plightOf } from './plight.ts';

/** Of a device. */
export type Word = DeviceMemory['says'];

/** Something that is not as it was, so that what was before it is known as well. `node`: its uid. */
export type Change = { readonly atMs: MonoMs } & (
  | (Became & { readonly kind: 'plight' })
  /** It was as before at `notBeforeMs`. */
  | (OfNode & {
      readonly kind: 'device';
      readonly method: MethodKey;
      readonly was: Word;
      readonly is: Word;
      readonly notBeforeMs: MonoMs;
    })
  /** The guard's own command. */
  | (OfNode & { readonly kind: 'sent'; readonly act: 'off' | 'on' })
  /** What decides about it beside its life. Null: it has none. */
  | (OfNode & { readonly kind: 'mark'; readonly mark: Mark; readonly was: string | null; readonly is: string | null })
  | (OfNode & { readonly kind: 'joined' | 'gone' })
  | { readonly kind: 'api'; readonly isUp: boolean }
  | { readonly kind: 'leads'; readonly isLeader: boolean }
  | { readonly kind: 'elected' | 'clock-jumped' | 'reloaded' | 'records-deleted' }
  | { readonly kind: 'order'; readonly order: Order }
);
type OfNode = { readonly node: string };
type Became = OfNode & {
  readonly was: Plight;
  readonly wasSinceMs: MonoMs;
  /** At first only a guess, until its port and its devices were asked. */
  is: Plight;
  /** It lives, after another boot. */
  isBoot: boolean;
  /** The guard's own commands brought it about. */
  readonly isOurs: boolean;
  /** The guard had sent it off before. */
  readonly wasCut: boolean;
};

type Silence = {
  /** With which it began, or became another one. */
  change: Extract<Change, { kind: 'plight' }>;
  readonly sinceMs: MonoMs;
  readonly bootId: string;
  isAsked: boolean;
  /** When the guard sent it off, and on; null: it has not, or that is over. */
  cutMs: MonoMs | null;
  switchedOnMs: MonoMs | null;
};
/** A Node that was deleted, and how it was then. */
export type Gone = { readonly atMs: MonoMs; readonly memory: NodeMemory; readonly silence: Silence | null };

export type Hour = {
  /** From then on all that was seen is in `changes`; null: nothing was seen yet. */
  readonly sinceMs: MonoMs | null;
  /** Why not earlier. */
  readonly begins: 'started' | 'an-hour' | 'full';
  /** Not quite in order of time: why a node fell silent is known late. */
  readonly changes: readonly Change[];
  readonly silent: ReadonlyMap<string, Pick<Silence, 'change'>>;
  readonly gone: ReadonlyMap<string, Gone>;
  readonly pods: PodsOfHour;
};

const HOUR_MS = 3_600_000;
/** Some 4 MiB: 5,000 nodes fall silent and come back twice. */
const MOST_CHANGES = 20_000;
/** A node may renew its lease before it names its new boot. */
const BOOT_TOLD_MS = 120_000;
/** After an `on`, a machine boots and hangs. */
const BOOTING_MS = 30_000;
/** An `off` that is so near to its last sign of life made it silent; one that is longer ago than that to a sign had no effect. */
const NEAR_MS = 15_000;

/** Phases in which the machine is off by the guard's command, or may be. */
const HELD_OFF: ReadonlySet<Phase> = new Set([
  ...(['isolating', 'off-sent', 'proving', 'proven', 'tainted', 'untainting', 'on-sent'] as const),
  ...(['failed', 'stuck', 'left-off'] as const),
]);

/**
 * What a guard saw change in the last hour, in memory: changes alone, so that it costs nothing while nothing happens. It ends
 * with the process.
 */
export function createPastHour(): { readonly keep: (look: GuardLook) => void; readonly hour: () => Hour } {
  let changes: Change[] = [];
  let sinceMs: MonoMs | null = null;
  let begins: Hour['begins'] = 'started';
  let last: GuardLook | null = null;
  let apiDownMs: MonoMs | null = null;
  let apiDown: { readonly fromMs: MonoMs; readonly toMs: MonoMs } | null = null;
  const silent = new Map<string, Silence>();
  const gone = new Map<string, Gone>();
  /** When the guard sent it off and on for the last time. */
  const sent = new Map<string, { readonly off?: MonoMs; readonly on?: MonoMs }>();
  /** By the decision that answers it: an order of which it is not known whether it was taken back. */
  const given = new Map<DecisionId, Extract<Change, { kind: 'order' }>>();
  const pods = createHourPods();

  function keep(look: GuardLook): void {
    const { observation } = look;
    if (!observation.nodes.known) return;
    const before = last;
    last = look;
    if (before === null) {
      sinceMs = observation.atMs;
      for (const memory of look.verdict.state.nodes.values()) ofSilence(memory, look);
      return;
    }
    ofGuard(before, look);
    ofNodes(before, look);
    ofDevices(before, look);
    ofFencings(before, look);
    for (const [uid, silence] of silent) ofSilent(uid, silence, look);
    forget(observation.atMs);
  }

  function ofGuard(before: GuardLook, { observation, verdict, config }: GuardLook): void {
    const { atMs, orders, self } = observation;
    const { self: memory } = verdict.state;
    const downMs = awaySinceMs(observation.atMs, memory.readMs, self);
    if (downMs !== null && apiDownMs === null) changes.push({ atMs: downMs, kind: 'api', isUp: false });
    if (downMs === null && apiDownMs !== null) {
      const toMs = Math.max(memory.readMs ?? atMs, apiDownMs);
      apiDown = { fromMs: apiDownMs, toMs };
      changes.push({ atMs: toMs, kind: 'api', isUp: true });
    }
    apiDownMs = downMs === null ? null : (apiDownMs ?? downMs);
    const { isLeader } = self.leadership;
    if (isLeader !== before.observation.self.leadership.isLeader) changes.push({ atMs, kind: 'leads', isLeader });
    const old = before.verdict.state.self;
    if (memory.electedMs !== null && memory.electedMs !== old.electedMs) {
      changes.push({ atMs: memory.electedMs, kind: 'elected' });
    }
    if (memory.settlesMs !== old.settlesMs && memory.settlesFor === 'clock-jump') {
      changes.push({ atMs, kind: 'clock-jumped' });
    }
    if (config !== before.config) changes.push({ atMs, kind: 'reloaded' });
    for (const { of, store } of observation.outcomes) {
      const change = given.get(of);
      given.delete(of);
      // A pause of which nobody knows whether the person was told is in force.
      const isPause = change?.order.verb === 'pause' && store?.kind === 'failed';
      if (change !== undefined && store?.kind !== 'stored' && !isPause) notGiven(change.order.id);
    }
    for (const decision of verdict.decisions) {
      const order = decision.kind === 'answer' ? orders.find(({ id }) => id === decision.order) : undefined;
      if (decision.kind === 'answer' && !decision.answer.isAccepted && decision.answer.why === 'not-stored') {
        notGiven(decision.order);
      }
      if (order === undefined) continue;
      const change = { atMs, kind: 'order', order } as const;
      changes.push(change);
      given.set(decision.id, change);
    }
  }

  /** Nothing of it was done. */
  function notGiven(id: string): void {
    changes = changes.filter((change) => change.kind !== 'order' || change.order.id !== id);
  }

  function ofNodes(before: GuardLook, look: GuardLook): void {
    const { atMs } = look.observation;
    const [old, now] = [before.verdict.state.nodes, look.verdict.state.nodes];
    if (now === old) return;
    for (const [node, memory] of now) {
      const known = old.get(node);
      if (known === memory) continue;
      if (known === undefined) changes.push({ atMs, kind: 'joined', node });
      else if (known.object !== memory.object) {
        ofMarks(known, memory, look);
        if (known.object.bootId !== memory.object.bootId) ofBoot(node, atMs);
      }
      ofSilence(memory, look);
    }
    for (const [node, memory] of old) {
      if (now.has(node)) continue;
      changes.push({ atMs, kind: 'gone', node });
      gone.set(node, { atMs, memory, silence: silent.get(node) ?? null });
      silent.delete(node);
    }
  }

  function ofMarks(known: NodeMemory, { object }: NodeMemory, { observation: { atMs }, config }: GuardLook): void {
    const was = decidingMarks(known.object, config);
    const is = decidingMarks(object, config);
    for (const mark of new Set([...was.keys(), ...is.keys()])) {
      const change = { was: was.get(mark) ?? null, is: is.get(mark) ?? null };
      if (change.was !== change.is) changes.push({ atMs, kind: 'mark', node: object.uid, mark, ...change });
    }
  }

  /** A boot that its node names only now. */
  function ofBoot(node: string, atMs: MonoMs): void {
    const back = changes.findLast((change) => change.kind === 'plight' && change.node === node);
    if (back?.kind === 'plight' && back.is === 'alive' && atMs - back.atMs <= BOOT_TOLD_MS) back.isBoot = true;
  }

  /** It fell silent, or shows life again. */
  function ofSilence(memory: NodeMemory, look: GuardLook): void {
    const { uid: node, bootId } = memory.object;
    const silence = silent.get(node);
    if (silence === undefined && memory.isSuspect) {
      const atMs = fellSilentMs(memory);
      const { off = null, on = null } = sent.get(node) ?? {};
      const cutMs = isHeldOff(node, look) ? atMs : off !== null && off >= atMs - NEAR_MS ? off : null;
      const switchedOnMs = cutMs !== null && on !== null && on >= cutMs ? on : null;
      const change: Silence['change'] = {
        ...{ atMs, kind: 'plight', node, was: 'alive', wasSinceMs: Number.NEGATIVE_INFINITY },
        ...{ is: 'hangs', isBoot: false, isOurs: cutMs !== null, wasCut: false },
      };
      changes.push(change);
      silent.set(node, { change, sinceMs: atMs, bootId, isAsked: false, cutMs, switchedOnMs });
    } else if (silence !== undefined && !memory.isSuspect && memory.signMs !== null) {
      if (memory.signMs <= silence.sinceMs) return;
      silent.delete(node);
      const isOurs = silence.cutMs !== null && silence.switchedOnMs !== null;
      become(silence, memory.signMs, 'alive', bootId !== silence.bootId, isOurs);
    }
  }

  function become(silence: Silence, atMs: MonoMs, is: Plight, isBoot = false, isOurs = false): void {
    const { node, is: was, atMs: wasSinceMs } = silence.change;
    const wasCut = silence.cutMs !== null && atMs - silence.cutMs > NEAR_MS;
    silence.change = { atMs, kind: 'plight', node, was, wasSinceMs, is, isBoot, isOurs, wasCut };
    changes.push(silence.change);
  }

  /** One that was never seen alive since the API was away, or since the start, fell silent before. */
  function fellSilentMs({ onsetMs, signMs, sinceMs: watchedMs }: NodeMemory): MonoMs {
    if (signMs !== null) return onsetMs ?? signMs;
    if (apiDown !== null && watchedMs >= apiDown.fromMs && watchedMs <= apiDown.toMs) return apiDown.fromMs + 1;
    return watchedMs <= (sinceMs ?? 0) ? (sinceMs ?? 0) - 1 : watchedMs;
  }

  function ofDevices(before: GuardLook, { observation }: GuardLook): void {
    for (const { node, method, says: is, begunMs: atMs } of observation.answers) {
      const known = before.verdict.state.devices.get(deviceKey(node, method));
      const was = known?.says ?? 'on';
      const notBeforeMs = known?.begunMs ?? Number.NEGATIVE_INFINITY;
      if (was !== is) changes.push({ atMs, kind: 'device', node, method, was, is, notBeforeMs });
    }
  }

  function ofFencings(before: GuardLook, { observation: { atMs, records }, verdict }: GuardLook): void {
    const stored = new Set(records.known ? records.value.map(({ id }) => id) : []);
    const isDeleted = (id: string): boolean => records.known && !verdict.state.fencings.has(id) && !stored.has(id);
    if ([...before.verdict.state.fencings.keys()].some(isDeleted)) changes.push({ atMs, kind: 'records-deleted' });
    for (const [id, fencing] of verdict.state.fencings) {
      const { record, acted } = fencing;
      const known = before.verdict.state.fencings.get(id);
      if (record === known?.record) continue;
      const node = record.node.uid;
      const act = COMMANDS[record.phase];
      // What was decided, and not begun, was not sent.
      const isSent = acted?.kind === 'ran' && acted !== known?.acted;
      const sentMs = isSent ? Math.min(atMs, ...acted.runs.map(({ begunMs }) => begunMs)) : atMs;
      if (act !== undefined && (isSent || isNewByAnother(fencing, known))) ofCommand(node, act, sentMs);
      const silence = silent.get(node);
      if (silence === undefined) continue;
      pods.takeOver(node, record);
      if (isSwitchedOff(record)) silence.cutMs ??= sentMs;
      const isSwitchedOn = record.onSent.length > 0 && acted?.kind !== 'not-begun';
      if (silence.cutMs !== null && isSwitchedOn) silence.switchedOnMs ??= sentMs;
      if (record.phase === 'not-back' && silence.cutMs !== null) {
        silence.cutMs = null;
        const onMs = silence.switchedOnMs ?? atMs;
        if (record.why === 'on-refused') become(silence, onMs - 1, 'off');
        else become(silence, onMs + BOOTING_MS, 'hangs');
      }
    }
  }

  function ofCommand(node: string, act: 'off' | 'on', atMs: MonoMs): void {
    changes.push({ atMs, kind: 'sent', node, act });
    sent.set(node, { ...sent.get(node), [act]: atMs });
  }

  /** What is asked of a silent node shows why it is silent, and is known late. */
  function ofSilent(node: string, silence: Silence, look: GuardLook): void {
    const memory = look.verdict.state.nodes.get(node);
    if (memory === undefined) return;
    pods.read(node, silence.sinceMs, look.observation);
    if (silence.cutMs !== null) return;
    const { is, isSinceOnset } = plightOf(memory, silence.sinceMs, look) ?? {};
    if (is === undefined) return;
    const isFirst = silence.change.atMs === silence.sinceMs;
    if (isFirst && (!silence.isAsked || isSinceOnset)) silence.change.is = is;
    else if (is !== silence.change.is) become(silence, look.observation.atMs, is);
    silence.isAsked = true;
  }

  function forget(nowMs: MonoMs): void {
    const beforeMs = nowMs - HOUR_MS;
    const [first] = changes;
    if (changes.length > MOST_CHANGES) {
      const dropped = changes.splice(0, changes.length - Math.floor(MOST_CHANGES / 2));
      sinceMs = dropped.reduce((fromMs, { atMs }) => Math.max(fromMs, atMs + 1), sinceMs ?? 0);
      begins = 'full';
    }
    if (sinceMs !== null && sinceMs < beforeMs) {
      sinceMs = beforeMs;
      begins = 'an-hour';
    }
    if (first === undefined || first.atMs >= beforeMs) return;
    changes = changes.filter(({ atMs }) => atMs >= beforeMs);
    for (const [node, { atMs }] of gone) if (atMs < beforeMs) gone.delete(node);
    for (const [node, { off = 0, on = 0 }] of sent) if (Math.max(off, on) < beforeMs) sent.delete(node);
    const told = new Set(changes.flatMap((change) => ('node' in change ? [change.node] : [])));
    pods.forget((node) => silent.has(node) || told.has(node));
  }

  return { keep, hour: () => ({ sinceMs, begins, changes, silent, gone, pods: pods.all }) };
}

/** Since when nothing is read, or nothing written; null: neither. */
function awaySinceMs(
  atMs: MonoMs,
  readMs: MonoMs | null,
  { leadership, lastWriteMs }: GuardLook['observation']['self'],
): MonoMs | null {
  if (readMs !== null && atMs - readMs > READ_AWAY_MS) return readMs;
  const isWriting = leadership.isLeader && lastWriteMs !== null;
  return isWriting && atMs - lastWriteMs > WRITE_AWAY_MS ? lastWriteMs : null;
}

const COMMANDS: { readonly [P in Phase]?: 'off' | 'on' } = { 'off-sent': 'off', 'on-sent': 'on' };

/** Another guard may have sent it. */
const isNewByAnother = ({ isTakenOver, record }: Fencing, known: Fencing | undefined): boolean =>
  isTakenOver && record.revision !== known?.record.revision;

const isSwitchedOff = ({ offSent, phase }: FencingRecord): boolean => offSent.length > 0 && HELD_OFF.has(phase);

const isHeldOff = (node: string, { verdict }: GuardLook): boolean =>
  [...verdict.state.fencings.values()].some(({ record }) => record.node.uid === node && isSwitchedOff(record));
