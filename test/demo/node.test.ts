import { spawn } from 'node:child_process';
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { openCast, until } from '../../src/demo/cast.ts';
import { type DemoNode, openDemoNode } from '../../src/demo/node.ts';
import { createClock } from '../../src/host/clock.ts';
import { isBoundedCgroupPossible } from './possible.ts';

const clock = createClock();
const MIB = 1024 * 1024;
const undo: (() => unknown)[] = [];
afterEach(async () => {
  for (const step of undo.splice(0).reverse()) await step();
});

async function aNode(): Promise<DemoNode> {
  const node = await openDemoNode(clock);
  if (!node.known) throw new Error(node.detail);
  undo.push(node.value.close);
  return node.value;
}
const directoriesOf = (node: DemoNode): readonly string[] =>
  [node.mounts.memory, node.mounts.pids]
    .filter((mount) => mount !== null)
    .map((mount) => join(mount, node.cgroup.path));

describe.skipIf(!isBoundedCgroupPossible)("the demo's node [needs root and memory and pids cgroups]", () => {
  it("has its limits, a private directory with the agent's files, and is gone after close", async () => {
    const node = await aNode();
    const [memory] = directoriesOf(node);
    const limit = node.mounts.version === 1 ? 'memory.limit_in_bytes' : 'memory.max';
    expect(readFileSync(join(memory ?? '', limit), 'utf8').trim()).toBe(String(512 * MIB));
    for (const path of [node.directory, node.runtimeDirectory]) expect(statSync(path).mode & 0o777).toBe(0o700);
    expect(readFileSync(node.configFile, 'utf8')).toContain(`cgroupRoot: ${node.cgroup.path}\n`);
    expect(await node.close()).toEqual([]);
    expect([...directoriesOf(node), node.directory, node.runtimeDirectory].filter(existsSync)).toEqual([]);
  });

  it('takes in its workloads before they allocate, and reads the memory of each', async () => {
    const node = await aNode();
    const cast = openCast(node, clock);
    undo.push(cast.close);
    expect(await cast.startInnocents()).toBe(null);
    const used = Object.fromEntries(cast.podLines().map(({ name, usedBytes }) => [name, usedBytes]));
    const database = used['demo/database'];
    expect(database?.known && database.value).toBeGreaterThan(130 * MIB);
    // All of it, the runtime's own memory too; the mapped binary may be charged to whoever read it first.
    expect(database?.known && database.value).toBeLessThan(190 * MIB);
    expect(used['demo/web']).toMatchObject({ known: false });
    const { innocents, kernelOomKills } = await cast.witness();
    expect(innocents.map(({ name, isAlive }) => [name, isAlive])).toEqual([
      ['demo/critical', true],
      ['demo/database', true],
      ['demo/batch', true],
    ]);
    expect(kernelOomKills).toEqual({ known: true, value: 0 });
  });

  it('distinguishes an innocent that died from one that lives', async () => {
    const node = await aNode();
    const cast = openCast(node, clock);
    undo.push(cast.close);
    expect(await cast.startInnocents()).toBe(null);
    const before = (await cast.witness()).innocents;
    process.kill(before[1]?.pid ?? Number.NaN, 'SIGKILL');
    const after = (await cast.witness()).innocents;
    expect(after.map(({ isAlive }) => isAlive)).toEqual([true, false, true]);
  });

  it('ends everything in it when it is closed, even what it did not start', async () => {
    const node = await aNode();
    const child = node.cgroup.addChild('stranger');
    if (!child.known) throw new Error(child.detail);
    const sleeper = spawn('sleep', ['60'], { stdio: 'ignore' });
    for (const directory of child.value) writeFileSync(join(directory, 'cgroup.procs'), String(sleeper.pid));
    expect(await node.close()).toEqual([]);
    await until(clock, () => sleeper.signalCode !== null, 5_000);
    expect(sleeper.signalCode).toBe('SIGKILL');
  });
});
