import type { Problem } from '../document/problem.ts';
import type { Guarded } from './bind.ts';

/** A binding, as far as it may be refused. */
export type Claim = { readonly path: string | null; readonly problem: (text: string) => Problem };

/**
 * Why each of these cgroups must not be a pod; null: it may. Of two that are equal or nested the first one stays. Looked
 * up by the parts of the paths, so that a thousand bindings cost no more than ten times a hundred.
 */
export function refusals(
  claims: readonly Claim[],
  node: string,
  guarded: readonly Guarded[],
): readonly (string | null)[] {
  const holdsGuarded = new Map(guarded.flatMap(({ what, path }) => withParents(path).map((part) => [part, what])));
  const taken = new Map<string, Claim>();
  const holdsTaken = new Map<string, Claim>();
  return claims.map((claim) => {
    const { path } = claim;
    if (path === null) return null;
    const what = holdsGuarded.get(path);
    if (what !== undefined) return `${path} contains ${what}, which must never be stopped`;
    if (node !== '/' && !path.startsWith(`${node}/`)) {
      return `${path} is not below ${node}, the node that cgroupRoot names: its end would give that node nothing`;
    }
    const parts = withParents(path);
    const holder = parts.find((part) => taken.has(part));
    const other = holder === undefined ? holdsTaken.get(path) : taken.get(holder);
    if (other !== undefined) {
      const { file, line, column } = other.problem('');
      return `${path} is, holds or lies in ${other.path}, which is bound at ${file}:${line}:${column}`;
    }
    taken.set(path, claim);
    for (const part of parts) holdsTaken.set(part, claim);
    return null;
  });
}

/** `/a/b` lies in `/`, `/a` and itself. */
function withParents(path: string): readonly string[] {
  const parts = ['/'];
  for (let at = path.indexOf('/', 1); at > 0; at = path.indexOf('/', at + 1)) parts.push(path.slice(0, at));
  return path === '/' ? parts : [...parts, path];
}
