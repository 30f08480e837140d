import { planOf } from './config.ts';
import type { Frees, GateRow } from './decision.ts';
import { freshSince, heardOn, lackOfLevel, levelOffAlready, refOf, useOf } from './devices.ts';
import { NOTHING_FREED, toBeFreed } from './freed.ts';
import { type AtGate, atGate, firstShut, gatesOf, type Look } from './gates.ts';
import { ageOf, isDead, TWO_LOOKS_MS, wasHeard } from './health.ts';
import { type Progress, withDecisions, withNewFencing } from './progress.ts';
import { keptOff } from './rate.ts';
import type { FencingRecord, Phase } from './record.ts';
import { levelToRehearse } from './rehearsal.ts';
import { type Fencing, type GuardState, type HeldBy, nodeOrSuccessor } from './state.ts';
import { isOrderedOn } from './turn.ts';
import { FRESH_MS, freesOf, leftOf } from './worth.ts';

/** A dead node that is not in a fencing, and its first closed gate; null: all are open. */
export type DeadNode = { readonly at: AtGate; readonly closed: GateRow | null };

export const isSettled = ({ state: { self }, observation: { atMs } }: Pick<Look, 'state' | 'observation'>): boolean =>
  atMs >= self.settlesMs;

/** All dead nodes at their gates (guard.md 6.2). */
export function deadNodes(look: Look): readonly DeadNode[] {
  const { state, asOfMs } = look;
  const settled = isSettled(look);
  const fenced = fencedUids(state);
  const dead: DeadNode[] = [];
  for (const memory of state.nodes.values()) {
    if (!isDead(memory, asOfMs) || fenced.has(memory.object.uid)) continue;
    const at = atGate(look, memory, ageOf(memory, asOfMs, settled), null);
    dead.push({ at, closed: firstShut(at) });
  }
  return dead;
}

export function fencedUids({
  fencings,
  dryFenced,
  nodes,
}: Pick<GuardState, 'fencings' | 'dryFenced' | 'nodes'>): ReadonlySet<string> {
  return new Set([...[...fencings.values()].map((fencing) => uidOf(fencing, nodes)), ...dryFenced.keys()]);
}

/** A Node that was made anew is not dead while its machine boots because a person wanted it to. */
function uidOf({ record, pending }: Fencing, nodes: GuardState['nodes']): string {
  const meant = pending?.becomes ?? record;
  const isBooting = BOOTING.has(meant.phase) && isOrderedOn(meant, nodes);
  return (isBooting ? nodeOrSuccessor(meant.node, nodes)?.object.uid : null) ?? record.node.uid;
}
const BOOTING: ReadonlySet<Phase> = new Set(['on-sent', 'booting']);

/** Fences the first of those that nothing holds, if there is one. */
export function fenceOne(progress: Progress, look: Look, dead: readonly DeadNode[]): Progress {
  const first = dead
    .filter(({ closed }) => closed === null)
    .map(({ at }) => at)
    .sort(compare)[0];
  if (first === undefined) return progress;
  return withNewFencing(progress, look, recordOf(first), { gates: gatesOf(first), frees: freesAt(first) });
}

/** Highest pod priority, then volumes, then longest dead, then name. */
function compare(a: AtGate, b: AtGate): number {
  const one = weightOf(a);
  const other = weightOf(b);
  return (
    other.priority - one.priority ||
    other.volumes - one.volumes ||
    (b.ageMs ?? 0) - (a.ageMs ?? 0) ||
    (a.memory.object.name < b.memory.object.name ? -1 : 1)
  );
}

function weightOf({ memory, observation }: AtGate): { readonly priority: number; readonly volumes: number } {
  const left = leftOf(memory.object, observation, observation.atMs - FRESH_MS);
  if (!left.known) return { priority: LEAST_PRIORITY, volumes: 0 };
  const priority = left.value.pods.reduce((most, pod) => Math.max(most, pod.priority), LEAST_PRIORITY);
  return { priority, volumes: left.value.attachments.length };
}
/** Kubernetes' priorities are 32 bits. */
const LEAST_PRIORITY = -(2 ** 31);

/** What a fencing of the node would free; null: not known. */
export function freesAt({ memory, observation }: AtGate): Frees | null {
  const frees = freesOf(memory.object, observation, observation.atMs - FRESH_MS);
  return frees.known ? frees.value : null;
}

