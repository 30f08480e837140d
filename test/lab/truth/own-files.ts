// What the agent keeps for itself, against those who remove, plant or fake it, and against its own sudden end.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { sleep } from '../../../src/host/clock.ts';
import { crashing } from '../crashes.ts';
import { availableMiB, clock, type Scene, until } from '../scene.ts';
import { DATABASE, DATABASE_MIB, evictionsOf, HOG, type TruthScene, untilGone } from './truth.ts';

const HARD_MIB = 100;
const spec: TruthScene['spec'] = {
  pods: [HOG, DATABASE],
  memoryMiB: 512,
  config: [`evictionHard: { memory.available: "${HARD_MIB}Mi" }`],
};
const NOBODY = 65_534;
/** Of which the lab's own question to a silent one takes 5 s. */
const START_MS = 7_000;

/** A hog crosses the threshold and is ended; its decision is in the record, with its end. */
async function breach(scene: Scene): Promise<void> {
  const before = evictionsOf(scene).length;
  const hog = await scene.play(HOG.name, 'memory 1');
  hog.write(`memory ${Math.round((await availableMiB(scene)) - HARD_MIB + 20)}`);
  await untilGone(scene, 'the hog', hog);
  await until('its eviction is over', async () => (await scene.status()).act.kind === 'idle' || null);
  await until('its end is recorded', () => evictionsOf(scene)[before]?.outcomes[0] ?? null, 10_000);
}

const DELETIONS = 10;
const deletions = (which: 'stateDirectory' | 'runtimeDirectory'): TruthScene => ({
  name: `the ${which} is removed ${DELETIONS} times between and during evictions`,
  spec,
  culprits: [HOG.name],
  evictions: { least: DELETIONS, most: DELETIONS },
  mostRuns: 2,
  body: async (scene, { index }) => {
    await scene.play(DATABASE.name, `memory ${DATABASE_MIB}`);
    const directory = scene.agent.places[which];
    for (let times = 1; times <= DELETIONS; times++) {
      const hog = await scene.play(HOG.name, 'memory 1');
      hog.write(`memory ${Math.round((await availableMiB(scene)) - HARD_MIB + 20)}`);
      // Before the choice, in the middle of it, and after it.
      await sleep(clock, ((index * DELETIONS + times) * 37) % 120);
      fs.rmSync(directory, { recursive: true });
      await untilGone(scene, 'the hog', hog);
      const said = times === 1 ? 'was removed while the agent ran (at' : `(${times} times, last at`;
      const isTold = async (): Promise<true | null> => {
        const report = await scene.status().catch(() => null);
        const isSaid = report?.findings.some(({ text }) => text.includes(directory) && text.includes(said));
        return (isSaid === true && report?.act.kind === 'idle') || null;
      };
      await until('the finding, and an end', isTold, 10_000);
      await until('every end is recorded', () => evictionsOf(scene).length === times || null, 10_000);
    }
    return `${DELETIONS} evictions kept`;
  },
});

const ROUNDS = 20;
const crash = crashing(ROUNDS);
const crashes: TruthScene = {
  name: `SIGKILL of the agent in ${ROUNDS} random places`,
  spec: crash.spec,
  culprits: ['hog'],
  evictions: { least: ROUNDS, most: ROUNDS },
  mostRuns: 10,
  body: (scene) => crash.body(scene),
};

const planted: TruthScene = {
  name: 'a state file that another user could have written is refused',
  spec,
  culprits: [],
  evictions: { least: 0, most: 0 },
  mostRuns: 3,
  body: async (scene) => {
    await scene.play(DATABASE.name, `memory ${DATABASE_MIB}`);
    await scene.agent.crash();
    const state = path.join(scene.agent.places.runtimeDirectory, 'state.json');
    fs.chownSync(state, NOBODY, NOBODY);
    await assert.rejects(scene.agent.start(), /state\.json belongs to user 65534 and has mode 0640.*rm .*chown root/);
    fs.chownSync(state, 0, 0);
    await scene.agent.start();
    return 'refused';
  },
};

