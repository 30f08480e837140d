import { describe, expect, it } from 'vitest';
import { act, aSpool, event, type Staged, thereAre } from './a-spool.ts';
import { anApi, EARLIER_BOOT, NODE, POD_PATH, status, VICTIM } from './an-api.ts';

async function tooLate({ spool, clock }: Staged): Promise<void> {
  await clock.advance(300_001);
  spool.flush(thereAre);
}
async function aMinuteLater({ spool, clock, ready }: Staged): Promise<void> {
  ready.add(VICTIM.uid);
  await clock.advance(60_001);
  spool.flush(thereAre);
}

function finish({ pods }: ReturnType<typeof anApi>): void {
  Object.assign(pods.get(POD_PATH) ?? {}, { status: { phase: 'Succeeded' } });
}

describe('saved requests', () => {
  it('are sent after a relist: first the pod is marked and deleted, events come last', async () => {
    const { spool, clock, said, api } = aSpool();
    spool.put(event('e-1'));
    spool.put(act());
    await clock.advance(60_000);
    expect(said()).toEqual([]);
    spool.flush(thereAre);
    await clock.advance(1_000);
    expect(said()).toEqual(['PATCH status', 'DELETE web-0', 'POST events']);
    expect(api.sent()[1]?.body).toMatchObject({ gracePeriodSeconds: 1, preconditions: { uid: VICTIM.uid } });
    expect(spool.waiting()).toEqual({ acts: 0, facts: 0 });
  });
  it('are sent at five writes a second at most', async () => {
    const { spool, clock, said } = aSpool();
    for (let n = 0; n < 20; n++) spool.put(event(`e-${n}`));
    spool.put(act());
    spool.flush(thereAre);
    await clock.advance(0);
    for (let second = 1; second <= 5; second++) {
      await clock.advance(999);
      expect(said().length).toBeLessThanOrEqual(5 * second + 1);
      await clock.advance(1);
    }
    expect(said()).toHaveLength(22);
  });
  it('are dropped if the relist shows the pod as being deleted', async () => {
    const { spool, clock, said } = aSpool();
    spool.put(act());
    spool.put(event('e-1'));
    spool.flush((uid) => uid !== VICTIM.uid);
    await clock.advance(1_000);
    expect(said()).toEqual(['POST events']);
  });
  it.each([
    ['no pod of that name', {}, null, 'the API server shows the pod as gone', true],
    ['another one', { uid: 'other' }, NODE, 'the API server shows the pod as gone', true],
    ['it on another node', {}, 'node-2', 'not sent: the API server does not show it on this node', null],
    ['it here', {}, NODE, 'accepted', true],
  ])(
    'of a deletion of a pod that is in no list depend on the server, which shows %s',
    async (_, more, on, how, ends) => {
      const { spool, clock, api, noted, said } = aSpool();
      const metadata = { name: VICTIM.name, namespace: VICTIM.namespace, uid: VICTIM.uid, ...more };
      if (on === null) api.pods.delete(POD_PATH);
      else api.pods.set(POD_PATH, { metadata, spec: { nodeName: on } });
      const known: boolean[] = [];
      spool.put(act(), (isSo) => void known.push(isSo));
      spool.flush(() => null);
      await clock.advance(1_000);
      expect(said()).toEqual(how === 'accepted' ? ['PATCH status', 'DELETE web-0'] : []);
      expect(noted).toContainEqual(
        how === 'accepted' ? ['d-1', 'delete', how, true] : ['d-1', 'withdraw', how, undefined],
      );
      expect(known).toEqual(ends === null ? [] : [ends]);
      expect(spool.waiting().acts).toBe(0);
    },
  );
  it('are kept while it is unknown which pods exist', async () => {
    let pods: boolean | null = null;
    const { spool, clock, said } = aSpool(
      anApi((method) => (pods === null && method !== 'GET' ? 'silence' : undefined)),
    );
    spool.put(act());
    spool.flush(() => pods);
    await clock.advance(5_000);
    expect(spool.waiting().acts).toBe(1);
    pods = true;
    await clock.advance(12_000);
    expect(spool.waiting().acts).toBe(0);
    expect(said()).toContain('DELETE web-0');
  });
  it('of a deletion expire after five minutes, of an event never', async () => {
    const { spool, clock, said } = aSpool();
    spool.put(act());
    spool.put(event('e-1'));
    await clock.advance(300_001);
    spool.flush(thereAre);
    await clock.advance(1_000);
    expect(said()).toEqual(['POST events']);
  });
  it('of a deletion are withdrawn if the first one was accepted after all, in the next run too', async () => {
    const first = aSpool();
    first.spool.put(act());
    first.spool.heard(VICTIM.uid);
    await first.spool.saved();
    const { spool, clock, said } = aSpool();
    spool.flush(thereAre);
    await clock.advance(1_000);
    expect(said()).toEqual([]);
  });
  it('of a deletion replace an earlier one for the same pod', async () => {
    const { spool, clock, api } = aSpool();
    spool.put(act({ graceSeconds: 30 }));
    spool.put(act({ graceSeconds: 2 }));
    spool.flush(thereAre);
    await clock.advance(1_000);
    expect(api.sent().filter(({ method }) => method === 'DELETE')).toMatchObject([{ body: { gracePeriodSeconds: 2 } }]);
  });
  it('of a deletion still count if they come while an earlier one is being sent', async () => {
    const { spool, clock, api } = aSpool();
    spool.put(act({ graceSeconds: 30 }));
    spool.flush(thereAre);
    spool.put(act({ graceSeconds: 2 }));
    await clock.advance(5_000);
    const graces = api
      .sent()
      .flatMap(({ method, body }) => (method === 'DELETE' ? [body?.['gracePeriodSeconds']] : []));
    expect(graces.at(-1)).toBe(2);
    expect(spool.waiting().acts).toBe(0);
  });
});

