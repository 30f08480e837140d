// Pressure at random, for minutes, beside busy loops: the lab knows who grows, and judges every decision by that.
import fs from 'node:fs';
import path from 'node:path';
import { sleep } from '../../../src/host/clock.ts';
import type { Workload } from '../../../src/host/process/workload.ts';
import type { DecisionRecord } from '../../../src/record/entry.ts';
import { availableMiB, clock, type PodSpec, type Scene } from '../scene.ts';
import { besideLoops } from './starved.ts';
import { DATABASE, DATABASE_MIB, evictionsOf, has, isOver, type TruthScene, victimOf } from './truth.ts';

const NODE = { memoryMiB: 512, pids: 512 };
const HARD_MIB = 100;
const SOFT_MIB = 200;
const DISK = { sizeMiB: 64, inodes: 4096 };
const CONFIG = [
  `evictionHard: { memory.available: "${HARD_MIB}Mi", pid.available: "100", nodefs.available: "16Mi" }`,
  `evictionSoft: { memory.available: "${SOFT_MIB}Mi", nodefs.available: "32Mi" }`,
  'evictionSoftGracePeriod: { memory.available: "500ms", nodefs.available: "500ms" }',
  'evictionMaxPodGracePeriod: 2',
];
/** Any of them may be the next to grow; the late ones have no cgroup until then. */
const WARM = Array.from(
  { length: 4 },
  (_, index): PodSpec => ({ name: `warm-${index}`, requestMiB: 32, maxPids: 450 }),
);
const LATE = Array.from(
  { length: 3 },
  (_, index): PodSpec => ({ name: `late-${index}`, requestMiB: 32, isLate: true }),
);
const QUIET: PodSpec = { name: 'quiet', requestMiB: 64 };
/** Within a request of 32 MiB, with what perl itself takes. */
const REST_MIB = [2, 18] as const;
const RATES = ['40', '150', '600', '1024', 'max'];
const MOST_REST_MS = 1_500;
const OVER_DEADLINE_MS = 180_000;
const PACE_MS = 100;

type Pressure = 'memory hard' | 'memory soft' | 'pids' | 'disk hard' | 'disk soft';
const PRESSURES: readonly Pressure[] = ['memory hard', 'memory soft', 'pids', 'disk hard', 'disk soft'];

type Random = {
  readonly below: (limit: number) => number;
  readonly of: <T>(choices: readonly [T, ...T[]] | readonly T[]) => T;
  readonly chance: (share: number) => boolean;
};
/** Mulberry32: the seed in the figures plays the same again, as far as the machine does. */
function randomFrom(seed: number): Random {
  let state = seed >>> 0;
  const next = (): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  return {
    below: (limit) => next() * limit,
    of: (choices) => {
      const choice = choices[Math.floor(next() * choices.length)];
      if (choice === undefined) throw new Error('nothing to choose from');
      return choice;
    },
    chance: (share) => next() < share,
  };
}

/** What one who grows does; null: it is not started by a command to who stands ready. */
async function commandFor(scene: Scene, pressure: Pressure, pod: string, rate: string): Promise<string> {
  switch (pressure) {
    case 'memory hard':
      return `grow ${NODE.memoryMiB} ${rate}`;
    case 'memory soft':
      return `grow ${Math.max(0, Math.round((await availableMiB(scene)) - (SOFT_MIB + HARD_MIB) / 2))} ${rate}`;
    case 'pids':
      return 'bomb';
    case 'disk hard':
      return `fill ${scene.directory(pod)} 54`;
    case 'disk soft':
      return `fill ${scene.directory(pod)} 40`;
  }
}

type World = {
  readonly scene: Scene;
  readonly random: Random;
  readonly standing: Map<string, Workload>;
  readonly problems: string[];
};

async function standReady(world: World): Promise<void> {
  for (const { name } of WARM) {
    if (world.standing.get(name)?.isAlive() !== true) {
      world.standing.set(name, await world.scene.play(name, `memory ${REST_MIB[0]}`));
    }
  }
}

/** One who never obeys is started in the way of one who does: a fork bomb wants a pid namespace of its own. */
async function grow(world: World, pod: PodSpec, pressure: Pressure): Promise<Workload> {
  const { scene, random, standing } = world;
  const command = await commandFor(scene, pressure, pod.name, random.of(RATES));
  if (pod.isLate === true) {
    const fresh = await scene.playOutside(pod.name, 'memory 1');
    fresh.write(`enter ${scene.cgroups(pod.name).join(',')}`);
    fresh.write(command);
    return fresh;
  }
  if (command === 'bomb') return await scene.play(pod.name, command);
  const stands = standing.get(pod.name);
  if (stands === undefined) throw new Error(`${pod.name} does not stand ready`);
  stands.write(command);
  return stands;
}

async function removeCgroups(directories: readonly string[]): Promise<void> {
  for (const directory of directories) {
    for (let round = 0; round < 100 && fs.existsSync(directory); round++) {
      try {
        fs.rmdirSync(directory);
      } catch {
        await sleep(clock, PACE_MS); // A dying process keeps it busy for a moment.
      }
    }
  }
}

