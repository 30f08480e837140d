import { EVICT_FOR, type EvictResource, parseEvictFor } from '../../core/pod/evict-for.ts';
import { sayUnknownName } from '../../document/check.ts';
import { nearestName } from '../../document/nearest.ts';
import { evictForMistake } from '../../document/pod.ts';
import { unitNameMistake } from '../../host/systemd/unit-name.ts';
import { UNREAD } from '../../words/manifest-doubt.ts';
import { MAX_DIRECTORIES, readDirectories, scratchMistake } from './directories.ts';

/** What a manifest binds the pod to. */
export type Target =
  | { readonly kind: 'unit'; readonly unit: string }
  /** Below cgroupRoot; begins with '/'. */
  | { readonly kind: 'cgroup'; readonly path: string }
  | { readonly kind: 'podman'; readonly name: string };
export type Annotations = {
  readonly target: Target | null;
  readonly disk: readonly string[];
  /** Directories that count like `disk`, and are emptied once the pod is proven dead after an eviction for a disk. */
  readonly scratch: readonly string[];
  readonly isProtected: boolean;
  /** Null: all. */
  readonly evictFor: readonly EvictResource[] | null;
  readonly afterEviction: 'restart' | 'stay';
};
/** A mistake in the annotation of this name; '' = in the annotations as a whole. */
type AnnotationMistake = { readonly name: string; readonly text: string; readonly of: 'key' | 'value' };

const PREFIX = 'nodewarden.dev/';
export const BINDINGS = [`${PREFIX}systemd-unit`, `${PREFIX}cgroup`, `${PREFIX}podman`] as const;
export const DISK = `${PREFIX}disk`;
export const SCRATCH = `${PREFIX}scratch`;
const PROTECT = `${PREFIX}protect`;
const AFTER_EVICTION = `${PREFIX}after-eviction`;
const KNOWN = [...BINDINGS, DISK, SCRATCH, PROTECT, EVICT_FOR, AFTER_EVICTION];
const MAX_PATH = 4096;

/** It has our prefix, or a misspelt one such as `nodewarden/` or `Nodewarden.io/`. */
export function isPrefixed(name: string): boolean {
  const [prefix = '', own] = name.split('/');
  return /^nodewarden/i.test(prefix) || (own !== undefined && nearestName(`${prefix}/`, [PREFIX]) !== null);
}

const plain = (name: string): string => name.toLowerCase().replace(/[^a-z]/g, '');
const PLAIN = KNOWN.map((name) => plain(name.slice(PREFIX.length)));

