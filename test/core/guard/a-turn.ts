import { expect, it } from 'vitest';
import type { GuardConfig } from '../../../src/core/guard/config.ts';
import { type Look, lookOf } from '../../../src/core/guard/gates.ts';
import type {
  AskedView,
  Attachment,
  ConsistentLook,
  GuardObservation,
  LeaseView,
  MemberView,
  NodeObject,
  PodOnNode,
  Witness,
} from '../../../src/core/guard/observation.ts';
import type { FencingRecord, PowerState } from '../../../src/core/guard/record.ts';
import type { GuardState, NodeMemory } from '../../../src/core/guard/state.ts';
import { type DeviceMemory, deviceKey, type Fencing, initialGuardState } from '../../../src/core/guard/state.ts';
import type { Turned } from '../../../src/core/guard/turn.ts';
import { turnOf } from '../../../src/core/guard/turns.ts';
import { attachmentsByNode } from '../../../src/core/guard/worth.ts';
import { known, unknown } from '../../../src/core/reading.ts';
import { aGuardConfig } from './a-guard-config.ts';
import { aPodOn } from './a-machine.ts';
import { aCondition, aMemory, aNodeObject } from './a-node.ts';

/** When the phase began. The times of a case are counted from here, in ms. */
export const SINCE = 1_000_000;
export const WALL = 1_700_000_000_000;
export const NODE = { name: 'w1', uid: 'uid-w1', bootId: 'boot-1' };

export const aRecord = (rest: Partial<FencingRecord> = {}): FencingRecord => ({
  schema: 1,
  id: 'w1-1',
  node: NODE,
  purpose: 'fence',
  phase: 'decided',
  revision: 1,
  epoch: 3,
  writer: 'me',
  plan: { isolation: [], levels: [['vm w1']] },
  level: 0,
  attempt: 0,
  retries: 0,
  offSent: [],
  onSent: [],
  cutWallMs: null,
  offHeard: [],
  onHeard: [],
  onAttempt: 0,
  renewed: 'r1',
  order: null,
  proof: null,
  staysOff: null,
  isAlive: false,
  why: null,
  answers: [],
  freed: { pods: [], volumes: [] },
  steps: [{ phase: 'decided', wallMs: WALL }],
  silentMs: 180_000,
  wasHeard: true,
  ...rest,
});

/** In dry run, it would have been fenced at that time. */
export const dryAt = (atMs: number) => ({ atMs, wallMs: WALL + atMs });

export const aFencing = (record: FencingRecord, rest: Partial<Fencing> = {}): Fencing => ({
  record,
  version: '1',
  sinceMs: SINCE,
  phaseSinceMs: SINCE,
  decidedMs: SINCE,
  isTakenOver: false,
  pending: null,
  offBegunMs: null,
  offReturnedMs: null,
  acted: null,
  failedMs: null,
  freedSinceMs: null,
  isOverdue: false,
  readyMs: null,
  departed: [],
  ...rest,
});

/** The answers of a device, as `off@7000`: begun then, and 500 ms later there. */
export type Said = `${PowerState | 'unknown'}@${number}`;

export function aDevice(method: string, said: readonly Said[], rest: Partial<DeviceMemory> = {}): DeviceMemory {
  const all = said.map((text) => {
    const [says, ms] = text.split('@');
    return { says: says as PowerState | 'unknown', begunMs: SINCE + Number(ms), endedMs: SINCE + Number(ms) + 500 };
  });
  const last = all.at(-1);
  return {
    node: NODE.uid,
    method,
    says: last?.says ?? 'unknown',
    begunMs: last?.begunMs ?? null,
    silentSinceMs: null,
    awayMs: null,
    returnedMs: null,
    wallMs: 0,
    recent: all.flatMap(({ says, ...when }) => (says === 'unknown' ? [] : [{ says, ...when }])),
    offMs: all.findLast(({ says }) => says === 'off')?.begunMs ?? null,
    hasSaidOn: true,
    contradicted: null,
    rehearsedWallMs: null,
    ...rest,
  };
}

