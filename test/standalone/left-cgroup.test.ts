import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { createHasten } from '../../src/act/hasten.ts';
import type { Outcome } from '../../src/core/outcome.ts';
import { heldOutside } from '../../src/host/cgroup/escaped.ts';
import type { Workload } from '../../src/host/process/workload.ts';
import type { StopOrder } from '../../src/ports.ts';
import { survivedId } from '../../src/words/finding-eviction.ts';
import { mounts, needsCgroups } from '../act/a-cgroup.ts';
import { until } from '../host/private-bus.ts';
import { cgroup, clock, HELD_MIB, HOLDS, heard, open, order, standalone, stop, write } from './a-standalone.ts';

const MIB = 1024 * 1024;
/** It ends at the first signal, if one comes. */
const MEEK = HOLDS.replace('$SIG{TERM} = "IGNORE"; ', '');
/** What becomes of the pod once its processes have left, also beside another pod there. */
const survivor = () => ({
  kind: 'survived',
  left: [],
  detail: expect.stringMatching(
    /^no process is left in its cgroup, but \d+\.?\d* MiB charged to \S+ are still in use by/,
  ),
  escaped: { cgroup: cgroup(0).ref },
});
const moveOut = ({ pid }: Workload): void => {
  for (const root of cgroup(1).roots) fs.writeFileSync(path.join(root, 'cgroup.procs'), String(pid));
};
async function running(script: string): Promise<Workload> {
  const workload = await cgroup(0).run(script);
  for (const [i, name] of ['one', 'two'].entries()) write(name, `cgroup: ${cgroup(i).path}`);
  await open();
  return workload;
}
/** They leave as soon as the pod is told to stop. */
const stopLeaving = (leaving: Workload, more: Partial<StopOrder> = {}, became?: (outcome: Outcome) => void) =>
  standalone.killer.stop(
    order('one', { graceMs: 300, ...more }),
    createHasten(clock),
    (how) => how === 'sigterm' && moveOut(leaving),
    became,
  );

/** beside-a-kubelet.md J: signal outside the victim's cgroup (H10); product.md section 7. */
describe.skipIf(needsCgroups !== '')(`a process that leaves its victim's cgroup ${needsCgroups}`, () => {
  it('lives on if it leaves in the grace period, and the outcome says what it holds until it ends', async () => {
    const moved = await running(HOLDS);
    const became: Outcome[] = [];
    expect(await stopLeaving(moved, {}, (outcome) => became.push(outcome))).toMatchObject(survivor());
    expect(moved.isAlive()).toBe(true);
    if (mounts === null) return;
    const held = heldOutside(mounts, { cgroup: cgroup(0).ref });
    expect(held.memoryBytes).toBeGreaterThan(HELD_MIB * MIB);
    // What the actor raises about it ends with it.
    const finding = survivedId(order('one').victim.uid);
    heard.findings.raise({ id: finding, text: 'it survived' });
    moved.kill('SIGKILL');
    await until(() => !heard.present.has(finding));
    expect(became).toMatchObject([{ of: 'd1', kind: 'unknown', detail: expect.stringContaining('SIGKILL') }]);
    expect(heldOutside(mounts, { cgroup: cgroup(0).ref })).toEqual({ memoryBytes: 0, processIds: 0 });
  });

  it.each(['sigterm', 'sigkill'] as const)(
    'gets no signal if it left before the first one, %s, and the outcome says what it holds',
    async (first) => {
      const moved = await running(MEEK);
      moveOut(moved);
      expect(await stop('one', { first })).toMatchObject(survivor());
      expect(moved.isAlive()).toBe(true);
    },
  );

  it('gets no signal if it left while no agent ran, and the outcome of the resumed eviction says what it holds', async () => {
    const moved = await running(MEEK);
    moveOut(moved);
    const resumed = { resumedFromMs: clock.monoMs(), sentBefore: 'sigterm', first: 'sigkill' } as const;
    expect(await stop('one', resumed)).toMatchObject(survivor());
    expect(moved.isAlive()).toBe(true);
  });

  it('does not keep the others from being killed', async () => {
    const moved = await running(HOLDS);
    const stays = await cgroup(0).run(HOLDS);
    expect(await stopLeaving(moved)).toMatchObject(survivor());
    await until(() => stays.ended() !== null);
    expect([stays.ended()?.signal, moved.isAlive()]).toEqual(['SIGKILL', true]);
  });

  it('is no survivor if it ends in the grace period', async () => {
    const moved = await running(HOLDS);
    const stopping = stopLeaving(moved, { graceMs: 600_000 });
    await until(() => cgroup(0).pids().length === 0);
    moved.kill('SIGKILL');
    expect(await stopping).toMatchObject({ kind: 'ended', via: 'sigterm', releasedBytes: { known: true } });
  });

  it('lives on if a shutdown stops the pod, which has ended then', async () => {
    const moved = await running(HOLDS);
    const stopping = standalone.killer.stop(order('one', { why: 'shutdown' }), createHasten(clock), (how) => {
      if (how === 'sigterm') moveOut(moved);
    });
    expect(await stopping).toMatchObject({ kind: 'ended' });
    expect(moved.isAlive()).toBe(true);
  });
});

describe('the source', () => {
  const SRC = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../../src');
  const code = (file: string): string =>
    fs.readFileSync(path.join(SRC, file), 'utf8').replace(/\/\*[\s\S]*?\*\/|(^|\s)\/\/.*$/gm, '');

  it('signals others only by what checks that they are in the cgroup, beside its own children and the demo', () => {
    const files = fs.readdirSync(SRC, { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.ts'));
    expect(files.filter((file) => /\bprocess\.kill\(/.test(code(file))).sort()).toEqual([
      'demo/cast.ts',
      'host/cgroup/bounded-cgroup.ts',
      'host/child-process.ts',
      'host/clock.ts',
      'host/process/leftovers.ts',
      'host/process/signal-process.ts',
    ]);
    expect(code('host/clock.ts').match(/process\.kill\([^)]*\)/g)).toEqual(["process.kill(process.pid, 'SIGKILL')"]);
    expect(code('host/process/signal-process.ts').match(/^export .*?\w+\(/gm)).toEqual([
      'export function signalInCgroup(',
    ]);
  });
});