/** Which annotation was probably meant by one with a misspelt prefix or none; null: it has ours, or is somebody else's. */
export function annotationMeant(name: string): string | null {
  if (name.startsWith(PREFIX)) return null;
  const own = name.replace(/^[^/]*\//, '');
  if (!isPrefixed(name) && !(own === name && PLAIN.includes(plain(name)))) return null;
  return sayUnknownName(`${PREFIX}${own}`, KNOWN, UNREAD.annotation);
}

/** product.md section 5. Reports every mistake, not only the first. */
export function readAnnotations(given: { readonly [name: string]: string }): {
  readonly annotations: Annotations;
  readonly mistakes: readonly AnnotationMistake[];
} {
  const mistakes: AnnotationMistake[] = [];
  const wrong = (name: string, text: string, of: 'key' | 'value' = 'value'): null => {
    mistakes.push({ name, text, of });
    return null;
  };
  for (const name of Object.keys(given)) {
    if (!name.startsWith(PREFIX) || KNOWN.includes(name)) continue;
    wrong(name, sayUnknownName(name, KNOWN, 'annotation'), 'key');
  }
  const target = readTarget(given, wrong);
  const afterEviction = given[AFTER_EVICTION] ?? 'restart';
  if (afterEviction !== 'restart' && afterEviction !== 'stay') {
    wrong(AFTER_EVICTION, `must be restart or stay, not ${JSON.stringify(afterEviction)}`);
  }
  if (given[AFTER_EVICTION] !== undefined && given[BINDINGS[0]] === undefined) {
    wrong(AFTER_EVICTION, `only a pod with ${BINDINGS[0]} is restarted`, 'key');
  }
  const isProtected = given[PROTECT] ?? 'false';
  if (isProtected !== 'true' && isProtected !== 'false') {
    wrong(PROTECT, `must be "true" or "false", not ${JSON.stringify(isProtected)}`);
  }
  const evictFor = given[EVICT_FOR];
  const notResources = evictFor === undefined ? null : evictForMistake(evictFor);
  if (notResources !== null) wrong(EVICT_FOR, notResources);
  const annotations: Annotations = {
    target,
    ...readDisks(given, wrong),
    isProtected: isProtected === 'true',
    evictFor: evictFor === undefined ? null : parseEvictFor(evictFor),
    afterEviction: afterEviction === 'stay' ? 'stay' : 'restart',
  };
  return { annotations, mistakes };
}
type Wrong = (name: string, text: string, of?: 'key' | 'value') => null;

function readTarget(given: { readonly [name: string]: string }, wrong: Wrong): Target | null {
  const named = BINDINGS.filter((name) => given[name] !== undefined);
  const [first, second] = named;
  if (first === undefined) return wrong('', `binds the pod to nothing: add exactly one of ${BINDINGS.join(', ')}`);
  if (second !== undefined) return wrong(second, `exactly one binding is allowed, and ${first} is set too`, 'key');
  const value = given[first] ?? '';
  switch (first) {
    case 'nodewarden.dev/systemd-unit': {
      const mistake = unitNameMistake(value);
      return mistake === null ? { kind: 'unit', unit: value } : wrong(first, `${mistake}: ${JSON.stringify(value)}`);
    }
    case 'nodewarden.dev/cgroup': {
      const mistake = cgroupMistake(value);
      if (mistake !== null) return wrong(first, `${mistake}: ${JSON.stringify(value)}`);
      return {
        kind: 'cgroup',
        path: `/${value
          .split('/')
          .filter((part) => part !== '')
          .join('/')}`,
      };
    }
    case 'nodewarden.dev/podman':
      // Podman's own rule for names; also keeps it from being an option.
      if (/^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,254}$/.test(value)) return { kind: 'podman', name: value };
      return wrong(first, `not the name or id of a Podman container or pod: ${JSON.stringify(value)}`);
  }
}

function cgroupMistake(value: string): string | null {
  const parts = value.split('/');
  if (parts.includes('..') || parts.includes('.')) return 'must not contain . or ..';
  if (value.includes('\0') || value.length > MAX_PATH) return 'not the path of a cgroup';
  return parts.every((part) => part === '') ? 'the node itself cannot be a pod: name a cgroup below cgroupRoot' : null;
}

/** Measured directories, and scratch directories that are emptied after an eviction: they must not overlap. */
function readDisks(given: { readonly [name: string]: string }, wrong: Wrong): Pick<Annotations, 'disk' | 'scratch'> {
  const [disk, scratch] = [DISK, SCRATCH].map((name): readonly string[] => {
    const { paths, mistake } = readDirectories(given[name]);
    if (mistake !== null) wrong(name, mistake);
    return mistake === null ? paths : [];
  });
  if (disk === undefined || scratch === undefined) return { disk: [], scratch: [] };
  const mistake = scratch.map(scratchMistake).find((found) => found !== null);
  if (mistake !== undefined) wrong(SCRATCH, mistake);
  const inside = disk.find((path) => scratch.some((emptied) => path === emptied || path.startsWith(`${emptied}/`)));
  if (inside !== undefined) wrong(SCRATCH, `would empty ${inside}, which ${DISK} names as data that stays`);
  if (disk.length + scratch.length > MAX_DIRECTORIES) {
    wrong(scratch.length === 0 ? DISK : SCRATCH, `at most ${MAX_DIRECTORIES} directories`);
  }
  return { disk, scratch };
}
