import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import type { Outcome } from '../../src/core/outcome.ts';
import { readState } from '../../src/core/state/read.ts';
import { sleep } from '../../src/host/clock.ts';
import { readRecord } from '../../src/record/reading/record-file.ts';
import type { Check } from './evictions.ts';
import { availableMiB, clock, type Scene, until } from './scene.ts';

/** Half of the rounds die at any time around the crossing, half within so long after the decision was written. */
const AROUND_MS = 700;
const AFTER_DECISION_MS = 30;

/**
 * The agent is killed somewhere between the crossing and the proof, and started again. Every breach ends with exactly
 * one decision, whose one outcome says that the hog was ended by us, and one dead hog; no file is ever corrupt. Before it,
 * there may be one that is dropped: the agent died before it asked the hog to stop, and the next run decided anew.
 */
export function crashing(rounds: number): Check {
  return {
    name: `SIGKILL of the agent in ${rounds} random places: each decision with its one true outcome, no kill repeated, no file corrupt`,
    spec: {
      pods: [
        { name: 'hog', requestMiB: 32, graceSeconds: 1 },
        { name: 'quiet', requestMiB: 128 },
      ],
      config: [
        'evictionHard: { memory.available: "50Mi" }',
        'evictionSoft: { memory.available: "150Mi" }',
        'evictionSoftGracePeriod: { memory.available: "300ms" }',
        'evictionMaxPodGracePeriod: 1',
      ],
    },
    body: async (scene) => {
      const quiet = await scene.play('quiet', 'memory 40');
      // Below the hard threshold, and not so much that the kernel kills while no agent lives.
      const free = Math.round(await availableMiB(scene));
      const places = { 'before the decision': 0, 'with the eviction under way': 0, 'after it': 0 };
      for (let round = 1; round <= rounds; round++) {
        const isHard = round % 2 === 0;
        const hog = await scene.play('hog', ...(isHard ? [] : ['stubborn']));
        const before = decisionsOf(scene);
        hog.write(`memory ${free - (isHard ? 42 : 130)}`);
        if (round % 4 < 2) await sleep(clock, Math.random() * AROUND_MS);
        else {
          await until('the decision is written', () => stateOf(scene).includes('"evicting"') || !hog.isAlive() || null);
          await sleep(clock, Math.random() * AFTER_DECISION_MS);
        }
        await scene.agent.crash();
        const text = stateOf(scene);
        const state = readState(JSON.parse(text));
        assert(state !== null, `round ${round}: the state file is not whole: ${text.slice(0, 200)}`);
        const isUnderWay = state.act.kind === 'evicting';
        places[isUnderWay ? 'with the eviction under way' : hog.isAlive() ? 'before the decision' : 'after it'] += 1;
        await scene.agent.start();
        await until(`round ${round}: the hog ends`, () => hog.ended());
        await until('the kill is proven', async () => (await scene.status()).act.kind === 'idle' || null);
        // The record follows the kill.
        const how = JSON.stringify(hog.ended());
        const said = `round ${round}: the decision is recorded (the hog ended with ${how}, ${scene.kernelOomKills()} kills by the kernel)`;
        await until(said, () => decisionsOf(scene) > before || null, 10_000);
        const decided = decisionsOf(scene) - before;
        assert.equal(decided, 1, `round ${round}: ${decided} decisions for one breach`);
      }
      const all = scene.history().decisions.filter(({ decision }) => decision.kind === 'evict');
      const evicts = all.filter((shown) => !isStale(shown));
      assert.equal(evicts.length, rounds, 'decisions recorded');
      // Nobody but the agent ended a hog, whichever of its runs saw it through.
      const untrue = evicts.filter(({ outcomes }) => outcomes.length !== 1 || outcomes[0]?.kind !== 'ended');
      const told = untrue.map(({ decision, outcomes }) => `${decision.id}: ${JSON.stringify(outcomes)}`);
      assert.deepEqual(told, [], 'decisions without their one true outcome');
      const unmeasured = evicts.filter(({ outcomes: [end] }) => end?.kind === 'ended' && !end.releasedBytes.known);
      const ids = new Set(evicts.map(({ decision, bootId }) => `${bootId} ${decision.id}`));
      assert.equal(ids.size, rounds, 'every decision has an id of its own');
      assert(quiet.isAlive(), 'the innocent lives');
      assert.equal(scene.kernelOomKills(), 0, 'the kernel killed nobody');
      assert.deepEqual(corruptFiles(scene), [], 'no file was kept aside as corrupt');
      return `${rounds} rounds, ${evicts.length} decisions and ${all.length - evicts.length} decided anew, ${Object.entries(
        places,
      )
        .map(([place, count]) => `${count} ${place}`)
        .join(', ')}; ${unmeasured.length} ended before the next run could measure what came back`;
    },
  };
}

function decisionsOf(scene: Scene): number {
  // Read here: in an emulated machine a start of the command takes a second.
  const { entries } = readRecord(scene.agent.places.stateDirectory);
  const decided = entries.filter((entry) => entry.kind === 'decision' && entry.decision.kind === 'evict').length;
  const stale = entries.filter((entry) => entry.kind === 'outcome' && isStaleEnd(entry.outcome)).length;
  return decided - stale;
}

const isStaleEnd = (outcome: Outcome): boolean => outcome.kind === 'dropped' && outcome.because === 'stale';
const isStale = ({ outcomes }: { readonly outcomes: readonly Outcome[] }): boolean =>
  outcomes.length === 1 && outcomes.every(isStaleEnd);

function stateOf(scene: Scene): string {
  return fs.readFileSync(path.join(scene.agent.places.runtimeDirectory, 'state.json'), 'utf8');
}

function corruptFiles(scene: Scene): readonly string[] {
  const { stateDirectory, runtimeDirectory } = scene.agent.places;
  return [stateDirectory, runtimeDirectory].flatMap((directory) =>
    fs.readdirSync(directory).filter((name) => name.includes('.corrupt-')),
  );
}
