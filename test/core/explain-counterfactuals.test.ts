import { describe, expect, it } from 'vitest';
import { counterfactuals } from '../../src/core/explain.ts';
import type { Observation } from '../../src/core/observation.ts';
import type { PodView } from '../../src/core/pod/pod.ts';
import { known } from '../../src/core/reading.ts';
import type { Signal } from '../../src/core/signal.ts';
import { aConfig, aPod, aThreshold, GI, MI } from '../a.ts';
import { absent, aLook, db, dns, hard, job, requesting, short, web } from './an-explained-look.ts';

describe('what would have to change', () => {
  const ask = (pod: PodView, pods: readonly PodView[] = [web, job, db, dns]) =>
    counterfactuals(aLook(pods), 'memory.available', pod.uid);

  it('says by how much less usage, at which priority and with which request the victim would be safe', () => {
    expect(ask(web)).toEqual({
      uid: 'uid-web',
      isVictim: true,
      other: 'uid-job',
      changes: [
        // Equals go by name: at 200 MiB above its request `job` comes before `web`.
        { what: 'usage', now: 500 * MI, bound: 'at-most', value: 400 * MI },
        { what: 'priority', now: 0, bound: 'at-least', value: 1 },
        { what: 'request', now: 200 * MI, bound: 'at-least', value: 300 * MI },
        { what: 'protection', now: false },
        { what: 'evict-for', now: true },
      ],
      usageObstacle: null,
    });
  });

  it('says when a safe pod would become the victim', () => {
    expect(ask(job)?.changes).toEqual([
      { what: 'usage', now: 300 * MI, bound: 'at-least', value: 400 * MI },
      { what: 'priority', now: 0, bound: 'at-most', value: -1 },
      { what: 'request', now: 100 * MI, bound: 'at-most', value: 0 },
    ]);
  });

  it('ignores age if one of three equals has no start time', () => {
    const at = (name: string, startedAtWallMs: number | null, used: number) =>
      aPod({ name, startedAtWallMs, workingSetBytes: used });
    const pods = [at('a', 1, 10), at('b', 9, 20), at('c', null, 20)];
    expect(ask(at('a', 1, 10), pods)?.changes[0]).toEqual({ what: 'usage', now: 10, bound: 'at-least', value: 20 });
  });

  it('names the comparator that no usage overcomes', () => {
    expect(ask(db)).toMatchObject({
      changes: [],
      usageObstacle: { kind: 'decided', by: 'priority', against: 'uid-web' },
    });
    expect(ask(dns)).toMatchObject({ usageObstacle: { kind: 'passed-over', because: 'static-critical' } });
  });

  it('says so if no other pod could be chosen', () => {
    expect(ask(web, [web, dns])).toMatchObject({
      other: null,
      changes: [{ what: 'evict-for', now: true }],
      usageObstacle: { kind: 'only-candidate' },
    });
  });

  it.each([
    { other: { ...job, isProtected: true }, because: 'protected' },
    { other: { ...job, isProtected: true, usage: web.usage }, because: 'protected' },
  ])('says that no usage makes a pod safe while the other one is passed over', ({ other, because }) => {
    expect(ask(web, [web, other])).toMatchObject({
      isVictim: true,
      other: 'uid-job',
      usageObstacle: { kind: 'other-passed-over', because, against: 'uid-job' },
    });
  });

  it('says that only protection keeps a pod, and what it would take for a DaemonSet pod to be evicted', () => {
    const kept = { ...web, isProtected: true };
    expect(ask(kept, [kept, job])).toMatchObject({
      isVictim: false,
      changes: [{ what: 'protection', now: true }],
      usageObstacle: { kind: 'passed-over', because: 'protected' },
    });
    const agent = aPod({ name: 'agent', isDaemonSet: true, workingSetBytes: MI, requests: requesting(10 * MI) });
    expect(ask(agent, [agent])?.changes).toMatchObject([
      { what: 'usage', bound: 'at-least', value: 10 * MI + 1 },
      { what: 'request', bound: 'at-most', value: MI - 1 },
    ]);
  });

  it('says that only evict-for keeps a pod', () => {
    const kept = aPod({ name: 'kept', workingSetBytes: 900 * MI, evictFor: ['disk'] });
    expect(ask(kept, [kept, job])).toMatchObject({
      isVictim: false,
      changes: [{ what: 'evict-for', now: false }],
      usageObstacle: { kind: 'passed-over', because: 'evict-for' },
    });
  });

  it('considers every possible usage for a pod without statistics', () => {
    const silent = { ...web, usage: { ...web.usage, containers: absent } };
    expect(ask(silent, [silent, job])?.changes[0]).toEqual({
      what: 'usage',
      now: null,
      bound: 'at-most',
      value: 400 * MI,
    });
  });

  it("counts no images to pods if writable layers are on the node's own disk", () => {
    const observation: Partial<Observation> = { fsLayout: known('containerfs-separate') };
    const signals = { 'imagefs.available': { available: GI, capacity: 100 * GI } };
    const config = aConfig([aThreshold('imagefs.available', 2 * GI)]);
    const look = aLook([web, job], { observation, signals, config });
    expect(counterfactuals(look, 'imagefs.available', 'uid-web')?.usageObstacle).toEqual({ kind: 'not-counted' });
  });

  it('has no request to suggest for processes', () => {
    const look = aLook([aPod({ name: 'a', processes: 50 }), aPod({ name: 'b', processes: 20 })], {
      signals: { 'pid.available': { available: 10, capacity: 1_000 } },
      config: aConfig([aThreshold('pid.available', 100)]),
    });
    expect(counterfactuals(look, 'pid.available', 'uid-a')?.changes).toMatchObject([
      { what: 'usage', now: 50, bound: 'at-most', value: 19 },
      { what: 'priority', bound: 'at-least', value: 1 },
      { what: 'protection' },
      { what: 'evict-for' },
    ]);
  });

  it("suggests the request for the signal's resource", () => {
    const on = (signal: Signal, nodefsInodes = 0) => {
      const usage = (volumesBytes: number, volumesInodes: number): Partial<PodView['usage']> => ({
        disk: known({ logsBytes: 0, rootfsBytes: 0, volumesBytes, logsInodes: 0, rootfsInodes: 0, volumesInodes }),
      });
      const big = aPod({ name: 'big', usage: usage(9 * MI, 900) });
      const small = aPod({ name: 'small', usage: usage(5 * MI, 500) });
      const available = signal === 'nodefs.inodesFree' ? nodefsInodes : MI;
      const look = aLook([big, small], {
        signals: { [signal]: { available, capacity: 1_000 * MI } },
        config: aConfig([aThreshold(signal, 100 * MI)]),
      });
      return counterfactuals(look, signal, 'uid-big')?.changes;
    };
    expect(on('nodefs.available')).toContainEqual({ what: 'usage', now: 9 * MI, bound: 'at-most', value: 5 * MI - 1 });
    expect(on('nodefs.available')).toContainEqual({ what: 'request', now: 0, bound: 'at-least', value: 4 * MI + 1 });
    expect(on('nodefs.inodesFree')).toContainEqual({ what: 'usage', now: 900, bound: 'at-most', value: 499 });
  });

  it('suggests the usage that the file system layout counts', () => {
    const disk = (rootfsBytes: number, volumesBytes: number): Partial<PodView['usage']> => ({
      disk: known({ logsBytes: 0, rootfsBytes, volumesBytes, logsInodes: 0, rootfsInodes: 0, volumesInodes: 0 }),
    });
    const big = aPod({ name: 'big', usage: disk(9 * MI, 8 * MI) });
    const small = aPod({ name: 'small', usage: disk(5 * MI, 3 * MI) });
    const on = (signal: Signal) => {
      const look = aLook([big, small], {
        signals: { [signal]: { available: MI, capacity: 1_000 * MI } },
        config: aConfig([aThreshold(signal, 100 * MI)]),
        observation: { fsLayout: known('imagefs-separate') },
      });
      return counterfactuals(look, signal, 'uid-big')?.changes[0];
    };
    expect(on('imagefs.available')).toEqual({ what: 'usage', now: 9 * MI, bound: 'at-most', value: 5 * MI - 1 });
    expect(on('nodefs.available')).toEqual({ what: 'usage', now: 8 * MI, bound: 'at-most', value: 3 * MI - 1 });
  });

  it('offers a usage that would save a victim without statistics, whatever it is', () => {
    const silent = { ...web, priority: 10, usage: { ...web.usage, containers: absent } };
    const saved = { what: 'usage', now: null, bound: 'at-most', value: 4 * GI };
    expect(ask(silent, [silent, job])).toMatchObject({
      isVictim: true,
      changes: [saved, { what: 'protection' }, { what: 'evict-for' }],
    });
  });

  it('suggests up to the sum of memory and swap if swap counts', () => {
    const wide = aPod({ name: 'wide', workingSetBytes: 5 * GI });
    const slim = aPod({ name: 'slim', workingSetBytes: MI });
    const signals = { ...short, 'swap.available': { available: 10 * MI, capacity: 2 * GI } };
    const config = aConfig([hard, aThreshold('swap.available', 100 * MI)]);
    const usage = (signal: Signal) =>
      counterfactuals(aLook([wide, slim], { signals, config }), signal, 'uid-slim')?.changes.filter(
        ({ what }) => what === 'usage',
      );
    expect(usage('swap.available')).toEqual([{ what: 'usage', now: MI, bound: 'at-least', value: 5 * GI }]);
    expect(usage('memory.available')).toEqual([]);
  });

  it('knows no limit if the capacity is unknown', () => {
    const look = aLook([web, job], { signals: {} });
    expect(counterfactuals(look, 'memory.available', 'uid-job')?.changes[0]).toMatchObject({ value: 400 * MI });
  });

  it('says what passes a pod over if none is chosen at all', () => {
    expect(ask(dns, [dns])).toMatchObject({
      isVictim: false,
      other: null,
      usageObstacle: { kind: 'passed-over', because: 'static-critical' },
    });
  });

  it('names the comparator that keeps a pod the victim, however little it uses', () => {
    const look = aLook([aPod({ name: 'a', processes: 50 }), aPod({ name: 'b', processes: 20, priority: 10 })], {
      signals: { 'pid.available': { available: 10, capacity: 1_000 } },
      config: aConfig([aThreshold('pid.available', 100)]),
    });
    expect(counterfactuals(look, 'pid.available', 'uid-a')).toMatchObject({
      isVictim: true,
      usageObstacle: { kind: 'decided', by: 'priority', against: 'uid-b' },
    });
  });

  it('has no answer for an unknown pod', () => {
    expect(counterfactuals(aLook([web]), 'memory.available', 'uid-job')).toBeNull();
  });

  it("suggests no usage above the node's capacity, nor a priority that users cannot set", () => {
    const wide = aPod({ name: 'wide', workingSetBytes: 5 * GI, priority: -(2 ** 31) });
    const slim = aPod({ name: 'slim', workingSetBytes: MI, priority: -(2 ** 31) });
    expect(ask(slim, [wide, slim])?.changes.map(({ what }) => what)).toEqual([]);
    const top = aPod({ name: 'top', workingSetBytes: 5 * GI, priority: 1_000_000_000 });
    expect(ask(top, [top, aPod({ name: 'low', priority: 1_000_000_000, workingSetBytes: MI })])?.changes).toEqual([
      { what: 'usage', now: 5 * GI, bound: 'at-most', value: MI },
      { what: 'protection', now: false },
      { what: 'evict-for', now: true },
    ]);
  });
});
