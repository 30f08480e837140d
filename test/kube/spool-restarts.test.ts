import fs from 'node:fs';
import { describe, expect, it } from 'vitest';
import { ENTRIES_MAX } from '../../src/kube/spool/spool.ts';
import { act, aSpool, directory, event, file, thereAre, unsavedPath } from './a-spool.ts';
import { EARLIER_BOOT, VICTIM } from './an-api.ts';

const uidOf = (n: number): string => `${String(n).padStart(8, '0')}-0000-4000-8000-000000000000`;

describe('saved requests across restarts of the agent', () => {
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
    const { spool, found, clock } = aSpool();
    spool.put(event('e-1'));
    await spool.saved();
    expect(found.has('spool')).toBe(true);
    expect(spool.waiting().facts).toBe(1);
    fs.rmSync(directory);
    fs.mkdirSync(directory);
    await clock.advance(10_000);
    await spool.saved();
    expect(found.has('spool')).toBe(false);
    expect(aSpool().spool.waiting().facts).toBe(1);
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
