import { check } from '../document/check.ts';
import { inOrder, type YamlDocument } from '../document/document.ts';
import { nearestName } from '../document/nearest.ts';
import { type Problem, problemOfFile, sayPath } from '../document/problem.ts';
import { type Effective, effectiveOf } from './effective.ts';
import { readEviction } from './eviction.ts';
import { createFields, entryOf, type Fields, type Source } from './field.ts';
import { readHostSizes } from './host-sizes.ts';
import type { HostSizes } from './margin.ts';
import {
  KUBELET_FIELDS,
  type KubeletValues,
  kubeletSchema,
  NODEWARDEN_API_VERSION,
  type NodewardenValues,
  nodewardenSchema,
  OWN_FIELDS,
} from './schema.ts';
import { sectionProblems } from './section-rules.ts';
import { negativePeriodProblems, readShutdown, shutdownProblems } from './shutdown.ts';
import { missing, readConfigFile, readSource, type Trust, withoutEmptyFields } from './source.ts';
import { type ConfigWarning, warnings } from './warnings.ts';

export const DEFAULT_CONFIG_FILE = '/etc/nodewarden/config.yaml';

export type LoadedConfig = {
  readonly problems: readonly Problem[];
  readonly warnings: readonly ConfigWarning[];
  /** null if there are problems. */
  readonly effective: Effective | null;
  /** What it was read from; null: no file. */
  readonly texts: { readonly own: string; readonly imported: string | null } | null;
};
type Kind = Effective['kind'];

/**
 * Loads a file, with every mistake in it. null = the file at the default path, or all defaults if there is none; a named
 * file must exist. `sizes`: what warnings and margins may know about the host.
 */
export function loadConfig(path: string | null, sizes: HostSizes = readHostSizes()): LoadedConfig {
  const absent = (): LoadedConfig => (path === null ? defaultConfig(sizes) : failed([missing(path)]));
  return loadFile(path ?? DEFAULT_CONFIG_FILE, sizes) ?? absent();
}

/** Loads a file that was read before: if it is gone, that is a mistake, also of the one at the default path. */
export function loadConfigAgain(file: string): LoadedConfig {
  const gone = problemOfFile(file, 'was read before, and does not exist any more');
  return loadFile(file, readHostSizes()) ?? failed([gone]);
}

/** Null: no such file. */
function loadFile(file: string, sizes: HostSizes): LoadedConfig | null {
  const text = readConfigFile(file, 'owner');
  if (typeof text === 'string') return configOf(text, file, sizes);
  return text === null ? null : failed([text]);
}

/**
 * The configuration of a text; `file` names it in problems and origins. An imported KubeletConfiguration is read;
 * `trust` is what is asked of its file. `importedText`: that, and not what its file says by now.
 */
export function configOf(
  text: string,
  file: string,
  sizes: HostSizes,
  trust: Trust = 'owner',
  importedText: string | null = null,
): LoadedConfig {
  const { source, kind, problems: form } = readSource(text, file, KINDS, 'file');
  if (source === null || kind === null) return failed(form);
  const read = (from: Source, mistaken: readonly string[] = []): LoadedConfig => {
    const given: Given = { file, text, source: from, form, sizes, mistaken };
    return kind === 'KubeletConfiguration' ? ofKubeletKind(given) : ofOwnKind(given, trust, importedText);
  };
  const whole = read(source);
  if (whole.effective !== null || form.length > 0) return whole;
  // All that can be said in one pass: warnings too, about the fields that are right.
  const mistaken = mistakenFields(source.document, whole.problems);
  return { ...whole, warnings: read(without(source, mistaken), meant(mistaken)).warnings };
}

const KINDS: readonly Kind[] = ['NodewardenConfiguration', 'KubeletConfiguration'];
type Given = {
  readonly file: string;
  readonly text: string;
  readonly source: Source;
  /** Problems of the document as such. */
  readonly form: readonly Problem[];
  readonly sizes: HostSizes;
  /** Fields that were left out of the source because of a mistake. */
  readonly mistaken: readonly string[];
};

function ofOwnKind(given: Given, trust: Trust, importedText: string | null): LoadedConfig {
  const { file, text, source, form, sizes, mistaken } = given;
  const checked = check(nodewardenSchema, withoutEmptyFields(source.document));
  const problems = [...form, ...checked.problems];
  const imported = readImported(source.document, problems, { trust, text: importedText });
  const fields = createFields(source, imported?.source ?? null);
  const rest = rulesOf(fields);
  problems.push(...rest.problems, ...sectionProblems(fields));
  if (problems.length > 0 || checked.value === null) return failed(problems);
  const kind = OWN_KIND.kind;
  const good = { ...rest, file, kind, fields, own: checked.value, imported: imported?.values ?? null };
  const texts = { own: text, imported: imported?.text ?? null };
  return { ...loaded({ ...good, ignoredFields: ignoredOf(imported?.source ?? null) }, sizes, mistaken), texts };
}

