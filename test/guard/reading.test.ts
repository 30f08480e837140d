import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createAsked } from '../../src/guard/asked.ts';
import { type Nodes, watchNodes } from '../../src/guard/nodes.ts';
import { type StoredMaps, watchMaps } from '../../src/guard/stored-maps.ts';
import { createWitnesses } from '../../src/guard/witness.ts';
import { createClock, sleep } from '../../src/host/clock.ts';
import { eventually } from '../kube/eventually.ts';
import { heardParts, hurried } from '../standalone/needs.ts';
import { aGuardApi, type GuardApi, MAPS, NAMESPACE, withAuthority } from './a-guard-api.ts';

withAuthority();
const NODE_LEASES = '/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases';
/** Leases are listed every 5 s. */
const fast = hurried(createClock(), 50);
let api: GuardApi;
const ends: (() => void)[] = [];
beforeEach(async () => {
  api = await aGuardApi(fast);
});
afterEach(async () => {
  for (const end of ends.splice(0)) end();
  await api.close();
});

const aLease = (name: string, renewTime: string | null, seconds: unknown = 40) => ({
  kind: 'Lease',
  metadata: { name },
  spec: { renewTime, leaseDurationSeconds: seconds },
});
const putLease = (name: string, renewTime: string | null, seconds?: unknown): void =>
  api.put(`${NODE_LEASES}/${name}`, aLease(name, renewTime, seconds));
/** As the API server gives them. */
const uidOf = (name: string): string => `00000000-0000-4000-8000-0000000000${name.replace('w', '0')}`;
const putNode = (name: string, bootId = `boot-${name}`): void =>
  api.putNode({ name, uid: uidOf(name), bootId }, { conditions: [{ type: 'Ready', status: 'True' }] });

function someNodes() {
  const { findings, present } = heardParts();
  const nodes: Nodes = watchNodes({ connection: api.connection, clock: fast, findings });
  ends.push(nodes.close);
  const views = () => {
    const read = nodes.views();
    return read.known ? read.value.value : [];
  };
  const named = (name: string) => views().find(({ object }) => object.name === name);
  const seen = async (check: () => void): Promise<void> =>
    eventually(async () => {
      await nodes.refresh();
      check();
    });
  return { nodes, views, named, seen, present };
}

