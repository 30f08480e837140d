// A full disk: ending a pod frees no file, unless it is scratch or held open without a name.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { sleep } from '../../../src/host/clock.ts';
import { clock, type PodSpec, type Scene, until } from '../scene.ts';
import { besideLoops } from './starved.ts';
import { DATABASE, DATABASE_MIB, HOG, type TruthScene, untilGone } from './truth.ts';

const NODE_MIB = 512;
const NODEFS = { sizeMiB: 128, inodes: 200_000 };
const DISK = ['evictionHard: { nodefs.available: "64Mi" }'];
/** Of the same priority, and it has more files that are old than most: whoever goes by that alone takes it. */
const OTHER: PodSpec = { name: 'other', requestMiB: 16 };
const EMPTY: PodSpec = { name: 'empty', requestMiB: 16 };
const OLD_MIB = 16;
const FILL_MIB = 60;
const RELIEF_MS = 2_000;
/** The kubelet's clean-up wait, twice. */
const STAYS_MS = 60_000;
const PODS = [HOG, OTHER, EMPTY, DATABASE];

async function start(scene: Scene): Promise<void> {
  await scene.play(DATABASE.name, `memory ${DATABASE_MIB}`, `keep ${scene.directory(DATABASE.name)} 4`);
  await scene.play(OTHER.name, `keep ${scene.directory(OTHER.name)} ${OLD_MIB}`);
  await scene.play(EMPTY.name, 'memory 1');
}

/** How long it took from the end of the hog until the disk has what the threshold asks for. */
async function untilRelief(scene: Scene): Promise<number> {
  const startMs = clock.monoMs();
  const nodefs = path.dirname(scene.directory(HOG.name));
  await until('the disk is free again', () => {
    const { bavail, bsize } = fs.statfsSync(nodefs);
    return bavail * bsize >= 64 * 2 ** 20 || null;
  });
  return clock.monoMs() - startMs;
}

/** The finding of what fills the disk or the memory. */
async function untilTold(scene: Scene, signal: string): Promise<{ readonly text: string; readonly afterMs: number }> {
  const startMs = clock.monoMs();
  const text = await until('a finding says what is left', async () => {
    const { findings } = await scene.status();
    return findings.find(({ id }) => id === `what-fills/${signal}`)?.text ?? null;
  });
  return { text, afterMs: clock.monoMs() - startMs };
}

const filled: TruthScene = {
  name: 'a pod fills the disk and its files stay: no other pod is evicted within a minute',
  mostlyWaits: true,
  spec: { pods: PODS, memoryMiB: NODE_MIB, nodefs: NODEFS, config: DISK },
  culprits: [HOG.name],
  mostRuns: 2,
  body: async (scene) => {
    await start(scene);
    const hog = await scene.play(HOG.name, 'memory 1');
    hog.write(`keep ${scene.directory(HOG.name)} ${FILL_MIB}`);
    const ms = await untilGone(scene, 'the hog', hog);
    const told = await untilTold(scene, 'nodefs.available');
    assert(told.text.includes('lab/hog was stopped, but that did not free enough'), told.text);
    assert.match(
      told.text,
      new RegExp(`60(\\.\\d)? MiB in ${scene.directory(HOG.name)} \\(directory of pod lab/hog, `),
    );
    await sleep(clock, STAYS_MS);
    return `gone after ${Math.round(ms)} ms, told ${Math.round(told.afterMs)} ms later`;
  },
};

const nobodys: TruthScene = {
  name: 'files of no pod fill the disk: no pod is evicted, and the agent says where the files are',
  mostlyWaits: true,
  spec: { pods: PODS, memoryMiB: NODE_MIB, nodefs: NODEFS, config: DISK },
  culprits: [],
  evictions: { least: 0, most: 0 },
  mostRuns: 3,
  body: async (scene) => {
    // What was written within the minute counts as growth of its pod.
    await scene.play(DATABASE.name, `memory ${DATABASE_MIB}`);
    for (const { name } of [HOG, OTHER, EMPTY]) await scene.play(name, 'memory 1');
    const strange = path.join(path.dirname(scene.directory(HOG.name)), 'of nobody\u2028');
    fs.mkdirSync(strange);
    fs.symlinkSync('/usr', path.join(strange, 'usr'));
    fs.chownSync(strange, 4242, 4242);
    const file = path.join(strange, 'file');
    fs.writeFileSync(file, '');
    fs.chownSync(file, 4242, 4242);
    // All of it at once: a slow machine would be asked in the middle.
    execFileSync('fallocate', ['--length', `${FILL_MIB + OLD_MIB + 4}MiB`, file]);
    const told = await untilTold(scene, 'nodefs.available');
    assert(told.text.includes('no pod that may be evicted is known to free enough'), told.text);
    assert(told.text.includes(`80 MiB in "${path.dirname(strange)}/of nobody\\u2028" (uid 4242)`), told.text);
    await sleep(clock, 10_000);
    return `told after ${Math.round(told.afterMs)} ms`;
  },
};

