// Units that appear with their hog, and units that are not known yet when it matters.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { sleep } from '../../../src/host/clock.ts';
import { askStatus, clock, until } from '../scene.ts';
import { spread } from '../spread.ts';
import { evictionsOf, type UnitTruth, victimOf } from './truth.ts';
import { LOAD, systemctl, type UnitPod, type UnitScene, unitOf } from './unit-scene.ts';

export const NODE_MIB = 512;
export const HARD = 'evictionHard: { memory.available: "100Mi" }';
export const DATABASE: UnitPod = { name: 'db', priority: 1000, requestMiB: 128, commands: ['memory 64'] };
/** Some units were asked after only now and then: the hog comes at any moment of that. */
const LONGEST_REST_MS = 5_000;
export const FILL = ['memory 1', `grow ${NODE_MIB} max`];
const DIED = '/run/lab-died';
const OWN_CGROUP = '/sys/fs/cgroup/memory/lab.slice/lab-fresh.service/memory.limit_in_bytes';

export const others = (count: number): readonly UnitPod[] =>
  Array.from({ length: count }, (_, index) => ({
    name: `other-${index}`,
    requestMiB: 16,
    commands: 'exec /bin/sleep infinity',
  }));

/** The pod's own eviction, or the kernel: whoever was first. */
export async function untilOver(scene: UnitScene): Promise<void> {
  const isOver = (): boolean =>
    scene.kernelOomKills() > 0 || evictionsOf(scene).some(({ outcomes }) => outcomes.length > 0);
  await until('the hog ends', () => isOver() || null);
}

const isActive = (pod: string): boolean => systemctl('show', '-P', 'ActiveState', unitOf(pod)) === 'active';

const KINDS: readonly { readonly said: string; readonly pod: Omit<UnitPod, 'name' | 'isLate'> }[] = [
  { said: 'transient unit', pod: { commands: FILL, isTransient: true } },
  { said: 'transient unit at 1 GiB/s', pod: { commands: [`grow ${NODE_MIB} 1024`], isTransient: true } },
  { said: 'oneshot', pod: { commands: FILL, service: ['Type=oneshot'] } },
  { said: 'unit that is never ready', pod: { commands: FILL, service: ['Type=notify', 'TimeoutStartSec=infinity'] } },
  {
    said: 'unit that systemd started again after an OOM kill of its own',
    pod: {
      // In its second life it may have all.
      commands: `if [ -e ${DIED} ]; then rm ${DIED}; echo -1 > ${OWN_CGROUP}; else : > ${DIED}; fi; exec perl ${LOAD} 'grow ${NODE_MIB} max'`,
      service: ['MemoryMax=60M', 'Restart=always', 'RestartSec=300ms'],
    },
  },
];
const COMPANIES = [
  { said: 'alone', pods: [] },
  { said: 'beside a database', pods: [DATABASE] },
  { said: 'beside a database and 110 others', pods: [DATABASE, ...others(109)] },
];

function freshScene(kind: (typeof KINDS)[number], company: (typeof COMPANIES)[number]): UnitTruth {
  return {
    name: `a fresh ${kind.said}, ${company.said}`,
    spec: {
      pods: [...company.pods, { ...kind.pod, name: 'fresh', requestMiB: 16, isLate: true }],
      memoryMiB: NODE_MIB,
      config: [HARD],
    },
    culprits: ['fresh'],
    body: async (scene, { index }) => {
      fs.rmSync(DIED, { force: true });
      await sleep(clock, spread(index) * LONGEST_REST_MS);
      scene.start('fresh');
      await untilOver(scene);
      return '';
    },
  };
}

/** The database comes first in every order, and is the only one that is large and known when the first is resolved. */
const CROWD: readonly UnitPod[] = [
  { ...DATABASE, name: 'a-db', commands: ['memory 100'] },
  ...others(30),
  { name: 'z-hog', requestMiB: 16, commands: ['memory 280'] },
];
const CROWDED = { pods: CROWD, memoryMiB: NODE_MIB };

const startUnderPressure: UnitTruth = {
  name: 'the agent starts with 32 units while a threshold is met',
  spec: { ...CROWDED, config: ['evictionHard: { memory.available: "150Mi" }'], isAgentLate: true },
  culprits: ['z-hog'],
  body: async (scene) => {
    await scene.agent.start();
    await untilOver(scene);
    return '';
  },
};

const reloadUnderPressure: UnitTruth = {
  name: 'a threshold is met during a reload with 32 units',
  spec: { ...CROWDED, config: ['evictionHard: { memory.available: "50Mi" }'] },
  culprits: ['z-hog'],
  body: async (scene) => {
    await sleep(clock, 1_000);
    assert.deepEqual(evictionsOf(scene).map(victimOf), [], 'nobody was to be chosen yet');
    scene.reload(['evictionHard: { memory.available: "150Mi" }', 'nodefs: { path: /tmp }']);
    await untilOver(scene);
    return '';
  },
};

