import { readFileSync } from 'node:fs';
import path from 'node:path';
import { parseDocuments } from '../../src/document/document.ts';
import { type Capture, captureOf } from '../../src/guard/capture.ts';
import type { GuardLook } from '../../src/guard/loop.ts';
import { createPastHour } from '../../src/guard/past-hour.ts';
import { factsOf } from '../../src/simulate/guard/facts.ts';
import { readGuardScenario } from '../../src/simulate/guard/read.ts';
import { type GuardRun, runGuard } from '../../src/simulate/guard/run.ts';
import type { GuardScenario } from '../../src/simulate/guard/scenario.ts';
import { aScenario } from '../simulate/guard/a-world.ts';

const HOUR_MS = 3_600_000;
const directory = path.join(import.meta.dirname, '../../config/scenarios/guard');

export function anExample(name: string): GuardScenario {
  const [yaml] = parseDocuments(readFileSync(path.join(directory, `${name}.yaml`), 'utf8'), name, 'core').documents;
  const { scenario } = yaml === undefined ? { scenario: null } : readGuardScenario(yaml);
  if (scenario === null) throw new Error(`${name} is no scenario`);
  return scenario;
}

/** A world as it went, and as the guard that leads at its end captures it. */
export function captured(scenario: GuardScenario, forMs = HOUR_MS) {
  const hours = new Map<string, ReturnType<typeof createPastHour>>();
  const looks = new Map<string, GuardLook>();
  let leader = '';
  const run = runGuard(scenario, (process, look) => {
    const hour = hours.get(process) ?? createPastHour();
    hours.set(process, hour);
    hour.keep(look);
    looks.set(process, look);
    if (look.observation.self.leadership.isLeader) leader = process;
  });
  const [look, hour] = [looks.get(leader), hours.get(leader)];
  if (look === undefined || hour === undefined) throw new Error('nobody led');
  const { atMs } = look.observation;
  const windowMs = Math.min(forMs, atMs - (hour.hour().sinceMs ?? atMs));
  return { run, capture: captureOf(look, hour.hour(), forMs), windowMs, fromMs: (atMs % DAY_MS) - windowMs };
}
/** Each machine of a guard was booted whole days before. */
const DAY_MS = 86_400_000;

/** The captured world, by the configuration and the times of the first one. */
export function again(scenario: GuardScenario, { plain }: Capture, windowMs: number) {
  const { nodes, events, world } = plain.scenario;
  const read = aScenario({ nodes, events, world: { ...world } });
  const { config } = scenario;
  const run = runGuard({
    ...read,
    world: scenario.world,
    config: { ...config, plans: read.config.plans, defaultPlan: null },
  });
  return { run, leadMs: read.untilMs - windowMs };
}

/** Whom it decided to fence, and when, counted from `fromMs`. */
export const decided = ({ facts }: GuardRun, fromMs: number) =>
  factsOf(facts, 'decided')
    .filter(({ atMs }) => atMs >= fromMs)
    .map(({ node, atMs }) => ({ node, afterMs: atMs - fromMs }));

/** What it held, and by which gate: for longer than a moment, if not for another time. */
export const heldBy = ({ result }: GuardRun, longerThanMs = MOMENT_MS): readonly string[] =>
  [
    ...new Set(
      result.held
        .filter(({ from, until }) => until === null || until - from > longerThanMs)
        .map(({ scope, gate }) => `${scope} ${gate}`),
    ),
  ].toSorted();
/** Between two renewals of a lease, and two looks. */
const MOMENT_MS = 20_000;
