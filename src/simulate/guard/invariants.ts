import { planOf } from '../../core/guard/config.ts';
import type { MonoMs } from '../../core/reading.ts';
import type { Circumstances } from './circumstances.ts';
import { type Fact, factsOf, guardOf, type KindOf, type NodeName } from './facts.ts';
import { both, type Interval, intervalsOf, joined, lengthOf } from './intervals.ts';
import { OUT_OF_SERVICE } from './kubernetes.ts';
import { nothingFencedInAStorm, seenAfterMs } from './storm-invariant.ts';

/** What must hold in every world (guard.md 12.3, and G1, G9), whatever a scenario expects. */
export type Violation = { readonly invariant: string; readonly at: MonoMs; readonly text: string };
type Invariant = (facts: readonly Fact[], circumstances: Circumstances) => readonly Omit<Violation, 'invariant'>[];

/** guard.md 7.1, said again here: what is checked does not say what is right. */
const AUTHORITY_MS = 10_000;
/** One watch, the status it takes, and the two requests that follow. */
const WATCH_MS = 10_000;
const REACTION_MS = 8_000;
/** A new leader reads, adopts and looks. */
const ELECTED_MS = 10_000;
const ROUNDS_APART_MS = 5_000;
/** guard.md 8.3 (e): the second round is at most so old when the taint is sent. */
const PROOF_MS = 15_000;
/** So long after it began an answer is believed, beyond one watch and the deadline of the next one. */
const BELIEVED_RESERVE_MS = 5_000;
const MARK = /^nodewarden\./;
const FENCED_KEY = 'nodewarden.dev/fenced';

export const INVARIANTS: { readonly [name: string]: Invariant } = {
  'taint-needs-proof': taintNeedsProof,
  'taint-meets-no-running-machine': taintMeetsNoRunningMachine,
  'no-pod-twice': noPodTwice,
  'one-power-off': onePowerOff,
  'no-off-after-on': noOffAfterOn,
  'one-actor': oneActor,
  'no-act-without-authority': noActWithoutAuthority,
  'no-foreign-mark-removed': noForeignMarkRemoved,
  'no-on-under-foreign-taint': noOnUnderForeignTaint,
  'nothing-fenced-in-a-storm': nothingFencedInAStorm,
  'not-its-own-node': notItsOwnNode,
  'control-plane-one-at-a-time': controlPlaneOneAtATime,
  'nothing-new-while-settling': nothingNewWhileSettling,
  'dry-run-touches-nothing': dryRunTouchesNothing,
};

export function violationsOf(facts: readonly Fact[], circumstances: Circumstances): readonly Violation[] {
  return Object.entries(INVARIANTS)
    .flatMap(([invariant, check]) => check(facts, circumstances).map((broken) => ({ invariant, ...broken })))
    .toSorted((a, b) => a.at - b.at);
}

type TaintChange = KindOf<'taint-added' | 'taint-removed'>;

const isOwnTaint = (fact: Fact): fact is TaintChange =>
  (fact.kind === 'taint-added' || fact.kind === 'taint-removed') &&
  fact.key === OUT_OF_SERVICE &&
  MARK.test(fact.value);

/** G1, 8.3 (a): two rounds of every method of one level, at least 5 s apart, begun after the last off returned; or a person. */
export function taintNeedsProof(facts: readonly Fact[], { config }: Circumstances): ReturnType<Invariant> {
  const commands = factsOf(facts, 'command');
  const confirmed = new Set(factsOf(facts, 'confirmed').map(({ fencing }) => fencing));
  return factsOf(facts, 'taint-sent').flatMap(({ atMs, node, fencing }) => {
    if (confirmed.has(fencing)) return [];
    const earlier = commands.filter((one) => one.node === node && one.endMs <= atMs);
    const offEndMs = Math.max(
      ...earlier.filter((one) => one.fencing === fencing && one.action === 'off').map(({ endMs }) => endMs),
      0,
    );
    const isProven = (method: string): boolean => {
      const off = earlier.filter(
        (one) => one.method === method && one.action === 'status' && one.answer === 'off' && one.atMs >= offEndMs,
      );
      const [first] = off;
      const last = off.at(-1);
      return first !== undefined && last !== undefined && last.atMs - first.atMs >= ROUNDS_APART_MS;
    };
    const levels = planOf(config, node)?.levels ?? [];
    if (levels.some((level) => level.every(isProven))) return [];
    return [{ at: atMs, text: `${node} was tainted by ${fencing} without two rounds of off from a whole level` }];
  });
}

