import { type Act, type GuardDecision, isStep, type StatusAsk, type Store } from '../../../core/guard/decision.ts';
import { MARK } from '../../../core/guard/node-facts.ts';
import type { ActResult, AgentRun, DeviceAnswer, GuardOutcome } from '../../../core/guard/observation.ts';
import type { NodeRef } from '../../../core/guard/record.ts';
import type { RunResult } from '../device.ts';
import type { Actor } from '../facts.ts';
import { OUT_OF_SERVICE } from '../kubernetes.ts';
import type { Taint } from '../objects.ts';
import type { World } from '../world.ts';
import type { Client, Clocks, Identity, Lifeline } from './lifeline.ts';
import { GUARD_ORDERS, recordName, storedOrders } from './senses.ts';

export const FENCED = 'nodewarden.dev/fenced';

type Parts = {
  readonly world: World;
  readonly identity: Identity;
  readonly lifeline: Lifeline;
  readonly clocks: Clocks;
  readonly client: Client;
  readonly deadlineMs: number;
  readonly hasAuthority: () => boolean;
  readonly whyNotNow: (of: { readonly fencing: string; readonly act: Act }) => string | null;
  readonly outcome: (outcome: GuardOutcome) => void;
  readonly answer: (answer: DeviceAnswer) => void;
};
export type Hands = {
  /** Of one look: first the compare-and-swap, then, if it was stored, the act; of an order, its answer before both. */
  readonly carryOut: (decisions: readonly GuardDecision[]) => void;
  readonly ask: (asks: readonly StatusAsk[]) => void;
};
type Done<T> = (result: T) => void;

