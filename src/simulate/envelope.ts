import { KUBELET_API_VERSION, KUBELET_DURATION_FIELDS } from '../config/schema.ts';
import { isObject } from '../core/shape.ts';
import { sayUnknownName } from '../document/check.ts';
import type { YamlDocument } from '../document/document.ts';
import { nearestName } from '../document/nearest.ts';
import type { Path, Problem } from '../document/problem.ts';
import type { Json, ScenarioHead } from './scenario.ts';

const SCENARIO_API_VERSION = 'nodewarden.dev/v1alpha1';
const SCENARIO_KINDS = ['EvictionScenario', 'ShutdownScenario'] as const;
type ScenarioKind = (typeof SCENARIO_KINDS)[number];

/** scenarios.md 1.1. `kind` is null where it is none of ours; the problems tell. */
type Head = ScenarioHead & { readonly kind: ScenarioKind | null };

/**
 * apiVersion, kind and metadata of a document, with what is wrong there; the other keys belong to the kind's reader.
 * null = without a name that can be shown.
 */
export function readHead(yaml: YamlDocument): { readonly head: Head | null; readonly problems: readonly Problem[] } {
  const { value } = yaml;
  if (!isObject(value)) {
    const said = `expected a mapping with apiVersion: ${SCENARIO_API_VERSION} and kind: ${SCENARIO_KINDS.join(' or ')}`;
    return { head: null, problems: [yaml.problemAt([], said)] };
  }
  const kind = SCENARIO_KINDS.find((valid) => valid === value['kind']) ?? null;
  const metadata = readMetadata(yaml, value['metadata']);
  const problems = [
    ...(value['apiVersion'] === SCENARIO_API_VERSION
      ? []
      : [yaml.problemAt(['apiVersion'], sayMustBe(value['apiVersion'], [SCENARIO_API_VERSION]))]),
    ...(kind === null ? [yaml.problemAt(['kind'], sayMustBe(value['kind'], SCENARIO_KINDS))] : []),
    ...metadata.problems,
  ];
  return { head: metadata.head === null ? null : { ...metadata.head, kind }, problems };
}

type ReadMetadata = { readonly head: ScenarioHead | null; readonly problems: readonly Problem[] };

function readMetadata(yaml: YamlDocument, metadata: unknown): ReadMetadata {
  const missing = 'missing; for example {"name": "leaking-batch-job"}';
  if (!isObject(metadata)) {
    const said = metadata === undefined ? missing : 'expected a mapping; for example {"name": "leaking-batch-job"}';
    return { head: null, problems: [yaml.problemAt(['metadata'], said)] };
  }
  const problems = [...unknownKeys(yaml, ['metadata'], metadata, ['name', 'labels'])];
  const { name } = metadata;
  if (typeof name !== 'string' || name === '') {
    const said = name === undefined ? 'missing' : 'expected text, not empty';
    problems.push(yaml.problemAt(['metadata', 'name'], `${said}; for example "leaking-batch-job"`));
  }
  const labels = readLabels(yaml, metadata['labels'], problems);
  return { head: typeof name === 'string' && name !== '' ? { name, labels } : null, problems };
}

function readLabels(yaml: YamlDocument, labels: unknown, problems: Problem[]): ScenarioHead['labels'] {
  const path = ['metadata', 'labels'];
  if (labels === undefined || labels === null) return {};
  if (!isObject(labels)) {
    problems.push(yaml.problemAt(path, 'expected a mapping with text values; for example {"profile": "nightly"}'));
    return {};
  }
  const texts = Object.entries(labels).flatMap(([key, value]): readonly (readonly [string, string])[] => {
    if (typeof value === 'string') return [[key, value]];
    problems.push(yaml.problemAt([...path, key], 'expected text; quote it'));
    return [];
  });
  return Object.fromEntries(texts);
}

/** scenarios.md 1.2: a key that is none of the valid ones, each as a problem with the nearest valid name. */
function unknownKeys(yaml: YamlDocument, path: Path, object: Json, valid: readonly string[]): readonly Problem[] {
  const problems: Problem[] = [];
  for (const key in object) {
    if (!valid.includes(key)) problems.push(yaml.problemAt([...path, key], sayUnknownName(key, valid, 'key'), 'key'));
  }
  return problems;
}

function sayMustBe(value: unknown, valid: readonly string[]): string {
  const said = `must be ${valid.join(' or ')}`;
  if (value === undefined) return `missing; ${said}`;
  const nearest = typeof value === 'string' ? nearestName(value, valid) : null;
  return nearest === null ? said : `${said}; did you mean ${nearest}?`;
}

/** What an `expect` says; one without a key expects nothing. null = nothing. */
export function expectOf(value: unknown): Json | null {
  return isObject(value) && Object.keys(value).length > 0 ? value : null;
}

/** The part of a scenario that stands below `config`, as the KubeletConfiguration that it is, with these of its fields. */
export function kubeletDocument(yaml: YamlDocument, given: Json, fields: readonly string[]): YamlDocument {
  const value: { [key: string]: unknown } = { apiVersion: KUBELET_API_VERSION, kind: 'KubeletConfiguration' };
  for (const name of fields) {
    const field = given[name];
    // null is as absent, but a duration of null is decoded as the empty text and refused, as in the kubelet's own file.
    const isKept = field !== undefined && (field !== null || KUBELET_DURATION_FIELDS.includes(name));
    if (isKept) value[name] = field;
  }
  const below = /^config(?=[.[])\.?/;
  return {
    file: yaml.file,
    value,
    problemAt: (path: Path, text, of) => yaml.problemAt(['config', ...path], text, of),
    told: new Set([...yaml.told].flatMap((path) => (below.test(path) ? [path.replace(below, '')] : []))),
  };
}