/** Waits until all have ended and the record says how; false: somebody lives on. */
async function isOverInTime(world: World, grown: readonly Workload[], before: number): Promise<boolean> {
  const endMs = clock.monoMs() + OVER_DEADLINE_MS;
  for (;;) {
    const news = evictionsOf(world.scene).slice(before);
    if (grown.every((workload) => !workload.isAlive()) && news.every(isOver)) return true;
    if (clock.monoMs() > endMs) return false;
    await sleep(clock, PACE_MS);
  }
}

async function episode(world: World, number: number): Promise<void> {
  const { scene, random, standing, problems } = world;
  await standReady(world);
  // Somebody who is not to blame changes as well.
  standing
    .get(random.of(WARM).name)
    ?.write(`memory ${Math.round(REST_MIB[0] + random.below(REST_MIB[1] - REST_MIB[0]))}`);
  await sleep(clock, random.below(MOST_REST_MS));
  const before = evictionsOf(scene).length;
  const killsBefore = scene.kernelOomKills();
  const pressure = random.of(PRESSURES);
  const first = random.of(pressure === 'pids' ? WARM : [...WARM, ...LATE]);
  const culprits = [{ pod: first, pressure }];
  if (pressure.startsWith('disk') && random.chance(0.4)) {
    culprits.push({ pod: random.of([...WARM, ...LATE].filter((pod) => pod !== first)), pressure: 'memory hard' });
  }
  const isCrashed = random.chance(0.2);
  const said = `${number}: ${culprits.map((one) => `${one.pressure} of ${one.pod.name}`).join(' and ')}${isCrashed ? ', restarted' : ''}`;
  const grown: Workload[] = [];
  for (const one of culprits) grown.push(await grow(world, one.pod, one.pressure));
  if (isCrashed) {
    await sleep(clock, random.below(300));
    await scene.agent.crash();
    await scene.agent.start();
  }
  const isOverNow = await isOverInTime(world, grown, before);
  const names = culprits.map(({ pod }) => pod.name);
  const news = evictionsOf(scene).slice(before);
  const kills = scene.kernelOomKills() - killsBefore;
  if (!isOverNow) problems.push(`${said}: not over after ${OVER_DEADLINE_MS / 1000} s (${sayAll(news)})`);
  const wrong = news.filter((record) => !names.includes(victimOf(record)));
  if (wrong.length > 0) problems.push(`${said}: chosen ${sayAll(wrong)}`);
  const done = news.filter((record) => !has('dropped', record));
  if (done.length > names.length) problems.push(`${said}: ${done.length} evictions (${sayAll(done)})`);
  // While no agent runs the kernel may be first.
  if (kills > 0 && !isCrashed) problems.push(`${said}: ${kills} kernel OOM kills (${sayAll(news)})`);
  if (kills === 0 && done.length < names.length) problems.push(`${said}: ended without a decision (${sayAll(news)})`);
  for (const workload of grown) workload.kill('SIGKILL');
  for (const { pod } of culprits) {
    for (const name of fs.readdirSync(scene.directory(pod.name))) fs.rmSync(path.join(scene.directory(pod.name), name));
    if (pod.isLate === true) await removeCgroups(scene.cgroups(pod.name));
  }
  for (const { pod, workload } of scene.played()) {
    if (pod === DATABASE.name || pod === QUIET.name) {
      if (!workload.isAlive() && !problems.some((one) => one.includes(`${pod} is dead`)))
        problems.push(`${said}: ${pod} is dead`);
    }
  }
}

const sayAll = (records: readonly DecisionRecord[]): string =>
  records.map((one) => `${victimOf(one)} ${one.outcomes.map(({ kind }) => kind).join(' ')}`).join(', ');

const randomPressure: TruthScene = {
  name: 'random pressure beside busy loops',
  mostRuns: 1,
  spec: { pods: [...WARM, ...LATE, DATABASE, QUIET], ...NODE, nodefs: DISK, config: CONFIG },
  culprits: [...WARM, ...LATE].map(({ name }) => name),
  evictions: { least: 1, most: Number.POSITIVE_INFINITY },
  // A fork bomb of hundreds beside busy loops: the record's 10 s may not be enough for the kernel.
  mayOutlast: true,
  // The body judges the kernel's kills: while no agent runs it may be first.
  isAgentHeld: true,
  body: async (scene, { minutes }) => {
    const seed = Math.trunc(clock.wallMs()) % 1_000_000;
    const world: World = { scene, random: randomFrom(seed), standing: new Map(), problems: [] };
    await scene.play(DATABASE.name, `memory ${DATABASE_MIB}`);
    await scene.play(QUIET.name, 'memory 32');
    let number = 0;
    await besideLoops(scene, async () => {
      for (const endMs = clock.monoMs() + minutes * 60_000; clock.monoMs() < endMs; number++)
        await episode(world, number);
    });
    const said = `${number} episodes, ${evictionsOf(scene).length} evictions, seed ${seed}`;
    if (world.problems.length > 0)
      throw new Error(`${said}; ${world.problems.length} problems: ${world.problems.join('; ')}`);
    return said;
  },
};

export const randomScenes: readonly TruthScene[] = [randomPressure];
