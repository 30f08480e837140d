// Who owns a scratch directory may replace, move and mount what it likes while it is emptied: nothing else is removed.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import path from 'node:path';
import { sleep } from '../../../src/host/clock.ts';
import { clock, type Scene, until } from '../scene.ts';
import { DATABASE, evictionsOf, HOG, isOver, type Run, type TruthScene, type UnitTruth } from './truth.ts';
import { systemctl, type UnitPod, type UnitScene, unitOf } from './unit-scene.ts';

const NODEFS = { sizeMiB: 128, inodes: 200_000 };
const DISK = 'evictionHard: { nodefs.available: "64Mi" }';
const FILL_MIB = 70;
const RELIEF_MS = 2_000;
const TENANT = 65_534;
const UNIT_NODEFS = '/srv/lab';
/** So many take a while to count and to remove. */
const FILES = 40_000;
/** In so many directories the owner may mount. */
const DIRECTORIES = 2_000;
/**
 * @ARGV: the directory that holds `tmp`, and what belongs to somebody else. mount(2) and umount(2) by their numbers on
 * x86-64. The first one waits until the emptying has begun, and then mounts that wherever it will be next.
 */
const HOSTILE = [
  `
  my ($own, $precious) = @ARGV;
  my %done;
  while (1) {
    for my $at (glob("$own/tmp/*/at")) {
      next if $done{$at}++ || %done > 300;
      syscall(165, $precious, $at, 0, 4096, 0);
    }
    select undef, undef, undef, 0.0005;
  }`,
  `
  my ($own, $precious) = @ARGV;
  sub nap { select undef, undef, undef, 0.002 }
  mkdir "$own/other"; mkdir "$own/other/at";
  syscall(165, $precious, "$own/other/at", 0, 4096, 0);
  while (1) {
    rename "$own/tmp", "$own/away"; symlink $precious, "$own/tmp"; nap();
    unlink "$own/tmp"; rename "$own/away", "$own/tmp"; nap();
    rename "$own/tmp", "$own/away"; rename "$own/other", "$own/tmp"; nap();
    rename "$own/tmp", "$own/other"; rename "$own/away", "$own/tmp"; nap();
  }`,
];

/** What the owner brings about: nothing of it is a failure. */
const REFUSED =
  /a file system is mounted|a symbolic link|not everything|another directory is at this path|after the end of the pod/;

/** Plays the owner from the decision to the end of the eviction. */
async function emptyAgainst(
  scene: Scene | UnitScene,
  { index }: Run,
  own: string,
  fill: () => unknown,
): Promise<string> {
  const precious = path.join(path.dirname(own), 'precious');
  fs.mkdirSync(path.join(precious, 'deep'), { recursive: true });
  for (const name of ['data', 'deep/data']) fs.writeFileSync(path.join(precious, name), 'of somebody else');
  for (let i = 0; i < DIRECTORIES; i++) fs.mkdirSync(path.join(own, 'tmp', String(i), 'at'), { recursive: true });
  await fill();
  await until('somebody is chosen', () => evictionsOf(scene).length > 0 || null);
  const owner = spawn('perl', ['-e', HOSTILE[index % HOSTILE.length] ?? '', own, precious], { stdio: 'ignore' });
  try {
    await until('the eviction is over', () => evictionsOf(scene).every(isOver) || null);
  } finally {
    owner.kill('SIGKILL');
    await once(owner, 'exit');
    execFileSync('sh', [
      '-c',
      'grep -o " $1/[^ ]* " /proc/self/mountinfo | while read -r at; do umount -l "$at"; done',
      'sh',
      own,
    ]);
  }
  for (const name of ['data', 'deep/data']) assert(fs.existsSync(path.join(precious, name)), `${name} was removed`);
  const emptied = emptiedBy(scene);
  if (emptied.problem !== null) assert.match(emptied.problem, REFUSED);
  return emptied.problem ?? 'emptied';
}

const BESIDE_OTHERS: TruthScene['spec'] = {
  pods: [{ ...HOG, hasScratch: true }, { name: 'other', requestMiB: 16 }, DATABASE],
  memoryMiB: 512,
  nodefs: NODEFS,
  config: [DISK],
};

