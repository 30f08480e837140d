import { describe, expect, it } from 'vitest';
import { known, type Reading, unknown } from '../../src/core/reading.ts';
import type { RuntimeFacts } from '../../src/kube/cri/runtime.ts';
import { machine } from '../host/test-cgroup.ts';
import { aKubeSource, aTurnedClock } from './a-kube-source.ts';
import { aKubeletTree, anId, aUid } from './a-kubelet-tree.ts';
import { aSandbox } from './an-api-pod.ts';

const [OLD, NEW, STATIC] = [aUid('1'), aUid('2'), '3'.repeat(32)];

describe.skipIf(machine === null)('pods that nobody has named [needs root and cgroups]', () => {
  const mounts = machine as NonNullable<typeof machine>;
  const open = () => {
    const tree = aKubeletTree(mounts, 'cgroupfs');
    const time = aTurnedClock();
    let facts: Reading<RuntimeFacts> = unknown('absent', 'test', 'it has not answered yet');
    let asked = 0;
    let wakes = 0;
    let isLookedUp = false;
    const source = aKubeSource({
      ...{ clock: time.clock, mounts, cgroupRoot: tree.cgroupRoot },
      runtime: {
        facts: () => facts,
        cgroupDriver: () => facts as Reading<never>,
        refresh: async () => {
          asked += 1;
          return facts;
        },
      },
      lookUp: () => isLookedUp,
      wake: () => {
        wakes += 1;
      },
    });
    const limitOf = async (uid: string) => {
      await Promise.resolve();
      const pods = source.pods();
      return pods.known ? pods.value.find(({ declared }) => declared.uid === uid)?.declared.limitedBy : pods;
    };
    const tell = (uid: string, from: string): void => {
      facts = known({ containers: [], sandboxes: [aSandbox({ id: anId('f'), podUid: uid, source: from })], atMs: 0 });
    };
    const lookUp = (is: boolean): void => {
      isLookedUp = is;
    };
    return { tree, time, limitOf, tell, lookUp, counts: () => ({ asked, wakes }) };
  };

  it('are queried at once, however often the runtime was queried in vain for others', async () => {
    const { tree, time, limitOf, tell, counts } = open();
    tell(STATIC, 'file');
    tree.addPod('Burstable', OLD, anId('a'));
    for (let times = 0; times < 20; times++) {
      time.ahead(60_000);
      await limitOf(OLD);
    }
    const { asked } = counts();
    await limitOf(OLD);
    expect(counts().asked).toBe(asked);
    tree.addPod('Burstable', NEW, anId('b'));
    expect(await limitOf(NEW)).toBe('unnamed');
    expect(counts().asked).toBe(asked + 1);
  });

  it('are queried again between looks, at first often, then less and less', async () => {
    const { tree, time, limitOf, tell, counts } = open();
    tell(STATIC, 'file');
    tree.addPod('Burstable', OLD, anId('a'));
    await limitOf(OLD);
    await time.pass(2_000);
    const before = counts().asked;
    for (let times = 0; times < 40; times++) await time.pass(100);
    const soon = counts().asked - before;
    expect(soon).toBeGreaterThanOrEqual(3);
    for (let times = 0; times < 40; times++) await time.pass(100);
    expect(counts().asked - before - soon).toBeLessThan(soon);
  });

  it('are queried every second if the runtime does not answer', async () => {
    const { tree, time, limitOf, counts } = open();
    tree.addPod('Burstable', OLD, anId('a'));
    for (let times = 0; times < 20; times++) {
      time.ahead(60_000);
      await limitOf(OLD);
    }
    const { asked } = counts();
    time.ahead(1_000);
    await limitOf(OLD);
    expect(counts().asked).toBe(asked + 1);
  });

  it('cause a look as soon as the runtime has answered', async () => {
    const { tree, limitOf, tell, counts } = open();
    tree.addPod('Burstable', OLD, anId('a'));
    const { wakes } = counts();
    expect(await limitOf(OLD)).toBe('unnamed');
    tell(OLD, 'api');
    await Promise.resolve();
    expect(counts().wakes).toBe(wakes + 1);
    expect(await limitOf(OLD)).toBeNull();
  });

  it('wait for the API server if it has just been asked for the name that the runtime gave', async () => {
    const { tree, limitOf, tell, lookUp } = open();
    tree.addPod('Burstable', OLD, anId('a'));
    tell(OLD, 'api');
    lookUp(true);
    expect(await limitOf(OLD)).toBe('looked-up');
    lookUp(false);
    expect(await limitOf(OLD)).toBeNull();
  });

  it('are static if the runtime says that the API did not create them, or if their uid has no dash (D5)', async () => {
    const { tree, limitOf, tell } = open();
    tree.addPod('Burstable', OLD, anId('a'));
    tree.addPod('Burstable', STATIC, anId('b'));
    expect([await limitOf(OLD), await limitOf(STATIC)]).toEqual(['unnamed', 'not-stoppable']);
    for (const from of ['file', 'http']) {
      tell(OLD, from);
      expect(await limitOf(OLD)).toBe('not-stoppable');
    }
  });
});
