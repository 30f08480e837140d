import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ENTRIES_MAX, openSpool, type Spool } from '../../src/kube/spool.ts';
import type { Spooled } from '../../src/kube/spool-file.ts';
import type { ApiEvent } from '../../src/kube/write-rules.ts';
import { aClock } from './a-clock.ts';
import { anApi, BOOT, EARLIER_BOOT, notFound, POD_PATH, status, VICTIM, writesTo } from './an-api.ts';

let directory = '';
let file = '';
let unsavedPath = '';
const open: Spool[] = [];
beforeEach(() => {
  directory = fs.mkdtempSync(path.join(os.tmpdir(), 'spool-'));
  file = path.join(directory, 'spool.jsonl');
  unsavedPath = `${directory}.unsaved`;
});
afterEach(async () => {
  await Promise.all(open.splice(0).map((spool) => spool.close()));
  fs.rmSync(directory, { recursive: true });
  fs.rmSync(unsavedPath, { force: true });
});

const uidOf = (n: number): string => `${String(n).padStart(8, '0')}-0000-4000-8000-000000000000`;
const act = (rest: Partial<Extract<Spooled, { kind: 'delete' }>> = {}): Spooled => ({
  kind: 'delete',
  decision: 'd-1',
  victim: VICTIM,
  graceSeconds: 1,
  why: 'EvictionByNodewarden',
  message: 'memory',
  madeAtMs: 1_000_000,
  bootId: BOOT,
  ...rest,
});
const event = (name: string): Spooled => {
  const about = { kind: 'Pod', namespace: VICTIM.namespace, name: VICTIM.name, uid: VICTIM.uid } as const;
  const told: ApiEvent = {
    name,
    about,
    reason: 'Evicted',
    type: 'Warning',
    message: 'm',
    annotations: {},
    firstWallMs: 0,
    lastWallMs: 0,
    count: 1,
  };
  return { kind: 'event', event: told };
};

function aSpool(api = anApi(), clock = aClock()) {
  const found = new Map<string, string>();
  const logged: string[] = [];
  const noted: unknown[] = [];
  const log = (_: unknown, msg: string) => void logged.push(msg);
  const ready = new Set<string>();
  const spool = openSpool({
    clock,
    hasRecovered: (uid, sinceMs) => ready.has(uid) && clock.monoMs() - sinceMs >= 60_000,
    directory,
    unsavedPath,
    bootId: BOOT,
    writes: writesTo(api),
    isUp: () => true,
    findings: { raise: ({ id, text }) => void found.set(id, text), clear: (id) => void found.delete(id) },
    log: { info: log, warn: log },
    note: ({ of, act: did, answer, isAccepted }) => void noted.push([of, did, answer, isAccepted]),
  });
  open.push(spool);
  const said = () => api.sent().map(({ method, path: at }) => `${method} ${at.slice(at.lastIndexOf('/') + 1)}`);
  return { spool, clock, api, found, logged, noted, said, ready };
}
type Staged = ReturnType<typeof aSpool>;
const thereAre = () => true;
async function tooLate({ spool, clock }: Staged): Promise<void> {
  await clock.advance(300_001);
  spool.flush(thereAre);
}
async function aMinuteLater({ spool, clock, ready }: Staged): Promise<void> {
  ready.add(VICTIM.uid);
  await clock.advance(60_001);
  spool.flush(thereAre);
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
  it('are dropped if the relist does not show the pod, or shows another one of that name', async () => {
    const { spool, clock, said } = aSpool();
    spool.put(act());
    spool.put(event('e-1'));
    spool.flush((uid) => uid !== VICTIM.uid);
    await clock.advance(1_000);
    expect(said()).toEqual(['POST events']);
  });
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
    expect(noted.at(-1)).toEqual([
      'd-1',
      'withdraw',
      'the API server shows the pod as gone, or as being deleted',
      undefined,
    ]);
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
  it('is not attributed to this boot if it is of another one, although the decisions have the same numbers', async () => {
    const { spool } = aSpool();
    spool.put(act({ bootId: EARLIER_BOOT }));
    await spool.saved();
    const { spool: next, noted } = aSpool();
    expect(next.waiting().acts).toBe(0);
    expect(noted).toEqual([]);
  });
});

