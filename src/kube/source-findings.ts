import { podName } from '../core/pod/pod.ts';
import type { MonoMs, Reading } from '../core/reading.ts';
import type { Clock, Finding, Findings } from '../ports.ts';
import {
  BINDINGS_IGNORED,
  bindingsIgnored,
  containersMissing,
  NO_CONTAINERS,
  NO_KUBEPODS,
  noKubepods,
  ODD_UIDS,
  OTHER_DRIVER,
  oddUids,
  otherDriver,
  PODS_CGROUPS,
  podCgroupsUnreadable,
  tooManyPodCgroups,
  UNDECLARED,
  UNNAMED,
  undeclaredPods,
  unnamedContainers,
} from '../words/finding-kube-pods.ts';
import type { ApiPod } from './api-pod.ts';
import { isPodUid } from './cgroup-paths.ts';
import type { LivePod } from './live-pods.ts';
import type { PodCgroups } from './pod-cgroups.ts';
import type { RuntimeIndex } from './pod-containers.ts';

type Seen = {
  readonly pods: Reading<ReadonlyMap<string, LivePod>>;
  readonly api: Reading<ReadonlyMap<string, ApiPod>>;
  readonly runtime: RuntimeIndex;
  readonly cgroups: Pick<PodCgroups, 'kubepods' | 'mismatch' | 'isWhole'>;
};

/** A pod that has just started is told of by API and runtime a moment later, and a kubelet makes its cgroups when it starts. */
const LASTING_MS = 10_000;
/** So many pods are kept in mind for one finding. */
const MAX_PODS = 1_000;

/** What a person should know of how the pods were found: one finding of a kind, whatever tenants do (H14). */
export function createSourceFindings({ clock, findings }: { readonly clock: Clock; readonly findings: Findings }) {
  const sinceMs = new Map<string, Map<string, MonoMs>>();

  /** Those of these pods that have been among them for a while. */
  const lasting = (id: string, pods: readonly string[]): readonly string[] => {
    const nowMs = clock.monoMs();
    const before = sinceMs.get(id);
    const now = new Map(pods.slice(0, MAX_PODS).map((pod) => [pod, before?.get(pod) ?? nowMs]));
    sinceMs.set(id, now);
    return [...now].filter(([, beganMs]) => nowMs - beganMs >= LASTING_MS).map(([pod]) => pod);
  };
  const say = (id: string, finding: Finding | null): void => {
    if (finding !== null) findings.raise(finding);
    else findings.clear(id);
  };
  const sayOf = (id: string, pods: readonly string[], words: (pods: readonly string[]) => Finding): void =>
    say(id, pods.length === 0 ? null : words(pods));

  return {
    tell: ({ pods, api, runtime, cgroups }: Seen): void => {
      const kubepods = cgroups.kubepods();
      const nowhere = kubepods.known ? [] : [kubepods.where];
      sayOf(NO_KUBEPODS, lasting(NO_KUBEPODS, nowhere), ([where = '']) => noKubepods(where));
      const mismatch = cgroups.mismatch();
      say(OTHER_DRIVER, mismatch === null ? null : otherDriver(mismatch));
      const partly = cgroups.isWhole() ? null : tooManyPodCgroups();
      say(PODS_CGROUPS, pods.known ? partly : podCgroupsUnreadable(pods.where, pods.detail));
      if (!pods.known) return;
      const named = (isMeant: (pod: LivePod) => boolean): readonly string[] =>
        [...pods.value.values()].filter(isMeant).map(({ declared }) => podName(declared));
      const running = new Set(
        [...runtime.containers.values()].flatMap(({ podUid, state }) => (state === 'running' ? [podUid] : [])),
      );
      const isEmpty = ({ containers, cgroup, declared }: LivePod): boolean =>
        cgroup.known && containers.length === 0 && running.has(declared.uid);
      sayOf(
        UNDECLARED,
        lasting(
          UNDECLARED,
          named(({ pod }) => pod === null),
        ),
        undeclaredPods,
      );
      sayOf(NO_CONTAINERS, lasting(NO_CONTAINERS, named(isEmpty)), containersMissing);
      const hasUnnamed = ({ containers }: LivePod): boolean => containers.some(({ name }) => name === null);
      sayOf(UNNAMED, lasting(UNNAMED, named(hasUnnamed)), unnamedContainers);
      const declared = api.known ? [...api.value.values()] : [];
      const namesOf = (isMeant: (pod: ApiPod) => boolean): readonly string[] =>
        declared.filter(isMeant).map((pod) => podName(pod.declared));
      sayOf(
        ODD_UIDS,
        namesOf((pod) => !isPodUid(pod.declared.uid)),
        oddUids,
      );
      sayOf(
        BINDINGS_IGNORED,
        namesOf(({ bindings = [] }) => bindings.length > 0),
        bindingsIgnored,
      );
    },
  };
}
