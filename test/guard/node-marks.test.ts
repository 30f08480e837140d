import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Act } from '../../src/core/guard/decision.ts';
import type { ActResult } from '../../src/core/guard/observation.ts';
import { createGuardWrites } from '../../src/guard/api-writes.ts';
import { createNodeMarks } from '../../src/guard/node-marks.ts';
import { eventually } from '../kube/eventually.ts';
import type { Json } from '../kube/pod-store.ts';
import { aGuardApi, clock, type GuardApi, ID, NAMESPACE, W1, withAuthority } from './a-guard-api.ts';

withAuthority();
let api: GuardApi;
let mayAct = true;
let unsaid: string[] = [];
beforeEach(async () => {
  api = await aGuardApi();
  mayAct = true;
  unsaid = [];
});
afterEach(() => api.close());

const marks = () =>
  createNodeMarks({
    clock,
    get: api.connection.get,
    writes: createGuardWrites({ send: api.connection.send, namespace: NAMESPACE }),
    mayAct: () => mayAct,
    unsaid: (_, detail) => void unsaid.push(detail),
  });
type Tell = Extract<Act, { kind: 'tell' }>;
const tell = (rest: Partial<Tell> = {}): Promise<ActResult> =>
  marks().tell(W1, ID, {
    ...{ kind: 'tell', resourceVersion: versionNow(), notAfterMs: Number.POSITIVE_INFINITY },
    ...rest,
  });
const versionNow = (): string => String(api.node('w1').metadata['resourceVersion']);
const taints = (): readonly Json[] => (api.node('w1').spec?.['taints'] ?? []) as Json[];
const conditions = (): readonly Json[] => (api.node('w1').status?.['conditions'] ?? []) as Json[];
const OURS = { key: 'node.kubernetes.io/out-of-service', value: `nodewarden.${ID}`, effect: 'NoExecute' };
const FENCED = { key: 'nodewarden.dev/fenced', value: ID, effect: 'NoSchedule' };
const FOREIGN = [
  { key: 'node.kubernetes.io/unreachable', effect: 'NoExecute', timeAdded: '2026-01-01T00:00:00Z' },
  { key: 'example.com/mine', value: ID, effect: 'NoSchedule', somethingNew: 7 },
];
const THEIRS = { key: 'node.kubernetes.io/out-of-service', value: 'ann', effect: 'NoExecute' };
const READY = { type: 'Ready', status: 'Unknown' };

describe('the taints of a proven fencing', () => {
  it('are added in one patch to those of others, with a condition that follows', async () => {
    api.putNode(W1, { taints: FOREIGN, conditions: [READY] });
    expect(await tell()).toEqual({ kind: 'patched' });
    expect(taints()).toEqual([...FOREIGN, OURS, FENCED]);
    await eventually(() =>
      expect(conditions()).toMatchObject([
        READY,
        { type: 'NodewardenFenced', status: 'True', reason: 'PowerOffProven' },
      ]),
    );
    expect(api.writes().map(({ method, path }) => [method, path])).toEqual([
      ['PATCH', '/api/v1/nodes/w1'],
      ['PATCH', '/api/v1/nodes/w1/status'],
    ]);
  });

  it('are not added if the Node has changed since it was looked at', async () => {
    api.putNode(W1, { taints: FOREIGN });
    const resourceVersion = versionNow();
    api.putNode(W1, { taints: FOREIGN });
    expect(await tell({ resourceVersion })).toMatchObject({ kind: 'failed', why: 'conflict' });
    expect(taints()).toEqual(FOREIGN);
  });

  it('are not added if the Node changes between the last read and the patch', async () => {
    api.putNode(W1, {});
    api.before(({ method, path }) => {
      if (method === 'PATCH' && path.endsWith('/w1')) api.putNode(W1, { taints: FOREIGN });
    });
    expect(await tell()).toMatchObject({ kind: 'failed', why: 'conflict' });
    expect(taints()).toEqual(FOREIGN);
  });

  it('are not added to another Node of that name', async () => {
    api.putNode({ ...W1, uid: 'another' }, {});
    expect(await tell()).toMatchObject({ kind: 'failed', why: 'gone' });
    expect(taints()).toEqual([]);
  });

  it('are not added if the proof is too old by then', async () => {
    api.putNode(W1, {});
    expect(await tell({ notAfterMs: clock.monoMs() - 1 })).toMatchObject({ kind: 'not-begun' });
    expect(api.writes()).toEqual([]);
  });

  it('are not added if authority ends while the Node is read', async () => {
    api.putNode(W1, {});
    api.before(() => {
      mayAct = false;
    });
    expect(await tell()).toMatchObject({ kind: 'not-begun' });
    expect(api.writes()).toEqual([]);
  });

  it('leave an out-of-service taint of somebody else as it is, and add no second one (G11)', async () => {
    api.putNode(W1, { taints: [THEIRS, ...FOREIGN] });
    expect(await tell()).toEqual({ kind: 'patched' });
    expect(taints()).toEqual([THEIRS, ...FOREIGN, FENCED]);
  });

  it('replace those that an earlier fencing left', async () => {
    api.putNode(W1, {
      taints: [
        { ...OURS, value: 'nodewarden.0-1' },
        { ...FENCED, value: '0-1' },
      ],
    });
    expect(await tell()).toEqual({ kind: 'patched' });
    expect(taints()).toEqual([OURS, FENCED]);
  });

  it('may be there all the same if the answer is lost, and it is not said that they are', async () => {
    api.putNode(W1, {});
    api.lose(/nodes/);
    expect(await tell()).toMatchObject({ kind: 'failed' });
    expect(taints()).toEqual([OURS, FENCED]);
  });

  it('are then found on the Node, and need no write that is answered', async () => {
    api.putNode(W1, { taints: FOREIGN });
    api.lose(/nodes/);
    expect(await tell()).toMatchObject({ kind: 'failed' });
    const patches = () => api.writes().filter(({ path }) => path.endsWith('/w1')).length;
    const before = patches();
    expect(await tell()).toEqual({ kind: 'patched' });
    expect(taints()).toEqual([...FOREIGN, OURS, FENCED]);
    expect(patches()).toBe(before);
  });

  it('hold also if the condition cannot be set', async () => {
    api.putNode(W1, {});
    api.stub.fault(/status/, { kind: 'status', status: 403 });
    expect(await tell()).toEqual({ kind: 'patched' });
    await eventually(() => expect(unsaid).toHaveLength(1));
    expect(taints()).toEqual([OURS, FENCED]);
  });
});

