import { plainOf, type ThresholdValue } from '../core/eviction/threshold.ts';
import { percentText } from '../core/units/float32.ts';
import { sayQuantity } from '../core/units/quantity.ts';
import { type Path, sayPath } from '../document/problem.ts';
import type { ConfiguredThreshold, Eviction } from './eviction.ts';
import type { Fields, Origin } from './field.ts';
import { KUBELET_FIELDS, type KubeletValues, type NodewardenValues, OWN_FIELDS } from './schema.ts';

/** One line of `config show`: a value as it would be written in the file, and where it comes from. */
export type Setting = { readonly path: string; readonly value: unknown; readonly origin: Origin };

type SharedField = keyof KubeletValues & keyof NodewardenValues;
type Shared = (name: SharedField) => unknown;

/** Values whose effective form is not in the files. */
type Resolved = {
  readonly kind: string;
  readonly mode: string;
  readonly nodefsPath: string;
  readonly thresholds: readonly ConfiguredThreshold[];
};

/** Every field as it would be written, with its origin: own fields first, then the kubelet's, sections leaf by leaf. */
export function settingsOf(
  effective: Resolved,
  own: NodewardenValues,
  shared: Shared,
  { fields, eviction: { off } }: { readonly fields: Fields; readonly eviction: Eviction },
): readonly Setting[] {
  const settings: Setting[] = [];
  const put = (path: Path, value: unknown, origin: Origin = fields.originOf(path)) => {
    settings.push({ path: sayPath(path), value, origin });
  };
  const putLeaves = (path: Path, value: unknown): void => {
    settings.push(...leavesOf(path, value, fields));
  };
  for (const name of OWN_FIELDS) {
    if (name === 'mode') {
      // The kubelet's kind implies it.
      put(['mode'], effective.mode, fields.originOf([effective.kind === 'KubeletConfiguration' ? 'kind' : 'mode']));
    } else if (name === 'nodefs') {
      put(['nodefs', 'path'], effective.nodefsPath);
    } else if (name === 'imagefs' || name === 'containerfs') {
      put([name, 'path'], own[name].path ?? null);
    } else putLeaves([name], Reflect.get(own, name));
  }
  for (const name of KUBELET_FIELDS) {
    if (name === 'evictionHard') {
      const hard = effective.thresholds.filter(({ field }) => field === 'evictionHard');
      for (const { signal, value, origin } of hard) put([name, signal], sayValue(value), origin);
      for (const { signal, text, origin } of off) put([name, signal], text, origin);
      if (hard.length === 0 && off.length === 0) put([name], {});
    } else if (isShared(name)) putLeaves([name], shared(name));
  }
  return settings;
}

/** A section leaf by leaf. */
export function leavesOf(path: Path, value: unknown, fields: Fields): readonly Setting[] {
  const isSection = typeof value === 'object' && value !== null && !Array.isArray(value);
  if (!isSection || Object.keys(value).length === 0) {
    return [{ path: sayPath(path), value: value ?? null, origin: fields.originOf(path) }];
  }
  return Object.entries(value).flatMap(([key, leaf]) => leavesOf([...path, key], leaf, fields));
}

function isShared(name: string): name is SharedField {
  return KUBELET_FIELDS.includes(name);
}

/** Where the first setting at or below a path is set; undefined if no file sets it. */
export function originOf({ settings }: { readonly settings: readonly Setting[] }, path: string): Origin | undefined {
  const isBelow = (said: string) => said === path || said.startsWith(`${path}.`) || said.startsWith(`${path}[`);
  return settings.find((setting) => isBelow(setting.path) && setting.origin.kind !== 'default')?.origin;
}

/** `config.yaml:12: `, or nothing if no file sets it. */
export function sayPlace(origin: Origin | undefined): string {
  return origin !== undefined && 'line' in origin ? `${origin.file}:${origin.line}: ` : '';
}

/** A threshold as it would be written. */
export function sayValue(threshold: ThresholdValue): string {
  const value = plainOf(threshold);
  return value.kind === 'quantity' ? (value.amount.text ?? sayQuantity(value.amount)) : percentText(value.fraction);
}

/** `default`, `config.yaml:12`, `kubelet.yaml:8`, `kubelet + margin 205Mi`. */
export function sayOrigin(origin: Origin): string {
  switch (origin.kind) {
    case 'default':
      return 'default';
    case 'file':
    case 'kubelet':
      return `${origin.file}:${origin.line}`;
    case 'kubelet-and-margin':
      return origin.margin === null
        ? `kubelet + margin (${origin.file}, by the capacity, which is not known)`
        : `kubelet + margin (${origin.file}, ${sayQuantity(origin.margin)} more)`;
  }
}
