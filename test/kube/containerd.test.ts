import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { known } from '../../src/core/reading.ts';
import { createClock, sleep } from '../../src/host/clock.ts';
import { type CriClient, openCriClient } from '../../src/kube/cri/client.ts';
import { ContainerState } from '../../src/kube/cri/cri_pb.ts';
import { type OpenRuntime, openRuntime } from '../../src/kube/cri/open-runtime.ts';
import { openRuntimeReclaim } from '../../src/kube/cri/reclaim.ts';
import type { Finding, Findings, Log } from '../../src/ports.ts';
import { noContainerd, openContainerd, type PodSpec, type TestContainerd } from './containerd.ts';

const clock = createClock();
const living: PodSpec = { name: 'living', uid: '11111111-2222-3333-4444-555555555555', source: 'api' };
const gone: PodSpec = { name: 'gone', uid: '66666666-7777-8888-9999-000000000000' };
const log: Log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };

let containerd: TestContainerd;
let client: CriClient;
let runtime: OpenRuntime;
let sandbox: string;
let serving: string;
let dead: readonly [older: string, newer: string];
let goneDead: string;
/** containerd 2 mounts images: a container that does, and the image, which nothing but its status names. */
const mounting: string[] = [];
const volumes: string[] = [];
const raised = new Map<string, Finding>();
const findings: Findings = {
  raise: (finding) => void raised.set(finding.id, finding),
  clear: (id) => void raised.delete(id),
  all: () => [...raised.values()],
};

const images = async (): Promise<readonly string[]> => {
  const list = await client.images();
  return list.known
    ? list.value.flatMap(({ repoTags }) => repoTags.map((tag) => tag.replace(/^docker.io.lab.|:1$/g, ''))).sort()
    : [];
};
const containers = async (): Promise<readonly string[]> => {
  const list = await client.containers();
  return list.known ? list.value.map(({ id }) => id) : [];
};
async function hasExited(id: string): Promise<void> {
  for (let tries = 0; tries < 600; tries++) {
    const status = await client.container(id);
    if (status.known && status.value.state === ContainerState.CONTAINER_EXITED) return;
    await sleep(clock, 50);
  }
  throw new Error(`${id} does not exit`);
}
async function runToEnd(inSandbox: string, pod: PodSpec, name: string, image: string): Promise<string> {
  const id = await containerd.startContainer(inSandbox, pod, name, image);
  await hasExited(id);
  return id;
}

