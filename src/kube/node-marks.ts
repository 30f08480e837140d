import type { PodUid } from '../core/pod/pod.ts';
import type { NodeCondition } from '../core/signal.ts';
import { within } from '../host/clock.ts';
import { startTicks } from '../host/process/workload.ts';
import type { Clock, Findings, NodeMarks } from '../ports.ts';
import type { ApiRight } from '../words/finding-writes.ts';
import type { PodRef } from './api/api-pod.ts';
import type { ApiWrites } from './api/api-writes.ts';
import type { OwnNode } from './api/own-node.ts';
import { createRepeatedWrite } from './api/repeated-write.ts';
import { type NotDone, reportWrite } from './api/write-failure.ts';
import {
  type NodeConditionEntry,
  OWN_CONDITIONS,
  OWN_TAINTS,
  type OwnCondition,
  PRESSURE_TAINTS,
  type TaintKeys,
  taintKey,
} from './api/write-rules.ts';
import type { TellEvent } from './spool/events.ts';

/** Set by the agent itself; the others follow from pressure. */
type ToldCondition = Exclude<OwnCondition, `Nodewarden${NodeCondition}`>;
/** The agent's conditions and taints on the node (A13, A14). All work is in the background; nothing throws or rejects. */
type KubeMarks = NodeMarks & {
  /** Besides pressure: how the shutdown is armed, and how the last boot ended. */
  readonly tell: (
    type: ToldCondition,
    status: NodeConditionEntry['status'],
    /** One word in CamelCase: `ShuttingDown`, `Graceful`, `Cut`, … */
    reason: string,
    message: string,
  ) => void;
  /** No longer reported. */
  readonly untell: (type: ToldCondition) => void;
  /** The API is back: writes all differences at once. */
  readonly retry: () => void;
  /**
   * The agent stops while the machine stays up: takes back every condition and taint, and the cordon of an earlier
   * boot. Null, or why something was left.
   */
  readonly clear: () => Promise<NotDone | null>;
  /** The agent stops but leaves its marks: it will be restarted, or the machine goes down. */
  readonly close: () => Promise<void>;
};
type MarksNeeds = {
  readonly clock: Clock;
  /** False: nothing is sent before `retry` is called. */
  readonly isUp: () => boolean;
  readonly writes: Pick<
    ApiWrites,
    'verify' | 'setNodeConditions' | 'removeNodeConditions' | 'changeTaints' | 'uncordon'
  >;
  readonly tellEvent: TellEvent;
  /** The object of a pod; null: there is none any more. */
  readonly objectOf: (uid: PodUid) => PodRef | null;
  readonly findings: Pick<Findings, 'raise' | 'clear'>;
  /** Those of the adopted state: later changes are reported. */
  readonly conditions: readonly NodeCondition[];
  /** product.md section 3: `kubernetes.conditions` and `kubernetes.taints`. */
  readonly wants: { readonly conditions: boolean; readonly taints: TaintKeys | null };
  readonly agent: AgentId;
  readonly isAlive: (agent: AgentId) => boolean;
  /** F18: another agent manages this node. Nothing is written. */
  readonly taken: (by: AgentId) => void;
};

/** For a pod without a known name (live-pods.ts). */
const UNNAMED = '?';
/** A13: a heartbeat that is older than 3 min means unknown. */
const HEARTBEAT_MS = 60_000;
/** kubelet-eviction.md 7.4, in the agent's own name. */
const PRESSURES: {
  readonly [C in NodeCondition]: {
    readonly type: OwnCondition;
    readonly taint: `${'memory' | 'disk' | 'pid'}-pressure`;
    readonly calm: string;
  };
} = {
  MemoryPressure: {
    type: 'NodewardenMemoryPressure',
    taint: 'memory-pressure',
    calm: 'the node has no memory pressure',
  },
  DiskPressure: {
    type: 'NodewardenDiskPressure',
    taint: 'disk-pressure',
    calm: 'the node has no disk pressure',
  },
  PIDPressure: {
    type: 'NodewardenPIDPressure',
    taint: 'pid-pressure',
    calm: 'the node has no PID pressure',
  },
};
const AWAY: NotDone = { kind: 'unheard', isTimeout: false, text: 'the API server is away' };
const TAKEN: NotDone = { kind: 'unheard', isTimeout: false, text: 'another agent manages this node' };
/** Well below the limit for a message, so that the writer's identity is not cut off. */
const MESSAGE_MAX = 3_900;
const CLEAR_MS = 5_000;
const LATE: NotDone = { kind: 'unheard', isTimeout: true, text: `it was not done within ${CLEAR_MS} ms` };
const PRESSURE_NAMES = ['MemoryPressure', 'DiskPressure', 'PIDPressure'] as const;

/** `sinceWallMs` null: the time that the API reports, else now. */
type Shown = Pick<NodeConditionEntry, 'status' | 'reason' | 'message'> & { readonly sinceWallMs: number | null };

