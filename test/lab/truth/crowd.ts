// Many small pods beside one that grows: the agent measures them all, with little to do it with.
import { availableMiB, type PodSpec, type Scene } from '../scene.ts';
import { DATABASE, DATABASE_MIB, goneAndOver, HOG, type TruthScene } from './truth.ts';

const NODE_MIB = 2_048;
const PIDS = 1_024;
const EVICTION = 'evictionHard: { memory.available: "100Mi" }';
/** MiB/s */
const RATE = 400;
/** Available when the hog begins to grow. */
const LEFT_MIB = 160;

const crowdOf = (count: number, requestMiB?: number): readonly PodSpec[] =>
  Array.from({ length: count }, (_, index) => ({
    name: `pod-${index}`,
    ...(requestMiB === undefined ? {} : { requestMiB }),
  }));

/** All pods run; then the hog takes most of the node, and grows beyond it. */
async function grow(scene: Scene, crowd: readonly PodSpec[]): Promise<string> {
  await scene.play(DATABASE.name, `memory ${DATABASE_MIB}`);
  for (const { name } of crowd) await scene.play(name, 'memory 1');
  const hog = await scene.play(HOG.name, 'memory 1');
  hog.write(`memory ${Math.round((await availableMiB(scene)) - LEFT_MIB)}`);
  hog.write(`grow ${NODE_MIB} ${RATE}`);
  return `gone after ${await goneAndOver(scene, 'the hog', hog)} ms`;
}

const bestEffort = crowdOf(200);
const tiny: TruthScene = {
  name: `a hog far over its request, beside ${bestEffort.length} tiny pods of the same priority that request nothing`,
  spec: { pods: [HOG, DATABASE, ...bestEffort], memoryMiB: NODE_MIB, pids: PIDS, config: [EVICTION] },
  // Most of it is the start of the crowd.
  mostRuns: 3,
  culprits: [HOG.name],
  body: (scene) => grow(scene, bestEffort),
};

const OPEN_FILES = 100;
const modest = crowdOf(150, 16);
const fewFiles: TruthScene = {
  name: `an agent that may have ${OPEN_FILES} files open, with ${modest.length + 2} pods`,
  spec: {
    pods: [HOG, DATABASE, ...modest],
    memoryMiB: NODE_MIB,
    pids: PIDS,
    openFiles: OPEN_FILES,
    config: [EVICTION],
  },
  // Most of it is the start of the crowd.
  mostRuns: 3,
  culprits: [HOG.name],
  body: (scene) => grow(scene, modest),
};

export const crowdScenes: readonly TruthScene[] = [tiny, fewFiles];
