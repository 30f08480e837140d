import type { GuardMethod } from '../config/guard/method.ts';
import type { MethodKey } from '../core/guard/config.ts';
import type { StatusAsk } from '../core/guard/decision.ts';
import type { ActResult, AgentRun, DeviceAnswer } from '../core/guard/observation.ts';
import type { NodeRef } from '../core/guard/record.ts';
import { deviceKey } from '../core/guard/state.ts';
import type { Clock } from '../ports.ts';
import type { Agents, WhyNot } from './agents.ts';

export type Devices = {
  /** Asks in the background, those of fencings first; a device that is being asked for this node is not asked once more. */
  readonly ask: (asks: readonly StatusAsk[]) => void;
  /** New since the last call, each once, in the order in which they ended. */
  readonly answers: () => readonly DeviceAnswer[];
  /** All at once. What they say proves nothing: the devices have to be asked. */
  readonly off: (node: NodeRef, methods: readonly MethodKey[], whyNot: WhyNot) => Promise<Sent>;
  /** One step after the other, whatever it says; the methods of a step at once. */
  readonly on: (node: NodeRef, steps: readonly (readonly MethodKey[])[], whyNot: WhyNot) => Promise<Sent>;
};

/** `not-begun`: no command at all was started, because it was too late for it. */
export type Sent = Extract<ActResult, { kind: 'ran' | 'not-begun' }>;

export type DeviceNeeds = {
  readonly clock: Clock;
  readonly agents: Agents;
  /** Null: the configuration has none of that key for that node. */
  readonly methodOf: (node: NodeRef, key: MethodKey) => GuardMethod | null;
  /** Called after each answer. */
  readonly arrived: () => void;
};

/** More would be an observer that takes none. */
const MAX_ANSWERS = 10_000;
const NO_METHOD = 'the configuration has no such method for this node';

/** The devices of all nodes, as a fencing, a silent node or the patrol wants them (guard.md 5 and 8). */
export function createDevices({ clock, agents, methodOf, arrived }: DeviceNeeds): Devices {
  const asked = new Set<string>();
  let answers: DeviceAnswer[] = [];

  const askOne = async ({ node, method: key, for: purpose }: StatusAsk): Promise<DeviceAnswer> => {
    const method = methodOf(node, key);
    const named = { node: node.uid, method: key };
    if (method === null) return { ...named, says: 'unknown', ...nothingRan(clock) };
    const { power, begunMs, endedMs } = await agents.status(method, purpose);
    const said = power.known ? { says: power.value, detail: '' } : { says: 'unknown' as const, detail: power.detail };
    return { ...named, ...said, begunMs, endedMs };
  };

  type One = { readonly run: AgentRun; readonly isWithheld: boolean };
  const send = async (node: NodeRef, key: MethodKey, action: 'off' | 'on', whyNot: WhyNot): Promise<One> => {
    const method = methodOf(node, key);
    if (method === null) return { run: { method: key, isOk: false, ...nothingRan(clock) }, isWithheld: false };
    const { saysDone, begunMs, endedMs, isWithheld } = await agents.command(method, action, whyNot);
    const detail = saysDone.known ? '' : saysDone.detail;
    return { run: { method: key, isOk: saysDone.known, begunMs, endedMs, detail }, isWithheld };
  };
  const sent = (all: readonly One[]): Sent => {
    const [first] = all;
    return first !== undefined && all.every(({ isWithheld }) => isWithheld)
      ? { kind: 'not-begun', detail: first.run.detail }
      : { kind: 'ran', runs: all.map(({ run }) => run) };
  };

  return {
    ask: (asks) => {
      for (const ask of asks) {
        const key = deviceKey(ask.node.uid, ask.method);
        if (asked.has(key)) continue;
        asked.add(key);
        void askOne(ask).then((answer) => {
          asked.delete(key);
          if (answers.length < MAX_ANSWERS) answers.push(answer);
          arrived();
        });
      }
    },
    answers: () => {
      const all = answers;
      answers = [];
      return all;
    },
    off: async (node, methods, whyNot) => sent(await Promise.all(methods.map((key) => send(node, key, 'off', whyNot)))),
    on: async (node, steps, whyNot) => {
      const all: One[] = [];
      for (const step of steps) all.push(...(await Promise.all(step.map((key) => send(node, key, 'on', whyNot)))));
      return sent(all);
    },
  };
}

function nothingRan(clock: Clock) {
  const atMs = clock.monoMs();
  return { begunMs: atMs, endedMs: atMs, detail: NO_METHOD };
}