export function createKubeMarks(needs: MarksNeeds): KubeMarks {
  const { clock, writes, findings, wants } = needs;
  const pressures = new Set<NodeCondition>(needs.conditions);
  const shown = new Map<OwnCondition, Shown>(
    PRESSURE_NAMES.map((name) => [
      PRESSURES[name].type,
      { ...pressureOf(pressures.has(name), name), sinceWallMs: null },
    ]),
  );
  const earlier = new Map<unknown, { readonly status: unknown; readonly sinceWallMs: number }>();
  /** Our conditions that are known to be on the node. */
  const present = new Set<OwnCondition>();
  /** Conditions of an earlier run that stay for one heartbeat, in case this run sets them again. */
  const unsaid = new Set<OwnCondition>(['NodewardenShutdownArmed', 'NodewardenLastBoot']);
  let isReadBack = false;
  let isTaken = false;

  const told = async (right: ApiRight, said: Promise<{ readonly kind: 'done' | 'unchanged' } | NotDone>) => {
    const { kind, ...rest } = await said;
    const failed = kind === 'done' || kind === 'unchanged' ? null : ({ kind, ...rest } as NotDone);
    reportWrite(findings, kind === 'unchanged' ? null : right, failed);
    return failed;
  };
  /** A13: after a crash, conditions continue from their last state. */
  const readBack = (node: OwnNode): void => {
    for (const { type, status, lastTransitionTime } of node.conditions) {
      const sinceWallMs = Date.parse(String(lastTransitionTime));
      if (sinceWallMs >= 0) earlier.set(type, { status, sinceWallMs });
    }
    for (const type of OWN_CONDITIONS) if (node.conditions.some((at) => at['type'] === type)) present.add(type);
    isReadBack = true;
  };
  const sinceOf = (type: OwnCondition, { status, sinceWallMs }: Shown, nowMs: number): number => {
    const before = earlier.get(type);
    return sinceWallMs ?? (before?.status === status ? before.sinceWallMs : nowMs);
  };
  /** Marks of earlier runs are read before anything overwrites them. */
  const readFirst = async (): Promise<NotDone | null> => {
    if (isTaken) return TAKEN;
    if (!needs.isUp()) return AWAY;
    if (isReadBack) return null;
    const node = await writes.verify();
    if (node.kind !== 'node') {
      reportWrite(findings, 'get nodes', node);
      return node;
    }
    const other = freshAgents(node.conditions, needs.agent, clock.wallMs()).find(needs.isAlive);
    if (other !== undefined) {
      isTaken = true;
      needs.taken(other);
      return TAKEN;
    }
    readBack(node);
    return null;
  };
  const writeConditions = async (): Promise<NotDone | null> =>
    (await readFirst()) ?? (await setConditions()) ?? (await removeConditions());
  const setConditions = async (): Promise<NotDone | null> => {
    if (!wants.conditions) return null;
    const nowMs = clock.wallMs();
    for (const [type, mine] of shown) shown.set(type, { ...mine, sinceWallMs: sinceOf(type, mine, nowMs) });
    const entries = [...shown].map(([type, { status, reason, message, sinceWallMs }]) => {
      const told = signed(message.slice(0, MESSAGE_MAX), needs.agent);
      return { type, status, reason, message: told, heartbeatWallMs: nowMs, transitionWallMs: sinceWallMs ?? nowMs };
    });
    for (const { type } of entries) present.add(type);
    return told('patch nodes/status', writes.setNodeConditions(entries));
  };
  const removeConditions = async (): Promise<NotDone | null> => {
    const isKept = (type: OwnCondition): boolean => wants.conditions && (shown.has(type) || unsaid.has(type));
    const gone = [...present].filter((type) => !isKept(type));
    if (gone.length === 0) return null;
    const failed = await told('patch nodes/status', writes.removeNodeConditions(gone));
    if (failed === null) for (const type of gone) if (!shown.has(type)) present.delete(type);
    return failed;
  };
  const writeTaints = async (): Promise<NotDone | null> => {
    const failed = await readFirst();
    if (failed !== null) return failed;
    const keys = wants.taints;
    const whats = keys === null ? [] : [...pressures].map((name) => taintKey(keys, PRESSURES[name].taint));
    const put = whats.map((key) => ({ key, effect: 'NoSchedule' }) as const);
    const remove = PRESSURE_TAINTS.filter((key) => put.every((taint) => taint.key !== key));
    return told('patch nodes', writes.changeTaints({ put, remove }));
  };
  /** One after the other: each write changes the resourceVersion, and the other would have to start over (A14). */
  const inTurn = (write: () => Promise<NotDone | null>) => (): Promise<NotDone | null> => {
    turn = turn.then(write);
    return turn;
  };
  let turn: Promise<NotDone | null> = Promise.resolve(null);
  const conditions = createRepeatedWrite(clock, inTurn(writeConditions));
  const taints = createRepeatedWrite(clock, inTurn(writeTaints));
  const show = (type: OwnCondition, next: Omit<Shown, 'sinceWallMs'>): void => {
    const before = shown.get(type);
    if (before?.status === next.status && before.reason === next.reason && before.message === next.message) return;
    const sinceWallMs =
      before === undefined || before.status === next.status ? (before?.sinceWallMs ?? null) : clock.wallMs();
    shown.set(type, { ...next, sinceWallMs });
    conditions.poke();
  };
  function beat(): void {
    cancelBeat = clock.after(HEARTBEAT_MS, beat);
    unsaid.clear();
    if (wants.conditions) conditions.poke();
    // Someone else may have removed them, or the server may have carried out late what got no answer.
    if (wants.taints !== null) taints.poke();
  }
  const stop = async (): Promise<void> => {
    cancelBeat();
    await Promise.all([conditions.close(), taints.close()]);
  };

  let cancelBeat = clock.after(HEARTBEAT_MS, beat);
  // This also removes marks that an earlier run left, if none are wanted.
  conditions.poke();
  taints.poke();
  return {
    setCondition: (condition, status, message) => {
      if (status) pressures.add(condition);
      else pressures.delete(condition);
      // B15: sent before the first victim is asked to stop.
      taints.poke();
      show(PRESSURES[condition].type, { ...pressureOf(status, condition), message });
    },
    event: (reason, message, { decision, pod, annotations }) => {
      // A pod that is gone by now was not a mirror pod, and its object had the uid that the kubelet knows.
      const object = pod === null ? null : (needs.objectOf(pod.uid) ?? pod);
      if (object?.namespace === UNNAMED) return;
      const about = object === null ? ({ kind: 'Node' } as const) : ({ kind: 'Pod', ...refOf(object) } as const);
      needs.tellEvent({ reason, about, message, annotations, decision });
    },
    tell: (type, status, reason, message) => {
      unsaid.delete(type);
      show(type, { status, reason, message });
    },
    untell: (type) => {
      unsaid.delete(type);
      shown.delete(type);
      conditions.poke();
    },
    retry: () => {
      conditions.retry();
      taints.retry();
    },
    clear: async () => {
      const cleared = async (): Promise<NotDone | null> => {
        await stop();
        if (isTaken) return null;
        const removed = told('patch nodes/status', writes.removeNodeConditions(OWN_CONDITIONS));
        const untainted = await told('patch nodes', writes.changeTaints({ put: [], remove: OWN_TAINTS }));
        // A cordon of an earlier boot, if the kubelet has not been ready since.
        if (untainted === null) await writes.uncordon([]);
        return (await removed) ?? untainted;
      };
      return within(clock, CLEAR_MS, cleared(), () => LATE);
    },
    close: stop,
  };
}

