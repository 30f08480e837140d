import assert from 'node:assert/strict';
import type { Signal } from '../../src/core/signal.ts';
import { sleep } from '../../src/host/clock.ts';
import type { Workload } from '../../src/host/process/workload.ts';
import type { DecisionRecord } from '../../src/record/entry.ts';
import { crashing } from './crashes.ts';
import { availableMiB, clock, NODE_MIB, type PodSpec, type Scene, type SceneSpec, until } from './scene.ts';

/** One thing that must hold on a real node; what `body` returns are its figures. Throws when it does not hold. */
export type Check = {
  readonly name: string;
  readonly spec: SceneSpec;
  readonly body: (scene: Scene) => Promise<string>;
};

const MIB = 1024 * 1024;
/** After an eviction nobody else may follow: so long the node is watched. */
const AFTERMATH_MS = 1_500;
const SOFT_GRACE_MS = 1_000;

const HOG: PodSpec = { name: 'hog', requestMiB: 32 };
/** Of the same priority, but within its request; and one of a higher priority that requests nothing. */
const INNOCENTS: readonly PodSpec[] = [
  { name: 'quiet', requestMiB: 128 },
  { name: 'critical', priority: 1000 },
];

type Pressure = {
  readonly signal: Signal;
  readonly limits: { readonly soft: string; readonly hard: string };
  /** Of the hog: the bound of its cgroup on pids. */
  readonly hogPids?: { readonly soft: number; readonly hard: number };
  readonly nodefs?: SceneSpec['nodefs'];
  readonly crossing: (kind: 'soft' | 'hard', scene: Scene) => readonly string[];
};

const PRESSURES: readonly Pressure[] = [
  {
    signal: 'memory.available',
    limits: { soft: '150Mi', hard: '50Mi' },
    crossing: (kind) => [`memory ${kind === 'soft' ? 220 : 340}`],
  },
  {
    signal: 'pid.available',
    limits: { soft: '128', hard: '40' },
    // The fork bomb fills its own cgroup and no more.
    hogPids: { soft: 150, hard: 235 },
    crossing: () => ['bomb'],
  },
  {
    signal: 'nodefs.available',
    limits: { soft: '32Mi', hard: '12Mi' },
    nodefs: { sizeMiB: 64, inodes: 4096 },
    crossing: (kind, scene) => [`fill ${scene.directory('hog')} ${kind === 'soft' ? 40 : 56}`],
  },
  {
    signal: 'nodefs.inodesFree',
    limits: { soft: '500', hard: '200' },
    nodefs: { sizeMiB: 64, inodes: 1024 },
    crossing: (kind, scene) => [`files ${scene.directory('hog')} ${kind === 'soft' ? 650 : 900}`],
  },
];

function thresholds(signal: Signal, limits: Pressure['limits'], softGraceMs: number): readonly string[] {
  return [
    `evictionHard: { ${signal}: "${limits.hard}" }`,
    `evictionSoft: { ${signal}: "${limits.soft}" }`,
    `evictionSoftGracePeriod: { ${signal}: "${softGraceMs}ms" }`,
    'evictionMaxPodGracePeriod: 30',
  ];
}

const podOf = ({ decision }: DecisionRecord): string | null =>
  'victim' in decision ? `${decision.victim.namespace}/${decision.victim.name}` : null;
/** What the last look dropped (D9) has touched nobody. */
const isDropped = ({ outcomes }: DecisionRecord): boolean => outcomes.some(({ kind }) => kind === 'dropped');
const chosen = (scene: Scene): readonly DecisionRecord[] =>
  scene.history().decisions.filter(({ decision }) => decision.kind === 'evict' || decision.kind === 'evict-over-limit');
const evictions = (scene: Scene): readonly DecisionRecord[] => chosen(scene).filter((record) => !isDropped(record));

/** The end of the first process is not yet that of its cgroup, and the record follows the proof. */
const untilProven = (scene: Scene): Promise<unknown> =>
  until('the end is recorded', () => evictions(scene).some(({ outcomes }) => outcomes.length > 0) || null);

async function playInnocents(scene: Scene): Promise<readonly Workload[]> {
  return [await scene.play('quiet', 'memory 40'), await scene.play('critical', 'memory 8')];
}

