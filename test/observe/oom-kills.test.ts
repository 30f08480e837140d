import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { known } from '../../src/core/reading.ts';
import { createOomWatch, type OomWatch } from '../../src/observe/oom-kills.ts';
import type { BoundPod } from '../../src/ports.ts';
import { aBoundPod } from './a-bound-pod.ts';
import { MIB, noCgroups, openTestNode, type TestNode, type TestPod } from './a-node.ts';

const BURST = 'perl -e \'my $x = "x" x (200 * 1024 * 1024)\'';

describe.skipIf(noCgroups !== null)(`kills by the kernel [${noCgroups ?? 'root, cgroups'}]`, () => {
  let node: TestNode;
  let watch: OomWatch | null = null;
  beforeEach(async () => {
    node = await openTestNode(64 * MIB, 50);
  });
  afterEach(async () => {
    watch?.close();
    await node.remove();
  });
  function open(pods: readonly BoundPod[]): OomWatch {
    watch = createOomWatch({ mounts: node.mounts, pods: () => known(pods) });
    return watch;
  }
  const bound = (name: string, pod: TestPod): BoundPod => aBoundPod({ name, cgroup: known(pod.ref()) });

  it('are counted once and named by their pod, also in a container below it', () => {
    const [web, db, inner] = [node.addPod('web'), node.addPod('db'), node.addPod('web/main')];
    const of = open([bound('web', web), bound('db', db)]);
    expect(of.look()).toBeNull();
    inner.run(BURST);
    const seen = of.look();
    expect(seen?.pods).toEqual(['default/web']);
    expect(seen?.count).toBeGreaterThanOrEqual(1);
    db.run(BURST);
    expect(of.look()?.pods).toEqual(['default/db']);
  });

  it('of processes outside any pod are unattributed, also when a pod was hit before the watch began', () => {
    const [web, other] = [node.addPod('web'), node.addPod('other')];
    web.run(BURST);
    const of = open([bound('web', web)]);
    expect(of.look()).toBeNull();
    other.run(BURST);
    expect(of.look()).toMatchObject({ pods: [] });
  });

  it('are those of a pod that was bound meanwhile only where its counter fits', () => {
    const [old, fresh] = [node.addPod('old'), node.addPod('fresh')];
    // Often, so that a kill elsewhere on the machine meanwhile does not make it fit.
    for (let i = 0; i < 4; i++) old.run(BURST);
    const pods: BoundPod[] = [];
    const of = open(pods);
    of.look();
    pods.push(bound('old', old));
    fresh.run(BURST);
    expect(of.look()).toMatchObject({ pods: [] });
    pods.push(bound('fresh', fresh));
    old.run(BURST);
    fresh.run(BURST);
    expect(of.look()?.pods).toEqual(['default/old']);
  });
});
