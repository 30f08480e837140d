import { mkdtempSync, rmdirSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { createClock } from '../../src/host/clock.ts';
import { isThreadFree } from '../../src/host/own/thread-pool.ts';
import { mountHungFileSystem, noHungMount } from './hung-mount.ts';

/** At most as many as the pool may have. */
const CALLS = 1_024;

const needs = noHungMount === null ? '' : ` [${noHungMount}]`;

it.skipIf(noHungMount !== null)(
  `a thread for file system calls is free unless calls that hang hold all of them${needs}`,
  async () => {
    const clock = createClock();
    expect(await isThreadFree(clock)).toBe(true);
    const directory = mkdtempSync(join(tmpdir(), 'nodewarden-pool-'));
    const { release } = await mountHungFileSystem(directory);
    const calls = Array.from({ length: CALLS }, () => stat(join(directory, 'x')).catch(() => null));
    const isFree = await isThreadFree(clock);
    await release();
    await Promise.all(calls);
    rmdirSync(directory);
    expect(isFree).toBe(false);
    expect(await isThreadFree(clock)).toBe(true);
  },
);
