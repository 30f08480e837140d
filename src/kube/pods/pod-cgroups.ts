import { ifKnown, known, type Reading, unknown } from '../../core/reading.ts';
import { cgroupFacts, cgroupInode } from '../../host/cgroup/cgroup-inode.ts';
import type { CgroupMounts } from '../../host/cgroup/cgroup-mounts.ts';
import { childrenOf, directoryOf, inCgroup } from '../../host/cgroup/cgroup-walk.ts';
import { type CgroupDriver, kubepodsPath } from '../../host/cgroup/kubepods.ts';
import type { CgroupRef } from '../../ports.ts';
import { containerIdOfName, nameOfUid, QOS_CLASSES, type Qos, qosPath, uidOfName } from './cgroup-paths.ts';

type PodCgroupsNeeds = {
  readonly mounts: CgroupMounts;
  /** The kubelet's. */
  readonly cgroupRoot: string;
  /**
   * As reported by the runtime or the kubelet's configuration (beside-a-kubelet.md D7); unknown: neither reports it.
   */
  readonly driver: () => Reading<CgroupDriver>;
};
/** A container's or a sandbox's cgroup: which of them is not visible. */
export type ContainerCgroup = { readonly id: string; readonly cgroup: CgroupRef };
export type PodCgroup = {
  readonly uid: string;
  /** From its path. */
  readonly qos: Qos;
  readonly cgroup: CgroupRef;
  readonly containers: readonly ContainerCgroup[];
};
/** By uid. More than one if the kubelet has left an old cgroup of the pod behind: those of the driver in use come first. */
export type FoundPods = ReadonlyMap<string, readonly PodCgroup[]>;
export type PodCgroups = {
  /**
   * All pods below kubepods at this moment (D13). It takes a listing per class and a call per pod, and with `containers` also
   * one per container; without, a container that was replaced shows as the old one until the next call with `containers`.
   * Empty without kubepods. Unknown if a part cannot be read. If nothing has changed, the same object as last time.
   */
  readonly now: (of: 'pods' | 'containers') => Reading<FoundPods>;
  /** One pod's cgroups at this moment, with its containers, without a look at the others. Unknown as for `now`. */
  readonly of: (uid: string) => Reading<readonly PodCgroup[]>;
  /** The cgroup of all pods, as of the last `now`. Unknown `absent`: the kubelet has created none. */
  readonly kubepods: () => Reading<string>;
  /** How the reported driver differs from the cgroups; null: it does not. As of the last `now`. */
  readonly mismatch: () => string | null;
  /** False: there are more pods than can be read. As of the last `now`. */
  readonly isWhole: () => boolean;
};

/** beside-a-kubelet.md H11. */
const MAX_PODS = 10_000;
/** A kubelet's pod has a dozen. */
const MAX_CHILDREN = 1_000;
/** The rank of the reported driver, compared with numbers of pods. */
const SAID = Number.POSITIVE_INFINITY;
const SAID_EMPTY = 0.5;

type Tree = { readonly driver: CgroupDriver; readonly kubepods: string; readonly parents: readonly Parent[] };
type Found = { readonly tree: Tree; readonly pods: readonly PodCgroup[] };
type Parent = { readonly qos: Qos; readonly path: string };
/** A cgroup directly below a pod's, container or not. */
type Child = { readonly directory: string; readonly inode: number; readonly container: ContainerCgroup | null };
type Kept = {
  /** The inode of the pod's cgroup. */
  readonly inode: number;
  readonly children: readonly Child[];
  readonly containers: readonly ContainerCgroup[];
  isUsed: boolean;
};

