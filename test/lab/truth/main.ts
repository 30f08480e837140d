// Scenes on real cgroups of this machine, each played many times: does an innocent die, does the kernel kill, does the
// record say what is not so? The last line counts; the exit status is 0 only if all holds.
//   --times N (20)   --only TEXT   --minutes N (2) of a random scene   --keep DIR  what the agent said in failed runs
//   --until SECONDS  of the epoch: what would begin later is skipped by name
//   --units  instead those whose pods are units: inside of a container, with the service that install.sh installed
import fs from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { watchMachinePauses } from '../machine-pauses.ts';
import { clock, withScene } from '../scene.ts';
import { SCENES, UNIT_SCENES } from './scenes.ts';
import { judge, type Run, type TruthScene, type Verdict } from './truth.ts';
import { withUnits } from './unit-scene.ts';

const { values } = parseArgs({
  options: {
    times: { type: 'string', default: '20' },
    only: { type: 'string', default: '' },
    minutes: { type: 'string', default: '2' },
    keep: { type: 'string' },
    until: { type: 'string', default: 'Infinity' },
    units: { type: 'boolean', default: false },
  },
});
const times = Number(values.times);
const minutes = Number(values.minutes);
const untilMs = Number(values.until) * 1_000;
const pauses = watchMachinePauses();
const total = { passed: 0, failed: 0, skipped: 0, runs: 0, dead: 0, kernel: 0 };
/** Of one kind of failure so many different sentences are shown. */
const MOST_SHOWN = 4;
/**
 * A herd on all processors takes the 100 MiB of the thresholds here in 25 ms, and the agent and the kernel need up to 10 of
 * them. Nothing that runs on a processor which stands still for the rest of them can be in time.
 */
const LONG_PAUSE_MS = 12;
/** So many of those that mostly wait are played at a time. */
const BESIDE = 4;
/** Of one scene. A machine that stands still more often shows nothing, and the scene fails. */
const MOST_REPEATS = 3;

type Playable = Pick<TruthScene, 'name' | 'missing' | 'mostRuns' | 'mostlyWaits' | 'isAgentHeld'> & {
  /** `onVerdict` before everything is taken down: the agent's words are still there. */
  readonly play: (run: Run, onVerdict: (verdict: Verdict, log: () => string) => void) => Promise<void>;
};
const playables: readonly Playable[] = values.units
  ? UNIT_SCENES.map((truth) => ({
      ...truth,
      play: (run, onVerdict) =>
        withUnits(truth.spec, async (scene) =>
          onVerdict(await judge(truth, scene, () => truth.body(scene, run), scene.agent.log), scene.agent.log),
        ),
    }))
  : SCENES.map((truth) => ({
      ...truth,
      play: (run, onVerdict) =>
        withScene(truth.spec, false, async (scene) =>
          onVerdict(await judge(truth, scene, () => truth.body(scene, run), scene.log), scene.log),
        ),
    }));

async function playOnce(truth: Playable, index: number): Promise<Verdict> {
  let verdict: Verdict | null = null;
  try {
    await truth.play({ index, minutes }, (judged, log) => {
      verdict = judged;
      if (!holds(truth, judged)) keep(`${truth.name} ${index}`, log(), judged);
    });
  } catch (error) {
    // Also what its end found, such as an agent that did not end cleanly.
    const said = error instanceof Error ? error.message : String(error);
    const before: Verdict = verdict ?? { innocentsDead: [], kernelOomKills: 0, wrong: [], figures: '' };
    return { ...before, wrong: [...before.wrong, said.slice(0, 2_000)] };
  }
  if (verdict === null) throw new Error('a scene without a verdict');
  return verdict;
}

/** Again if the kernel killed, of those that the agent should take, while the machine stood still. */
async function playRun(truth: Playable, index: number, onRepeat: () => boolean): Promise<Verdict> {
  for (;;) {
    pauses.longestMs();
    const verdict = await playOnce(truth, index);
    const pauseMs = pauses.longestMs();
    const isKernelFirst = verdict.kernelOomKills > 0 && holds(truth, { ...verdict, kernelOomKills: 0 });
    if (!isKernelFirst || holds(truth, verdict) || pauseMs < LONG_PAUSE_MS || !onRepeat()) return verdict;
    const where = `run ${index + 1} of ${truth.name}`;
    console.log(`repeated: ${where}: a processor stood still for ${Math.round(pauseMs)} ms, and the kernel killed`);
  }
}

