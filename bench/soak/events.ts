import { sleep } from '../../src/host/clock.ts';
import { clock, NODE_PIDS, type Scene } from '../../test/lab/scene.ts';
import type { Pods, SoakPod } from './pods.ts';
import type { Random } from './random.ts';

/** One piece of pressure. `victims`: names of whom alone it may cost; null: several grew, and only `simulate` knows. */
export type Happened = { readonly kind: string; readonly told: string; readonly victims: readonly string[] | null };
type Needs = { readonly scene: Scene; readonly pods: Pods; readonly random: Random };

export const NODE_MIB = 1024;
export const NODEFS = { sizeMiB: 64, inodes: 2048 };
const SOFT_MIB = 250;
const HARD_MIB = 100;
const MIB = 1024 * 1024;
/** What the agent needs to find a pod's new cgroup. */
const SETTLED_MS = 5_000;
/** A pod that rests above its request of nothing; everybody at or below grows further above it. */
const GROWERS_PRIORITY = 100;
const REST_DEADLINE_MS = 60_000;

/** Two versions, so that a reload has something to change. */
export function configLines(version: number): readonly string[] {
  const isOdd = version % 2 === 1;
  return [
    `evictionHard: { memory.available: ${HARD_MIB}Mi, pid.available: "40", nodefs.available: 12Mi, nodefs.inodesFree: "200" }`,
    `evictionSoft: { memory.available: ${SOFT_MIB}Mi, pid.available: "100", nodefs.available: 32Mi, nodefs.inodesFree: "500" }`,
    'evictionSoftGracePeriod: { memory.available: 2s, pid.available: 2s, nodefs.available: 2s, nodefs.inodesFree: 2s }',
    `evictionMaxPodGracePeriod: ${isOdd ? 5 : 10}`,
    `evictionMinimumReclaim: { memory.available: ${isOdd ? 0 : 20}Mi }`,
  ];
}

type Event = (needs: Needs) => Promise<Happened>;
/** How many of a hundred events are of each kind. */
const EVENTS: readonly { readonly share: number; readonly event: Event }[] = [
  { share: 25, event: (needs) => growAlone(needs, 'below') },
  { share: 15, event: (needs) => growAlone(needs, 'soft') },
  { share: 17, event: (needs) => growAlone(needs, 'hard') },
  { share: 5, event: (needs) => growAlone(needs, 'without end') },
  { share: 10, event: touch },
  { share: 6, event: breed },
  { share: 6, event: fill },
  { share: 6, event: litter },
  { share: 10, event: crowd },
];

export async function happen(needs: Needs): Promise<Happened> {
  let at = needs.random.whole(0, 99);
  for (const { share, event } of EVENTS) {
    if (at < share) return event(needs);
    at -= share;
  }
  throw new Error('the shares are not a hundred');
}

const settled = ({ pods }: Needs): readonly SoakPod[] =>
  pods.all().filter((pod) => clock.monoMs() - pod.startedMs >= SETTLED_MS && pod.workload.isAlive());
const isOrdinary = ({ isProtected, priority }: SoakPod): boolean =>
  isProtected !== true && priority <= GROWERS_PRIORITY;
/** Disk and pids are ranked by priority before anything: only the lowest is sure to be the first. */
const isLowest = (pod: SoakPod): boolean => isOrdinary(pod) && pod.priority === 0;

async function availableOf({ scene }: Needs, signal: string): Promise<number> {
  const found = (await scene.status()).signals.find((status) => status.signal === signal)?.available;
  if (typeof found !== 'number') throw new Error(`${signal} is not known`);
  return found;
}

async function growAlone(needs: Needs, how: 'below' | 'soft' | 'hard' | 'without end'): Promise<Happened> {
  const { random } = needs;
  const pod = random.of(settled(needs).filter(isOrdinary));
  const freeMiB = (await availableOf(needs, 'memory.available')) / MIB;
  const leaveMiB = {
    below: random.whole(SOFT_MIB + 30, SOFT_MIB + 300),
    soft: random.whole(HARD_MIB + 40, SOFT_MIB - 20),
    hard: random.whole(40, HARD_MIB - 10),
    'without end': -200,
  }[how];
  const mib = pod.restMiB + Math.max(1, Math.round(freeMiB - leaveMiB));
  const rate = random.whole(20, 400);
  pod.tell(`memory ${mib} ${rate}`);
  await untilEnded([pod], (mib / rate) * 1_000 + (how === 'soft' ? 6_000 : 2_500));
  return {
    kind: `memory ${how}`,
    told: `${pod.name} to ${mib} MiB at ${rate} MiB/s`,
    victims: how === 'below' ? [] : [pod.name],
  };
}

