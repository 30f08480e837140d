// Victims that do not die: in the kernel, on a file system that is frozen.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { type PodSpec, type Scene, until } from '../scene.ts';
import { frozenDiskMissing, withFrozenDisk } from './frozen-disk.ts';
import { DATABASE, DATABASE_MIB, evictionsOf, HOG, type TruthScene, untilGone } from './truth.ts';

const NODE_MIB = 512;
const STUCK: PodSpec = { name: 'stuck' };
const MEMORY = 'memory.available: "100Mi"';

const diskThenMemory: TruthScene = {
  name: 'memory crosses its hard threshold while the victim of a disk eviction does not die',
  missing: frozenDiskMissing,
  // On a starved machine the disk thaws more than 10 s after its SIGKILL, and the record says so.
  mayOutlast: true,
  spec: {
    pods: [STUCK, HOG, DATABASE],
    memoryMiB: NODE_MIB,
    nodefs: { sizeMiB: 64, inodes: 4096 },
    config: [`evictionHard: { ${MEMORY}, nodefs.available: "32Mi" }`],
  },
  culprits: [STUCK.name, HOG.name],
  evictions: { least: 2, most: 2 },
  body: (scene) =>
    withFrozenDisk(async (disk) => {
      await scene.play(DATABASE.name, `memory ${DATABASE_MIB}`);
      const hog = await scene.play(HOG.name, 'memory 1');
      disk.freeze();
      const stuck = await scene.play(STUCK.name, `stick ${disk.file}`);
      const filler = await scene.play(STUCK.name, `fill ${scene.directory(STUCK.name)} 40`);
      await until('the disk eviction begins', () => evictionsOf(scene).at(0) ?? null);
      await untilGone(scene, 'the filler', filler);
      hog.write(`grow ${NODE_MIB} 1024`);
      const ms = await untilGone(scene, 'the hog', hog);
      assert(stuck.isAlive(), 'the victim of the disk died: this shows nothing');
      disk.thaw();
      await untilGone(scene, 'the victim of the disk', stuck);
      return `gone after ${Math.round(ms)} ms`;
    }),
};

/** How often somebody in the node met its limit; there is no cache to reclaim in these scenes. */
function timesFull(scene: Scene): number {
  const node = path.dirname(scene.cgroups(STUCK.name)[0] ?? '');
  const version1 = path.join(node, 'memory.failcnt');
  if (fs.existsSync(version1)) return Number(fs.readFileSync(version1, 'utf8'));
  return Number(/^max (\d+)$/m.exec(fs.readFileSync(path.join(node, 'memory.events'), 'utf8'))?.[1]);
}

/** What it holds keeps the node at its threshold; who grows meanwhile would fill the rest in 1.7 s. */
const STUCK_MIB = 250;
const GROWTH_RATE = 60;
const memoryVictim: TruthScene = {
  name: 'a victim that does not die delays no eviction while another pod fills the rest of the memory',
  missing: frozenDiskMissing,
  mayOutlast: true,
  spec: { pods: [STUCK, HOG, DATABASE], memoryMiB: NODE_MIB, config: [`evictionHard: { ${MEMORY} }`] },
  culprits: [STUCK.name, HOG.name],
  evictions: { least: 2, most: 2 },
  body: (scene) =>
    withFrozenDisk(async (disk) => {
      await scene.play(DATABASE.name, `memory ${DATABASE_MIB}`);
      const hog = await scene.play(HOG.name, 'memory 1');
      const stuck = await scene.play(STUCK.name, `memory ${STUCK_MIB}`);
      disk.freeze();
      stuck.write(`stick ${disk.file}`);
      hog.write(`grow ${NODE_MIB} ${GROWTH_RATE}`);
      const ms = await untilGone(scene, 'the hog', hog);
      assert(stuck.isAlive(), 'the first victim died: this shows nothing');
      assert(timesFull(scene) === 0, 'the node was full: the kernel helped the victim to die');
      disk.thaw();
      await untilGone(scene, 'the first victim', stuck);
      return `gone after ${Math.round(ms)} ms`;
    }),
};

const survivor: TruthScene = {
  name: 'a victim that does not die is reported as long as it lives, and no longer',
  missing: frozenDiskMissing,
  mostRuns: 3,
  mayOutlast: true,
  spec: { pods: [STUCK, DATABASE], memoryMiB: NODE_MIB, config: [`evictionHard: { ${MEMORY} }`] },
  culprits: [STUCK.name],
  evictions: { least: 1, most: 2 },
  body: (scene) =>
    withFrozenDisk(async (disk) => {
      const isTold = async (): Promise<boolean> =>
        (await scene.status()).findings.some(({ text }) => text.includes('survived its eviction'));
      await scene.play(DATABASE.name, `memory ${DATABASE_MIB}`);
      const stuck = await scene.play(STUCK.name, 'memory 1');
      disk.freeze();
      stuck.write(`stick ${disk.file}`);
      await scene.play(STUCK.name, `memory ${NODE_MIB - 120}`);
      await until('the finding of who survived', async () => (await isTold()) || null, OUTLIVED_MS);
      assert(stuck.isAlive(), 'the victim died: this shows nothing');
      disk.thaw();
      await untilGone(scene, 'the victim', stuck);
      await until('the finding goes with it', async () => !(await isTold()) || null);
      return 'told, and taken back';
    }),
};
/** D3's 10 s after SIGKILL, and what a starved machine adds. */
const OUTLIVED_MS = 60_000;

export const stuckScenes: readonly TruthScene[] = [diskThenMemory, memoryVictim, survivor];
