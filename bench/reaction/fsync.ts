import fs from 'node:fs';
import { open } from 'node:fs/promises';
import path from 'node:path';
import { sleep } from '../../src/host/clock.ts';
import { clock } from '../../test/lab/scene.ts';
import { quantile } from '../result.ts';

const LINE = `${'x'.repeat(2_000)}\n`;
const TIMES = 100;
const REST_MS = 20;

/** What the record of a decision waits for in that directory: a line that is on the disk when the write returns. Median, ms. */
export async function fsyncMedianMs(directory: string): Promise<number> {
  const file = path.join(directory, `nodewarden-bench-${process.pid}`);
  const { O_APPEND, O_CREAT, O_DSYNC, O_EXCL, O_WRONLY } = fs.constants;
  const handle = await open(file, O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_DSYNC, 0o600);
  try {
    const all: number[] = [];
    for (let i = 0; i < TIMES; i++) {
      await sleep(clock, REST_MS);
      const beganMs = clock.monoMs();
      await handle.write(LINE);
      all.push(clock.monoMs() - beganMs);
    }
    return quantile(all, 0.5);
  } finally {
    await handle.close();
    fs.rmSync(file);
  }
}
