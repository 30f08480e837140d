import { type Dialect, MAX_DOCUMENT_BYTES, parseDocuments, type YamlDocument } from '../document/document.ts';
import { type Problem, problemOfFile } from '../document/problem.ts';
import { isDenied } from '../host/file-error.ts';
import { distrust, kindOf, readDocument } from '../host/files.ts';
import { entryOf, type Source } from './field.ts';
import { KUBELET_API_VERSION, KUBELET_DURATION_FIELDS, NODEWARDEN_API_VERSION } from './schema.ts';

export const GUARD_KIND = 'NodewardenGuardConfiguration';
const API_VERSIONS = {
  NodewardenConfiguration: NODEWARDEN_API_VERSION,
  KubeletConfiguration: KUBELET_API_VERSION,
  [GUARD_KIND]: NODEWARDEN_API_VERSION,
} as const;
type Kind = keyof typeof API_VERSIONS;

/** Whether a file may belong to anybody: only if nothing is acted on. */
export type Trust = 'owner' | 'anybody';

type ReadSource<K> = { readonly kind: K | null; readonly source: Source | null; readonly problems: readonly Problem[] };

/** One document of one of the kinds. The kubelet's kind is read as the kubelet reads it. */
export function readSource<K extends Kind>(
  text: string,
  file: string,
  kinds: readonly K[],
  from: Source['kind'],
): ReadSource<K> {
  const parse = (dialect: Dialect) => parseDocuments(text, file, dialect);
  const first = parse('ours');
  const kind = kinds.find((valid) => valid === entryOf(first.documents[0]?.value, 'kind')) ?? null;
  const { documents, problems } = kind === 'KubeletConfiguration' ? parse('kubelet') : first;
  const [document, second] = documents;
  const more = second === undefined ? [] : [second.problemAt([], 'a second document; only one is read')];
  if (document === undefined) {
    const nothing = { file, line: 1, column: 1, path: '', text: `empty; it needs ${sayHead(kinds)}` };
    return { kind: null, source: null, problems: problems.length > 0 ? problems : [nothing] };
  }
  if (kind === null) {
    const isMap = typeof document.value === 'object' && document.value !== null && !Array.isArray(document.value);
    const given = entryOf(document.value, 'kind');
    const wrong = isMap
      ? document.problemAt(
          ['kind'],
          given === undefined
            ? `missing; it needs ${sayHead(kinds)}`
            : `must be ${kinds.join(' or ')}${sayOther(given)}`,
        )
      : document.problemAt([], `expected a mapping; it needs ${sayHead(kinds)}`);
    return { kind: null, source: null, problems: [...problems, wrong] };
  }
  return { kind, source: { document, kind: from }, problems: [...problems, ...more] };
}

function sayHead(kinds: readonly Kind[]): string {
  return kinds.map((kind) => `apiVersion: ${API_VERSIONS[kind]} with kind: ${kind}`).join(', or ');
}

function sayOther(given: unknown): string {
  if (given === GUARD_KIND) return `; ${GUARD_KIND} configures the guard, not the agent`;
  return given === 'NodewardenConfiguration' ? '; NodewardenConfiguration configures the agent, not the guard' : '';
}

/**
 * An empty field counts as absent, so that all lines of a section may be commented out. Durations are the exception: the
 * kubelet decodes them as the empty text and refuses it (seen in its recorded answers).
 */
export function withoutEmptyFields(document: YamlDocument): YamlDocument {
  const kept = Object.entries(document.value ?? {}).filter(
    ([name, value]) => value !== null || KUBELET_DURATION_FIELDS.includes(name),
  );
  return { ...document, value: Object.fromEntries(kept) };
}

/** The text; null: no such file; a problem: the file must not or cannot be read. */
export function readConfigFile(file: string, trust: Trust, maxBytes = MAX_DOCUMENT_BYTES): string | Problem | null {
  const text = readDocument(file, maxBytes, trust === 'owner' ? 'refused' : 'followed');
  if (!text.known && isDenied(text))
    return { ...problemOfFile(file, `cannot be read: ${text.detail}`), isDenied: true };
  // Advice on who may write is for a file: chmod go-w of a directory such as /tmp does harm.
  const refused = trust === 'owner' && kindOf(file) !== 'directory' ? distrust(file) : null;
  if (refused !== null) return problemOfFile(file, `refused: ${refused}`);
  if (text.known) return text.value;
  return text.why === 'absent' ? null : problemOfFile(file, `cannot be read: ${text.detail}`);
}

export function missing(file: string): Problem {
  return problemOfFile(file, 'does not exist; name another file, or omit it to use the defaults');
}
