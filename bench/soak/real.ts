import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { sleep } from '../../src/host/clock.ts';
import { type DecisionRecord, joinDecisions } from '../../src/record/entry.ts';
import { readRecord } from '../../src/record/reading/record-file.ts';
import { OOM_SCORES } from '../../src/words/finding-eviction.ts';
import { clock, type Scene, withScene } from '../../test/lab/scene.ts';
import { type Machine, machine } from '../result.ts';
import { type Sample, sampleAgent } from './agent.ts';
import { configLines, type Happened, happen, NODE_MIB, NODEFS, rest } from './events.ts';
import { openPods, type Pods } from './pods.ts';
import { createRandom, type Random } from './random.ts';
import { differencesIn, type Replay, replayOf, scenarioLines } from './replay.ts';

type Event = Happened & { readonly atWallMs: number };
export type RealSoak = {
  readonly on: Machine;
  readonly seed: number;
  readonly minutesAsked: number;
  readonly minutes: number;
  readonly isDone: boolean;
  readonly events: { readonly [kind: string]: number };
  readonly decisions: { readonly [kind: string]: number };
  readonly outcomes: { readonly [kind: string]: number };
  /** Decisions whose ranking and victim `nodewarden simulate` derived again from the record. */
  readonly replayed: number;
  /** Evictions of whom alone the driver had made grow. */
  readonly expectedVictims: number;
  readonly kernelOomKills: number;
  readonly restarts: number;
  readonly replacedPods: number;
  readonly reloads: number;
  readonly asks: number;
  /** Empty: nothing was found wrong. */
  readonly problems: readonly string[];
  readonly samples: readonly Sample[];
};

const MINUTE_MS = 60_000;
const EVENT_MS = [5_000, 20_000] as const;
/** The record follows the decision. */
const RECORDED_MS = 5_000;
const PROBLEMS_KEPT = 100;

export type RealOrder = {
  readonly minutes: number;
  readonly seed: number;
  /** The built agent; a copy of it runs. */
  readonly dist: string;
  /** Hears every minute what is known by then. */
  readonly keep: (soFar: RealSoak) => void;
};

/** Random pressure on a real agent and real cgroups for so long, as root. What is known is written down every minute. */
export async function soakReally(order: RealOrder, stop: AbortSignal): Promise<RealSoak> {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'nodewarden-soak-'));
  try {
    // Copies: whoever builds meanwhile does not change what runs.
    fs.cpSync(order.dist, path.join(directory, 'dist'), { recursive: true });
    const bundle = path.join(directory, 'dist/nodewarden.js');
    const load = path.join(directory, 'load.pl');
    fs.copyFileSync(path.join(import.meta.dirname, 'load.pl'), load);
    process.env['NODEWARDEN_BUNDLE'] = bundle;
    const random = createRandom(order.seed);
    const pods = [{ name: 'anchor', priority: 1000, requestMiB: 64 }];
    let result: RealSoak | null = null;
    const spec = { pods, memoryMiB: NODE_MIB, nodefs: NODEFS, config: configLines(0) };
    await withScene(spec, false, async (scene) => {
      const opened = await openPods(scene, load);
      try {
        const run = createRun({ scene, pods: opened, random, bundle, directory, ...order });
        result = await run(stop);
      } finally {
        opened.close();
      }
    });
    if (result === null) throw new Error('the soak did not begin');
    return result;
  } finally {
    fs.rmSync(directory, { recursive: true });
  }
}

type Needs = RealOrder & {
  readonly scene: Scene;
  readonly pods: Pods;
  readonly random: Random;
  readonly bundle: string;
  readonly directory: string;
};

