import { type PodView, podName } from '../../core/pod/pod.ts';
import { PRIORITY_CLASSES } from '../../core/pod/spec.ts';
import { compareQuantity } from '../../core/units/quantity.ts';
import { check, valueAt } from '../../document/check.ts';
import { declaredPodOf, resourcesOf } from '../../document/declared-pod.ts';
import { inOrder, parseDocuments, type YamlDocument } from '../../document/document.ts';
import { podSchema, type V1Pod } from '../../document/pod.ts';
import { type LocatedProblem, type Path, type Problem, problemOfFile } from '../../document/problem.ts';
import { type Annotations, BINDINGS, readAnnotations, type Target } from './annotation.ts';
import { doubtsIn, resourcesIn } from './doubts.ts';

/** A pod as declared, before its binding is looked up. */
export type ManifestPod = {
  /** `startedAtWallMs` is null and it is not terminating: the pod source fills these in. */
  readonly declared: Omit<PodView, 'usage'>;
  readonly target: Target;
  readonly disk: readonly string[];
  readonly scratch: readonly string[];
  readonly afterEviction: Annotations['afterEviction'];
  /** Valid, but hardly meant. */
  readonly doubts: readonly Problem[];
  /** A problem at an annotation, found later; absent: at the binding. */
  readonly problem: (text: string, annotation?: string) => LocatedProblem;
};
export type Manifest = { readonly pods: readonly ManifestPod[]; readonly problems: readonly Problem[] };

const MAX_PODS = 1_000;

/**
 * The v1 Pods of a manifest (also of a List, and of several documents) and every mistake in it. A file with a problem must
 * not be used in part; the pods are returned nevertheless.
 */
export function parseManifest(text: string, file: string): Manifest {
  // Kubernetes reads its own kind by YAML 1.1.
  const { documents, problems } = parseDocuments(text, file, 'kubelet');
  const found: Problem[] = [...problems];
  const pods: ManifestPod[] = [];
  for (const document of documents) {
    for (const path of podPaths(document, found)) {
      const pod = readPod(document, path, found);
      if (pod !== null) pods.push(pod);
    }
  }
  if (pods.length > MAX_PODS) found.push(problemOfFile(file, `more than ${MAX_PODS} pods`));
  found.push(...repeated(pods));
  return { pods, problems: inOrder(found) };
}

/** The positions of the Pods in a document: it is one Pod, or a List of them. */
function podPaths(document: YamlDocument, problems: Problem[]): readonly Path[] {
  const root = document.value;
  // An empty document between two separators.
  if (root === null) return [];
  const kind = valueAt(root, ['kind']);
  const version = valueAt(root, ['apiVersion']);
  if (version !== 'v1') problems.push(document.problemAt(['apiVersion'], 'must be v1'));
  if (kind === 'Pod') return [[]];
  const items = valueAt(root, ['items']);
  if ((kind === 'List' || kind === 'PodList') && Array.isArray(items)) {
    const paths = items.map((_, i): Path => ['items', i]);
    return paths.filter((path, i) => {
      const item = valueAt(items[i], ['kind']);
      // The items of a PodList may omit their kind.
      if (item === 'Pod' || (kind === 'PodList' && item === undefined)) return true;
      problems.push(document.problemAt([...path, 'kind'], 'must be Pod'));
      return false;
    });
  }
  problems.push(document.problemAt(['kind'], 'must be Pod, or List with items'));
  return [];
}

