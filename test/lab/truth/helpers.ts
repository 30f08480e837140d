// Programs of the operator that misbehave, while a disk and then memory cross their hard thresholds.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { sleep } from '../../../src/host/clock.ts';
import { codeOf } from '../../../src/host/file-error.ts';
import { joinDecisions } from '../../../src/record/entry.ts';
import { readRecord } from '../../../src/record/reading/record-file.ts';
import { askStatus, clock, type PodSpec, until } from '../scene.ts';
import {
  DATABASE,
  DATABASE_MIB,
  evictionsOf,
  HOG,
  isOver,
  type TruthScene,
  type UnitTruth,
  untilGone,
  victimOf,
} from './truth.ts';
import type { UnitPod } from './unit-scene.ts';

type Helper = {
  readonly said: string;
  /** null: it is not there. */
  readonly program: string | null;
  /** What the findings of all three say; null: it did not fail. */
  readonly failure: RegExp | null;
};
const PERL = '#!/usr/bin/perl\n';
/** Each has its own path in the command line of every process, by which what is left is found. */
const HELPERS: readonly Helper[] = [
  {
    said: 'hang, whatever signal asks',
    program: `${PERL}$SIG{TERM} = "IGNORE"; sleep 1000 while 1;\n`,
    failure: /timed out/,
  },
  {
    said: 'print without end and read nothing',
    program: `${PERL}$SIG{PIPE} = "IGNORE"; my $x = "x" x 65535 . "\\n"; print $x while 1;\n`,
    failure: /timed out/,
  },
  {
    said: 'end, and leave a child',
    program: `${PERL}$SIG{TERM} = $SIG{HUP} = "IGNORE"; if (!fork) { close STDIN; sleep 1000 while 1 }\n`,
    failure: null,
  },
  { said: 'are not there', program: null, failure: /ENOENT|could not be started/ },
];
/** Only systemd can end what has left the group of its parent. */
const ESCAPED: Helper = {
  said: 'end, and leave a child with a session of its own',
  program: `${PERL}use POSIX; if (!fork) { POSIX::setsid(); $SIG{TERM} = "IGNORE"; close STDIN; close STDOUT; close STDERR; sleep 1000 while 1 }\n`,
  failure: null,
};

const NODE_MIB = 512;
/** It crosses the soft threshold 2 s before the hard one: the preKill has begun, and is not over. */
const RATE = 50;
const FILLER: PodSpec = { name: 'filler', requestMiB: 16 };
const FILL_MIB = 40;
const NODEFS = { sizeMiB: 64, inodes: 4_096 };
const DIRECTORY = '/run/nodewarden-lab-helper';
const NOBODY_LEFT_MS = 20_000;

const pathOf = ({ said }: Helper): string => path.join(DIRECTORY, `${said.replaceAll(/[^a-z]+/g, '-')}.pl`);
const configOf = (helper: Helper): readonly string[] => {
  const command = `command: ["${pathOf(helper)}"]`;
  return [
    'evictionHard: { memory.available: "100Mi", nodefs.available: "32Mi" }',
    'evictionSoft: { memory.available: "200Mi" }',
    'evictionSoftGracePeriod: { memory.available: 1s }',
    'evictionMaxPodGracePeriod: 5',
    `reclaimCommands: [{ signal: nodefs.available, ${command}, timeout: 3s }]`,
    `preKill: { ${command}, timeout: 5s }`,
    `notify: { ${command}, on: [evicted], timeout: 3s }`,
  ];
};

async function withHelper(helper: Helper, body: () => Promise<string>): Promise<string> {
  fs.mkdirSync(DIRECTORY, { recursive: true });
  if (helper.program !== null) fs.writeFileSync(pathOf(helper), helper.program, { mode: 0o755 });
  try {
    return await body();
  } finally {
    for (const pid of left(helper)) kill(pid);
    fs.rmSync(DIRECTORY, { recursive: true });
  }
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch (error) {
    // It ended since it was found.
    if (codeOf(error) !== 'ESRCH') throw error;
  }
}

/** Processes of it that live. */
function left(helper: Helper): readonly number[] {
  return fs.readdirSync('/proc').flatMap((pid) => {
    if (!/^\d+$/.test(pid) || Number(pid) === process.pid) return [];
    try {
      return fs.readFileSync(`/proc/${pid}/cmdline`, 'latin1').split('\0').includes(pathOf(helper))
        ? [Number(pid)]
        : [];
    } catch {
      return []; // It ended.
    }
  });
}

type Node = { readonly agent: { readonly places: { readonly socket: string; readonly stateDirectory: string } } };

const reclaimsOf = ({ agent }: Node) =>
  joinDecisions(readRecord(agent.places.stateDirectory).entries).filter(({ decision }) => decision.kind === 'reclaim');
