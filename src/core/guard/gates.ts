import { type MonoMs, unknown } from '../reading.ts';
import { type GuardConfig, meets, planOf } from './config.ts';
import type { GateName, GateRow } from './decision.ts';
import { freshSince, IN_TIME_MS, lackOfPlan, levelOffAlready, returnedMs, slowestMs, useOf } from './devices.ts';
import {
  ageOf,
  FRESH_CORDON_MS,
  hasLease,
  isDead,
  isSkipped,
  limitsOf,
  plannedBy,
  TWO_LOOKS_MS,
  wasHeard,
} from './health.ts';
import { lives } from './living-as.ts';
import type { GuardObservation } from './observation.ts';
import { controlPlaneHold, cutsWallMs, inFlight, rateHold } from './rate.ts';
import type { StoredRecord } from './record.ts';
import { LEAST_AUTHORITY_MS, READ_AWAY_MS, staleMs, WRITE_AWAY_MS } from './self.ts';
import { deviceKey, type GuardState, type NodeMemory } from './state.ts';
import { holdOn, isReleased, wasOver } from './storm.ts';
import { FRESH_MS, freesOf, isNothing, readSince } from './worth.ts';

/** One look, after everything of it is taken in. */
export type Look = {
  readonly state: GuardState;
  readonly observation: GuardObservation;
  readonly config: GuardConfig;
  /** When what is known of the nodes was read. */
  readonly asOfMs: MonoMs;
  /** Why nothing new may be begun (G6); null: it may. */
  readonly self: Shut | null;
};

export function lookOf(state: GuardState, observation: GuardObservation, config: GuardConfig): Look {
  const asOfMs = observation.nodes.known ? observation.nodes.value.asOfMs : observation.atMs;
  return { state, observation, config, asOfMs, self: selfShut({ state, observation, config }) };
}

/** A node at its gates. `fencing`: the one that is begun again, which does not stand in its own way. */
export type AtGate = Look & {
  readonly memory: NodeMemory;
  readonly ageMs: number | null;
  readonly fencing: string | null;
  readonly isRehearsal: boolean;
};

export type Shut = Omit<GateRow, 'gate' | 'isOpen'>;
const shut = (
  because: Shut['because'],
  value: Shut['value'] = null,
  limit: Shut['limit'] = null,
  opensMs: MonoMs | null = null,
): Shut => ({ because, value, isAtLeast: false, limit, opensMs });
/** `isExact`: this process saw all of what is compared. */
const orMore = (closed: Shut, isExact: boolean): Shut => ({ ...closed, isAtLeast: !isExact });

