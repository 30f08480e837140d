import type { Chance } from './chance.ts';
import { NAMES, NUMBERS, SCALARS } from './token.ts';

/** A parsed value, with what JSON.parse would not keep: numbers as written, and keys that are there twice. */
export type Tree =
  | { readonly kind: 'scalar'; readonly text: string }
  | { readonly kind: 'list'; readonly items: Tree[] }
  | { readonly kind: 'map'; readonly entries: { key: string; value: Tree }[] };

export function treeOf(value: unknown): Tree {
  if (Array.isArray(value)) return { kind: 'list', items: value.map(treeOf) };
  if (typeof value === 'object' && value !== null) {
    return { kind: 'map', entries: Object.entries(value).map(([key, entry]) => ({ key, value: treeOf(entry) })) };
  }
  return { kind: 'scalar', text: JSON.stringify(value) ?? 'null' };
}

/** Some places of the tree changed in meaning, the form kept: a copy. `other` gives another good tree. */
export function restructure(tree: Tree, chance: Chance, other: () => Tree): Tree {
  const copy = structuredClone(tree);
  for (let left = 1 + chance.below(4); left > 0; left--) changeOnce(copy, chance, other);
  return copy;
}

function changeOnce(root: Tree, chance: Chance, other: () => Tree): void {
  const parents = parentsIn(root);
  if (parents.length === 0) return;
  const parent = parents[chance.below(parents.length)];
  if (parent?.kind === 'list') changeList(parent.items, chance, other);
  else if (parent?.kind === 'map') changeMap(parent.entries, chance, other);
}

function changeMap(entries: { key: string; value: Tree }[], chance: Chance, other: () => Tree): void {
  const at = chance.below(Math.max(1, entries.length));
  const entry = entries[at];
  const key = (): string => (chance.isOneIn(3) ? misspelled(keyIn(other(), chance), chance) : keyIn(other(), chance));
  const value = (): Tree => newValue(chance, other);
  if (entry === undefined) {
    entries.push({ key: key(), value: value() });
    return;
  }
  switch (chance.below(10)) {
    case 0:
    case 1:
      return void entries.push({ key: key(), value: value() });
    case 2:
    case 3:
      return void entries.splice(at, 1);
    case 4:
      return void entries.push({ key: entry.key, value: chance.isOneIn(2) ? entry.value : value() });
    case 5:
      entry.key = chance.isOneIn(2) ? misspelled(entry.key, chance) : chance.pick(NAMES);
      return;
    case 6:
      entry.value = wrapped(entry.value, chance);
      return;
    default:
      entry.value = value();
  }
}

function changeList(items: Tree[], chance: Chance, other: () => Tree): void {
  const at = chance.below(Math.max(1, items.length));
  const item = items[at];
  if (item === undefined) {
    items.push(newValue(chance, other));
    return;
  }
  switch (chance.below(8)) {
    case 0:
      return void items.splice(at, 0, newValue(chance, other));
    case 1:
    case 2:
      return void items.splice(at, 1);
    case 3:
      return void items.push(item);
    case 4:
      // More than most lists may have, of what is small.
      return void items.push(...Array.from({ length: chance.isOneIn(8) ? 300 : 1 }, () => item));
    case 5:
      items[at] = wrapped(item, chance);
      return;
    default:
      items[at] = newValue(chance, other);
  }
}

function newValue(chance: Chance, other: () => Tree): Tree {
  const scalar = (text: string): Tree => ({ kind: 'scalar', text });
  switch (chance.below(8)) {
    case 0:
      return scalar('null');
    case 1:
      return scalar(chance.pick(['true', 'false']));
    case 2:
      return { kind: 'list', items: [] };
    case 3:
      return { kind: 'map', entries: [] };
    case 4:
      return partOf(other(), chance);
    case 5:
      return scalar(chance.pick(NUMBERS));
    default:
      return scalar(JSON.stringify(chance.pick(SCALARS)));
  }
}

function wrapped(value: Tree, chance: Chance): Tree {
  let inner = value;
  for (let left = chance.pick([1, 1, 2, 70]); left > 0; left--) {
    inner = chance.isOneIn(2)
      ? { kind: 'list', items: [inner] }
      : { kind: 'map', entries: [{ key: chance.pick(NAMES), value: inner }] };
  }
  return inner;
}

function misspelled(name: string, chance: Chance): string {
  const at = chance.below(name.length + 1);
  return chance.pick([
    name.slice(0, at) + name.slice(at + 1),
    `${name.slice(0, at)}x${name.slice(at)}`,
    name.toUpperCase(),
    `${name} `,
    `${name}s`,
  ]);
}

function partOf(tree: Tree, chance: Chance): Tree {
  const parents = parentsIn(tree);
  return structuredClone(parents[chance.below(parents.length)] ?? tree);
}

function keyIn(tree: Tree, chance: Chance): string {
  const keys = parentsIn(tree).flatMap((parent) => (parent.kind === 'map' ? parent.entries.map(({ key }) => key) : []));
  return keys[chance.below(keys.length)] ?? 'key';
}

/** Every list and map in it, the tree itself first. */
function parentsIn(tree: Tree): readonly Tree[] {
  const found: Tree[] = [];
  const open = [tree];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    if (next.kind === 'scalar') continue;
    found.push(next);
    open.push(...(next.kind === 'list' ? next.items : next.entries.map(({ value }) => value)));
  }
  return found;
}

/** As JSON, which YAML reads too. */
export function sayJson(tree: Tree): string {
  if (tree.kind === 'scalar') return tree.text;
  if (tree.kind === 'list') return `[${tree.items.map(sayJson).join(', ')}]`;
  return `{${tree.entries.map(({ key, value }) => `${JSON.stringify(key)}: ${sayJson(value)}`).join(', ')}}`;
}

/** In YAML's block style, plain keys where they can be. */
export function sayYaml(tree: Tree, indent = ''): string {
  const deeper = `${indent}  `;
  const below = (value: Tree): string =>
    value.kind === 'scalar' || isEmpty(value) ? ` ${sayJson(value)}\n` : `\n${sayYaml(value, deeper)}`;
  if (tree.kind === 'scalar' || isEmpty(tree)) return `${indent}${sayJson(tree)}\n`;
  if (tree.kind === 'list') return tree.items.map((item) => `${indent}-${below(item)}`).join('');
  const sayKey = (key: string): string => (/^[A-Za-z][A-Za-z0-9._/-]*$/.test(key) ? key : JSON.stringify(key));
  return tree.entries.map(({ key, value }) => `${indent}${sayKey(key)}:${below(value)}`).join('');
}

function isEmpty(tree: Tree): boolean {
  return (tree.kind === 'list' && tree.items.length === 0) || (tree.kind === 'map' && tree.entries.length === 0);
}
