import { KUBELET_API_VERSION, KUBELET_DURATION_FIELDS } from '../config/schema.ts';
import type { YamlDocument } from '../document/document.ts';
import type { Path } from '../document/problem.ts';
import type { Json } from './scenario.ts';

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
