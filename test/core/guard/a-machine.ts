import type { Attachment, PodOnNode, Taint } from '../../../src/core/guard/observation.ts';

/** One machine with its Node object, as the API has it. Tests change it as they please. */
export type Machine = {
  readonly name: string;
  uid: string;
  /** Which machine it is, whatever its name. */
  hardware: string;
  isOn: boolean;
  /** The kubelet runs and reaches the API. */
  isHeard: boolean;
  boots: number;
  created: string;
  renewals: number;
  /** What it writes as the time of a renewal, the count of which is given. */
  renewTime: (renewal: number) => string;
  heardMs: number;
  bootedMs: number;
  /** When somebody else switched it on. */
  onMs: number;
  ready: 'True' | 'False' | 'Unknown';
  isDeleted: boolean;
  /** Lists leave it out, though it is there. */
  isLeftOut: boolean;
  offs: number;
  taints: Taint[];
  labels: { [key: string]: string };
  annotations: { [key: string]: string };
  isUnschedulable: boolean;
  announces: boolean;
  witness: 'answers' | 'refused' | 'silent';
  pods: PodOnNode[];
  attachments: Attachment[];
  /** What a device says in place of the truth; 'mute': nothing. */
  lies: { [method: string]: 'on' | 'off' | 'mute' };
  /** Devices whose commands have no effect. */
  broken: Set<string>;
};

export function aPodOn(rest: Partial<PodOnNode> = {}): PodOnNode {
  return {
    uid: `pod-${rest.name ?? 'db-0'}`,
    namespace: 'default',
    name: 'db-0',
    priority: 0,
    ownerKind: 'StatefulSet',
    hasAttachedVolume: true,
    isTerminating: false,
    isFinished: false,
    toleratesTaint: false,
    finalizers: [],
    ...rest,
  };
}

export function aMachine(name: string, rest: Partial<Machine> = {}): Machine {
  return {
    name,
    uid: `uid-${name}`,
    hardware: name,
    isOn: true,
    isHeard: true,
    boots: 1,
    created: '',
    renewals: 1,
    renewTime: (renewal) => `r${renewal}`,
    heardMs: 0,
    bootedMs: 0,
    onMs: 0,
    ready: 'True',
    isDeleted: false,
    isLeftOut: false,
    offs: 0,
    taints: [],
    labels: {},
    annotations: {},
    isUnschedulable: false,
    announces: false,
    witness: 'silent',
    pods: [aPodOn({ name: `db-${name}` })],
    attachments: [{ name: `va-${name}`, node: name, driver: 'csi', volume: `pv-${name}` }],
    lies: {},
    broken: new Set(),
    ...rest,
  };
}

export const five = (rest: Partial<Machine> = {}): readonly Machine[] =>
  ['w1', 'w2', 'w3', 'w4', 'w5'].map((name) => aMachine(name, rest));

/** What its device says. */
export function statusOf({ lies, isOn }: Machine, method: string): 'on' | 'off' | 'unknown' {
  const lie = lies[method];
  if (lie === 'mute') return 'unknown';
  return lie ?? (isOn ? 'on' : 'off');
}

/** What a command does to it, which takes 30 s to boot. */
export function power(machine: Machine, act: 'on' | 'off', method: string, nowMs: number): void {
  if (machine.broken.has(method) || method.startsWith('fabric')) return;
  if (act === 'off') {
    if (machine.isOn) machine.offs += 1;
    machine.isOn = false;
  } else if (!machine.isOn) {
    machine.isOn = true;
    machine.isHeard = true;
    machine.boots += 1;
    machine.bootedMs = nowMs + 30_000;
  }
}
