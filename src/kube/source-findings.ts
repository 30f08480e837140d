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
  OTHER_DRIVER,
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
import type { LivePod } from './live-pods.ts';
import type { PodCgroups } from './pod-cgroups.ts';
import type { RuntimeIndex } from './pod-containers.ts';

type Seen = {
  readonly pods: Reading<ReadonlyMap<string, LivePod>>;
  readonly api: Reading<ReadonlyMap<string, ApiPod>>;
  readonly runtime: RuntimeIndex;
  readonly cgroups: Pick<PodCgroups, 'kubepods' | 'mismatch' | 'isWhole'>;
};

/** The API and the runtime report a pod shortly after it starts, and a kubelet creates its cgroups when it starts. */
const LASTING_MS = 10_000;

/** Problems in finding the pods that a person should know: one finding per kind, whatever tenants do (H14). */
export function createSourceFindings({ clock, findings }: { readonly clock: Clock; readonly findings: Findings }) {
  const sinceMs = new Map<string, Map<string, MonoMs>>();
  let toldMs: MonoMs = Number.NEGATIVE_INFINITY;

  /** The pods for which the problem `id` has lasted a while. */
  const lasting = (id: string, pods: readonly string[]): readonly string[] => {
    const nowMs = clock.monoMs();
    const before = sinceMs.get(id);
    const now = new Map(pods.map((pod) => [pod, before?.get(pod) ?? nowMs]));
    sinceMs.set(id, now);
    return [...now].filter(([, beganMs]) => nowMs - beganMs >= LASTING_MS).map(([pod]) => pod);
  };
  const say = (id: string, finding: Finding | null): void => {
    if (finding !== null) findings.raise(finding);
    else findings.clear(id);
  };
  const sayOf = (id: string, pods: readonly string[], words: (pods: readonly string[]) => Finding): void =>
    say(id, pods.length === 0 ? null : words(pods));
  const sayLasting: typeof sayOf = (id, pods, words) => sayOf(id, lasting(id, pods), words);

  return {
    /** Whether the runtime has to be queried before the next call. */
    tell: ({ pods, api, runtime, cgroups }: Seen): boolean => {
      const kubepods = cgroups.kubepods();
      sayLasting(NO_KUBEPODS, kubepods.known ? [] : [kubepods.where], ([where = '']) => noKubepods(where));
      const mismatch = cgroups.mismatch();
      say(OTHER_DRIVER, mismatch === null ? null : otherDriver(mismatch));
      const partly = cgroups.isWhole() ? null : tooManyPodCgroups();
      say(PODS_CGROUPS, pods.known ? partly : podCgroupsUnreadable(pods.where, pods.detail));
      const bound = api.known ? [...api.value.values()].filter(({ bindings = [] }) => bindings.length > 0) : [];
      sayOf(BINDINGS_IGNORED, bound.map(nameOf), bindingsIgnored);
      if (!pods.known) return false;
      const live = [...pods.value.values()];
      const running = new Set(
        [...runtime.containers.values()].flatMap(({ podUid, state }) => (state === 'running' ? [podUid] : [])),
      );
      const undeclared = live.filter(({ pod }) => pod === null);
      // A container that has ended since the runtime was queried is not missing: the pod waits to restart it.
      const isListedSince = runtime.atMs >= toldMs;
      toldMs = clock.monoMs();
      const empty = live.filter(({ containers, declared }) => containers.length === 0 && running.has(declared.uid));
      const unnamed = live.filter(({ containers }) => containers.some(({ name }) => name === null));
      sayLasting(UNDECLARED, undeclared.map(nameOf), undeclaredPods);
      sayLasting(NO_CONTAINERS, isListedSince ? empty.map(nameOf) : [], containersMissing);
      sayLasting(UNNAMED, unnamed.map(nameOf), unnamedContainers);
      return empty.length > 0;
    },
  };
}

const nameOf = ({ declared }: Pick<LivePod, 'declared'>): string => podName(declared);