/** The record with which a fencing begins. */
export function recordOf(at: AtGate, order: FencingRecord['order'] = null): FencingRecord {
  const { memory, observation, config, state, ageMs } = at;
  const { object } = memory;
  const { atMs, wallMs, self } = observation;
  const plan = planOf(config, object.name) ?? { isolation: [], levels: [] };
  const isRehearsal = order?.verb === 'rehearse';
  const use = useOf(config, isRehearsal);
  const freshMs = freshSince(memory, atMs);
  const already = isRehearsal ? null : levelOffAlready(object.uid, plan, state.devices, freshMs, use);
  const level = isRehearsal
    ? (levelToRehearse(object.uid, plan, state.devices, freshMs) ?? -1)
    : plan.levels.findIndex((methods) => lackOfLevel(object.uid, methods, state.devices, freshMs, use) === null);
  const isAlive = !memory.isSuspect;
  const frees = freesAt(at);
  return {
    schema: 1,
    id: `${object.key}-${nextCount(at)}`,
    node: refOf(memory),
    purpose: isRehearsal ? 'rehearse' : 'fence',
    phase: 'decided',
    revision: 1,
    epoch: self.leadership.isLeader ? self.leadership.epoch : 0,
    writer: self.writer,
    plan,
    level: already ?? Math.max(0, level),
    attempt: 0,
    retries: 0,
    offSent: [],
    onSent: [],
    cutWallMs: null,
    offHeard: [],
    onHeard: heardOn(object.uid, plan, state.devices),
    onAttempt: 0,
    renewed: isAlive ? null : (memory.lease?.renewed ?? null),
    order,
    proof: null,
    staysOff: isRehearsal ? null : keptOff(at, object.uid, null),
    isAlive: false,
    why: already === null ? null : 'off-already',
    answers: [],
    freed: isRehearsal ? NOTHING_FREED : frees && toBeFreed(frees),
    steps: [{ phase: 'decided', wallMs }],
    silentMs: ageMs ?? 0,
    wasHeard: ageMs !== null && wasHeard(memory),
  };
}

/** One more than the highest count of the node's records, open ones that are not yet read back included. */
function nextCount({ memory, observation: { records }, state }: AtGate): number {
  const prefix = `${memory.object.key}-`;
  const ids = [...state.fencings.keys(), ...(records.known ? records.value.map(({ id }) => id) : [])];
  const counts = ids.filter((id) => id.startsWith(prefix)).map((id) => Number(id.slice(prefix.length)));
  return 1 + counts.reduce((most, count) => (Number.isSafeInteger(count) ? Math.max(most, count) : most), 0);
}

/** Tells of each dead node what keeps it from being fenced, when that is news. */
export function withHolds(progress: Progress, look: Look, all: readonly DeadNode[]): Progress {
  const before = look.state.held;
  const dead = all.filter((one) => !isBeingAsked(one, look));
  const news = dead.filter(({ at, closed }) => !isSaid(before.get(at.memory.object.uid), closed));
  if (news.length === 0 && dead.length === before.size) return progress;
  const held = new Map(dead.map(({ at, closed }) => [at.memory.object.uid, heldBy(closed)]));
  const shut = news.filter(({ closed }) => closed !== null);
  const bodies = shut.map(({ at }) => ({ kind: 'hold', node: refOf(at.memory), gates: gatesOf(at) }) as const);
  const told = withDecisions(progress, look, bodies);
  return { ...told, state: { ...told.state, held } };
}

/** What is not known of a node that is dead since a moment ago was asked a moment ago: that is no hold yet. */
function isBeingAsked({ at, closed }: DeadNode, { observation, config }: Look): boolean {
  if (closed === null || !NOT_KNOWN.has(closed.because)) return false;
  const { overdueMs } = at.memory;
  // An agent that does not answer is ended at its deadline, and then that is known.
  const answersInMs = closed.because === 'not-asked' ? config.deadlineMs : 0;
  return overdueMs !== null && observation.atMs - overdueMs < TWO_LOOKS_MS + ASKED_WITHIN_MS + answersInMs;
}
const NOT_KNOWN: ReadonlySet<GateRow['because']> = new Set(['witness-unknown', 'stuck-unknown', 'silent', 'not-asked']);
const ASKED_WITHIN_MS = 10_000;

const isSaid = (said: HeldBy | null | undefined, closed: GateRow | null): boolean =>
  said === null || closed === null || said === undefined
    ? said === closed
    : said.gate === closed.gate && said.because === closed.because;
const heldBy = (closed: GateRow | null): HeldBy | null =>
  closed === null ? null : { gate: closed.gate, because: closed.because };
