import {
  type Document,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  type Pair,
  type Scalar,
  type YAMLError,
  type YAMLMap,
  type YAMLSeq,
} from 'yaml';
import { type LocatedProblem, type Path, type Problem, problemOfFile, sayPath } from './problem.ts';
import { aliasTargets, treesOf } from './yaml-trees.ts';

/**
 * `ours`: YAML 1.2, in which spellings that other readers understand differently are problems. `core`: YAML 1.2 core, and
 * nothing else (scenarios.md 1.1). `kubelet`: YAML 1.1 as the kubelet reads it.
 */
export type Dialect = 'ours' | 'core' | 'kubelet';
export type YamlDocument = {
  readonly file: string;
  /** Null, booleans, numbers, strings, arrays, and objects without a prototype. */
  readonly value: unknown;
  /** A problem at a path in this document; if the path does not exist, at the nearest one above. */
  readonly problemAt: (path: Path, text: string, of?: 'key' | 'value') => LocatedProblem;
  /**
   * Paths whose value is already reported, such as `dryRun` for `yes`: what a schema finds there is the same mistake.
   */
  readonly told: ReadonlySet<string>;
};
export type ParsedDocuments = { readonly documents: readonly YamlDocument[]; readonly problems: readonly Problem[] };

/** Files that people write are smaller; limits what the parser may cost. */
export const MAX_DOCUMENT_BYTES = 1024 * 1024;
/** The limits of one text: its length, its tokens, and the values in one of its documents. */
export type Bounds = { readonly maxLength: number; readonly maxTokens: number; readonly maxValues: number };
export const MAX_DEPTH = 64;
/** Aliases multiply values: 100 are enough for a person and too few to exceed `maxValues`. */
const MAX_ALIASES = 100;
/** A token costs up to 20 µs, so this many take less than a second. A line of a manifest has some five. */
const WRITTEN_BY_HAND: Bounds = { maxLength: MAX_DOCUMENT_BYTES, maxTokens: 50_000, maxValues: 200_000 };
const NOT_A_NUMBER = /^\.nan$/i;
/** People cannot read more; the rest is counted. */
const MAX_PROBLEMS = 100;

/**
 * All documents of a YAML text with their positions, and all problems of form: syntax, duplicate keys, size, depth. Readable
 * documents are returned even if there are problems, so that all mistakes can be reported in one pass; an empty text has no
 * documents.
 */
export function parseDocuments(
  text: string,
  file: string,
  dialect: Dialect,
  bounds: Bounds = WRITTEN_BY_HAND,
): ParsedDocuments {
  if (text.length > bounds.maxLength) {
    const said = `larger than ${bounds.maxLength / 1024} KiB`;
    return { documents: [], problems: [problemOfFile(file, said)] };
  }
  const lines = new LineCounter();
  const options = {
    lineCounter: lines,
    prettyErrors: false,
    // Our own check below uses a set; theirs compares every key with every other.
    uniqueKeys: false,
    version: dialect === 'kubelet' ? '1.1' : '1.2',
    merge: false,
    logLevel: 'silent',
  } as const;
  const { trees, stopped } = treesOf(text, options, { maxTokens: bounds.maxTokens, maxDepth: MAX_DEPTH });
  const problems: Problem[] = [];
  const documents: YamlDocument[] = [];
  if (stopped !== null) problems.push(problemAtOffset(file, lines, stopped.offset, '', stopped.text));
  for (const tree of trees) {
    const aliases = aliasTargets(tree);
    const place = placeOf({ file, lines, tree, aliases });
    for (const error of [...tree.errors, ...tree.warnings]) {
      problems.push(place.at(error.pos[0], '', sayError(error)));
    }
    const told = new Set<string>();
    const report: Report = (offset, path, said) => {
      told.add(sayPath(path));
      problems.push(place.at(offset, sayPath(path), said));
    };
    const reader = createReader({ tree, aliases, dialect, maxValues: bounds.maxValues }, report);
    documents.push({ file, value: reader.read(), problemAt: place.problemAt, told });
  }
  return { documents, problems: inOrder(problems) };
}

