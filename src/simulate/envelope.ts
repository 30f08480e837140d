import { KUBELET_API_VERSION, KUBELET_DURATION_FIELDS } from '../config/schema.ts';
import { isObject } from '../core/shape.ts';
import { valueAt } from '../document/check.ts';
import type { YamlDocument } from '../document/document.ts';
import type { Path, Problem } from '../document/problem.ts';
import type { Json, ScenarioHead } from './scenario.ts';
import { among, createMistakes, mapOf, matching, orNull, ours, text, theirs } from './shape.ts';

const SCENARIO_API_VERSION = 'nodewarden.dev/v1alpha1';
const SCENARIO_KINDS = ['EvictionScenario', 'ShutdownScenario', 'GuardScenario'] as const;
type ScenarioKind = (typeof SCENARIO_KINDS)[number];

/** scenarios.md 1.1. `kind` is null if it is not one of ours; the problems say why. */
type Head = ScenarioHead & { readonly kind: ScenarioKind | null };

/** The keys with which every document begins; all are required. */
export const HEAD = {
  apiVersion: among([SCENARIO_API_VERSION]),
  kind: among(SCENARIO_KINDS),
  metadata: ours(
    {
      name: matching(/./, 'text, for example "leaking-batch-job"'),
      labels: orNull(mapOf(text)),
    },
    ['name'],
  ),
};
export const HEAD_KEYS = Object.keys(HEAD);

/** The name that a document gives itself; null = no printable name. */
export function headOf({ value }: YamlDocument): Head | null {
  const name = valueAt(value, ['metadata', 'name']);
  if (typeof name !== 'string' || name === '') return null;
  const labels = Object.entries(valueAt(value, ['metadata', 'labels']) ?? {}).filter(
    ([, label]) => typeof label === 'string',
  );
  const kind = SCENARIO_KINDS.find((valid) => valid === valueAt(value, ['kind'])) ?? null;
  return { name, labels: Object.fromEntries(labels), kind };
}

/** Problems in the head of a document of an unknown kind; the other keys would belong to the reader of its kind. */
export function headProblems(yaml: YamlDocument): readonly Problem[] {
  const mistakes = createMistakes(yaml);
  theirs(HEAD, HEAD_KEYS)(yaml.value, { path: [], mistakes, startWallMs: null });
  return mistakes.all();
}

/** The content of an `expect`; null = it expects nothing, also if it has no key. */
export function expectOf(value: unknown): Json | null {
  return isObject(value) && Object.keys(value).length > 0 ? value : null;
}

/** The `config` section of a scenario as a KubeletConfiguration, reduced to the given fields. */
export function kubeletDocument(yaml: YamlDocument, given: Json, fields: readonly string[]): YamlDocument {
  const value: { [key: string]: unknown } = { apiVersion: KUBELET_API_VERSION, kind: 'KubeletConfiguration' };
  for (const name of fields) {
    const field = given[name];
    // null counts as absent, but a duration of null is decoded as the empty text and refused, as in the kubelet's own
    // file.
    const isKept = field !== undefined && (field !== null || KUBELET_DURATION_FIELDS.includes(name));
    if (isKept) value[name] = field;
  }
  return below(yaml, 'config', value);
}

/** A section of a document as a separate document with this value. Its problems keep their place in the file. */
export function below(yaml: YamlDocument, section: string, value: { readonly [key: string]: unknown }): YamlDocument {
  const inSection = new RegExp(`^${section}(?=[.[])\\.?`);
  return {
    file: yaml.file,
    value,
    problemAt: (path: Path, text, of) => yaml.problemAt([section, ...path], text, of),
    told: new Set([...yaml.told].flatMap((path) => (inSection.test(path) ? [path.replace(inSection, '')] : []))),
  };
}