describe('a saved deletion', () => {
  it.each([
    ['it was sent', true, async ({ spool }: Staged) => spool.flush(thereAre)],
    ['the pod is being deleted', true, async ({ spool }: Staged) => spool.flush(() => false)],
    ['the first answer came late', true, async ({ spool }: Staged) => spool.heard(VICTIM.uid)],
    ['the pod is well', false, aMinuteLater],
    ['nobody knows', null, tooLate],
  ])('tells whoever saved it how it ended: %s', async (_, isEnding, then) => {
    const staged = aSpool();
    const known: boolean[] = [];
    staged.spool.put(act(), (isSo) => void known.push(isSo));
    await then(staged);
    await staged.clock.advance(1_000);
    expect(known).toEqual(isEnding === null ? [] : [isEnding]);
    expect(staged.spool.waiting().acts).toBe(0);
  });
  it.each([
    ['the list shows it', true, ({ over }: Staged) => void over.add(VICTIM.uid), () => undefined],
    ['it is in no list, and the server shows it', null, ({ api }: Staged) => finish(api), () => undefined],
    ['a dry run shows it', true, ({ api }: Staged) => finish(api), () => undefined],
    ['it ends during the dry run', true, () => undefined, ({ over }: Staged) => void over.add(VICTIM.uid)],
  ])('is withdrawn if the pod has ended, whose object would go at once: %s', async (_, isListed, before, during) => {
    const api = anApi((_method, _path, body) => {
      if (body?.['dryRun'] !== undefined) during(staged);
      return undefined;
    });
    const staged = aSpool(api);
    before(staged);
    const known: boolean[] = [];
    staged.spool.put(act(), (isSo) => void known.push(isSo));
    staged.spool.flush(() => isListed);
    await staged.clock.advance(2_000);
    expect(staged.said()).toEqual([]);
    const why = 'the API server shows that the pod has ended';
    expect(staged.noted).toEqual([['d-1', 'withdraw', why, undefined]]);
    expect(known).toEqual([false]);
    expect(staged.spool.waiting().acts).toBe(0);
  });
  it('is recorded with its decision, in the next run too: the request and the answer', async () => {
    const { spool } = aSpool();
    spool.put(act());
    await spool.saved();
    const next = aSpool();
    next.spool.flush(thereAre);
    await next.clock.advance(1_000);
    expect(next.noted).toEqual([
      ['d-1', 'delete', 'sent; the answer is not known', undefined],
      ['d-1', 'delete', 'accepted', true],
    ]);
  });
  it.each([
    ['the pod may be well again', ({ stale }: Staged) => void Object.assign(stale, { is: true })],
    ['the server took none', () => undefined],
  ])('is recorded as too old after 5 minutes, whatever it waited for: %s', async (_, then) => {
    const staged = aSpool(anApi((method) => (method === 'DELETE' ? status(500, 'No', 'no') : undefined)));
    staged.spool.put(act());
    staged.spool.flush(thereAre);
    then(staged);
    await staged.clock.advance(300_001);
    await staged.clock.advance(20_000);
    const why = 'it was more than 5 minutes old, and the API server had not accepted it';
    expect(staged.noted.at(-1)).toEqual(['d-1', 'withdraw', why, undefined]);
  });
  it('is recorded if it was sent in vain, as is why it is no longer sent', async () => {
    const api = anApi((method, _, body) =>
      method === 'DELETE' && body?.['dryRun'] === undefined ? 'silence' : undefined,
    );
    const { spool, clock, noted } = aSpool(api);
    spool.put(act());
    spool.flush(thereAre);
    await clock.advance(6_000);
    expect(noted.at(-1)).toEqual(['d-1', 'delete', expect.stringContaining('no answer'), undefined]);
    spool.flush(() => false);
    await clock.advance(12_000);
    expect(noted.at(-1)).toEqual(['d-1', 'withdraw', 'the API server shows the pod as being deleted', undefined]);
  });
  it('records nothing if the first answer came while it was being sent again', async () => {
    const api = anApi((method, _, body) => {
      if (method === 'DELETE' && body?.['dryRun'] !== undefined) spool.heard(VICTIM.uid);
      return undefined;
    });
    const { spool, clock, noted, said } = aSpool(api);
    spool.put(act());
    spool.flush(thereAre);
    await clock.advance(2_000);
    expect([said(), noted]).toEqual([[], []]);
  });
  it('ends in the record of its decision when that of a later one takes its place, which is sent', async () => {
    const { spool, clock, noted } = aSpool();
    spool.put(act());
    spool.put(act());
    expect(noted).toEqual([]);
    spool.put(act({ decision: 'd-2' }));
    expect(noted).toEqual([['d-1', 'withdraw', 'that of a later decision for the same pod took its place', undefined]]);
    spool.flush(thereAre);
    await clock.advance(1_000);
    expect(noted.slice(1)).toEqual([
      ['d-2', 'delete', 'sent; the answer is not known', undefined],
      ['d-2', 'delete', 'accepted', true],
    ]);
  });
  it('is not attributed to this boot if it is of another one, although the decisions have the same numbers', async () => {
    const { spool } = aSpool();
    spool.put(act({ bootId: EARLIER_BOOT }));
    await spool.saved();
    const { spool: next, noted } = aSpool();
    expect(next.waiting().acts).toBe(0);
    expect(noted).toEqual([]);
  });
});
