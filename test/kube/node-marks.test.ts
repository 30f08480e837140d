import { describe, expect, it } from 'vitest';
import type { NodeCondition } from '../../src/core/signal.ts';
import { type AgentId, createKubeMarks } from '../../src/kube/node-marks.ts';
import { aClock } from './a-clock.ts';
import { anApi, BOOT, EARLIER_BOOT, type Json, NODE_PATH, status, VICTIM, writesTo } from './an-api.ts';

const ABOUT = { decision: 'd-1', pod: VICTIM, annotations: {} };
const AGENT: AgentId = { pid: 100, startTicks: 5_000 };
const taint = (what: string) => ({ key: `nodewarden.dev/${what}`, effect: 'NoSchedule' });

function someMarks(
  api = anApi(),
  rest: {
    readonly conditions?: readonly NodeCondition[];
    readonly isUp?: () => boolean;
    readonly isAlive?: (agent: AgentId) => boolean;
    readonly wants?: { readonly conditions: boolean; readonly taints: 'own' | 'cluster-autoscaler' | null };
  } = {},
) {
  const clock = aClock();
  const told: unknown[] = [];
  const takenBy: number[] = [];
  const found = new Map<string, string>();
  const marks = createKubeMarks({
    clock,
    writes: writesTo(api),
    isUp: rest.isUp ?? (() => true),
    tellEvent: (event) => void told.push(event),
    objectOf: (uid) => (uid === VICTIM.uid ? VICTIM : null),
    findings: { raise: ({ id, text }) => void found.set(id, text), clear: (id) => void found.delete(id) },
    conditions: rest.conditions ?? [],
    wants: rest.wants ?? { conditions: true, taints: 'own' },
    agent: AGENT,
    isAlive: rest.isAlive ?? (() => true),
    taken: ({ pid }) => void takenBy.push(pid),
  });
  const shown = (what: string): Json | undefined =>
    api.node.status.conditions.find(({ type }) => type === `Nodewarden${what}`);
  const patches = () => api.sent().filter(({ path }) => path === `${NODE_PATH}/status`).length;
  return { api, clock, marks, told, takenBy, found, shown, patches };
}