const refOf = ({ namespace, name, uid }: PodRef): PodRef => ({ namespace, name, uid });

function pressureOf(status: boolean, condition: NodeCondition): Omit<Shown, 'sinceWallMs'> {
  const { calm } = PRESSURES[condition];
  return status
    ? { status: 'True', reason: 'ThresholdMet', message: calm.replace('has no', 'is under') }
    : { status: 'False', reason: 'NoThresholdMet', message: calm };
}

/**
 * Identifies the process that wrote a condition by pid and start time, which are unique within a boot. It is part of the
 * message, because a condition has no other place for it (F18).
 */
export type AgentId = { readonly pid: number; readonly startTicks: number };

/** A13: an older heartbeat proves nothing. */
const FRESH_MS = 180_000;
const SIGNED = /; agent (\d{1,10})-(\d{1,15})$/;

export function ownAgentId(): AgentId {
  return { pid: process.pid, startTicks: startTicks(process.pid) ?? 0 };
}

/** The agent sees every process of the machine, so one that it does not see has ended. */
export const isAliveHere = (agent: AgentId): boolean => startTicks(agent.pid) === agent.startTicks;

const signed = (message: string, agent: AgentId): string => `${message}; agent ${agent.pid}-${agent.startTicks}`;

/** Agents other than `own` that have written one of our conditions recently. */
function freshAgents(
  conditions: readonly { readonly [field: string]: unknown }[],
  own: AgentId,
  nowWallMs: number,
): readonly AgentId[] {
  return conditions.flatMap(({ type, message, lastHeartbeatTime }) => {
    const [, pid, ticks] = SIGNED.exec(String(message ?? '')) ?? [];
    const ageMs = Math.abs(nowWallMs - Date.parse(String(lastHeartbeatTime)));
    if (pid === undefined || ticks === undefined || !String(type).startsWith('Nodewarden') || !(ageMs <= FRESH_MS)) {
      return [];
    }
    const agent = { pid: Number(pid), startTicks: Number(ticks) };
    return agent.pid === own.pid && agent.startTicks === own.startTicks ? [] : [agent];
  });
}
