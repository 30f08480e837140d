import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { rmSync } from 'node:fs';
import { describe, expect, it, onTestFinished } from 'vitest';
import { known, unknown, valueOrNull } from '../../src/core/reading.ts';
import type { ApiPod } from '../../src/kube/api/api-pod.ts';
import type { RuntimeContainer } from '../../src/kube/cri/runtime.ts';
import { liveNow } from '../../src/kube/stop/ladder.ts';
import { enter, machine } from '../host/test-cgroup.ts';
import { aKubeSource, aTurnedClock } from './a-kube-source.ts';
import { aKubeletTree, anId, aUid } from './a-kubelet-tree.ts';
import { aContainer, anApiPod, aSandbox } from './an-api-pod.ts';

const [WEB, APP, SANDBOX, LATER] = [aUid('1'), anId('a'), anId('f'), anId('b')];
const nothing = unknown('absent', 'CRI', 'it is not asked here');

describe.skipIf(machine === null)('a pod of which only the sandbox is alive [needs root and cgroups]', () => {
  const mounts = machine as NonNullable<typeof machine>;

  type Said = Pick<ApiPod, 'containers' | 'restarts'> & { readonly listed: readonly RuntimeContainer[] };
  const listed = (id: string, name: string, createdAtWallMs: number): RuntimeContainer => ({
    ...aContainer({ id, name, podUid: WEB }),
    state: 'exited',
    createdAtWallMs,
  });
  const ended: Said = { containers: [{ name: 'main', id: APP }], listed: [] };
  /** Its container has written 4 MiB to a file of a memory volume and ended. */
  function aDeadPod(restartPolicy: ApiPod['restartPolicy'], isTerminating = false, first: Said = ended) {
    let said = first;
    const turned = aTurnedClock();
    let listedMs = turned.clock.monoMs();
    const tree = aKubeletTree(mounts, 'cgroupfs');
    const pod = tree.addPod('Burstable', WEB, APP, SANDBOX);
    const pause = spawn('/bin/sleep', ['1000']);
    onTestFinished(() => void pause.kill('SIGKILL'));
    enter(`${mounts.memory}${pod}/${SANDBOX}`, pause.pid ?? 0);
    const file = `/dev/shm/nodewarden-test-${process.pid}`;
    onTestFinished(() => rmSync(file, { force: true }));
    const script = 'echo $$ > "$0/cgroup.procs"; exec head -c 4194304 /dev/zero > "$1"';
    execFileSync('/bin/sh', ['-c', script, `${mounts.memory}${pod}/${APP}`, file]);
    const web = () => {
      const { listed: _, ...api } = said;
      return anApiPod({ name: 'web', uid: WEB, isTerminating, api: { ...api, restartPolicy } });
    };
    const source = aKubeSource({
      clock: { ...turned.clock, after: () => () => undefined },
      mounts,
      cgroupRoot: tree.cgroupRoot,
      configuredDriver: 'cgroupfs',
      apiPods: () => known(new Map([[WEB, web()]])),
      runtime: {
        facts: () =>
          known({
            containers: said.listed,
            sandboxes: [aSandbox({ id: SANDBOX, podUid: WEB, name: 'web' })],
            atMs: listedMs,
          }),
        cgroupDriver: () => nothing,
        refresh: async () => {
          listedMs = turned.clock.monoMs();
          return nothing;
        },
      },
    });
    const limit = async () => {
      await Promise.resolve();
      return liveNow({ source }, WEB)?.declared.limitedBy;
    };
    const comesBack = async () => {
      await Promise.resolve();
      return valueOrNull(source.pods())?.map((one) => one.comesBack ?? false);
    };
    const runInSandbox = async () => {
      const holder = 'echo $$ > "$0/cgroup.procs"; exec python3 -c "$1"';
      const run = "import time; held = bytearray(8 << 20); print('up', flush=True); time.sleep(1000)";
      const inside = spawn('/bin/sh', ['-c', holder, `${mounts.memory}${pod}/${SANDBOX}`, run]);
      onTestFinished(() => void inside.kill('SIGKILL'));
      await once(inside.stdout, 'data');
    };
    const endSandbox = async () => {
      pause.kill('SIGKILL');
      await once(pause, 'exit');
    };
    const removeContainer = () => tree.remove(`${pod}/${APP}`);
    /** What the API and the runtime say from then on; the runtime when it is asked next. */
    const say = (now: Said): void => {
      said = now;
    };
    return { file, limit, comesBack, endSandbox, ahead: turned.ahead, removeContainer, runInSandbox, say };
  }

  it('may be chosen while its memory volume holds what its dead container wrote, and not once that is gone', async () => {
    const { file, limit, removeContainer } = aDeadPod('Always');
    expect(await limit()).toBeNull();
    // As a runtime leaves it: without the cgroup of the container.
    removeContainer();
    expect(await limit()).toBeNull();
    rmSync(file);
    // The kernel's statistics may be late.
    await expect.poll(limit, { timeout: 10_000 }).toBe('not-stoppable');
  });

  it('is spared for the 30 s in which the kubelet has to free that if no container is started again', async () => {
    const { limit, ahead, removeContainer } = aDeadPod('Never');
    expect(await limit()).toBe('finished');
    removeContainer();
    ahead(29_000);
    expect(await limit()).toBe('finished');
    ahead(1_000);
    expect(await limit()).toBeNull();
  });

  it.each([
    ['it is not started again', 'Never', false],
    ['it is deleted', 'Always', true],
  ] as const)(
    'leaves what comes back within 30 s, with its sandbox and without, if %s',
    async (_, policy, isDeleted) => {
      const { comesBack, endSandbox, ahead } = aDeadPod(policy, isDeleted);
      expect(await comesBack()).toEqual([true]);
      await endSandbox();
      expect(await comesBack()).toEqual([true]);
      ahead(30_000);
      expect(await comesBack()).toEqual([false]);
    },
  );

  it('leaves nothing that comes back if its containers are to start again', async () => {
    const { comesBack, endSandbox } = aDeadPod('Always');
    await endSandbox();
    expect(await comesBack()).toEqual([false]);
  });

  describe('that may be between two of its containers', () => {
    const isInit = {
      containers: [
        { name: 'init', id: APP },
        { name: 'main', id: null },
      ],
      listed: [],
    };
    const hasFailed = { containers: [{ name: 'main', id: APP, ended: 'failed' as const }], listed: [] };
    /** After a look, which asks the runtime. */
    const soon = async (of: ReturnType<typeof aDeadPod>) => {
      of.ahead(2_000);
      await of.comesBack();
      return of.limit();
    };

    it.each([
      ['the API and the runtime know of no run of its container', 'Never', isInit, isInit],
      ['its container has failed, and is started again', 'OnFailure', hasFailed, hasFailed],
      ['the runtime knows of no later run', 'OnFailure', hasFailed, { ...hasFailed, listed: [listed(APP, 'main', 1)] }],
    ] as const)('may be chosen once the runtime has been asked, if %s', async (_, policy, first, then) => {
      const of = aDeadPod(policy, false, first);
      of.removeContainer();
      expect(await of.limit()).toBe('maybe-finished');
      of.say(then);
      expect(await soon(of)).toBeNull();
      expect(await of.comesBack()).toEqual([false]);
    });

    it.each([
      ['a run that the API does not show yet', 'Never', isInit, [listed(LATER, 'main', 1)], 'finished'],
      [
        'a later run than the one that failed',
        'OnFailure',
        hasFailed,
        [listed(APP, 'main', 1), listed(LATER, 'main', 2)],
        'maybe-finished',
      ],
    ] as const)('is spared if the runtime knows of %s', async (_, policy, first, later, spared) => {
      const of = aDeadPod(policy, false, first);
      of.removeContainer();
      expect(await of.limit()).toBe('maybe-finished');
      of.say({ ...first, listed: later });
      expect(await soon(of)).toBe(spared);
    });

    it('is spared, too, if its container has failed and is never started again', async () => {
      const of = aDeadPod('Never', false, hasFailed);
      await of.limit();
      expect(await soon(of)).toBe('finished');
    });

    it('may be chosen if its sandbox runs its containers inside itself', async () => {
      const of = aDeadPod('Never');
      await of.runInSandbox();
      expect(await of.limit()).toBeNull();
    });
  });

  it('has the 30 s after each of its runs, also if nobody has looked in between', async () => {
    const done = (id: string): Said => ({ containers: [{ name: 'main', id, ended: 'succeeded' }], listed: [] });
    const { limit, ahead, say } = aDeadPod('OnFailure', false, done(APP));
    expect(await limit()).toBe('finished');
    ahead(3_600_000);
    expect(await limit()).toBeNull();
    say(done(LATER));
    expect(await limit()).toBe('finished');
  });

  it('is spared, too, if it is deleted while it holds what its containers wrote', async () => {
    expect(await aDeadPod('Always', true).limit()).toBe('finished');
  });

  describe('whose end nobody has explained', () => {
    /** What the API shows of a first run, however many there have been since. */
    const running = (id: string): Said => ({
      containers: [{ name: 'main', id: APP }],
      listed: [listed(id, 'main', id === APP ? 1 : 2)],
    });

    it('is spared for 30 s in all, however often its container is started again, and nothing of it comes back', async () => {
      const { limit, comesBack, ahead, say, removeContainer } = aDeadPod('OnFailure', false, running(APP));
      removeContainer();
      const seen: unknown[] = [];
      for (const id of [APP, LATER, anId('c')]) {
        say(running(id));
        for (let s = 0; s < 20; s += 10) {
          seen.push([await limit(), await comesBack()]);
          ahead(10_000);
        }
      }
      const [spared, chosen] = [
        ['maybe-finished', [false]],
        [null, [false]],
      ];
      expect(seen).toEqual([spared, spared, spared, chosen, chosen, chosen]);
    });

    it('is spared anew if it has run for so long that the kubelet would restart it at once', async () => {
      const { limit, ahead, say } = aDeadPod('OnFailure', false, running(APP));
      await limit();
      ahead(600_000);
      expect(await limit()).toBeNull();
      say(running(LATER));
      expect(await limit()).toBe('maybe-finished');
    });
  });

  it.each([
    ['it is started again whatever its end', 'Never', { policy: 'Always' }, 'failed', null],
    ['it is started again because it has failed', 'Never', { policy: 'OnFailure' }, 'failed', null],
    ['it has succeeded', 'Always', { policy: 'OnFailure' }, 'succeeded', 'finished'],
    ['it has failed for good', 'OnFailure', { policy: 'Never' }, 'failed', 'finished'],
    ['it is never started again', 'Always', { policy: 'Never' }, 'failed', 'finished'],
    ['that depends on its exit code', 'Never', { policy: 'Never', hasRules: true }, 'failed', 'maybe-finished'],
  ] as const)(
    "is judged by its container's own policy, of which the pod says nothing: %s",
    async (_, policy, own, how, limited) => {
      const { limit, comesBack, ahead } = aDeadPod(policy, false, {
        containers: [{ name: 'main', id: APP, ended: how }],
        restarts: [{ name: 'main', ...own }],
        listed: [listed(APP, 'main', 1)],
      });
      await limit();
      ahead(2_000);
      await comesBack();
      expect([await limit(), await comesBack()]).toEqual([limited, [limited === 'finished']]);
    },
  );
});
