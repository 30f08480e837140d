import { actOf, evictionsOf } from '../../core/eviction/under-way.ts';
import { type PodView, podName } from '../../core/pod/pod.ts';
import type { CapturedLook } from './capture-of.ts';

/**
 * The looks with every name that a person chose replaced: pods, namespaces, uids, containers, volumes, owners. Equal names
 * get equal pseudonyms throughout. Pseudonyms sort like the originals, so that ties are broken the same way (D1); priorities,
 * requests, usage and times stay. Names are those of the API, without a slash.
 */
export function redactLooks(looks: readonly CapturedLook[]): readonly CapturedLook[] {
  const pods = looks.flatMap(({ observation }) => (observation.pods.known ? observation.pods.value : []));
  const names: Names = {
    // The slash counts: `a-b/x` comes before `a/x`.
    namespaces: pseudonyms(
      'ns',
      pods.map(({ namespace }) => `${namespace}/`),
    ),
    pods: pseudonyms('pod', pods.map(podName)),
    uids: pseudonyms(
      'uid',
      pods.map(({ uid }) => uid),
    ),
    owners: pseudonyms(
      'owner',
      pods.flatMap(({ ownerKey }) => ownerKey ?? []),
    ),
  };
  return looks.map(({ observation, decisions, state }) => {
    const { pods: given } = observation;
    const redacted = given.known ? { ...given, value: given.value.map((pod) => redactPod(pod, names)) } : given;
    const look = { observation: { ...observation, pods: redacted }, decisions };
    return state === undefined ? look : { ...look, state: redactState(state, names) };
  });
}

type Recorded = NonNullable<CapturedLook['state']>;
type Pseudonyms = ReadonlyMap<string, string>;
type Names = { readonly [N in 'namespaces' | 'pods' | 'uids' | 'owners']: Pseudonyms };

function redactState(state: Recorded, names: Names): Recorded {
  const evictions = evictionsOf(state).map((eviction) => ({
    ...eviction,
    victim: redactNames(eviction.victim, names),
  }));
  const ownerKills = state.ownerKills.map(({ ownerKey, atMs, spared }) => {
    const isSpared = spared === undefined ? {} : { spared: of(names.uids, spared) };
    return { ownerKey: of(names.owners, ownerKey), atMs, ...isSpared };
  });
  return { act: actOf(evictions), ownerKills };
}

/** Numbered in the order of the originals, all with the same number of digits. */
function pseudonyms(prefix: string, originals: readonly string[]): Pseudonyms {
  // By code units, as in the core.
  const sorted = [...new Set(originals)].toSorted();
  const digits = String(sorted.length).length;
  return new Map(sorted.map((original, i) => [original, `${prefix}-${String(i + 1).padStart(digits, '0')}`]));
}

const of = (map: Pseudonyms, original: string): string => map.get(original) ?? 'unknown';

function redactNames<P extends Pick<PodView, 'uid' | 'namespace' | 'name'>>(pod: P, names: Names): P {
  return {
    ...pod,
    uid: of(names.uids, pod.uid),
    namespace: of(names.namespaces, `${pod.namespace}/`),
    name: of(names.pods, podName(pod)),
  };
}

function redactPod(pod: PodView, names: Names): PodView {
  const { usage } = pod;
  const usedContainers = usage.containers.known ? usage.containers.value : [];
  const usedVolumes = usage.volumes.known ? usage.volumes.value : [];
  const containers = numbered('container', [...pod.containers, ...usedContainers]);
  const volumes = numbered('volume', [...pod.volumes, ...usedVolumes]);
  const renamed = <T extends { readonly name: string }>(list: readonly T[], map: Pseudonyms): readonly T[] =>
    list.map((entry) => ({ ...entry, name: of(map, entry.name) }));
  return {
    ...redactNames(pod, names),
    ownerKey: pod.ownerKey === null ? null : of(names.owners, pod.ownerKey),
    containers: renamed(pod.containers, containers),
    volumes: renamed(pod.volumes, volumes),
    usage: {
      ...usage,
      containers: usage.containers.known
        ? { known: true, value: renamed(usedContainers, containers) }
        : usage.containers,
      volumes: usage.volumes.known ? { known: true, value: renamed(usedVolumes, volumes) } : usage.volumes,
    },
  };
}

/** Numbered in the order of declaration. */
function numbered(prefix: string, named: readonly { readonly name: string }[]): Pseudonyms {
  const names = [...new Set(named.map(({ name }) => name))];
  return new Map(names.map((name, i) => [name, `${prefix}-${i + 1}`]));
}
