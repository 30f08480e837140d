import { describe, expect, it } from 'vitest';
import { createStopThroughApi } from '../../src/kube/stop-through-api.ts';
import { heardParts } from '../standalone/needs.ts';
import { aClock } from './a-clock.ts';
import { anApi, NODE, POD_PATH, status, VICTIM, writesTo } from './an-api.ts';

it('a missing right to mark a pod before its deletion is a finding until it is granted, and the pod is deleted', async () => {
  let isForbidden = true;
  const api = anApi((method) => (method === 'PATCH' && isForbidden ? status(403, 'Forbidden', 'no') : undefined));
  const { findings, present } = heardParts();
  const { remove } = createStopThroughApi({
    ...{ clock: aClock(), writes: writesTo(api), findings, isAway: () => false, isBudgetRequired: false },
    later: async () => undefined,
    heard: () => undefined,
  });
  const pod = { object: VICTIM, isMirror: false };
  expect(await remove(pod, 5)).toMatchObject({ kind: 'accepted' });
  expect([...present.keys()]).toEqual(['api-right/patch pods/status']);
  isForbidden = false;
  await remove(pod, 5);
  expect([...present.keys()]).toEqual([]);
});

describe('the end of a pod that is in no list of this node', () => {
  const unplaced = { object: VICTIM, isMirror: false, isUnplaced: true } as const;
  const stopping = (api: ReturnType<typeof anApi>) =>
    createStopThroughApi({
      ...{ clock: aClock(), writes: writesTo(api), findings: heardParts().findings },
      ...{ isAway: () => false, isBudgetRequired: false, later: async () => undefined, heard: () => undefined },
    });
  const boundTo = (nodeName: string) => {
    const api = anApi();
    api.pods.set(POD_PATH, { metadata: { ...VICTIM }, ...{ spec: { nodeName } } });
    return api;
  };

  it.each(['remove', 'evict'] as const)(
    'is not requested if the API server shows it on another node: %s',
    async (how) => {
      const api = boundTo('node-2');
      const said = await stopping(api)[how](unplaced, 5);
      expect(said).toMatchObject({ kind: 'not-said', text: expect.stringContaining('on this node') });
      expect(api.sent()).toEqual([]);
    },
  );

  it.each(['remove', 'evict'] as const)('is requested if the API server shows it on this node: %s', async (how) => {
    const api = boundTo(NODE);
    expect(await stopping(api)[how](unplaced, 5)).toMatchObject({ kind: 'accepted' });
    expect(api.pods.get(POD_PATH)?.metadata['deletionTimestamp']).toBeDefined();
  });

  it('is not requested while its node is not known', async () => {
    const silent = anApi((method, path) => (method === 'GET' && path === POD_PATH ? 'silence' : undefined));
    expect(await stopping(silent).remove(unplaced, 5)).toMatchObject({ kind: 'not-said', because: 'unheard' });
    const unbound = anApi();
    delete unbound.pods.get(POD_PATH)?.spec;
    expect(await stopping(unbound).remove(unplaced, 5)).toMatchObject({ kind: 'not-said' });
    expect([...silent.sent(), ...unbound.sent()]).toEqual([]);
  });

  it('is over if another pod has its name by now', async () => {
    const another = boundTo(NODE);
    expect(
      await stopping(another).remove({ ...unplaced, object: { ...VICTIM, uid: '0'.repeat(32) } }, 5),
    ).toMatchObject({ kind: 'gone' });
    expect(another.sent()).toEqual([]);
  });
});