describe('the marks of a fencing', () => {
  const fenced = async (more: readonly Json[] = FOREIGN): Promise<void> => {
    api.putNode(W1, { taints: more, conditions: [READY] });
    await tell();
    await eventually(() => expect(conditions()).toHaveLength(2));
  };

  it('lose first the taint that frees its pods, and nothing else', async () => {
    await fenced();
    expect(await marks().untell(W1, ID)).toEqual({ kind: 'patched' });
    expect(taints()).toEqual([...FOREIGN, FENCED]);
    expect(conditions()).toHaveLength(2);
    expect(await marks().untell(W1, ID)).toEqual({ kind: 'patched' });
  });

  it('go at the end, those of others stay', async () => {
    await fenced();
    expect(await marks().clear(W1, ID)).toEqual({ kind: 'patched' });
    expect(taints()).toEqual(FOREIGN);
    expect(conditions()).toEqual([READY]);
  });

  it('of another fencing, or of somebody else, stay', async () => {
    const others = [THEIRS, { ...FENCED, value: '0-1' }];
    api.putNode(W1, { taints: others, conditions: [{ type: 'NodewardenFenced', message: 'of another one' }] });
    expect(await marks().clear(W1, ID)).toEqual({ kind: 'patched' });
    expect(taints()).toEqual(others);
    expect(conditions()).toHaveLength(1);
    expect(api.writes()).toEqual([]);
  });

  it('go also while somebody else writes the Node again and again', async () => {
    await fenced();
    let writes = 0;
    api.before(({ method }) => {
      if (method !== 'PATCH' || ++writes > 3) return;
      api.putNode(W1, { taints: [...taints(), { key: `example.com/${writes}`, effect: 'NoSchedule' }] });
    });
    expect(await marks().untell(W1, ID)).toEqual({ kind: 'patched' });
    expect(taints().map(({ key }) => key)).toEqual([
      ...FOREIGN.map(({ key }) => key),
      'nodewarden.dev/fenced',
      ...['example.com/1', 'example.com/2', 'example.com/3'],
    ]);
  });

  it('that show what is left go last: what fails in between is cleared again', async () => {
    await fenced();
    api.stub.fault(/status/, { kind: 'status', status: 500 });
    expect(await marks().clear(W1, ID)).toMatchObject({ kind: 'failed', why: 'error' });
    expect(taints()).toEqual([...FOREIGN, FENCED]);
    expect(await marks().clear(W1, ID)).toEqual({ kind: 'patched' });
    expect([taints(), conditions()]).toEqual([FOREIGN, [READY]]);
  });

  it.each([
    ['is gone', () => api.objects.clear(), 'gone'],
    ['is another one by now', () => api.putNode({ ...W1, uid: 'another' }, {}), 'gone'],
    ['cannot be read', () => api.stub.fault(/nodes/, { kind: 'status', status: 500 }), 'error'],
    [
      'is something else',
      () => api.stub.fault(/nodes/, { kind: 'status', status: 200, body: { kind: 'Pod' } }),
      'error',
    ],
  ] as const)('are not written if the Node %s', async (_, make, why): Promise<void> => {
    make();
    expect(await marks().clear(W1, ID)).toMatchObject({ kind: 'failed', why });
    expect(api.writes()).toEqual([]);
  });

  it('are written by nobody without authority', async () => {
    await fenced();
    mayAct = false;
    const before = api.writes().length;
    expect(await marks().clear(W1, ID)).toMatchObject({ kind: 'not-begun' });
    expect(api.writes()).toHaveLength(before);
  });
});