describe('conditions', () => {
  it('are set from the start, and renewed every minute', async () => {
    const { clock, api, shown, patches } = someMarks();
    await clock.advance(0);
    expect(api.node.status.conditions.map(({ type, status: is }) => `${type} ${is}`)).toEqual([
      'Ready True',
      'NodewardenMemoryPressure False',
      'NodewardenDiskPressure False',
      'NodewardenPIDPressure False',
    ]);
    const first = { ...shown('MemoryPressure') };
    await clock.advance(59_000);
    expect(patches()).toBe(1);
    await clock.advance(2_000);
    expect(patches()).toBe(2);
    expect(shown('MemoryPressure')?.['lastTransitionTime']).toBe(first['lastTransitionTime']);
    expect(shown('MemoryPressure')?.['lastHeartbeatTime']).not.toBe(first['lastHeartbeatTime']);
  });
  it('change at once, with the time of the change', async () => {
    const { clock, marks, shown, patches } = someMarks();
    await clock.advance(10_000);
    marks.setCondition('MemoryPressure', true, 'the node is under memory pressure');
    marks.setCondition('MemoryPressure', true, 'the node is under memory pressure');
    await clock.advance(0);
    expect(patches()).toBe(2);
    expect(shown('MemoryPressure')).toMatchObject({
      status: 'True',
      message: 'the node is under memory pressure; agent 100-5000',
    });
    expect(shown('MemoryPressure')?.['lastTransitionTime']).not.toBe(shown('DiskPressure')?.['lastTransitionTime']);
  });
  it('continue after a crash with their original time', async () => {
    const api = anApi();
    const before = { reason: 'x', message: 'x', lastTransitionTime: '2025-12-01T00:00:00Z' };
    api.node.status.conditions.push(
      { type: 'NodewardenMemoryPressure', status: 'True', ...before },
      { type: 'NodewardenDiskPressure', status: 'True', ...before },
      { type: 'NodewardenLastBoot', status: 'True', ...before },
    );
    const { clock, marks, shown } = someMarks(api, { conditions: ['MemoryPressure'] });
    await clock.advance(0);
    marks.tell('NodewardenLastBoot', 'True', 'Graceful', `boot ${BOOT} follows ${EARLIER_BOOT}`);
    await clock.advance(0);
    expect(shown('MemoryPressure')).toMatchObject({ status: 'True', lastTransitionTime: before.lastTransitionTime });
    // The state that was taken over has no disk pressure: it ended meanwhile.
    expect(shown('DiskPressure')).toMatchObject({ status: 'False' });
    expect(shown('DiskPressure')?.['lastTransitionTime']).not.toBe(before.lastTransitionTime);
    expect(shown('LastBoot')).toMatchObject({ reason: 'Graceful', lastTransitionTime: before.lastTransitionTime });
  });
  it('of the shutdown have a reason', async () => {
    const { clock, marks, shown } = someMarks();
    marks.tell('NodewardenShutdownArmed', 'True', 'Armed', 'logind grants 30s');
    await clock.advance(0);
    marks.tell('NodewardenShutdownArmed', 'False', 'ShuttingDown', 'poweroff, 3 pods in 2 phases');
    await clock.advance(0);
    expect(shown('ShutdownArmed')).toMatchObject({ status: 'False', reason: 'ShuttingDown' });
  });
  it('that are no longer reported are removed', async () => {
    const { clock, marks, shown } = someMarks();
    marks.tell('NodewardenShutdownArmed', 'False', 'NotArmed', 'logind grants 5s');
    await clock.advance(0);
    marks.untell('NodewardenShutdownArmed');
    await clock.advance(0);
    expect(shown('ShutdownArmed')).toBeUndefined();
    expect(shown('MemoryPressure')).toBeDefined();
  });
  it('of an earlier run that this one does not report are removed with the first heartbeat', async () => {
    const api = anApi();
    api.node.status.conditions.push({ type: 'NodewardenShutdownArmed', status: 'False', reason: 'ShuttingDown' });
    const { clock, shown } = someMarks(api);
    await clock.advance(59_000);
    expect(shown('ShutdownArmed')).toBeDefined();
    await clock.advance(2_000);
    expect(shown('ShutdownArmed')).toBeUndefined();
  });
  it('are written in their latest form if several changed while the server was away', async () => {
    let isUp = false;
    const { clock, marks, shown, patches } = someMarks(anApi(), { isUp: () => isUp });
    marks.setCondition('PIDPressure', true, 'a');
    await clock.advance(5_000);
    marks.setCondition('PIDPressure', false, 'b');
    marks.setCondition('PIDPressure', true, 'c');
    await clock.advance(200_000);
    expect(patches()).toBe(0);
    isUp = true;
    marks.retry();
    await clock.advance(0);
    expect(patches()).toBe(1);
    expect(shown('PIDPressure')).toMatchObject({ status: 'True', message: 'c; agent 100-5000' });
  });
  it('are retried less and less often if the server does not answer', async () => {
    const api = anApi((method) => (method === 'PATCH' ? 'silence' : undefined));
    const { clock, patches } = someMarks(api);
    await clock.advance(10_000);
    const early = patches();
    expect(early).toBeGreaterThan(2);
    await clock.advance(100_000);
    expect(patches() - early).toBeLessThan(10);
  });
  it('cause a finding that names a missing right, until it is granted', async () => {
    let isForbidden = true;
    const api = anApi((method, path) =>
      isForbidden && method === 'PATCH' && path.endsWith('/status') ? status(403, 'Forbidden', 'no') : undefined,
    );
    const { clock, found, patches } = someMarks(api);
    await clock.advance(1_000);
    expect([...found.keys()]).toEqual(['api-right/patch nodes/status']);
    await clock.advance(50_000);
    expect(patches()).toBe(1);
    isForbidden = false;
    await clock.advance(20_000);
    expect(found.size).toBe(0);
  });
  it('report a missing right to see the node, and then nothing is written', async () => {
    const api = anApi((method) => (method === 'GET' ? status(403, 'Forbidden', 'no') : undefined));
    const { clock, found } = someMarks(api);
    await clock.advance(1_000);
    expect([...found.keys()]).toEqual(['api-right/get nodes']);
    expect(api.sent()).toEqual([]);
  });
});

