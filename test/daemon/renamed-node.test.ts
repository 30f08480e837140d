import { mkdirSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { sleep } from '../../src/host/clock.ts';
import type { StatusReport } from '../../src/serve/status.ts';
import { MIB, noCgroups, openTestNode, realMounts, type TestNode } from '../observe/a-node.ts';
import { clock, directory, running, until, write } from './a-daemon.ts';

const needsV1 = noCgroups ?? (realMounts().version === 1 ? null : 'needs cgroup v1: version 2 renames none');

describe.skipIf(needsV1 !== null)(`a node that is a cgroup and is renamed [${needsV1 ?? 'root, cgroup v1'}]`, () => {
  let node: TestNode;
  let isAside = false;
  const places = (): readonly string[] => {
    const { memory, pids } = node.mounts;
    return [memory, pids ?? ''].map((mount) => join(mount, node.path));
  };
  function moveAside(): void {
    for (const place of places()) renameSync(place, `${place}-aside`);
    isAside = true;
  }
  beforeEach(async () => {
    node = await openTestNode(128 * MIB, 50);
    write([`cgroupRoot: ${node.path}`, 'evictionHard: { memory.available: "40Mi" }']);
    const manifest =
      'apiVersion: v1\nkind: Pod\nmetadata: { name: one, annotations: { nodewarden.dev/cgroup: one } }\nspec: { containers: [{ name: main }] }\n';
    writeFileSync(join(directory, 'pods.d', 'one.yaml'), manifest);
  });
  afterEach(async () => {
    await node.remove();
    if (isAside) for (const place of places()) renameSync(`${place}-aside`, place);
    if (isAside) await node.remove();
    isAside = false;
  });
  const memory = (report: StatusReport) => report.signals.find(({ signal }) => signal === 'memory.available');

  it('is measured where its pods are found: nobody in the new one dies for the memory of the old one', async () => {
    const hog = await node.addPod('undeclared').start(100 * MIB);
    try {
      await running(async (report) => {
        await until(report, (now) => memory(now)?.unknown === null);
        moveAside();
        for (const place of places()) mkdirSync(place);
        node.write('memory.limit_in_bytes', String(256 * MIB));
        const innocent = await node.addPod('one').start(10 * MIB);
        await until(report, (now) => memory(now)?.capacity === 256 * MIB);
        await sleep(clock, 1_000);
        expect(innocent.exitCode ?? innocent.signalCode).toBeNull();
        expect((await report()).act).toEqual({ kind: 'idle' });
        innocent.kill('SIGKILL');
      });
    } finally {
      hog.kill('SIGKILL');
    }
  });

  it('is unknown while its path is gone, and the finding says what to do', async () => {
    await running(async (report) => {
      await until(report, (now) => memory(now)?.unknown === null);
      moveAside();
      const isTold = ({ findings }: StatusReport): boolean =>
        findings.some(
          ({ text }) => text.includes(`no cgroup ${node.path}`) && text.includes('create it, or set cgroupRoot'),
        );
      await until(report, (now) => memory(now)?.unknown !== null && isTold(now));
    });
  });
});