function createRun(needs: Needs): (stop: AbortSignal) => Promise<RealSoak> {
  const { scene, pods, random, minutes, seed } = needs;
  const on = machine();
  const events: Event[] = [];
  const problems: string[] = [];
  const samples: Sample[] = [];
  const seen = new Map<string, DecisionRecord>();
  const counts = { replayed: 0, expectedVictims: 0, restarts: 0, replacedPods: 0, reloads: 0, asks: 0 };
  const startMs = clock.monoMs();
  const problem = (text: string): void => {
    if (problems.length < PROBLEMS_KEPT) problems.push(text);
    console.log(`minute ${minutesNow()}: ${text}`);
  };
  const minutesNow = (): number => Math.round((clock.monoMs() - startMs) / 6_000) / 10;

  const verify = (isLast: boolean): void => {
    const { entries, tornLines, unreadable } = readRecord(scene.agent.places.stateDirectory);
    if (tornLines > 0) problem(`${tornLines} torn lines in the record`);
    for (const why of unreadable) problem(`the record cannot be read: ${why}`);
    for (const entry of entries) if (entry.kind === 'lost') problem(`${entry.entries} entries of the record are lost`);
    const records = joinDecisions(entries);
    const ripe = records.filter(({ atWallMs }) => isLast || atWallMs < clock.wallMs() - RECORDED_MS);
    const fresh = ripe.filter(({ decision }) => !seen.has(decision.id));
    const replays: Replay[] = [];
    for (const record of fresh) {
      seen.set(record.decision.id, record);
      const replay = replayOf(record, records.slice(0, records.indexOf(record)), null);
      if (typeof replay === 'string') problem(`decision ${record.decision.id}: ${replay}`);
      else if (replay !== null) replays.push(replay);
      checkVictim(record, records);
    }
    // Later lines tell of the outcome.
    for (const record of ripe) seen.set(record.decision.id, record);
    for (const difference of simulated(replays)) problem(difference);
    counts.replayed += replays.length;
  };

  const simulated = (replays: readonly Replay[]): readonly string[] => {
    if (replays.length === 0) return [];
    const file = path.join(needs.directory, 'replay.jsonl');
    fs.writeFileSync(file, scenarioLines(replays));
    const argv = [process.execPath, needs.bundle, 'simulate', '-o', 'jsonl', file];
    return differencesIn(
      replays,
      execFileSync('nice', ['-n', '19', ...argv], { encoding: 'utf8', maxBuffer: 1 << 28 }),
    );
  };

  /** What the driver knows by itself, whatever is recorded. */
  const checkVictim = (record: DecisionRecord, records: readonly DecisionRecord[]): void => {
    const { decision, atWallMs } = record;
    if (decision.kind !== 'evict') return;
    const event = events.findLast((candidate) => candidate.atWallMs <= atWallMs);
    if (event === undefined) problem(`${decision.victim.name} was evicted before anything happened`);
    else if (event.victims === null) return;
    else if (event.victims.includes(decision.victim.name)) counts.expectedVictims += 1;
    else problem(`wrong victim in "${event.kind}: ${event.told}" ${sayLast(record, records, event.atWallMs)}`);
  };

  const report = (isDone: boolean): RealSoak => {
    const records = [...seen.values()];
    return {
      on,
      seed,
      minutesAsked: minutes,
      minutes: minutesNow(),
      isDone,
      events: tally(events.map(({ kind }) => kind)),
      decisions: tally(records.map(({ decision }) => decision.kind)),
      outcomes: tally(records.flatMap(({ outcomes }) => outcomes.map(({ kind }) => kind))),
      ...counts,
      kernelOomKills: scene.kernelOomKills(),
      problems,
      samples,
    };
  };

  const minute = async (pid: number): Promise<void> => {
    const { stateDirectory, runtimeDirectory } = scene.agent.places;
    samples.push(sampleAgent(pid, minutesNow(), pods.cgroups(), stateDirectory, runtimeDirectory));
    verify(false);
    const result = report(false);
    needs.keep(result);
    const { rssKiB, descriptors, cpuSeconds, load } = samples.at(-1) ?? {};
    console.log(
      `minute ${result.minutes}: ${JSON.stringify(result.decisions)}, ${counts.replayed} replayed, ${problems.length} problems, RSS ${rssKiB} KiB, ${descriptors} descriptors, ${cpuSeconds} s CPU, load ${load}`,
    );
  };

  /** Now and then, beside the pressure. */
  const meddle = async (): Promise<void> => {
    const { pid } = (await scene.status()).node;
    counts.asks += 1;
    if (random.whole(1, 12) === 1) {
      scene.history();
      counts.asks += 1;
    }
    if (random.whole(1, 15) === 1) {
      const { configFile } = scene.agent.places;
      counts.reloads += 1;
      const kept = fs
        .readFileSync(configFile, 'utf8')
        .split('\n')
        .filter((line) => !line.startsWith('eviction') || line.startsWith('evictionPressure'));
      fs.writeFileSync(
        configFile,
        `${[...kept.filter((line) => line !== ''), ...configLines(counts.reloads)].join('\n')}\n`,
      );
      process.kill(pid, 'SIGHUP');
    }
    if (random.whole(1, 10) === 1) {
      await pods.replace(random.of(pods.all()));
      counts.replacedPods += 1;
    }
  };

  return async (stop) => {
    const { pid } = (await scene.status()).node;
    await sleep(clock, 6_000);
    let nextMinuteMs = clock.monoMs();
    const endMs = startMs + minutes * MINUTE_MS;
    while (clock.monoMs() < endMs && !stop.aborted) {
      if (clock.monoMs() >= nextMinuteMs) {
        await minute(pid);
        nextMinuteMs += MINUTE_MS;
      }
      const dueMs = clock.monoMs() + random.whole(...EVENT_MS);
      const atWallMs = clock.wallMs();
      const place = events.push({ kind: 'under way', told: '', victims: null, atWallMs }) - 1;
      try {
        events[place] = { ...(await happen({ scene, pods, random })), atWallMs };
        await rest({ scene, pods, random });
        await meddle();
      } catch (error) {
        problem(`the driver failed: ${error instanceof Error ? error.message : String(error)}`);
        if (!fs.existsSync(`/proc/${pid}`)) {
          counts.restarts += 1;
          problem(`the agent is gone: ${scene.log().slice(-2_000)}`);
          break;
        }
      }
      await sleep(clock, Math.max(0, dueMs - clock.monoMs()));
    }
    await sleep(clock, RECORDED_MS);
    if (fs.existsSync(`/proc/${pid}`)) await minute(pid);
    verify(true);
    const now = await scene.status();
    if (now.node.pid !== pid) problem(`the agent was restarted: ${pid} is now ${now.node.pid}`);
    // Where root may not lower it, as in many containers, that finding is true, and stays.
    const left = now.findings.filter(({ id }) => id !== OOM_SCORES);
    for (const { text } of left) problem(`a finding is left: ${text}`);
    unsettled([...seen.values()]).forEach(problem);
    if (scene.kernelOomKills() > 0) problem(`${scene.kernelOomKills()} kills by the kernel`);
    return report(true);
  };
}

