import path from 'node:path';

/** Who may import whom, by module of src/: `in` other modules, `node` built-ins, `npm` packages; `*` = any. */
export type ImportTable = { readonly [module: string]: Allowed };
type Allowed = { readonly in: readonly string[]; readonly node: readonly string[]; readonly npm: readonly string[] };
/** Path relative to src/ -> text. */
export type Sources = ReadonlyMap<string, string>;

type Import = { readonly specifier: string; readonly isDynamic: boolean };

const STATIC_IMPORT = /^\s*(?:import|export)\b(?:[^'"();]*?\bfrom)?\s*(['"])([^'"]+)\1/gm;
const DYNAMIC_IMPORT = /(?<!typeof )\bimport\(\s*(['"])([^'"]+)\1/g;
const TYPE_IMPORT = /\btypeof import\(\s*(['"])([^'"]+)\1/g;
const MAY_IMPORT_DYNAMICALLY = [
  'cli/guard/api.ts',
  'cli/guard/check.ts',
  'cli/guard/run.ts',
  'cli/status.ts',
  'daemon/run.ts',
  'daemon/web.ts',
  'doctor/look.ts',
  'guard/http.ts',
  'main.ts',
  'host/hardware.ts',
];
/** Files outside src/: the version number. */
const OUTSIDE = new Map([
  ['daemon', ['../package.json']],
  ['cli', ['../package.json']],
]);

const IMPURE = /\b(Date|Math\.random|Intl|globalThis|toLocale\w*)\b/g;
const TIME = /\b(Date\.now|performance\.now|setTimeout|setInterval|setImmediate)\b/g;
const EMPTY_NAMES = /(^|\/)(index|types|utils|common|constants)\.ts$/;

/** `src/host/exec.ts` belongs to `host`, `src/daemon/loop.ts` to itself where the table names it. */
function moduleOf(file: string, table: ImportTable): string {
  const whole = file.replace(/\.ts$/, '');
  return whole in table ? whole : (whole.split('/')[0] ?? whole);
}

function importsOf(source: string): readonly Import[] {
  const text = withoutComments(source);
  const all = (pattern: RegExp, isDynamic: boolean): readonly Import[] =>
    [...text.matchAll(pattern)].map((match) => ({ specifier: match[2] ?? '', isDynamic }));
  return [...all(STATIC_IMPORT, false), ...all(TYPE_IMPORT, false), ...all(DYNAMIC_IMPORT, true)];
}

/**
 * Good enough for our own style: a string that contains `//` loses its end, which holds no import and no identifier.
 * A template that begins with a line end is the text of a child's program, which has its own clocks.
 */
function withoutComments(source: string): string {
  return source
    .replace(/\/\*[\s\S]*?\*\//g, '')
    .replace(/(^|[^:'"`])\/\/.*$/gm, '$1')
    .replace(/`\n[^`]*`/g, '``');
}

/** Every import that the table does not allow, as a sentence. Type imports count like others. */
export function forbiddenImports(sources: Sources, table: ImportTable): readonly string[] {
  const found: string[] = [];
  for (const [file, source] of sources) {
    for (const { specifier, isDynamic } of importsOf(source)) {
      if (isDynamic && !MAY_IMPORT_DYNAMICALLY.includes(file)) found.push(`${file} imports ${specifier} dynamically`);
      if (!isAllowed(file, specifier, table)) found.push(`${file} must not import ${specifier}`);
    }
  }
  return found;
}

function isAllowed(file: string, specifier: string, table: ImportTable): boolean {
  const from = moduleOf(file, table);
  const allowed = table[from];
  if (allowed === undefined) return false;
  const isIn = (list: readonly string[], name: string): boolean => list.includes('*') || list.includes(name);
  if (specifier.startsWith('.')) {
    const target = path.posix.join(path.posix.dirname(file), specifier);
    if (target.startsWith('..')) return OUTSIDE.get(from)?.includes(target) === true;
    const to = moduleOf(target, table);
    return to === from || isIn(allowed.in, to);
  }
  if (specifier.startsWith('node:')) return isIn(allowed.node, specifier.slice('node:'.length));
  const [first = '', second = ''] = specifier.split('/');
  return isIn(allowed.npm, first.startsWith('@') ? `${first}/${second}` : first);
}

/** Cycles between files, each named once by the import that closes it. */
export function importCycles(sources: Sources): readonly string[] {
  const state = new Map<string, 'open' | 'done'>();
  const found: string[] = [];
  const visit = (file: string, trail: readonly string[]): void => {
    if (state.get(file) === 'open') found.push([...trail.slice(trail.indexOf(file)), file].join(' -> '));
    const source = sources.get(file);
    if (state.has(file) || source === undefined) return;
    state.set(file, 'open');
    for (const { specifier } of importsOf(source)) {
      if (specifier.startsWith('.')) visit(path.posix.join(path.posix.dirname(file), specifier), [...trail, file]);
    }
    state.set(file, 'done');
  };
  for (const file of sources.keys()) visit(file, []);
  return found;
}

/** Of the machine, and of the browser. */
const CLOCKS = ['host/clock.ts', 'page/clock.ts'];

/** Clocks, chance and locale in core/, and clocks anywhere but in theirs. */
export function forbiddenIdentifiers(sources: Sources): readonly string[] {
  const found: string[] = [];
  for (const [file, source] of sources) {
    const text = withoutComments(source);
    const impure = file.startsWith('core/') ? [...text.matchAll(IMPURE)] : [];
    const time = CLOCKS.includes(file) ? [] : [...text.matchAll(TIME)];
    for (const match of [...impure, ...time]) found.push(`${file} uses ${match[0]}`);
  }
  return [...new Set(found)];
}

/** Code that a generator wrote is read by nobody: its source is. */
const GENERATED = /^\/\/ @generated by /m;

export function tooLong(sources: Sources, limitLines: number): readonly string[] {
  return [...sources]
    .filter(([file, source]) => !(file.endsWith('_pb.ts') && GENERATED.test(source)))
    .map(([file, source]) => ({ file, lines: source.split('\n').length - 1 }))
    .filter(({ lines }) => lines >= limitLines)
    .map(({ file, lines }) => `${file} has ${lines} lines`);
}

export function emptyNames(sources: Sources): readonly string[] {
  return [...sources.keys()].filter((file) => EMPTY_NAMES.test(file));
}