describe.skipIf(noContainerd !== null)(`beside a real containerd${noContainerd ? ` (${noContainerd})` : ''}`, () => {
  beforeAll(async () => {
    containerd = await openContainerd();
    client = openCriClient(containerd.socket, clock);
    containerd.addImage('pause', ['/bin/sh', '-c', 'trap exit TERM INT; while :; do sleep 3600 & wait; done']);
    containerd.addImage('server', ['/bin/sh', '-c', 'echo written > /tmp/here; exec sleep 86400']);
    containerd.addImage('job', ['/bin/true']);
    containerd.addImage('other', ['/bin/true', 'other']);
    containerd.addImage('unused', ['/bin/false']);
    sandbox = await containerd.runPod(living);
    serving = await containerd.startContainer(sandbox, living, 'server', 'docker.io/lab/server:1');
    dead = [
      await runToEnd(sandbox, living, 'job', 'docker.io/lab/job:1'),
      await runToEnd(sandbox, living, 'job', 'docker.io/lab/job:1'),
    ];
    const version = await client.version();
    if (version.known && Number.parseInt(version.value.runtimeVersion, 10) >= 2) {
      const volume = containerd.addImage('volume', ['/bin/true', 'volume']);
      mounting.push(await containerd.startContainer(sandbox, living, 'server', 'docker.io/lab/server:1', volume));
      volumes.push('volume');
    }
    const other = await containerd.runPod(gone);
    goneDead = await runToEnd(other, gone, 'other', 'docker.io/lab/other:1');
    await client.stopSandbox(other);
    runtime = openRuntime({
      clock,
      findings,
      endpoint: `unix://${containerd.socket}`,
      knownPods: () => known({ has: () => true }),
    });
  });
  afterAll(async () => {
    runtime?.close();
    client?.close();
    await containerd?.close();
  });

  it('sees its containers, sandboxes and file system', async () => {
    const facts = await runtime.refresh();
    const [older, newer] = dead;
    const state = facts.known ? new Map(facts.value.containers.map((of) => [of.id, `${of.name} ${of.state}`])) : null;
    expect(state).toEqual(
      new Map([
        [serving, 'server running'],
        ...mounting.map((id) => [id, 'server running'] as const),
        [older, 'job exited'],
        [newer, 'job exited'],
        [goneDead, 'other exited'],
      ]),
    );
    expect(facts).toMatchObject({
      value: {
        sandboxes: expect.arrayContaining([
          { id: sandbox, podUid: living.uid, namespace: 'shop', name: 'living', isReady: true, source: 'api' },
          expect.objectContaining({ podUid: gone.uid, isReady: false, source: null }),
        ]),
      },
    });
    expect(runtime.filesystems()).toMatchObject({ value: { imagefs: expect.stringMatching(/^\/.*overlayfs$/) } });
    // containerd 1 does not implement RuntimeConfig.
    const driver = runtime.cgroupDriver();
    expect(driver.known ? driver.value : driver.why).toMatch(/^(cgroupfs|not-applicable)$/);
    expect(await runtime.cgroupsPath(serving)).toMatchObject({ value: expect.stringContaining(serving) });
    expect(findings.all()).toEqual([]);
  });

  it('knows what a container wrote, and when that was measured', async () => {
    const layerOf = async () => {
      const layers = await runtime.writableLayers(0);
      return layers.known ? layers.value.get(serving) : undefined;
    };
    // containerd measures every 10 s, and says "1970" until then.
    await expect.poll(layerOf, { timeout: 60_000 }).toBeDefined();
    const layer = await layerOf();
    expect(layer?.bytes).toBeGreaterThan(0);
    expect(layer?.inodes).toBeGreaterThan(0);
    expect(Math.abs((layer?.atWallMs ?? 0) - clock.wallMs())).toBeLessThan(120_000);
  });

  it('removes what is dead and unused, and nothing else', async () => {
    const reclaim = openRuntimeReclaim({
      seen: { sightings: new Map() },
      clock,
      log,
      findings,
      runtime,
      minImageAgeMs: () => 0,
      isGone: (uid) => uid === gone.uid,
    });
    expect(await images()).toEqual(['job', 'other', 'pause', 'server', 'unused', ...volumes]);
    expect(await reclaim.reclaim(['images'])).toEqual({ containers: 0, images: 1, problem: null });
    expect(await images()).toEqual(['job', 'other', 'pause', 'server', ...volumes]);
    expect(await reclaim.reclaim(['containers', 'images'])).toEqual({ containers: 2, images: 1, problem: null });
    // Of the living pod the newest dead one stays, and with it its image.
    expect(await images()).toEqual(['job', 'pause', 'server', ...volumes]);
    expect([...(await containers())].sort()).toEqual([serving, dead[1], ...mounting].sort());
    expect(await client.container(serving)).toMatchObject({ value: { state: ContainerState.CONTAINER_RUNNING } });
    expect(await reclaim.reclaim(['containers', 'images'])).toEqual({ containers: 0, images: 0, problem: null });
    reclaim.close();
  });

  it('shows that containerd itself removes an image in use when asked to', async () => {
    const status = await client.image('docker.io/lab/server:1');
    const id = status.known ? (status.value?.id ?? '') : '';
    expect(await client.removeImage(id)).toEqual({ known: true, value: null });
    expect(await images()).toEqual(['job', 'pause', ...volumes]);
    expect(await client.container(serving)).toMatchObject({ value: { state: ContainerState.CONTAINER_RUNNING } });
  });

  it('stops a container that ignores SIGTERM, and its sandbox', async () => {
    expect(await runtime.stopContainer(serving, 1)).toEqual({ known: true, value: null });
    expect(await client.container(serving)).toMatchObject({ value: { state: ContainerState.CONTAINER_EXITED } });
    expect(await runtime.stopSandbox(sandbox)).toEqual({ known: true, value: null });
    const facts = await runtime.refresh();
    expect(facts.known && facts.value.sandboxes.filter(({ isReady }) => isReady)).toEqual([]);
  });
});
