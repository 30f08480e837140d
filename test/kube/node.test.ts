import { describe, expect, it } from 'vitest';
import type { ApiAnswer, ApiState } from '../../src/kube/connection.ts';
import { discoverEviction, verifyNode } from '../../src/kube/node.ts';
import type { Json } from './pod-store.ts';

const NODE = { metadata: { name: 'node-1', uid: '0f8fad5b-d9cb-469f-a165-70867728950e' } };
const withBoot = (bootID: unknown): Json => ({ ...NODE, status: { nodeInfo: { bootID } } });
const says = (status: number, body: unknown) => async (): Promise<ApiAnswer> => ({
  kind: 'answer',
  status,
  body,
  retryAfterMs: null,
});

describe('the own node', () => {
  it('is the one whose kubelet has seen this boot', async () => {
    expect(await verifyNode(says(200, withBoot('boot-1')), 'node-1', 'boot-1')).toEqual({
      kind: 'ours',
      node: { name: 'node-1', uid: NODE.metadata.uid, bootId: 'boot-1' },
    });
  });
  it('is another where the boot is another', async () => {
    const verdict = await verifyNode(says(200, withBoot('boot-2')), 'node-1', 'boot-1');
    expect(verdict).toMatchObject({ kind: 'another', detail: expect.stringContaining('node-1 has bootID boot-2') });
  });
  it.each([
    ['without a boot id', 200, NODE, 'malformed'],
    ['under another name', 200, { ...withBoot('boot-1'), metadata: { ...NODE.metadata, name: 'node-2' } }, 'malformed'],
    ['that is none', 200, [], 'malformed'],
    ['that is not there', 404, { message: 'nodes "node-1" not found' }, 'absent'],
    ['that may not be read', 403, { message: 'forbidden' }, 'unreadable'],
    ['of a server that fails', 500, null, 'unreadable'],
  ])('is not known %s', async (_, status, body, why) => {
    const verdict = await verifyNode(says(status, body), 'node-1', 'boot-1');
    expect(verdict).toMatchObject({ kind: 'unknown', why: { why } });
  });
});

describe('the version in which evictions are taken', () => {
  const server = () => {
    const tells: ((state: ApiState) => void)[] = [];
    let version: Json = { name: 'pods/eviction', group: 'policy', version: 'v1' };
    let asked = 0;
    const ask = discoverEviction({
      get: async () => {
        asked += 1;
        return { kind: 'answer', status: 200, body: { resources: [{ name: 'pods' }, version] }, retryAfterMs: null };
      },
      onState: (tell) => void tells.push(tell),
    });
    return {
      ask,
      asked: () => asked,
      become: (state: ApiState) => tells.forEach((tell) => void tell(state)),
      set: (next: Json) => {
        version = next;
      },
    };
  };
  it('is asked once, and again after an outage', async () => {
    const { ask, asked, become, set } = server();
    expect(await ask()).toEqual({ known: true, value: 'v1' });
    set({ name: 'pods/eviction', group: 'policy', version: 'v1beta1' });
    expect(await ask()).toEqual({ known: true, value: 'v1' });
    expect(asked()).toBe(1);
    become('away');
    become('up');
    expect(await ask()).toEqual({ known: true, value: 'v1beta1' });
  });
  it.each([
    ['none where there is no such resource', { name: 'pods/status' }],
    ['none that we know', { name: 'pods/eviction', version: 'v9' }],
    ['none where it is not said', { name: 'pods/eviction' }],
  ])('is %s', async (_, resource) => {
    const { ask, set } = server();
    set(resource);
    expect(await ask()).toEqual({ known: true, value: null });
  });
});