describe('taints', () => {
  it('that need no change do not show that they may be changed', async () => {
    const api = anApi((method, path) =>
      method === 'PATCH' && path === NODE_PATH ? status(403, 'Forbidden', 'no') : undefined,
    );
    const { clock, marks, found } = someMarks(api);
    marks.setCondition('MemoryPressure', true, '');
    await clock.advance(1_000);
    expect([...found.keys()]).toEqual(['api-right/patch nodes']);
    // A webhook or a policy may deny it although the right is there.
    expect(found.get('api-right/patch nodes')).toContain('denies');
    marks.setCondition('MemoryPressure', false, '');
    await clock.advance(100_000);
    expect([...found.keys()]).toEqual(['api-right/patch nodes']);
  });
  it('are set and removed with the condition', async () => {
    const { clock, marks, api } = someMarks();
    marks.setCondition('MemoryPressure', true, '');
    marks.setCondition('DiskPressure', true, '');
    await clock.advance(0);
    expect(api.node.spec.taints).toEqual([taint('memory-pressure'), taint('disk-pressure')]);
    marks.setCondition('MemoryPressure', false, '');
    await clock.advance(0);
    expect(api.node.spec.taints).toEqual([taint('disk-pressure')]);
  });
  it('left by an earlier run are removed, except those of the shutdown and of others', async () => {
    const api = anApi();
    api.node.spec.taints = [taint('memory-pressure'), taint('pid-pressure'), taint('shutdown'), taint('fenced')];
    const { clock } = someMarks(api, { conditions: ['PIDPressure'] });
    await clock.advance(0);
    expect(api.node.spec.taints).toEqual([taint('pid-pressure'), taint('shutdown'), taint('fenced')]);
  });
  it('have keys that the cluster autoscaler knows, if configured, and earlier ones are removed', async () => {
    const api = anApi();
    api.node.spec.taints = [taint('memory-pressure')];
    const wants = { conditions: true, taints: 'cluster-autoscaler' } as const;
    const { clock } = someMarks(api, { wants, conditions: ['MemoryPressure'] });
    await clock.advance(0);
    const key = 'status-taint.cluster-autoscaler.kubernetes.io/nodewarden-memory-pressure';
    expect(api.node.spec.taints).toEqual([{ key, effect: 'NoSchedule' }]);
  });
  it('that somebody removed are set again under pressure', async () => {
    const { clock, marks, api } = someMarks();
    marks.setCondition('MemoryPressure', true, '');
    await clock.advance(0);
    api.node.spec.taints = [];
    await clock.advance(61_000);
    expect(api.node.spec.taints).toEqual([taint('memory-pressure')]);
  });
  it('that the server sets late, when the pressure is over, are removed', async () => {
    const api = anApi();
    const { clock, marks } = someMarks(api, { wants: { conditions: false, taints: 'own' } });
    marks.setCondition('MemoryPressure', true, '');
    marks.setCondition('MemoryPressure', false, '');
    await clock.advance(0);
    api.node.spec.taints = [taint('memory-pressure')];
    await clock.advance(61_000);
    expect(api.node.spec.taints).toEqual([]);
  });
});