const emptied: TruthScene = {
  name: 'a pod fills the disk with scratch: it is emptied, and no other pod is evicted',
  spec: {
    pods: [{ ...HOG, hasScratch: true }, OTHER, EMPTY, DATABASE],
    memoryMiB: NODE_MIB,
    nodefs: NODEFS,
    config: DISK,
  },
  culprits: [HOG.name],
  body: async (scene) => {
    await start(scene);
    const hog = await scene.play(HOG.name, 'memory 1');
    const tmp = path.join(scene.directory(HOG.name), 'tmp');
    hog.write(`keep ${tmp} ${FILL_MIB}`);
    await untilGone(scene, 'the hog', hog);
    const ms = await untilRelief(scene);
    assert(ms < RELIEF_MS, `relief took ${Math.round(ms)} ms`);
    assert(fs.existsSync(tmp), 'the scratch directory itself is gone');
    return `relief after ${Math.round(ms)} ms`;
  },
};

const unnamed: TruthScene = {
  name: 'a log that was deleted while open: its writer is evicted, and no other pod',
  spec: { pods: PODS, memoryMiB: NODE_MIB, nodefs: NODEFS, config: DISK },
  culprits: [HOG.name],
  body: async (scene) => {
    await start(scene);
    const hog = await scene.play(HOG.name, 'memory 1');
    hog.write(`unnamed ${scene.directory(HOG.name)} ${FILL_MIB}`);
    const ms = await untilGone(scene, 'the hog', hog);
    return `gone after ${Math.round(ms)} ms, relief ${Math.round(await untilRelief(scene))} ms later`;
  },
};

/** So many files with several names are remembered (host/disk/disk-walk.ts), and one more. */
const LINKED = 100_001;
const MANY_FILES = 50_000;

const hidden = (said: string, command: (directory: string) => string, isBusy = false): TruthScene => ({
  name: `a pod that fills the disk ${said}, beside an honest one`,
  spec: { pods: PODS, memoryMiB: NODE_MIB, nodefs: { ...NODEFS, inodes: 3 * LINKED }, config: DISK },
  culprits: [HOG.name],
  mostRuns: 5,
  body: async (scene) => {
    await start(scene);
    const hog = await scene.play(HOG.name, 'memory 1');
    const fill = async (): Promise<string> => {
      hog.write(command(scene.directory(HOG.name)));
      return `gone after ${Math.round(await untilGone(scene, 'the hog', hog))} ms`;
    };
    if (!isBusy) return fill();
    // Counting them takes longer than anybody waits for it.
    await scene.play(OTHER.name, `files ${scene.directory(OTHER.name)} ${MANY_FILES}`);
    return besideLoops(scene, fill);
  },
});

const LINKER: PodSpec = { ...OTHER, name: 'linker', priority: -1 };
const linked: TruthScene = {
  name: 'a pod of a lower priority gives the files of the one that fills the disk a second name: the writer is evicted, or nobody',
  mostlyWaits: true,
  spec: { pods: [...PODS, LINKER], memoryMiB: NODE_MIB, nodefs: NODEFS, config: DISK },
  culprits: [HOG.name],
  evictions: { least: 0, most: 1 },
  mostRuns: 3,
  body: async (scene) => {
    await start(scene);
    const linker = await scene.play(LINKER.name, 'memory 1');
    const hog = await scene.play(HOG.name, 'memory 1');
    // Half of it is there, and linked, before the disk is short.
    hog.write(`keep ${scene.directory(HOG.name)} ${FILL_MIB / 2}`);
    await sleep(clock, 500);
    linker.write(`link ${scene.directory(HOG.name)} ${scene.directory(LINKER.name)}`);
    await sleep(clock, 500);
    hog.write(`deep ${scene.directory(HOG.name)} 1 ${FILL_MIB / 2}`);
    await sleep(clock, 20_000);
    return hog.isAlive() ? 'nobody evicted' : 'the writer evicted';
  },
};

