import { describe, expect, it } from 'vitest';
import { createUndoCordon } from '../../src/kube/shutdown/undo-cordon.ts';
import { heardParts } from '../standalone/needs.ts';
import { aClock } from './a-clock.ts';
import { anApi, BOOT, EARLIER_BOOT, NODE, status, writesTo } from './an-api.ts';

const TAINT = { key: 'nodewarden.dev/shutdown', effect: 'NoSchedule' };
const AUTOSCALER = { key: 'ToBeDeletedByClusterAutoscaler', effect: 'NoSchedule' };

function someNode(mark: string | null, api = anApi()) {
  if (mark !== null) {
    api.node.metadata.annotations = { 'nodewarden.dev/cordoned-by': mark };
    api.node.spec = { unschedulable: true, taints: [TAINT] };
  }
  return api;
}
function take(api: ReturnType<typeof anApi>, isUp = () => true) {
  const clock = aClock();
  const parts = heardParts();
  const { findings, log, present, lines } = parts;
  const takeBack = createUndoCordon({
    clock,
    findings,
    log,
    isUp,
    writes: writesTo(api),
    nodeName: NODE,
    bootId: BOOT,
  });
  let done = 0;
  takeBack.whenDone(() => {
    done += 1;
  });
  return { clock, takeBack, present, lines, done: () => done };
}
const setReady = (api: ReturnType<typeof anApi>, is: 'True' | 'False'): void => {
  api.node.status.conditions = [{ type: 'Ready', status: is }];
};

describe('after a boot', () => {
  it('the node is uncordoned once the kubelet is ready, and not before', async () => {
    const api = someNode(`${EARLIER_BOOT}/shutdown-1`);
    setReady(api, 'False');
    const { clock, lines, done } = take(api);
    await clock.advance(60_000);
    expect(api.node.spec).toEqual({ unschedulable: true, taints: [TAINT] });
    expect(done()).toBe(0);
    setReady(api, 'True');
    await clock.advance(5_000);
    expect(api.node.spec).toEqual({ taints: [] });
    expect(api.node.metadata.annotations).toEqual({});
    expect(lines).toEqual([`cordon: the node ${NODE} was uncordoned: the shutdown is over`]);
    expect(done()).toBe(1);
  });
  it('what the kubelet wrote in the previous boot does not count', async () => {
    const api = someNode(`${EARLIER_BOOT}/shutdown-1`);
    api.node.status.nodeInfo.bootID = EARLIER_BOOT;
    const { clock } = take(api);
    await clock.advance(60_000);
    expect(api.sent()).toEqual([]);
  });
  it('the cordon and the taints of others stay', async () => {
    const api = anApi();
    const kured = { key: 'weave.works/kured-node-reboot', effect: 'NoSchedule' };
    api.node.spec = { unschedulable: true, taints: [kured, TAINT] };
    const { clock, done } = take(api);
    await clock.advance(35_000);
    expect(api.node.spec).toEqual({ unschedulable: true, taints: [kured] });
    expect(done()).toBe(1);
  });
  it('nothing is written without a mark, and it is queried again once a minute', async () => {
    const api = anApi();
    const { clock, done } = take(api);
    await clock.advance(0);
    expect(done()).toBe(1);
    const asked = api.asked.length;
    await clock.advance(600_000);
    expect(api.asked.length).toBe(asked + 10);
    expect(api.sent()).toEqual([]);
  });
  it('the server may come late', async () => {
    const api = someNode(`${EARLIER_BOOT}/shutdown-1`);
    let isUp = false;
    const { clock } = take(api, () => isUp);
    await clock.advance(60_000);
    expect(api.asked).toEqual([]);
    isUp = true;
    await clock.advance(5_000);
    expect(api.node.spec).toEqual({ taints: [] });
  });
  it('a missing right to patch nodes is reported', async () => {
    const api = someNode(
      `${EARLIER_BOOT}/shutdown-1`,
      anApi((method) => (method === 'PATCH' ? status(403, 'Forbidden', 'no') : undefined)),
    );
    const { clock, present } = take(api);
    await clock.advance(5_000);
    expect([...present.keys()]).toEqual(['api-right/patch nodes']);
    const sent = api.sent().length;
    await clock.advance(50_000);
    expect(api.sent().length).toBe(sent);
  });
});

describe('while the autoscaler removes the node', () => {
  it('it stays cordoned, which is reported, until the autoscaler has changed its mind', async () => {
    const api = someNode(`${EARLIER_BOOT}/shutdown-1`);
    api.node.spec.taints = [AUTOSCALER, TAINT];
    const { clock, present, done } = take(api);
    await clock.advance(5_000);
    expect(api.node.spec).toEqual({ unschedulable: true, taints: [AUTOSCALER] });
    expect([...present.keys()]).toEqual(['node-cordon-kept']);
    expect(done()).toBe(0);
    api.node.spec.taints = [];
    await clock.advance(60_000);
    expect(api.node.spec).toEqual({ taints: [] });
    expect(present.size).toBe(0);
    expect(done()).toBe(1);
  });
});

