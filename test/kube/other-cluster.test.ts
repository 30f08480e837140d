import { describe, expect, it, onTestFinished } from 'vitest';
import { until } from '../host/test-cgroup.ts';
import {
  authority,
  isUnable,
  mode,
  open,
  parts,
  podNamed,
  pods,
  runPod,
  statuses,
  stop,
  stub,
  written,
} from './an-open-kube.ts';
import { writeKubeconfig } from './certificates.ts';
import { aUid, aV1Pod, NODE, status } from './pod-store.ts';
import { type Heard, startStubApi } from './stub-api.ts';

const BOOTED_ELSEWHERE = 'the node node-1 has the boot id';
const NO_NODE = 'the API server has no node node-1';

describe.skipIf(isUnable)('a kubeconfig that names the server of another cluster', () => {
  /** Of which this machine is no node. */
  const startOther = async (hasNamesake: boolean) => {
    const asked: Heard[] = [];
    const details = { name: NODE, kind: 'nodes' };
    const notFound = { ...status(404, `nodes "${NODE}" not found`), reason: 'NotFound', details };
    const api = await startStubApi(authority, (request) => {
      if (request.method !== 'GET') asked.push(request);
      return request.path === `/api/v1/nodes/${NODE}` && !hasNamesake ? { status: 404, body: notFound } : null;
    });
    onTestFinished(() => api.stop());
    return { ...api, asked };
  };
  const runWeb = async () => {
    const uid = aUid();
    stub.store.put(aV1Pod({ name: 'web', uid, status: statuses }));
    const running = await runPod(uid);
    open();
    await until(() => podNamed('web')?.declared.limitedBy === null);
    return running;
  };
  const hasFinding = (text: string) => [...parts.present.values()].some((finding) => finding.includes(text));

  it.each([
    [BOOTED_ELSEWHERE, true],
    [NO_NODE, false],
  ])('is not used by an agent that runs, and a finding says why: %s', async (why, hasNamesake) => {
    const { app } = await runWeb();
    const other = await startOther(hasNamesake);
    writeKubeconfig(authority, other.url);
    await until(() => hasFinding(why));
    expect(parts.present.get('api-credentials')).toContain('the previous ones stay in use');
    await stop(podNamed('web'));
    await until(() => !app.isAlive());
    expect(other.asked).toEqual([]);
    await until(() => written.some(({ method, path }) => method === 'DELETE' && path.includes('/pods/web')));
  });

  it.each([
    [BOOTED_ELSEWHERE, true],
    [NO_NODE, false],
  ])('ends the use of the last known pods after a restart, and a finding says why: %s', async (why, hasNamesake) => {
    await runWeb();
    await mode.close(false);
    const other = await startOther(hasNamesake);
    open(false, undefined, undefined, other.url);
    await until(() => hasFinding(why));
    await until(() => pods().length === 1 && pods()[0]?.declared.limitedBy === 'unnamed');
    expect(other.asked).toEqual([]);
  });
});