const faked: TruthScene = {
  name: 'neither an answering socket of another user nor a silent one of root keeps the agent from starting',
  spec,
  culprits: [HOG.name],
  evictions: { least: 2, most: 2 },
  mostRuns: 5,
  body: async (scene) => {
    await scene.play(DATABASE.name, `memory ${DATABASE_MIB}`);
    const { socket } = scene.agent.places;
    const took: string[] = [];
    for (const answer of ['{"answer":{"schema":1,"node":{"dryRun":false}}}\n', null]) {
      await scene.agent.crash();
      fs.rmSync(socket, { force: true });
      const fake = net.createServer((client) => void (answer === null ? client.resume() : client.resume().end(answer)));
      fake.listen(socket);
      await once(fake, 'listening');
      if (answer !== null) fs.chownSync(socket, NOBODY, NOBODY);
      const startMs = clock.monoMs();
      await scene.agent.start();
      const ms = Math.round(clock.monoMs() - startMs);
      assert(ms < START_MS, `it took ${ms} ms to start`);
      took.push(`${ms} ms`);
      await breach(scene);
      // Closing would remove the socket that lies there now.
      fake.unref();
    }
    return `started after ${took.join(' and ')}`;
  },
};

/** Another `run` with the same configuration ends at once, and says what this process does. */
function secondIsRefused({ command, places }: Scene['agent'], does: RegExp): void {
  const [program = '', ...args] = command;
  const second = spawnSync(program, [...args, 'run', '--config', places.configFile], {
    encoding: 'utf8',
    timeout: 120_000,
  });
  // What it printed is lost when it is stopped for its lateness, and it then ends with its own status.
  assert.equal(second.error, undefined);
  assert.equal(second.status, 1, `the second one ended with ${second.status ?? second.signal}`);
  assert.match(second.stderr, does);
}

const twoAgents: TruthScene = {
  name: 'beside a stopped agent (SIGSTOP), no second agent acts',
  spec,
  culprits: [HOG.name],
  mostRuns: 5,
  body: async (scene) => {
    await scene.play(DATABASE.name, `memory ${DATABASE_MIB}`);
    scene.agent.signal('SIGSTOP');
    secondIsRefused(scene.agent, /another nodewarden \(process \d+, which is stopped: kill -CONT \d+\) has/);
    scene.agent.signal('SIGCONT');
    await breach(scene);
    return 'refused';
  },
};

/** No block is left for a file of its own. */
const full: TruthScene = {
  name: 'an agent that starts with a full runtime directory guards the node, and no second agent acts',
  spec: { ...spec, isAgentLate: true },
  culprits: [HOG.name],
  mostRuns: 5,
  body: async (scene) => {
    await scene.play(DATABASE.name, `memory ${DATABASE_MIB}`);
    const { runtimeDirectory } = scene.agent.places;
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=64k,mode=750', 'nodewarden-lab', runtimeDirectory]);
    try {
      const fill = (): void => fs.writeFileSync(path.join(runtimeDirectory, 'filled'), Buffer.alloc(128 * 1024));
      assert.throws(fill, /ENOSPC/);
      await scene.agent.start();
      secondIsRefused(scene.agent, /another nodewarden/);
      await breach(scene);
      const { findings } = await scene.status();
      const said = findings.map(({ text }) => text);
      assert(
        said.some((text) => text.includes(runtimeDirectory) && text.includes('ENOSPC')),
        said.join('; '),
      );
      return 'guarded';
    } finally {
      execFileSync('umount', ['--lazy', runtimeDirectory]);
    }
  },
};

export const ownFileScenes: readonly TruthScene[] = [
  deletions('stateDirectory'),
  deletions('runtimeDirectory'),
  crashes,
  planted,
  faked,
  twoAgents,
  full,
];