describe('the nodes of a cluster', () => {
  it('are known by their machine, however a kubelet spells its UUID', async () => {
    const nodeInfo = { bootID: 'boot-1', systemUUID: '4C4C4544-0043' };
    api.put('/api/v1/nodes/w1', { kind: 'Node', metadata: { name: 'w1', uid: uidOf('w1') }, status: { nodeInfo } });
    putNode('w2');
    const { named, seen } = someNodes();
    await seen(() => expect(named('w1')?.object).toMatchObject({ bootId: 'boot-1', systemUuid: '4c4c4544-0043' }));
    expect(named('w2')?.object.systemUuid).toBe('');
  });
  it('are known with their leases, and follow what changes', async () => {
    putNode('w1');
    putLease('w1', 't1');
    const { named, views, seen } = someNodes();
    await seen(() => expect(named('w1')).toMatchObject({ lease: { renewed: 't1', durationMs: 40_000 } }));
    const before = named('w1');
    putNode('w2');
    putLease('w1', 't2');
    await seen(() =>
      expect(views().map(({ object, lease }) => [object.name, lease?.renewed])).toEqual([
        ['w1', 't2'],
        ['w2', undefined],
      ]),
    );
    // The core takes an object for changed if it is another one.
    expect(named('w1')?.object).toBe(before?.object);
    api.put('/api/v1/nodes/w1', null);
    await seen(() => expect(views().map(({ object }) => object.name)).toEqual(['w2']));
  });

  it('have no token in a lease that says none, and no duration in one that is none', async () => {
    for (const name of ['w1', 'w2', 'w3']) putNode(name);
    putLease('w1', null);
    putLease('w2', 'x'.repeat(200));
    putLease('w3', 't1', 'for ever');
    putLease('nobody', 't1');
    const { named, views, seen } = someNodes();
    await seen(() => expect(named('w3')?.lease).toEqual({ renewed: 't1', durationMs: 0 }));
    expect(named('w1')?.lease?.renewed).toBeNull();
    expect(named('w2')?.lease?.renewed).toBeNull();
    expect(views()).toHaveLength(3);
  });

  it('grow old while leases cannot be listed, though the watch is open', async () => {
    putNode('w1');
    putLease('w1', 't1');
    const { nodes, named, seen, present } = someNodes();
    await seen(() => expect(named('w1')?.lease?.renewed).toBe('t1'));
    const asOf = () => {
      const read = nodes.views();
      return read.known ? read.value.asOfMs : null;
    };
    api.stub.fault(/kube-node-lease/, { kind: 'status', status: 403 }, 1_000);
    await seen(() => expect(present.has('api-leases')).toBe(true));
    const before = asOf();
    await sleep(fast, 20_000);
    await nodes.refresh();
    expect(asOf()).toBe(before);
  });

  it('are listed anew when their watch is open and says nothing for 90 s, and its last word is that old', async () => {
    putNode('w1');
    putLease('w1', 't1');
    const { nodes, named, seen } = someNodes();
    await seen(() => expect(named('w1')).toBeDefined());
    await api.silence();
    const heardMs = nodes.heardMs() ?? 0;
    api.put('/api/v1/nodes/w1', {
      kind: 'Node',
      metadata: { name: 'w1', uid: uidOf('w1'), annotations: { 'nodewarden.dev/guard': 'skip' } },
    });
    await seen(() => expect(named('w1')?.object.annotations).toEqual({ 'nodewarden.dev/guard': 'skip' }));
    const anewMs = nodes.heardMs() ?? 0;
    expect(anewMs - heardMs).toBeGreaterThanOrEqual(90_000);
  });

  it('have their kubelet at each InternalIP that they name, up to four', async () => {
    const addresses = ['10.0.0.1', '10.0.0.1', 'fd00::1', '10.0.1.1', '10.0.2.1', '10.0.3.1'].map((address) => ({
      type: 'InternalIP',
      address,
    }));
    const status = {
      addresses: [{ type: 'ExternalIP', address: '192.0.2.1' }, ...addresses],
      daemonEndpoints: { kubeletEndpoint: { Port: 10_260 } },
    };
    api.put('/api/v1/nodes/w1', { kind: 'Node', metadata: { name: 'w1', uid: uidOf('w1') }, status });
    putLease('w1', 't1');
    const { nodes, named, seen } = someNodes();
    await seen(() => expect(named('w1')).toBeDefined());
    expect(nodes.byUid(uidOf('w1'))?.kubelet).toEqual(
      ['10.0.0.1', 'fd00::1', '10.0.1.1', '10.0.2.1'].map((host) => ({ host, port: 10_260 })),
    );
  });

  it('are left out if they have no uid', async () => {
    putNode('w1');
    putLease('w1', 't1');
    api.put('/api/v1/nodes/odd', { kind: 'Node', metadata: { name: 'odd' } });
    const { views, seen } = someNodes();
    await seen(() => expect(views().map(({ object }) => object.name)).toEqual(['w1']));
  });
});