export type Given = {
  readonly atMs?: number;
  readonly record?: Partial<FencingRecord>;
  readonly fencing?: Partial<Fencing>;
  readonly said?: { readonly [method: string]: readonly Said[] };
  readonly device?: Partial<DeviceMemory>;
  /** When the consistent look was sent; null: none was. Else just now. */
  readonly lookMs?: number | null;
  /** What it shows that is not known of the node yet. */
  readonly node?: Partial<NodeObject> | null;
  readonly lease?: LeaseView | null;
  /** What is known of the node besides; null: it is gone. */
  readonly memory?: Parameters<typeof aMemory>[0] | null;
  readonly others?: readonly NodeMemory[];
  readonly pods?: readonly PodOnNode[] | null;
  readonly attachments?: readonly Attachment[];
  readonly members?: readonly MemberView[];
  readonly witness?: Witness;
  /** When it was asked; null: it was not. Else just now. */
  readonly witnessMs?: number | null;
  readonly config?: Partial<GuardConfig>;
  readonly state?: Partial<GuardState>;
  readonly seen?: Partial<GuardObservation>;
  readonly own?: Partial<GuardObservation['self']>;
};

export const LEASE = { renewed: 'r1', durationMs: 40_000 };
export const RENEWED = { lease: { ...LEASE, renewed: 'r2' } };
const SILENT = { conditions: [aCondition({ status: 'Unknown', reason: 'NodeStatusUnknown' })] };
/** This process was elected so long after the phase began; it led before from the `led` until the `lost` of each. */
export const elected = (ms: number, ...before: readonly { readonly led: number; readonly lost: number }[]): Given => ({
  state: { self: { ...initialGuardState(0, 0).self, electedMs: SINCE + ms, away: awayOf(ms, before) } },
});
const awayOf = (ms: number, before: readonly { readonly led: number; readonly lost: number }[]) =>
  [...before.map(({ led }) => led), ms].map((untilMs, at) => ({
    fromMs: SINCE + (before[at - 1]?.lost ?? Number.NEGATIVE_INFINITY),
    untilMs: SINCE + untilMs,
  }));
export const LEADS = { isLeader: true, epoch: 3, sinceMs: 0, authorityUntilMs: Number.MAX_SAFE_INTEGER } as const;
/** Dead for a minute. */
export const DEAD = {
  of: SILENT,
  isSuspect: true,
  signMs: SINCE - 180_000,
  onsetMs: SINCE - 180_000,
  overdueMs: SINCE - 60_000,
};

/** A look 10 s after the phase began, at a dead node whose gates are open and whose device said on a moment ago. */
export function aLook(given: Given = {}): Look {
  const atMs = SINCE + (given.atMs ?? 10_000);
  const asOf = <T>(value: T) => known({ value, asOfMs: atMs });
  const { memory = {}, lookMs = given.atMs ?? 10_000, node = {} } = given;
  const own = memory === null ? [] : [aMemory({ ...DEAD, ...memory, of: { ...SILENT, ...memory.of } })];
  const lease = given.lease === undefined ? LEASE : given.lease;
  const shown: ConsistentLook = {
    node: node === null ? null : aNodeObject({ ...SILENT, ...memory?.of, ...node }),
    lease,
    resourceVersion: '7',
  };
  const asked: AskedView = {
    witness:
      given.witnessMs === null
        ? unknown('not-asked', '', '')
        : known({ value: given.witness ?? 'silent', asOfMs: SINCE + (given.witnessMs ?? atMs - SINCE) }),
    pods: given.pods === null ? unknown('not-asked', '', '') : asOf(given.pods ?? [aPodOn()]),
    members: given.members === undefined ? unknown('not-asked', '', '') : asOf(given.members),
    look: lookMs === null ? unknown('not-asked', '', '') : known({ value: shown, asOfMs: SINCE + lookMs }),
  };
  const initial = initialGuardState(0, 0);
  const said = Object.entries(given.said ?? { 'vm w1': [`on@${(given.atMs ?? 10_000) - 1_000}`] });
  const devices = said.map(([method, answers]) => aDevice(method, answers as readonly Said[], given.device));
  const state: GuardState = {
    ...initial,
    self: { ...initial.self, readMs: atMs, anySignMs: atMs, adoptedMs: LEADS.sinceMs },
    nodes: new Map([...own, ...(given.others ?? [])].map((one) => [one.object.uid, one])),
    devices: new Map(devices.map((device) => [deviceKey(device.node, device.method), device])),
    ...given.state,
  };
  const observation: GuardObservation = {
    atMs,
    wallMs: WALL + atMs,
    self: { writer: 'me', node: 'w7', leadership: LEADS, lastWriteMs: atMs, uptimeMs: atMs, ...given.own },
    nodes: known({ value: [], asOfMs: atMs }),
    records: known([]),
    kept: known({ devices: [], state: { paused: null, holds: [], past: [] } }),
    asked: new Map([[NODE.uid, asked]]),
    attachments: asOf(attachmentsByNode(given.attachments ?? [])),
    answers: [],
    outcomes: [],
    orders: [],
    ...given.seen,
  };
  // Its devices are configured as when it was decided.
  const plans = given.record?.plan === undefined ? {} : { [NODE.name]: given.record.plan };
  return lookOf(state, observation, aGuardConfig({ plans, ...given.config }));
}

