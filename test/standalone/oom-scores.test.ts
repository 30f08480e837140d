import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { known } from '../../src/core/reading.ts';
import { openSystemBus } from '../../src/host/bus.ts';
import { createClock } from '../../src/host/clock.ts';
import { createSystemd } from '../../src/host/systemd.ts';
import { createCommandRunner } from '../../src/host/transient.ts';
import type { BoundPod } from '../../src/ports.ts';
import {
  createOomScores,
  type OomScores,
  type OomScoresNeeds,
  putBackOomScores,
} from '../../src/standalone/oom-scores.ts';
import { makeCgroup, mounts, needsCgroups, type TestCgroup } from '../act/a-cgroup.ts';
import { until } from '../host/private-bus.ts';
import { aBoundPod } from '../observe/a-bound-pod.ts';
import { heardParts } from './needs.ts';

const clock = createClock();
const RUNS = 'echo up; while :; do sleep 1000; done';
const adjOf = (pid: number): number => Number(readFileSync(`/proc/${pid}/oom_score_adj`, 'latin1'));
const usual = adjOf(1);

describe.skipIf(needsCgroups !== '')(`the kernel's OOM killer ${needsCgroups}`, () => {
  let directory: string;
  let cgroup: TestCgroup;
  let heard: ReturnType<typeof heardParts>;
  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), 'nodewarden-oom-'));
    cgroup = makeCgroup();
    heard = heardParts();
  });
  afterEach(async () => {
    await cgroup.remove();
    rmSync(directory, { recursive: true });
  });

  function open(pods: () => readonly BoundPod[], more: Partial<OomScoresNeeds> = {}): OomScores {
    if (mounts === null) throw new Error('no cgroups');
    const bus = openSystemBus(clock, { DBUS_SYSTEM_BUS_ADDRESS: `unix:path=${directory}/no-bus` });
    const systemd = createSystemd(bus);
    const common = { ...heard, clock, mounts, cgroupRoot: '/', systemd, runtimeDirectory: directory, bootId: 'boot' };
    const run = createCommandRunner({ systemd, clock });
    const scores = createOomScores({ ...common, run, pods, unitOf: () => null, ...more });
    onTestFinished(() => {
      scores.close();
      bus.close();
    });
    return scores;
  }
  const podOf = (qos: BoundPod['declared']['qos']): BoundPod =>
    aBoundPod({ name: 'web', qos, cgroup: known(cgroup.ref) });

  it('gets the class of a pod from all its processes, including later ones', async () => {
    const first = await cgroup.run(RUNS);
    const scores = open(() => [podOf('BestEffort')]);
    await until(() => adjOf(first.pid) === 1000);
    const second = await cgroup.run(RUNS);
    expect(adjOf(second.pid)).toBe(usual);
    scores.changed();
    await until(() => adjOf(second.pid) === 1000);
    await until(() => scores.now().length > 0);
    expect(scores.now()).toEqual([{ pod: 'default/web', oomScoreAdj: 1000, from: 'qos', others: 0 }]);
  });

  it('knows no value of a pod without processes', async () => {
    await cgroup.run(RUNS);
    const empty = makeCgroup();
    onTestFinished(() => empty.remove());
    const ghost = aBoundPod({ name: 'ghost', uid: 'ghost', qos: 'BestEffort', cgroup: known(empty.ref) });
    const scores = open(() => [ghost, podOf('BestEffort')]);
    await until(() => scores.now().length > 0);
    expect(scores.now().map(({ pod }) => pod)).toEqual(['default/web']);
  });

  it('is configured through choom if systemd answers', async () => {
    const { pid } = await cgroup.run(RUNS);
    open(() => [podOf('BestEffort')], {
      systemd: { isUp: () => true, oomScoreAdjust: async () => known(usual) },
    });
    await until(() => adjOf(pid) === 1000);
  });

  it("keeps a unit's own value", async () => {
    const { pid } = await cgroup.run(RUNS);
    const scores = open(() => [podOf('BestEffort')], {
      systemd: { isUp: () => true, oomScoreAdjust: async () => known(usual + 50) },
      unitOf: () => 'web.service',
    });
    await until(() => scores.now().length > 0);
    expect(scores.now()).toEqual([{ pod: 'default/web', oomScoreAdj: usual + 50, from: 'unit', others: 0 }]);
    expect(adjOf(pid)).toBe(usual);
  });

  it('gets the old values back, even for processes that started since', async () => {
    if (mounts === null) return;
    const { pid } = await cgroup.run(RUNS);
    open(() => [podOf('BestEffort')]).changed();
    await until(() => adjOf(pid) === 1000);
    const child = await cgroup.run(RUNS);
    open(() => [podOf('BestEffort')]);
    await until(() => adjOf(child.pid) === 1000);
    const put = putBackOomScores({ clock, mounts, runtimeDirectory: directory, bootId: 'boot' });
    expect(put.problems).toEqual([]);
    expect(put.count).toBeGreaterThanOrEqual(2);
    expect([adjOf(pid), adjOf(child.pid)]).toEqual([usual, usual]);
  });

  it('is a finding if the kernel refuses a value', async () => {
    const { pid } = await cgroup.run(RUNS);
    const scores = open(() => [podOf('Guaranteed')]);
    await until(() => scores.now().length > 0 && (adjOf(pid) === -997 || heard.findings.all().length > 0));
    // Root without CAP_SYS_RESOURCE, as in most containers.
    const isRefused = adjOf(pid) !== -997;
    expect(heard.findings.all().map(({ text }) => text)).toEqual(
      isRefused ? [expect.stringMatching(/default\/web.*-997 was refused: EACCES/)] : [],
    );
  });
});
