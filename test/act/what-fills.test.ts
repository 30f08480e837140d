import { describe, expect, it } from 'vitest';
import { createWhatFills } from '../../src/act/what-fills.ts';
import type { PodView } from '../../src/core/pod/pod.ts';
import { known, unknown } from '../../src/core/reading.ts';
import type { Signal } from '../../src/core/signal.ts';
import { initialState } from '../../src/core/state/state.ts';
import type { Verdict } from '../../src/core/verdict.ts';
import type { DiskSurvey } from '../../src/host/disk/disk-walk.ts';
import type { SharedMemory } from '../../src/host/memory/shared-memory.ts';
import type { BoundPod } from '../../src/ports.ts';
import { anObservation, aPod, GI, MI } from '../a.ts';
import { aBoundPod } from '../observe/a-bound-pod.ts';

const NOTHING: SharedMemory = { mounts: [], segments: [], unread: null };
const NO_DISK = {
  ...{ logsBytes: 0, rootfsBytes: 0, volumesBytes: 0 },
  ...{ logsInodes: 0, rootfsInodes: 0, volumesInodes: 0 },
};
const settled = () => new Promise((resolve) => setTimeout(resolve, 0));

type LatePaths = NonNullable<Parameters<typeof createWhatFills>[0]['latePaths']>;
function open(
  shared: SharedMemory,
  survey: DiskSurvey,
  pods: readonly BoundPod[] = [],
  latePaths?: LatePaths,
  podsBytes?: number,
  isReadOnly = false,
  mode: 'standalone' | 'kubelet' = latePaths === undefined ? 'standalone' : 'kubelet',
) {
  const present = new Map<string, string>();
  const asked: string[] = [];
  let nowMs = 0;
  const whatFills = createWhatFills({
    mode,
    clock: { monoMs: () => nowMs, wallMs: () => nowMs, after: () => () => {} },
    findings: {
      raise: ({ id, text }) => void present.set(id, text),
      clear: (id) => void present.delete(id),
      all: () => [],
    },
    walker: {
      survey: async (path, by) => {
        asked.push(`${path} ${by}`);
        return known(survey);
      },
    },
    sharedMemory: async () => known(shared),
    pods: () => known(pods),
    isReadOnly: () => isReadOnly,
    userName: (uid) => (uid === 33 ? 'www-data' : null),
    ...{ nodefsPath: '/', imagefsPath: null, containerfsPath: null },
    ...(latePaths === undefined ? {} : { latePaths }),
    ...(podsBytes === undefined ? {} : { podsShared: () => known(podsBytes) }),
  });
  const look = async (
    signal: Signal,
    reasons: readonly unknown[],
    decisions: readonly unknown[] = [],
    views: readonly PodView[] = [],
  ): Promise<readonly string[]> => {
    const sample = { available: 10 * MI, capacity: GI };
    const verdict = { state: initialState('boot'), decisions, reasons } as unknown as Verdict;
    whatFills({ ...anObservation(nowMs, { [signal]: sample }), pods: known(views) }, verdict);
    await settled();
    return [...present.values()];
  };
  return {
    look,
    asked,
    at: (ms: number) => {
      nowMs = ms;
    },
  };
}

const directory = { path: '/srv/web', bytes: 500 * MI, inodes: 7, uid: 33 };
const survey: DiskSurvey = {
  directories: [directory],
  elsewhere: { ...directory, path: '/', bytes: MI },
  isComplete: true,
};
const nobody = (signal: Signal) => ({ code: 'no-candidate', signal, because: 'no-relief' });
const ALMOST_ALL = { path: '/srv', usedBytes: 300 * MI, files: [] };
const met = (signal: Signal) => ({ code: 'below-threshold', threshold: { signal } });