describe('what is not wanted, and the end of the agent', () => {
  it('is not shown, and what an earlier configuration left is removed', async () => {
    const api = anApi();
    api.node.spec.taints = [taint('memory-pressure')];
    api.node.status.conditions.push({ type: 'NodewardenMemoryPressure', status: 'True' });
    const wants = { conditions: false, taints: null };
    const { clock, marks } = someMarks(api, { wants, conditions: ['MemoryPressure'] });
    marks.setCondition('PIDPressure', true, '');
    await clock.advance(0);
    expect(api.node.spec.taints).toEqual([]);
    expect(api.node.status.conditions).toEqual([{ type: 'Ready', status: 'True' }]);
  });
  it('clear leaves nothing of ours, and nothing is written after it', async () => {
    const { clock, marks, api } = someMarks();
    marks.setCondition('MemoryPressure', true, '');
    marks.tell('NodewardenLastBoot', 'False', 'Cut', '');
    await clock.advance(0);
    expect(await marks.clear()).toBeNull();
    marks.setCondition('DiskPressure', true, '');
    await clock.advance(200_000);
    expect(api.node.spec.taints).toEqual([]);
    expect(api.node.status.conditions).toEqual([{ type: 'Ready', status: 'True' }]);
  });
  it('clear reports what stood in its way', async () => {
    const api = anApi((method) => (method === 'PATCH' ? 'silence' : undefined));
    const { clock, marks } = someMarks(api);
    await clock.advance(0);
    expect(await marks.clear()).toMatchObject({ kind: 'unheard' });
  });
});

describe('another agent', () => {
  const signedBy = (agent: string, heartbeat = '2026-01-01T00:15:00Z') => {
    const api = anApi();
    const message = `the node has no memory pressure; agent ${agent}`;
    const times = { lastHeartbeatTime: heartbeat, lastTransitionTime: heartbeat };
    api.node.status.conditions.push({ type: 'NodewardenMemoryPressure', status: 'False', message, ...times });
    api.node.spec.taints = [taint('memory-pressure')];
    return api;
  };
  it('that is alive and has written recently keeps the node: nothing is written or taken back', async () => {
    const api = signedBy('200-9000');
    const { clock, marks, takenBy } = someMarks(api);
    marks.setCondition('DiskPressure', true, '');
    await clock.advance(500_000);
    expect(takenBy).toContain(200);
    expect(await marks.clear()).toBeNull();
    expect(api.sent()).toEqual([]);
  });
  it.each([
    ['has ended', signedBy('200-9000'), () => false],
    ['is this process, after a reload', signedBy('100-5000'), () => true],
    ['wrote long ago', signedBy('200-9000', '2026-01-01T00:00:00Z'), () => true],
  ])('that %s does not count', async (_what, api, isAlive) => {
    const { clock, takenBy, shown } = someMarks(api, { isAlive });
    await clock.advance(0);
    expect(takenBy).toEqual([]);
    expect(shown('MemoryPressure')?.['message']).toContain('agent 100-5000');
  });
});

describe('events', () => {
  it('name the object of the pod, or the node', () => {
    const { marks, told } = someMarks();
    marks.event('Evicted', 'm', ABOUT);
    marks.event('EvictionThresholdMet', 'm', { ...ABOUT, pod: null });
    // The API has dropped it already, or has not told of it yet.
    marks.event('Evicted', 'm', { ...ABOUT, pod: { uid: 'gone', namespace: 'shop', name: 'web-1' } });
    marks.event('Evicted', 'm', { ...ABOUT, pod: { uid: 'unnamed', namespace: '?', name: 'unnamed' } });
    expect(told).toMatchObject([
      { reason: 'Evicted', about: { kind: 'Pod', name: 'web-0', uid: VICTIM.uid }, decision: 'd-1' },
      { reason: 'EvictionThresholdMet', about: { kind: 'Node' } },
      { reason: 'Evicted', about: { kind: 'Pod', name: 'web-1', uid: 'gone' } },
    ]);
  });
});