/** In the order of the files, without duplicates. At most 100; the last one then says how many more there are. */
export function inOrder(problems: readonly Problem[]): readonly Problem[] {
  const once = new Map(problems.map((problem) => [JSON.stringify(problem), problem]));
  const files = [...new Set(problems.map(({ file }) => file))];
  const sorted = [...once.values()].sort(
    (a, b) =>
      files.indexOf(a.file) - files.indexOf(b.file) ||
      (a.line ?? 0) - (b.line ?? 0) ||
      (a.column ?? 0) - (b.column ?? 0),
  );
  const last = sorted[MAX_PROBLEMS - 1];
  if (sorted.length <= MAX_PROBLEMS || last === undefined) return sorted;
  const more = `and ${sorted.length - MAX_PROBLEMS + 1} more problems`;
  return [...sorted.slice(0, MAX_PROBLEMS - 1), { ...last, path: '', text: more }];
}

function sayError({ code, message }: YAMLError): string {
  return code === 'TAG_RESOLVE_FAILED' ? `unknown tag: ${message}` : `not valid YAML: ${message}`;
}

type Tree = { readonly tree: Document.Parsed; readonly aliases: ReturnType<typeof aliasTargets> };
type Located = Tree & { readonly file: string; readonly lines: LineCounter };
type Place = {
  readonly at: (offset: number, path: string, text: string) => LocatedProblem;
  readonly problemAt: YamlDocument['problemAt'];
};

function problemAtOffset(file: string, lines: LineCounter, offset: number, path: string, text: string): LocatedProblem {
  const { line, col } = lines.linePos(offset);
  return { file, line: Math.max(line, 1), column: Math.max(col, 1), path, text };
}

function placeOf({ file, lines, tree, aliases }: Located): Place {
  const at = (offset: number, path: string, text: string): LocatedProblem =>
    problemAtOffset(file, lines, offset, path, text);
  // Kept, because a mapping with one unknown key may have thousands.
  const pairs = new Map<YAMLMap, ReadonlyMap<string, Pair>>();
  const pairsOf = (map: YAMLMap): ReadonlyMap<string, Pair> => {
    const found = pairs.get(map) ?? pairsByKey(map);
    pairs.set(map, found);
    return found;
  };
  return {
    at,
    problemAt: (path, text, of = 'value') => at(offsetOf({ tree, aliases }, path, of, pairsOf), sayPath(path), text),
  };
}

/** For a duplicate key, the first pair, whose value was kept. */
function pairsByKey(map: YAMLMap): ReadonlyMap<string, Pair> {
  const pairs = new Map<string, Pair>();
  for (const pair of map.items) {
    const key = keyOf(pair);
    if (key !== null && !pairs.has(key)) pairs.set(key, pair);
  }
  return pairs;
}

/** The offset of the path's value, or of its key; if there is none, of the nearest node above. */
function offsetOf(
  { tree, aliases }: Tree,
  path: Path,
  of: 'key' | 'value',
  pairsOf: (map: YAMLMap) => ReadonlyMap<string, Pair>,
): number {
  let node: unknown = tree.contents;
  let offset = startOf(node) ?? tree.range[0];
  for (const [index, step] of path.entries()) {
    if (isAlias(node)) node = aliases.get(node);
    const isLast = index === path.length - 1;
    if (isMap(node)) {
      const pair = pairsOf(node).get(String(step));
      if (pair === undefined) return offset;
      const keyOffset = startOf(pair.key) ?? offset;
      offset = isLast && of === 'key' ? keyOffset : (startOf(pair.value) ?? keyOffset);
      node = pair.value;
    } else if (isSeq(node) && typeof step === 'number') {
      node = node.items[step];
      offset = startOf(node) ?? offset;
    } else return offset;
  }
  return offset;
}

function startOf(node: unknown): number | null {
  return isAlias(node) || isScalar(node) || isMap(node) || isSeq(node) ? (node.range?.[0] ?? null) : null;
}

function keyOf({ key }: Pair): string | null {
  if (!isScalar(key)) return null;
  return typeof key.value === 'string' ? key.value : (key.source ?? String(key.value));
}

type Report = (offset: number, path: Path, text: string) => void;