describe('pressure that no eviction relieves', () => {
  it('names the pods that declare the directory most closely', async () => {
    const pod = (name: string, path: string) => ({ ...aBoundPod({ name }), directories: [path] });
    const told = async (...pods: readonly BoundPod[]) =>
      (await open(NOTHING, survey, pods).look('nodefs.available', [nobody('nodefs.available')])).join('');
    const [outer, other, web, log] = [
      pod('outer', '/srv'),
      pod('other', '/srv/we'),
      pod('web', '/srv/web'),
      pod('log', '/srv/web'),
    ];
    expect(await told(outer, other)).toContain('in /srv/web (directory of pod default/outer, user www-data)');
    expect(await told(outer, web, other)).toContain('in /srv/web (directory of pod default/web, user www-data)');
    expect(await told(web, outer, log)).toContain(
      'in /srv/web (directory of pods default/web, default/log, user www-data)',
    );
  });

  it('is reported with directory, bytes and owner, until the threshold is no longer met', async () => {
    const { look } = open(NOTHING, survey);
    const [text] = await look('nodefs.available', [nobody('nodefs.available')]);
    expect(text).toContain(
      '500 MiB in /srv/web (user www-data), 1 MiB elsewhere, and 513 MiB in no directory (deleted files that',
    );
    expect(await look('nodefs.available', [met('nodefs.available')])).toHaveLength(1);
    expect(await look('nodefs.available', [])).toEqual([]);
  });

  it('is that of a file system that is read-only, where nobody can delete anything', async () => {
    const { look } = open(NOTHING, survey, [], undefined, undefined, true);
    const [text] = await look('nodefs.available', [nobody('nodefs.available')]);
    expect(text).toContain('The file system at / is read-only: nothing in it can be removed');
    expect(text).not.toContain('Delete');
  });

  it('is reported without a rest if the directories explain nearly all of it', async () => {
    const { look } = open(NOTHING, { ...survey, directories: [{ ...directory, bytes: 960 * MI }] });
    const [text] = await look('nodefs.available', [nobody('nodefs.available')]);
    expect(text).toContain('1 MiB elsewhere. Delete');
  });

  it('counts inodes if they are short, and searches again after a minute, not before', async () => {
    const { look, asked, at } = open(NOTHING, { ...survey, isComplete: false });
    const [text] = await look('nodefs.inodesFree', [nobody('nodefs.inodesFree')]);
    expect(text).toContain('7 inodes in /srv/web (user www-data), 7 inodes elsewhere (counted only in part)');
    at(59_000);
    await look('nodefs.inodesFree', [nobody('nodefs.inodesFree')]);
    expect(asked).toHaveLength(1);
    at(60_000);
    await look('nodefs.inodesFree', [nobody('nodefs.inodesFree')]);
    expect(asked).toEqual(['/ inodes', '/ inodes']);
  });

  it('is searched for where the container runtime has its images and layers, and nowhere before it has said so', async () => {
    let paths: ReturnType<LatePaths> = unknown('absent', 'CRI', 'it has not answered');
    // In use on each machine.
    const late = { imagefsPath: '/proc/self', containerfsPath: '/sys/kernel' };
    const { look, asked, at } = open(NOTHING, survey, [], () => paths);
    for (const signal of ['imagefs.available', 'containerfs.available'] as const) {
      paths = unknown('absent', 'CRI', 'it has not answered');
      expect(await look(signal, [nobody(signal)])).toEqual([]);
      at(60_000);
      paths = known(late);
      expect(await look(signal, [nobody(signal)])).toHaveLength(1);
      at(0);
      await look(signal, []);
    }
    expect(asked).toEqual(['/proc bytes', '/sys bytes']);
  });

  it('never advises to delete what a container runtime has, but names the pod that has written most there', async () => {
    const signal = 'nodefs.available';
    const layer = (root: string) => ({ path: `${root}/io.containerd.snapshotter.v1.overlayfs/snapshots/228/fs` });
    const filledBy = (...paths: readonly { readonly path: string }[]): DiskSurvey => ({
      ...survey,
      directories: paths.map((of) => ({ ...directory, bytes: 300 * MI, ...of })),
    });
    const writer = (name: string, rootfsBytes: number) => {
      const pod = aPod({ name });
      return { ...pod, usage: { ...pod.usage, disk: known({ ...NO_DISK, rootfsBytes }) } };
    };
    const views = [writer('small', 2 * MI), writer('hog-0', 290 * MI)];
    const late: LatePaths = () => known({ imagefsPath: '/data/crio/overlay-images', containerfsPath: null });
    const told = async (...paths: readonly { readonly path: string }[]) => {
      const [text = ''] = await open(NOTHING, filledBy(...paths), [], late).look(signal, [nobody(signal)], [], views);
      return text;
    };
    const both = await told(layer('/var/lib/containerd'), { path: '/data/crio/vfs' }, { path: '/srv/web' });
    expect(both).toContain(
      '300 MiB below /var/lib/containerd (container runtime; the largest writable layers known are those of the pod default/hog-0, 290 MiB)',
    );
    expect(both).toContain('300 MiB below /data/crio (container');
    expect(both).toContain('300 MiB in /srv/web (user www-data)');
    expect(both).toContain('Delete no file of the container runtime below /var/lib/containerd or /data/crio');
    expect(both).not.toMatch(/snapshots|scratch/);
    // Behind a link, and in a volume, which is no file of the runtime.
    expect(await told(layer('/mnt/disk'))).toContain('300 MiB below /mnt/disk (container runtime');
    expect(await told({ path: '/var/lib/docker/volumes/db' })).toContain('300 MiB in /var/lib/docker/volumes/db (user');
  });

  it('advises to declare scratch in mode standalone alone', async () => {
    const signal = 'nodefs.available';
    const told = (mode: 'standalone' | 'kubelet') =>
      open(NOTHING, survey, [], undefined, undefined, false, mode).look(signal, [nobody(signal)]);
    expect((await told('standalone')).join('')).toContain('nodewarden.dev/scratch');
    expect((await told('kubelet')).join('')).toMatch(/Delete or move .*, or enlarge the file system$/);
  });

  it('includes memory without a process: files on tmpfs, and segments that no process has attached', async () => {
    const files = [{ path: '/dev/shm/x, 5 GiB in /etc', bytes: 300 * MI, uid: 33 }];
    const mounts = [{ path: '/dev/shm', usedBytes: 400 * MI, files }];
    const { look } = open({ mounts, segments: [{ id: 5, bytes: 90 * MI, uid: 7 }], unread: null }, survey);
    const [text] = await look('memory.available', [nobody('memory.available')]);
    expect(text).toContain(
      'the tmpfs at /dev/shm with 400 MiB (300 MiB in "/dev/shm/x, 5 GiB in /etc", user www-data)',
    );
    expect(text).toContain('the SysV segment 5 with 90 MiB (uid 7; ipcrm -m 5 removes it)');
  });

  it('does not name a tmpfs that is larger than all that is used: it cannot be what is lacking', async () => {
    const mounts = [{ path: '/srv/others', usedBytes: 1_200 * MI, files: [] }];
    expect(await open({ ...NOTHING, mounts }, survey).look('memory.available', [nobody('memory.available')])).toEqual(
      [],
    );
  });

  it('does not name for the memory of pods what was written outside them: what is charged to no pod', async () => {
    const signal = 'allocatableMemory.available';
    const pod = aBoundPod({ name: 'cache' });
    const volume = `/var/lib/kubelet/pods/${pod.declared.uid}/volumes/kubernetes.io~empty-dir/cache`;
    const mounts = [volume, '/srv/host'].map((path) => ({ path, usedBytes: 300 * MI, files: [] }));
    const shared = { ...NOTHING, mounts, segments: [{ id: 5, bytes: 290 * MI, uid: 7 }] };
    const told = (podsBytes: number, of: Signal = signal) =>
      open(shared, survey, [pod], undefined, podsBytes).look(of, [nobody(of)]);
    const [ofPods] = await told(320 * MI);
    expect(ofPods).toContain('default/cache still has as a volume. It is freed when the pod is gone');
    expect(ofPods).not.toMatch(/host|segment|Delete/);
    for (const others of [await told(595 * MI), await told(320 * MI, 'memory.available')])
      expect(others[0]).toMatch(/\/srv\/host.*segment 5.*Delete/);
  });

  it('says of a memory volume whose pod it is, and does not advise to delete its files', async () => {
    const pod = aBoundPod({ name: 'cache' });
    const path = `/var/lib/kubelet/pods/${pod.declared.uid}/volumes/kubernetes.io~empty-dir/cache`;
    const files = [{ path: `${path}/x`, bytes: 300 * MI, uid: 33 }];
    const shared = { ...NOTHING, mounts: [{ path, usedBytes: 300 * MI, files }] };
    const [text] = await open(shared, survey, [pod]).look('memory.available', [nobody('memory.available')]);
    expect(text).toContain(
      'with 300 MiB, which the pod default/cache still has as a volume. It is freed when the pod is gone',
    );
    expect(text).not.toContain('Delete');
  });

  it('says of a tmpfs inside a directory of two pods that it is that of the inner one', async () => {
    const pod = (name: string, path: string) => ({ ...aBoundPod({ name }), directories: [path] });
    const mounts = [{ path: '/srv/a/b/tmp', usedBytes: 300 * MI, files: [] }];
    const pods = [pod('outer', '/srv/a'), pod('inner', '/srv/a/b')];
    const [text] = await open({ ...NOTHING, mounts }, survey, pods).look('memory.available', [
      nobody('memory.available'),
    ]);
    expect(text).toContain('which the pod default/inner still has as a volume');
  });

  it('names the evicted pod, and the signal if it was another one of the same file system', async () => {
    const { look } = open(NOTHING, survey);
    const victim = { namespace: 'default', name: 'web' };
    const stopped = { kind: 'evict', id: 'a-1', victim, threshold: { signal: 'nodefs.inodesFree' } };
    const wait = (signal: Signal) => ({ code: 'clean-up-wait', signal, eviction: 'a-1' });
    const ofInodes = await look('nodefs.inodesFree', [wait('nodefs.inodesFree')], [stopped]);
    expect(ofInodes.at(-1)).toContain('default/web was stopped, but that did not free enough');
    const ofBytes = await look('nodefs.available', [wait('nodefs.available')]);
    expect(ofBytes.at(-1)).toContain('default/web was stopped for nodefs.inodesFree, but that did not free enough');
  });

  it.each([
    ['no pod may be evicted', { code: 'no-candidate' }],
    ['no pod may be evicted', { code: 'no-candidate', because: 'evict-for' }],
    ['no pod that may be evicted is known to free enough', { code: 'no-candidate', because: 'no-relief' }],
    [
      'what is lacking is held by pods that have ended, are being stopped',
      { code: 'no-candidate', because: 'escaped' },
    ],
    ['a pod was stopped, but that did not free enough', { code: 'clean-up-wait', eviction: 'of an earlier run' }],
  ])('says why: %s', async (why, reason) => {
    const { look } = open({ ...NOTHING, mounts: [ALMOST_ALL] }, survey);
    const [text] = await look('memory.available', [{ ...reason, signal: 'memory.available' }]);
    expect(text).toMatch(new RegExp(`^memory.available: ${why}.*\\. This memory outlives`));
  });

  it('no longer says that none may be evicted once one is, and then what became of it', async () => {
    const { look } = open({ ...NOTHING, mounts: [ALMOST_ALL] }, survey);
    const signal = 'memory.available';
    const nobodyNow = { code: 'no-candidate', signal };
    expect(await look(signal, [nobodyNow])).toHaveLength(1);
    const stopped = { kind: 'evict', id: 'a-1', victim: { namespace: 'default', name: 'web' }, threshold: { signal } };
    expect(await look(signal, [met(signal)], [stopped])).toEqual([]);
    expect(await look(signal, [met(signal)])).toEqual([]);
    const said = expect.stringContaining('default/web was stopped, but that did not free enough');
    expect(await look(signal, [met(signal), { code: 'clean-up-wait', signal, eviction: 'a-1' }])).toEqual([said]);
    expect(await look(signal, [nobodyNow])).toEqual([said]);
  });

  it('is not reported while the victim is being emptied: that may free enough', async () => {
    const { look } = open(NOTHING, survey);
    const wait = { code: 'clean-up-wait', signal: 'nodefs.available', eviction: 'a-1', isEmptying: true };
    expect(await look('nodefs.available', [wait])).toEqual([]);
  });

  it('is not reported if no such memory is found', async () => {
    const { look } = open(NOTHING, survey);
    expect(await look('memory.available', [nobody('memory.available')])).toEqual([]);
  });
});
