import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { known } from '../../src/core/reading.ts';
import { createClock } from '../../src/host/clock.ts';
import { run as exec } from '../../src/host/exec.ts';
import { openSystemBus } from '../../src/host/systemd/bus.ts';
import { createSystemd } from '../../src/host/systemd/systemd.ts';
import { createCommandRunner } from '../../src/host/systemd/transient.ts';
import type { UnitFacts } from '../../src/host/systemd/unit-facts.ts';
import type { BoundPod } from '../../src/ports.ts';
import {
  createOomScores,
  type OomScores,
  type OomScoresNeeds,
  putBackOomScores,
} from '../../src/standalone/pods/oom-scores.ts';
import {
  HEADLESS,
  isPidChosen,
  makeCgroup,
  mounts,
  NS_LAST_PID,
  needsCgroups,
  type TestCgroup,
} from '../act/a-cgroup.ts';
import { until } from '../host/private-bus.ts';
import { aBoundPod } from '../observe/a-bound-pod.ts';
import { heardParts } from './needs.ts';

const clock = createClock();
const RUNS = 'echo up; while :; do sleep 1000; done';
const ALONE = 'echo up; exec sleep 1000';
const adjOf = (pid: number): number => Number(readFileSync(`/proc/${pid}/oom_score_adj`, 'latin1'));
const usual = adjOf(1);
const aUnit: UnitFacts = {
  ...{ id: '', loadState: 'loaded', activeState: 'active', subState: 'running', controlGroup: null, slice: null },
  ...{ invocationId: '', activeSinceWallMs: null, hasJob: false, stopsUnneeded: false, relations: {} },
};
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

  /** All services are below the pod's cgroup. */
  const setting = (own: (unit: string) => number): OomScoresNeeds['systemd'] => ({
    isUp: () => true,
    whenUp: () => () => undefined,
    oomScoreAdjust: async (unit) => known(own(unit)),
    unit: async (name) => known({ ...aUnit, controlGroup: `${cgroup.path}/${name}` }),
  });
  const answering = setting(() => usual);

  it('is configured through a program of its own if systemd answers', async () => {
    const { pid } = await cgroup.run(RUNS);
    const below = await cgroup.child('a b', RUNS);
    open(() => [podOf('BestEffort')], { systemd: answering });
    await until(() => adjOf(pid) === 1000 && adjOf(below.pid) === 1000);
    expect(heard.findings.all()).toEqual([]);
  });

  it('is configured through it also if the bus is connected only after the start', async () => {
    const { pid } = await cgroup.run(RUNS);
    let isUp = false;
    let tell = (): void => undefined;
    let isAsked = false;
    const run: OomScoresNeeds['run'] = ({ argv, timeoutMs, stdin = '' }) => {
      isAsked = true;
      return exec(argv, { timeoutMs, maxOutputBytes: 1_000, stdin });
    };
    const systemd: OomScoresNeeds['systemd'] = {
      ...answering,
      isUp: () => isUp,
      whenUp: (then) => {
        tell = then;
        return () => undefined;
      },
    };
    open(() => [podOf('BestEffort')], { systemd, run });
    setTimeout(() => {
      isUp = true;
      tell();
    }, 800);
    await until(() => adjOf(pid) === 1000);
    expect(isAsked).toBe(true);
  });

  it.skipIf(!isPidChosen())(
    'sets nothing of a process that has got the id of one that ended [needs root]',
    async () => {
      const worker = await cgroup.run(ALONE);
      let stranger = 0;
      let isDone = false;
      const run: OomScoresNeeds['run'] = async ({ argv, timeoutMs, stdin = '' }) => {
        worker.kill('SIGKILL');
        await until(() => !existsSync(`/proc/${worker.pid}`));
        for (let tries = 0; tries < 1_000 && stranger !== worker.pid; tries++) {
          writeFileSync(NS_LAST_PID, String(worker.pid - 1));
          const child = spawn('sleep', ['1000'], { stdio: 'ignore' });
          onTestFinished(() => void child.kill('SIGKILL'));
          stranger = child.pid ?? 0;
        }
        const end = await exec(argv, { timeoutMs, maxOutputBytes: 1_000, stdin });
        isDone = true;
        return end;
      };
      open(() => [podOf('BestEffort')], { systemd: answering, run });
      await until(() => isDone);
      expect(stranger).toBe(worker.pid);
      expect(adjOf(stranger)).toBe(usual);
    },
  );

  describe('of a slice', () => {
    const inSlice: Partial<OomScoresNeeds> = {
      systemd: setting((unit) => (unit === 'db.service' ? 500 : usual)),
      unitOf: () => 'app.slice',
    };
    const OWN = `echo 500 > /proc/self/oom_score_adj; ${RUNS}`;

    it.each([
      ['slice', 'app.slice'],
      ['cgroup', null],
    ])('keeps what one of its services sets, and sets the others (bound as a %s)', async (_, unit) => {
      const db = await cgroup.child('db.service', OWN);
      const web = await cgroup.child('web.service', RUNS);
      const scores = open(() => [podOf('BestEffort')], { ...inSlice, unitOf: () => unit });
      await until(() => adjOf(web.pid) === 1000);
      await until(() => scores.now().some(({ others }) => others === 0));
      expect(scores.now()).toEqual([{ pod: 'default/web', oomScoreAdj: 1000, from: 'qos', others: 0 }]);
      expect(adjOf(db.pid)).toBe(500);
    });

    it('is not kept by a cgroup that only has the name of such a service', async () => {
      await cgroup.child('tenant', RUNS);
      const { pid } = await cgroup.child('tenant/db.service', RUNS);
      open(() => [podOf('BestEffort')], inSlice);
      await until(() => adjOf(pid) === 1000);
    });

    it('is kept also by a process whose main thread has ended', async () => {
      const headless = await cgroup.child('db.service', `echo 500 > /proc/self/oom_score_adj; ${HEADLESS}`);
      const web = await cgroup.child('web.service', RUNS);
      await until(() => readFileSync(`/proc/${headless.pid}/stat`, 'latin1').includes(') Z'));
      open(() => [podOf('BestEffort')], inSlice);
      await until(() => adjOf(web.pid) === 1000);
      expect(adjOf(headless.pid)).toBe(500);
    });

    it('is what its services set if all of them do', async () => {
      const { pid } = await cgroup.child('db.service', OWN);
      const scores = open(() => [podOf('BestEffort')], inSlice);
      await until(() => scores.now().length > 0);
      expect(scores.now()).toEqual([{ pod: 'default/web', oomScoreAdj: 500, from: 'unit', others: 0 }]);
      expect(adjOf(pid)).toBe(500);
    });

    it('is not changed by an uninstall where it was not set', async () => {
      if (mounts === null) return;
      const db = await cgroup.child('db.service', `echo 1000 > /proc/self/oom_score_adj; ${ALONE}`);
      const web = await cgroup.child('web.service', ALONE);
      open(() => [podOf('BestEffort')], inSlice);
      await until(() => adjOf(web.pid) === 1000);
      expect(putBackOomScores({ clock, mounts, runtimeDirectory: directory, bootId: 'boot' })).toEqual({
        count: 1,
        problems: [],
      });
      expect([adjOf(db.pid), adjOf(web.pid)]).toEqual([1000, usual]);
    });
  });

  it('gets the old values back even if very many cgroups were changed', async () => {
    if (mounts === null) return;
    const { pid } = await cgroup.run(ALONE);
    open(() => [podOf('BestEffort')]);
    await until(() => adjOf(pid) === 1000);
    const path = join(directory, 'oom-scores.json');
    await until(() => existsSync(path));
    const note = JSON.parse(readFileSync(path, 'utf8'));
    const others = Array.from({ length: 2_000 }, (_, i) => ({ path: `/gone${i}`, inode: i, before: 0, set: 1000 }));
    writeFileSync(path, JSON.stringify({ ...note, changed: [...others, ...note.changed] }));
    expect(putBackOomScores({ clock, mounts, runtimeDirectory: directory, bootId: 'boot' }).count).toBe(1);
    expect(adjOf(pid)).toBe(usual);
  });

  it("keeps a unit's own value", async () => {
    const { pid } = await cgroup.run(RUNS);
    const scores = open(() => [podOf('BestEffort')], {
      systemd: setting(() => usual + 50),
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
