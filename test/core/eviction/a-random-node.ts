import * as fc from 'fast-check';
import { decide } from '../../../src/core/decide.ts';
import type { Decision } from '../../../src/core/decision.ts';
import { firstSignal } from '../../../src/core/eviction/threshold.ts';
import { evictionsOf, resumeEvictions } from '../../../src/core/eviction/under-way.ts';
import type { Heard } from '../../../src/core/outcome.ts';
import type { PodView } from '../../../src/core/pod/pod.ts';
import { known, unknown } from '../../../src/core/reading.ts';
import type { Reason } from '../../../src/core/reason.ts';
import { adoptState } from '../../../src/core/state/adopt.ts';
import { initialState, type State } from '../../../src/core/state/state.ts';
import { aConfig, anObservation, aPod, aThreshold, MI } from '../../a.ts';

/** Amounts in MiB, times in ms, rates in MiB/s. */
type RandomPod = {
  readonly name: string;
  readonly isHog: boolean;
  readonly request: number;
  readonly priority: number;
  readonly startMs: number;
  /** It grows at this rate, from nothing, to `most`. */
  readonly rate: number;
  readonly most: number;
  /** Nothing but its cgroup is known of it for so long. */
  readonly unnamedMs: number;
  /** After SIGTERM it ends; null: never. */
  readonly leavesMs: number | null;
  /** After SIGKILL it has no process any more, and then gives its memory back. */
  readonly diesMs: number;
  readonly freesMs: number;
  readonly graceSeconds: number;
  /** A successor starts so long after its end; null: none. */
  readonly restartsMs: number | null;
};
export type RandomNode = {
  readonly hard: number;
  readonly soft: { readonly limit: number; readonly graceMs: number } | null;
  readonly pods: readonly RandomPod[];
  /** How late each look is, over and over. */
  readonly late: readonly number[];
  /** The agent dies, and the next one runs so long after it. */
  readonly crashes: readonly { readonly atMs: number; readonly downMs: number }[];
  /** Outcomes are heard so late. */
  readonly noticeMs: number;
};
const CAPACITY = 10_000;
const END_MS = 60_000;
const KILL_MS = 10_000;
/** The state on disk is so old, unless something was decided since. */
const KEEP_MS = 1_000;

const int = (min: number, max: number) => fc.integer({ min, max });
const often = <T>(usual: T, rest: fc.Arbitrary<T>) =>
  fc.oneof({ weight: 3, arbitrary: fc.constant(usual) }, { weight: 1, arbitrary: rest });
const aHog = fc.record({
  isHog: fc.constant(true),
  request: fc.constantFrom(0, 100, 500),
  priority: fc.constantFrom(0, 1_000, -5),
  startMs: int(0, 20_000),
  rate: fc.constantFrom(20, 100, 400, 2_000),
  most: fc.constant(CAPACITY),
  unnamedMs: often(0, int(100, 3_000)),
  leavesMs: fc.option(int(0, 3_000)),
  diesMs: often(5, int(0, 2_000)),
  freesMs: often(5, int(0, 800)),
  graceSeconds: int(0, 30),
  restartsMs: fc.option(int(10, 5_000)),
});
const anInnocent = fc
  .record({
    request: int(50, 800),
    priority: fc.constantFrom(0, 1_000, -5),
    startMs: often(0, int(0, 30_000)),
    rate: fc.constantFrom(50, 1_000),
    share: fc.constantFrom(0.2, 0.9, 1),
    unnamedMs: often(0, int(100, 3_000)),
  })
  .map(({ share, ...pod }) => ({
    ...pod,
    isHog: false,
    most: pod.request * share,
    ...{ leavesMs: 0, diesMs: 5, freesMs: 5, graceSeconds: 1, restartsMs: null },
  }));
/** Without its hogs, nothing is ever short. */
export const aRandomNode: fc.Arbitrary<RandomNode> = fc
  .record({
    hard: fc.constantFrom(100, 500),
    soft: fc.option(fc.record({ limit: fc.constantFrom(700, 1_000), graceMs: fc.constantFrom(500, 5_000) })),
    hogs: fc.array(aHog, { minLength: 1, maxLength: 3 }),
    innocents: fc.array(anInnocent, { minLength: 1, maxLength: 6 }),
    late: fc.array(often(1, int(0, 2_500)), { minLength: 1, maxLength: 20 }),
    crashes: fc.array(fc.record({ atMs: int(0, END_MS), downMs: int(50, 4_000) }), { maxLength: 3 }),
    noticeMs: often(5, int(0, 1_000)),
  })
  .map(({ hogs, innocents, ...node }) => ({
    ...node,
    pods: [...hogs, ...innocents].map((pod, i) => ({ ...pod, name: `${pod.isHog ? 'hog' : 'innocent'}${i}` })),
  }));

