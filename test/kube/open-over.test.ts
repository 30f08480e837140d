import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { clock, until } from '../host/test-cgroup.ts';
import {
  bootId,
  directory,
  isUnable,
  noted,
  open,
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

/** The API server removes such a pod at once, and frees its name, even while containers of it still run. */
describe.skipIf(isUnable)('a pod that has ended, as the API shows it', () => {
  const ofPod = () => written.filter(({ path: url }) => url.includes('/pods/web')).map(({ method }) => method);

  it('is not deleted by a request that was saved before it ran again and succeeded', async () => {
    const uid = aUid();
    stub.store.put(aV1Pod({ name: 'web', uid, status: { ...statuses, phase: 'Succeeded' } }));
    mkdirSync(path.join(directory, 'spool'));
    const victim = { namespace: 'default', name: 'web', uid, isMirror: false };
    const act = { kind: 'delete', decision: 'd1', victim, graceSeconds: 1, why: 'EvictionByNodewarden' };
    const entry = { ...act, message: 'memory', madeAtMs: clock.monoMs(), bootId };
    writeFileSync(path.join(directory, 'spool', 'spool.jsonl'), `${JSON.stringify({ schema: 1, entry })}\n`);
    open();
    await until(() => noted.length > 0);
    const answer = 'the API server shows that the pod has ended';
    expect(noted).toEqual([expect.objectContaining({ of: 'd1', act: 'withdraw', answer })]);
    expect(ofPod()).toEqual([]);
  });

  it('is killed under a hard threshold while the kubelet still ends it, and not deleted', async () => {
    const uid = aUid();
    stub.store.put(aV1Pod({ name: 'web', uid, status: { ...statuses, phase: 'Failed' } }));
    const { app } = await runPod(uid);
    open();
    await until(() => podNamed('web')?.declared.limitedBy === null);
    const outcome = await stop(podNamed('web'));
    expect(outcome).toMatchObject({ kind: 'ended', via: 'sigkill' });
    expect(outcome.rungs?.map(({ act, isAccepted }) => [act, isAccepted])).toEqual([
      ['delete', false],
      ['kill-containers', undefined],
    ]);
    await until(() => !app.isAlive());
    expect(ofPod()).toEqual([]);
  });

  it('is not evicted softly: the kubelet ends it', async () => {
    const uid = aUid();
    stub.store.put(aV1Pod({ name: 'web', uid, status: { ...statuses, phase: 'Failed' } }));
    const processes = Object.values(await runPod(uid));
    open(false, standing);
    await until(() => podNamed('web')?.declared.limitedBy === null);
    standStill();
    const stopping = stop(podNamed('web'), { isHard: false, first: 'sigterm' });
    await until(() => JSON.stringify(noted).includes('not sent'));
    expect(processes.map((one) => one.isAlive())).toEqual([true, true]);
    for (const one of processes) one.kill('SIGKILL');
    expect(await stopping).toMatchObject({ kind: 'dropped', because: 'gone' });
    expect(ofPod()).toEqual([]);
  });
});
