import { status } from '@grpc/grpc-js';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createClock } from '../../src/host/clock.ts';
import { type CriClient, openCriClient } from '../../src/kube/cri/client.ts';
import { ImageService, RuntimeService } from '../../src/kube/cri/cri_pb.ts';
import type { Clock } from '../../src/ports.ts';
import { openStubRuntime, type StubRuntime } from './stub-runtime.ts';

const runtime = RuntimeService.method;

let stub: StubRuntime;
let client: CriClient;
beforeEach(async () => {
  stub = await openStubRuntime();
  client = openCriClient(stub.socket, createClock());
});
afterEach(() => {
  client.close();
  stub.remove();
});

describe('the CRI client', () => {
  it("returns the runtime's answers", async () => {
    stub.on(runtime.listContainers, () => ({
      containers: [{ id: 'a', podSandboxId: 'b', imageRef: 'sha256:1', labels: { k: 'v' }, createdAt: 5n }],
    }));
    const containers = await client.containers();
    expect(containers).toMatchObject({ known: true, value: [{ id: 'a', podSandboxId: 'b', labels: { k: 'v' } }] });
  });

  it('requests exactly the removals that it is asked for', async () => {
    const asked: unknown[] = [];
    stub.on(ImageService.method.removeImage, ({ image }) => {
      asked.push(image?.image);
      return {};
    });
    stub.on(runtime.removeContainer, ({ containerId }) => {
      asked.push(containerId);
      return {};
    });
    stub.on(runtime.stopContainer, ({ containerId, timeout }) => {
      asked.push(containerId, timeout);
      return {};
    });
    await client.removeImage('sha256:1');
    await client.removeContainer('c');
    await client.stopContainer('c', 1.5);
    expect(asked).toEqual(['sha256:1', 'c', 'c', 2n]);
  });

  it('gives up a runtime that hangs, and uses it again when it recovers', async () => {
    let isDue = (): void => undefined;
    const clock: Clock = {
      ...createClock(),
      after: (_ms, run) => {
        isDue = run;
        return () => undefined;
      },
    };
    const patient = openCriClient(stub.socket, clock);
    const isAsked = new Promise<void>((resolve) =>
      stub.onRaw(runtime.listContainers, () => {
        resolve();
        return null;
      }),
    );
    const hung = patient.containers();
    await isAsked;
    isDue();
    expect(await hung).toMatchObject({ known: false, why: 'timed-out' });
    stub.on(runtime.listContainers, () => ({}));
    expect(await patient.containers()).toEqual({ known: true, value: [] });
    patient.close();
  });

  it('reconnects to a runtime that died during a call', async () => {
    const isAsked = new Promise<void>((resolve) =>
      stub.onRaw(runtime.listContainers, () => {
        resolve();
        return null;
      }),
    );
    const lost = client.containers();
    await isAsked;
    stub.kill();
    expect(await lost).toMatchObject({ known: false, why: 'unreadable' });
    expect(await client.containers()).toMatchObject({ known: false, why: 'unreadable' });
    stub.on(runtime.listContainers, () => ({}));
    await stub.start();
    await expect.poll(() => client.containers(), { timeout: 20_000 }).toEqual({ known: true, value: [] });
  });

  it('accepts no garbage as a message', async () => {
    stub.onRaw(runtime.listContainers, () => ({ bytes: Buffer.from('0aff0123', 'hex') }));
    expect(await client.containers()).toMatchObject({ known: false, why: 'malformed' });
  });

  it('refuses a message above 16 MiB, and continues', async () => {
    const ofLength = (length: number) =>
      stub.on(ImageService.method.listImages, () => ({ images: [{ id: 'a'.repeat(length) }] }));
    ofLength(16 * 1024 * 1024);
    expect(await client.images()).toMatchObject({ known: false, why: 'malformed' });
    ofLength(15 * 1024 * 1024);
    expect((await client.images()).known).toBe(true);
  });

  it('distinguishes a missing object and an unimplemented call from a failure', async () => {
    const fail = (code: number) => stub.onRaw(runtime.containerStatus, () => ({ code, details: 'no\u001b[2J\nmore' }));
    fail(status.NOT_FOUND);
    expect(await client.container('c')).toMatchObject({ known: false, why: 'absent' });
    fail(status.INTERNAL);
    const detail = `${stub.socket}: no\\u001b[2J\\u000amore`;
    expect(await client.container('c')).toEqual({
      known: false,
      why: 'unreadable',
      where: 'CRI ContainerStatus',
      detail,
    });
    expect(await client.config()).toMatchObject({ known: false, why: 'not-applicable' });
  });

  it('cannot send what beside-a-kubelet A12 forbids', () => {
    const said = [...RuntimeService.methods, ...ImageService.methods].map(({ name }) => name).sort();
    expect(said).toEqual([
      'ContainerStatus',
      'ImageFsInfo',
      'ImageStatus',
      'ListContainerStats',
      'ListContainers',
      'ListImages',
      'ListPodSandbox',
      'PodSandboxStatus',
      'RemoveContainer',
      'RemoveImage',
      'RuntimeConfig',
      'Status',
      'StopContainer',
      'StopPodSandbox',
      'Version',
    ]);
  });
});
