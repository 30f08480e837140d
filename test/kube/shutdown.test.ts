import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { known, unknown } from '../../src/core/reading.ts';
import { createClock } from '../../src/host/clock.ts';
import type { ApiPod } from '../../src/kube/api/api-pod.ts';
import { createKubeShutdown, type KubeShutdown } from '../../src/kube/shutdown/shutdown.ts';
import type { UndoneStops } from '../../src/mode.ts';
import type { Clock } from '../../src/ports.ts';
import { createVirtualClock } from '../virtual-node.ts';
import { anApi, BOOT, type Json, writesTo } from './an-api.ts';
import { anApiPod } from './an-api-pod.ts';
import { eventually } from './eventually.ts';

const clock = createClock();
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
const MARK = 'nodewarden.dev/cordoned-by';
const owner = { kind: 'ReplicaSet', name: 'web', uid: 'r' };
const anyPod = (name: string, api: Partial<ApiPod> = {}): ApiPod => anApiPod({ name, uid: `uid-${name}`, api });
const web = anyPod('web', { owner });
const PLAN = { decision: 'boot-7', totalMs: 32_000, byKubelet: false };

describe('what a shutdown writes to the API server', () => {
  let directory: string;
  let api: ReturnType<typeof anApi>;
  let pods: Map<string, ApiPod>;
  let running: string[] | null;
  let woken: number;
  let isAway: boolean;
  let refreshed: number;
  let isDeaf: boolean;
  let opened: KubeShutdown[];
  let warned: string[];
  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), 'nodewarden-'));
    isAway = isDeaf = false;
    refreshed = woken = 0;
    api = anApi((method) => (isDeaf && method === 'PATCH' ? 'silence' : undefined));
    pods = new Map([['uid-web', web]]);
    running = [];
    opened = [];
    warned = [];
  });
  afterEach(async () => {
    await Promise.all(opened.map((one) => one.close(false)));
    rmSync(directory, { recursive: true });
  });
  const open = (at: Clock = clock): KubeShutdown => {
    const quiet = () => undefined;
    const shutdown = createKubeShutdown({
      ...{ clock: at, runtimeDirectory: directory, bootId: BOOT, kubeletDirectory: directory, tell: quiet },
      log: { debug: quiet, info: quiet, warn: (_, text) => void warned.push(text), error: quiet },
      findings: { raise: quiet, clear: quiet },
      writes: writesTo(api),
      isAway: () => isAway,
      pods: () => known(pods),
      refreshPods: () => {
        refreshed += 1;
      },
      running: () => (running === null ? unknown('unreadable', 'kubepods', 'EMFILE') : known(running)),
      wake: () => {
        woken += 1;
      },
    });
    opened.push(shutdown);
    return shutdown;
  };
  const isOpen = (): boolean => api.node.spec.unschedulable !== true && (api.node.spec.taints ?? []).length === 0;

  it('cordons and taints the node, with a mark of the shutdown, in one patch', async () => {
    expect(await open().announce(PLAN)).toBe('the node is cordoned and tainted');
    expect(api.sent().map(({ method }) => method)).toEqual(['PATCH']);
    expect(api.node.spec).toEqual({
      unschedulable: true,
      taints: [{ key: 'nodewarden.dev/shutdown', effect: 'NoSchedule' }],
    });
    expect(api.node.metadata.annotations[MARK]).toBe(`${BOOT}/boot-7`);
  });

  it('is nothing if the API server is away', async () => {
    isAway = true;
    const shutdown = open();
    expect(await shutdown.announce(PLAN)).toContain('the API server is away');
    expect(api.asked).toEqual([]);
    isDeaf = true;
    expect(await shutdown.undo()).toEqual({ started: [], notUndone: [] });
    expect([api.asked, shutdown.hasTold()]).toEqual([[], false]);
  });

  it('cordons the node as soon as the API server answers, and no pod may be deleted before that', async () => {
    isAway = true;
    const shutdown = open();
    await shutdown.announce(PLAN);
    isAway = false;
    expect(shutdown.mayDelete()).toBe(false);
    shutdown.retry();
    await eventually(() => expect(shutdown.mayDelete()).toBe(true));
    expect([isOpen(), woken]).toEqual([false, 1]);
    await shutdown.undo();
    expect(isOpen()).toBe(true);
  });

  it('cordons the node late after a restart of the agent, too', async () => {
    isAway = true;
    await open().announce(PLAN);
    const next = open();
    isAway = false;
    next.retry();
    await new Promise((resolve) => clock.after(50, () => resolve(null)));
    // It may have been cancelled while no agent ran.
    expect([api.sent(), next.mayDelete()]).toEqual([[], false]);
    next.goOn();
    next.retry();
    await eventually(() => expect(next.mayDelete()).toBe(true));
    expect([api.node.spec.unschedulable, next.hasTold()]).toEqual([true, true]);
    await next.undo();
    expect(isOpen()).toBe(true);
  });

  it('leaves the node alone after a cancel that could not be completed, and a restart', async () => {
    await open().announce(PLAN);
    isAway = isDeaf = true;
    const shutdown = open();
    await shutdown.announce({ ...PLAN, decision: 'boot-8' });
    void shutdown.undo();
    await eventually(() => expect(api.sent()).toHaveLength(2));
    isAway = isDeaf = false;
    const next = open();
    next.retry();
    await new Promise((resolve) => clock.after(50, () => resolve(null)));
    expect([api.node.metadata.annotations[MARK], next.mayDelete()]).toEqual([`${BOOT}/boot-7`, true]);
    await next.undo();
    expect(isOpen()).toBe(true);
  });

  it('leaves the node alone if the API server answers after a cancel only', async () => {
    isAway = true;
    const shutdown = open();
    await shutdown.announce(PLAN);
    await shutdown.undo();
    isAway = false;
    shutdown.retry();
    await new Promise((resolve) => clock.after(50, () => resolve(null)));
    expect([api.sent(), shutdown.mayDelete()]).toEqual([[], true]);
  });

  it('may be an earlier cordon that is still to be taken back, though the API server is away now', async () => {
    const shutdown = open();
    await shutdown.announce(PLAN);
    isAway = true;
    await shutdown.announce({ ...PLAN, decision: 'boot-8' });
    isAway = false;
    await shutdown.undo();
    expect(isOpen()).toBe(true);
  });

  it('is taken back when it is cancelled, naming pods that this does not bring back', async () => {
    const shutdown = open();
    await shutdown.announce(PLAN);
    shutdown.deleting(web)(true);
    shutdown.deleting(anyPod('bare'))(null);
    shutdown.deleting(anyPod('refused', { owner }))(false);
    const { notUndone } = await shutdown.undo();
    expect(notUndone).toEqual([
      'default/web was deleted: its ReplicaSet recreates it',
      'default/bare may have been deleted: nothing recreates it',
    ]);
    expect(isOpen()).toBe(true);
    expect(api.node.metadata.annotations[MARK]).toBeUndefined();
    expect(shutdown.hasTold()).toBe(false);
    expect(open().hasTold()).toBe(false);
  });

  it('is not taken back any more when the next shutdown begins', async () => {
    const shutdown = open();
    await shutdown.announce(PLAN);
    isDeaf = true;
    const undone = shutdown.undo();
    await new Promise((resolve) => clock.after(50, () => resolve(null)));
    isDeaf = false;
    await shutdown.announce({ ...PLAN, decision: 'boot-8' });
    // Nor is it said to be left.
    expect(await undone).toEqual({ started: [], notUndone: [] });
    shutdown.deleting(web)(true);
    await new Promise((resolve) => clock.after(1_500, () => resolve(null)));
    expect([api.node.spec.unschedulable, shutdown.hasTold()]).toEqual([true, true]);
    expect((await shutdown.undo()).notUndone).toHaveLength(1);
    expect(isOpen()).toBe(true);
  });

  it.each([
    ['is said to be taken back once that is done', true, []],
    [
      'is said to be left after 30 s without success',
      false,
      ['the cordon of the node (retrying): no answer within 500 ms'],
    ],
  ])('%s, however often it fails', async (_, doesAnswer, notUndone) => {
    const time = createVirtualClock(0);
    const shutdown = open(time);
    await shutdown.announce(PLAN);
    isDeaf = true;
    const said: UndoneStops[] = [];
    void shutdown.undo().then((undone) => said.push(undone));
    await time.run(29_000, turn, new AbortController().signal);
    expect([api.sent().length > 3, said]).toEqual([true, []]);
    isDeaf = !doesAnswer;
    shutdown.retry();
    await time.run(31_000, turn, new AbortController().signal);
    expect([said, isOpen()]).toEqual([[{ started: [], notUndone }], doesAnswer]);
  });

  it.each([
    ['taken back by a last try when the agent ends', true, true, []],
    ['left to the run that follows', false, true, []],
    ['said to stay if that fails, too', true, false, [expect.stringContaining('(cordon, taint)')]],
  ])('is %s', async (_, isLast, doesAnswer, warnings) => {
    // Its time stands still: nothing is tried again by itself.
    const shutdown = open(createVirtualClock(0));
    await shutdown.announce(PLAN);
    isDeaf = true;
    void shutdown.undo();
    await eventually(() => expect(api.sent()).toHaveLength(2));
    await turn();
    isDeaf = !doesAnswer;
    await shutdown.close(isLast);
    const isDone = isLast && doesAnswer;
    expect([isOpen(), warned, open().hasTold()]).toEqual([isDone, warnings, !isDone]);
  });

  it('is set again if the next shutdown begins while it is being taken back', async () => {
    const shutdown = open();
    await shutdown.announce(PLAN);
    void shutdown.undo();
    await shutdown.announce({ ...PLAN, decision: 'boot-8' });
    await new Promise((resolve) => clock.after(50, () => resolve(null)));
    expect([api.node.spec.unschedulable, shutdown.hasTold()]).toEqual([true, true]);
  });

  it('stays if the server carries out late what was to take back an earlier one', async () => {
    const shutdown = open();
    await shutdown.announce(PLAN);
    isDeaf = true;
    void shutdown.undo();
    await eventually(() => expect(api.sent()).toHaveLength(2));
    isDeaf = false;
    expect(await shutdown.announce({ ...PLAN, decision: 'boot-8' })).toBe('the node is cordoned and tainted');
    const late = api.sent()[1];
    if (late !== undefined) api.ask(late.method, late.path, late.body, late.contentType);
    expect(api.node.spec.unschedulable).toBe(true);
    await shutdown.undo();
    expect(isOpen()).toBe(true);
  });

  it('stays if an earlier one is being taken back otherwise', async () => {
    const shutdown = open();
    await shutdown.announce(PLAN);
    const mark = { bootId: BOOT, shutdownId: PLAN.decision };
    const between = writesTo({
      get: api.get,
      send: async (request) => {
        if (api.sent().length === 1) await shutdown.announce({ ...PLAN, decision: 'boot-8' });
        return api.send(request);
      },
    });
    expect(await between.uncordon([mark])).toEqual({ kind: 'nothing-of-ours' });
    expect(api.node.spec.unschedulable).toBe(true);
    await shutdown.undo();
    expect(isOpen()).toBe(true);
  });

  it('is taken back whichever shutdown it is marked for, after a restart too', async () => {
    const before = open();
    await before.announce(PLAN);
    isDeaf = true;
    await before.announce({ ...PLAN, decision: 'boot-8' });
    isDeaf = false;
    const shutdown = open();
    await shutdown.undo();
    expect(isOpen()).toBe(true);
    expect(shutdown.hasTold()).toBe(false);
  });

  it("leaves somebody else's cordon alone", async () => {
    api.node.spec.unschedulable = true;
    const shutdown = open();
    expect(await shutdown.announce(PLAN)).toContain('someone else had cordoned it');
    await shutdown.undo();
    expect(api.node.spec).toEqual({ unschedulable: true, taints: [] });
  });

  it('is remembered after a restart for taking it back', async () => {
    const before = open();
    await before.announce(PLAN);
    before.deleting(web);
    await new Promise((resolve) => setImmediate(resolve));
    const after = open();
    expect(after.hasTold()).toBe(true);
    expect((await after.undo()).notUndone).toHaveLength(1);
    expect(isOpen()).toBe(true);
  });

  it('is awaited for deleted pods until the API no longer has them, and for no others', async () => {
    const shutdown = open();
    pods.set('uid-db', anyPod('db'));
    await shutdown.announce(PLAN);
    expect(shutdown.unconfirmed()).toEqual(known({ pods: [], volumes: [], isNothingDeleted: true }));
    shutdown.deleting(web);
    await eventually(() => expect(shutdown.unconfirmed().known).toBe(true));
    expect(shutdown.unconfirmed()).toEqual(known({ pods: ['default/web (uid-web)'], volumes: [] }));
    pods.delete('uid-web');
    expect(shutdown.unconfirmed()).toEqual(known({ pods: [], volumes: [] }));
    const refused = shutdown.deleting(anyPod('db'));
    expect(shutdown.unconfirmed()).toMatchObject({ value: { pods: ['default/db (uid-db)'] } });
    refused(false);
    expect(shutdown.unconfirmed()).toEqual(known({ pods: [], volumes: [] }));
    isAway = true;
    expect(shutdown.unconfirmed()).toMatchObject({ known: false });
  });

  it('is awaited for pods that a cancelled one has deleted, too, but does not claim to have deleted them', async () => {
    const shutdown = open();
    await shutdown.announce(PLAN);
    shutdown.deleting(web)(true);
    const refused = shutdown.deleting(anyPod('db'));
    pods.set('uid-db', anyPod('db'));
    await shutdown.undo();
    await shutdown.announce({ ...PLAN, decision: 'boot-8' });
    // Its file is also read by the next run of the agent.
    for (const one of [shutdown, open()]) {
      await eventually(() => expect(one.unconfirmed().known).toBe(true));
      expect(one.unconfirmed()).toEqual(known({ pods: ['default/web (uid-web)', 'default/db (uid-db)'], volumes: [] }));
    }
    refused(false);
    pods.delete('uid-web');
    expect(shutdown.unconfirmed()).toMatchObject({ value: { pods: [] } });
    expect((await shutdown.undo()).notUndone).toEqual([]);
    await shutdown.announce({ ...PLAN, decision: 'boot-9' });
    expect(shutdown.unconfirmed()).toMatchObject({ value: { isNothingDeleted: true } });
  });

  it('is awaited with a look at the pods that no watch shows, every second', async () => {
    const shutdown = open();
    await shutdown.announce(PLAN);
    shutdown.deleting(web);
    shutdown.unconfirmed();
    shutdown.unconfirmed();
    expect(refreshed).toBe(1);
    await new Promise((resolve) => clock.after(1_050, () => resolve(null)));
    shutdown.unconfirmed();
    expect(refreshed).toBe(2);
  });

  it('is awaited for volumes, but not for those of pods that stay', async () => {
    const volume = join(directory, 'pods/uid-db/volumes/kubernetes.io~csi/pv-1');
    mkdirSync(volume, { recursive: true });
    writeFileSync(join(volume, 'vol_data.json'), '{"driverName":"csi.lab","volumeHandle":"one"}');
    running = ['uid-db'];
    const status: Json = api.node.status;
    status['volumesInUse'] = ['kubernetes.io/csi/csi.lab^one', 'kubernetes.io/csi/csi.lab^two'];
    const shutdown = open();
    await shutdown.announce(PLAN);
    shutdown.deleting(web);
    pods.delete('uid-web');
    await eventually(() => expect(shutdown.unconfirmed().known).toBe(true));
    expect(shutdown.unconfirmed()).toEqual(known({ pods: [], volumes: ['kubernetes.io/csi/csi.lab^two'] }));
    // One that its directory does not name may be any.
    mkdirSync(join(directory, 'pods/uid-db/volumes/kubernetes.io~aws-ebs/pv-2'), { recursive: true });
    expect(shutdown.unconfirmed()).toEqual(known({ pods: [], volumes: [] }));
  });

  it('is awaited for all pods if the kubelet stops them, until each has ended', async () => {
    pods.set('uid-bare', anyPod('bare'));
    const shutdown = open();
    await shutdown.announce({ ...PLAN, byKubelet: true });
    await eventually(() => expect(shutdown.unconfirmed().known).toBe(true));
    expect(shutdown.unconfirmed()).toMatchObject({
      value: { pods: ['default/web (uid-web)', 'default/bare (uid-bare)'] },
    });
    // The kubelet shows a pod as failed before it tells its containers to end.
    pods.set('uid-web', { ...web, phase: 'Failed' });
    running = ['uid-web'];
    pods.delete('uid-bare');
    expect(shutdown.unconfirmed()).toMatchObject({ value: { pods: ['default/web (uid-web)'] } });
    // Without containers, it is kept no more.
    pods.delete('uid-web');
    expect(shutdown.unconfirmed()).toMatchObject({ value: { pods: ['default/web (uid-web)'] } });
    running = null;
    expect(shutdown.unconfirmed().known).toBe(false);
    running = [];
    expect(shutdown.unconfirmed()).toEqual(known({ pods: [], volumes: [] }));
  });

  it('is awaited for a pod that the kubelet reported as failed before the shutdown was noticed', async () => {
    pods.set('uid-web', { ...web, phase: 'Failed' });
    running = ['uid-web'];
    const shutdown = open();
    await shutdown.announce({ ...PLAN, byKubelet: true });
    await eventually(() => expect(shutdown.unconfirmed().known).toBe(true));
    expect(shutdown.unconfirmed()).toMatchObject({ value: { pods: ['default/web (uid-web)'] } });
  });
});