describe('in the boot of the shutdown', () => {
  it('nothing is taken back while it lasts', async () => {
    const api = someNode(`${BOOT}/shutdown-1`);
    const { clock, takeBack } = take(api);
    takeBack.setShuttingDown(true);
    await clock.advance(600_000);
    expect(api.sent()).toEqual([]);
  });
  it('a mark that a cancel or a soft-reboot left is taken back once it is certain that none continues', async () => {
    const api = someNode(`${BOOT}/shutdown-1`);
    const { clock, takeBack } = take(api);
    takeBack.setShuttingDown(true);
    await clock.advance(100_000);
    takeBack.setShuttingDown(false);
    await clock.advance(25_000);
    expect(api.node.spec.unschedulable).toBe(true);
    await clock.advance(10_000);
    expect(api.node.spec).toEqual({ taints: [] });
  });
});

describe('a cordon that the server carries out late', () => {
  it('is taken back, whenever it appears', async () => {
    const api = anApi();
    const { clock, takeBack, lines, done } = take(api);
    takeBack.setShuttingDown(true);
    await clock.advance(3_000);
    takeBack.setShuttingDown(false);
    await clock.advance(40_000);
    expect(done()).toBe(1);
    someNode(`${BOOT}/shutdown-1`, api);
    await clock.advance(60_000);
    expect(api.node.spec).toEqual({ taints: [] });
    expect(lines).toEqual([`cordon: the node ${NODE} was uncordoned: the shutdown is over`]);
    expect(done()).toBe(1);
  });
});

describe('after a restart of the agent', () => {
  it('a taint alone, on a node that others had cordoned, stays until it is certain that no shutdown continues', async () => {
    const api = anApi();
    api.node.spec = { unschedulable: true, taints: [TAINT] };
    const { clock, takeBack } = take(api);
    await clock.advance(25_000);
    expect(api.node.spec.taints).toEqual([TAINT]);
    takeBack.setShuttingDown(true);
    await clock.advance(60_000);
    expect(api.node.spec.taints).toEqual([TAINT]);
    takeBack.setShuttingDown(false);
    await clock.advance(35_000);
    expect(api.node.spec).toEqual({ unschedulable: true, taints: [] });
  });
});

describe('a cordon that a person has lifted', () => {
  const OURS = { 'f:annotations': { 'f:nodewarden.dev/cordoned-by': {} } };
  it.each([
    ['while the kubelet is not ready', `${EARLIER_BOOT}/shutdown-1`, false],
    ['during a shutdown', `${BOOT}/shutdown-1`, true],
  ])('%s is no longer ours: one that a person sets later stays', async (_when, mark, isGoingDown) => {
    const api = someNode(mark);
    setReady(api, 'False');
    const { clock, takeBack, lines } = take(api);
    takeBack.setShuttingDown(isGoingDown);
    await clock.advance(6_000);
    expect(api.sent()).toEqual([]);
    delete api.node.spec.unschedulable;
    await clock.advance(6_000);
    expect(api.node.metadata.annotations).toEqual({});
    api.node.spec.unschedulable = true;
    setReady(api, 'True');
    takeBack.setShuttingDown(false);
    await clock.advance(60_000);
    expect(api.node.spec).toEqual({ unschedulable: true, taints: [] });
    expect(lines).toEqual([]);
  });
  it('and set again while nobody looked stays, by what the server knows of who wrote it', async () => {
    const api = someNode(`${EARLIER_BOOT}/shutdown-1`);
    api.node.metadata.managedFields = [
      { manager: 'nodewarden', fieldsV1: { 'f:metadata': OURS, 'f:spec': { 'f:taints': {} } } },
      { manager: 'kubectl-cordon', fieldsV1: { 'f:spec': { 'f:unschedulable': {} } } },
    ];
    const { clock, done } = take(api);
    await clock.advance(6_000);
    expect(api.node.spec).toEqual({ unschedulable: true, taints: [] });
    expect(api.node.metadata.annotations).toEqual({});
    expect(done()).toBe(1);
  });
  it('does not keep the cordon of a shutdown that nobody touched', async () => {
    const api = someNode(`${EARLIER_BOOT}/shutdown-1`);
    api.node.metadata.managedFields = [
      { manager: 'kubelet', fieldsV1: { 'f:metadata': { 'f:annotations': { '.': {} } } } },
      { manager: 'nodewarden', fieldsV1: { 'f:metadata': OURS, 'f:spec': { 'f:unschedulable': {} } } },
    ];
    const { clock } = take(api);
    await clock.advance(6_000);
    expect(api.node.spec).toEqual({ taints: [] });
  });
});

describe('an out-of-service taint', () => {
  it('is a finding as long as it exists, and is not removed', async () => {
    const api = anApi();
    const taint = { key: 'node.kubernetes.io/out-of-service', value: 'nodeshutdown', effect: 'NoExecute' };
    api.node.spec.taints = [taint];
    const { clock, present } = take(api);
    await clock.advance(0);
    expect(present.get('node-out-of-service')).toContain(`kubectl taint node ${NODE}`);
    expect(api.sent()).toEqual([]);
    api.node.spec.taints = [];
    await clock.advance(61_000);
    expect(present.size).toBe(0);
  });
});
