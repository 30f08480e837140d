import { mkdirSync } from 'node:fs';
import { expect, it } from 'vitest';
import type { CgroupMounts } from '../../src/host/cgroup/cgroup-mounts.ts';
import { sumStats } from '../../src/host/cgroup/sum-stats.ts';
import { whenOpened } from './a-pipe.ts';
import { aTree } from './tree.ts';

const v1 = (memory: string): CgroupMounts => ({
  ...{ layout: 'v1', version: 1, unified: null },
  ...{ memory, pids: null, systemd: null },
});

it('opens memory.stat of every cgroup below, whatever bytes its name contains', async () => {
  const root = aTree({ 'node/web/worker': null, 'node/gone': null, 'else/memory.stat': '' });
  const odd = Buffer.concat([Buffer.from(`${root}/node/web/`), Buffer.from([0xff, 0x0a])]);
  mkdirSync(odd);
  const opened = [Buffer.from(`${root}/node/web/worker`), odd].map((directory) =>
    whenOpened(Buffer.concat([directory, Buffer.from('/memory.stat')])),
  );
  const [cgroups] = await Promise.all([sumStats(v1(root), '/node'), ...opened]);
  expect(cgroups).toBe(4);
});

it('of a node that is gone there is nothing to read', async () => {
  expect(await sumStats(v1(aTree({ a: null })), '/node')).toBe(0);
});