function crossingCheck(pressure: Pressure, kind: 'soft' | 'hard'): Check {
  const { signal, limits, hogPids, nodefs } = pressure;
  const hog = hogPids === undefined ? HOG : { ...HOG, maxPids: hogPids[kind] };
  const threshold = `${signal}/eviction${kind === 'soft' ? 'Soft' : 'Hard'}`;
  return {
    name: `${signal}: crossing its ${kind} threshold evicts the pod that crossed it, and nobody else`,
    spec: {
      pods: [hog, ...INNOCENTS],
      // Only the hard check must not meet its soft threshold first.
      config: thresholds(signal, limits, kind === 'soft' ? SOFT_GRACE_MS : 60_000),
      ...(nodefs === undefined ? {} : { nodefs }),
    },
    body: async (scene) => {
      const innocents = await playInnocents(scene);
      const offender = await scene.play('hog', ...pressure.crossing(kind, scene));
      await until('the hog ends', () => offender.ended());
      await untilProven(scene);
      await sleep(clock, AFTERMATH_MS);
      const evicted = evictions(scene);
      assert.deepEqual(evicted.map(podOf), ['lab/hog'], 'exactly the hog was evicted');
      const [record] = evicted;
      assert(record?.decision.kind === 'evict');
      const { decision, outcomes } = record;
      assert.equal(decision.threshold.id, threshold);
      assert.equal(decision.threshold.isHard, kind === 'hard');
      assert.deepEqual(
        outcomes.map((outcome) => outcome.kind),
        ['ended'],
      );
      const graceMs = decision.atMs - decision.threshold.sinceMs;
      if (kind === 'soft') assert(graceMs >= SOFT_GRACE_MS, `grace of ${graceMs} ms`);
      assert(
        innocents.every((workload) => workload.isAlive()),
        'the innocents live',
      );
      assert.equal(scene.kernelOomKills(), 0, 'the kernel killed nobody');
      const now = (await scene.status()).signals.find((status) => status.signal === signal);
      assert(
        now?.thresholds.every(({ isMet }) => !isMet),
        'the signal is back above its thresholds',
      );
      sawInLog(scene, signal);
      const endedMs = (outcomes[0]?.atMs ?? Number.NaN) - decision.atMs;
      return `decided ${Math.round(graceMs)} ms after the crossing, proven ended ${Math.round(endedMs)} ms later`;
    },
  };
}

/** One greppable line with victim, signal, observed and threshold. */
function sawInLog(scene: Scene, signal: Signal): void {
  const lines = scene
    .log()
    .split('\n')
    .filter((line) => line.includes('"event":"evict"'));
  assert.equal(lines.length, 1, `one line of the eviction in the log, not ${lines.length}`);
  assert.match(
    lines[0] ?? '',
    new RegExp(`lab/hog.*${signal.replace('.', '\\.')}|${signal.replace('.', '\\.')}.*lab/hog`),
  );
}

/** D2: the signal is above the soft threshold for 50 ms of every second, and the grace runs out all the same. */
const touching: Check = {
  name: 'D2: memory that recovers for 50 ms every second does not restart the grace period of a soft threshold',
  spec: { pods: [HOG, ...INNOCENTS], config: thresholds('memory.available', { soft: '150Mi', hard: '20Mi' }, 4_000) },
  body: async (scene) => {
    await playInnocents(scene);
    // Measured, not computed: 6 MiB below the limit, and 14 MiB above it while it touches.
    const without = await availableMiB(scene);
    const high = Math.round(without - 150 + 6);
    const offender = await scene.play('hog', `touch ${high} ${high - 20}`);
    let unmet = 0;
    let isOver = false;
    const watch = (async () => {
      while (!isOver) {
        const memory = (await scene.status()).signals[0];
        if (memory?.available !== null && memory !== undefined && memory.available > 150 * MIB) unmet += 1;
        await sleep(clock, 10);
      }
    })();
    await until('the hog ends', () => offender.ended());
    isOver = true;
    await watch;
    const [record, ...others] = evictions(scene);
    assert(record?.decision.kind === 'evict');
    assert.deepEqual([podOf(record), others.length], ['lab/hog', 0]);
    assert.equal(record.decision.threshold.id, 'memory.available/evictionSoft');
    const graceMs = record.decision.atMs - record.decision.threshold.sinceMs;
    assert(graceMs >= 4_000 && graceMs < 7_000, `the grace of 4000 ms took ${graceMs} ms`);
    assert(unmet > 0, 'the signal was never seen above the threshold: the workload did not touch it');
    return `grace of 4 s over after ${Math.round(graceMs)} ms, the signal was seen above the limit ${unmet} times meanwhile`;
  },
};