export function createHands(parts: Parts): Hands {
  const { world, identity, lifeline, clocks, client, hasAuthority } = parts;
  const { store, agenda, tell } = world;
  const underWay = new Set<string>();

  function carryOut(decisions: readonly GuardDecision[]): void {
    const carried = decisions.flatMap((decision) => (decision.kind === 'answer' ? (decision.carries ?? []) : []));
    for (const decision of decisions) {
      if (carried.includes(decision.id)) continue;
      const of = decision.kind === 'answer' ? decision.carries : null;
      if (decision.kind === 'answer') storeAnswer(decision, decisions.find(({ id }) => id === of) ?? null);
      else carryOutOne(decision);
    }
  }

  function carryOutOne(decision: Exclude<GuardDecision, { kind: 'answer' }>): void {
    switch (decision.kind) {
      case 'hold':
      case 'resign':
        return;
      case 'unmark':
        perform(decision.act, decision.node, decision.value.replace(/^nodewarden\./, ''), (act) =>
          settle(decision, null, null, act),
        );
        return;
      default:
        if (decision.kind !== 'fence' || !decision.isDry) storeThenAct(decision);
    }
  }

  function settle(
    { id }: GuardDecision,
    fencing: string | null,
    stored: GuardOutcome['store'],
    act: ActResult | null,
  ): void {
    parts.outcome({ of: id, fencing, atMs: clocks.monoMs(), store: stored, act });
  }

  function storeThenAct(decision: Extract<GuardDecision, Store>): void {
    const { fencing, record, replaces, act, node } = decision;
    if (!hasAuthority()) {
      settle(decision, fencing, { kind: 'failed' }, null);
      return;
    }
    const name = recordName(fencing);
    const written = (): number | null =>
      store.write(name, replaces === null ? null : Number(replaces), record)
        ? (store.read(name)?.version ?? null)
        : null;
    client.ask(
      () => {
        const version = written();
        if (version !== null) {
          const { phase, why } = record;
          tell({
            kind: 'phase',
            atMs: agenda.now(),
            node: node.name,
            fencing,
            guard: identity.writer,
            phase,
            why: why ?? '',
            record,
            isStep: isStep(decision),
          });
        }
        return { version };
      },
      (answer) => {
        if (answer === null) settle(decision, fencing, { kind: 'failed' }, null);
        else if (answer.version === null) settle(decision, fencing, { kind: 'conflict' }, null);
        else {
          const stored = { kind: 'stored', version: String(answer.version) } as const;
          if (act === null) settle(decision, fencing, stored, null);
          else perform(act, node, fencing, (result) => settle(decision, fencing, stored, result));
        }
      },
    );
  }

  function perform(act: Act, node: NodeRef, fencing: string, done: Done<ActResult>): void {
    if (!hasAuthority()) {
      done({ kind: 'not-begun', detail: 'authority ended' });
      return;
    }
    const why = parts.whyNotNow({ fencing, act });
    if (why !== null) {
      done({ kind: 'not-begun', detail: why });
      return;
    }
    switch (act.kind) {
      case 'off':
        runAll(act.methods, 'off', node, fencing, (runs) => done({ kind: 'ran', runs }));
        return;
      case 'on':
        runSteps(act.steps, node, fencing, [], (runs) => done({ kind: 'ran', runs }));
        return;
      case 'tell':
        patchTold(act, node, fencing, done);
        return;
      case 'untell':
      case 'clear':
        removeMarks(act.kind, node, fencing, done);
    }
  }

  const actorOf = (fencing: string): Actor => ({ guard: identity.writer, fencing });

  /** One run of an agent. It goes on when its guard is gone, to its end or its deadline. */
  function run(
    method: string,
    action: 'status' | 'off' | 'on',
    node: NodeRef,
    fencing: string,
    done: Done<RunResult>,
  ): void {
    const device = world.devices.get(method);
    const atMs = agenda.now();
    const by = actorOf(fencing);
    if (device === undefined) throw new Error(`no device ${method}`);
    device.run({
      action,
      deadlineMs: parts.deadlineMs,
      by,
      done: (result) => {
        const { answer, isLie } = result;
        tell({ ...by, kind: 'command', atMs, node: node.name, method, action, endMs: agenda.now(), answer, isLie });
        lifeline.deliver(() => done(result));
      },
    });
  }

  function runAll(
    methods: readonly string[],
    action: 'off' | 'on',
    node: NodeRef,
    fencing: string,
    done: Done<readonly AgentRun[]>,
  ): void {
    const runs: AgentRun[] = [];
    const begunMs = clocks.monoMs();
    if (methods.length === 0) done(runs);
    for (const method of methods) {
      run(method, action, node, fencing, ({ isDone, detail }) => {
        runs.push({ method, isOk: isDone, begunMs, endedMs: clocks.monoMs(), detail });
        if (runs.length === methods.length) done(runs);
      });
    }
  }

  function runSteps(
    [first, ...rest]: readonly (readonly string[])[],
    node: NodeRef,
    fencing: string,
    before: readonly AgentRun[],
    done: Done<readonly AgentRun[]>,
  ): void {
    if (first === undefined || !hasAuthority()) {
      done(before);
      return;
    }
    runAll(first, 'on', node, fencing, (runs) => runSteps(rest, node, fencing, [...before, ...runs], done));
  }

  type Patched = { readonly kind: 'patched' } | { readonly kind: 'failed'; readonly why: 'conflict' | 'gone' };

  function patchTold(
    { resourceVersion, notAfterMs }: Extract<Act, { kind: 'tell' }>,
    { name, uid }: NodeRef,
    fencing: string,
    done: Done<ActResult>,
  ): void {
    if (clocks.monoMs() > notAfterMs) {
      done({ kind: 'not-begun', detail: 'the proof is too old' });
      return;
    }
    const taints: readonly Taint[] = [
      { key: OUT_OF_SERVICE, value: `${MARK}${fencing}`, effect: 'NoExecute' },
      { key: FENCED, value: fencing, effect: 'NoSchedule' },
    ];
    tell({ ...actorOf(fencing), kind: 'taint-sent', atMs: agenda.now(), node: name });
    patch(name, done, () => {
      const node = store.node(name);
      if (node?.uid !== uid) return { kind: 'failed', why: 'gone' };
      if (String(node.version) !== resourceVersion) return { kind: 'failed', why: 'conflict' };
      const isMark = ({ key, value }: Taint): boolean =>
        key === FENCED || (key === OUT_OF_SERVICE && value.startsWith(MARK));
      tellRemoved(node.taints.filter(isMark), name, fencing);
      const others = node.taints.filter((taint) => !isMark(taint));
      // Who has set it out of service by hand keeps that (G11).
      const added = taints.filter((taint) => others.every(({ key }) => key !== taint.key));
      store.putNode(name, { taints: [...others, ...added], fenced: String(agenda.now()) });
      for (const { key, value } of added) {
        tell({ kind: 'taint-added', atMs: agenda.now(), node: name, key, value, by: actorOf(fencing) });
      }
      world.kubernetes.tainted(name);
      return { kind: 'patched' };
    });
  }

  function removeMarks(kind: 'untell' | 'clear', { name, uid }: NodeRef, fencing: string, done: Done<ActResult>): void {
    patch(name, done, () => {
      const node = store.node(name);
      if (node?.uid !== uid) return { kind: 'failed', why: 'gone' };
      const isOurs = ({ key, value }: Taint): boolean =>
        (key === OUT_OF_SERVICE && value === `${MARK}${fencing}`) ||
        (kind === 'clear' && key === FENCED && value === fencing);
      store.putNode(name, {
        taints: node.taints.filter((taint) => !isOurs(taint)),
        fenced: kind === 'clear' ? null : node.fenced,
      });
      tellRemoved(node.taints.filter(isOurs), name, fencing);
      return { kind: 'patched' };
    });
  }

  function tellRemoved(taints: readonly Taint[], node: string, fencing: string): void {
    for (const { key, value } of taints) {
      tell({ kind: 'taint-removed', atMs: agenda.now(), node, key, value, by: actorOf(fencing) });
    }
  }

  function patch(name: string, done: Done<ActResult>, act: () => Patched): void {
    client.ask(act, (answer) => {
      if (answer === null) done({ kind: 'failed', why: 'error', detail: 'no answer' });
      else if (answer.kind === 'patched') done(answer);
      else done({ ...answer, detail: `node ${name}` });
    });
  }

  /** An order's answer, then what it carries; written again if another writer came between, as a client retries on a conflict. */
  function storeAnswer(decision: Extract<GuardDecision, { kind: 'answer' }>, carried: GuardDecision | null): void {
    const end = (version: string | null): void => {
      settle(decision, null, version === null ? { kind: 'failed' } : { kind: 'stored', version }, null);
      if (carried === null || carried.kind === 'answer') return;
      if (version !== null) carryOutOne(carried);
      else if ('record' in carried) settle(carried, carried.fencing, { kind: 'failed' }, null);
    };
    if (!hasAuthority()) {
      end(null);
      return;
    }
    client.ask(() => {
      const { orders, answers } = storedOrders(store);
      store.write(GUARD_ORDERS, store.read(GUARD_ORDERS)?.version ?? null, {
        orders,
        answers: { ...answers, [decision.order]: decision.answer },
      });
      return String(store.read(GUARD_ORDERS)?.version ?? '');
    }, end);
  }

  return {
    carryOut,
    ask: (asks) => {
      for (const { node, method } of asks) {
        const key = `${node.uid} ${method}`;
        if (underWay.has(key)) continue;
        underWay.add(key);
        const begunMs = clocks.monoMs();
        run(method, 'status', node, '', ({ answer, detail }) => {
          underWay.delete(key);
          parts.answer({ node: node.uid, method, says: answer, begunMs, endedMs: clocks.monoMs(), detail });
        });
      }
    },
  };
}
