import { mkdirSync, readdirSync, rmdirSync } from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { known, unknown } from '../../src/core/reading.ts';
import { initialState, type State } from '../../src/core/state/state.ts';
import { createClock } from '../../src/host/clock.ts';
import { createOomWatch, type OomWatch } from '../../src/observe/oom-kills.ts';
import type { BoundPod } from '../../src/ports.ts';
import { aBoundPod } from './a-bound-pod.ts';
import { MIB, noCgroups, openTestNode, type TestNode, type TestPod } from './a-node.ts';

const BURST = 'perl -e \'my $x = "x" x (200 * 1024 * 1024)\'';

describe.skipIf(noCgroups !== null)(`kernel OOM kills [${noCgroups ?? 'root, cgroups'}]`, () => {
  let node: TestNode;
  let watch: OomWatch | null = null;
  beforeEach(async () => {
    node = await openTestNode(64 * MIB, 50);
  });
  afterEach(async () => {
    watch?.close();
    await node.remove();
  });
  function open(pods: readonly BoundPod[]) {
    const opened = createOomWatch(node.mounts, createClock());
    watch = opened;
    const podsNow = () => known(pods);
    return {
      look: (atMs: number, state: State) => opened.look(atMs, state, podsNow),
      now: () => opened.now(podsNow),
    };
  }
  /** Others on the machine may have been killed by now. */
  const nothingKilled = async ({ now }: ReturnType<typeof open>): Promise<void> => {
    while ((await now()) !== null);
  };
  const bound = (name: string, pod: TestPod): BoundPod => aBoundPod({ name, cgroup: known(pod.ref()) });

  it('are counted once and attributed to their pod, even in a container below it', async () => {
    const [web, db, inner] = [node.addPod('web'), node.addPod('db'), node.addPod('web/main')];
    const of = open([bound('web', web), bound('db', db)]);
    expect(await of.now()).toBeNull();
    inner.run(BURST);
    const seen = await of.now();
    expect(seen?.pods).toEqual(['default/web']);
    expect(seen?.count).toBeGreaterThanOrEqual(1);
    db.run(BURST);
    expect((await of.now())?.pods).toEqual(['default/db']);
  });

  it('are checked once a second, at each look while memory is short or an eviction is in progress, and once more', async () => {
    const web = node.addPod('web');
    const of = open([bound('web', web)]);
    const calm = initialState('boot');
    const isShort = { ...calm, firstMetMs: { 'memory.available/evictionHard': 0 } };
    const isEvicting = { ...calm, act: { kind: 'evicting', evictions: [] } } as const;
    expect(await of.look(0, calm)).toBeNull();
    const lookAfterKill = async (atMs: number, state: typeof calm) => {
      web.run(BURST);
      return (await of.look(atMs, state))?.pods ?? null;
    };
    const seen = ['default/web'];
    expect(await lookAfterKill(999, calm)).toBeNull();
    expect(await lookAfterKill(1_000, calm)).toEqual(seen);
    expect(await lookAfterKill(1_002, isShort)).toEqual(seen);
    expect(await lookAfterKill(1_004, calm)).toEqual(seen);
    expect(await lookAfterKill(1_006, calm)).toBeNull();
    expect(await lookAfterKill(1_008, isEvicting)).toEqual(seen);
    expect(await lookAfterKill(1_010, { ...calm, firstMetMs: { 'nodefs.available/evictionHard': 0 } })).toEqual(seen);
    expect(await lookAfterKill(2_009, { ...calm, firstMetMs: { 'nodefs.available/evictionHard': 0 } })).toBeNull();
    expect(await lookAfterKill(2_010, calm)).toEqual(seen);
  });

  it('need a search for new pods once a second, not at each look of a shortage', async () => {
    const opened = createOomWatch(node.mounts, createClock());
    watch = opened;
    let searched = 0;
    const lately = () => {
      searched++;
      return known([]);
    };
    const short = { ...initialState('boot'), firstMetMs: { 'memory.available/evictionHard': 0 } };
    for (let atMs = 0; atMs < 1_000; atMs += 2) await opened.look(atMs, short, () => known([]), lately);
    expect(searched).toBe(1);
    await opened.look(1_000, short, () => known([]), lately);
    expect(searched).toBe(2);
  });

  it('are seen in containers that appeared and disappeared in between, and leave nothing open', async () => {
    const openFiles = (): number => readdirSync('/proc/self/fd').length;
    const before = openFiles();
    const [web, first] = [node.addPod('web'), node.addPod('web/first')];
    const of = open([bound('web', web)]);
    await of.now();
    first.run(BURST);
    expect((await of.now())?.pods).toEqual(['default/web']);
    const second = node.addPod('web/second');
    second.run(BURST);
    expect((await of.now())?.pods).toEqual(['default/web']);
    // As many as before, and others.
    rmdirSync(first.directory);
    const third = node.addPod('web/third');
    for (let i = 0; i < 3; i++) third.run(BURST);
    expect((await of.now())?.pods).toEqual(['default/web']);
    const inner = node.addPod('web/third/inner');
    inner.run(BURST);
    expect((await of.now())?.pods).toEqual(['default/web']);
    watch?.close();
    expect(openFiles()).toBeLessThanOrEqual(before);
  });

  it('of processes outside pods are unattributed, even if a pod was hit before the watch began', async () => {
    const [web, other] = [node.addPod('web'), node.addPod('other')];
    web.run(BURST);
    const of = open([bound('web', web)]);
    expect(await of.now()).toBeNull();
    other.run(BURST);
    expect(await of.now()).toMatchObject({ pods: [] });
  });

  it('are counted from 0 in a recreated cgroup', async () => {
    const web = node.addPod('web');
    const pods = [bound('web', web)];
    const of = open(pods);
    await of.now();
    web.run(BURST);
    expect((await of.now())?.pods).toEqual(['default/web']);
    rmdirSync(web.directory);
    mkdirSync(web.directory);
    pods[0] = bound('web', web);
    web.run(BURST);
    expect((await of.now())?.pods).toEqual(['default/web']);
  });

  it('of a pod whose cgroup is gone are unattributed, and not attributed to another', async () => {
    const [web, gone] = [node.addPod('web'), node.addPod('gone')];
    const of = open([bound('web', web), bound('gone', gone)]);
    await of.now();
    gone.run(BURST);
    gone.run(BURST);
    web.run(BURST);
    rmdirSync(gone.directory);
    const seen = await of.now();
    expect(seen?.pods).toEqual(['default/web']);
    expect(seen?.unattributed).toBeGreaterThanOrEqual(2);
    expect((seen?.count ?? 0) - (seen?.unattributed ?? 0)).toBeGreaterThanOrEqual(1);
  });

  it('are attributed to a newly bound pod as far as its counter has risen since it was first read', async () => {
    const [fresh, other] = [node.addPod('fresh'), node.addPod('other')];
    const pods: BoundPod[] = [];
    const of = open(pods);
    fresh.run(BURST);
    await of.now();
    fresh.run(BURST);
    expect(await of.now()).toMatchObject({ pods: [] });
    pods.push(bound('fresh', fresh));
    // Nobody was killed since: its counter is read.
    await nothingKilled(of);
    for (let i = 0; i < 3; i++) other.run(BURST);
    expect(await of.now()).toMatchObject({ pods: [] });
    fresh.run(BURST);
    expect((await of.now())?.pods).toEqual(['default/fresh']);
  });

  it('are not attributed to a pod whose counter was never read before, since it may have had them long ago', async () => {
    const [fresh, other] = [node.addPod('fresh'), node.addPod('other')];
    const pods: BoundPod[] = [];
    const of = open(pods);
    fresh.run(BURST);
    await of.now();
    pods.push(bound('fresh', fresh));
    for (let i = 0; i < 3; i++) other.run(BURST);
    expect(await of.now()).toMatchObject({ pods: [] });
    fresh.run(BURST);
    expect((await of.now())?.pods).toEqual(['default/fresh']);
  });

  it('are not attributed to a pod that was bound to another cgroup meanwhile, whose kills are old, also while no agent ran', async () => {
    const [web, old, other] = [node.addPod('web'), node.addPod('old'), node.addPod('other')];
    for (let i = 0; i < 3; i++) old.run(BURST);
    const pods = [bound('web', web)];
    const of = open(pods);
    await nothingKilled(of);
    const before = watch?.counted() ?? null;
    pods[0] = bound('web', old);
    other.run(BURST);
    expect(await of.now()).toMatchObject({ pods: [] });
    old.run(BURST);
    expect((await of.now())?.pods).toEqual(['default/web']);
    watch?.close();
    const next = open(pods);
    if (before !== null) watch?.resume(before);
    expect(await next.now()).toMatchObject({ pods: [] });
  });

  it('are not attributed to a pod whose counter could not be read at the kill before', async () => {
    const [web, other] = [node.addPod('web'), node.addPod('other')];
    const found = [bound('web', web)];
    const lost = [aBoundPod({ name: 'web', cgroup: unknown('timed-out', 'web', 'no answer') })];
    let pods = found;
    const opened = createOomWatch(node.mounts, createClock());
    watch = opened;
    const now = () => opened.now(() => known(pods));
    while ((await now()) !== null);
    web.run(BURST);
    pods = lost;
    expect(await now()).toMatchObject({ pods: [] });
    pods = found;
    other.run(BURST);
    expect(await now()).toMatchObject({ pods: [] });
    web.run(BURST);
    expect((await now())?.pods).toEqual(['default/web']);
  });

  it('leave nothing open, and nothing counted, of pods that have come and gone', async () => {
    const pods: BoundPod[] = [];
    const of = open(pods);
    await nothingKilled(of);
    const files = () => readdirSync('/proc/self/fd').length;
    const before = files();
    for (let i = 0; i < 20; i++) {
      const pod = node.addPod(`job-${i}`);
      pods.splice(0, 1, bound(`job-${i}`, pod));
      await of.now();
      rmdirSync(pod.directory);
    }
    expect(Object.keys(watch?.counted()?.pods ?? {}).length).toBeLessThanOrEqual(1);
    // Those of the last one, and of the one before.
    expect(files() - before).toBeLessThanOrEqual(8);
  });

  it('are attributed to every pod if none had happened on the machine before', async () => {
    const web = node.addPod('web');
    const opened = createOomWatch(node.mounts, createClock());
    watch = opened;
    opened.resume({ atMs: 0, kills: 0, pods: {} });
    web.run(BURST);
    expect((await opened.now(() => known([bound('web', web)])))?.pods).toEqual(['default/web']);
  });
});
