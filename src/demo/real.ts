import { known, unknown } from '../core/reading.ts';
import type { NodeCondition } from '../core/signal.ts';
import { runDaemon } from '../daemon/run.ts';
import { sleep } from '../host/clock.ts';
import { runAhead } from '../host/process/workload.ts';
import type { Clock } from '../ports.ts';
import { type Cast, openCast, until } from './cast.ts';
import { endingOf } from './ending.ts';
import { DEMO_NAMESPACE, DEMO_PODS, EVICTION_HARD, NODE_MEMORY_BYTES, podFacts } from './load.ts';
import type { DemoNode } from './node.ts';
import { createScreen, type Gauge, type Screen, type Terminal } from './screen.ts';
import { createStory, type Story } from './story.ts';

type AgentOptions = Parameters<typeof runDaemon>[0];
type Report = Parameters<NonNullable<AgentOptions['onReport']>>[0];
type Entry = Parameters<NonNullable<AgentOptions['onEntry']>>[0];
type RealNeeds = {
  readonly terminal: Terminal;
  readonly clock: Clock;
  readonly node: DemoNode;
  readonly keep: boolean;
};

/** For the whole story, within the minute. It takes some 17 s; on a slow machine, the programs start later. */
const STORY_DEADLINE_MS = 52_000;
/** The agent ends within some milliseconds; its own cleanup is bounded, too. */
const STOP_DEADLINE_MS = 10_000;
/**
 * As in nodewarden.service if it gets no real-time policy. Set after the programs have started, which would inherit it.
 */
const UNIT_NICE = 10;
const DRAW_MS = 100;
/** Shows the recovered node to whoever watches, before the summary. */
const LOOK_BACK_MS = 1_000;

/**
 * Runs the real agent on a real node until the story is over, `stop` is aborted or time is up, and leaves nothing
 * behind.
 */
export async function tellReally(needs: RealNeeds, stop: AbortSignal): Promise<boolean> {
  const { terminal, clock, node, keep } = needs;
  const say = (...lines: readonly string[]): void => terminal.write(lines.map((line) => `${line}\n`).join(''));
  const cast = openCast(node, clock);
  const startMs = clock.monoMs();
  const screen = createScreen(terminal, startMs, NODE_MEMORY_BYTES);
  const story = createStory({ startMs, say: screen.say });
  const agent = createAgent(node, clock, story);
  let isProven = false;
  let last = 'not proven (real)';
  try {
    say(terminal.paint('bold', `Real: a node of 512 MiB and 512 pids in ${node.cgroup.path}, ${node.cgroup.made}`));
    for (const pod of DEMO_PODS) say(`  ${`${DEMO_NAMESPACE}/${pod.name}`.padEnd(14)} ${podFacts(pod)}: ${pod.what}`);
    const failed = await play({ ...needs, cast, agent, screen, story }, stop);
    screen.leave();
    const ending = endingOf(story.measured(), await cast.witness());
    isProven = failed === null && ending.isProven;
    say(...ending.lines.slice(0, -1));
    last = failed === null ? (ending.lines.at(-1) ?? last) : `not proven: ${failed} (real)`;
    if (keep && !stop.aborted) {
      say(last, `Stays open until Ctrl-C. Query the agent: nodewarden status --config ${node.configFile}`);
      await new Promise<void>((resolve) => stop.addEventListener('abort', () => resolve(), { once: true }));
    }
  } finally {
    await agent.close();
    cast.close();
    const left = await node.close();
    if (left.length > 0) last = `not proven: left behind: ${left.join('; ')} (real)`;
    isProven = isProven && left.length === 0;
    say(last);
  }
  return isProven;
}

type Play = RealNeeds & {
  readonly cast: Cast;
  readonly agent: Agent;
  readonly screen: Screen;
  readonly story: Story;
};

