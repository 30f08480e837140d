import { EVICT_FOR, parseEvictFor } from '../core/pod/evict-for.ts';
import { podName } from '../core/pod/pod.ts';
import { isObject } from '../core/shape.ts';
import { check, sayValue, valueAt } from '../document/check.ts';
import { localVolumesOf, runningPodOf } from '../document/declared-pod.ts';
import type { YamlDocument } from '../document/document.ts';
import { evictForMistake, runningPodSchema, type V1RunningPod } from '../document/pod.ts';
import type { Path, Problem } from '../document/problem.ts';
import type { ScenarioPod } from './scenario.ts';

/** A v1 Pod in a scenario's list, and its original text. */
export type ListedPod = {
  readonly pod: ScenarioPod;
  readonly v1: V1RunningPod;
  readonly path: Path;
  /** scenarios.md 2.3.3: false in phase Succeeded or Failed. */
  readonly isActive: boolean;
};

/** scenarios.md 7.2: 20 mistakes in a document are reported; one more is searched for, to say that there are more. */
export const MAX_MISTAKES = 21;

/**
 * scenarios.md 2.3: the pods of the list at `path` (also a List or PodList), including inactive ones, and at least the first
 * MAX_MISTAKES mistakes there. Pods without a mistake are returned even if there are problems.
 */
export function podsOf(
  yaml: YamlDocument,
  path: Path,
): { readonly pods: readonly ListedPod[]; readonly problems: readonly Problem[] } {
  const items = itemsAt(yaml, path);
  if (!Array.isArray(items.value)) {
    const said = `expected a list of v1 Pods, or {kind: List, items: [...]}, not ${sayValue(items.value)}`;
    return { pods: [], problems: [yaml.problemAt(items.path, said)] };
  }
  const pods: ListedPod[] = [];
  const problems: Problem[] = [];
  const uids = new Map<string, string>();
  for (const [i, raw] of items.value.entries()) {
    if (problems.length >= MAX_MISTAKES) break;
    const read = readPod(yaml, [...items.path, i], raw);
    problems.push(...read.problems);
    if (read.pod === null) continue;
    pods.push(read.pod);
    if (!read.pod.isActive) continue;
    const { ref, declared } = read.pod.pod;
    const other = uids.get(declared.uid);
    if (other === undefined) uids.set(declared.uid, ref);
    else
      problems.push(yaml.problemAt([...read.pod.path, 'metadata', 'uid'], `another active pod, ${other}, has it too`));
  }
  return { pods, problems };
}

/** The active ones (scenarios.md 2.3.3). */
export function activeOf(pods: readonly ListedPod[]): readonly ScenarioPod[] {
  return pods.flatMap(({ pod, isActive }) => (isActive ? [pod] : []));
}

function itemsAt(yaml: YamlDocument, path: Path): { readonly value: unknown; readonly path: Path } {
  const value = valueAt(yaml.value, path);
  if (!isObject(value)) return { value, path };
  const isList = value['kind'] === 'List' || value['kind'] === 'PodList';
  return isList ? { value: value['items'], path: [...path, 'items'] } : { value, path };
}

function readPod(
  yaml: YamlDocument,
  path: Path,
  raw: unknown,
): { readonly pod: ListedPod | null; readonly problems: readonly Problem[] } {
  if (!isObject(raw)) return { pod: null, problems: [yaml.problemAt(path, `expected a v1 Pod, not ${sayValue(raw)}`)] };
  const kind = raw['kind'];
  // The output of `kubectl get all` is no such list.
  if (kind !== undefined && kind !== null && kind !== 'Pod') {
    return { pod: null, problems: [yaml.problemAt([...path, 'kind'], `must be Pod, not ${sayValue(kind)}`)] };
  }
  const { value, problems: found } = check(runningPodSchema, yaml, path);
  const problems = [...found];
  if (value === null) return { pod: null, problems };
  const phase = value.status?.phase;
  const mistake = evictForMistake(value.metadata.annotations?.[EVICT_FOR] ?? 'none');
  if (mistake !== null) problems.push(yaml.problemAt([...path, 'metadata', 'annotations', EVICT_FOR], mistake));
  return {
    pod: { pod: scenarioPodOf(value), v1: value, path, isActive: phase !== 'Succeeded' && phase !== 'Failed' },
    problems,
  };
}

const PREFIX = 'kubernetes.io/config.';

/**
 * scenarios.md 2.3: with the defaults of the API, what is never evicted (2.3.3), and D7 and D8 as set in the document
 * (2.1).
 */
function scenarioPodOf(pod: V1RunningPod): ScenarioPod {
  const declared = runningPodOf(pod);
  const { annotations } = pod.metadata;
  const source = annotations?.[`${PREFIX}source`];
  const written = annotations?.[EVICT_FOR];
  const evictFor = written === undefined ? null : parseEvictFor(written);
  const isStatic = (source !== undefined && source !== 'api') || annotations?.[`${PREFIX}mirror`] !== undefined;
  return {
    declared: {
      ...declared,
      isStaticCritical: declared.isStaticCritical || isStatic,
      isProtected: annotations?.['nodewarden.dev/protect'] === 'true',
      ...(evictFor === null ? {} : { evictFor }),
    },
    ref: podName(declared),
    localVolumes: localVolumesOf(pod),
  };
}