/** What its fencing does at this look. */
export function turned(given: Given): Turned {
  const fencing = aFencing(aRecord(given.record), given.fencing);
  const look = aLook(given);
  return turnOf(fencing, { ...look, state: { ...look.state, fencings: new Map([[fencing.record.id, fencing]]) } });
}

/**
 * `> off-sent attempt=1 [off vm w1]`: phase, what changes, act. `? look vm w1/6000 by 45000`: what it asks for, a status again
 * after so many ms, and until when. `!code`: what it tells.
 */
export function sayTurn(given: Given): string {
  const { move, asks, dueMs, reasons, contradicts, rehearsed, isOverdue } = turned(given);
  const told = reasons.map((reason) => ` !${reason.code}${'lacks' in reason ? ` ${reason.lacks}` : ''}`).join('');
  const more = [
    ...(isOverdue ? ['overdue'] : []),
    ...rehearsed.map((method) => `rehearsed ${method}`),
    ...(contradicts?.methods.map((method) => `contradicts ${method} ${contradicts.by.why}`) ?? []),
  ].map((text) => ` (${text})`);
  if (move !== null) {
    const change = Object.entries(move.change).map(([key, value]) => ` ${key}=${sayValue(value)}`);
    return `> ${move.to}${change.join('')}${sayAct(move.act)}${told}${more.join('')}`;
  }
  const { look, status, againMs, stuck, witness } = asks;
  const asked = [
    ...(look ? ['look'] : []),
    ...(status.length > 0 ? [`${status.join('+')}/${againMs}`] : []),
    ...(stuck ? ['stuck'] : []),
    ...(witness ? ['witness'] : []),
  ];
  const by = dueMs === null ? '' : ` by ${dueMs - SINCE}`;
  return `${asked.length === 0 ? 'stays' : `? ${asked.join(' ')}`}${by}${told}${more.join('')}`;
}

const sayValue = (value: unknown): string =>
  Array.isArray(value) ? value.join('+') : typeof value === 'object' ? JSON.stringify(value) : String(value);

function sayAct(act: NonNullable<Turned['move']>['act']): string {
  if (act === null) return '';
  switch (act.kind) {
    case 'off':
      return ` [off ${act.methods.join('+')}]`;
    case 'on':
      return ` [on ${act.steps.map((step) => step.join('+')).join(', ')}]`;
    case 'tell':
      return ` [tell ${act.resourceVersion} until ${act.notAfterMs - SINCE}]`;
    default:
      return ` [${act.kind}]`;
  }
}

/** Ready again with another boot, for so long at the look. */
export const back = (readyMs: number, bootId = 'boot-2'): Given => ({
  memory: { of: { bootId, conditions: [aCondition()] }, ...RENEWED, isSuspect: false },
  fencing: { readyMs: SINCE + readyMs, offBegunMs: SINCE - 100_000, offReturnedMs: SINCE - 62_000 },
});

type Row = readonly [what: string, given: Given, does: string];
/** Each row: what is so, and what its fencing does. `always`: of all rows. */
export const turnRows =
  (always: Given = {}) =>
  (phase: FencingRecord['phase'], sent: Partial<FencingRecord>, cases: readonly Row[]): void => {
    it.each(cases)('%s', (_, given, expected) => {
      expect(sayTurn({ ...always, ...given, record: { phase, ...sent, ...given.record } })).toBe(expected);
    });
  };
