import { isObject } from '../../core/shape.ts';
import { sayUnknownName, valueAt } from '../../document/check.ts';
import { resourcesOf } from '../../document/declared-pod.ts';
import { inOrder, type YamlDocument } from '../../document/document.ts';
import type { V1Pod, V1Resources } from '../../document/pod.ts';
import { FIELDS, isResource, PLACES, RESOURCES } from '../../document/pod-fields.ts';
import type { Path, Problem } from '../../document/problem.ts';
import { belongsAt, empty, noLabel, UNREAD } from '../../words/manifest-doubt.ts';
import { sayTiny } from '../../words/tiny-amount.ts';
import { annotationMeant, isPrefixed } from './annotation.ts';

/**
 * What is valid in a manifest, but hardly meant. A misspelt field or annotation is not read: the pod has a priority, a request or
 * a protection less than its author thinks.
 */
export function doubtsIn(document: YamlDocument, at: Path, pod: V1Pod): readonly Problem[] {
  return inOrder([...unreadNames(document, at, pod), ...tinyAmounts(document, at, pod)]);
}

export function resourcesIn({ spec }: V1Pod): readonly { readonly path: Path; readonly resources: V1Resources }[] {
  return [
    ...spec.containers.map(({ resources }, i) => ({ path: ['spec', 'containers', i], resources })),
    ...(spec.initContainers ?? []).map(({ resources }, i) => ({ path: ['spec', 'initContainers', i], resources })),
    { path: ['spec'], resources: spec.resources },
  ];
}

const IN_BYTES = ['memory', 'ephemeral-storage'];

function tinyAmounts(document: YamlDocument, at: Path, pod: V1Pod): readonly Problem[] {
  return resourcesIn(pod).flatMap(({ path, resources }) =>
    Object.entries(resourcesOf(resources)).flatMap(([kind, amounts]) =>
      [...amounts].flatMap(([name, amount]) => {
        const said = IN_BYTES.includes(name) ? sayTiny(amount, 'bytes') : null;
        return said === null ? [] : [document.problemAt([...at, ...path, 'resources', kind, name], said)];
      }),
    ),
  );
}

/** What a name at a place stands for that nothing reads; null: it is read, or known to the API, or somebody else's. */
type Judge = (name: string) => string | null;

const fieldOf =
  (valid: readonly string[]): Judge =>
  (name) => {
    if (valid.includes(name)) return null;
    const place = isPrefixed(name) ? 'metadata.annotations' : PLACES.get(name);
    return place === undefined ? sayUnknownName(name, valid, UNREAD.field) : belongsAt(place);
  };
const resource: Judge = (name) => (isResource(name) ? null : sayUnknownName(name, RESOURCES, UNREAD.resource));
const label: Judge = (name) => (isPrefixed(name) ? noLabel : null);

/** Those that decide who is evicted: a value was probably forgotten. Tools write others without a value. */
const isAmong = ([first]: Path, name: string): boolean => first === 'spec' && (PLACES.has(name) || isResource(name));

function unreadNames(document: YamlDocument, at: Path, pod: V1Pod): readonly Problem[] {
  const inContainers = resourcesIn(pod).map(({ path }) => path);
  const places: readonly (readonly [Path, Judge])[] = [
    [[], fieldOf(FIELDS.pod)],
    [['metadata'], fieldOf(FIELDS.metadata)],
    [['metadata', 'annotations'], annotationMeant],
    [['metadata', 'labels'], label],
    [['spec'], fieldOf(FIELDS.spec)],
    [['spec', 'overhead'], resource],
    ...inContainers.flatMap((path): typeof places => [
      ...(path.length === 1 ? [] : [[path, fieldOf(FIELDS.container)] as const]),
      [[...path, 'resources'], fieldOf(FIELDS.resources)],
      [[...path, 'resources', 'requests'], resource],
      [[...path, 'resources', 'limits'], resource],
    ]),
  ];
  return places.flatMap(([path, judge]) => {
    const given = valueAt(document.value, [...at, ...path]);
    return Object.entries(isObject(given) ? given : {}).flatMap(([name, value]) => {
      const said = judge(name) ?? (value === null && isAmong(path, name) ? empty : null);
      return said === null ? [] : [document.problemAt([...at, ...path, name], said, 'key')];
    });
  });
}
