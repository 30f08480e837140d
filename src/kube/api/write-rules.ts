import { type ApiPod, DISRUPTION_REASONS, type DisruptionReason, type PodRef } from './api-pod.ts';

/** A pod whose object may be deleted. A mirror pod may not: it would only be created again (A20). */
export type ApiVictim = PodRef & { readonly isMirror: false };
/** Null: it is a mirror pod. */
export function victimOf({ object, isMirror }: Pick<ApiPod, 'object' | 'isMirror'>): ApiVictim | null {
  return isMirror ? null : { ...object, isMirror };
}

/** All conditions that this agent sets on its node (A13, product.md section 10). `NodewardenFenced` is the guard's. */
export const OWN_CONDITIONS = [
  'NodewardenMemoryPressure',
  'NodewardenDiskPressure',
  'NodewardenPIDPressure',
  'NodewardenShutdownArmed',
  'NodewardenLastBoot',
] as const;
export type OwnCondition = (typeof OWN_CONDITIONS)[number];
export type NodeConditionEntry = {
  readonly type: OwnCondition;
  readonly status: 'True' | 'False' | 'Unknown';
  /** One word in CamelCase. */
  readonly reason: string;
  readonly message: string;
  readonly heartbeatWallMs: number;
  readonly transitionWallMs: number;
};

/** The taints of this agent, without prefix (A14). `nodewarden.dev/fenced` is the guard's. */
const TAINTS = ['memory-pressure', 'disk-pressure', 'pid-pressure', 'shutdown'] as const;
/** F16: the cluster autoscaler assumes that new nodes have any other taint, too. */
const TAINT_PREFIXES = {
  own: 'nodewarden.dev/',
  'cluster-autoscaler': 'status-taint.cluster-autoscaler.kubernetes.io/nodewarden-',
} as const;
export type TaintKeys = keyof typeof TAINT_PREFIXES;
export type OwnTaintKey = `${(typeof TAINT_PREFIXES)[TaintKeys]}${(typeof TAINTS)[number]}`;
export const taintKey = (keys: TaintKeys, what: (typeof TAINTS)[number]): OwnTaintKey =>
  `${TAINT_PREFIXES[keys]}${what}`;
/** Includes the keys of an earlier configuration: those not wanted are removed. */
const keysOf = (whats: readonly (typeof TAINTS)[number][]): readonly OwnTaintKey[] =>
  (['own', 'cluster-autoscaler'] as const).flatMap((keys) => whats.map((what) => taintKey(keys, what)));
export const OWN_TAINTS = keysOf(TAINTS);
export const PRESSURE_TAINTS = keysOf(['memory-pressure', 'disk-pressure', 'pid-pressure']);
export const SHUTDOWN_TAINTS = keysOf(['shutdown']);
/** They end no running pod (A3). */
export type OwnTaint = { readonly key: OwnTaintKey; readonly effect: 'NoSchedule' | 'PreferNoSchedule' };

export const CORDONED_BY = 'nodewarden.dev/cordoned-by';
/** Identifies whose cordon it is: `<boot-id>/<shutdown-id>` in the annotation (A15). */
export type ShutdownMark = { readonly bootId: string; readonly shutdownId: string };
export const sayMark = ({ bootId, shutdownId }: ShutdownMark): string => `${bootId}/${shutdownId}`;
/** Null: this program did not write that. */
export function readMark(text: unknown): ShutdownMark | null {
  const parts = typeof text === 'string' ? /^([0-9a-f-]{36})\/([A-Za-z0-9_.:-]{1,100})$/.exec(text) : null;
  const [bootId, shutdownId] = parts?.slice(1) ?? [];
  return bootId === undefined || shutdownId === undefined ? null : { bootId, shutdownId };
}

/** What an event is about. */
export type EventObject = { readonly kind: 'Node' } | ({ readonly kind: 'Pod' } & PodRef);
export const EVENT_REASONS = ['Evicted', 'EvictionThresholdMet', 'NodeShutdown'] as const;
export type EventReason = (typeof EVENT_REASONS)[number];
export type ApiEvent = {
  /** Derived from the decision: sent twice, it is still one event (C6). */
  readonly name: string;
  readonly about: EventObject;
  readonly reason: EventReason;
  readonly type: 'Normal' | 'Warning';
  readonly message: string;
  readonly annotations: { readonly [key: string]: string };
  readonly firstWallMs: number;
  readonly lastWallMs: number;
  readonly count: number;
};