const holds = (truth: Playable, { innocentsDead, kernelOomKills, wrong }: Verdict): boolean =>
  innocentsDead.length === 0 && wrong.length === 0 && (truth.isAgentHeld === true || kernelOomKills === 0);

function keep(name: string, log: string, verdict: Verdict): void {
  if (values.keep === undefined) return;
  fs.mkdirSync(values.keep, { recursive: true });
  const file = path.join(values.keep, `${name.replace(/[^a-z0-9]+/gi, '-')}.log`);
  fs.writeFileSync(file, `${JSON.stringify(verdict, null, 1)}\n${log}`);
}

async function play(truth: Playable): Promise<void> {
  const missing = clock.wallMs() > untilMs ? 'no time is left for it' : (truth.missing?.() ?? null);
  if (missing !== null) {
    console.log(`skipped ${truth.name}: ${missing}`);
    total.skipped += 1;
    return;
  }
  const startMs = clock.monoMs();
  const most = Math.min(times, truth.mostRuns ?? times);
  const verdicts: Verdict[] = [];
  let repeats = 0;
  const onRepeat = (): boolean => repeats++ < MOST_REPEATS;
  for (let index = 0; index < most && (index === 0 || clock.wallMs() <= untilMs); index++)
    verdicts.push(await playRun(truth, index, onRepeat));
  const runs = verdicts.length;
  const good = verdicts.filter((verdict) => holds(truth, verdict)).length;
  const dead = verdicts.flatMap(({ innocentsDead }) => innocentsDead);
  const kernel = verdicts.reduce((sum, { kernelOomKills }) => sum + kernelOomKills, 0);
  total.runs += runs;
  total.dead += dead.length;
  total.kernel += kernel;
  total[good === runs ? 'passed' : 'failed'] += 1;
  const seconds = ((clock.monoMs() - startMs) / 1000).toFixed(0);
  const counts = `${good} of ${runs} hold, innocents dead ${dead.length}, kernel OOM kills ${kernel}`;
  console.log(`${good === runs ? 'ok     ' : 'FAILED '} ${truth.name}: ${counts} (${seconds} s)`);
  const figures = verdicts.map((verdict) => verdict.figures).filter((figure) => figure !== '');
  if (good === runs && figures.length > 0)
    console.log(`        ${[...new Set(figures)].slice(0, MOST_SHOWN).join('; ')}`);
  if (dead.length > 0) console.log(`        dead: ${sayCounted(dead)}`);
  const wrong = verdicts.flatMap((verdict) => verdict.wrong.map((sentence) => sentence.split('\n', 1)[0] ?? ''));
  if (wrong.length > 0) console.log(`        ${sayCounted(wrong)}`);
}

/** Each once with how often. */
function sayCounted(sentences: readonly string[]): string {
  const counts = new Map<string, number>();
  for (const sentence of sentences) counts.set(sentence, (counts.get(sentence) ?? 0) + 1);
  const shown = [...counts]
    .slice(0, MOST_SHOWN)
    .map(([sentence, count]) => (count > 1 ? `${sentence} (${count})` : sentence));
  return [...shown, ...(counts.size > MOST_SHOWN ? [`and ${counts.size - MOST_SHOWN} more`] : [])].join('\n        ');
}

if (process.getuid?.() !== 0) {
  console.log('skipped scenes on real cgroups: this is not root, and only root can make cgroups');
  total.skipped += 1;
} else {
  const chosen = playables.filter(({ name }) => name.includes(values.only));
  for (const truth of chosen) if (truth.mostlyWaits !== true) await play(truth);
  const waiting = chosen.filter(({ mostlyWaits }) => mostlyWaits === true);
  const playNext = async (): Promise<void> => {
    for (let truth = waiting.shift(); truth !== undefined; truth = waiting.shift()) await play(truth);
  };
  await Promise.all(Array.from({ length: BESIDE }, playNext));
}
pauses.end();
console.log(`${total.runs} runs: innocents dead ${total.dead}, kernel OOM kills ${total.kernel}`);
console.log(`truth: ${total.passed} passed, ${total.failed} failed, ${total.skipped} skipped`);
process.exitCode = total.failed === 0 ? 0 : 1;