/** guard.md 6.2: null = open. In the order of `GATES`, and the first closed one is the reason. */
const RULES: { readonly [G in GateName]: (at: AtGate) => Shut | null } = {
  self: ({ self }) => self,
  scope: (at) => {
    const { memory, state, observation, config } = at;
    const scope = livesAsShut(at) ?? scopeShut(memory, state, observation, config);
    const record = recordShut(memory, observation);
    return scope === null ? record : { ...scope, opensMs: record === null ? scope.opensMs : null };
  },
  planned: ({ memory, ageMs, observation: { atMs }, asOfMs, config: { plannedWaitMs } }) => {
    const by = plannedBy(memory, atMs);
    if (by === null || (ageMs ?? 0) >= plannedWaitMs) return null;
    const waitedMs = ageMs === null ? null : asOfMs - ageMs + plannedWaitMs;
    const oldMs = by === 'cordon' && memory.cordonedMs !== null ? memory.cordonedMs + FRESH_CORDON_MS : null;
    const opensMs = waitedMs === null || oldMs === null ? (waitedMs ?? oldMs) : Math.min(waitedMs, oldMs);
    return orMore(shut(by, ageMs, plannedWaitMs, opensMs), wasHeard(memory));
  },
  dead: (at) => {
    const { memory, ageMs, asOfMs, config } = at;
    if (isDead(memory, asOfMs)) return bootingShut(at);
    const limitMs = limitsOf(memory.lease, config).deadAfterMs;
    if (ageMs === null) return shut(hasLease(memory) ? 'no-age' : 'no-lease', null, limitMs);
    const because = memory.overdueMs === null ? 'not-silent-enough' : 'seen-once';
    const opensMs = Math.max(asOfMs - ageMs + limitMs, memory.overdueMs ?? asOfMs) + TWO_LOOKS_MS;
    return orMore(shut(because, ageMs, limitMs, opensMs), wasHeard(memory));
  },
  witness: ({ memory, state, observation, config, fencing }) => {
    if (config.kubeletAnswers === 'ignore') return null;
    const asked = observation.asked.get(memory.object.uid)?.witness ?? unknown('not-asked', 'kubelet', '');
    // What it did before its node came to says nothing of it.
    const freshMs = Math.max(observation.atMs - FRESH_MS, memory.livesMs ?? Number.NEGATIVE_INFINITY);
    const witness = readSince(asked, freshMs, 'kubelet');
    if (!witness.known) return shut('witness-unknown', witness.why);
    if (witness.value === 'answers') return shut('kubelet-answers', witness.value);
    // It lives without the API: its kubelet may be away for as long as one that reaches the API. Who was not elected yet asked nobody;
    // a fencing was begun by one who had.
    const heardMs = memory.answeredMs ?? Number.NEGATIVE_INFINITY;
    const sinceMs = fencing === null ? Math.max(heardMs, state.self.electedMs ?? heardMs) : heardMs;
    const { deadAfterMs } = limitsOf(memory.lease, config);
    const silentMs = observation.atMs - sinceMs;
    if (silentMs >= deadAfterMs) return null;
    const because = sinceMs === heardMs ? 'kubelet-answered' : 'kubelet-unheard';
    return orMore(shut(because, silentMs, deadAfterMs, sinceMs + deadAfterMs), sinceMs === heardMs);
  },
  worth: ({ memory, observation, config: { fenceWhen } }) => {
    if (fenceWhen === 'always') return null;
    const frees = freesOf(memory.object, observation, observation.atMs - FRESH_MS);
    if (!frees.known) return shut('stuck-unknown', frees.why);
    return isNothing(frees.value) ? shut('nothing-to-free', 0, 1) : null;
  },
  device: ({ memory, state: { devices }, observation: { atMs }, config, isRehearsal }) => {
    const plan = planOf(config, memory.object.name);
    if (plan === null) return shut('no-method');
    const { uid } = memory.object;
    const lack = lackOfPlan(uid, plan.levels, devices, freshSince(memory, atMs), useOf(config, isRehearsal));
    if (lack === 'too-slow')
      return shut(lack, slowestMs(plan.levels.flat().map((method) => devices.get(deviceKey(uid, method)))), IN_TIME_MS);
    return lack === null ? null : shut(lack, 0, plan.levels.length);
  },
  storm: (at) => {
    const { atMs } = at.observation;
    const hold = holdOn(at.memory, at.state, atMs);
    if (hold === null || isOff(at)) return null;
    if (hold.endedMs === null) return shut(hold.kind, 'lasts');
    const { coolDownMs } = at.config.storm;
    return orMore(shut('cool-down', atMs - hold.endedMs, coolDownMs, hold.endedMs + coolDownMs), !wasOver(hold));
  },
  rate: rateShut,
};

/** A machine that was switched on, or whose power came back, boots by itself if it is left alone. */
export function bootingShut({ memory, state, observation, config }: Look & Pick<AtGate, 'memory'>): Shut | null {
  const plan = planOf(config, memory.object.name);
  const sinceMs = plan === null ? null : returnedMs(memory, plan.levels.flat(), state.devices);
  const { bootTimeMs } = config.recovery;
  if (sinceMs === null || observation.atMs - sinceMs >= bootTimeMs) return null;
  return orMore(shut('may-be-booting', observation.atMs - sinceMs, bootTimeMs, sinceMs + bootTimeMs), false);
}

/** Every gate, open or closed, for a person to see. */
export function gatesOf(at: AtGate): readonly GateRow[] {
  return GATE_NAMES.map((gate) => rowOf(gate, RULES[gate](at)));
}

/** The first closed gate of those not skipped; null: all are open. */
export function firstShut(at: AtGate, skipped: readonly GateName[] = []): GateRow | null {
  for (const gate of GATE_NAMES) {
    const closed = skipped.includes(gate) ? null : RULES[gate](at);
    if (closed !== null) return rowOf(gate, closed);
  }
  return null;
}

const GATE_NAMES = Object.keys(RULES) as readonly GateName[];

function rowOf(gate: GateName, closed: Shut | null): GateRow {
  if (closed !== null) return { gate, isOpen: false, ...closed };
  return { gate, isOpen: true, because: 'open', value: null, isAtLeast: false, limit: null, opensMs: null };
}