/** Null when the story is over, else a sentence that says why it ended early. */
async function play({ clock, cast, agent, screen, story }: Play, stop: AbortSignal): Promise<string | null> {
  const endMs = clock.monoMs() + STORY_DEADLINE_MS;
  const happens = (isTrue: () => boolean): Promise<boolean> =>
    until(clock, () => isTrue() || stopped(), endMs - clock.monoMs());
  const stopped = (): boolean => stop.aborted || agent.ended() !== null;
  const why = (late: string): string => {
    if (stop.aborted) return 'stopped before the demo was over';
    return agent.ended() ?? late;
  };
  const failed = await cast.startInnocents();
  if (failed !== null || stop.aborted) return failed ?? why('');
  agent.start();
  const isReady = await happens(agent.isReady);
  if (!isReady || stopped()) return why('the agent was not ready in time');
  const draw = (): void => {
    const report = agent.report();
    if (report !== null) screen.show({ ...frameOf(report), atMs: clock.monoMs(), pods: cast.podLines() });
    cancel = clock.after(DRAW_MS, draw);
  };
  let cancel = clock.after(0, draw);
  try {
    const shut = await cast.openDoors();
    if (shut !== null) return shut;
    runAhead(UNIT_NICE);
    const isOver = await happens(story.isOver);
    if (!isOver || stopped()) return why(`the demo was not over after ${STORY_DEADLINE_MS / 1_000} s`);
    await sleep(clock, LOOK_BACK_MS);
    return null;
  } finally {
    cancel();
  }
}

type Agent = {
  readonly start: () => void;
  readonly isReady: () => boolean;
  /** Its exit status and the reason, or null while it runs. */
  readonly ended: () => string | null;
  readonly report: () => Report | null;
  readonly close: () => Promise<void>;
};

/** The daemon as `run` starts it, in this process; what it reports becomes the story. */
function createAgent(node: DemoNode, clock: Clock, story: Story): Agent {
  const stop = new AbortController();
  let report: Report | null = null;
  let isReady = false;
  let ended: string | null = null;
  let running: Promise<void> = Promise.resolve();
  return {
    start: () => {
      const complaints: string[] = [];
      const options: AgentOptions = {
        configFile: node.configFile,
        dryRun: false,
        log: 'none',
        onReport: (now) => {
          report = now;
          story.look(lookMs(now, clock), sampleOf(now.signals.find(({ signal }) => signal === 'memory.available')));
        },
        onEntry: (entry) => hear(story, entry),
        onReady: () => {
          isReady = true;
        },
        complain: (line) => void complaints.push(line),
      };
      running = runDaemon(options, stop.signal).then((status) => {
        ended = `the agent ended with status ${status}${complaints.map((line) => `: ${line}`).join('')}`;
      });
    },
    isReady: () => isReady,
    ended: () => ended,
    report: () => report,
    close: async () => {
      stop.abort();
      await new Promise<void>((resolve) => {
        const cancel = clock.after(STOP_DEADLINE_MS, resolve);
        running.finally(() => {
          cancel();
          resolve();
        });
      });
    },
  };
}

function hear(story: Story, entry: Entry): void {
  if (entry.kind === 'decision') story.decided(entry.decision);
  if (entry.kind === 'outcome') story.ended(entry.outcome);
  if (entry.kind === 'note' && entry.note.kind === 'evidence') story.stopBegan(entry.note.of, entry.note.stopBeganAtMs);
}

/** A report has wall time in whole ms, so the look was at most 1 ms earlier, which is assumed. */
function lookMs(report: Report, clock: Clock): number {
  return clock.monoMs() - Math.max(0, clock.wallMs() - report.atWallMs) - 1;
}

function sampleOf(status: Report['signals'][number] | undefined): Gauge['sample'] {
  if (status === undefined || status.available === null || status.capacity === null) {
    return status?.unknown ?? unknown('absent', 'report', 'no such signal');
  }
  return known({ available: status.available, capacity: status.capacity, sampledAtMs: 0 });
}

/** The configured signals; derived ones (allocatable memory, containerfs) would only repeat them. */
function frameOf(report: Report): { readonly gauges: readonly Gauge[]; readonly conditions: readonly NodeCondition[] } {
  return {
    gauges: report.signals
      .filter(({ signal }) => EVICTION_HARD.some((configured) => configured.signal === signal))
      .map((status) => ({
        signal: status.signal,
        sample: sampleOf(status),
        limits: status.thresholds.map(({ limit }) => limit).filter((limit) => limit !== null),
      })),
    conditions: (['MemoryPressure', 'DiskPressure', 'PIDPressure'] as const).filter((of) => report.conditions[of]),
  };
}
