import { execFileSync, spawn } from 'node:child_process';
import { rmSync } from 'node:fs';
import { describe, expect, it, onTestFinished } from 'vitest';
import { known, unknown } from '../../src/core/reading.ts';
import { liveNow } from '../../src/kube/ladder.ts';
import { clock, enter, machine } from '../host/test-cgroup.ts';
import { aKubeSource } from './a-kube-source.ts';
import { aKubeletTree, anId, aUid } from './a-kubelet-tree.ts';
import { anApiPod, aSandbox } from './an-api-pod.ts';

const [WEB, APP, SANDBOX] = [aUid('1'), anId('a'), anId('f')];
const nothing = unknown('absent', 'CRI', 'it is not asked here');

describe.skipIf(machine === null)('a pod of which only the sandbox is alive [needs root and cgroups]', () => {
  const mounts = machine as NonNullable<typeof machine>;

  it('may be chosen while its memory volume holds what its dead container wrote, and not once that is gone', async () => {
    const tree = aKubeletTree(mounts, 'cgroupfs');
    const pod = tree.addPod('Burstable', WEB, APP, SANDBOX);
    const pause = spawn('/bin/sleep', ['1000']);
    onTestFinished(() => void pause.kill('SIGKILL'));
    enter(`${mounts.memory}${pod}/${SANDBOX}`, pause.pid ?? 0);
    const file = `/dev/shm/nodewarden-test-${process.pid}`;
    onTestFinished(() => rmSync(file, { force: true }));
    const script = 'echo $$ > "$0/cgroup.procs"; exec head -c 4194304 /dev/zero > "$1"';
    execFileSync('/bin/sh', ['-c', script, `${mounts.memory}${pod}/${APP}`, file]);
    const source = aKubeSource({
      clock: { ...clock, after: () => () => undefined },
      mounts,
      cgroupRoot: tree.cgroupRoot,
      configuredDriver: 'cgroupfs',
      apiPods: () =>
        known(new Map([[WEB, anApiPod({ name: 'web', uid: WEB, api: { containers: [{ name: 'app', id: APP }] } })]])),
      runtime: {
        facts: () =>
          known({ containers: [], sandboxes: [aSandbox({ id: SANDBOX, podUid: WEB, name: 'web' })], atMs: 0 }),
        cgroupDriver: () => nothing,
        refresh: async () => nothing,
      },
    });
    const limit = async () => {
      await Promise.resolve();
      return liveNow({ source }, WEB)?.declared.limitedBy;
    };
    expect(await limit()).toBeNull();
    // As a runtime leaves it: without the cgroup of the container.
    tree.remove(`${pod}/${APP}`);
    expect(await limit()).toBeNull();
    rmSync(file);
    expect(await limit()).toBe('not-stoppable');
  });
});
