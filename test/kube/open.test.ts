import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { createHasten } from '../../src/act/hasten.ts';
import type { Outcome } from '../../src/core/outcome.ts';
import { readBootId } from '../../src/host/clock.ts';
import { startTicks, startWorkload } from '../../src/host/workload.ts';
import { openKube } from '../../src/kube/open.ts';
import type { Mode } from '../../src/mode.ts';
import type { BoundPod, Clock, StopOrder } from '../../src/ports.ts';
import { clock, machine, until } from '../host/test-cgroup.ts';
import { heardParts } from '../standalone/needs.ts';
import { aKubeletTree, anId } from './a-kubelet-tree.ts';
import { type Authority, createAuthority, writeKubeconfig } from './certificates.ts';
import { aUid, aV1Pod, NODE } from './pod-store.ts';
import { type Heard, type StubApi, startStubApi } from './stub-api.ts';

const boot = readBootId();
const EARLIER = '99999999-2222-4333-8444-555555555555';
const [APP, PAUSE] = [anId('a'), anId('b')];
/** Less is between two looks at whether something is so; more is a deadline. */
const SHORTEST_DEADLINE_MS = 25;

describe.skipIf(machine === null || !boot.known)('mode kubelet', () => {
  let authority: Authority;
  let stub: StubApi;
  let mode: Mode;
  let tree: ReturnType<typeof aKubeletTree>;
  let directory: string;
  let parts: ReturnType<typeof heardParts>;
  let written: Heard[];
  let answers: (request: Heard) => { readonly status: number; readonly body: object } | null;
  let stillMs: number | null;
  /** Once it stands still, no deadline passes, however long a busy machine takes to answer. */
  const standing: Clock = {
    ...clock,
    monoMs: () => stillMs ?? clock.monoMs(),
    after: (ms, run) => (stillMs !== null && ms >= SHORTEST_DEADLINE_MS ? () => undefined : clock.after(ms, run)),
  };
  beforeAll(() => {
    authority = createAuthority();
  });
  afterAll(() => authority.remove());
  beforeEach(async () => {
    if (machine === null) return;
    written = [];
    answers = () => null;
    stillMs = null;
    stub = await startStubApi(authority, (request) => {
      if (request.method === 'GET') return null;
      written.push(request);
      return { ...(answers(request) ?? { status: 200, body: { kind: 'Status', status: 'Success' } }) } as never;
    });
    sayBoot(boot.known ? boot.value : '');
    tree = aKubeletTree(machine, 'cgroupfs');
    directory = mkdtempSync(path.join(os.tmpdir(), 'nodewarden-'));
    parts = heardParts();
  });
  afterEach(async () => {
    await mode?.close(true);
    await stub.stop();
    rmSync(directory, { recursive: true });
  });
  const sayBoot = (bootID: string, conditions: object[] = []): void =>
    void Object.assign(stub.node, { status: { nodeInfo: { bootID }, conditions } });
  const open = (dry = false, clockOfAgent: Clock = clock): void => {
    if (machine === null) return;
    const { findings, log } = parts;
    const { cgroupRoot } = tree;
    mode = openKube(
      {
        clock: clockOfAgent,
        mounts: machine,
        cgroupRoot,
        runtimeDirectory: directory,
        findings,
        log,
        note: () => undefined,
        wake: () => undefined,
        dry,
      },
      {
        kubeconfig: writeKubeconfig(authority, stub.url),
        nodeName: NODE,
        ...{ taintKeys: 'own', areConditionsSet: true, isBudgetRequired: false, protectNamespaces: ['kube-system'] },
        ...{ kubeletDirectory: directory, podLogsDir: directory, stateDirectory: directory, imageMinimumGCAgeMs: 1 },
        ...{ runtimeEndpoint: `unix://${directory}/no.sock`, cgroupDriver: 'cgroupfs', isDrained: true },
      },
      { sightings: new Map() },
    );
  };
  const pods = (): readonly BoundPod[] => {
    const bound = mode.pods.pods();
    return bound.known ? bound.value : [];
  };
  const podNamed = (name: string): BoundPod | undefined => pods().find(({ declared }) => declared.name === name);
  /** With a process in its container and one in its sandbox. */
  const runPod = async (uid: string) => {
    const path = tree.addPod('Burstable', uid, APP, PAUSE);
    const start = async (id: string) => {
      const directory = `${machine?.memory}${tree.containerIn(path, id)}`;
      const started = startWorkload({
        argv: ['/bin/sleep', '1000'],
        join: [directory],
        monoMs: clock.monoMs,
        line: () => undefined,
      });
      if (typeof started === 'string') throw new Error(started);
      onTestFinished(() => started.kill('SIGKILL'));
      await until(() => readFileSync(`${directory}/cgroup.procs`, 'latin1') !== '');
      return started;
    };
    return { app: await start(APP), pause: await start(PAUSE) };
  };
  const statuses = { containerStatuses: [{ name: 'main', containerID: `containerd://${APP}` }] };
  const stop = (pod: BoundPod | undefined, more: Partial<StopOrder> = {}): Promise<Outcome> => {
    if (pod === undefined) throw new Error('no such pod');
    const order: StopOrder = {
      ...{ decision: 'd1', victim: pod.declared, graceMs: 1_000, why: 'eviction', isHard: true, resumedFromMs: null },
      ...{ first: 'sigkill', givesBack: 'memory' },
      ...more,
    };
    return mode.killer.stop(order, createHasten(clock));
  };

  it('binds the pods of the API to their cgroups, and finds an undeclared pod by its cgroup', async () => {
    const uid = aUid();
    stub.store.put(aV1Pod({ name: 'web', uid, status: statuses }));
    await runPod(uid);
    open();
    await until(() => podNamed('web')?.cgroup.known === true);
    expect(podNamed('web')?.declared).toMatchObject({ qos: 'Burstable', limitedBy: null });
    const born = aUid();
    await runPod(born);
    await until(() => podNamed(born) !== undefined);
    expect(podNamed(born)?.declared).toMatchObject({ qos: 'Burstable', limitedBy: 'unnamed' });
    stub.store.put(aV1Pod({ name: 'fresh', uid: born, status: statuses }));
    await until(() => podNamed('fresh')?.declared.limitedBy === null);
  });

  it('takes back nothing in a dry run that the acting agent has stopped', async () => {
    const told = { shutdownId: 'boot-1', deleted: [] };
    const file = { schema: 1, bootId: boot.known ? boot.value : '', told };
    writeFileSync(path.join(directory, 'kube-shutdown.json'), JSON.stringify(file));
    open(true);
    expect(mode.hasStops()).toBe(false);
    await mode.close(true);
    open();
    expect(mode.hasStops()).toBe(true);
  });

  it('leaves the saved requests of the acting agent alone in a dry run', async () => {
    const spool = path.join(directory, 'spool', 'spool.jsonl');
    mkdirSync(path.dirname(spool));
    const victim = { namespace: 'default', name: 'web', uid: aUid(), isMirror: false };
    const act = { kind: 'delete', decision: 'd1', victim, graceSeconds: 1, why: 'EvictionByNodewarden' };
    const entry = { ...act, message: 'memory', madeAtMs: 0, bootId: EARLIER };
    writeFileSync(spool, `${JSON.stringify({ schema: 1, entry })}\n`);
    const before = readFileSync(spool, 'utf8');
    open(true);
    await mode.close(true);
    expect(readFileSync(spool, 'utf8')).toBe(before);
    open();
    await mode.close(true);
    expect(readFileSync(spool, 'utf8')).not.toBe(before);
  });

  it('sends what an earlier run has saved, even if the last known pods stood in for a slow list', async () => {
    const uid = aUid();
    stub.store.put(aV1Pod({ name: 'web', uid, status: statuses }));
    await runPod(uid);
    open();
    await until(() => podNamed('web')?.declared.limitedBy === null);
    await mode.close(false);
    const victim = { namespace: 'default', name: 'web', uid, isMirror: false };
    const act = { kind: 'delete', decision: 'd1', victim, graceSeconds: 1, why: 'EvictionByNodewarden' };
    const entry = { ...act, message: 'memory', madeAtMs: clock.monoMs(), bootId: boot.known ? boot.value : '' };
    writeFileSync(path.join(directory, 'spool', 'spool.jsonl'), `${JSON.stringify({ schema: 1, entry })}\n`);
    // They stand in once the list has been asked for for 1 s: here, at once.
    let isFirst = true;
    const hurried: Clock = {
      ...clock,
      after: (ms, run) => {
        const isStandIn = isFirst && ms === 1_000;
        if (isStandIn) isFirst = false;
        return clock.after(isStandIn ? 1 : ms, run);
      },
    };
    open(false, hurried);
    await until(() => written.some(({ method, path: url }) => method === 'DELETE' && url.includes('/pods/web')));
  });

  it('chooses no pod of the API while the node is not shown to be this machine', async () => {
    sayBoot('99999999-2222-4333-8444-555555555555');
    const uid = aUid();
    stub.store.put(aV1Pod({ name: 'web', uid, status: statuses }));
    await runPod(uid);
    open();
    await until(() => stub.heard.some(({ path }) => path.startsWith('/api/v1/nodes/')));
    await until(() => pods().length === 1);
    expect(pods().map(({ declared }) => declared.limitedBy)).toEqual(['unnamed']);
    await until(() => [...parts.present.values()].some((text) => text.includes('kubernetes.nodeName')));
  });

  it('deletes a victim by its uid with a grace period of 1 s, and kills its container', async () => {
    const uid = aUid();
    stub.store.put(aV1Pod({ name: 'web', uid, status: statuses }));
    const { app } = await runPod(uid);
    open(false, standing);
    await until(() => podNamed('web')?.declared.limitedBy === null);
    stillMs = clock.monoMs();
    const outcome = await stop(podNamed('web'));
    expect(outcome).toMatchObject({
      kind: 'ended',
      rungs: [{ act: 'delete', answer: 'accepted' }, { act: 'kill-containers' }],
    });
    await until(() => !app.isAlive());
    const removed = written.find(({ method }) => method === 'DELETE');
    expect(removed?.path).toContain('/namespaces/default/pods/web');
    expect(removed?.body).toMatchObject({ gracePeriodSeconds: 1, preconditions: { uid } });
    expect(written.find(({ method }) => method === 'PATCH')?.body).toMatchObject({
      status: { conditions: [{ type: 'DisruptionTarget', reason: 'EvictionByNodewarden' }] },
    });
  });

  it('takes from the API server how a victim ended if the answer to its deletion was lost', async () => {
    const uid = aUid();
    const web = { name: 'web', uid, status: statuses };
    stub.store.put(aV1Pod(web));
    tree.addPod('Burstable', uid, APP, PAUSE);
    answers = ({ method }) => (method === 'DELETE' ? { status: 403, body: { kind: 'Status', message: 'no' } } : null);
    open(false, standing);
    await until(() => podNamed('web') !== undefined);
    stillMs = clock.monoMs();
    const victim = podNamed('web');
    const doneBefore = [{ atMs: 1, act: 'delete', answer: 'sent' } as const];
    const resume = () => stop(victim, { resumedFromMs: stillMs, sentBefore: 'sigkill', doneBefore });
    expect(await resume()).toMatchObject({ kind: 'dropped', because: 'gone' });
    stub.fault(/\/pods\/web$/, { kind: 'status', status: 500 });
    expect(await resume()).toMatchObject({ kind: 'unknown' });
    const deletionTimestamp = new Date().toISOString();
    stub.store.put(aV1Pod({ ...web, metadata: { deletionTimestamp } }));
    expect(await resume()).toMatchObject({ kind: 'ended', via: 'api' });
    stub.store.remove('default/web');
    expect(await resume()).toMatchObject({ kind: 'ended', via: 'api' });
  });

  it('spares a pod whose disruption budget refuses, and passes it over for a while', async () => {
    const uid = aUid();
    stub.store.put(aV1Pod({ name: 'web', uid, status: statuses }));
    const { app } = await runPod(uid);
    answers = ({ path }) =>
      path.endsWith('/eviction')
        ? {
            status: 429,
            body: {
              kind: 'Status',
              message: 'Cannot evict pod as it would violate the disruption budget',
              details: { causes: [{ reason: 'DisruptionBudget', message: 'web needs 1' }] },
            },
          }
        : null;
    open(false, standing);
    await until(() => podNamed('web')?.declared.limitedBy === null);
    stillMs = clock.monoMs();
    const outcome = await stop(podNamed('web'), { isHard: false, first: 'sigterm' });
    expect(outcome).toMatchObject({ kind: 'dropped', because: 'budget-refused' });
    expect(app.isAlive()).toBe(true);
    expect(podNamed('web')?.declared.limitedBy).toBe('budget-refused');
  });

  describe('started again while the API server is away', () => {
    const uid = aUid();
    const isWeb = () => podNamed('web')?.declared.limitedBy === null;
    const restart = async (): Promise<void> => {
      await mode.close(false);
      await stub.stop();
      onTestFinished(() => stub.listen());
      open();
    };
    beforeEach(() => stub.store.put(aV1Pod({ name: 'web', uid, status: statuses })));

    it('knows the pods of its node from the last run, and kills by cgroup alone', async () => {
      const { app } = await runPod(uid);
      open();
      await until(isWeb);
      await restart();
      await until(isWeb);
      expect(parts.present.get('api-away')).toContain('the last known state of the pods stays in force');
      const { rungs } = await stop(podNamed('web'));
      expect(rungs?.map(({ act }) => act)).toEqual(['delete', 'kill-containers', 'spool']);
      expect(rungs?.[0]?.answer).toBe('the API is away');
      await until(() => !app.isAlive());
      expect(written.filter(({ method }) => method === 'DELETE')).toEqual([]);
    });

    it("distinguishes a victim's last container from its sandbox by the saved pods", async () => {
      const { app, pause } = await runPod(uid);
      open();
      await until(isWeb);
      const victim = podNamed('web');
      await mode.close(false);
      stub.fault(/./, { kind: 'hang' }, 1_000);
      const resumedFromMs = clock.monoMs();
      open();
      const killed = { atMs: 1, act: 'kill-containers', answer: 'SIGKILL to 2 cgroups' } as const;
      await stop(victim, { resumedFromMs, sentBefore: 'sigkill', doneBefore: [killed] });
      expect([app.isAlive(), pause.isAlive()]).toEqual([false, true]);
    });

    it('says that it knows no pods if no earlier run has saved any', async () => {
      await runPod(uid);
      await stub.stop();
      onTestFinished(() => stub.listen());
      open();
      await until(() => parts.present.has('api-away'));
      expect(parts.present.get('api-away')).toContain('no earlier state of the pods is known');
    });

    it('does not use the saved pods if the node turned out not to be this machine', async () => {
      await runPod(uid);
      open();
      await until(isWeb);
      await mode.close(false);
      sayBoot(EARLIER);
      open();
      await until(() => [...parts.present.values()].some((text) => text.includes('kubernetes.nodeName')));
      await restart();
      await until(() => [...parts.present.keys()].includes('api-away') && pods().length === 1);
      expect(pods().map(({ declared }) => declared.limitedBy)).toEqual(['unnamed']);
    });
  });

  it('shows how the last boot ended once the kubelet is ready, as a condition and, once per boot, as an event', async () => {
    open();
    mode.shows?.lastBoot({ bootId: EARLIER, end: 'cut', isNew: true });
    await until(() => written.some(({ path }) => path.endsWith('/status')));
    const told = () => written.filter(({ body }) => JSON.stringify(body).includes(EARLIER));
    expect(told()).toEqual([]);
    sayBoot(boot.known ? boot.value : '', [{ type: 'Ready', status: 'True' }]);
    await until(() => told().length === 2);
    const [event, condition] = told().toSorted(({ method }) => (method === 'POST' ? -1 : 1));
    expect(event?.body).toMatchObject({ reason: 'NodeShutdown', involvedObject: { kind: 'Node' } });
    expect(condition?.body).toMatchObject({
      status: {
        conditions: expect.arrayContaining([expect.objectContaining({ type: 'NodewardenLastBoot', reason: 'Cut' })]),
      },
    });
  });

  it('leaves the node to a live agent that maintains its conditions', async () => {
    const message = `the node has no memory pressure; agent 1-${startTicks(1)}`;
    const lastHeartbeatTime = new Date().toISOString();
    sayBoot(boot.known ? boot.value : '', [{ type: 'NodewardenMemoryPressure', message, lastHeartbeatTime }]);
    open();
    await until(() => mode.isTaken?.() !== null);
    expect(mode.isTaken?.()).toContain('process 1');
    await mode.close(true);
    expect(written).toEqual([]);
  });

  it('kills while the API server hangs, and sends the deletion once it answers', async () => {
    const uid = aUid();
    stub.store.put(aV1Pod({ name: 'web', uid, status: statuses }));
    const { app } = await runPod(uid);
    open();
    await until(() => podNamed('web')?.declared.limitedBy === null);
    stub.fault(/./, { kind: 'hang' }, 1_000);
    const outcome = await stop(podNamed('web'));
    expect(outcome.kind).toBe('ended');
    await until(() => !app.isAlive());
    expect(outcome.rungs?.map(({ act }) => act)).toContain('spool');
  });
});
