import { known, type Reading, unknown } from '../core/reading.ts';
import { type CgroupMemory, openMemory } from '../host/cgroup/cgroup-memory.ts';
import { oomKillsOf } from '../host/cgroup/cgroup-oom.ts';
import { refOf } from '../host/cgroup/cgroupfs.ts';
import { sleep } from '../host/clock.ts';
import { startWorkload, type Workload } from '../host/process/workload.ts';
import type { Clock } from '../ports.ts';
import type { Innocent, Witness } from './ending.ts';
import {
  DEMO_NAMESPACE,
  DEMO_PODS,
  type DemoPod,
  type DemoPodName,
  LEAKER,
  podArgv,
  podFacts,
  visitorArgv,
} from './load.ts';
import type { DemoNode } from './node.ts';
import type { PodLine } from './screen.ts';

/** The real processes of the story, each in its own cgroup of the node; the visitors live outside of it. */
export type Cast = {
  /** Resolves when the innocents hold their memory: null, or a sentence that says what went wrong. */
  readonly startInnocents: () => Promise<string | null>;
  /** The web server, and then its visitors. */
  readonly openDoors: () => Promise<string | null>;
  readonly podLines: () => readonly PodLine[];
  /** Asks every innocent for an answer. */
  readonly witness: () => Promise<Witness>;
  readonly close: () => void;
};
type Member = {
  readonly process: Workload;
  readonly said: { word: string; lines: number };
  /** Null: it lives outside of the node. */
  readonly memory: CgroupMemory | null;
};

type MemberName = DemoPodName | 'visitors';

/** A Node.js program starts in 0.1 s, in an emulated machine in 2 s, and later under load. */
const START_DEADLINE_MS = 15_000;
const ANSWER_DEADLINE_MS = 3_000;
const POLL_MS = 10;

export function openCast(node: DemoNode, clock: Clock): Cast {
  const members = new Map<MemberName, Member>();
  const socket = `${node.runtimeDirectory}/web.sock`;
  const innocents = DEMO_PODS.filter(({ name }) => name !== LEAKER);

  const start = (name: MemberName, argv: readonly string[], join: readonly string[]): string | null => {
    const said = { word: '', lines: 0 };
    const line = (text: string): void => {
      said.word = text;
      said.lines += 1;
    };
    const process = startWorkload({ argv, join, monoMs: clock.monoMs, line });
    if (typeof process === 'string') return process;
    const memory = name === 'visitors' ? null : openMemory(node.mounts, `${node.cgroup.path}/${name}`);
    members.set(name, { process, said, memory });
    return null;
  };
  const startPod = (pod: DemoPod): string | null => {
    const join = node.cgroup.addChild(pod.name);
    if (!join.known) return `${join.where}: ${join.detail}`;
    return start(pod.name, podArgv(pod, process.execPath, socket), join.value);
  };
  /** Resolves when they are ready, or with a sentence that says what went wrong. */
  const startPods = async (pods: readonly DemoPod[]): Promise<string | null> => {
    for (const pod of pods) {
      const failed = startPod(pod);
      if (failed !== null) return failed;
    }
    const names = pods.map(({ name }) => name);
    const isReady = (name: DemoPodName): boolean => members.get(name)?.said.word === 'ready';
    const isGone = (name: DemoPodName): boolean => members.get(name)?.process.isAlive() !== true;
    await until(clock, () => names.every(isReady) || names.some(isGone), START_DEADLINE_MS);
    const late = names.find((name) => !isReady(name));
    return late === undefined ? null : `the program of ${DEMO_NAMESPACE}/${late} did not start`;
  };
  const served = (): number => Number(/^served ([0-9]+)$/.exec(members.get('visitors')?.said.word ?? '')?.[1] ?? 0);

  const asked = async (): Promise<readonly Innocent[]> => {
    const before = new Map(innocents.map(({ name }) => [name, members.get(name)?.said.lines ?? 0]));
    for (const { name } of innocents) members.get(name)?.process.write('are you alive?');
    const hasAnswered = (name: DemoPodName): boolean => (members.get(name)?.said.lines ?? 0) > (before.get(name) ?? 0);
    const isSettled = (name: DemoPodName): boolean =>
      hasAnswered(name) || members.get(name)?.process.isAlive() !== true;
    await until(clock, () => innocents.every(({ name }) => isSettled(name)), ANSWER_DEADLINE_MS);
    return innocents.map(({ name }) => {
      const member = members.get(name);
      const isAlive = member?.process.isAlive() === true && hasAnswered(name);
      return { name: `${DEMO_NAMESPACE}/${name}`, pid: member?.process.pid ?? null, isAlive };
    });
  };

  return {
    startInnocents: () => startPods(innocents),
    openDoors: async () =>
      (await startPods(DEMO_PODS.filter(({ name }) => name === LEAKER))) ??
      start('visitors', visitorArgv(process.execPath, socket), []),
    podLines: () =>
      DEMO_PODS.map((pod) => ({
        name: `${DEMO_NAMESPACE}/${pod.name}`,
        facts: podFacts(pod),
        usedBytes: usedBytes(members.get(pod.name)),
        note: noteOf(members.get(pod.name), pod.name === LEAKER ? served() : 0),
      })),
    witness: async () => {
      const leaker = members.get(LEAKER)?.process;
      const death = leaker?.ended() ?? null;
      return {
        kind: 'real',
        innocents: await asked(),
        kernelOomKills: await kernelOomKills(node),
        requestsServed: served(),
        death: death === null ? null : { atMs: death.atMs, signal: death.signal },
        leakerPid: leaker?.pid ?? null,
      };
    },
    close: () => {
      for (const { process, memory } of members.values()) {
        process.kill('SIGKILL');
        memory?.close();
      }
    },
  };
}

/** Polls, because the facts come from children, whose output and ends arrive through the event loop. */
export async function until(clock: Clock, isTrue: () => boolean, deadlineMs: number): Promise<boolean> {
  const endMs = clock.monoMs() + deadlineMs;
  while (!isTrue() && clock.monoMs() < endMs) await sleep(clock, POLL_MS);
  return isTrue();
}

function usedBytes(member: Member | undefined): Reading<number> {
  if (member?.memory == null) return unknown('absent', 'process', 'not started yet');
  if (!member.process.isAlive()) return known(0);
  const use = member.memory.read();
  return use.known ? known(use.value.workingSetBytes) : use;
}

/** In the node and everything below it. */
async function kernelOomKills({ mounts, cgroup }: DemoNode): Promise<Reading<number>> {
  const ref = refOf(mounts, cgroup.path);
  return ref.known ? await oomKillsOf(mounts, ref.value) : ref;
}

function noteOf(member: Member | undefined, served: number): string {
  if (member === undefined) return 'not started yet';
  const end = member.process.ended();
  if (end !== null) return end.signal === null ? 'ended' : `killed by ${end.signal}`;
  return served > 0 ? `${served} requests served` : '';
}
