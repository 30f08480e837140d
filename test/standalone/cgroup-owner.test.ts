import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { known, unknown } from '../../src/core/reading.ts';
import { createClock, sleep } from '../../src/host/clock.ts';
import { placesOf } from '../../src/host/escaped.ts';
import { ownerOf } from '../../src/standalone/cgroup-owner.ts';
import { HEADLESS, makeCgroup, mounts, needsCgroups, type TestCgroup } from '../act/a-cgroup.ts';
import { aBoundPod } from '../observe/a-bound-pod.ts';

const clock = createClock();
const ASLEEP = 'echo up; exec sleep 1000';
const isVersion1 = mounts?.version === 1;

describe.skipIf(needsCgroups !== '')(`a process that left its victim's cgroup ${needsCgroups}`, () => {
  let victim: TestCgroup;
  let other: TestCgroup;
  beforeEach(() => {
    victim = makeCgroup();
    other = makeCgroup();
  });
  afterEach(async () => {
    await victim.remove();
    await other.remove();
  });

  const ownerNow = (pid: number, home = victim.path): string | null => {
    const pods = known([
      aBoundPod({ uid: 'u1', name: 'one', cgroup: known(victim.ref) }),
      aBoundPod({ uid: 'u2', name: 'two', cgroup: known(other.ref) }),
    ]);
    return ownerOf(() => pods, 'u1', home)(pid);
  };
  /** Where `path` is below the victim, in each hierarchy. */
  const moveBelow = (path: string, pid: number): void => {
    for (const root of victim.roots) {
      mkdirSync(`${root}/${path}`, { recursive: true });
      writeFileSync(`${root}/${path}/cgroup.procs`, String(pid));
    }
  };

  it('is partly the pod’s that has only its last thread, on version 1', async ({ skip }) => {
    if (!isVersion1) skip('needs cgroup v1');
    const { pid } = await victim.run(HEADLESS);
    await sleep(clock, 400);
    for (const tid of readdirSync(`/proc/${pid}/task`).filter((one) => Number(one) !== pid))
      for (const root of other.roots) writeFileSync(`${root}/tasks`, tid);
    expect(ownerNow(pid)).toBe('default/two');
  });

  it('is partly the pod’s that has it in one hierarchy only, on version 1', async ({ skip }) => {
    const pids = other.roots.find((root) => root.includes('/pids/'));
    if (!isVersion1 || pids === undefined) skip('needs a pids hierarchy of its own');
    const { pid } = await victim.run(ASLEEP);
    writeFileSync(`${pids}/cgroup.procs`, String(pid));
    expect(ownerNow(pid)).toBe('default/two');
  });

  it('is the other unit’s, and not that of a name that its own unit gave to a part of itself', async () => {
    const { pid } = await victim.run(ASLEEP);
    const home = `${victim.path}/ten.service/victim`;
    const asBefore = ownerNow(pid, home);
    moveBelow('ten.service/x.scope', pid);
    expect(ownerNow(pid, home)).toBe(asBefore);
    moveBelow('other.service', pid);
    expect(ownerNow(pid, home)).toBe('other.service');
  });

  it('may be anybody’s while the pods cannot be read, or its threads', async () => {
    const { pid } = await victim.run(ASLEEP);
    const pods = unknown('not-asked', 'pods', 'not read yet');
    expect(ownerOf(() => pods, 'u1', victim.path)(pid)).toBe('an unknown pod');
    const places = placesOf(pid);
    expect(places.known && places.value.has(victim.path)).toBe(true);
  });
});
