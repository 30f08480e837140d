import { describe, expect, it } from 'vitest';
import type { EventObject } from '../../src/kube/api/write-rules.ts';
import { createEvents } from '../../src/kube/spool/events.ts';
import { keyOf, type Spooled } from '../../src/kube/spool/spool-file.ts';
import { aClock } from './a-clock.ts';
import { anApi, NODE, status, VICTIM, writesTo } from './an-api.ts';

function aTeller(api = anApi(), isUp = () => true) {
  const clock = aClock();
  const spooled: Spooled[] = [];
  const kept: string[] = [];
  const found: string[] = [];
  const events = createEvents({
    clock,
    nodeName: NODE,
    writes: writesTo(api),
    isUp,
    spool: {
      put: (entry) => {
        spooled.push(entry);
        kept.push(keyOf(entry));
      },
      said: (entry) => void spooled.splice(spooled.indexOf(entry), 1),
    },
    findings: { raise: ({ id }) => void found.push(id), clear: () => undefined },
  });
  const pod: EventObject = { kind: 'Pod', namespace: VICTIM.namespace, name: VICTIM.name, uid: VICTIM.uid };
  const tell = (decision: string, about: EventObject = pod) =>
    events.tell({ reason: 'Evicted', about, message: decision, annotations: { starved_resource: 'memory' }, decision });
  return { clock, api, events, tell, spooled, kept, found };
}

describe('events', () => {
  it('are not sent in the turn in which they are reported', async () => {
    const { clock, api, tell } = aTeller();
    tell('1a2b3c4d-7');
    expect(api.asked).toEqual([]);
    await clock.advance(1);
    expect([...api.events.keys()]).toEqual(['/api/v1/namespaces/shop/events/web-0.nodewarden-evicted-1a2b3c4d-7']);
  });
  it('are limited after 25 of one object to one in five minutes, with a count of those in between', async () => {
    const { clock, api, tell } = aTeller();
    for (let n = 0; n < 40; n++) tell(`d-${n}`);
    await clock.advance(1);
    expect(api.events.size).toBe(25);
    expect(api.sent()).toHaveLength(25);
    await clock.advance(299_000);
    expect(api.sent()).toHaveLength(25);
    await clock.advance(1_500);
    expect(api.sent()).toHaveLength(27);
    expect([...api.events.values()].at(-1)).toMatchObject({ count: 16, message: 'd-39' });
    // Another object has a burst of its own.
    tell('d-41', { kind: 'Node' });
    await clock.advance(1);
    expect(api.events.size).toBe(26);
  });
  it('are created again with their count if they have expired', async () => {
    const { clock, api, tell } = aTeller();
    for (let n = 0; n < 27; n++) tell(`d-${n}`);
    await clock.advance(1);
    api.events.clear();
    await clock.advance(300_500);
    expect([...api.events.values()]).toMatchObject([{ count: 3 }]);
  });
  it('wait with their true time if the server does not accept them', async () => {
    const { clock, tell, spooled } = aTeller(anApi((method) => (method === 'POST' ? 'silence' : undefined)));
    const toldAtMs = clock.wallMs();
    tell('d-1');
    await clock.advance(60_000);
    expect(spooled).toMatchObject([{ kind: 'event', event: { firstWallMs: toldAtMs, message: 'd-1' } }]);
  });
  it('are kept on the disk before they are sent, until the server has them', async () => {
    let answer = (): void => undefined;
    const api = anApi();
    const isAnswered = new Promise<void>((resolve) => {
      answer = resolve;
    });
    const send: typeof api.send = async (request) => {
      await isAnswered;
      return api.send(request);
    };
    const { clock, tell, spooled, kept } = aTeller({ ...api, send });
    tell('d-1');
    expect(kept).toEqual([]);
    await clock.advance(1);
    expect(kept).toHaveLength(1);
    expect(spooled).toHaveLength(1);
    answer();
    await clock.advance(1);
    expect([api.events.size, spooled.length]).toEqual([1, 0]);
  });
  it('are not sent to a server that is away', async () => {
    const { clock, api, tell, spooled } = aTeller(anApi(), () => false);
    tell('d-1');
    await clock.advance(1);
    expect(api.asked).toEqual([]);
    expect(spooled).toHaveLength(1);
  });
  it('cause a finding without the right for them, and nothing waits forever', async () => {
    const api = anApi((method) => (method === 'POST' ? status(403, 'Forbidden', 'no') : undefined));
    const { clock, tell, spooled, found } = aTeller(api);
    tell('d-1');
    await clock.advance(1);
    expect(found).toEqual(['api-right/create events']);
    expect(spooled).toEqual([]);
  });
  it('wait while the server does not know who sends them (401)', async () => {
    const api = anApi((method) => (method === 'POST' ? status(401, 'Unauthorized', 'Unauthorized') : undefined));
    const { clock, tell, spooled, found } = aTeller(api);
    tell('d-1');
    await clock.advance(1);
    expect(api.sent()).toHaveLength(1);
    expect(spooled).toMatchObject([{ kind: 'event', event: { message: 'd-1' } }]);
    expect(found).toEqual([]);
  });
  it('wait if they were not sent when the agent ends', async () => {
    const { clock, events, tell, spooled } = aTeller();
    for (let n = 0; n < 30; n++) tell(`d-${n}`);
    await clock.advance(1);
    events.close();
    expect(spooled).toMatchObject([{ event: { count: 6 } }]);
  });
  it('also exist for a pod with the longest possible name', async () => {
    const { clock, api, tell } = aTeller();
    const name = `${'a'.repeat(62)}.${'b'.repeat(62)}.${'c'.repeat(62)}.${'d'.repeat(62)}`;
    tell('1a2b3c4d-7', { kind: 'Pod', namespace: 'shop', name, uid: VICTIM.uid });
    await clock.advance(1);
    const [key] = api.events.keys();
    expect(key?.slice('/api/v1/namespaces/shop/events/'.length)).toMatch(/^[a-z0-9][a-z0-9.-]{0,251}[a-z0-9]$/);
  });
});
