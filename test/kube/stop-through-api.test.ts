import { describe, expect, it } from 'vitest';
import { createStopThroughApi } from '../../src/kube/stop/stop-through-api.ts';
import { heardParts } from '../standalone/needs.ts';
import { aClock } from './a-clock.ts';
import { anApi, NODE, POD_PATH, status, VICTIM, writesTo } from './an-api.ts';

type Needs = Parameters<typeof createStopThroughApi>[0];
const through = (api: ReturnType<typeof anApi>, more: Partial<Needs> = {}) =>
  createStopThroughApi({
    ...{ clock: aClock(), writes: writesTo(api), findings: heardParts().findings },
    ...{ isOver: () => false, isAway: () => false, isBudgetRequired: false },
    ...{ later: async () => undefined, heard: () => undefined, ...more },
  });

const lacking = (verb: string, resource: string) =>
  status(403, 'Forbidden', `pods "web-0" is forbidden: User "x" cannot ${verb} resource "${resource}" in API group ""`);

it('a missing right to mark a pod before its deletion is a finding until it is granted, and the pod is deleted', async () => {
  let isForbidden = true;
  const api = anApi((method) => (method === 'PATCH' && isForbidden ? lacking('patch', 'pods/status') : undefined));
  const { findings, present } = heardParts();
  const { remove } = through(api, { findings });
  const pod = { object: VICTIM, isMirror: false };
  expect(await remove(pod, 5)).toMatchObject({ kind: 'accepted' });
  expect([...present.keys()]).toEqual(['api-right/patch pods/status']);
  isForbidden = false;
  await remove(pod, 5);
  expect([...present.keys()]).toEqual([]);
});

describe('a soft eviction that the server answers with 403', () => {
  const evictOn = async (text: string, isForbidden = () => true) => {
    const details = { name: 'web-0', kind: 'pods' };
    const api = anApi((_, path) =>
      path.endsWith('/eviction') && isForbidden() ? status(403, 'Forbidden', text, details) : undefined,
    );
    const { findings, present } = heardParts();
    const { evict } = through(api, { findings });
    const asked = () => evict({ object: VICTIM, isMirror: false }, 30);
    return { said: await asked(), asked, present, deleted: api.sent().filter(({ method }) => method === 'DELETE') };
  };

  it.each([
    'admission webhook "drain-cleaner.strimzi.io" denied the request: the operator will restart the pod',
    `pods "web-0" is forbidden: ValidatingAdmissionPolicy 'keep' with binding 'keep' denied request: not now`,
    'admission webhook "x" denied the request: it cannot create resource "pods/eviction"',
  ])('is refused by a webhook or a policy, and the pod is not deleted: %s', async (text) => {
    const { said, present, deleted } = await evictOn(text);
    // To be asked again, and then left alone.
    expect(said).toMatchObject({ kind: 'not-said', isAnswer: true, text });
    expect([[...present.keys()], deleted]).toEqual([[], []]);
  });

  it('lacks a right, which is a finding until it is granted; the pod is deleted', async () => {
    const who =
      'User "nodewarden:node:node-1" cannot create resource "pods/eviction" in API group "" in the namespace "shop"';
    let isForbidden = true;
    const { said, asked, present, deleted } = await evictOn(`pods "web-0" is forbidden: ${who}`, () => isForbidden);
    expect(said).toMatchObject({ kind: 'accepted', text: expect.stringContaining('budget was not asked') });
    expect(deleted).toHaveLength(1);
    expect([...present.keys()]).toEqual(['api-right/create pods/eviction']);
    isForbidden = false;
    await asked();
    expect([...present.keys()]).toEqual([]);
  });
});

it.each([
  ['does not know who asks', (_: string, path: string) => path.endsWith('/eviction'), 401],
  ['does not let us read our node', (method: string) => method === 'GET', 403],
])('a soft eviction is to be asked for again if the server %s, and the pod is not deleted', async (_, is, code) => {
  const api = anApi((method, path) => (is(method, path) ? status(code, 'No', 'no') : undefined));
  const { evict } = through(api);
  const said = await evict({ object: VICTIM, isMirror: false }, 30);
  expect(said).toMatchObject({ kind: 'not-said', isAnswer: true });
  expect(api.sent().filter(({ method }) => method === 'DELETE')).toEqual([]);
});

