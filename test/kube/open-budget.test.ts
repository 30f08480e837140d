import { describe, expect, it, onTestFinished } from 'vitest';
import { until } from '../host/test-cgroup.ts';
import {
  does,
  isUnable,
  open,
  parts,
  podNamed,
  runPod,
  standing,
  standStill,
  statuses,
  stop,
  stub,
  written,
} from './an-open-kube.ts';
import { aUid, aV1Pod } from './pod-store.ts';

const byBudget: typeof does.answer = ({ path }) =>
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
const soft = { isHard: false, first: 'sigterm' } as const;

describe.skipIf(isUnable)('mode kubelet: a soft eviction', () => {
  it('spares a pod whose disruption budget refuses, and passes it over for a while', async () => {
    const uid = aUid();
    stub.store.put(aV1Pod({ name: 'web', uid, status: statuses }));
    const { app } = await runPod(uid);
    does.answer = byBudget;
    open(false, standing);
    await until(() => podNamed('web')?.declared.limitedBy === null);
    standStill();
    const outcome = await stop(podNamed('web'), soft);
    expect(outcome).toMatchObject({ kind: 'dropped', because: 'budget-refused' });
    expect(app.isAlive()).toBe(true);
    expect(podNamed('web')?.declared.limitedBy).toBe('budget-refused');
  });

  it('asks the budget although the server is late to say how it takes evictions', async () => {
    const uid = aUid();
    stub.store.put(aV1Pod({ name: 'web', uid, status: statuses }));
    const { app } = await runPod(uid);
    does.answer = byBudget;
    stub.fault(/^\/api\/v1$/, { kind: 'hang' }, 1);
    open();
    await until(() => podNamed('web')?.declared.limitedBy === null);
    expect(await stop(podNamed('web'), soft)).toMatchObject({ kind: 'dropped', because: 'budget-refused' });
    expect(app.isAlive()).toBe(true);
  });

  it('asks the budget of a pod right after the API server is back', async () => {
    const uid = aUid();
    stub.store.put(aV1Pod({ name: 'web', uid, status: statuses }));
    const { app } = await runPod(uid);
    does.answer = byBudget;
    open();
    await until(() => podNamed('web')?.declared.limitedBy === null);
    await until(() => stub.heard.some(({ path }) => path === '/api/v1'));
    await stub.stop();
    await until(() => parts.present.has('api-away'));
    await stub.listen();
    await until(() => !parts.present.has('api-away'));
    expect(await stop(podNamed('web'), soft)).toMatchObject({ kind: 'dropped', because: 'budget-refused' });
    expect(app.isAlive()).toBe(true);
  });

  it('evicts no pod softly while the server does not say how it takes evictions, and says so', async () => {
    const uid = aUid();
    stub.store.put(aV1Pod({ name: 'web', uid, status: statuses }));
    const { app } = await runPod(uid);
    stub.fault(/^\/api\/v1$/, { kind: 'status', status: 403 }, 1_000);
    open();
    await until(() => podNamed('web')?.declared.limitedBy === null);
    expect(await stop(podNamed('web'), soft)).toMatchObject({ kind: 'dropped', because: 'eviction-not-taken' });
    expect(app.isAlive()).toBe(true);
    await until(() => parts.present.has('api-evictions'));
    await stub.stop();
    onTestFinished(() => stub.listen());
    await until(() => parts.present.has('api-away'));
    // Now they are, without the server.
    expect([...parts.present.keys()]).not.toContain('api-evictions');
  });

  it.each([
    ['the server does not answer', /eviction$/],
    ['the server does not answer, nor reads of it', /pods\/web(\/eviction)?$/],
  ])('leaves a pod alone whose eviction %s, while it answers everything else', async (_, hangs) => {
    const uid = aUid();
    stub.store.put(aV1Pod({ name: 'web', uid, status: statuses }));
    const { app } = await runPod(uid);
    open();
    await until(() => podNamed('web')?.declared.limitedBy === null);
    stub.fault(hangs, { kind: 'hang' }, 100);
    const outcome = await stop(podNamed('web'), soft);
    expect(outcome).toMatchObject({ kind: 'dropped', because: 'eviction-not-taken' });
    // It may still be taken.
    expect(outcome.rungs?.map(({ act, isAccepted }) => [act, isAccepted])).toContainEqual(['evict', undefined]);
    expect(app.isAlive()).toBe(true);
  });

  it('deletes no pod because the server does not know who asks (401)', async () => {
    const uid = aUid();
    stub.store.put(aV1Pod({ name: 'web', uid, status: statuses }));
    const { app } = await runPod(uid);
    open();
    await until(() => podNamed('web')?.declared.limitedBy === null);
    stub.fault(/\/eviction$/, { kind: 'status', status: 401 }, 1_000);
    expect(await stop(podNamed('web'), soft)).toMatchObject({ kind: 'dropped', because: 'eviction-not-taken' });
    expect(app.isAlive()).toBe(true);
    expect(written.map(({ method }) => method)).not.toContain('DELETE');
  });
});