describe('what is asked of a silent node', () => {
  const W1 = { name: 'w1', uid: uidOf('w1'), bootId: '' };
  /** `clock`: the fast one also ends a request early, on a busy machine before it is heard. */
  async function someAsked(clock = fast) {
    putNode('w1');
    putLease('w1', 't1');
    const { nodes, named, seen } = someNodes();
    await seen(() => expect(named('w1')).toBeDefined());
    let arrived = 0;
    const news = () => {
      arrived += 1;
    };
    const witnesses = createWitnesses({ clock: fast, addressesOf: () => [], arrived: news });
    const asked = createAsked({ connection: api.connection, clock, nodes, witnesses, arrived: news });
    const ask = (rest: Partial<Parameters<typeof asked.ask>[0]>) =>
      asked.ask({ witness: [], pods: [], members: [], looks: [], attachments: false, ...rest });
    const look = () => asked.byUid().get(uidOf('w1'))?.look;
    return { asked, ask, look, arrived: () => arrived };
  }

  it('is read anew by a look, and is as old as its request', async () => {
    const { ask, look } = await someAsked();
    putLease('w1', 't2');
    const beforeMs = fast.monoMs();
    // Asked again and again, as by the loop: on a busy machine an answer may come too late.
    await eventually(() => {
      ask({ looks: [W1] });
      expect(look()?.known).toBe(true);
    });
    expect(look()).toMatchObject({ value: { value: { node: { uid: uidOf('w1') }, lease: { renewed: 't2' } } } });
    const read = look();
    expect(read?.known === true && read.value.asOfMs >= beforeMs && read.value.asOfMs <= fast.monoMs()).toBe(true);
  });

  it('is looked at by its name, whether or not it is listed', async () => {
    const { asked, ask } = await someAsked();
    await eventually(() => {
      ask({ looks: [{ ...W1, name: 'w9', uid: 'gone' }] });
      expect(asked.byUid().get('gone')?.look).toMatchObject({ value: { value: { node: null, lease: null } } });
    });
  });

  it('is not known if the API server answers for one half only', async () => {
    const { ask, look, arrived } = await someAsked();
    api.stub.fault(/kube-node-lease\/leases\/w1/, { kind: 'status', status: 500 });
    ask({ looks: [W1] });
    await eventually(() => expect(arrived()).toBe(1));
    expect(look()).toMatchObject({ known: false, where: expect.stringContaining('kube-node-lease') });
  });

  it('is asked once while it is under way', async () => {
    const { ask, arrived } = await someAsked(createClock());
    for (let i = 0; i < 5; i++) ask({ looks: [W1], pods: [uidOf('w1')], attachments: true });
    await eventually(() => expect(arrived()).toBe(3));
    const asks = (path: RegExp) => api.stub.heard.filter((request) => path.test(request.path)).length;
    expect([asks(/\/nodes\/w1$/), asks(/fieldSelector/), asks(/volumeattachments/)]).toEqual([1, 1, 1]);
  });

  it('is where its members are by now, by their names alone', async () => {
    const { asked, ask } = await someAsked();
    const pod = (namespace: string, uid: string, status: string) => ({
      metadata: { name: 'db-0', namespace, uid },
      status: { conditions: [{ type: 'Ready', status }] },
    });
    api.put('/api/v1/namespaces/shop/pods/db-0', pod('shop', 'new', 'True'));
    api.put('/api/v1/namespaces/other/pods/db-0', pod('other', 'other', 'False'));
    const members = () => {
      const read = asked.byUid().get(uidOf('w1'))?.members;
      return read?.known === true ? read.value.value : [];
    };
    // Asked again and again, as by the loop: on a busy machine an answer may come too late.
    await eventually(() => {
      ask({
        members: [{ node: uidOf('w1'), pods: ['shop', 'other'].map((namespace) => ({ namespace, name: 'db-0' })) }],
      });
      expect(members()).toEqual([
        { namespace: 'shop', name: 'db-0', uid: 'new', isReady: true },
        { namespace: 'other', name: 'db-0', uid: 'other', isReady: false },
      ]);
    });
    expect(api.stub.heard.map(({ path }) => path)).toContain(
      '/api/v1/namespaces/shop/pods?fieldSelector=metadata.name%3Ddb-0&limit=500',
    );
  });

  it('is what its pods are: of whom, with what, and whether they tolerate the taint', async () => {
    const { asked, ask } = await someAsked();
    const pod = (name: string, rest: object) => ({
      metadata: { name, namespace: 'shop', uid: `uid-${name}`, ...rest },
      spec: { tolerations: [{ operator: 'Exists', effect: 'NoExecute' }], volumes: [{ name: 'v', configMap: {} }] },
      status: { phase: 'Running' },
    });
    api.put('/api/v1/pods/db', pod('db', { ownerReferences: [{ kind: 'StatefulSet', controller: true }] }));
    api.put('/api/v1/pods/gone', { ...pod('gone', { deletionTimestamp: 'now', finalizers: ['a/b'] }), spec: {} });
    ask({ pods: [uidOf('w1')] });
    const pods = () => {
      const read = asked.byUid().get(uidOf('w1'))?.pods;
      return read?.known === true ? read.value.value : [];
    };
    await eventually(() => expect(pods()).toHaveLength(2));
    expect(pods()).toMatchObject([
      { name: 'db', ownerKind: 'StatefulSet', toleratesTaint: true, isTerminating: false, hasAttachedVolume: false },
      { name: 'gone', ownerKind: '', toleratesTaint: false, isTerminating: true, finalizers: ['a/b'] },
    ]);
  });
});

