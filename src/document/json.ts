import { sayCause } from '../core/reading.ts';
import { MAX_DEPTH, type ParsedDocuments, type YamlDocument } from './document.ts';
import { countKeys, findMistake, type Member, membersAt, skipBlank } from './json-text.ts';
import { type LocatedProblem, type Path, type Problem, sayPath } from './problem.ts';

/** Where a text begins in its file; lines and columns count from 1. */
type TextStart = { readonly line: number; readonly column: number };

/**
 * One strict JSON text as a document; objects have their usual prototype. JSON.parse reads it at some 100 MB/s; positions are
 * searched for only to report a problem. A duplicate key is a problem, as in YAML, but the last value is kept; the first
 * hundred are reported.
 */
export function parseJsonDocument(
  text: string,
  file: string,
  start: TextStart = { line: 1, column: 1 },
): ParsedDocuments {
  const places = createPlaces(text, file, start);
  const refused = (offset: number, said: string): ParsedDocuments => ({
    documents: [],
    problems: [places.problemAtOffset(offset, '', said)],
  });
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    const mistake = findMistake(text, MAX_DEPTH);
    // Both follow the same grammar; if they ever disagree, JSON.parse decides.
    const said = mistake?.text ?? sayCause(cause);
    return refused(mistake?.offset ?? 0, `not valid JSON: ${said}`);
  }
  const keys = typeof value === 'object' && value !== null ? keysOf(value, MAX_DEPTH) : 0;
  if (keys === null)
    return refused(findMistake(text, MAX_DEPTH)?.offset ?? 0, `nested deeper than ${MAX_DEPTH} levels`);
  const problems = keys === countKeys(text) ? [] : places.duplicates();
  const document: YamlDocument = { file, value, problemAt: places.problemAt, told: new Set() };
  return { documents: [document], problems };
}

/**
 * The number of keys in all mappings; null = nested deeper than `levels`. With for-in: Object.values takes six times as
 * long.
 */
function keysOf(value: object, levels: number): number | null {
  if (levels === 0) return null;
  const isList = Array.isArray(value);
  let keys = 0;
  for (const key in value) {
    if (!isList) keys++;
    const inner: unknown = Reflect.get(value, key);
    const below = typeof inner === 'object' && inner !== null ? keysOf(inner, levels - 1) : 0;
    if (below === null) return null;
    keys += below;
  }
  return keys;
}

type Places = {
  readonly problemAtOffset: (offset: number, path: string, text: string) => LocatedProblem;
  readonly problemAt: YamlDocument['problemAt'];
  readonly duplicates: () => readonly Problem[];
};

function createPlaces(text: string, file: string, start: TextStart): Places {
  let lineStarts: readonly number[] | null = null;
  const found = new Map<number, MemberOf>();

  const problemAtOffset = (offset: number, path: string, said: string): LocatedProblem => {
    lineStarts ??= lineStartsOf(text);
    const index = lastAtMost(lineStarts, offset);
    const column = offset - (lineStarts[index] ?? 0) + (index === 0 ? start.column : 1);
    return { file, line: start.line + index, column, path, text: said };
  };
  /** Kept, because the next problem is often in the same long list. */
  const membersOf = (offset: number): MemberOf => {
    const memberOf = found.get(offset) ?? memberIn(membersAt(text, offset));
    found.set(offset, memberOf);
    return memberOf;
  };
  const offsetOf = (path: Path, of: 'key' | 'value'): number => {
    let offset = skipBlank(text, 0);
    for (const [index, step] of path.entries()) {
      const member = membersOf(offset)(step);
      if (member === undefined) break;
      offset = of === 'key' && index === path.length - 1 ? member.keyOffset : member.offset;
    }
    return offset;
  };
  return {
    problemAtOffset,
    problemAt: (path, said, of = 'value') => problemAtOffset(offsetOf(path, of), sayPath(path), said),
    duplicates: () => {
      const duplicates: Duplicate[] = [];
      findDuplicates(text, skipBlank(text, 0), [], duplicates);
      return duplicates.map(({ path, member }) =>
        problemAtOffset(member.keyOffset, sayPath(path), 'appears twice in this mapping'),
      );
    },
  };
}

type MemberOf = (step: string | number) => Member | undefined;

/** A list does not become a Map, which cannot hold more than 2^24 entries. */
function memberIn(members: readonly Member[]): MemberOf {
  if (typeof members[0]?.key === 'number') return (step) => (typeof step === 'number' ? members[step] : undefined);
  // For a duplicate key, the last one counts, as in the value.
  const byKey = new Map(members.map((member) => [member.key, member]));
  return (step) => byKey.get(step);
}

type Duplicate = { readonly path: Path; readonly member: Member };
/** The search stops after this many. */
const MAX_DUPLICATES = 100;

function findDuplicates(text: string, offset: number, path: Path, duplicates: Duplicate[]): void {
  const seen = new Set<string>();
  for (const member of membersAt(text, offset)) {
    if (duplicates.length >= MAX_DUPLICATES) return;
    const at = [...path, member.key];
    if (typeof member.key === 'string') {
      if (seen.has(member.key)) duplicates.push({ path: at, member });
      seen.add(member.key);
    }
    findDuplicates(text, member.offset, at, duplicates);
  }
}

function lineStartsOf(text: string): readonly number[] {
  const starts = [0];
  for (let at = text.indexOf('\n'); at !== -1; at = text.indexOf('\n', at + 1)) starts.push(at + 1);
  return starts;
}

/** The index of the last number that is at most `limit`, in an ascending list that begins with 0. */
function lastAtMost(rising: readonly number[], limit: number): number {
  let low = 0;
  let high = rising.length - 1;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if ((rising[middle] ?? 0) <= limit) low = middle;
    else high = middle - 1;
  }
  return low;
}
