import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { sleep } from '../../src/host/clock.ts';
import { startTicks } from '../../src/host/process/workload.ts';
import type { Clock } from '../../src/ports.ts';
import { clock, until } from '../host/test-cgroup.ts';
import {
  addPod,
  bootId,
  directory,
  does,
  isUnable,
  mode,
  noted,
  open,
  openRuntimeOf,
  parts,
  podNamed,
  pods,
  runPod,
  sayBoot,
  standing,
  standStill,
  statuses,
  stop,
  stub,
  written,
} from './an-open-kube.ts';
import { aUid, aV1Pod, NODE } from './pod-store.ts';

const EARLIER = '99999999-2222-4333-8444-555555555555';

describe.skipIf(isUnable)('mode kubelet', () => {
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

  it('knows a running pod that the API server shows by its name, though it does not list the pods', async () => {
    const uid = aUid();
    stub.store.put(aV1Pod({ name: 'web', uid, status: statuses, spec: { priority: 77 } }));
    stub.fault(/^\/api\/v1\/pods\?/, { kind: 'status', status: 503 }, Number.POSITIVE_INFINITY);
    await runPod(uid);
    open(false, clock, await openRuntimeOf(uid));
    await until(() => podNamed('web')?.declared.priority === 77);
    expect(podNamed('web')?.declared).toMatchObject({ limitedBy: null, isTerminating: false });
    expect(podNamed('web')?.declared).not.toHaveProperty('unsaid');
  });

  it('takes back nothing in a dry run that the acting agent has stopped', async () => {
    const told = { shutdownId: 'boot-1', deleted: [] };
    const file = { schema: 1, bootId, told };
    writeFileSync(path.join(directory, 'kube-shutdown.json'), JSON.stringify(file));
    open(true);
    expect(mode.hasStops()).toBe(false);
    // A shutdown that it has followed was cancelled.
    await mode.undoStops();
    await mode.close(true);
    expect(written).toEqual([]);
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
    const entry = { ...act, message: 'memory', madeAtMs: clock.monoMs(), bootId };
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
    sayBoot(EARLIER);
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
    standStill();
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

  it('says that the deletion of a victim is refused, until the pod is being deleted', async () => {
    const uid = aUid();
    const web = { name: 'web', uid, status: statuses };
    stub.store.put(aV1Pod(web));
    await runPod(uid);
    const message = 'admission webhook "keep.example" denied the request: not now';
    does.answer = ({ method }) => (method === 'DELETE' ? { status: 403, body: { kind: 'Status', message } } : null);
    open(false, standing);
    await until(() => podNamed('web')?.declared.limitedBy === null);
    standStill();
    expect(await stop(podNamed('web'))).toMatchObject({ kind: 'ended' });
    const id = `deletion-refused/${uid}`;
    expect(parts.present.get(id)).toContain(`default/web: ${message}`);
    stub.store.put(aV1Pod({ ...web, metadata: { deletionTimestamp: new Date().toISOString() } }));
    await until(() => !parts.present.has(id));
  });

  it('takes back its mark of a pod that nobody has deleted, as an earlier run may have left it', async () => {
    const reason = 'TerminationByNodewarden';
    const since = new Date(Date.now() - 120_000).toISOString();
    const conditions = [{ type: 'DisruptionTarget', status: 'True', reason, lastTransitionTime: since }];
    stub.store.put(aV1Pod({ name: 'web', status: { phase: 'Running', conditions } }));
    // Looks every 30 s.
    const hurried: Clock = { ...clock, after: (ms, run) => clock.after(ms === 30_000 ? 300 : ms, run) };
    const took = () => written.find(({ method, path: url }) => method === 'PATCH' && url.endsWith('/pods/web/status'));
    open(true, hurried);
    await until(() => stub.heard.some(({ path: url }) => url.includes('watch=')));
    await sleep(clock, 600);
    await mode.close(true);
    expect(took()).toBeUndefined();
    open(false, hurried);
    await until(() => took() !== undefined);
    expect(took()?.body).toMatchObject({ status: { conditions: [{ status: 'False', reason }] } });
  });

  it('takes from the API server how a victim ended if the answer to its deletion was lost', async () => {
    const uid = aUid();
    const web = { name: 'web', uid, status: statuses };
    stub.store.put(aV1Pod(web));
    addPod(uid);
    does.answer = ({ method }) =>
      method === 'DELETE' ? { status: 403, body: { kind: 'Status', message: 'no' } } : null;
    open(false, standing);
    await until(() => podNamed('web') !== undefined);
    const resumedFromMs = standStill();
    const victim = podNamed('web');
    const doneBefore = [{ atMs: 1, act: 'delete', answer: 'sent' } as const];
    const resume = () => stop(victim, { resumedFromMs, sentBefore: 'sigkill', doneBefore });
    expect(await resume()).toMatchObject({ kind: 'dropped', because: 'gone' });
    stub.fault(/\/pods\/web$/, { kind: 'status', status: 500 });
    expect(await resume()).toMatchObject({ kind: 'unknown' });
    const deletionTimestamp = new Date().toISOString();
    stub.store.put(aV1Pod({ ...web, metadata: { deletionTimestamp } }));
    expect(await resume()).toMatchObject({ kind: 'ended', via: 'api' });
    stub.store.remove('default/web');
    expect(await resume()).toMatchObject({ kind: 'ended', via: 'api' });
  });

  it('lets no shutdown delete a pod before the node is cordoned, also if the API server was away when it began', async () => {
    const metadata = {
      ownerReferences: [{ kind: 'ReplicaSet', name: 'web', uid: aUid(), apiVersion: 'apps/v1', controller: true }],
    };
    stub.store.put(aV1Pod({ name: 'web', uid: aUid(), status: statuses, metadata }));
    open();
    await until(() => podNamed('web') !== undefined && podNamed('web')?.declared.leaves === undefined);
    await stub.stop();
    await until(() => parts.present.has('api-away'));
    mode.setShuttingDown(true);
    await mode.announce?.({ decision: 'd9', totalMs: 60_000, byKubelet: false });
    const isCordoned = (): boolean => written.some(({ path }) => path.endsWith(`/nodes/${NODE}`));
    await stub.listen();
    await until(() => {
      const mayBeDeleted = podNamed('web')?.declared.leaves === undefined;
      expect([mayBeDeleted, isCordoned()]).not.toEqual([true, false]);
      return mayBeDeleted;
    });
  });

  describe('a kept deletion of a pod that is Ready in the API since before the kill', () => {
    const uid = aUid();
    const ready = (wallMs: number) => {
      const lastTransitionTime = `${new Date(wallMs).toISOString().slice(0, 19)}Z`;
      const conditions = [{ type: 'Ready', status: 'True', lastTransitionTime }];
      stub.store.put(aV1Pod({ name: 'web', uid, status: { ...statuses, conditions } }));
    };
    let aheadMs: number;
    const ahead: Clock = {
      ...clock,
      monoMs: () => clock.monoMs() + aheadMs,
      wallMs: () => clock.wallMs() + aheadMs,
    };
    /** The API server answers again long after the kill, and `meanwhile`. */
    const kill = async (meanwhile: () => Promise<unknown>): Promise<void> => {
      aheadMs = 0;
      ready(clock.wallMs() - 3_600_000);
      const { app, pause } = await runPod(uid);
      open(false, ahead, await openRuntimeOf(uid));
      // Without its sandbox, which the runtime has named.
      await until(() => podNamed('web')?.containers.length === 1);
      await stub.stop();
      await until(() => parts.present.has('api-away'));
      expect((await stop(podNamed('web'))).kind).toBe('ended');
      await until(() => !app.isAlive());
      expect(pause.isAlive()).toBe(true);
      aheadMs = 200_000;
      await meanwhile();
      noted.splice(0);
      await stub.listen();
    };

    it('is not sent, nor is the pod said to be well, if it runs', async () => {
      let before = 0;
      await kill(async () => {
        // The kubelet has restarted it, which its status in the API does not show yet.
        await runPod(uid);
        before = stub.heard.length;
      });
      await until(() => stub.heard.slice(before).some(({ path }) => /\/pods\?.*watch/.test(path)));
      await sleep(clock, 500);
      expect(written.map(({ method }) => method)).not.toContain('DELETE');
      const notes = () => JSON.stringify(noted.splice(0));
      expect(notes()).not.toContain('withdraw');
      ready(ahead.wallMs() - 100_000);
      await until(() => notes().includes('had run again'));
    });

    it('is sent if only its sandbox is left', async () => {
      await kill(async () => undefined);
      await until(() => written.some(({ method, path: url }) => method === 'DELETE' && url.includes('/pods/web')));
    });
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
    sayBoot(bootId, [{ type: 'Ready', status: 'True' }]);
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
    sayBoot(bootId, [{ type: 'NodewardenMemoryPressure', message, lastHeartbeatTime }]);
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