it('a missing right to delete pods is a finding until it is granted', async () => {
  let isForbidden = true;
  const api = anApi((method) => (method === 'DELETE' && isForbidden ? lacking('delete', 'pods') : undefined));
  const { findings, present } = heardParts();
  const { remove } = through(api, { findings });
  await remove({ object: VICTIM, isMirror: false }, 1);
  expect([...present.keys()]).toEqual(['api-right/delete pods']);
  isForbidden = false;
  await remove({ object: VICTIM, isMirror: false }, 1);
  expect([...present.keys()]).toEqual([]);
});

it.each(['DELETE', 'PATCH'])(
  'a webhook that denies the %s of a pod is not taken for a missing right',
  async (denied) => {
    const text = 'admission webhook "keep.example" denied the request: not now';
    const api = anApi((method) => (method === denied ? status(403, 'Forbidden', text) : undefined));
    const { findings, present } = heardParts();
    const { remove } = through(api, { findings });
    const said = await remove({ object: VICTIM, isMirror: false }, 1);
    expect(said).toMatchObject(
      denied === 'DELETE' ? { kind: 'not-said', because: 'not-now', text } : { kind: 'accepted' },
    );
    expect([...present.values()]).toEqual([]);
  },
);

it.each([
  ['no answer comes', false, true],
  ['the server is away, and nothing is sent', true, undefined],
])('an eviction whose budget must allow it is not known to be refused if %s', async (_, isServerAway, isLost) => {
  const { evict, isBudgetOverridden } = through(
    anApi((_, path) => (path.startsWith(POD_PATH) ? 'silence' : undefined)),
    { isAway: () => isServerAway, isBudgetRequired: true },
  );
  const said = await evict({ object: VICTIM, isMirror: false }, 30);
  expect(said).toMatchObject({ kind: 'refused', isUnasked: true });
  expect(said?.kind === 'refused' && said.isLost).toBe(isLost);
  expect(isBudgetOverridden()).toBe(false);
});

it('the longest grace period that is sent is ten days, whatever a pod asks for', async () => {
  const api = anApi();
  const { evict, remove } = through(api);
  const pod = { object: VICTIM, isMirror: false };
  expect(await evict(pod, 864_001)).toMatchObject({ kind: 'accepted' });
  expect(await remove(pod, 2 ** 40, 'shutdown')).toMatchObject({ kind: 'accepted' });
  expect(api.sent().map(({ body }) => body)).toMatchObject([
    { deleteOptions: { gracePeriodSeconds: 864_000 } },
    {},
    { gracePeriodSeconds: 864_000 },
  ]);
});

describe('the end of a pod that is in no list of this node', () => {
  const unplaced = { object: VICTIM, isMirror: false, isUnplaced: true } as const;
  const stopping = (api: ReturnType<typeof anApi>) => through(api);
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

it.each([
  ['list or watch tell so', true, {}],
  ['the server tells so of a pod that is in no list', false, { isUnplaced: true } as const],
])('nothing is sent for a pod that has ended, as its object would go at once: %s', async (_, isOver, more) => {
  const api = anApi();
  Object.assign(api.pods.get(POD_PATH) ?? {}, { status: { phase: 'Succeeded' } });
  const { remove, evict } = through(api, { isOver: () => isOver });
  const pod = { object: VICTIM, isMirror: false, ...more };
  const over = { kind: 'over', text: 'not sent: the API server shows that the pod has ended' };
  expect(await remove(pod, 1)).toEqual(over);
  expect(await remove(pod, 1, 'shutdown')).toEqual(over);
  expect(await evict(pod, 30)).toEqual(over);
  expect(api.sent()).toEqual([]);
});