function ofKubeletKind({ file, text, source, form, sizes, mistaken }: Given): LoadedConfig {
  const checked = check(kubeletSchema, withoutEmptyFields(source.document));
  const fields = createFields(source, null);
  const rest = rulesOf(fields);
  const problems = [...form, ...checked.problems, ...rest.problems];
  if (problems.length > 0 || checked.value === null) return failed(problems);
  const own: NodewardenValues = { ...ownDefaults(), ...checked.value, ...OWN_KIND };
  const good = { ...rest, file, kind: 'KubeletConfiguration', fields, own, imported: null } as const;
  const texts = { own: text, imported: null };
  return { ...loaded({ ...good, ignoredFields: ignoredOf(source) }, sizes, mistaken), texts };
}

function mistakenFields({ value }: YamlDocument, problems: readonly Problem[]): readonly string[] {
  return Object.keys(value ?? {}).filter((name) => {
    const field = sayPath([name]);
    return problems.some(({ path }) => path === field || path.startsWith(`${field}.`) || path.startsWith(`${field}[`));
  });
}

function without({ document, kind }: Source, names: readonly string[]): Source {
  const kept = Object.entries(document.value ?? {}).filter(([name]) => !names.includes(name));
  return { document: { ...document, value: Object.fromEntries(kept) }, kind };
}

/** A misspelt one stands for the field that it was probably meant to be. */
function meant(names: readonly string[]): readonly string[] {
  const valid = [...OWN_FIELDS, ...KUBELET_FIELDS];
  return names.map((name) => nearestName(name, valid) ?? name);
}

const OWN_KIND = { apiVersion: NODEWARDEN_API_VERSION, kind: 'NodewardenConfiguration' } as const;

/** Like a file that sets nothing. */
function defaultConfig(sizes: HostSizes): LoadedConfig {
  const loaded = configOf(JSON.stringify(OWN_KIND), '(defaults)', sizes);
  return { ...loaded, effective: loaded.effective && { ...loaded.effective, file: null }, texts: null };
}

function ownDefaults(): NodewardenValues {
  return nodewardenSchema.parse(OWN_KIND);
}

type Rules = {
  readonly eviction: ReturnType<typeof readEviction>;
  readonly shutdown: ReturnType<typeof readShutdown>;
  readonly problems: readonly Problem[];
};

/** The rules of the kubelet's fields that a schema cannot express. */
function rulesOf(fields: Fields): Rules {
  const eviction = readEviction(fields);
  const shutdown = readShutdown(fields);
  const problems = [
    ...eviction.problems,
    ...shutdownProblems(shutdown, fields),
    ...negativePeriodProblems(shutdown, fields),
  ];
  return { eviction, shutdown, problems };
}

type Imported = { readonly source: Source; readonly values: KubeletValues | null; readonly text: string };

function loaded(
  checked: Parameters<typeof effectiveOf>[0],
  sizes: HostSizes,
  mistaken: readonly string[],
): LoadedConfig {
  const effective = effectiveOf(checked, sizes);
  return { problems: [], warnings: warnings(effective, sizes, mistaken), effective, texts: null };
}

function failed(problems: readonly Problem[]): LoadedConfig {
  return { problems: inOrder(problems), warnings: [], effective: null, texts: null };
}

function ignoredOf(source: Source | null): readonly string[] {
  const known = ['apiVersion', 'kind', ...KUBELET_FIELDS];
  return Object.keys(source?.document.value ?? {}).filter((name) => !known.includes(name));
}

/** Reads the KubeletConfiguration that `kubeletConfig` names, and adds what is wrong with it to the problems. */
function readImported(
  own: YamlDocument,
  problems: Problem[],
  from: { readonly trust: Trust; readonly text: string | null },
): Imported | null {
  const path = entryOf(own.value, 'kubeletConfig');
  if (typeof path !== 'string' || !path.startsWith('/')) return null;
  const text = from.text ?? readConfigFile(path, from.trust);
  if (typeof text !== 'string') {
    const problem = own.problemAt(['kubeletConfig'], text === null ? `${path} does not exist` : text.text);
    problems.push(text?.isDenied ? { ...problem, isDenied: true } : problem);
    return null;
  }
  const read = readSource(text, path, ['KubeletConfiguration'], 'kubelet');
  problems.push(...read.problems);
  if (read.source === null) return null;
  const checked = check(kubeletSchema, withoutEmptyFields(read.source.document));
  problems.push(...checked.problems);
  return { source: read.source, values: checked.value, text };
}