/** 50 ms below the soft threshold, once a second: whether a grace runs out is not the driver's to say. */
async function touch(needs: Needs): Promise<Happened> {
  const { random } = needs;
  const pod = random.of(settled(needs).filter(isOrdinary));
  const freeMiB = (await availableOf(needs, 'memory.available')) / MIB;
  const high = pod.restMiB + Math.max(1, Math.round(freeMiB - SOFT_MIB + random.whole(5, 40)));
  const times = random.whole(1, 6);
  pod.tell(`touch ${high} ${high - 80} ${times}`);
  await untilEnded([pod], times * 1_000 + 2_500);
  return { kind: 'touch', told: `${pod.name} touches ${high} MiB ${times} times`, victims: [pod.name] };
}

async function breed(needs: Needs): Promise<Happened> {
  const { random } = needs;
  const pod = random.of(settled(needs).filter(isLowest));
  const free = await availableOf(needs, 'pid.available');
  const count = Math.max(1, free - random.of([random.whole(110, 150), random.whole(50, 90), random.whole(10, 30)]));
  pod.tell(`procs ${Math.min(count, NODE_PIDS)}`);
  await untilEnded([pod], 6_000);
  const mayCost = free - count < 100;
  return { kind: 'pids', told: `${pod.name} has ${count} more`, victims: mayCost ? [pod.name] : [] };
}

async function fill(needs: Needs): Promise<Happened> {
  const { random } = needs;
  const pod = random.of(settled(needs).filter(isLowest));
  const mib = random.of([random.whole(5, 25), random.whole(36, 48), random.whole(54, 62)]);
  pod.tell(`fill ${needs.scene.directory(pod.name)} ${mib}`);
  await untilEnded([pod], 8_000);
  return { kind: 'nodefs bytes', told: `${pod.name} writes ${mib} MiB`, victims: mib > 30 ? [pod.name] : [] };
}

async function litter(needs: Needs): Promise<Happened> {
  const { random } = needs;
  const pod = random.of(settled(needs).filter(isLowest));
  const count = random.of([random.whole(100, 1_400), random.whole(1_600, 1_780), random.whole(1_860, 1_980)]);
  pod.tell(`files ${needs.scene.directory(pod.name)} ${count}`);
  await untilEnded([pod], 8_000);
  return { kind: 'nodefs inodes', told: `${pod.name} makes ${count} files`, victims: count > 1_500 ? [pod.name] : [] };
}

/** Two to four at once, of any priority but those that are never evicted. */
async function crowd(needs: Needs): Promise<Happened> {
  const { random } = needs;
  const candidates = settled(needs).filter(({ priority }) => priority < 2_000_000_000);
  const freeMiB = (await availableOf(needs, 'memory.available')) / MIB;
  const grown = new Set<SoakPod>();
  const count = random.whole(2, 4);
  while (grown.size < Math.min(count, candidates.length)) grown.add(random.of(candidates));
  const told: string[] = [];
  for (const pod of grown) {
    const mib = pod.restMiB + Math.round((freeMiB - random.whole(20, 200)) / grown.size);
    pod.tell(`memory ${mib} ${random.whole(20, 150)}`);
    told.push(`${pod.name} to ${mib} MiB`);
  }
  await untilEnded([...grown], 9_000);
  return { kind: 'crowd', told: told.join(', '), victims: null };
}

/** One of them has ended, or the time is over. */
async function untilEnded(pods: readonly SoakPod[], ms: number): Promise<void> {
  const endMs = clock.monoMs() + ms;
  while (clock.monoMs() < endMs && pods.every(({ workload }) => workload.isAlive())) await sleep(clock, 100);
}

/** Everybody back to what it rests at; who has ended starts again. */
export async function rest({ scene, pods }: Needs): Promise<void> {
  const acting = async (): Promise<boolean> => (await scene.status()).act.kind !== 'idle';
  const endMs = clock.monoMs() + REST_DEADLINE_MS;
  for (const pod of pods.all()) {
    pod.tell('release');
    pod.tell(`memory ${pod.restMiB} 500`);
  }
  while ((pods.all().some((pod) => pod.isBusy()) || (await acting())) && clock.monoMs() < endMs)
    await sleep(clock, 100);
  for (const pod of pods.all()) if (!pod.workload.isAlive()) await pods.restart(pod);
}
