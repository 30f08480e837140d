import { describe, expect, it } from 'vitest';
import { act, aSpool, event, thereAre } from './a-spool.ts';
import { anApi, EARLIER_BOOT, notFound, POD_PATH, status, VICTIM } from './an-api.ts';

describe('saved requests: a server', () => {
  it('that is silent is tried again later', async () => {
    let isSilent = true;
    const api = anApi((method) => (isSilent && method !== 'GET' ? 'silence' : undefined));
    const { spool, clock } = aSpool(api);
    spool.put(event('e-1'));
    spool.put(event('e-2'));
    spool.flush(thereAre);
    await clock.advance(1_000);
    expect(api.sent()).toHaveLength(1);
    isSilent = false;
    await clock.advance(12_000);
    expect(api.events.size).toBe(2);
  });
  it('that does not grant a right leads to a finding that names it, and the rest goes on', async () => {
    let isForbidden = true;
    const api = anApi((method) => (isForbidden && method === 'DELETE' ? status(403, 'Forbidden', 'no') : undefined));
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