/** Whether this process may act at all; what is under way goes on behind this gate alone. */
export function authorityShut({ observation: { atMs, self } }: Pick<Look, 'observation'>): Shut | null {
  const { leadership } = self;
  if (!leadership.isLeader) return shut('not-leader');
  const leftMs = leadership.authorityUntilMs - atMs;
  return leftMs < LEAST_AUTHORITY_MS ? shut('authority', leftMs, LEAST_AUTHORITY_MS) : null;
}

/** G6. */
function selfShut({ state, observation, config }: Pick<Look, 'state' | 'observation' | 'config'>): Shut | null {
  const { atMs, records, kept, self } = observation;
  const { settlesMs, settlesFor } = state.self;
  const runs = self.leadership.isLeader ? null : (self.leadership.runs ?? null);
  if (runs !== null) return shut('nobody-leads', runs.why, null, runs.fromMs + config.settleMs);
  const authority = authorityShut({ observation });
  if (authority !== null) return authority;
  if (!records.known) return shut('records-unknown', records.why);
  const nameless = unreadableOf(records.value, null);
  if (nameless !== null) return shut('records-unknown', nameless);
  const epoch = epochShut({ observation });
  if (epoch !== null) return epoch;
  if (!kept.known) return shut('kept-unknown', kept.why);
  const lasting = lastingShut({ state, observation });
  if (atMs >= settlesMs) return lasting;
  return shut('settling', settlesFor, settlesMs - atMs, lasting === null ? settlesMs : null);
}

/** What of itself no time alone mends. */
function lastingShut({ state, observation }: Pick<Look, 'state' | 'observation'>): Shut | null {
  const { atMs } = observation;
  if (state.paused !== null) return shut('paused', state.paused.by);
  const reads = readsShut({ state, observation });
  if (reads !== null) return reads;
  const writeMs = observation.self.lastWriteMs;
  if (writeMs === null || atMs - writeMs > WRITE_AWAY_MS) {
    return shut('api-writes', writeMs === null ? null : atMs - writeMs, WRITE_AWAY_MS);
  }
  return null;
}

/** What is read of the nodes may be old. */
export function readsShut({ state, observation: { atMs } }: Pick<Look, 'state' | 'observation'>): Shut | null {
  const { readMs, anySignMs } = state.self;
  if (readMs === null || atMs - readMs > READ_AWAY_MS) {
    return shut('api-reads', readMs === null ? null : atMs - readMs, READ_AWAY_MS);
  }
  const quietMs = anySignMs === null ? null : atMs - anySignMs;
  const limitMs = staleMs(state.nodes);
  return quietMs === null || quietMs > limitMs ? shut('no-sign-from-anybody', quietMs, limitMs) : null;
}

/** A record of a higher epoch: somebody else leads, whatever the lease says (guard.md 7.2). */
export function epochShut({ observation: { records, self } }: Pick<Look, 'observation'>): Shut | null {
  const { leadership } = self;
  if (!records.known || !leadership.isLeader) return null;
  const highest = records.value.reduce((most, { record }) => Math.max(most, record?.epoch ?? 0), 0);
  return highest > leadership.epoch ? shut('higher-epoch', highest, leadership.epoch) : null;
}

/**
 * It may be the machine of another Node, the silence of which may be intended, or that of a switch: it is cut for none of its names
 * that is not to be.
 */
function livesAsShut(at: AtGate): Shut | null {
  const { state, asOfMs, observation, config } = at;
  const memory = state.nodes.get(state.livingAs.get(at.memory.object.uid) ?? '');
  if (memory === undefined) return null;
  const { name, uid } = memory.object;
  const fencing = [...state.fencings.values()].find(({ record }) => record.node.uid === uid);
  // Its devices, or a person, said that it is off.
  if (fencing?.record.phase === 'left-off') return null;
  const isFenced = fencing !== undefined || state.dryFenced.has(uid);
  const ageMs = ageOf(memory, asOfMs, observation.atMs >= state.self.settlesMs);
  const other: AtGate = { ...at, memory, ageMs, fencing: null };
  const mayLive =
    lives(memory, asOfMs) ||
    bootingShut(other) !== null ||
    scopeShut(memory, state, observation, config) !== null ||
    recordShut(memory, observation) !== null ||
    MAY_LIVE.some((gate) => RULES[gate](other) !== null);
  return isFenced || mayLive ? shut('lives-as', name) : null;
}
/** What else says that a machine may run though it is silent. */
const MAY_LIVE = ['planned', 'witness', 'storm'] as const;