/** The decisions of an event up to this one, and what became of each. */
function sayLast(record: DecisionRecord, records: readonly DecisionRecord[], sinceWallMs: number): string {
  const said = records.slice(0, records.indexOf(record) + 1).flatMap(({ decision, atWallMs, outcomes }) => {
    if (decision.kind !== 'evict' || atWallMs < sinceWallMs) return [];
    const ends = outcomes.map(({ kind, atMs }) => `${kind} after ${Math.round(atMs - decision.atMs)} ms`).join();
    const { id, available } = decision.threshold;
    return [`at ${atWallMs - sinceWallMs} ms ${decision.victim.name} for ${id} with ${available} left (${ends})`];
  });
  return said.join('; ');
}

/** Every eviction has one outcome, every number one decision. */
function unsettled(records: readonly DecisionRecord[]): readonly string[] {
  const evictions = records.filter(({ decision }) => decision.kind === 'evict');
  const wrong = evictions.filter(({ outcomes }) => outcomes.length !== 1);
  const numbers = records.map(({ decision }) => Number(/(\d+)$/.exec(decision.id)?.[1])).toSorted((a, b) => a - b);
  const gap = numbers.findIndex((number, i) => number !== i + 1);
  return [
    ...wrong.map(({ decision, outcomes }) => `decision ${decision.id} has ${outcomes.length} outcomes`),
    ...(gap < 0 ? [] : [`decision ${gap + 1} is not in the record`]),
  ];
}

function tally(kinds: readonly string[]): { readonly [kind: string]: number } {
  const counted: { [kind: string]: number } = {};
  for (const kind of kinds) counted[kind] = (counted[kind] ?? 0) + 1;
  return counted;
}