describe("the guard's own ConfigMaps", () => {
  function someMaps(): StoredMaps {
    const { findings } = heardParts();
    const needs = { connection: api.connection, clock: fast, findings, namespace: NAMESPACE };
    const maps = watchMaps({ ...needs, changed: () => undefined });
    ends.push(maps.close);
    return maps;
  }
  const names = (read: ReturnType<StoredMaps['all']>) => (read.known ? [...read.value.keys()].sort() : null);

  it('are followed, and nothing else of the namespace', async () => {
    api.putMap('guard-state', { state: '1' });
    api.putMap('kube-root-ca.crt', { 'ca.crt': 'x' });
    const maps = someMaps();
    await eventually(() => expect(names(maps.all())).toEqual(['guard-state']));
    api.putMap('fencing-0123456789abcdef-1', { record: '{}' });
    await eventually(() => expect(names(maps.all())).toEqual(['fencing-0123456789abcdef-1', 'guard-state']));
    api.put(`${MAPS}/guard-state`, null);
    await eventually(() => expect(names(maps.all())).toEqual(['fencing-0123456789abcdef-1']));
  });

  /** As the API server answers a write of it. */
  const stored = (name: string) => structuredClone(api.objects.get(`${MAPS}/${name}`));
  const dataOf = (read: ReturnType<StoredMaps['all']>, name: string) =>
    read.known ? read.value.get(name)?.data : null;
  const RECORD = 'fencing-0123456789abcdef-1';

  it('are known as this process wrote them, though the watch says nothing', async () => {
    const maps = someMaps();
    await eventually(() => expect(names(maps.all())).toEqual([]));
    await api.silence();
    api.putMap(RECORD, { record: '1' });
    const first = stored(RECORD);
    api.putMap(RECORD, { record: '2' });
    maps.wrote(first);
    expect(dataOf(maps.all(), RECORD)).toEqual({ record: '1' });
    maps.wrote(stored(RECORD));
    expect(dataOf(maps.all(), RECORD)).toEqual({ record: '2' });
    // An answer that comes late takes nothing back.
    maps.wrote(first);
    expect(dataOf(maps.all(), RECORD)).toEqual({ record: '2' });
  });

  it('are as this process wrote them also in a list that was asked for before that', async () => {
    const maps = someMaps();
    await eventually(() => expect(names(maps.all())).toEqual([]));
    let writtenMs: number | null = null;
    api.before(({ path }) => {
      if (!/configmaps\?limit/.test(path) || writtenMs !== null) return;
      writtenMs = fast.monoMs();
      const object = { kind: 'ConfigMap', metadata: { name: RECORD, resourceVersion: '9999' }, data: { record: '1' } };
      maps.wrote(object);
    });
    maps.overtaken();
    await eventually(() => expect(maps.heardMs()).toBeGreaterThan(writtenMs ?? Number.POSITIVE_INFINITY));
    expect(names(maps.all())).toEqual([RECORD]);
  });

  it('are listed anew when somebody else wrote first, and not at every one of its conflicts', async () => {
    const maps = someMaps();
    await eventually(() => expect(names(maps.all())).toEqual([]));
    await api.silence();
    api.putMap(RECORD, { record: '1' });
    for (let i = 0; i < 5; i++) maps.overtaken();
    await eventually(() => expect(names(maps.all())).toEqual([RECORD]));
    expect(api.stub.heard.filter(({ path }) => /configmaps\?limit/.test(path))).toHaveLength(2);
  });

  it('are listed anew for whoever was elected: what was read before that does not count', async () => {
    const maps = someMaps();
    await eventually(() => expect(names(maps.all())).toEqual([]));
    const lists = () => api.stub.heard.filter(({ path }) => /configmaps\?limit/.test(path)).length;
    expect(lists()).toBe(1);
    const electedMs = fast.monoMs();
    expect(maps.since(electedMs).known).toBe(false);
    await eventually(() => expect(names(maps.since(electedMs))).toEqual([]));
    expect(lists()).toBe(2);
    expect(maps.since(electedMs).known).toBe(true);
    expect(lists()).toBe(2);
  });
});