/**
 * Checks what the types cannot express: a violation is a bug, and throws before anything is sent (beside-a-kubelet.md J).
 */
export function must(isSo: boolean, what: string): asserts isSo {
  if (!isSo) throw new TypeError(`refused before it was sent: ${what}`);
}
const includes = (all: readonly string[], one: string): boolean => all.includes(one);

const LABEL = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;
const SUBDOMAIN = /^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/;
const UID = /^[0-9a-f-]{32,36}$/;
const WORD = /^[A-Za-z][A-Za-z0-9]{0,99}$/;
/** Ten days: longer than any sensible grace period. */
export const GRACE_MAX_SECONDS = 864_000;

export function mustBeNodeName(name: string): void {
  must(SUBDOMAIN.test(name) && !name.includes('..'), 'a node name that is none');
}

/** H1: no part may lead out of the path. */
function mustBePodRef({ namespace, name, uid }: PodRef): void {
  must(LABEL.test(namespace), 'a namespace that is none');
  must(SUBDOMAIN.test(name) && !name.includes('..'), 'a pod name that is none');
  must(UID.test(uid), 'a pod without a uid');
}

export function mustBeVictim(victim: ApiVictim): void {
  mustBePodRef(victim);
  must(victim.isMirror === false, 'the end of a mirror pod (A20)');
}

/** B3: 0 removes the object at once, while its containers still run. */
export function mustBeGrace(seconds: number): void {
  const isGrace = Number.isInteger(seconds) && seconds >= 1 && seconds <= GRACE_MAX_SECONDS;
  must(isGrace, `a grace of ${seconds} s (B3)`);
}

export function mustBeDisruption(reason: DisruptionReason): void {
  must(includes(DISRUPTION_REASONS, reason), 'a reason that is not ours (A16)');
}

export function mustBeOwnCondition(type: OwnCondition): void {
  must(includes(OWN_CONDITIONS, type), `the condition ${type}, which is not ours (A1)`);
}

export function mustBeConditions(entries: readonly NodeConditionEntry[]): void {
  for (const { type, status, reason, heartbeatWallMs, transitionWallMs } of entries) {
    mustBeOwnCondition(type);
    must(includes(['True', 'False', 'Unknown'], status), `the status ${status}`);
    must(WORD.test(reason), 'a reason that is not one word');
    mustBeTime(heartbeatWallMs);
    mustBeTime(transitionWallMs);
  }
}

export function mustBeOwnTaintKey(key: OwnTaintKey): void {
  must(includes(OWN_TAINTS, key), `the taint ${key}, which is not ours (A2)`);
}

export function mustBeOwnTaint({ key, effect }: OwnTaint): void {
  mustBeOwnTaintKey(key);
  must(effect === 'NoSchedule' || effect === 'PreferNoSchedule', `the effect ${effect} (A3)`);
}

export function mustBeMark(mark: ShutdownMark): void {
  must(readMark(sayMark(mark)) !== null, 'a mark of a cordon that could not be read back (E22)');
}

/** A valid time that RFC 3339 can express: years 1970 to 9999. */
function mustBeTime(wallMs: number): void {
  must(wallMs >= 0 && wallMs < 253_402_300_800_000, 'a time that is none');
}

export function mustBeEvent(event: ApiEvent): void {
  const { about } = event;
  must(SUBDOMAIN.test(event.name) && !event.name.includes('..'), 'an event name that is none');
  must(about.kind === 'Node' || about.kind === 'Pod', 'an event about something else than a node or a pod');
  if (about.kind === 'Pod') mustBePodRef(about);
  must(includes(EVENT_REASONS, event.reason), 'a reason that is not ours');
  must(event.type === 'Normal' || event.type === 'Warning', 'a type that is none');
  must(Number.isInteger(event.count) && event.count >= 1 && event.count < 2 ** 31, 'a count that is none');
  mustBeTime(event.firstWallMs);
  mustBeTime(event.lastWallMs);
}
