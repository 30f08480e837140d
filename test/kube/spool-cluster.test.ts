import { describe, expect, it } from 'vitest';
import { act, aSpool, event, thereAre } from './a-spool.ts';
import { anApi, NODE_UID, POD_PATH } from './an-api.ts';

const OTHER_NODE = 'cccccccc-0000-4000-8000-00000000000c';
const bound = { nodeUid: NODE_UID };

describe('saved requests of one cluster', () => {
  it('are sent to no other one: they are dropped, counted, and a finding says so', async () => {
    const api = anApi();
    const { spool, clock, found, noted, said } = aSpool(api);
    let isEnding: boolean | null = null;
    spool.put({ ...event('e-1'), ...bound });
    spool.put({ ...event('e-2'), ...bound });
    spool.put({ ...act(), ...bound }, (isSo) => {
      isEnding = isSo;
    });
    api.node.metadata.uid = OTHER_NODE;
    // It has a pod of that name, too.
    spool.flush(thereAre);
    await clock.advance(10_000);
    expect(said()).toEqual([]);
    expect(spool.waiting()).toEqual({ acts: 0, facts: 0 });
    expect(found.get('spool-other-node')).toContain('2 events');
    expect(noted).toEqual([['d-1', 'withdraw', expect.stringContaining('another cluster'), undefined]]);
    expect(isEnding).toBeNull();
    spool.put({ ...event('e-3'), nodeUid: OTHER_NODE });
    await clock.advance(10_000);
    expect([...api.events.keys()].map((path) => path.slice(path.lastIndexOf('/') + 1))).toEqual(['e-3']);
    // The server has received an event about the node that it has.
    expect(found.has('spool-other-node')).toBe(false);
    spool.put({ ...event('e-4'), ...bound });
    await clock.advance(10_000);
    expect(found.get('spool-other-node')).toContain('1 event ');
  });

  it('are bound to it also over a restart', async () => {
    const api = anApi();
    const first = aSpool(api);
    first.spool.put({ ...event('e-1'), ...bound });
    await first.spool.close();
    api.node.metadata.uid = OTHER_NODE;
    const { spool, clock, found } = aSpool(api);
    spool.flush(thereAre);
    await clock.advance(10_000);
    expect([api.sent(), found.get('spool-other-node')]).toEqual([[], expect.stringContaining('1 event')]);
  });

  it('are kept while the server does not show its node', async () => {
    let isSilent = true;
    const api = anApi((method) => (isSilent && method === 'GET' ? 'silence' : undefined));
    const { spool, clock } = aSpool(api);
    spool.put({ ...event('e-1'), ...bound });
    spool.flush(thereAre);
    await clock.advance(20_000);
    expect(spool.waiting()).toEqual({ acts: 0, facts: 1 });
    isSilent = false;
    await clock.advance(30_000);
    expect([spool.waiting().facts, api.events.size]).toEqual([0, 1]);
    expect(api.pods.has(POD_PATH)).toBe(true);
  });
});