const findingsOf = async ({ agent }: Node) => (await askStatus(agent.places.socket)).findings;

/** What status and the record say of the three, and that nothing of them runs on. */
async function toldAndGone(node: Node, helper: Helper): Promise<string> {
  const startMs = clock.monoMs();
  const ids = [`reclaim/nodefs.available/${pathOf(helper)}`, 'pre-kill', 'notify'];
  const { failure } = helper;
  if (failure !== null) {
    await until('status tells that all three failed', async () => {
      const findings = await findingsOf(node);
      return ids.every((id) => findings.some((one) => one.id === id && failure.test(one.text))) || null;
    });
  }
  await until('nothing of them runs', () => left(helper).length === 0 || null, NOBODY_LEFT_MS);
  const endedMs = clock.monoMs() - startMs;
  if (failure === null) {
    const found = (await findingsOf(node)).filter(({ id }) => ids.includes(id));
    assert.deepEqual(found, [], 'of one that did not fail, a failure is told');
  }
  const [reclaim] = reclaimsOf(node);
  assert(
    reclaim?.outcomes.some(({ kind }) => kind === 'reclaimed'),
    'the record has no end of the reclaim',
  );
  return `nothing of them left after ${Math.round(endedMs)} ms`;
}

function scene(helper: Helper): TruthScene {
  return {
    name: `a disk, then memory, cross their hard thresholds while reclaim, preKill and notify ${helper.said}`,
    spec: { pods: [HOG, FILLER, DATABASE], memoryMiB: NODE_MIB, nodefs: NODEFS, config: configOf(helper) },
    culprits: [HOG.name, FILLER.name],
    evictions: { least: 2, most: 2 },
    body: (node) =>
      withHelper(helper, async () => {
        await node.play(DATABASE.name, `memory ${DATABASE_MIB}`);
        const hog = await node.play(HOG.name, 'memory 1');
        const filler = await node.play(FILLER.name, `fill ${node.directory(FILLER.name)} ${FILL_MIB}`);
        await until('the reclaim begins', () => reclaimsOf(node)[0] ?? null);
        hog.write(`grow ${NODE_MIB} ${RATE}`);
        await untilGone(node, 'the hog', hog);
        await untilGone(node, 'the filler', filler);
        return toldAndGone(node, helper);
      }),
  };
}

const DISK = '/run/lab-nodefs';
const UNIT_DATABASE: UnitPod = { name: 'db', priority: 1000, requestMiB: 128, commands: ['memory 64'] };

function unitScene(helper: Helper): UnitTruth {
  return {
    name: `units: a disk, then memory, cross their hard thresholds while reclaim, preKill and notify ${helper.said}`,
    spec: {
      pods: [
        UNIT_DATABASE,
        { name: 'hog', requestMiB: 16, commands: ['memory 1', `grow ${NODE_MIB} ${RATE}`], isLate: true },
        {
          name: 'filler',
          requestMiB: 16,
          commands: [`fill ${DISK}/filler ${FILL_MIB}`],
          annotations: { 'nodewarden.dev/disk': `${DISK}/filler` },
          isLate: true,
        },
      ],
      memoryMiB: NODE_MIB,
      config: [`nodefs: { path: ${DISK} }`, ...configOf(helper)],
      isAgentLate: true,
    },
    culprits: ['hog', 'filler'],
    evictions: { least: 2, most: 2 },
    body: (node) =>
      withHelper(helper, async () => {
        fs.mkdirSync(DISK);
        execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${NODEFS.sizeMiB}m`, 'nodewarden-lab', DISK]);
        try {
          fs.mkdirSync(`${DISK}/filler`);
          await node.agent.start();
          node.start('filler');
          await until('the reclaim begins', () => reclaimsOf(node)[0] ?? null);
          node.start('hog');
          for (const pod of ['hog', 'filler']) {
            await until(
              `${pod} ends`,
              () => evictionsOf(node).find((record) => victimOf(record) === pod && isOver(record)) ?? null,
            );
          }
          const said = await toldAndGone(node, helper);
          // The unit of a command is gone with it.
          await sleep(clock, 500);
          const units = execFileSync('systemctl', [
            'list-units',
            '--all',
            '--plain',
            '--no-legend',
            'nodewarden-command-*',
          ]);
          assert.equal(units.toString(), '', 'units of commands are left');
          return said;
        } finally {
          execFileSync('umount', ['--lazy', DISK]);
          fs.rmdirSync(DISK);
        }
      }),
  };
}

export const helperScenes: readonly TruthScene[] = HELPERS.map(scene);
export const helperUnitScenes: readonly UnitTruth[] = [...HELPERS, ESCAPED].map(unitScene);
