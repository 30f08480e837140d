import { describe, expect, it } from 'vitest';
import { known, type Reading, unknown } from '../../src/core/reading.ts';
import { refOf } from '../../src/host/cgroup/cgroupfs.ts';
import type { CgroupDriver } from '../../src/host/cgroup/kubepods.ts';
import { createPodCgroups, type FoundPods } from '../../src/kube/pods/pod-cgroups.ts';
import { machine } from '../host/test-cgroup.ts';
import { aKubeletTree, anId, aUid, treeIn } from './a-kubelet-tree.ts';

const notSaid = unknown('absent', 'RuntimeConfig', 'the runtime does not answer it');
const [ONE, TWO, THREE] = [aUid('1'), aUid('2'), aUid('3')];

/** Also in a unified hierarchy, where this machine has one; its controllers play no part here. */
const hierarchies = machine === null ? [] : [machine];
if (machine?.version === 1 && machine.unified !== null)
  hierarchies.push({ ...machine, layout: 'v2', version: 2, memory: machine.unified, pids: null });

describe.skipIf(machine === null).each(hierarchies)(
  'the cgroups of pods, $layout [needs root and cgroups]',
  (mounts) => {
    const open = (cgroupRoot: string, driver: Reading<CgroupDriver> = notSaid) =>
      createPodCgroups({ mounts, cgroupRoot, driver: () => driver });
    const foundIn = (found: Reading<FoundPods>): FoundPods => {
      if (!found.known) throw new Error(found.detail);
      return found.value;
    };
    const inodeOf = (path: string): number => {
      const ref = refOf(mounts, path);
      if (!ref.known) throw new Error(ref.detail);
      return ref.value.inode;
    };

    it.each(['cgroupfs', 'systemd'] as const)(
      "are found in the kubelet's classes with their containers, with %s even if nobody reports it",
      (driver) => {
        const tree = aKubeletTree(mounts, driver);
        const cgroups = open(tree.cgroupRoot);
        expect(foundIn(cgroups.now('containers')).size).toBe(0);
        expect(cgroups.kubepods()).toMatchObject({ known: false, why: 'absent' });

        const guaranteed = tree.addPod('Guaranteed', ONE, anId('a'), anId('b'));
        const burstable = tree.addPod('Burstable', TWO);
        tree.addPod('BestEffort', THREE, anId('c'));
        tree.make(`${guaranteed}/crio-conmon-${anId('a')}.scope`);
        const pods = foundIn(cgroups.now('containers'));
        expect([...pods].map(([uid, [pod]]) => [uid, pod?.qos])).toEqual([
          [ONE, 'Guaranteed'],
          [TWO, 'Burstable'],
          [THREE, 'BestEffort'],
        ]);
        const first = pods.get(ONE)?.[0];
        expect(first?.cgroup).toEqual({ path: guaranteed, inode: inodeOf(guaranteed) });
        const expected = [anId('a'), anId('b')].map((id) => {
          const path = tree.containerIn(guaranteed, id);
          return { id, cgroup: { path, inode: inodeOf(path) } };
        });
        expect(first?.containers.toSorted((a, b) => a.id.localeCompare(b.id))).toEqual(expected);
        expect(pods.get(TWO)?.[0]).toMatchObject({ cgroup: { path: burstable }, containers: [] });
        expect(cgroups.kubepods()).toEqual(known(tree.kubepods));
        for (const uid of [ONE, TWO, THREE]) expect(cgroups.of(uid)).toEqual(known(pods.get(uid)));
        expect(cgroups.of(aUid('4'))).toEqual(known([]));
      },
    );

    it('are current: a pod or container that was added, removed, or recreated under its path is noticed', () => {
      const tree = aKubeletTree(mounts, 'cgroupfs');
      const cgroups = open(tree.cgroupRoot);
      const pod = tree.addPod('Burstable', ONE, anId('a'));
      const containers = () => foundIn(cgroups.now('containers')).get(ONE)?.[0]?.containers;
      const [before] = containers() ?? [];

      // As many as before, and another one.
      tree.remove(tree.containerIn(pod, anId('a')));
      tree.make(tree.containerIn(pod, anId('b')));
      expect(cgroups.of(ONE)).toMatchObject(known([{ containers: [{ id: anId('b') }] }]));
      expect(containers()?.map(({ id }) => id)).toEqual([anId('b')]);
      tree.make(tree.containerIn(pod, anId('a')));
      expect(containers()).toHaveLength(2);
      expect(containers()?.find(({ id }) => id === anId('a'))?.cgroup.inode).not.toBe(before?.cgroup.inode);

      for (const id of ['a', 'b']) tree.remove(tree.containerIn(pod, anId(id)));
      tree.remove(pod);
      expect(foundIn(cgroups.now('containers')).size).toBe(0);
    });

    it('are taken from the driver that has pods if another one was reported, which is said', () => {
      const tree = aKubeletTree(mounts, 'systemd');
      tree.addPod('Burstable', ONE);
      const cgroups = open(tree.cgroupRoot, known('cgroupfs'));
      expect(foundIn(cgroups.now('containers')).has(ONE)).toBe(true);
      expect(cgroups.kubepods()).toEqual(known(tree.kubepods));
      expect(cgroups.mismatch()).toContain(`the pods are in ${tree.kubepods}`);
    });

    it('are first those of the reported driver if the other one has left its cgroups behind', () => {
      const old = aKubeletTree(mounts, 'cgroupfs');
      const tree = treeIn(mounts, 'systemd', old.cgroupRoot);
      for (const uid of [ONE, TWO]) old.addPod('Burstable', uid);
      const path = tree.addPod('Burstable', ONE);
      const cgroups = open(old.cgroupRoot, known('systemd'));
      const pods = foundIn(cgroups.now('containers'));
      expect(pods.get(ONE)?.map(({ cgroup }) => cgroup.path)[0]).toBe(path);
      expect(cgroups.of(ONE)).toEqual(known(pods.get(ONE)));
      expect(pods.has(TWO)).toBe(true);
      expect(cgroups.kubepods()).toEqual(known(tree.kubepods));
      expect(cgroups.mismatch()).toBeNull();
      // Nobody says which: the one with more pods.
      const unsaid = open(old.cgroupRoot);
      unsaid.now('pods');
      expect(unsaid.kubepods()).toEqual(known(old.kubepods));
      // The one that is named has no pods.
      tree.remove(path);
      cgroups.now('pods');
      expect(cgroups.kubepods()).toEqual(known(old.kubepods));
      expect(cgroups.mismatch()).toContain('the cgroup driver should be systemd');
    });

    it('are not reported in an empty tree that was left behind', () => {
      const old = aKubeletTree(mounts, 'cgroupfs');
      const pod = old.addPod('Burstable', ONE);
      const cgroups = open(old.cgroupRoot, known('systemd'));
      cgroups.now('pods');
      expect(cgroups.mismatch()).not.toBeNull();
      old.remove(pod);
      cgroups.now('pods');
      expect(cgroups.mismatch()).toBeNull();
    });

    it('are no cgroups with other names, whoever created them', () => {
      const tree = aKubeletTree(mounts, 'cgroupfs');
      const pod = tree.addPod('Burstable', ONE);
      for (const name of [
        'pod',
        'podx',
        `pod${ONE} `,
        'pod\u001b[2J',
        `pod${'9'.repeat(31)}`,
        `pod${ONE.replaceAll('-', '_')}`,
      ])
        tree.make(`${tree.kubepods}/${name}`);
      for (const name of [`${anId('a')}x`, 'init.scope', '\u2028']) tree.make(`${pod}/${name}`);
      const pods = foundIn(open(tree.cgroupRoot).now('pods'));
      expect([...pods.keys()]).toEqual([ONE]);
      expect(pods.get(ONE)?.[0]?.containers).toEqual([]);
    });
  },
);
