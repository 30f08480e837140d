// The processors belong to others: a victim that cannot run cannot die either.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import { sleep } from '../../../src/host/clock.ts';
import { availableMiB, clock, type PodSpec, type Scene, until } from '../scene.ts';
import { DATABASE, DATABASE_MIB, evictionsOf, goneAfterDecisionMs, HOG, type TruthScene, untilGone } from './truth.ts';

const NODE_MIB = 2_048;
const HARD_MIB = 100;
/** So near is the threshold before the loops begin. The end of what is taken costs the kernel some tenths of a second of a processor. */
const REST_MIB = 30;
/** Within its request, and more than the threshold leaves: it is dead if the hog is not gone soon. */
const GROWTH = { mib: 110, rate: 40 };
const BUSY_LOOPS = 100;
const SETTLE_MS = 500;
const MOST_MS = 2_000;
const QUIET: PodSpec = { name: 'quiet', requestMiB: 64 };

/** The lab itself goes on: what it starts does not run ahead of anybody. */
function runAheadOfLoops(isAhead: boolean): void {
  const policy = isAhead ? ['--reset-on-fork', '--rr'] : ['--other'];
  spawnSync('chrt', ['--all-tasks', ...policy, '--pid', isAhead ? '1' : '0', String(process.pid)], { stdio: 'ignore' });
}

/** Each in a session of its own: the kernel shares the processors among their groups. */
export function setNiceness(pid: number, nice: number): void {
  os.setPriority(pid, nice);
  const group = `/proc/${pid}/autogroup`;
  if (nice !== 0 && fs.existsSync(group)) fs.writeFileSync(group, String(nice));
}

/** playOutside() runs it under env(1), which becomes perl itself. */
const childrenOf = (pid: number): readonly number[] =>
  fs.readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').map(Number);

/** While `body` runs so many busy loops share the processors with everybody but the agent. */
export async function besideLoops<T>(
  scene: Scene,
  body: () => Promise<T>,
  { count, nice }: { readonly count: number; readonly nice: number } = { count: BUSY_LOOPS, nice: 0 },
): Promise<T> {
  runAheadOfLoops(true);
  const loops = await scene.playOutside(null, `spin ${count}`);
  for (const pid of childrenOf(loops.pid)) setNiceness(pid, nice);
  try {
    await sleep(clock, SETTLE_MS);
    return await body();
  } finally {
    loops.kill('SIGKILL');
    runAheadOfLoops(false);
  }
}

export const starvedScenes: readonly TruthScene[] = [
  {
    name: `${BUSY_LOOPS} busy loops beside a memory hog`,
    spec: {
      pods: [HOG, { ...DATABASE, requestMiB: 250 }, QUIET],
      memoryMiB: NODE_MIB,
      config: [`evictionHard: { memory.available: "${HARD_MIB}Mi" }`],
    },
    culprits: [HOG.name],
    body: async (scene) => {
      const database = await scene.play(DATABASE.name, `memory ${DATABASE_MIB}`);
      await scene.play(QUIET.name, 'memory 32');
      const free = Math.round(await availableMiB(scene));
      const hog = await scene.play(HOG.name, `memory ${free - HARD_MIB - REST_MIB}`);
      return await besideLoops(scene, async () => {
        hog.write(`grow ${NODE_MIB} max`);
        await until('the hog is chosen', () => evictionsOf(scene).at(0) ?? null);
        database.write(`grow ${GROWTH.mib} ${GROWTH.rate}`);
        await untilGone(scene, 'the hog', hog);
        const ms = await goneAfterDecisionMs(scene, hog);
        // Watched on while nobody has a processor to spare.
        await sleep(clock, MOST_MS);
        assert(ms <= MOST_MS, `the hog was gone ${Math.round(ms)} ms after the decision`);
        return `gone ${Math.round(ms)} ms after the decision`;
      });
    },
  },
];
