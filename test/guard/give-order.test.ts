import { describe, expect, it } from 'vitest';
import { giveOrder, type OrderGiven } from '../../src/guard/give-order.ts';
import { readOrders, withAnswer } from '../../src/guard/orders.ts';
import type { ApiAnswer, ApiRequest } from '../../src/kube/api/connection.ts';
import { createVirtualClock } from '../kube/virtual-clock.ts';

type Lease = { readonly holder: string; readonly isDryRun?: boolean } | null;
const MAP = '/api/v1/namespaces/guards/configmaps/guard-orders';
const LEASE = '/apis/coordination.k8s.io/v1/namespaces/guards/leases/nodewarden-guard';
const FENCE: OrderGiven = { verb: 'fence', node: 'w1', by: 'ann', because: 'it smokes' };

const ofLease7 = (lease: string): boolean => lease === '7';

type Data = { readonly [key: string]: string };
type Server = {
  version: number;
  data: Data;
  writes: number;
  /** Somebody else writes: what was read before is old. */
  put: (data: Data) => void;
  get: (path: string) => Promise<ApiAnswer>;
  send: (request: ApiRequest) => Promise<ApiAnswer>;
};

/** An API server with one lease, one node and the orders; `seen` is called with each new state of the orders. */
function aServer(lease: Lease, seen: (server: Server) => void = () => undefined): Server {
  const answer = (status: number, body: unknown): ApiAnswer => ({ kind: 'answer', status, body, retryAfterMs: null });
  const server: Server = {
    version: 1,
    data: {},
    writes: 0,
    put: (data) => {
      server.data = data;
      server.version += 1;
    },
    get: async (path) => {
      if (path === LEASE && lease !== null) {
        const annotations = lease.isDryRun === true ? { 'nodewarden.dev/guard-dry-run': 'true' } : {};
        return answer(200, {
          metadata: { resourceVersion: '7', annotations },
          spec: { holderIdentity: lease.holder, leaseTransitions: 3 },
        });
      }
      if (path === '/api/v1/nodes/w1') return answer(200, { metadata: { name: 'w1', uid: 'u1' } });
      if (path !== MAP) return answer(404, { kind: 'Status', message: 'not found' });
      return answer(200, { metadata: { resourceVersion: `${server.version}` }, data: server.data });
    },
    send: async ({ method, path, body }) => {
      const { metadata, data } = body as { metadata: { resourceVersion?: string }; data: Data };
      if (method !== 'PUT' || path !== MAP) return answer(405, {});
      server.writes += 1;
      if (metadata.resourceVersion !== `${server.version}`) return answer(409, { kind: 'Status', message: 'conflict' });
      // As k/k etcd3 GuaranteedUpdate: what changes nothing is not written, and gets no new version.
      if (JSON.stringify(data) !== JSON.stringify(server.data)) server.put(data);
      const now = server.version;
      seen(server);
      return answer(200, { metadata: { resourceVersion: `${now}` }, data });
    },
  };
  return server;
}

const accepted = { answer: { isAccepted: true, fencing: 'f-1' }, wallMs: 5 } as const;
const accept = (server: Server): void => {
  for (const { id } of readOrders({ data: server.data }, ofLease7)) server.put(withAnswer(server.data, id, accepted));
};

async function give(server: Server, given: OrderGiven = FENCE) {
  const clock = createVirtualClock();
  let isOver = false;
  const end = giveOrder(given, { api: server, clock, namespace: 'guards', id: 'o-1' }).finally(() => {
    isOver = true;
  });
  while (!isOver) await clock.advance(100);
  return end;
}