/** Never the own node, nor one that is somebody else's (G9, guard.md 10). */
export function scopeShut(
  memory: NodeMemory,
  { nodes }: Pick<GuardState, 'nodes'>,
  { atMs, self }: Pick<GuardObservation, 'atMs' | 'self'>,
  config: GuardConfig,
): Shut | null {
  const { object, facts, skippedMs } = memory;
  if (object.name === self.node) return shut('own-node', object.name);
  if (!nodes.has(object.uid)) return shut('node-deleted');
  if (facts.leaving !== null) return shut('leaving', facts.leaving);
  if (facts.isExcluded) return shut('excluded');
  if (isSkipped(memory, atMs)) {
    const endsMs = (skippedMs ?? atMs) + (facts.skipMs ?? 0);
    const isLasting = !Number.isFinite(endsMs) || lastingScopeShut(memory, config) !== null;
    return shut('skip', null, null, isLasting ? null : endsMs);
  }
  return lastingScopeShut(memory, config);
}

function lastingScopeShut({ object, facts }: NodeMemory, config: GuardConfig): Shut | null {
  if (facts.isControlPlane && config.controlPlane === 'never') return shut('control-plane', 'never');
  if (!meets(object.labels, config.nodes)) return shut('outside-nodes');
  return facts.owner !== null && config.otherOwner === 'respect' ? shut('other-owner', facts.owner) : null;
}

/** Whether it is off, or being switched off, may stand in the record that cannot be read (guard.md 7.2). */
export function recordShut({ object }: NodeMemory, { records }: Pick<GuardObservation, 'records'>): Shut | null {
  const unreadable = records.known ? unreadableOf(records.value, object.key) : null;
  return unreadable === null ? null : shut('unreadable-record', unreadable);
}

/** The first unreadable record of that node, or, for null, of a node that its name does not tell, and why. */
function unreadableOf(records: readonly StoredRecord[], nodeKey: string | null): string | null {
  for (const stored of records) {
    if (stored.record === null && stored.nodeKey === nodeKey) return `${stored.id}: ${stored.problem}`;
  }
  return null;
}

function rateShut(at: AtGate): Shut | null {
  const { memory, state, observation, fencing } = at;
  const flying = flyingShut(at, fencing);
  if (flying !== null) return flying;
  const majority = memory.facts.isControlPlane ? controlPlaneHold(state, memory.object.uid) : null;
  if (majority !== null) return shut(majority.because, majority.value, majority.limit);
  if (isReleased(memory.object, state.releases, observation.atMs)) return null;
  const cuts = cutsShut(at, fencing);
  return cuts === null || (observation.records.known && isOff(at)) ? null : cuts;
}

/** What it says of a node that nothing sets apart: neither the control plane, nor a release, nor that it is off already. */
export const rateShutForAll = (look: Look): Shut | null => flyingShut(look, null) ?? cutsShut(look, null);

function flyingShut({ state, config: { rate } }: Look, fencing: string | null): Shut | null {
  const flying = inFlight(state.fencings, fencing);
  return flying < rate.maxInFlight ? null : shut('max-in-flight', flying, rate.maxInFlight);
}

function cutsShut({ state, observation, config }: Look, fencing: string | null): Shut | null {
  const { atMs, wallMs, records } = observation;
  if (!records.known) return shut('records-unknown', records.why);
  const hold = rateHold(cutsWallMs(records.value, state, observation, fencing), wallMs, config.rate);
  if (hold === null) return null;
  // Of one that a clock ahead has dated, only when this process first saw it is known.
  const isExact = hold.because !== 'min-interval' || ![...state.ahead.values()].includes(atMs - hold.value);
  return orMore(shut(hold.because, hold.value, hold.limit, atMs + (hold.inMs ?? 0)), isExact);
}

/** The node as it stands at its gates now. */
export function atGate(
  look: Look,
  memory: NodeMemory,
  ageMs: number | null,
  fencing: string | null,
  isRehearsal = false,
): AtGate {
  const { state, observation, config, asOfMs, self } = look;
  return { state, observation, config, asOfMs, self, memory, ageMs, fencing, isRehearsal };
}

/** A level says that it is off already: nothing is switched off (guard.md 6.2). */
function isOff({ memory, state, observation, config, isRehearsal }: AtGate): boolean {
  const plan = isRehearsal ? null : planOf(config, memory.object.name);
  if (plan === null) return false;
  const freshMs = freshSince(memory, observation.atMs);
  return levelOffAlready(memory.object.uid, plan, state.devices, freshMs, useOf(config, false)) !== null;
}
