// Victims that hide or resist, and the kernel's own choice when nobody else makes one.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { findHierarchy } from '../../../src/host/cgroup/cgroup-mounts.ts';
import { sleep } from '../../../src/host/clock.ts';
import type { Workload } from '../../../src/host/process/workload.ts';
import { clock, type PodSpec, type Scene, until } from '../scene.ts';
import { DATABASE, DATABASE_MIB, evictionsOf, goneAfterDecisionMs, HOG, type TruthScene, untilGone } from './truth.ts';

const NODE_MIB = 768;
const RATE = '200';
const EVICTION = 'evictionHard: { memory.available: "100Mi" }';
const SOON_MS = 2_000;
const CGROUPS = 5_000;

/** What a tenant made below his cgroup: names of any bytes, deeper than a path. */
export function clear(scene: Scene, pod: string): void {
  for (const directory of scene.cgroups(pod)) {
    spawnSync('find', [directory, '-mindepth', '1', '-depth', '-type', 'd', '-delete'], { stdio: 'ignore' });
  }
}

/** The hog resists by what `prepare` does, then takes what there is. */
const resisting = (
  how: string,
  prepare: (scene: Scene, hog: Workload) => void | Promise<void>,
  missing: () => string | null = () => null,
): TruthScene => ({
  name: `a victim that ${how}`,
  missing,
  spec: { pods: [HOG, DATABASE], memoryMiB: NODE_MIB, config: [EVICTION] },
  culprits: [HOG.name],
  body: async (scene) => {
    await scene.play(DATABASE.name, `memory ${DATABASE_MIB}`);
    const hog = await scene.play(HOG.name, 'memory 1');
    try {
      await prepare(scene, hog);
      hog.write(`grow ${NODE_MIB} ${RATE}`);
      await until('the hog is chosen', () => evictionsOf(scene).at(0) ?? null);
      await untilGone(scene, 'the hog', hog);
      const ms = await goneAfterDecisionMs(scene, hog);
      assert(ms <= SOON_MS, `the hog was gone ${Math.round(ms)} ms after the decision`);
      return `gone ${Math.round(ms)} ms after the decision`;
    } finally {
      clear(scene, HOG.name);
    }
  },
});

/** Half of the victim cannot run: frozen before the other half grows. */
const freezer = findHierarchy('freezer');
const frozen: TruthScene = {
  name: 'a victim that is frozen',
  missing: () => (freezer === null ? 'no freezer of cgroup v1 is mounted' : null),
  spec: { pods: [HOG, DATABASE], memoryMiB: NODE_MIB, config: [EVICTION] },
  culprits: [HOG.name],
  body: async (scene) => {
    await scene.play(DATABASE.name, `memory ${DATABASE_MIB}`);
    const holder = await scene.play(HOG.name, 'memory 300');
    const hog = await scene.play(HOG.name, 'memory 1');
    const directory = `${freezer}/nodewarden-lab-${process.pid}`;
    fs.mkdirSync(directory);
    try {
      fs.writeFileSync(`${directory}/cgroup.procs`, String(holder.pid));
      fs.writeFileSync(`${directory}/freezer.state`, 'FROZEN');
      hog.write(`grow ${NODE_MIB} ${RATE}`);
      const ms = await untilGone(scene, 'the frozen one', holder);
      await untilGone(scene, 'the other one', hog);
      return `gone after ${Math.round(ms)} ms`;
    } finally {
      fs.writeFileSync(`${directory}/freezer.state`, 'THAWED');
      holder.kill('SIGKILL');
      await until('the freezer is empty', () => removed(directory) || null);
    }
  },
};

function removed(directory: string): boolean {
  try {
    fs.rmdirSync(directory);
    return true;
  } catch {
    return false; // Busy for some milliseconds.
  }
}

const ORDINARY: PodSpec = { name: 'ordinary', requestMiB: 64, isLate: true };
const GREEDY: PodSpec = { name: 'greedy', isLate: true };

/** Its cgroup is new: its class is set then, and once a minute later. */
async function appearing(scene: Scene, pod: string, mib: number): Promise<Workload> {
  const workload = await scene.playOutside(pod, `enter ${scene.cgroups(pod).join(',')}`, `memory ${mib}`);
  await until(`the class of ${pod} is set`, () => adjOf(workload) !== 0 || null);
  return workload;
}

const kernelChoice: TruthScene = {
  name: 'the kernel chooses while the agent is stopped, and spares the database, which is the largest',
  spec: {
    pods: [GREEDY, ORDINARY, { ...DATABASE, requestMiB: 320, isLate: true }],
    memoryMiB: 512,
    config: [EVICTION],
  },
  culprits: [GREEDY.name],
  evictions: { least: 0, most: 0 },
  isAgentHeld: true,
  body: async (scene) => {
    const database = await appearing(scene, DATABASE.name, 250);
    const ordinary = await appearing(scene, ORDINARY.name, 40);
    const greedy = await appearing(scene, GREEDY.name, 1);
    const scores = [database, ordinary, greedy].map(adjOf).join(', ');
    scene.agent.signal('SIGSTOP');
    try {
      const startMs = clock.monoMs();
      greedy.write('grow 512 200');
      const ms = (await until('the greedy one ends', () => greedy.ended())).atMs - startMs;
      await sleep(clock, 200);
      assert(scene.kernelOomKills() > 0, 'the kernel killed nobody: this shows nothing');
      return `oom_score_adj of database, ordinary and greedy ${scores}; gone after ${Math.round(ms)} ms`;
    } finally {
      scene.agent.signal('SIGCONT');
    }
  },
};

const adjOf = ({ pid }: Workload): number => Number(fs.readFileSync(`/proc/${pid}/oom_score_adj`, 'latin1'));

export const resistScenes: readonly TruthScene[] = [
  resisting('has ended its main thread', async (_, hog) => {
    hog.write('headless');
    const state = (): string => fs.readFileSync(`/proc/${hog.pid}/stat`, 'latin1').split(') ')[1]?.[0] ?? '';
    await until('its main thread has ended', () => state() === 'Z' || null);
    await sleep(clock, 300);
  }),
  resisting('hides in cgroups whose names are no text, deeper than a path', (scene, hog) =>
    hog.write(`hide ${scene.cgroups(HOG.name).join(',')}`),
  ),
  resisting(`hides in the last of ${CGROUPS} cgroups`, async (scene, hog) => {
    const [memory = ''] = scene.cgroups(HOG.name);
    hog.write(`litter ${memory} ${CGROUPS}`);
    await until('the last is there', () => fs.existsSync(`${memory}/${CGROUPS}`) || null);
  }),
  frozen,
  kernelChoice,
];
