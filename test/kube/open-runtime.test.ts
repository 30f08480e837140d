import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { known, type Reading, unknown } from '../../src/core/reading.ts';
import { createClock } from '../../src/host/clock.ts';
import {
  CgroupDriver,
  ContainerState,
  ImageService,
  PodSandboxState,
  RuntimeService,
} from '../../src/kube/cri/cri_pb.ts';
import { findRuntime, type OpenRuntime, openRuntime, socketsOf } from '../../src/kube/cri/open-runtime.ts';
import type { Clock, Finding } from '../../src/ports.ts';
import { hex, uid } from './a-node.ts';
import { openStubRuntime, type StubRuntime, unimplemented } from './stub-runtime.ts';

const cri = RuntimeService.method;
const labels = (n: number) => ({
  'io.kubernetes.pod.uid': uid(n),
  'io.kubernetes.pod.name': `pod-${n}`,
  'io.kubernetes.pod.namespace': 'shop',
  'io.kubernetes.container.name': 'app',
});
const sandboxes = (n: number) => () => ({ items: [{ id: hex(n), labels: labels(n) }] });

let stub: StubRuntime;
const raised = new Map<string, Finding>();
const findings = {
  raise: (finding: Finding) => void raised.set(finding.id, finding),
  clear: (id: string) => void raised.delete(id),
  all: () => [...raised.values()],
};
const open: OpenRuntime[] = [];
function openOn(
  endpoint: string,
  clock: Clock = createClock(),
  knownPods: Parameters<typeof openRuntime>[0]['knownPods'] = () => known(new Set([uid(1)])),
): OpenRuntime {
  const runtime = openRuntime({ clock, findings, endpoint, knownPods });
  open.push(runtime);
  return runtime;
}
beforeEach(async () => {
  stub = await openStubRuntime();
  stub.on(cri.listPodSandbox, sandboxes(1));
  stub.on(cri.listContainers, () => ({}));
});
afterEach(() => {
  for (const runtime of open.splice(0)) runtime.close();
  raised.clear();
  stub.remove();
});

it('ends a stop that the runtime never answers when it is closed', async () => {
  const runtime = openOn(stub.socket);
  const isAsked = new Promise<void>((resolve) =>
    stub.onRaw(cri.stopPodSandbox, () => {
      resolve();
      return null;
    }),
  );
  const stopped = runtime.stopSandbox(hex(1));
  await isAsked;
  runtime.close();
  expect(await stopped).toMatchObject({ known: false, why: 'unreadable' });
});