/** D4: a victim that ignores SIGTERM, with 30 s of soft grace; then the node burns. */
const overtaking: Check = {
  name: 'D4: a hard threshold cuts the grace period of a soft eviction in progress',
  spec: {
    pods: [{ ...HOG, graceSeconds: 30 }, ...INNOCENTS],
    config: thresholds('memory.available', { soft: '150Mi', hard: '50Mi' }, SOFT_GRACE_MS),
  },
  body: async (scene) => {
    const innocents = await playInnocents(scene);
    const offender = await scene.play('hog', 'stubborn', 'memory 220');
    await until('the soft eviction begins', () => evictions(scene).at(0) ?? null);
    await sleep(clock, 1_000);
    assert(offender.isAlive(), 'the hog ignores SIGTERM during its grace');
    offender.write('memory 340');
    await until('the hog ends', () => offender.ended());
    await untilProven(scene);
    await sleep(clock, AFTERMATH_MS);
    const decisions = scene.history().decisions;
    const hasten = decisions.find(({ decision }) => decision.kind === 'hasten')?.decision;
    const [evicted, ...others] = evictions(scene);
    assert(hasten?.kind === 'hasten', 'the eviction was hastened');
    assert(evicted?.decision.kind === 'evict' && others.length === 0, 'one eviction');
    assert.equal(evicted.decision.threshold.id, 'memory.available/evictionSoft');
    assert.equal(hasten.eviction, evicted.decision.id);
    const hastenedMs = hasten.atMs - hasten.threshold.sinceMs;
    assert(hastenedMs < 1_000, `from the hard crossing to the cut ${hastenedMs} ms`);
    // Of the soft grace of 30 s; how fast the kernel then tears it down is the machine's affair.
    const endedMs = (evicted.outcomes[0]?.atMs ?? Number.NaN) - hasten.threshold.sinceMs;
    assert(endedMs < 10_000, `from the hard crossing to the proven end ${endedMs} ms`);
    assert(
      innocents.every((workload) => workload.isAlive()),
      'the innocents live',
    );
    return `grace of 30 s cut: ended ${Math.round(endedMs)} ms after the hard crossing`;
  },
};

/** D3: the same hog again and again; each breach costs one kill, and nobody but the hog. */
function repeating(breaches: number): Check {
  return {
    name: `D3: a single hog that breaches ${breaches} times costs exactly ${breaches} kills`,
    spec: {
      pods: [HOG, ...INNOCENTS],
      config: ['evictionHard: { memory.available: "50Mi" }'],
    },
    body: async (scene) => {
      const innocents = await playInnocents(scene);
      const mib = Math.round(await availableMiB(scene)) - 50 + 20;
      assert(mib < NODE_MIB);
      for (let breach = 1; breach <= breaches; breach++) {
        const offender = await scene.play('hog', `memory ${mib}`);
        const ended = await until(`breach ${breach} ends`, () => offender.ended());
        assert.equal(ended.signal, 'SIGKILL', `breach ${breach} ended by ${ended.signal ?? ended.code}`);
        // Before the proof of the last kill a new process in the same cgroup belongs to the same breach.
        await until('the kill is proven', async () => (await scene.status()).act.kind === 'idle' || null);
      }
      await sleep(clock, AFTERMATH_MS);
      const records = evictions(scene);
      const kills = records.filter(({ outcomes }) => outcomes.some(({ kind }) => kind === 'ended'));
      assert.deepEqual([...new Set(records.map(podOf))], ['lab/hog']);
      assert.deepEqual([records.length, kills.length], [breaches, breaches], 'decisions and proven kills');
      assert(
        innocents.every((workload) => workload.isAlive()),
        'the innocents live',
      );
      assert.equal(scene.kernelOomKills(), 0, 'the kernel killed nobody');
      return `${breaches} breaches, ${kills.length} kills`;
    },
  };
}

/** D3 where the signal is sampled beside the looks: what one has given back costs nobody else a decision. */
const DISK_BREACHES = 12;
const filling: Check = {
  name: `D3: a pod that fills the disk ${DISK_BREACHES} times is chosen ${DISK_BREACHES} times, and nobody beside it`,
  spec: {
    pods: [HOG, ...INNOCENTS],
    config: ['evictionHard: { nodefs.available: "32Mi" }'],
    nodefs: { sizeMiB: 64, inodes: 4096 },
  },
  body: async (scene) => {
    await playInnocents(scene);
    for (let breach = 1; breach <= DISK_BREACHES; breach++) {
      const offender = await scene.play('hog', `fill ${scene.directory('hog')} 40`);
      await until(`breach ${breach} ends`, () => offender.ended());
      await until('the end is proven', async () => (await scene.status()).act.kind === 'idle' || null);
    }
    await sleep(clock, AFTERMATH_MS);
    // Also whom the last look spared (D9).
    const names = chosen(scene).map(podOf);
    assert.deepEqual(names, new Array(DISK_BREACHES).fill('lab/hog'));
    return `${names.length} decisions`;
  },
};

export function checks(breaches: number): readonly Check[] {
  return [
    ...PRESSURES.flatMap((pressure) => [crossingCheck(pressure, 'soft'), crossingCheck(pressure, 'hard')]),
    touching,
    overtaking,
    repeating(breaches),
    filling,
    crashing(breaches),
  ];
}
