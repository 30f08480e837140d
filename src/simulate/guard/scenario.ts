import type { GuardConfig } from '../../core/guard/config.ts';
import type { MonoMs } from '../../core/reading.ts';
import type { Json, ScenarioHead } from '../scenario.ts';

export type NodeName = string;
export type GuardName = string;
/** What a device says. */
export type Answer = 'on' | 'off' | 'unknown';
export type ApiMode = 'up' | 'down' | 'slow' | 'stale';

/** guard.md section 12, checked. Times in milliseconds since the start. */
export type GuardScenario = ScenarioHead & {
  readonly kind: 'GuardScenario';
  /** Its plans are those of `nodes[].devices`. */
  readonly config: GuardConfig;
  readonly world: WorldTimes;
  /** When the run ends. */
  readonly untilMs: MonoMs;
  readonly nodes: readonly ScenarioNode[];
  readonly guards: readonly ScenarioGuard[];
  /** In order of time. */
  readonly events: readonly ScenarioEvent[];
  /** As written; its shape has been checked. */
  readonly expect: Json | null;
};

/** In the duration of a lease, as kubelets have it. */
export const RENEWALS = 4;

export type WorldTimes = { readonly [T in keyof typeof WORLD_DEFAULTS]: number };
/** guard.md 12.1, and what devices and machines take. */
export const WORLD_DEFAULTS = {
  leaseEvery: 10_000,
  readyUnknownAfter: 50_000,
  evictAfter: 300_000,
  podGcEvery: 20_000,
  detachAfter: 2_000,
  successorAfter: 3_000,
  podStop: 2_000,
  bootTakes: 60_000,
  shutdownTakes: 20_000,
  statusTakes: 1_000,
  commandTakes: 3_000,
  agentDeadline: 40_000,
  apiTakes: 20,
  slowApiTakes: 2_000,
};

export type ScenarioNode = {
  readonly name: NodeName;
  readonly labels: { readonly [key: string]: string };
  readonly pods: readonly ScenarioPod[];
  readonly devices: readonly ScenarioDevice[];
};
export type ScenarioPod = {
  /** namespace/name */
  readonly name: string;
  readonly statefulSet: string | null;
  readonly priority: number;
  readonly volumes: number;
  readonly tolerates: boolean;
  readonly hasFinalizer: boolean;
  /** False: its volumes never detach. */
  readonly detaches: boolean;
};
export type ScenarioDevice = {
  readonly kind: 'bmc' | 'pdu' | 'fabric';
  readonly level: number;
  readonly sharesPower: boolean;
};
/** `on`: null = outside the cluster's nodes. */
export type ScenarioGuard = { readonly name: GuardName; readonly on: NodeName | null };

/** One after the other while they last: the first word names what happens. */
export type ScenarioEvent = { readonly atMs: MonoMs } & (
  | { readonly kind: 'power'; readonly nodes: readonly NodeName[]; readonly isOn: boolean }
  | { readonly kind: 'freeze'; readonly nodes: readonly NodeName[]; readonly isFrozen: boolean }
  | { readonly kind: 'kubelet'; readonly nodes: readonly NodeName[]; readonly isRunning: boolean }
  | { readonly kind: 'cut'; readonly nodes: readonly NodeName[]; readonly from: 'api' | 'all' }
  /** Null: all. */
  | { readonly kind: 'heal'; readonly nodes: readonly NodeName[] | null }
  | { readonly kind: 'api'; readonly mode: ApiMode }
  | DeviceEvent
  | GuardEvent
  | {
      readonly kind: 'clock';
      readonly nodes: readonly NodeName[];
      readonly guard: GuardName | null;
      readonly stepMs: number;
    }
  | { readonly kind: 'announce'; readonly nodes: readonly NodeName[]; readonly what: 'shutdown' | 'reboot' }
  /** `value` null: removed. */
  | {
      readonly kind: 'annotate' | 'label';
      readonly nodes: readonly NodeName[];
      readonly key: string;
      readonly value: string | null;
    }
  | {
      readonly kind: 'taint';
      readonly nodes: readonly NodeName[];
      readonly key: string;
      readonly value: string;
      readonly isSet: boolean;
    }
  | { readonly kind: 'cordon'; readonly nodes: readonly NodeName[]; readonly isSet: boolean }
  | { readonly kind: 'deleteNode'; readonly nodes: readonly NodeName[] }
  | { readonly kind: 'deleteRecords' }
  | { readonly kind: 'order'; readonly order: ScenarioOrder }
);
export type DeviceEvent = {
  readonly kind: 'device';
  readonly nodes: readonly NodeName[];
  /** Null: every level. */
  readonly level: number | null;
  readonly says: Answer | null;
  readonly afterMs: number;
  readonly fails: boolean;
  readonly hangs: boolean;
  readonly lies: boolean;
};
export type GuardEvent = {
  readonly kind: 'guard';
  readonly guard: GuardName | 'leader';
  readonly act: 'kill' | 'restart' | 'pause' | 'cut' | 'heal';
  /** How long a pause lasts, or after which time a killed guard starts again; null: for ever. */
  readonly forMs: number | null;
  /** Not at `atMs`, but `afterMs` after it next stores this phase of a fencing. */
  readonly atPhase: string | null;
  readonly afterMs: number;
};
export const ORDER_VERBS = ['pause', 'resume', 'release', 'fence', 'power-on', 'confirm-off', 'rehearse'] as const;
export type ScenarioOrder = {
  readonly verb: (typeof ORDER_VERBS)[number];
  /** A node; for `release` also `cluster`, or a domain as `label=value`. */
  readonly scope: string | null;
  readonly forMs: number | null;
  readonly by: string;
  readonly because: string;
  readonly isDeviceWrong: boolean;
};