describe('the facts of the runtime', () => {
  it('are unknown until it answers, and then its answer', async () => {
    stub.on(cri.listContainers, () => ({
      containers: [
        {
          id: hex(7),
          podSandboxId: hex(1),
          imageRef: 'sha256:1',
          state: ContainerState.CONTAINER_EXITED,
          createdAt: 1_500_000_000n,
          labels: labels(1),
        },
      ],
    }));
    stub.on(cri.listPodSandbox, () => ({
      items: [
        { id: hex(1), labels: labels(1), annotations: { 'kubernetes.io/config.source': 'file' } },
        { id: hex(2), labels: labels(2), state: PodSandboxState.SANDBOX_NOTREADY },
      ],
    }));
    stub.on(cri.runtimeConfig, () => ({ linux: { cgroupDriver: CgroupDriver.SYSTEMD } }));
    stub.on(ImageService.method.imageFsInfo, () => ({
      imageFilesystems: [{ fsId: { mountpoint: '/images' } }],
      containerFilesystems: [{ fsId: { mountpoint: '/layers' } }],
    }));
    const runtime = openOn(`unix://${stub.socket}`);
    expect(runtime.facts()).toMatchObject({ known: false });
    expect(await runtime.refresh()).toMatchObject({
      known: true,
      value: {
        containers: [
          {
            id: hex(7),
            name: 'app',
            podUid: uid(1),
            sandboxId: hex(1),
            state: 'exited',
            createdAtWallMs: 1_500,
            image: { ref: 'sha256:1', id: '' },
          },
        ],
        sandboxes: [
          { id: hex(1), podUid: uid(1), namespace: 'shop', name: 'pod-1', isReady: true, source: 'file' },
          { id: hex(2), podUid: uid(2), namespace: 'shop', name: 'pod-2', isReady: false, source: null },
        ],
      },
    });
    expect(runtime.filesystems()).toEqual({ known: true, value: { imagefs: '/images', containerfs: '/layers' } });
    expect(runtime.cgroupDriver()).toEqual({ known: true, value: 'systemd' });
    expect(findings.all()).toEqual([]);
  });

  it('contain nothing with an id or a name that no kubelet assigns, which a finding counts', async () => {
    const container = (of: object, changed: object = {}) => ({
      id: hex(7),
      podSandboxId: hex(1),
      labels: { ...labels(1), ...changed },
      ...of,
    });
    stub.on(cri.listContainers, () => ({
      containers: [
        container({}),
        container({ id: '../../etc' }),
        container({ podSandboxId: 'x' }),
        container({}, { 'io.kubernetes.pod.uid': '../../../etc/passwd-----------------' }),
        container({}, { 'io.kubernetes.container.name': 'app\n{"event":"evict"}' }),
        container({ id: hex(8), imageRef: `${'x'.repeat(5_000)}\n` }),
        // Not of a kubelet: somebody else's business.
        { id: 'theirs' },
      ],
    }));
    stub.on(cri.listPodSandbox, () => ({
      items: [
        { id: hex(1), labels: labels(1), annotations: { 'kubernetes.io/config.source': 'x\n' } },
        { id: hex(2), labels: { ...labels(2), 'io.kubernetes.pod.namespace': '..' } },
      ],
    }));
    const facts = await openOn(stub.socket).refresh();
    expect(facts.known && facts.value.containers.map(({ id }) => id)).toEqual([hex(7), hex(8)]);
    expect(facts.known && facts.value.containers[1]?.image.ref).toBe('x'.repeat(1_024));
    expect(facts.known && facts.value.sandboxes).toMatchObject([{ id: hex(1), source: null }]);
    expect(findings.all().map(({ text }) => text)).toEqual([
      'the container runtime lists 5 objects with an id or a name that no kubelet assigns: ignored',
    ]);
  });

  it('stay when it dies, with a finding until it is back', async () => {
    const runtime = openOn(stub.socket);
    const before = await runtime.refresh();
    stub.kill();
    expect(await runtime.refresh()).toMatchObject({ known: false });
    expect(runtime.facts()).toEqual(before);
    expect(findings.all().map(({ text }) => text)).toEqual([
      expect.stringMatching(/^the container runtime does not answer \(.*cri\.sock/),
    ]);
    await stub.start();
    const versions = stub.calls.filter((name) => name === 'Version').length;
    await expect.poll(() => runtime.refresh(), { timeout: 20_000 }).toMatchObject({ known: true });
    // It may be another one.
    expect(stub.calls.filter((name) => name === 'Version').length).toBeGreaterThan(versions);
    expect(findings.all()).toEqual([]);
  });

  it('are queried once at a time, and never older than the request', async () => {
    const runtime = openOn(stub.socket);
    await runtime.refresh();
    let asked = (): void => undefined;
    const isAsked = new Promise<void>((resolve) => {
      asked = resolve;
    });
    let answer = (): void => undefined;
    const isAnswered = new Promise<void>((resolve) => {
      answer = resolve;
    });
    let times = 0;
    stub.onRaw(cri.listContainers, async () => {
      times++;
      asked();
      await isAnswered;
      return { bytes: new Uint8Array() };
    });
    const first = runtime.refresh();
    await isAsked;
    const later = [runtime.refresh(), runtime.refresh(), runtime.refresh()];
    // Whatever was sent with them has arrived before this is answered.
    await runtime.cgroupsPath(hex(7));
    expect(times).toBe(1);
    answer();
    await Promise.all([first, ...later]);
    expect(times).toBe(2);
  });

  it('are queried again after a minute at rest, and soon while nothing answers', async () => {
    const real = createClock();
    const timers: { readonly ms: number; readonly run: () => void }[] = [];
    const clock: Clock = {
      ...real,
      after: (ms, run) => {
        const timer = { ms, run };
        timers.push(timer);
        return () => void timers.splice(timers.indexOf(timer), 1);
      },
    };
    stub.on(ImageService.method.imageFsInfo, () => ({ imageFilesystems: [{ fsId: { mountpoint: '/images' } }] }));
    const runtime = openOn(stub.socket, clock);
    await runtime.refresh();
    expect(timers.map(({ ms }) => ms)).toEqual([60_000]);
    const asked = stub.calls.filter((name) => name === 'ListContainers').length;
    timers[0]?.run();
    await expect.poll(() => stub.calls.filter((name) => name === 'ListContainers').length).toBeGreaterThan(asked);
    stub.kill();
    await runtime.refresh();
    expect(timers.map(({ ms }) => ms)).toContain(5_000);
  });

  it('contain no layer that the runtime has not measured yet', async () => {
    const layer = (n: number, timestamp: bigint) => ({
      attributes: { id: hex(n) },
      writableLayer: { timestamp, usedBytes: { value: 4_096n }, inodesUsed: { value: 2n ** 64n - 1n } },
    });
    stub.on(cri.listContainerStats, () => ({ stats: [layer(1, 5_000_000n), layer(2, 0n)] }));
    const layers = await openOn(stub.socket).writableLayers(0);
    expect(layers).toEqual({ known: true, value: new Map([[hex(1), { bytes: 4_096, inodes: null, atWallMs: 5 }]]) });
  });

  it('are missed with a finding while the runtime reports none, until it does', async () => {
    stub.onRaw(cri.listContainerStats, () => ({ code: 13, details: 'no snapshotter' }));
    const runtime = openOn(stub.socket);
    expect((await runtime.writableLayers(0)).known).toBe(false);
    expect(raised.get('runtime-layers')?.text).toContain('does not report what containers have written');
    stub.on(cri.listContainerStats, () => ({ stats: [] }));
    await runtime.refresh();
    await expect.poll(() => raised.has('runtime-layers')).toBe(false);
  });
});

describe('the file systems of the runtime', () => {
  it('are asked for again at the next query, and after 5 s at rest, with a finding after 10 s, until it says them', async () => {
    let aheadMs = 0;
    const rests: (() => void)[] = [];
    const real = createClock();
    const clock: Clock = {
      ...real,
      monoMs: () => real.monoMs() + aheadMs,
      after: (ms, run) => {
        if (ms === 5_000) rests.push(run);
        return real.after(ms, run);
      },
    };
    stub.on(cri.runtimeConfig, () => ({}));
    stub.onRaw(ImageService.method.imageFsInfo, () => ({ code: 13, details: 'the disk is busy' }));
    const asked = () => stub.calls.filter((name) => name === 'ImageFsInfo').length;
    const runtime = openOn(stub.socket, clock);
    await runtime.refresh();
    await expect.poll(asked).toBeGreaterThan(0);
    const before = asked();
    await runtime.refresh();
    await expect.poll(asked).toBeGreaterThan(before);
    expect(rests.length).toBeGreaterThan(0);
    expect([...raised.keys()]).toEqual([]);
    aheadMs = 10_000;
    await runtime.refresh();
    await expect.poll(() => raised.get('runtime-filesystems')?.text).toContain('the disk is busy');
    stub.on(ImageService.method.imageFsInfo, () => ({ imageFilesystems: [{ fsId: { mountpoint: '/images' } }] }));
    rests.at(-1)?.();
    await expect.poll(() => runtime.filesystems()).toMatchObject({ known: true, value: { imagefs: '/images' } });
    expect([...raised.keys()]).toEqual([]);
  });
});

describe('the runtime that is chosen', () => {
  const choose = async (sockets: readonly string[], known: number) => {
    const found = await findRuntime({ clock: createClock(), sockets, isKnownPod: (of) => of === uid(known) });
    if (found.known) found.value.client.close();
    return found.known ? { socket: found.value.socket, isProven: found.value.isProven } : found.detail;
  };

  it('is the one that runs a known pod, else the configured one if it answers, and no other', async () => {
    const other = await openStubRuntime();
    other.on(cri.listPodSandbox, sandboxes(2));
    const both = [stub.socket, other.socket];
    expect(await choose(both, 1)).toEqual({ socket: stub.socket, isProven: true });
    expect(await choose(both, 2)).toEqual({ socket: other.socket, isProven: true });
    expect(await choose(both, 3)).toEqual({ socket: stub.socket, isProven: false });
    stub.kill();
    expect(await choose(both, 2)).toEqual({ socket: other.socket, isProven: true });
    expect(await choose(both, 3)).toContain(`${other.socket} answers, but runs no pod of this node`);
    other.remove();
  });

  it('speaks CRI v1, or is reported as not doing so', async () => {
    stub.onRaw(cri.version, unimplemented);
    expect(await choose([stub.socket], 1)).toBe(
      `${stub.socket} speaks no CRI v1: its CRI plugin is off, or it serves only v1alpha2, which is not supported`,
    );
  });

  it('lets nothing be removed before it is seen to run a pod of this node', async () => {
    const stranger = openOn(stub.socket, createClock(), () => known(new Set()));
    expect(await stranger.refresh()).toMatchObject({ known: true });
    const detail = `${stub.socket} runs no pod that is known to be of this node`;
    expect(await stranger.connectProven()).toMatchObject({ known: false, detail });
    expect(await openOn(stub.socket).connectProven()).toMatchObject({ known: true });
  });

  it("is proven as soon as this node's pods are known, and earlier callers learn that they are not", async () => {
    let pods: Reading<ReadonlySet<string>> = unknown('not-asked', 'the pods', 'no list yet');
    const runtime = openOn(stub.socket, createClock(), () => pods);
    expect(await runtime.refresh()).toMatchObject({ known: true });
    const before = await runtime.connect();
    expect(await runtime.connectProven()).toMatchObject({ known: false, detail: 'no list yet' });
    pods = known(new Set([uid(1)]));
    const proven = await runtime.connectProven();
    expect(proven.known).toBe(true);
    // The same connection: somebody may be asking it something.
    expect(proven).toEqual(before);
    expect(proven.known && (await proven.value.version()).known).toBe(true);
  });

  it('is not the configured one if another runs the pods, as soon as they are known', async () => {
    const other = await openStubRuntime();
    other.on(cri.listPodSandbox, sandboxes(1));
    other.on(cri.listContainers, () => ({}));
    stub.on(cri.listPodSandbox, sandboxes(2));
    let pods: Reading<ReadonlySet<string>> = unknown('not-asked', 'the pods', 'no list yet');
    const sockets = known([stub.socket, other.socket]);
    const runtime = openRuntime({
      ...{ clock: createClock(), findings, endpoint: stub.socket, knownPods: () => pods },
      sockets: () => sockets,
    });
    open.push(runtime);
    const sandboxIds = async () => {
      const facts = runtime.facts();
      return facts.known ? facts.value.sandboxes.map(({ id }) => id) : [];
    };
    await runtime.refresh();
    expect(await sandboxIds()).toEqual([hex(2)]);
    pods = known(new Set([uid(1)]));
    await runtime.connectProven();
    await expect.poll(sandboxIds).toEqual([hex(1)]);
    other.remove();
  });

  it('is searched for at the configured endpoint first', () => {
    const first = (endpoint: string) => {
      const sockets = socketsOf(endpoint);
      return sockets.known ? sockets.value[0] : sockets.why;
    };
    expect(first('unix:///run/x.sock')).toBe('/run/x.sock');
    expect(first('/run/x.sock')).toBe('/run/x.sock');
    expect(first('tcp://127.0.0.1:1')).toBe('malformed');
    expect(first(`unix:///${'x'.repeat(108)}`)).toBe('malformed');
    const known = socketsOf('unix:///run/crio/crio.sock');
    expect(known.known && known.value.filter((path) => path === '/run/crio/crio.sock')).toHaveLength(1);
  });
});