describe('a server', () => {
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

describe('across restarts of the agent', () => {
  it('what is saved is on the disk, and the next run sends it', async () => {
    const { spool } = aSpool();
    spool.put(act());
    spool.put(event('e-1'));
    await spool.saved();
    const later = aSpool();
    expect(later.spool.waiting()).toEqual({ acts: 1, facts: 1 });
    later.spool.flush(thereAre);
    await later.clock.advance(1_000);
    expect(later.said()).toEqual(['PATCH status', 'DELETE web-0', 'POST events']);
    await later.spool.close();
    expect(aSpool().spool.waiting()).toEqual({ acts: 0, facts: 0 });
  });
  it('a reboot drops deletions, but not events', async () => {
    const { spool } = aSpool();
    spool.put(act({ bootId: EARLIER_BOOT }));
    spool.put(event('e-1'));
    await spool.saved();
    expect(aSpool().spool.waiting()).toEqual({ acts: 0, facts: 1 });
  });
  it('a line cut off by a kill is skipped without a finding', async () => {
    const { spool } = aSpool();
    spool.put(event('e-1'));
    await spool.close();
    fs.appendFileSync(file, '{"schema":1,"entry":{"ki');
    const { spool: next, found } = aSpool();
    expect(next.waiting().facts).toBe(1);
    expect(found.size).toBe(0);
    next.put(event('e-2'));
    await next.close();
    expect(aSpool().spool.waiting().facts).toBe(2);
  });
  it.each([
    ['is no JSON', 'garbage'],
    ['has another shape', '{"schema":1,"entry":{"kind":"delete"}}'],
    [
      'would end a mirror pod',
      JSON.stringify({ schema: 1, entry: { ...act(), victim: { ...VICTIM, isMirror: true } } }),
    ],
    ['would end a pod without grace', JSON.stringify({ schema: 1, entry: act({ graceSeconds: 0 }) })],
    ['leads out of its path', JSON.stringify({ schema: 1, entry: act({ victim: { ...VICTIM, name: '../..' } }) })],
  ])('a line that %s is set aside and never sent; intact lines are', async (_, line) => {
    const { spool } = aSpool();
    spool.put(event('e-1'));
    await spool.close();
    fs.appendFileSync(file, `${line}\n`);
    const { spool: next, clock, said, found } = aSpool();
    expect(found.get('spool-corrupt')).toContain('1 line that');
    await next.saved();
    expect(fs.readdirSync(directory).some((name) => name.startsWith('spool.jsonl.corrupt-'))).toBe(true);
    expect(fs.readFileSync(file, 'utf8')).not.toContain(line);
    next.flush(thereAre);
    await clock.advance(1_000);
    expect(said()).toEqual(['POST events']);
  });
  it('the file does not grow without bound', async () => {
    const { spool } = aSpool();
    for (let n = 0; n < 1_500; n++) {
      spool.put(act({ victim: { ...VICTIM, uid: uidOf(n) } }));
      spool.heard(uidOf(n));
    }
    await spool.saved();
    spool.put(event('e-1'));
    await spool.saved();
    expect(fs.readFileSync(file, 'utf8').split('\n').length).toBeLessThan(1_100);
    expect(aSpool().spool.waiting()).toEqual({ acts: 0, facts: 1 });
  });
  it('with a file in place of the directory it goes on in memory, says so, and saves everything once it can', async () => {
    fs.rmSync(directory, { recursive: true });
    fs.writeFileSync(directory, '');
    const { spool, found } = aSpool();
    spool.put(event('e-1'));
    await spool.saved();
    expect(found.has('spool')).toBe(true);
    expect(spool.waiting().facts).toBe(1);
    fs.rmSync(directory);
    fs.mkdirSync(directory);
    spool.put(event('e-2'));
    await spool.saved();
    expect(found.has('spool')).toBe(false);
    expect(aSpool().spool.waiting().facts).toBe(2);
  });
  it('a deletion that the disk did not take is known to the next run, which saves it', async () => {
    fs.rmSync(directory, { recursive: true });
    fs.writeFileSync(directory, '');
    const killed = aSpool();
    killed.spool.put(act());
    await killed.spool.saved();
    fs.rmSync(directory);
    fs.mkdirSync(directory);
    const next = aSpool();
    expect([next.spool.waiting().acts, next.found.has('spool')]).toEqual([1, false]);
    await next.spool.saved();
    expect(fs.readFileSync(unsavedPath, 'utf8')).toBe('');
    expect(aSpool().spool.waiting().acts).toBe(1);
  });
  it('a deletion that is done stays done, even if the disk did not take that', async () => {
    fs.rmSync(directory, { recursive: true });
    fs.writeFileSync(directory, '');
    const killed = aSpool();
    killed.spool.put(act());
    killed.spool.heard(VICTIM.uid);
    await killed.spool.saved();
    fs.rmSync(directory);
    fs.mkdirSync(directory);
    expect(aSpool().spool.waiting().acts).toBe(0);
  });
  it('the spool is bounded: the oldest events are dropped, deletions stay, and a finding gives the number', async () => {
    const { spool, found } = aSpool();
    spool.put(act());
    for (let n = 0; n < ENTRIES_MAX + 1; n++) spool.put(event(`e-${n}`));
    expect(spool.waiting()).toEqual({ acts: 1, facts: ENTRIES_MAX - 1 });
    expect(found.get('spool-full')).toContain('2 messages');
    await spool.saved();
  });
});
