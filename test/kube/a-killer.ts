import { afterEach, beforeEach } from 'vitest';
import { createHasten } from '../../src/act/hasten.ts';
import { createSurvivors } from '../../src/act/survivors.ts';
import type { Outcome } from '../../src/core/outcome.ts';
import { known, type Reading, unknown } from '../../src/core/reading.ts';
import { refOf } from '../../src/host/cgroup/cgroupfs.ts';
import { createClock } from '../../src/host/clock.ts';
import {
  createRefusals,
  createRestartGuard,
  type Refusals,
  type RestartGuard,
} from '../../src/kube/pods/candidate-limits.ts';
import type { LivePod } from '../../src/kube/pods/live-pods.ts';
import type { KubeKillerNeeds, Said, StopThroughApi } from '../../src/kube/stop/ladder.ts';
import { createKubeKiller, leftOf } from '../../src/kube/stop/stop.ts';
import type { CgroupRef, Finding, Findings, Killer, RecordNote, StopOrder } from '../../src/ports.ts';
import { makeCgroup, mounts, type TestCgroup } from '../act/a-cgroup.ts';
import { aRuntime } from './a-runtime.ts';
import { anApiPod } from './an-api-pod.ts';

export const clock = createClock();
export const IGNORES = "trap '' TERM; echo up; while :; do sleep 1000; done";
export const UID = '0f8fad5b-d9cb-469f-a165-70867728950e';
const API_POD = anApiPod({ uid: UID, namespace: 'shop', name: 'web' });
const DECLARED = API_POD.declared;
export const ACCEPTED: Said = { kind: 'accepted', text: '201' };
const NEVER = new Promise<Said>(() => undefined);
const NOT_CANCELLED = new AbortController().signal;
const AWAY = unknown('unreadable', 'the API server', 'the API server is away');
/** A container that nobody can name; what it is where the runtime has listed it as the sandbox. */
export const [UNNAMED, SANDBOX] = ['unnamed', 'pause'];

/** Of the test that runs: made before it and removed after it, for whoever imports this file. */
export let pod: TestCgroup;
export let raised: Finding[];
export let cleared: string[];
export let asked: string[];
export let noted: Extract<RecordNote, { kind: 'rung' }>[];
export let refusals: Refusals;
export let guard: RestartGuard;
/** The age of what was kept for later begins then, and it is on the disk when this resolves. */
export let keptMs: number | null;
/** Tells whoever kept it what the API shows later. */
export let endKnown: (isEnding: boolean) => void;
let saved: Promise<void>;
/** How many more times the cgroups of a pod cannot be read. */
let unreadable: number;
export const unreadableFor = (times: number): void => {
  unreadable = times;
};
export const savedWith = (promise: Promise<void>): void => {
  saved = promise;
};
beforeEach(() => {
  pod = makeCgroup();
  raised = [];
  cleared = [];
  asked = [];
  noted = [];
  keptMs = null;
  unreadable = 0;
  saved = Promise.resolve();
  guard = createRestartGuard(clock);
  refusals = createRefusals(clock, findings);
});
afterEach(() => pod.remove());
export const findings: Findings = {
  raise: (finding) => void raised.push(finding),
  clear: (id) => {
    if (raised.some((finding) => finding.id === id)) cleared.push(id);
    raised = raised.filter((finding) => finding.id !== id);
  },
  all: () => raised,
};
const refIn = (name: string): Reading<CgroupRef> =>
  mounts === null ? unknown('absent', name, '') : refOf(mounts, `${pod.path}/${name}`);
const live = (...names: readonly string[]): LivePod => ({
  ...{ declared: DECLARED, cgroup: known(pod.ref), pod: API_POD, object: API_POD, frees: true },
  sandboxes: refsIn(names.filter((name) => name === SANDBOX)).map(({ cgroup }) => cgroup),
  containers: refsIn(names.filter((name) => name !== SANDBOX)),
});
const refsIn = (names: readonly string[]) =>
  names.flatMap((name) => {
    const cgroup = refIn(name === SANDBOX ? UNNAMED : name);
    return cgroup.known ? [{ id: name, name: name === UNNAMED ? null : name, cgroup: cgroup.value }] : [];
  });
type Answers = {
  readonly evict?: Promise<Said> | null | (() => Promise<Said>);
  readonly remove?: Promise<Said> | null;
  readonly onRemove?: () => void;
  readonly ending?: Reading<boolean>;
  /** Else a server that does not answer is away. */
  readonly isThere?: true;
};
export const killer = (
  names: () => readonly string[],
  { evict = NEVER, remove = NEVER, onRemove, ending = AWAY, isThere }: Answers,
  other: Partial<Pick<KubeKillerNeeds, 'clock' | 'runtime'>> = {},
  object: LivePod['object'] = API_POD,
  isElsewhere?: true,
): Killer => {
  if (mounts === null) throw new Error('no cgroups');
  const tell: StopThroughApi = {
    evict: (_, seconds) => {
      asked.push(`evict ${seconds}`);
      return typeof evict === 'function' ? evict() : evict;
    },
    remove: (_, seconds) => {
      asked.push(`delete ${seconds}`);
      onRemove?.();
      return remove;
    },
    isEnding: async () => ending,
    isBudgetOverridden: () => isThere !== true,
    later: async (_, decision, madeAtMs, known) => {
      asked.push(`later ${decision}`);
      keptMs = madeAtMs;
      endKnown = known;
      await saved;
    },
    heard: () => void asked.push('heard'),
  };
  const find = (uid: string) => {
    if (unreadable-- > 0) return unknown('unreadable', 'kubepods', 'EMFILE');
    return known(uid === UID ? { ...live(...names()), object, ...(isElsewhere ? { isElsewhere } : {}) } : null);
  };
  const source = { find, stopBegan: () => undefined, stopEnded: () => undefined };
  const runtime = aRuntime();
  const found = { mounts, source };
  const survivors = createSurvivors({
    ...{ clock, mounts, findings, ...other },
    refsOf: (uid) => leftOf(found, uid),
  });
  return createKubeKiller({
    ...{ clock, mounts, source, tell, refusals, guard, findings, runtime, ...other },
    deleting: () => () => undefined,
    cancel: () => NOT_CANCELLED,
    survivors,
    note: (rung) => void noted.push(rung),
  });
};
const order = (more: Partial<StopOrder>): StopOrder => ({
  ...{ decision: 'd1', victim: DECLARED, graceMs: 1_000, why: 'eviction', isHard: true, resumedFromMs: null },
  ...{ first: 'sigkill', givesBack: 'memory' },
  ...more,
});
export const soft = (graceMs: number): Partial<StopOrder> => ({ isHard: false, first: 'sigterm', graceMs });
export const run = (
  of: Killer,
  more: Partial<StopOrder> = {},
  hasten = createHasten(clock),
  became?: (outcome: Outcome) => void,
) => of.stop(order(more), hasten, undefined, became);
export const actsOf = (outcome: Awaited<ReturnType<Killer['stop']>>) => outcome.rungs?.map(({ act }) => act);
