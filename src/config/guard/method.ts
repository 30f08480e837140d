import { type MethodKey, withNodeName } from '../../core/guard/config.ts';
import type { NodeRef } from '../../core/guard/record.ts';
import { isObject } from '../../core/shape.ts';

/** Text by name: parameters, or the names of files of secrets. */
export type Texts = { readonly [name: string]: string };

/** How a fence agent is called for one method. In methods of the default `{node}` stands for the node's name. */
export type GuardMethod = {
  readonly key: MethodKey;
  readonly agent: string;
  /** As the agent reads them; neither `action` nor a secret is among them. */
  readonly parameters: Texts;
  /** Parameters whose value is in a file: its name in `secretDirectory`. */
  readonly secrets: Texts;
};
type ByKey = { readonly [key: MethodKey]: GuardMethod };
type ByNode = { readonly [node: string]: ByKey };
export type GuardMethods = {
  readonly listed: ByNode;
  readonly byDefault: ByKey;
  /** Those of fencings that were open at the last reload, by node uid: one may be open for a Node that was made anew since. */
  readonly kept: { readonly [uid: string]: ByKey };
};

/**
 * How a method of a node's plan is carried out; null: the configuration has no such method for this node. A key that is
 * another node's is none: a record that somebody edited must not power off a machine that it is not about.
 */
export function methodFor(
  { listed, byDefault, kept }: GuardMethods,
  { name: node, uid }: Pick<NodeRef, 'name' | 'uid'>,
  key: MethodKey,
): GuardMethod | null {
  const open = Object.hasOwn(kept, uid) ? kept[uid] : undefined;
  if (open !== undefined && Object.hasOwn(open, key)) return open[key] ?? null;
  const own = Object.hasOwn(listed, node) ? listed[node] : undefined;
  if (own !== undefined) return Object.hasOwn(own, key) ? (own[key] ?? null) : null;
  const found = Object.entries(byDefault).find(([pattern]) => withNodeName(pattern, node) === key);
  if (found === undefined) return null;
  const { agent, parameters, secrets } = found[1];
  return { key, agent, parameters: withNode(parameters, node), secrets: withNode(secrets, node) };
}

export function withNode(texts: Texts, node: string): Texts {
  return Object.fromEntries(Object.entries(texts).map(([name, value]) => [name, withNodeName(value, node) ?? value]));
}

/** Agents take - and _ in a name as the same. */
export const plainName = (name: string): string => name.replaceAll('-', '_');

/** What of a mapping is text; the schema reports the rest. */
export function textsOf(value: unknown): Texts {
  const texts = Object.entries(isObject(value) ? value : {});
  return Object.fromEntries(
    texts.flatMap(([name, text]) => (typeof text === 'string' ? [[plainName(name), text]] : [])),
  );
}

/** Whether two calls of an agent are the same. */
export const sameMethod = (a: GuardMethod, b: GuardMethod): boolean => canonical(a) === canonical(b);

/** JSON with the names in order. */
export function canonical(value: unknown): string {
  return JSON.stringify(value, (_, inner: unknown) =>
    isObject(inner) ? Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1))) : inner,
  );
}