/** Converts the tree to plain values, within the limits, and reports problems of form. */
function createReader(
  { tree, aliases: targets, dialect, maxValues }: Tree & { readonly dialect: Dialect; readonly maxValues: number },
  report: Report,
): { read: () => unknown } {
  let aliases = 0;
  let nodes = 0;
  let isReported = false;
  const once = (offset: number, path: Path, text: string): null => {
    if (!isReported) report(offset, path, text);
    isReported = true;
    return null;
  };

  function readNode(node: unknown, path: Path): unknown {
    nodes += 1;
    const offset = startOf(node) ?? 0;
    if (path.length > MAX_DEPTH) return once(offset, path.slice(0, 4), `nested deeper than ${MAX_DEPTH} levels`);
    if (nodes > maxValues) return once(offset, path, `more than ${maxValues} values`);
    if (isScalar(node)) return readScalar(node, path);
    if (isSeq(node)) return readList(node, path);
    if (isMap(node)) return readMap(node, path);
    if (!isAlias(node)) return null;
    aliases += 1;
    if (aliases > MAX_ALIASES) return once(offset, path, `more than ${MAX_ALIASES} aliases`);
    const target = targets.get(node);
    if (target === undefined) report(offset, path, `no anchor &${node.source} before this alias`);
    return readNode(target, path);
  }

  function readList(list: YAMLSeq, path: Path): unknown[] {
    const value: unknown[] = [];
    for (const [index, item] of list.items.entries()) {
      // Beyond a limit, nothing more is read: a list that contains itself would have 64 levels of all its entries.
      if (isReported) break;
      value.push(readNode(item, [...path, index]));
    }
    return value;
  }

  function readMap(map: YAMLMap, path: Path): { [key: string]: unknown } {
    const value: { [key: string]: unknown } = Object.create(null);
    const seen = new Set<string>();
    const merged: unknown[] = [];
    for (const pair of map.items) {
      if (isReported) break;
      const key = keyOf(pair);
      const offset = startOf(pair.key) ?? startOf(map) ?? 0;
      if (key === null) {
        report(offset, path, 'a key must be plain text');
      } else if (dialect === 'kubelet' && key === '<<') {
        const source = readNode(pair.value, [...path, key]);
        merged.push(...(Array.isArray(source) ? source : [source]));
      } else if (seen.has(key)) {
        report(offset, [...path, key], 'appears twice in this mapping');
      } else {
        seen.add(key);
        value[key] = readNode(pair.value, [...path, key]);
      }
    }
    for (const source of merged) {
      for (const [key, inherited] of Object.entries(source ?? {})) if (!(key in value)) value[key] = inherited;
    }
    return value;
  }

  function readScalar(scalar: Scalar, path: Path): unknown {
    const { value, source = '' } = scalar;
    const isPlain = scalar.type === 'PLAIN';
    if (dialect === 'ours' && isPlain) {
      const wrong = sayAmbiguous(source, value);
      if (wrong !== null) report(startOf(scalar) ?? 0, path, wrong);
    }
    // The parser's YAML 1.1 treats e1 as a number, but without a value.
    if (Number.isNaN(value)) return NOT_A_NUMBER.test(source) ? value : source;
    const isKept = value === null || ['string', 'number', 'boolean'].includes(typeof value);
    // YAML 1.1 also has dates and binary, which stay as written.
    return isKept ? value : source;
  }

  return { read: () => readNode(tree.contents, []) };
}

/** Why a spelling means something else in YAML 1.1, or loses digits; null: neither. */
function sayAmbiguous(source: string, value: unknown): string | null {
  if (/^(yes|no|on|off|y|n)$/i.test(source)) {
    const meant = /^(yes|on|y)$/i.test(source) ? 'true' : 'false';
    return `${source} is text here but a boolean to other parsers: write ${meant}, or quote it ("${source}")`;
  }
  if (typeof value !== 'number') return null;
  if (/^[-+]?0[0-9_]/.test(source)) {
    return `${source} is decimal here but octal to other parsers: write it without the leading zero, or quote it ("${source}")`;
  }
  if (Number.isInteger(value) && !Number.isSafeInteger(value))
    return `${source} is beyond 2^53 - 1 and would lose digits`;
  return null;
}
