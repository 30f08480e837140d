import { describe, expect, it } from 'vitest';
import { act, aSpool, event, thereAre } from './a-spool.ts';
import { anApi, EARLIER_BOOT, NODE, notFound, POD_PATH, status, VICTIM } from './an-api.ts';

describe('saved requests: a server', () => {
  it('that is silent is tried again later', async () => {
    let isSilent = true;
    const api = anApi((method) => (isSilent && method !== 'GET' ? 'silence' : undefined));
    const { spool, clock } = aSpool(api);
    spool.put(event('e-1'));
    spool.put(event('e-2'));
    spool.flush(thereAre);
    await clock.advance(900);
    expect(api.sent()).toHaveLength(1);
    isSilent = false;
    await clock.advance(12_000);
    expect(api.events.size).toBe(2);
  });
  it('that is too busy to answer in time is asked again soon, and then less and less', async () => {
    const triedMs: number[] = [];
    const { spool, clock } = aSpool(
      anApi((method) => {
        if (method === 'DELETE') triedMs.push(clock.monoMs());
        return method === 'DELETE' ? status(500, 'No', 'no') : undefined;
      }),
    );
    spool.flush(thereAre);
    await clock.advance(0);
    spool.put(act());
    const putMs = clock.monoMs();
    for (let times = 0; times < 55; times++) await clock.advance(1_000);
    const pauses = triedMs.map((ms, i) => ms - (triedMs[i - 1] ?? putMs));
    expect(pauses.map((ms) => Math.floor(ms / 1_000))).toEqual([1, 1, 2, 4, 8, 10, 10, 10]);
  });
  it('that says that it may be asked again at once (Retry-After: 0) is asked less and less', async () => {
    let tried = 0;
    const { spool, clock } = aSpool(
      anApi((method) => {
        if (method === 'DELETE') tried++;
        return method === 'DELETE' ? { ...status(503, 'ServiceUnavailable', 'no'), retryAfterMs: 0 } : undefined;
      }),
    );
    spool.flush(thereAre);
    await clock.advance(0);
    spool.put(act());
    for (let times = 0; times < 55; times++) await clock.advance(1_000);
    expect(tried).toBe(8);
  });
  it('that does not grant a right leads to a finding that names it, and the rest goes on', async () => {
    let isForbidden = true;
    const text = 'pods "web-0" is forbidden: User "x" cannot delete resource "pods" in API group ""';
    const api = anApi((method) => (isForbidden && method === 'DELETE' ? status(403, 'Forbidden', text) : undefined));
    const { spool, clock, found, said } = aSpool(api);
    spool.put(act());
    spool.put(event('e-1'));
    spool.flush(thereAre);
    await clock.advance(2_000);
    expect(said()).toContain('POST events');
    expect(found.get('api-right/delete pods')).toContain('does not allow this agent to delete pods');
    expect(spool.waiting()).toEqual({ acts: 1, facts: 0 });
    isForbidden = false;
    spool.flush(thereAre);
    await clock.advance(2_000);
    expect(found.size).toBe(0);
    expect(spool.waiting().acts).toBe(0);
  });
  it('that grants the right to mark pods again is not said to lack it, once a kept deletion is sent with its mark', async () => {
    let isForbidden = true;
    const text = 'pods "web-0" is forbidden: User "x" cannot patch resource "pods/status" in API group ""';
    const api = anApi((method) => (isForbidden && method === 'PATCH' ? status(403, 'Forbidden', text) : undefined));
    const { spool, clock, found } = aSpool(api);
    for (const named of [true, false]) {
      isForbidden = named;
      spool.put(act({ decision: `d-${named}` }));
      spool.flush(thereAre);
      await clock.advance(2_000);
      expect(spool.waiting().acts).toBe(0);
      expect([...found.keys()]).toEqual(named ? ['api-right/patch pods/status'] : []);
    }
  });
  it.each([403, 500])('that answers %i gets no deletion of a pod that has recovered meanwhile', async (code) => {
    let isRefused = true;
    const api = anApi((method) => (isRefused && method === 'DELETE' ? status(code, 'No', 'no') : undefined));
    const { spool, clock, said, ready } = aSpool(api);
    spool.put(act());
    spool.flush(thereAre);
    ready.add(VICTIM.uid);
    await clock.advance(50_000);
    expect(spool.waiting().acts).toBe(1);
    await clock.advance(30_000);
    isRefused = false;
    await clock.advance(200_000);
    expect(said()).toEqual([]);
    expect(spool.waiting().acts).toBe(0);
  });
  it('that has not listed the pods anew gets no deletion of one that may have recovered', async () => {
    let isSilent = true;
    const api = anApi((method) => (isSilent && method === 'DELETE' ? 'silence' : undefined));
    const { spool, clock, said, stale } = aSpool(api);
    spool.put(act());
    spool.flush(thereAre);
    stale.is = true;
    await clock.advance(60_000);
    isSilent = false;
    await clock.advance(60_000);
    expect([said(), spool.waiting().acts]).toEqual([[], 1]);
    stale.is = false;
    spool.flush(thereAre);
    await clock.advance(1_000);
    expect(said()).toEqual(['PATCH status', 'DELETE web-0']);
  });
  it.each([
    ['403', () => status(403, 'Forbidden', 'admission webhook "keep.example" denied the request')],
    ['500', () => status(500, 'InternalError', 'failed calling webhook "keep.example": connection refused')],
    ['409', () => status(409, 'Conflict', 'please try again')],
    ['503 and a delay', () => ({ ...status(503, 'ServiceUnavailable', 'no'), retryAfterMs: 300_000 })],
    ['nothing', () => 'silence' as const],
  ])('that answers %s to a deletion gets that of another pod soon', async (_, say) => {
    const other = { ...VICTIM, name: 'db-0', uid: 'cccccccc-0000-4000-8000-00000000000c' };
    const { name, namespace, uid } = other;
    const api = anApi((method, path) => (method === 'DELETE' && path.endsWith('/web-0') ? say() : undefined));
    api.pods.set('/api/v1/namespaces/shop/pods/db-0', { metadata: { name, namespace, uid }, spec: { nodeName: NODE } });
    const { spool, clock, said } = aSpool(api);
    spool.put(act());
    spool.put(act({ decision: 'd-2', victim: other }));
    spool.flush(thereAre);
    await clock.advance(1_500);
    expect(said()).toContain('DELETE db-0');
    expect(spool.waiting().acts).toBe(1);
  });
  it('that asks to wait with an event gets deletions meanwhile, and no event before that time', async () => {
    const busy = { ...status(503, 'ServiceUnavailable', 'maintenance'), retryAfterMs: 300_000 };
    const { spool, clock, said } = aSpool(anApi((_, path) => (path.endsWith('/events') ? busy : undefined)));
    spool.put(event('e-1'));
    spool.put(event('e-2'));
    spool.flush(thereAre);
    await clock.advance(1_000);
    spool.put(act({ madeAtMs: clock.monoMs() }));
    await clock.advance(2_000);
    expect(said()).toEqual(['POST events', 'PATCH status', 'DELETE web-0']);
    spool.flush(thereAre);
    await clock.advance(290_000);
    expect(said()).toHaveLength(3);
    await clock.advance(10_000);
    expect(said()).toHaveLength(4);
  });
  it('gets a deletion again in time, however many events come', async () => {
    let fails = 1;
    const api = anApi((method) => (method === 'DELETE' && fails-- > 0 ? 'silence' : undefined));
    const { spool, clock, said } = aSpool(api);
    spool.put(act());
    spool.flush(thereAre);
    for (let n = 0; n < 10; n++) {
      await clock.advance(500);
      const fact = event(`e-${n}`);
      spool.put(fact);
      await clock.advance(0);
      spool.said(fact);
    }
    expect(said()).toContain('DELETE web-0');
  });
  it('whose webhook has no dry run still gets the mark and the deletion', async () => {
    const noDryRun = status(400, 'BadRequest', 'admission webhook "x" does not support dry run');
    const api = anApi((_, __, body) => (body?.['dryRun'] === undefined ? undefined : noDryRun));
    const { spool, clock, said } = aSpool(api);
    spool.put(act());
    spool.flush(thereAre);
    await clock.advance(2_000);
    expect(said()).toEqual(['PATCH status', 'DELETE web-0']);
  });
  it('that will never accept a request makes the agent drop and log it', async () => {
    const api = anApi((method) => (method === 'POST' ? notFound('namespaces', 'shop') : undefined));
    const { spool, clock, logged } = aSpool(api);
    spool.put(event('e-1'));
    spool.flush(thereAre);
    await clock.advance(1_000);
    expect(spool.waiting().facts).toBe(0);
    expect(logged.join()).toContain('event/shop/e-1');
  });
  it('whose node is another machine gets nothing, and a finding says so', async () => {
    const api = anApi();
    api.node.status.nodeInfo.bootID = EARLIER_BOOT;
    const { spool, clock, found } = aSpool(api);
    spool.put(act());
    spool.flush(thereAre);
    await clock.advance(2_000);
    expect(api.sent()).toEqual([]);
    expect(found.has('not-our-node')).toBe(true);
    expect(api.pods.get(POD_PATH)?.metadata).not.toHaveProperty('deletionTimestamp');
  });
});