const OLD_LOG_MIB = 10;
const holding: TruthScene = {
  name: 'an idle pod of a lower priority holds a deleted log of the one that fills the disk open as well: the writer is evicted',
  spec: { pods: [...PODS, LINKER], memoryMiB: NODE_MIB, nodefs: NODEFS, config: DISK },
  culprits: [HOG.name],
  mostRuns: 3,
  body: async (scene) => {
    await start(scene);
    const hog = await scene.play(HOG.name, `unnamed ${scene.directory(HOG.name)} ${OLD_LOG_MIB}`);
    const open = fs.readdirSync(`/proc/${hog.pid}/fd`).map((fd) => `/proc/${hog.pid}/fd/${fd}`);
    const log = open.find((fd) => fs.readlinkSync(fd).includes('unnamed'));
    assert(log !== undefined, 'the hog does not hold its log open');
    await scene.play(LINKER.name, `open ${log}`);
    hog.write(`unnamed ${scene.directory(HOG.name)} ${FILL_MIB - OLD_LOG_MIB}`);
    return `gone after ${Math.round(await untilGone(scene, 'the hog', hog))} ms`;
  },
};

const sharedMemory: TruthScene = {
  name: 'files on a tmpfs outlive their writer under a memory threshold: one pod is evicted, and no other during the clean-up wait',
  mostlyWaits: true,
  spec: {
    pods: PODS,
    memoryMiB: 1_024,
    nodefs: { sizeMiB: 900, inodes: 4_096 },
    // It may be killed so soon after the crossing that its own few MiB are enough: with these it is not.
    config: ['evictionHard: { memory.available: "100Mi" }', 'evictionMinimumReclaim: { memory.available: "30Mi" }'],
  },
  culprits: [HOG.name],
  mostRuns: 5,
  body: async (scene) => {
    await start(scene);
    const hog = await scene.play(HOG.name, 'memory 1');
    hog.write(`keep ${scene.directory(HOG.name)} 840`);
    const ms = await untilGone(scene, 'the hog', hog);
    const told = await untilTold(scene, 'memory.available');
    const directory = scene.directory(HOG.name);
    assert.match(told.text, new RegExp(`the tmpfs at ${path.dirname(directory)} with 8\\d\\d(\\.\\d)? MiB`));
    assert.match(told.text, new RegExp(`8\\d\\d(\\.\\d)? MiB in ${directory}/keep-`));
    await sleep(clock, 15_000);
    return `gone after ${Math.round(ms)} ms, told ${Math.round(told.afterMs)} ms later`;
  },
};

const mountedOver: TruthScene = {
  name: 'another file system is mounted over nodefs: no pod is evicted for its lack of space',
  mostlyWaits: true,
  spec: { pods: PODS, memoryMiB: NODE_MIB, nodefs: NODEFS, config: DISK },
  culprits: [],
  evictions: { least: 0, most: 0 },
  mostRuns: 3,
  body: async (scene) => {
    await start(scene);
    const nodefs = path.dirname(scene.directory(HOG.name));
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'nodewarden-lab', nodefs]);
    try {
      await until('a finding tells it', async () => {
        const { findings } = await scene.status();
        return findings.some(({ text }) => text.includes('another file system is there')) || null;
      });
    } finally {
      execFileSync('umount', ['--lazy', nodefs]);
    }
    return '';
  },
};

export const diskScenes: readonly TruthScene[] = [
  filled,
  nobodys,
  emptied,
  unnamed,
  hidden('260 directories deep and deeper', (directory) => `deep ${directory} 400 ${FILL_MIB}`),
  hidden('behind 100,000 files with several names', (directory) => `links ${directory} ${LINKED} ${FILL_MIB}`),
  hidden('beside 100 busy loops', (directory) => `keep ${directory} ${FILL_MIB}`, true),
  hidden('deep, beside 100 busy loops', (directory) => `deep ${directory} 260 ${FILL_MIB}`, true),
  linked,
  holding,
  sharedMemory,
  mountedOver,
];