type Process = RandomPod & {
  readonly uid: string;
  readonly bornMs: number;
  termMs: number;
  killMs: number;
  hasSuccessor: boolean;
};
const diedMs = ({ termMs, killMs, leavesMs, diesMs }: Process): number =>
  Math.min(leavesMs === null ? Number.POSITIVE_INFINITY : termMs + leavesMs, killMs + diesMs);
const freeMs = (one: Process): number => diedMs(one) + one.freesMs;
function usage(one: Process, atMs: number): number {
  const { bornMs, rate, most, killMs, freesMs } = one;
  const stopsMs = Math.min(atMs, killMs, diedMs(one));
  const held = Math.min(most, (Math.max(0, stopsMs - bornMs) / 1_000) * rate);
  const leftShare = atMs <= diedMs(one) ? 1 : Math.max(0, 1 - (atMs - diedMs(one)) / Math.max(1, freesMs));
  return held * leftShare;
}

export type Evicted = {
  readonly atMs: number;
  readonly pod: string;
  readonly isHog: boolean;
  readonly available: number;
};

type Said = { readonly at: number; readonly text: string };
const codeOf = (reason: Reason): string => ('uid' in reason ? `${reason.code}(${reason.uid})` : reason.code);

/** Plays it against the core, as the daemon would. */
export function play(node: RandomNode): { readonly evicted: readonly Evicted[]; readonly said: readonly Said[] } {
  const { hard, soft } = node;
  const thresholds = [
    aThreshold('memory.available', hard * MI),
    ...(soft === null ? [] : [aThreshold('memory.available', soft.limit * MI, { graceMs: soft.graceMs })]),
  ];
  const config = aConfig(thresholds, { isLive: true, maxPodGraceSeconds: 10 });
  const processes: Process[] = node.pods.map((pod) => born(pod, pod.startMs, 0));
  const system =
    CAPACITY -
    node.pods.filter(({ isHog }) => !isHog).reduce((sum, { most }) => sum + most, 0) -
    Math.max(hard, soft?.limit ?? 0) -
    2_000;
  const availableAt = (atMs: number): number =>
    Math.max(0, CAPACITY - system - processes.reduce((sum, one) => sum + usage(one, atMs), 0));
  const evicted: Evicted[] = [];
  const said: Said[] = [];
  /** What the agent carries out, by decision. Lost in a crash. */
  let hands = new Map<string, { readonly one: Process; told: number; isOver: boolean }>();
  let state: State = initialState('boot');
  let kept = { atMs: 0, state };
  let next: { readonly pods: unknown } = { pods: null };
  const crashes = node.crashes.toSorted((a, b) => a.atMs - b.atMs);

  const views = (atMs: number): readonly PodView[] =>
    processes
      .filter((one) => one.bornMs <= atMs && freeMs(one) > atMs)
      .map((one) => {
        const isUnnamed = atMs - one.bornMs < one.unnamedMs;
        return aPod({
          uid: one.uid,
          name: one.name,
          priority: one.priority,
          requests: { memoryBytes: one.request * MI, ephemeralStorageBytes: 0 },
          terminationGraceSeconds: one.graceSeconds,
          startedAtWallMs: 1_700_000_000_000 + one.bornMs,
          isTerminating: Math.min(one.termMs, one.killMs) <= atMs,
          workingSetBytes: Math.round(usage(one, atMs) * MI),
          ...(isUnnamed
            ? { limitedBy: 'unnamed' as const, unsaid: { why: 'undeclared', priority: true, requests: true } as const }
            : {}),
        });
      });
  const carry = (decision: Decision, atMs: number): void => {
    if (decision.kind === 'hasten') {
      const hand = hands.get(decision.eviction);
      if (hand !== undefined) hand.one.killMs = Math.min(hand.one.killMs, atMs + decision.graceSeconds * 1_000);
    }
    if (decision.kind !== 'evict') return;
    const one = processes.find(({ uid }) => uid === decision.victim.uid);
    if (one === undefined) return;
    const available = Math.round(availableAt(atMs));
    evicted.push({ atMs, pod: one.name, isHog: one.isHog, available });
    hands.set(decision.id, { one, told: 0, isOver: false });
    signal(one, atMs + 2, firstSignal(decision.threshold), decision.graceSeconds * 1_000);
  };
  const heardBy = (atMs: number): readonly Heard[] =>
    [...hands].flatMap(([of, hand]): readonly Heard[] => {
      const { one } = hand;
      const heard: Heard[] = [];
      if (hand.told < 1 && one.termMs <= atMs) {
        hand.told = 1;
        heard.push({ of, atMs: one.termMs, kind: 'signalled', with: 'sigterm' });
      }
      if (hand.told < 2 && one.killMs <= atMs && one.killMs < diedMs(one)) {
        hand.told = 2;
        heard.push({ of, atMs: one.killMs, kind: 'signalled', with: 'sigkill' });
      }
      const endMs = freeMs(one);
      if (!hand.isOver && atMs >= endMs + node.noticeMs) {
        hand.isOver = true;
        const releasedBytes = known(Math.round(usage(one, diedMs(one)) * MI));
        heard.push({ of, atMs: endMs, kind: 'ended', via: 'sigkill', releasedBytes });
      } else if (!hand.isOver && atMs >= one.killMs + KILL_MS) {
        hand.isOver = true;
        heard.push({ of, atMs, kind: 'survived', left: [], detail: 'it is still there' });
      }
      return heard;
    });
  const restart = (atMs: number): void => {
    state = resumeEvictions(adoptState(kept.state, 'boot', atMs).state, atMs);
    hands = new Map();
    next = { pods: null };
    for (const { decision, victim, cause } of evictionsOf(state)) {
      const one = processes.find(({ uid }) => uid === victim.uid);
      if (one === undefined) continue;
      hands.set(decision, { one, told: 0, isOver: false });
      const first = cause.kind === 'threshold' ? firstSignal(cause.threshold) : 'sigterm';
      if (freeMs(one) > atMs && Math.min(one.termMs, one.killMs) > atMs) signal(one, atMs + 2, first, 0);
    }
  };

  for (let atMs = 0, looks = 0; atMs < END_MS; looks++) {
    for (const one of [...processes]) {
      if (one.restartsMs === null || one.hasSuccessor || diedMs(one) > atMs) continue;
      one.hasSuccessor = true;
      processes.push(born(one, Math.ceil(diedMs(one) + one.restartsMs), processes.length));
    }
    const available = Math.round(availableAt(atMs));
    const pods = next.pods === null ? unknown('not-asked', 'pods', 'not asked') : known(views(atMs));
    const sample = { available: available * MI, capacity: CAPACITY * MI };
    const observation = anObservation(atMs, { 'memory.available': sample }, { pods, outcomes: heardBy(atMs) });
    const verdict = decide(state, observation, config);
    state = verdict.state;
    next = verdict.next;
    if (verdict.decisions.length > 0 || atMs - kept.atMs >= KEEP_MS) kept = { atMs, state };
    said.push({ at: atMs, text: `${available} MiB: ${verdict.reasons.map(codeOf).join(' ')}` });
    for (const decision of verdict.decisions) {
      said.push({ at: atMs, text: `${decision.kind} ${'victim' in decision ? decision.victim.name : ''}` });
      carry(decision, atMs);
    }
    atMs += Math.max(1, Math.ceil(verdict.next.afterMs)) + (node.late[looks % node.late.length] ?? 0);
    const crash = crashes[0];
    if (crash !== undefined && atMs >= crash.atMs) {
      crashes.shift();
      atMs += crash.downMs;
      said.push({ at: atMs, text: 'the agent runs again' });
      restart(atMs);
    }
  }
  return { evicted, said };
}

function born(pod: RandomPod, bornMs: number, generation: number): Process {
  const never = Number.POSITIVE_INFINITY;
  return { ...pod, uid: `uid-${pod.name}-${generation}`, bornMs, termMs: never, killMs: never, hasSuccessor: false };
}

function signal(one: Process, atMs: number, first: 'sigterm' | 'sigkill', graceMs: number): void {
  if (first === 'sigterm') one.termMs = Math.min(one.termMs, atMs);
  one.killMs = Math.min(one.killMs, first === 'sigkill' ? atMs : atMs + graceMs);
}