/** G2, beyond one watch after somebody else switched it on, or after the machine showed life. */
export function taintMeetsNoRunningMachine(
  facts: readonly Fact[],
  circumstances: Circumstances,
): ReturnType<Invariant> {
  const tainted = [...new Set(facts.filter(isOwnTaint).map(({ node }) => node))];
  const working = workingTimes(facts, circumstances);
  return tainted.flatMap((node) => {
    const own = facts.filter(isOwnTaint).filter((fact) => fact.node === node);
    const power = factsOf(facts, 'power').filter((fact) => fact.node === node);
    const taints = intervalsOf(own.map(({ atMs, kind }) => ({ atMs, isOn: kind === 'taint-added' })));
    const meetings = both(taints, intervalsOf(power, true));
    return meetings.flatMap((meeting) => {
      const switchedOn = power.findLast(({ atMs, isOn }) => isOn && atMs <= meeting.fromMs);
      const said = { at: meeting.fromMs, text: `${node} ran while it carried the guard's taint` };
      if (switchedOn?.atMs === meeting.fromMs) {
        if (switchedOn.by !== null) return [said];
      } else if (
        !isSwitchedOnAfterProof(facts, circumstances, switchedOn, meeting.fromMs) &&
        !isDeceived(facts, node, meeting.fromMs)
      ) {
        return [said];
      }
      // Whoever overrules a device does not want to hear from it.
      const isConfirmed = factsOf(facts, 'confirmed').some((one) => one.node === node && one.atMs <= meeting.fromMs);
      const blind = isConfirmed
        ? [{ fromMs: 0, toMs: Number.POSITIVE_INFINITY }]
        : intervalsOf(
            factsOf(facts, 'device')
              .filter((fact) => fact.node === node)
              .map(({ atMs, isSound }) => ({ atMs, isOn: !isSound })),
          );
      const whole = [{ ...meeting, toMs: Math.min(meeting.toMs, circumstances.untilMs) }];
      const watched = lengthOf(both(whole, working)) - lengthOf(both(both(whole, working), blind));
      const alive = both(whole, talkingTimes(facts, node));
      const unknown = isConfirmed ? [] : offUnknownTimes(facts, circumstances, node);
      const isTooLong =
        watched > WATCH_MS + REACTION_MS ||
        lengthOf(both(alive, working)) > WATCH_MS + REACTION_MS ||
        lengthOf(both(both(whole, working), unknown)) > REACTION_MS;
      return isTooLong ? [said] : [];
    });
  });
}

/** When no level of its devices has said off lately, and it was neither tainted nor somebody elected lately, who asks first. */
function offUnknownTimes(facts: readonly Fact[], { config }: Circumstances, node: NodeName): readonly Interval[] {
  const believedMs = WATCH_MS + config.deadlineMs + BELIEVED_RESERVE_MS;
  const since = (atMs: MonoMs): Interval => ({ fromMs: atMs, toMs: atMs + believedMs });
  const off = factsOf(facts, 'command').filter((one) => one.node === node && one.answer === 'off');
  const saidBy = (method: string): readonly Interval[] =>
    joined(off.flatMap((one) => (one.method === method ? [since(one.atMs)] : [])));
  const said = (planOf(config, node)?.levels ?? []).flatMap((level) => level.map(saidBy).reduce(both));
  const asking = factsOf(facts, 'leads').flatMap(({ atMs, isNew }) => (isNew ? [since(atMs + ELECTED_MS)] : []));
  const tainted = factsOf(facts, 'taint-added').flatMap((one) => (one.node === node ? [since(one.atMs)] : []));
  const known = joined([...said, ...asking, ...tainted]);
  const edges = known.flatMap(({ fromMs, toMs }) => [
    { atMs: fromMs, isOn: false },
    { atMs: toMs, isOn: true },
  ]);
  return intervalsOf(edges, true);
}