describe('an order of a person', () => {
  it('is written for the guard that leads and for the uid of the node, and its answer comes back', async () => {
    const orders: unknown[] = [];
    const server = aServer({ holder: 'g1' }, (at) => {
      orders.push(...readOrders({ data: at.data }, ofLease7));
      accept(at);
    });
    expect(await give(server)).toEqual({ kind: 'answered', id: 'o-1', answer: accepted.answer, leader: 'g1' });
    expect(orders).toEqual([{ ...FENCE, node: { name: 'w1', uid: 'u1' }, id: 'o-1', to: 'g1' }]);
  });

  it('is taken back if nobody answers', async () => {
    const server = aServer({ holder: 'g1' });
    expect(await give(server)).toEqual({ kind: 'no-answer', leader: 'g1', isWithdrawn: true });
    expect(server.data).toEqual({});
  });

  it('is not taken back if the answer came after all', async () => {
    // The leader writes in the moment in which the order is to be taken back.
    const server = aServer({ holder: 'g1' });
    const { send } = server;
    server.send = async (request) => {
      if (server.writes === 1) accept(server);
      return send(request);
    };
    expect(await give(server)).toMatchObject({ kind: 'answered', answer: accepted.answer });
  });

  it('is written although others write at the same time', async () => {
    const server = aServer({ holder: 'g1' }, accept);
    const { send } = server;
    server.send = async (request) => {
      if (server.writes < 2) server.put({ ...server.data, other: `${server.writes}` });
      return send(request);
    };
    expect(await give(server)).toMatchObject({ kind: 'answered' });
    expect(server.data).toMatchObject({ other: '1' });
  });

  it.each<[string, Lease, OrderGiven, object]>([
    ['leads', null, FENCE, { kind: 'no-leader' }],
    ['has taken the lease again', { holder: '' }, FENCE, { kind: 'no-leader' }],
    ['may act', { holder: 'g1', isDryRun: true }, FENCE, { kind: 'dry-run', leader: 'g1' }],
    ['knows the node', { holder: 'g1' }, { ...FENCE, node: 'w2' }, { kind: 'no-such-node' }],
  ])('is not written if nobody %s', async (_, lease, given, end) => {
    const server = aServer(lease);
    expect(await give(server, given)).toEqual(end);
    expect(server.writes).toBe(0);
  });

  it.each([
    ['is answered', accept, { kind: 'answered', answer: accepted.answer }],
    ['is taken back', () => undefined, { kind: 'no-answer', isWithdrawn: true }],
  ] as const)('whose write was done, and its answer lost, %s', async (_, seen, end) => {
    const server = aServer({ holder: 'g1' }, seen);
    const { send } = server;
    server.send = async (request) => {
      const answer = await send(request);
      return server.writes === 1 ? { kind: 'none', detail: 'no answer within 5000 ms', isTimeout: true } : answer;
    };
    expect(await give(server)).toMatchObject(end);
    expect(readOrders({ data: server.data }, ofLease7)).toEqual([]);
  });

  it('whose write may come late is written once more, which refuses the late one', async () => {
    const server = aServer({ holder: 'g1' }, accept);
    const { send } = server;
    let late: ApiRequest | null = null;
    server.send = async (request) => {
      if (late !== null) return send(request);
      late = request;
      return { kind: 'none', detail: 'no answer within 5000 ms', isTimeout: true };
    };
    expect(await give(server)).toMatchObject({ kind: 'answered', answer: accepted.answer });
    if (late !== null) expect(await send(late)).toMatchObject({ status: 409 });
    expect(readOrders({ data: server.data }, ofLease7)).toEqual([]);
  });

  it('whose write got no answer, and that cannot be looked for, may still be carried out', async () => {
    const server = aServer({ holder: 'g1' });
    const { get, send } = server;
    const none: ApiAnswer = { kind: 'none', detail: 'no answer within 5000 ms', isTimeout: true };
    server.send = async (request) => {
      await send(request);
      return none;
    };
    server.get = async (path) => (path === MAP && server.writes > 0 ? none : get(path));
    expect(await give(server)).toEqual({ kind: 'no-answer', leader: 'g1', isWithdrawn: false });
  });

  it.each<[string, ApiAnswer]>([
    ['gets no answer', { kind: 'none', detail: 'no answer within 5000 ms', isTimeout: true }],
    ['is refused', { kind: 'answer', status: 403, body: { kind: 'Status', message: 'forbidden' }, retryAfterMs: null }],
    ['fails', { kind: 'answer', status: 500, body: { kind: 'Status', message: 'etcd' }, retryAfterMs: null }],
  ])(
    'whose write may come late, and that cannot be written once more: it %s, may still be carried out',
    async (_, overtaken) => {
      const server = aServer({ holder: 'g1' });
      const { send } = server;
      let late: ApiRequest | null = null;
      server.send = async (request) => {
        if (late !== null) return overtaken;
        late = request;
        return { kind: 'none', detail: 'no answer within 5000 ms', isTimeout: true };
      };
      expect(await give(server)).toEqual({ kind: 'no-answer', leader: 'g1', isWithdrawn: false });
      if (late !== null) await send(late);
      expect(readOrders({ data: server.data }, ofLease7)).toHaveLength(1);
    },
  );

  it('whose write failed in the server may stand', async () => {
    const server = aServer({ holder: 'g1' }, accept);
    const { send } = server;
    server.send = async (request) => {
      const answer = await send(request);
      const failed = { kind: 'Status', message: 'etcdserver: request timed out' };
      return server.writes === 1 ? { kind: 'answer', status: 500, body: failed, retryAfterMs: null } : answer;
    };
    expect(await give(server)).toMatchObject({ kind: 'answered' });
  });

  it('that is refused is not written once more', async () => {
    const server = aServer({ holder: 'g1' });
    let writes = 0;
    server.send = async () => {
      writes += 1;
      return { kind: 'answer', status: 403, body: { kind: 'Status', message: 'forbidden' }, retryAfterMs: null };
    };
    expect(await give(server)).toMatchObject({ kind: 'failed', detail: 'forbidden' });
    expect(writes).toBe(1);
  });

  it('that cannot be written says why', async () => {
    const server = aServer({ holder: 'g1' });
    const forbidden = { kind: 'Status', message: 'configmaps "guard-orders" is forbidden' };
    server.send = async () => ({ kind: 'answer', status: 403, body: forbidden, retryAfterMs: null });
    expect(await give(server)).toEqual({
      kind: 'failed',
      what: 'write the ConfigMap guard-orders',
      detail: 'configmaps "guard-orders" is forbidden',
    });
  });
});
