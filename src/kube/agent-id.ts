import { startTicks } from '../host/workload.ts';

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

export const signed = (message: string, agent: AgentId): string => `${message}; agent ${agent.pid}-${agent.startTicks}`;

/** Agents other than `own` that have written one of our conditions recently. */
export function freshAgents(
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
