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

describe('what could not be said', () => {
  it('is said after a relist: the pod marked and deleted first, events last', async () => {
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
  it('goes out at five writes a second at most', async () => {
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
  it('is dropped where the relist does not show the pod, or shows another one under its name', async () => {
    const { spool, clock, said } = aSpool();
    spool.put(act());
    spool.put(event('e-1'));
    spool.flush((uid) => uid !== VICTIM.uid);
    await clock.advance(1_000);
    expect(said()).toEqual(['POST events']);
  });
  it('is kept while nobody knows which pods there are', async () => {
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
  it('an act is too late after five minutes, an event never', async () => {
    const { spool, clock, said } = aSpool();
    spool.put(act());
    spool.put(event('e-1'));
    await clock.advance(300_001);
    spool.flush(thereAre);
    await clock.advance(1_000);
    expect(said()).toEqual(['POST events']);
  });
  it('an act is withdrawn when its end was accepted after all, also for the next run of the agent', async () => {
    const first = aSpool();
    first.spool.put(act());
    first.spool.heard(VICTIM.uid);
    await first.spool.saved();
    const { spool, clock, said } = aSpool();
    spool.flush(thereAre);
    await clock.advance(1_000);
    expect(said()).toEqual([]);
  });
  it('the later act for a pod takes the place of the earlier', async () => {
    const { spool, clock, api } = aSpool();
    spool.put(act({ graceSeconds: 30 }));
    spool.put(act({ graceSeconds: 2 }));
    spool.flush(thereAre);
    await clock.advance(1_000);
    expect(api.sent().filter(({ method }) => method === 'DELETE')).toMatchObject([{ body: { gracePeriodSeconds: 2 } }]);
  });
  it('the later act counts also if it comes while the earlier is being said', async () => {
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

describe('what became of a deletion that was kept', () => {
  it.each([
    ['it was sent', true, async ({ spool }: Staged) => spool.flush(thereAre)],
    ['the pod is being deleted', true, async ({ spool }: Staged) => spool.flush(() => false)],
    ['the first answer came late', true, async ({ spool }: Staged) => spool.heard(VICTIM.uid)],
    ['the pod is well', false, aMinuteLater],
    ['nobody knows', null, tooLate],
  ])('is said to who kept it: %s', async (_, isEnding, then) => {
    const staged = aSpool();
    const known: boolean[] = [];
    staged.spool.put(act(), (isSo) => void known.push(isSo));
    await then(staged);
    await staged.clock.advance(1_000);
    expect(known).toEqual(isEnding === null ? [] : [isEnding]);
    expect(staged.spool.waiting().acts).toBe(0);
  });
  it('belongs to its decision, also in the next run: what was sent, and the answer', async () => {
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
  it('also where it was sent in vain, and why it is sent no more', async () => {
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
  it('is nothing where the first answer came while it was being asked for anew', async () => {
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
  it('is not said of a decision of another boot, which has the number of one of this boot', async () => {
    const { spool } = aSpool();
    spool.put(act({ bootId: EARLIER_BOOT }));
    await spool.saved();
    const { spool: next, noted } = aSpool();
    expect(next.waiting().acts).toBe(0);
    expect(noted).toEqual([]);
  });
});

describe('a server that does not do it', () => {
  it('and is silent: it waits, and is tried again', async () => {
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
  it('and has no right for it: a finding names the right, and what it has a right for goes on', async () => {
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
  it.each([403, 500])('with %i: a pod that has recovered meanwhile is deleted no more', async (code) => {
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
  it('where a webhook has no dry run, the pod is marked and deleted nevertheless', async () => {
    const noDryRun = status(400, 'BadRequest', 'admission webhook "x" does not support dry run');
    const api = anApi((_, __, body) => (body?.['dryRun'] === undefined ? undefined : noDryRun));
    const { spool, clock, said } = aSpool(api);
    spool.put(act());
    spool.flush(thereAre);
    await clock.advance(2_000);
    expect(said()).toEqual(['PATCH status', 'DELETE web-0']);
  });
  it('and never will: it is dropped, and logged', async () => {
    const api = anApi((method) => (method === 'POST' ? notFound('namespaces', 'shop') : undefined));
    const { spool, clock, logged } = aSpool(api);
    spool.put(event('e-1'));
    spool.flush(thereAre);
    await clock.advance(1_000);
    expect(spool.waiting().facts).toBe(0);
    expect(logged.join()).toContain('event/shop/e-1');
  });
  it('because the machine is another one: nothing is sent, and a finding says so', async () => {
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

describe('over the end of the agent', () => {
  it('what waits is on the disk once it is saved, and said by the next run', async () => {
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
  it('after a boot there is nothing to end, but events are told', async () => {
    const { spool } = aSpool();
    spool.put(act({ bootId: EARLIER_BOOT }));
    spool.put(event('e-1'));
    await spool.saved();
    expect(aSpool().spool.waiting()).toEqual({ acts: 0, facts: 1 });
  });
  it('a line that a killed writer tore is passed over, without a complaint', async () => {
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
  ])('a line that %s is kept aside and never said; what is whole goes on', async (_, line) => {
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
  it('the file does not grow for ever', async () => {
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
  it('where the directory is a file it goes on in memory, says so, and saves everything once it can', async () => {
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
  it('an act that the disk has not taken is known to the next run, and on the disk there', async () => {
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
  it('nor does it forget that an act is done', async () => {
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
  it('is bounded: the oldest events go, acts stay, and it says how many', async () => {
    const { spool, found } = aSpool();
    spool.put(act());
    for (let n = 0; n < ENTRIES_MAX + 1; n++) spool.put(event(`e-${n}`));
    expect(spool.waiting()).toEqual({ acts: 1, facts: ENTRIES_MAX - 1 });
    expect(found.get('spool-full')).toContain('2 messages');
    await spool.saved();
  });
});