/** Somebody switched it on after the last word of a level that proved off, and the taint was sent while that was fresh. */
function isSwitchedOnAfterProof(
  facts: readonly Fact[],
  { config }: Circumstances,
  switchedOn: KindOf<'power'> | undefined,
  taintedMs: MonoMs,
): boolean {
  if (switchedOn === undefined || switchedOn.by !== null) return false;
  const { node, atMs } = switchedOn;
  const sentMs = factsOf(facts, 'taint-sent').findLast((one) => one.node === node && one.atMs <= taintedMs)?.atMs ?? 0;
  const answers = factsOf(facts, 'command')
    .filter((one) => one.node === node && one.action === 'status' && one.endMs <= sentMs)
    .toSorted((a, b) => a.endMs - b.endMs);
  const isProvenBefore = (method: string): boolean => {
    const last = answers.findLast((one) => one.method === method);
    return last?.answer === 'off' && !last.isLie && last.endMs <= atMs && sentMs - last.atMs <= PROOF_MS;
  };
  return (planOf(config, node)?.levels ?? []).some((level) => level.every(isProvenBefore));
}

/** A device of the node, or a person, said off while it ran: no proof can be better than its source. */
function isDeceived(facts: readonly Fact[], node: NodeName, atMs: MonoMs): boolean {
  return (
    factsOf(facts, 'command').some((one) => one.node === node && one.isLie && one.endMs <= atMs) ||
    factsOf(facts, 'confirmed').some((one) => one.node === node && one.atMs <= atMs)
  );
}

function talkingTimes(facts: readonly Fact[], node: NodeName): readonly Interval[] {
  const edges = factsOf(facts, 'silent', 'heard').filter((fact) => fact.node === node);
  return intervalsOf(
    edges.map(({ atMs, kind }) => ({ atMs, isOn: kind === 'heard' })),
    true,
  );
}

/** When a guard leads that runs, reaches the API, and has had time to look around. */
function workingTimes(facts: readonly Fact[], { untilMs }: Circumstances): readonly Interval[] {
  const ends = factsOf(facts, 'guard').filter(({ event }) => event !== 'heal' && event !== 'restart');
  const leading = factsOf(facts, 'leads').map(({ atMs, sentMs, isNew, guard }) => {
    const stopMs = ends.find((end) => end.atMs >= atMs && end.guard === guardOf(guard))?.atMs ?? untilMs;
    return { fromMs: isNew ? atMs + ELECTED_MS : atMs, toMs: Math.min(sentMs + AUTHORITY_MS, stopMs) };
  });
  const api = factsOf(facts, 'api').map(({ atMs, mode }) => ({
    atMs: mode === 'up' ? atMs + ELECTED_MS : atMs,
    isOn: mode === 'up',
  }));
  return both(joined(leading.filter(({ fromMs, toMs }) => fromMs < toMs)), intervalsOf(api, true));
}

/** A StatefulSet member is one process in the whole cluster. */
export function noPodTwice(facts: readonly Fact[]): ReturnType<Invariant> {
  const running = new Map<string, Map<string, NodeName>>();
  const broken: { at: MonoMs; text: string }[] = [];
  for (const fact of facts) {
    if (fact.kind !== 'pod-started' && fact.kind !== 'pod-stopped') continue;
    const copies = running.get(fact.pod) ?? new Map<string, NodeName>();
    running.set(fact.pod, copies);
    if (fact.kind === 'pod-stopped') copies.delete(fact.uid);
    else {
      for (const [uid, node] of copies) {
        if (uid === fact.uid || isExcused(facts, uid, node)) continue;
        broken.push({ at: fact.atMs, text: `${fact.pod} ran on ${node} and on ${fact.node} at once` });
      }
      copies.set(fact.uid, fact.node);
    }
  }
  return broken;
}

/** Somebody else freed it, or a person or a device said off of a machine that ran. */
function isExcused(facts: readonly Fact[], uid: string, node: NodeName): boolean {
  const freed = factsOf(facts, 'pod-freed').find((fact) => fact.uid === uid);
  if (freed === undefined) return false;
  if (freed.by === 'node-deleted') return true;
  if (freed.by !== 'out-of-service') return false;
  const taint = factsOf(facts, 'taint-added').findLast(
    (fact) => fact.node === node && fact.key === OUT_OF_SERVICE && fact.atMs <= freed.atMs,
  );
  return taint?.by === null || isDeceived(facts, node, freed.atMs);
}

