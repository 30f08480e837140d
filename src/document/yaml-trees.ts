import {
  type Alias,
  Composer,
  CST,
  type Document,
  type DocumentOptions,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  Lexer,
  type LineCounter,
  type ParseOptions,
  Parser,
} from 'yaml';

type TreeOptions = ParseOptions & DocumentOptions & { readonly lineCounter: LineCounter };
type Trees = {
  readonly trees: readonly Document.Parsed[];
  /** Where and why reading stopped before the end of the text; the document there is left out. */
  readonly stopped: { readonly offset: number; readonly text: string } | null;
};

/**
 * `maxDepth`: nesting of lists and mappings. Twice as many levels are composed, because a reader can report the
 * position better.
 */
type TreeBounds = { readonly maxTokens: number; readonly maxDepth: number };

/** An error costs as much as 10 tokens, in time and in memory. */
const MAX_ERRORS = 100;
/**
 * Never three of these in a row, whatever is between them: each is reported as an error, but only once everything is
 * composed.
 */
const NEVER_THREE: readonly unknown[] = [
  'comma',
  'anchor',
  'tag',
  'alias',
  'single-quoted-scalar',
  'double-quoted-scalar',
];
const BETWEEN: readonly unknown[] = ['space', 'newline', 'comment'];

/**
 * The trees of a YAML text. The tokens are counted before anything is composed from them, because the composer is recursive:
 * nesting that exhausts the stack inside a regular expression ends the process (Node 20: 64 KiB of `{"a":`), which nobody can
 * catch.
 */
export function treesOf(text: string, options: TreeOptions, { maxTokens, maxDepth }: TreeBounds): Trees {
  const { lineCounter } = options;
  const parser = new Parser(lineCounter.addNewLine);
  const composer = new Composer(options);
  const trees: Document.Parsed[] = [];
  let tokens = 0;
  let errors = 0;
  let last: unknown = null;
  let inARow = 0;
  const stop = (said: string): Trees => {
    trees.push(...composer.end());
    return { trees, stopped: { offset: parser.offset, text: said } };
  };
  lineCounter.addNewLine(0);
  for (const lexeme of new Lexer().lex(text)) {
    tokens += 1;
    if (tokens > maxTokens) return stop(`too large for one file: more than ${maxTokens} tokens`);
    const type = CST.tokenType(lexeme);
    if (!BETWEEN.includes(type)) {
      inARow = type === last ? inARow + 1 : 1;
      last = type;
      if (inARow > 2 && NEVER_THREE.includes(type)) errors += 1;
    }
    for (const token of parser.next(lexeme)) {
      if (token.type === 'error') errors += 1;
      trees.push(...composer.next(token));
    }
    if (errors > MAX_ERRORS) return stop('too many errors to continue from here');
    if (parser.stack.length > 2 * maxDepth) return stop(`nested deeper than ${maxDepth} levels`);
  }
  for (const token of parser.end()) trees.push(...composer.next(token));
  trees.push(...composer.end());
  return { trees, stopped: null };
}

/**
 * The target of each alias: the last node before it with its anchor. In one pass; the package's own method searches all
 * nodes for each alias.
 */
export function aliasTargets(tree: Document.Parsed): ReadonlyMap<Alias, unknown> {
  const anchors = new Map<string, unknown>();
  const targets = new Map<Alias, unknown>();
  const visit = (node: unknown): void => {
    if (isAlias(node)) targets.set(node, anchors.get(node.source));
    if (!isScalar(node) && !isMap(node) && !isSeq(node)) return;
    if (node.anchor !== undefined) anchors.set(node.anchor, node);
    if (isSeq(node)) for (const item of node.items) visit(item);
    if (!isMap(node)) return;
    for (const pair of node.items) {
      visit(pair.key);
      visit(pair.value);
    }
  };
  visit(tree.contents);
  return targets;
}