function readPod(document: YamlDocument, at: Path, problems: Problem[]): ManifestPod | null {
  const checked = check(podSchema, document, at);
  problems.push(...checked.problems);
  const annotationsAt: Path = [...at, 'metadata', 'annotations'];
  const { annotations, mistakes } = readAnnotations(textsOf(document, annotationsAt));
  for (const { name, text, of } of mistakes) {
    problems.push(document.problemAt(name === '' ? annotationsAt : [...annotationsAt, name], text, of));
  }
  if (checked.value === null) return null;
  const pod = checked.value;
  problems.push(...overLimits(document, at, pod), ...classProblems(document, at, pod), ...sameNames(document, at, pod));
  const { target } = annotations;
  if (target === null) return null;
  const binding = BINDINGS.find((name) => pod.metadata.annotations?.[name] !== undefined) ?? BINDINGS[0];
  return {
    // An emptyDir of a manifest has no directory here; only the annotation counts.
    declared: {
      ...declaredPodOf(pod),
      boundTo: sayTarget(target),
      volumes: [],
      isProtected: annotations.isProtected,
      ...(annotations.evictFor === null ? {} : { evictFor: annotations.evictFor }),
    },
    target,
    disk: annotations.disk,
    scratch: annotations.scratch,
    afterEviction: annotations.afterEviction,
    doubts: doubtsIn(document, at, pod),
    problem: (text, annotation = binding) => document.problemAt([...annotationsAt, annotation], text),
  };
}

function sayTarget(target: Target): string {
  return `${target.kind} ${target.kind === 'unit' ? target.unit : target.kind === 'cgroup' ? target.path : target.name}`;
}

/** Annotations are checked even if the rest of the pod is wrong: all mistakes in one pass. */
function textsOf(document: YamlDocument, path: Path): { readonly [name: string]: string } {
  const value = valueAt(document.value, path);
  if (typeof value !== 'object' || value === null) return {};
  const texts: { [name: string]: string } = Object.create(null);
  for (const [name, entry] of Object.entries(value)) if (typeof entry === 'string') texts[name] = entry;
  return texts;
}

/** What the API server rejects: a request above the limit of the same resource. */
function overLimits(document: YamlDocument, at: Path, pod: V1Pod): readonly Problem[] {
  return resourcesIn(pod).flatMap(({ path, resources }) => {
    const { requests, limits } = resourcesOf(resources);
    return [...requests].flatMap(([name, request]) => {
      const limit = limits.get(name);
      if (limit === undefined || compareQuantity(request, limit) <= 0) return [];
      const text = `must not be more than the limit ${limit.text}, it is ${request.text}`;
      return [document.problemAt([...at, ...path, 'resources', 'requests', name], text)];
    });
  });
}

/** A class that only a cluster knows would silently have priority 0. */
function classProblems(document: YamlDocument, at: Path, { spec }: V1Pod): readonly Problem[] {
  const name = spec.priorityClassName ?? '';
  if (name === '' || PRIORITY_CLASSES.has(name) || typeof spec.priority === 'number') return [];
  const text = `not known here (only ${[...PRIORITY_CLASSES.keys()].join(' and ')} are): write its number as spec.priority`;
  return [document.problemAt([...at, 'spec', 'priorityClassName'], text)];
}

function sameNames(document: YamlDocument, at: Path, { spec }: V1Pod): readonly Problem[] {
  const seen = new Set<string>();
  const named = [
    ...spec.containers.map(({ name }, i) => ({ name, path: ['spec', 'containers', i, 'name'] })),
    ...(spec.initContainers ?? []).map(({ name }, i) => ({ name, path: ['spec', 'initContainers', i, 'name'] })),
  ];
  return named.flatMap(({ name, path }) => {
    if (seen.has(name)) return [document.problemAt([...at, ...path], `another container is also called ${name}`)];
    seen.add(name);
    return [];
  });
}

/** What must be unique to a pod, in words. */
export const keysOf = (pod: ManifestPod['declared']): readonly string[] => [`name ${podName(pod)}`, `uid ${pod.uid}`];

/** Two pods of one file with the same name or uid. */
function repeated(pods: readonly ManifestPod[]): readonly Problem[] {
  const seen = new Set<string>();
  return pods.flatMap(({ declared, problem }) => {
    const keys = keysOf(declared);
    const again = keys.find((key) => seen.has(key));
    for (const key of keys) seen.add(key);
    return again === undefined ? [] : [problem(`another pod of this file also has the ${again}`)];
  });
}
