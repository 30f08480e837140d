import type { Quantity } from '../core/units/quantity.ts';
import type { YamlDocument } from '../document/document.ts';
import type { Path, Problem } from '../document/problem.ts';
import { KUBELET_FIELDS } from './schema.ts';

/** One file that was read: the agent's own, or the KubeletConfiguration beside it. */
export type Source = { readonly document: YamlDocument; readonly kind: 'file' | 'kubelet' };

/** Where a value comes from. `said` is what `config show` prints: `default`, `config.yaml:12`, and so on. */
export type Origin =
  | { readonly kind: 'default' }
  | { readonly kind: 'file'; readonly file: string; readonly line: number }
  /** The KubeletConfiguration named by `kubeletConfig`. */
  | { readonly kind: 'kubelet'; readonly file: string; readonly line: number }
  /**
   * The kubelet's own value, from its file or its defaults, raised so that this agent acts first (beside-a-kubelet.md F2, F4).
   * Null: by an amount that depends on an unknown capacity.
   */
  | { readonly kind: 'kubelet-and-margin'; readonly file: string; readonly margin: Quantity | null };

/** What the files say about the fields, before defaults. */
export type Fields = {
  /** The raw value and its source; null if no file sets it. A field of the agent's own file replaces the whole imported one. */
  readonly get: (name: string) => { readonly value: unknown; readonly source: Source } | null;
  /** Where the value at a path comes from. */
  readonly originOf: (path: Path) => Origin;
  /** A problem at a path, in the file that sets the field, else in the agent's own file. */
  readonly problemAt: (path: Path, text: string) => Problem;
};

/** `own` first; the kubelet's fields also from `imported`. */
export function createFields(own: Source, imported: Source | null): Fields {
  const get: Fields['get'] = (name) => {
    const sources = imported !== null && KUBELET_FIELDS.includes(name) ? [own, imported] : [own];
    for (const source of sources) {
      const value = entryOf(source.document.value, name);
      // Like the kubelet, treat an empty field as absent.
      if (value !== undefined && value !== null) return { value, source };
    }
    return null;
  };
  const originOf: Fields['originOf'] = (path) => {
    const field = get(String(path[0]));
    if (field === null) return { kind: 'default' };
    let value: unknown = field.value;
    for (const step of path.slice(1)) value = entryOf(value, step);
    if (value === undefined) return { kind: 'default' };
    const { file, line } = field.source.document.problemAt(path, '', 'key');
    return { kind: field.source.kind, file, line };
  };
  return {
    get,
    originOf,
    problemAt: (path, text) => (get(String(path[0]))?.source ?? own).document.problemAt(path, text),
  };
}

/** The own entry of a mapping or list; undefined where there is none. */
export function entryOf(value: unknown, key: string | number): unknown {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, key) ? Reflect.get(value, key) : undefined;
}