export function createPodCgroups({ mounts, cgroupRoot, driver }: PodCgroupsNeeds): PodCgroups {
  const trees: readonly [Tree, Tree] = [treeOf('cgroupfs', cgroupRoot), treeOf('systemd', cgroupRoot)];
  /** The one in use first, as of the last `now`. */
  let inOrder: readonly Tree[] = trees;
  /** By path. */
  const kept = new Map<string, Kept>();
  /** Since `last` was built. */
  let isChanged = false;
  let last: { readonly of: string; readonly found: FoundPods } | null = null;
  const nowhere = unknown('absent', trees.map(({ kubepods }) => kubepods).join(' or '), 'there is no such cgroup');
  let kubepods: Reading<string> = nowhere;
  let mismatch: string | null = null;
  let isWhole = true;

  function now(of: 'pods' | 'containers'): Reading<FoundPods> {
    isWhole = true;
    for (const entry of kept.values()) entry.isUsed = false;
    const said = driver();
    const found: Found[] = [];
    for (const tree of trees) {
      if (cgroupInode(directoryOf(mounts, tree.kubepods)) === 0) continue;
      const pods = podsOf(tree, found[0]?.pods.length ?? 0, of === 'containers');
      if (!pods.known) return pods;
      found.push({ tree, pods: pods.value });
    }
    found.sort((a, b) => rankOf(b, said) - rankOf(a, said));
    const used = found[0];
    inOrder = used?.tree === trees[1] ? trees.toReversed() : trees;
    kubepods = used === undefined ? nowhere : known(used.tree.kubepods);
    mismatch = used === undefined || !said.known ? null : mismatchOf(said.value, used);
    for (const [path, entry] of kept) if (!entry.isUsed) isChanged = kept.delete(path);
    const drivers = found.map(({ tree }) => tree.driver).join();
    if (isChanged || last?.of !== drivers) last = { of: drivers, found: byUid(found) };
    isChanged = false;
    return known(last.found);
  }

  function of(uid: string): Reading<readonly PodCgroup[]> {
    const places: PodCgroup[] = [];
    for (const { driver: by, parents } of inOrder) {
      for (const { qos, path } of parents) {
        const found = podAt(uid, qos, `${path}/${nameOfUid(by, path, uid)}`, true);
        if (!found.known && found.why !== 'absent') return found;
        if (found.known) places.push(found.value);
      }
    }
    return known(places);
  }

  function podsOf(tree: Tree, before: number, isDeep: boolean): Reading<readonly PodCgroup[]> {
    const pods: PodCgroup[] = [];
    for (const parent of tree.parents) {
      const listed = podsIn(tree.driver, parent, MAX_PODS - before - pods.length, isDeep);
      if (!listed.known && listed.why !== 'absent') return listed;
      if (listed.known) pods.push(...listed.value);
    }
    return known(pods);
  }

  function podsIn(
    of: CgroupDriver,
    { qos, path }: Parent,
    max: number,
    isDeep: boolean,
  ): Reading<readonly PodCgroup[]> {
    return ifKnown(childrenOf(directoryOf(mounts, path), max), ({ names, isWhole: isAll }) => {
      isWhole &&= isAll;
      const pods: PodCgroup[] = [];
      for (const name of names) {
        const uid = uidOfName(of, path, name);
        if (uid === null) continue;
        const found = podAt(uid, qos, `${path}/${name}`, isDeep);
        // It may have ended since it was listed.
        if (!found.known && found.why !== 'absent') return found;
        if (found.known) pods.push(found.value);
      }
      return known(pods);
    });
  }

  function podAt(uid: string, qos: Qos, path: string, isDeep: boolean): Reading<PodCgroup> {
    return ifKnown(cgroupFacts(directoryOf(mounts, path)), ({ inode, children }) => {
      const cgroup = { path, inode };
      const old = kept.get(path);
      // If there are as many as before and the old ones still exist, they are the same.
      const isSame = old?.inode === inode && old.children.length === children;
      const below = isSame && (!isDeep || old.children.every(isStillThere)) ? known(old) : list(cgroup);
      return ifKnown(below, (entry) => {
        entry.isUsed = true;
        isChanged ||= entry !== old;
        kept.set(path, entry);
        return known({ uid, qos, cgroup, containers: entry.containers });
      });
    });
  }

  function list(pod: CgroupRef): Reading<Kept> {
    const listed = inCgroup(mounts, pod, (directory) => childrenOf(directory, MAX_CHILDREN));
    return ifKnown(listed, ({ names }) => {
      const children = names.flatMap((name): readonly Child[] => {
        const path = `${pod.path}/${name}`;
        const directory = directoryOf(mounts, path);
        const inode = cgroupInode(directory);
        if (inode === 0 || inode === null) return [];
        const id = containerIdOfName(name);
        return [{ directory, inode, container: id === null ? null : { id, cgroup: { path, inode } } }];
      });
      const containers = children.flatMap(({ container }) => (container === null ? [] : [container]));
      return known({ inode: pod.inode, children, containers, isUsed: true });
    });
  }

  return { now, of, kubepods: () => kubepods, mismatch: () => mismatch, isWhole: () => isWhole };
}

function byUid(found: readonly Found[]): FoundPods {
  const pods = new Map<string, PodCgroup[]>();
  for (const pod of found.flatMap((of) => of.pods)) {
    const same = pods.get(pod.uid);
    if (same === undefined) pods.set(pod.uid, [pod]);
    else same.push(pod);
  }
  return pods;
}

const isStillThere = ({ directory, inode }: Child): boolean => cgroupInode(directory) === inode;

function treeOf(driver: CgroupDriver, cgroupRoot: string): Tree {
  const parents = QOS_CLASSES.map((qos) => ({ qos, path: qosPath(driver, cgroupRoot, qos) }));
  return { driver, kubepods: kubepodsPath(driver, cgroupRoot), parents };
}

/**
 * D7: the reported driver is compared with the cgroups: a tree with pods takes precedence over one without, then the
 * reported one, then more pods.
 */
function rankOf({ tree, pods }: Found, said: Reading<CgroupDriver>): number {
  if (said.known && said.value === tree.driver) return pods.length === 0 ? SAID_EMPTY : SAID;
  return pods.length;
}

/** A tree without pods proves no driver: a kubelet may leave an empty one of the other driver behind. */
const mismatchOf = (said: CgroupDriver, { tree, pods }: Found): string | null =>
  tree.driver === said || pods.length === 0
    ? null
    : `the cgroup driver should be ${said}, but the pods are in ${tree.kubepods}`;
