// A pod that nobody knew a moment ago: its cgroup appears with the process that fills the node.
import os from 'node:os';
import path from 'node:path';
import { sleep } from '../../../src/host/clock.ts';
import type { Workload } from '../../../src/host/process/workload.ts';
import { availableMiB, clock, type PodSpec, type Scene } from '../scene.ts';
import { spread } from '../spread.ts';
import { DATABASE, DATABASE_MIB, type TruthScene, untilGone } from './truth.ts';

const NODE_MIB = 512;
/** With perl itself. The node is larger by that, so that nothing is short before the hog comes. */
const MIB_PER_OTHER = 8;
const FRESH: PodSpec = { name: 'fresh', requestMiB: 16, isLate: true };
const OTHER_MIB = 1;
/** The paths of pods were once trusted for 2 s: the hog comes at any moment of that. */
const LONGEST_REST_MS = 2_200;

/** As a command of load.pl for so many MiB. */
const RATES = [
  { said: '1 GiB/s', command: (mib: number) => `grow ${mib} 1024` },
  { said: 'full speed', command: (mib: number) => `grow ${mib} max` },
];
const ALL_PROCESSORS = {
  said: 'full speed of all processors',
  command: (mib: number) => `herd ${2 * os.availableParallelism()} ${mib} max`,
};
const COMPANIES = [
  { said: 'alone', others: 0, hasDatabase: false },
  { said: 'beside a database', others: 0, hasDatabase: true },
  { said: 'beside a database and 10 others', others: 9, hasDatabase: true },
  { said: 'beside a database and 110 others', others: 109, hasDatabase: true },
];

const otherOf = (index: number): PodSpec => ({ name: `other-${index}`, priority: 0, requestMiB: 8 });

/** A process that stands ready outside makes the cgroup, joins it and takes all there is at that rate. */
export async function appear(scene: Scene, pod: string, command: string): Promise<Workload> {
  const hog = await scene.playOutside(pod, 'memory 1');
  hog.write(`enter ${scene.cgroups(pod).join(',')}`);
  hog.write(command);
  return hog;
}

/** Who fills the node is no pod, so nobody may go, and looks are far apart. */
const LEFT_MIB = 90;
const afterNobody: TruthScene = {
  name: 'a fresh pod at 400 MiB/s, while no candidate is left',
  spec: { pods: [FRESH], memoryMiB: NODE_MIB, config: ['evictionHard: { memory.available: "100Mi" }'] },
  culprits: [FRESH.name],
  body: async (scene, { index }) => {
    const outsider = await scene.playOutside(null, 'memory 1');
    const beside = scene.cgroups(FRESH.name).map((directory) => path.join(path.dirname(directory), 'nobodys'));
    outsider.write(`enter ${beside.join(',')}`);
    outsider.write(`grow ${Math.round((await availableMiB(scene)) - LEFT_MIB)} max`);
    await sleep(clock, 2_000 + spread(index) * LONGEST_REST_MS);
    const workload = await appear(scene, FRESH.name, `grow ${NODE_MIB} 400`);
    return `gone after ${Math.round(await untilGone(scene, 'the fresh pod', workload))} ms`;
  },
};

type Rate = (typeof RATES)[number];
type Company = (typeof COMPANIES)[number];

function freshScene({ said: rateSaid, command }: Rate, { said, others, hasDatabase }: Company): TruthScene {
  const memoryMiB = NODE_MIB + others * MIB_PER_OTHER;
  const crowd = Array.from({ length: others }, (_, index) => otherOf(index));
  return {
    name: `a fresh pod at ${rateSaid}, ${said}`,
    spec: {
      pods: [FRESH, ...(hasDatabase ? [DATABASE] : []), ...crowd],
      memoryMiB,
      config: ['evictionHard: { memory.available: "100Mi" }'],
    },
    culprits: [FRESH.name],
    body: async (scene, { index }) => {
      if (hasDatabase) await scene.play(DATABASE.name, `memory ${DATABASE_MIB}`);
      await Promise.all(crowd.map(({ name }) => scene.play(name, `memory ${OTHER_MIB}`)));
      await sleep(clock, spread(index) * LONGEST_REST_MS);
      const workload = await appear(scene, FRESH.name, command(memoryMiB));
      return `gone after ${Math.round(await untilGone(scene, 'the fresh pod', workload))} ms`;
    },
  };
}

export const freshScenes: readonly TruthScene[] = [
  ...RATES.flatMap((rate) => COMPANIES.map((company) => freshScene(rate, company))),
  ...COMPANIES.filter(({ others }) => others === 0).map((company) => freshScene(ALL_PROCESSORS, company)),
  afterNobody,
];
