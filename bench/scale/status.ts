import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { askDaemon } from '../../src/serve/ask.ts';
import type { StatusReport } from '../../src/serve/status.ts';
import { clock, withScene } from '../../test/lab/scene.ts';
import { quantile } from '../result.ts';
import { holdProcesses } from './look.ts';

export type StatusRow = {
  readonly pods: number;
  readonly answerKiB: number;
  /** The first one of a daemon that was never asked for its pods. */
  readonly firstMs: number;
  /** From connecting to the parsed answer. */
  readonly medianMs: number;
  readonly p99Ms: number;
  /** `nodewarden status` from its start to its end, and the same program doing nothing. */
  readonly commandMs: number;
  readonly startMs: number;
};

const ROUNDS = 100;
const COMMANDS = 10;

/** A real daemon with so many pods, each with a process. */
export async function measureStatus(count: number): Promise<StatusRow> {
  const pods = Array.from({ length: count }, (_, i) => ({ name: `pod-${i}`, priority: i % 5, requestMiB: i % 3 }));
  const config = ['evictionHard: { memory.available: 1Mi }'];
  let row: StatusRow | null = null;
  await withScene({ pods, config, memoryMiB: 4_096 }, false, async (scene) => {
    for (const directory of scene.cgroups('pod-0')) {
      const bound = path.join(path.dirname(directory), 'pids.max');
      if (fs.existsSync(bound)) fs.writeFileSync(bound, String(4 * count));
    }
    const joined = await holdProcesses(pods.map(({ name }) => scene.cgroups(name).join(' ')));
    try {
      const ask = async (): Promise<{ ms: number; report: StatusReport }> => {
        const beganMs = clock.monoMs();
        const asked = await askDaemon(scene.agent.places.socket, { ask: 'status' }, clock);
        if (asked.kind !== 'answer') throw new Error(`no status: ${asked.kind}`);
        // The bench trusts the agent's own JSON.
        return { ms: clock.monoMs() - beganMs, report: asked.answer as StatusReport };
      };
      const first = await ask();
      const shown = first.report.pods.known ? first.report.pods.order.length : 0;
      if (shown !== count) throw new Error(`status shows ${shown} pods of ${count}`);
      const all: number[] = [];
      for (let round = 0; round < ROUNDS; round++) all.push((await ask()).ms);
      const [program = '', ...args] = scene.agent.command;
      const run = (...more: readonly string[]): number => {
        const beganMs = clock.monoMs();
        const { status, stderr } = spawnSync(program, [...args, ...more], { encoding: 'utf8', maxBuffer: 1 << 28 });
        if (status !== 0) throw new Error(`${more[0]} ended with ${status}: ${stderr}`);
        return clock.monoMs() - beganMs;
      };
      const times = (...more: readonly string[]): number =>
        quantile(
          Array.from({ length: COMMANDS }, () => run(...more)),
          0.5,
        );
      row = {
        pods: count,
        answerKiB: Math.round(JSON.stringify(first.report).length / 1_024),
        firstMs: first.ms,
        medianMs: quantile(all, 0.5),
        p99Ms: quantile(all, 0.99),
        commandMs: times('status', '--config', scene.agent.places.configFile),
        startMs: times('--version'),
      };
    } finally {
      await joined.end();
    }
  });
  if (row === null) throw new Error('nothing was measured');
  return row;
}