/**
 * G4. Where its record was deleted by hand, a fencing that is decided anew may get the same name. And where somebody switched
 * the machine on before any device said off, nobody can tell that from an off without effect.
 */
export function onePowerOff(facts: readonly Fact[]): ReturnType<Invariant> {
  const off = new Map<string, { count: number; isSeen: boolean; isUndone: boolean }>();
  const of = (node: NodeName) => [...off].flatMap(([key, one]) => (key.startsWith(`${node} `) ? [one] : []));
  return factsOf(facts, 'power', 'decided', 'command').flatMap((fact) => {
    if (fact.kind === 'decided') off.delete(`${fact.node} ${fact.fencing}`);
    else if (fact.kind === 'command') {
      for (const one of of(fact.node)) one.isSeen ||= fact.action === 'status' && fact.answer === 'off';
    } else if (fact.isOn && fact.by === null) {
      for (const one of of(fact.node)) one.isUndone ||= !one.isSeen;
    } else if (!fact.isOn && fact.by !== null) {
      const key = `${fact.node} ${fact.by.fencing}`;
      const before = off.get(key);
      off.set(key, { count: (before?.count ?? 0) + 1, isSeen: false, isUndone: false });
      if (before !== undefined && !before.isUndone) {
        return [{ at: fact.atMs, text: `${fact.by.fencing} powered ${fact.node} off ${before.count + 1} times` }];
      }
    }
    return [];
  });
}

/** G4 */
export function noOffAfterOn(facts: readonly Fact[]): ReturnType<Invariant> {
  const on = new Set<string>();
  return factsOf(facts, 'command', 'decided').flatMap((fact) => {
    const { atMs, fencing, node } = fact;
    if (fact.kind === 'decided') on.delete(fencing);
    else if (fact.action === 'on') on.add(fencing);
    else if (fact.action === 'off' && on.has(fencing)) {
      return [{ at: atMs, text: `${fencing} sent off to ${node} after on` }];
    }
    return [];
  });
}

/** G8 */
export function oneActor(facts: readonly Fact[]): ReturnType<Invariant> {
  const acts = factsOf(facts, 'command').filter(({ action }) => action !== 'status');
  return acts.flatMap((act, i) => {
    const other = acts
      .slice(0, i)
      .find((one) => one.node === act.node && one.guard !== act.guard && one.atMs < act.endMs && act.atMs < one.endMs);
    const text = `${act.guard} and ${other?.guard} commanded the devices of ${act.node} at once`;
    return other === undefined ? [] : [{ at: act.atMs, text }];
  });
}

/** G8 */
export function noActWithoutAuthority(facts: readonly Fact[]): ReturnType<Invariant> {
  const leads = factsOf(facts, 'leads');
  const acts = [
    ...factsOf(facts, 'command').filter(({ action }) => action !== 'status'),
    ...factsOf(facts, 'taint-sent'),
  ];
  return acts.flatMap(({ atMs, guard, node }) => {
    const last = leads.findLast((one) => one.guard === guard && one.atMs <= atMs);
    const isHeld = last !== undefined && atMs < last.sentMs + AUTHORITY_MS;
    const isTaken = leads.some(
      (one) => one.guard !== guard && one.isNew && one.atMs <= atMs && one.atMs > (last?.atMs ?? 0),
    );
    return isHeld && !isTaken ? [] : [{ at: atMs, text: `${guard} acted on ${node} without authority` }];
  });
}

/** G11 */
export function noForeignMarkRemoved(facts: readonly Fact[]): ReturnType<Invariant> {
  return factsOf(facts, 'taint-removed').flatMap(({ atMs, node, key, value, by }) => {
    const isOwn = key === FENCED_KEY || (key === OUT_OF_SERVICE && MARK.test(value));
    return by === null || isOwn
      ? []
      : [{ at: atMs, text: `${by.guard} removed the foreign taint ${key} from ${node}` }];
  });
}