const CLEANED = '/run/lab-cleaned';
/** Who was stopped may clean up, while the next one goes on growing. */
const cleaningUp: UnitTruth = {
  name: 'a victim runs its ExecStopPost= while another pod has to be evicted',
  spec: {
    pods: [
      DATABASE,
      {
        name: 'first',
        requestMiB: 16,
        commands: ['memory 48'],
        service: [`ExecStopPost=/bin/sh -c "sleep 2; : > ${CLEANED}"`],
      },
      { name: 'second', priority: 100, requestMiB: 16, commands: FILL, isLate: true },
    ],
    memoryMiB: NODE_MIB,
    config: [HARD],
  },
  culprits: ['first', 'second'],
  evictions: { least: 2, most: 2 },
  body: async (scene) => {
    fs.rmSync(CLEANED, { force: true });
    scene.start('second');
    await until('both have gone', () => evictionsOf(scene).length >= 2 || null, 20_000);
    await until('the first has cleaned up', () => fs.existsSync(CLEANED) || null, 20_000);
    return evictionsOf(scene).map(victimOf).join(', ');
  },
};

async function found(scene: UnitScene, what: RegExp): Promise<void> {
  const isFound = async (): Promise<true | null> => {
    const { findings } = await askStatus(scene.agent.places.socket);
    return findings.some(({ text }) => what.test(text)) || null;
  };
  await until(`a finding says ${what.source}`, isFound);
}

/** The hog comes when a finding tells of the other one. */
async function freshOnceFound(scene: UnitScene, what: RegExp): Promise<string> {
  await found(scene, what);
  scene.start('fresh');
  await untilOver(scene);
  return '';
}

/** It would be the first in every order, and its end would give the node nothing. */
const outside: UnitTruth = {
  name: 'a unit outside cgroupRoot, beside a pod of higher priority that fills it',
  spec: {
    pods: [
      DATABASE,
      { name: 'outside', commands: ['memory 200'], service: ['Slice=system.slice'] },
      { name: 'fresh', priority: 500, requestMiB: 16, commands: FILL, isLate: true },
    ],
    memoryMiB: NODE_MIB,
    config: [HARD],
  },
  culprits: ['fresh'],
  body: (scene) => freshOnceFound(scene, /lab-outside.*is not below/),
};

const LONG_BACK_MS = 16_000;
const FILLED = '/run/lab-filled';
/** Started in the place of the one that was evicted, which systemd cannot run beside it. */
const replaced: UnitTruth = {
  name: 'an evicted unit is not restarted if that would stop the unit that replaced it, before that has ended',
  mostRuns: 2,
  spec: {
    pods: [
      DATABASE,
      {
        name: 'fresh',
        requestMiB: 16,
        commands: `if [ -e ${FILLED} ]; then exec sleep infinity; fi; : > ${FILLED}; exec perl ${LOAD} 'grow ${NODE_MIB} max'`,
        isLate: true,
        isRestarted: true,
      },
      { name: 'rival', priority: 1000, commands: ['memory 8'], unit: ['Conflicts=lab-fresh.service'], isLate: true },
    ],
    memoryMiB: NODE_MIB,
    config: [HARD],
  },
  culprits: ['fresh'],
  body: async (scene) => {
    fs.rmSync(FILLED, { force: true });
    scene.start('fresh');
    await untilOver(scene);
    scene.start('rival');
    // The transition period, and the first back-off of 10 s.
    await sleep(clock, LONG_BACK_MS);
    await found(scene, /^lab-fresh\.service could not be restarted: lab-rival\.service runs/);
    assert.equal(isActive('fresh'), false, 'it was restarted beside the rival');
    assert.equal(isActive('rival'), true, 'the rival was stopped');
    systemctl('stop', unitOf('rival'));
    await until('it is restarted once the rival has ended', () => isActive('fresh') || null);
    return '';
  },
};

/** Without its tie to the database `base` would be the first in every order, and the database would go with it. */
const tied: UnitTruth = {
  name: 'a second manifest claims the unit that the database requires, and is refused: the unit keeps its priority',
  spec: {
    pods: [
      { ...DATABASE, unit: ['Requires=lab-base.service', 'After=lab-base.service'] },
      { name: 'base', commands: ['memory 80'] },
      { name: 'claimant', claims: 'base', commands: [] },
      { name: 'fresh', priority: 500, requestMiB: 16, commands: FILL, isLate: true },
    ],
    memoryMiB: NODE_MIB,
    config: [HARD],
  },
  culprits: ['fresh'],
  body: (scene) => freshOnceFound(scene, /claimant.*lab-base\.service/),
};

const [ALONE, BESIDE, CROWDED_BY] = COMPANIES;
export const unitScenes: readonly UnitTruth[] = [
  ...KINDS.flatMap((kind) =>
    [ALONE, BESIDE].flatMap((company) => (company === undefined ? [] : [freshScene(kind, company)])),
  ),
  ...KINDS.slice(0, 1).flatMap((kind) => (CROWDED_BY === undefined ? [] : [freshScene(kind, CROWDED_BY)])),
  startUnderPressure,
  reloadUnderPressure,
  cleaningUp,
  outside,
  tied,
  replaced,
];