const inCgroup: TruthScene = {
  name: 'the owner of a scratch directory redirects it while it is being emptied: nothing else is removed',
  spec: BESIDE_OTHERS,
  culprits: [HOG.name],
  body: async (scene, run) => {
    await scene.play(DATABASE.name, 'memory 64');
    await scene.play('other', 'memory 1');
    // It lives until SIGKILL, so that the owner is at work before the emptying begins.
    const hog = await scene.play(HOG.name, 'stubborn');
    const own = scene.directory(HOG.name);
    return emptyAgainst(scene, run, own, () => hog.write(`keep ${own}/tmp ${FILL_MIB}`));
  },
};

const own = path.join(UNIT_NODEFS, 'hog');
/** A unit that fills the disk, with its directory on a small one. */
function onDisk(of: {
  readonly name: string;
  readonly commands: UnitPod['commands'];
  readonly service?: readonly string[];
  readonly isRestarted?: true;
  readonly annotations: { readonly [name: string]: string };
  readonly others?: readonly UnitPod[];
  readonly play: (scene: UnitScene, run: Run) => Promise<string>;
}): UnitTruth {
  const hog = {
    name: 'hog',
    requestMiB: 16,
    isLate: true,
    commands: of.commands,
    annotations: of.annotations,
    ...(of.service === undefined ? {} : { service: of.service }),
    ...(of.isRestarted ? ({ isRestarted: true } as const) : {}),
  } as const;
  return {
    name: of.name,
    spec: {
      pods: [{ name: 'db', priority: 1000, requestMiB: 128, commands: ['memory 64'] }, hog, ...(of.others ?? [])],
      memoryMiB: 512,
      config: [`nodefs: { path: ${UNIT_NODEFS} }`, DISK],
      isAgentLate: true,
    },
    culprits: ['hog'],
    mostRuns: 5,
    body: async (scene, run) => {
      fs.mkdirSync(UNIT_NODEFS, { recursive: true });
      execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${NODEFS.sizeMiB}m`, 'nodewarden-lab', UNIT_NODEFS]);
      try {
        fs.mkdirSync(path.join(own, 'tmp'), { recursive: true });
        await scene.agent.start();
        return await of.play(scene, run);
      } finally {
        execFileSync('umount', ['--lazy', UNIT_NODEFS]);
      }
    },
  };
}

const redirected = onDisk({
  name: 'the owner of a unit’s scratch directory redirects it while it is being emptied: nothing else is removed',
  commands: ['stubborn', `keep ${own}/tmp ${FILL_MIB}`],
  annotations: { 'nodewarden.dev/scratch': path.join(own, 'tmp') },
  play: (scene, run) => emptyAgainst(scene, run, own, () => scene.start('hog')),
});

const relieved = onDisk({
  name: 'a unit fills the disk with scratch: it is emptied, and no other pod is evicted',
  commands: [`keep ${own}/tmp ${FILL_MIB}`],
  annotations: { 'nodewarden.dev/scratch': path.join(own, 'tmp') },
  play: async (scene) => {
    scene.start('hog');
    await until('somebody is chosen', () => evictionsOf(scene).length > 0 || null);
    await until('the hog is gone', () => systemctl('show', '-P', 'MainPID', unitOf('hog')) === '0' || null);
    const startMs = clock.monoMs();
    await until('the disk is free again', () => {
      const { bavail, bsize } = fs.statfsSync(UNIT_NODEFS);
      return bavail * bsize >= 64 * 2 ** 20 || null;
    });
    const ms = Math.round(clock.monoMs() - startMs);
    assert(ms < RELIEF_MS, `relief took ${ms} ms`);
    return `relief after ${ms} ms`;
  },
});

const stays = onDisk({
  name: 'a unit fills the disk and its files stay: the installed agent says where they are',
  commands: [`keep ${own} ${FILL_MIB}`],
  annotations: { 'nodewarden.dev/disk': own },
  play: async (scene) => {
    scene.start('hog');
    const said = `lab/hog was stopped, but that did not free enough. The file system at ${UNIT_NODEFS} holds ${FILL_MIB} MiB in ${own} (directory of pod lab/hog, user root)`;
    await until('a finding says what is left', () => scene.agent.log().includes(said) || null);
    return '';
  },
});

const WRITER = path.join(UNIT_NODEFS, 'writer');
/** Six runs fill the disk; systemd reads $$ as one $. Most of the time it has no process. */
const crashing = onDisk({
  name: 'a unit fills the disk a bit in each run and crashes: it is kept down until the disk is free, and none that grows a little is stopped in its place',
  commands: `dd if=/dev/zero of=${own}/dump.$$$$ bs=1M count=12; exit 1`,
  service: ['Restart=always', 'RestartSec=2'],
  isRestarted: true,
  annotations: { 'nodewarden.dev/disk': own },
  others: [
    {
      name: 'writer',
      requestMiB: 16,
      isLate: true,
      commands: `while :; do echo line >> ${WRITER}/log; sleep 0.2; done`,
      annotations: { 'nodewarden.dev/disk': WRITER },
    },
  ],
  play: async (scene) => {
    fs.mkdirSync(WRITER);
    scene.start('writer', 'hog');
    await until('the eviction is over', () => evictionsOf(scene).some(isOver) || null);
    const state = (): string => systemctl('show', '-P', 'ActiveState', unitOf('hog'));
    assert.equal(state(), 'inactive');
    const dumps = fs.readdirSync(own).filter((name) => name.startsWith('dump'));
    for (const dump of dumps) fs.rmSync(path.join(own, dump));
    await until('it is started again', () => state() !== 'inactive' || null);
    return `${dumps.length} runs`;
  },
});

/** The emptying as the agent reports it once the eviction is over. */
async function emptiedIn(scene: Scene): Promise<{ readonly problem: string | null }> {
  await until(
    'the eviction is over',
    () => (evictionsOf(scene).length > 0 && evictionsOf(scene).every(isOver)) || null,
  );
  return emptiedBy(scene);
}

function emptiedBy(scene: Parameters<typeof evictionsOf>[0]): { readonly problem: string | null } {
  const outcome = evictionsOf(scene)[0]?.outcomes.find(({ kind }) => kind === 'ended');
  assert(outcome?.kind === 'ended' && outcome.emptied !== undefined, 'the outcome does not say what was emptied');
  return outcome.emptied;
}

const replaced: TruthScene = {
  name: 'where the user of a pod may, it puts the directory of another user in the place of its scratch: that one stays',
  spec: BESIDE_OTHERS,
  culprits: [HOG.name],
  body: async (scene, { index }) => {
    await scene.play(DATABASE.name, 'memory 64');
    await scene.play('other', 'memory 1');
    const hog = await scene.play(HOG.name, 'stubborn');
    const own = scene.directory(HOG.name);
    const [tmp, precious] = [path.join(own, 'tmp'), path.join(own, 'precious')];
    fs.mkdirSync(precious, { mode: 0o700 });
    fs.writeFileSync(path.join(precious, 'data'), 'of somebody else');
    fs.chownSync(precious, 1, 1);
    fs.chownSync(tmp, TENANT, TENANT);
    // Everybody may write to the directory above both, or it is the tenant's.
    if (index % 2 === 0) fs.chmodSync(own, 0o777);
    else fs.chownSync(own, TENANT, TENANT);
    hog.write(`keep ${tmp} ${FILL_MIB}`);
    await until('somebody is chosen', () => evictionsOf(scene).length > 0 || null);
    const rename = 'rename "tmp", "away" or die $!; rename "precious", "tmp" or die $!';
    execFileSync('perl', ['-e', rename], { cwd: own, uid: TENANT, gid: TENANT });
    const { problem } = await emptiedIn(scene);
    assert(fs.existsSync(path.join(tmp, 'data')), 'the data of somebody else was removed');
    assert.match(problem ?? '', /chmod go-w|chown root/);
    return problem ?? '';
  },
};

const again: TruthScene = {
  name: 'a pod that runs again when its scratch is to be emptied keeps what it has written since',
  spec: { pods: [{ ...HOG, hasScratch: true }, DATABASE], memoryMiB: 512, nodefs: NODEFS, config: [DISK] },
  culprits: [HOG.name],
  body: async (scene, { index }) => {
    await scene.play(DATABASE.name, 'memory 64');
    const tmp = path.join(scene.directory(HOG.name), 'tmp');
    const hog = await scene.play(HOG.name, 'memory 1', `files ${tmp} ${FILES}`);
    hog.write(`keep ${tmp} ${FILL_MIB}`);
    await until('the hog is gone', () => !hog.isAlive() || null);
    await sleep(clock, (index % 3) * 20);
    await scene.play(HOG.name, 'memory 1');
    fs.writeFileSync(path.join(tmp, 'new'), 'of the pod that runs');
    const { problem } = await emptiedIn(scene);
    assert(fs.existsSync(path.join(tmp, 'new')), 'what the running pod wrote was removed');
    return problem ?? 'emptied before it ran';
  },
};

export const scratchScenes: readonly TruthScene[] = [inCgroup, replaced, again];
export const scratchUnitScenes: readonly UnitTruth[] = [redirected, relieved, stays, crashing];
