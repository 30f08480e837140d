import { UNMOUNT_MS } from '../../core/eviction/under-way.ts';
import { podName } from '../../core/pod/pod.ts';
import type { MonoMs, Reading } from '../../core/reading.ts';
import { sayBytes } from '../../core/units/quantity.ts';
import type { Clock, Finding, Findings } from '../../ports.ts';
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
  VOLUMES_LEFT,
  volumesLeft,
} from '../../words/finding-kube.ts';
import type { ApiPod } from '../api/api-pod.ts';
import type { HeldByDead } from './held-by-dead.ts';
import type { LivePod } from './live-pods.ts';
import type { PodCgroups } from './pod-cgroups.ts';
import type { RuntimeIndex } from './pod-containers.ts';

type Seen = {
  readonly pods: Reading<ReadonlyMap<string, LivePod>>;
  readonly api: Reading<ReadonlyMap<string, ApiPod>>;
  readonly runtime: RuntimeIndex;
  readonly cgroups: Pick<PodCgroups, 'kubepods' | 'mismatch' | 'isWhole'>;
  /** Null: not looked at this time. */
  readonly held: readonly HeldByDead[] | null;
};

type Named = { readonly uid: string; readonly name: string };

/** The API and the runtime report a pod shortly after it starts, and a kubelet creates its cgroups when it starts. */
const LASTING_MS = 10_000;

/** Problems in finding the pods that a person should know: one finding per kind, whatever tenants do (H14). */
export function createSourceFindings({ clock, findings }: { readonly clock: Clock; readonly findings: Findings }) {
  const sinceMs = new Map<string, Map<string, MonoMs>>();
  let toldMs: MonoMs = Number.NEGATIVE_INFINITY;

  /** The names of those for which the problem `id` has lasted a while. By uid: a name may become known meanwhile. */
  const lasting = (id: string, those: readonly Named[], leastMs = LASTING_MS): readonly string[] => {
    const nowMs = clock.monoMs();
    const before = sinceMs.get(id);
    const now = new Map(those.map(({ uid }) => [uid, before?.get(uid) ?? nowMs]));
    sinceMs.set(id, now);
    return those.filter(({ uid }) => nowMs - (now.get(uid) ?? nowMs) >= leastMs).map(({ name }) => name);
  };
  const say = (id: string, finding: Finding | null): void => {
    if (finding !== null) findings.raise(finding);
    else findings.clear(id);
  };
  const sayOf = (id: string, pods: readonly string[], words: (pods: readonly string[]) => Finding): void =>
    say(id, pods.length === 0 ? null : words(pods));
  const sayLasting = (id: string, those: readonly Named[], words: (names: readonly string[]) => Finding): void =>
    sayOf(id, lasting(id, those), words);

  return {
    /** Whether the runtime has to be queried before the next call. */
    tell: ({ pods, api, runtime, cgroups, held }: Seen): boolean => {
      const kubepods = cgroups.kubepods();
      const nowhere = kubepods.known ? [] : [{ uid: kubepods.where, name: kubepods.where }];
      sayLasting(NO_KUBEPODS, nowhere, ([where = '']) => noKubepods(where));
      const mismatch = cgroups.mismatch();
      say(OTHER_DRIVER, mismatch === null ? null : otherDriver(mismatch));
      const partly = cgroups.isWhole() ? null : tooManyPodCgroups();
      say(PODS_CGROUPS, pods.known ? partly : podCgroupsUnreadable(pods.where, pods.detail));
      const bound = api.known ? [...api.value.values()].filter(({ bindings = [] }) => bindings.length > 0) : [];
      sayOf(BINDINGS_IGNORED, bound.map(nameOf), bindingsIgnored);
      const left = held?.map(({ uid, pod, bytes }) => ({ uid, name: `${pod} (${sayBytes(bytes)})` }));
      if (left !== undefined) sayOf(VOLUMES_LEFT, lasting(VOLUMES_LEFT, left, UNMOUNT_MS), volumesLeft);
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
      sayLasting(UNDECLARED, undeclared.map(namedBy), undeclaredPods);
      sayLasting(NO_CONTAINERS, isListedSince ? empty.map(namedBy) : [], containersMissing);
      sayLasting(UNNAMED, unnamed.map(namedBy), unnamedContainers);
      return empty.length > 0;
    },
  };
}

const nameOf = ({ declared }: Pick<LivePod, 'declared'>): string => podName(declared);
const namedBy = (pod: Pick<LivePod, 'declared'>): Named => ({ uid: pod.declared.uid, name: nameOf(pod) });