/** G11: beyond one watch, nothing is switched on under it but what has shown life since it was decided on. */
export function noOnUnderForeignTaint(facts: readonly Fact[], circumstances: Circumstances): ReturnType<Invariant> {
  const working = workingTimes(facts, circumstances);
  return factsOf(facts, 'command').flatMap(({ atMs, action, node, fencing }) => {
    if (action !== 'on') return [];
    const last = factsOf(facts, 'taint-added', 'taint-removed', 'node-deleted').findLast(
      (fact) => fact.node === node && fact.atMs <= atMs && (fact.kind === 'node-deleted' || isForeign(fact)),
    );
    if (last?.kind !== 'taint-added') return [];
    const decidedMs = factsOf(facts, 'decided').findLast((one) => one.fencing === fencing)?.atMs ?? 0;
    const seen = both([{ fromMs: last.atMs, toMs: atMs }], working);
    const alive = both([{ fromMs: decidedMs, toMs: atMs }], talkingTimes(facts, node));
    if (lengthOf(seen) <= WATCH_MS || alive.length > 0) return [];
    return [{ at: atMs, text: `${node} was switched on under an out-of-service taint of somebody else` }];
  });
}

const isForeign = ({ key, value }: TaintChange): boolean => key === OUT_OF_SERVICE && !MARK.test(value);

/** G9 */
export function notItsOwnNode(facts: readonly Fact[], { homes }: Circumstances): ReturnType<Invariant> {
  return factsOf(facts, 'command').flatMap(({ atMs, action, guard, node }) => {
    const isOwn = action === 'off' && homes.get(guardOf(guard)) === node;
    return isOwn ? [{ at: atMs, text: `${guard} powered off its own node ${node}` }] : [];
  });
}

/** G9: only if allowed, and while no other one is silent. */
export function controlPlaneOneAtATime(facts: readonly Fact[], around: Circumstances): ReturnType<Invariant> {
  const { config, controlPlane } = around;
  const silent = new Map<NodeName, MonoMs>();
  const isSilent = (node: NodeName, atMs: MonoMs): boolean => atMs - (silent.get(node) ?? atMs) >= seenAfterMs(around);
  return facts.flatMap((fact) => {
    if (fact.kind === 'silent') silent.set(fact.node, fact.sinceMs);
    if (fact.kind === 'heard' || fact.kind === 'node-deleted') silent.delete(fact.node);
    if (fact.kind !== 'command' || fact.action !== 'off' || !controlPlane.has(fact.node)) return [];
    const others = [...controlPlane].filter((node) => node !== fact.node && isSilent(node, fact.atMs));
    if (config.controlPlane === 'oneAtATime' && others.length === 0) return [];
    return [{ at: fact.atMs, text: `${fact.node} of the control plane was powered off` }];
  });
}

/** An outage that is shorter may pass between two requests. */
const NOTICED_MS = 20_000;

/** G6: not just elected, not just after the API server came back. */
export function nothingNewWhileSettling(facts: readonly Fact[], { config }: Circumstances): ReturnType<Invariant> {
  const api = intervalsOf(factsOf(facts, 'api').map(({ atMs, mode }) => ({ atMs, isOn: mode === 'down' })));
  const outages = api.filter(({ fromMs, toMs }) => toMs - fromMs >= NOTICED_MS);
  const elected = new Map<string, MonoMs>();
  return factsOf(facts, 'leads', 'decided').flatMap((fact) => {
    if (fact.kind === 'leads') {
      if (fact.isNew) elected.set(fact.guard, fact.atMs);
      return [];
    }
    const { atMs, guard, node } = fact;
    const sinceMs = Math.max(
      elected.get(guard) ?? atMs,
      // While it lasts, nothing can be stored, and so nothing begins.
      ...outages.filter(({ toMs }) => toMs <= atMs).map(({ toMs }) => toMs),
    );
    return atMs - sinceMs >= config.settleMs ? [] : [{ at: atMs, text: `${guard} decided on ${node} while settling` }];
  });
}

export function dryRunTouchesNothing(facts: readonly Fact[], { config }: Circumstances): ReturnType<Invariant> {
  if (!config.dryRun) return [];
  return facts.flatMap((fact) => {
    const isWrite =
      fact.kind === 'phase' || fact.kind === 'taint-sent' || (fact.kind === 'command' && fact.action !== 'status');
    return isWrite ? [{ at: fact.atMs, text: `${fact.guard} touched ${fact.node} in dry run` }] : [];
  });
}
