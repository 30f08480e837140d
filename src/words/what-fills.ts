import type { Signal } from '../core/signal.ts';
import { sayBytes } from '../core/units/quantity.ts';
import { HELD_BY_OTHERS } from './phrases.ts';

type Size = { readonly bytes: number; readonly inodes: number };
/** `owner`: "user www-data", "directory of pod shop/web, uid 1000". */
type Owned = { readonly path: string; readonly owner: string };

export const sayUser = (uid: number, name: string | null): string => (name === null ? `uid ${uid}` : `user ${name}`);

export type Stopped = { readonly pod: string; readonly signal: Signal };
/** Why no eviction helps; `stopped`: which pod was stopped in vain is not known. */
export type NoRelief = Stopped | 'nobody' | 'too-little' | 'held' | 'stopped';
const NO_RELIEF: { readonly [W in Extract<NoRelief, string>]: string } = {
  nobody: 'no pod may be evicted',
  'too-little': 'no pod that may be evicted is known to free enough',
  held: HELD_BY_OTHERS,
  stopped: 'a pod was stopped, but that did not free enough',
};
export function sayNoRelief(signal: Signal, inVain: NoRelief): string {
  if (typeof inVain === 'string') return NO_RELIEF[inVain];
  // Bytes and inodes of one file system wait for one another's victims.
  const what = inVain.signal === signal ? '' : ` for ${inVain.signal}`;
  return `${inVain.pod} was stopped${what}, but that did not free enough`;
}

/** `runtimeRoot`: that of the container runtime whose it is; null: of none. */
type Filling = Size & Owned & { readonly runtimeRoot: string | null };
const TOLD = 5;
const NAMELESS = 'in no directory (deleted files that are still open, or space that the file system itself uses)';
export function sayFilledDisk(
  { root, runtimeRoot, mode }: { readonly root: string; readonly mode: Mode } & Pick<Filling, 'runtimeRoot'>,
  by: keyof Size,
  survey: {
    readonly directories: readonly Filling[];
    readonly elsewhere: Size;
    readonly isComplete: boolean;
    /** In use, but not found by any name; null: little, or not known. */
    readonly nameless: number | null;
    /** Of those that are known; absent: none is. */
    readonly largestLayer?: (Size & { readonly pod: string }) | null;
  },
): string {
  const say = (count: number): string => (by === 'bytes' ? sayBytes(count) : `${count} inodes`);
  const amount = (of: Size): string => say(of[by]);
  const runtimes = new Map<string, number>();
  for (const of of survey.directories)
    if (of.runtimeRoot !== null) runtimes.set(of.runtimeRoot, (runtimes.get(of.runtimeRoot) ?? 0) + of[by]);
  const others = survey.directories.filter((of) => of.runtimeRoot === null).toSorted((a, b) => b[by] - a[by]);
  const { largestLayer: layer = null } = survey;
  const writer =
    layer === null ? '' : `; the largest writable layers known are those of the pod ${layer.pod}, ${amount(layer)}`;
  const places = [
    ...[...runtimes].map(([at, count]) => `${say(count)} below ${sayPath(at)} (container runtime${writer})`),
    ...others.slice(0, TOLD).map((of) => `${amount(of)} in ${sayPath(of.path)} (${of.owner})`),
    `${amount(survey.elsewhere)} elsewhere`,
  ];
  const part = survey.isComplete ? '' : ' (counted only in part)';
  const hidden = survey.nameless === null ? '' : `, and ${say(survey.nameless)} ${NAMELESS}`;
  const kept = runtimeRoot === null ? [...runtimes.keys()] : [runtimeRoot];
  return `The file system at ${sayPath(root)} holds ${places.join(', ')}${part}${hidden}. ${sayToDo(mode, kept, runtimeRoot === null)}`;
}

type Mode = 'standalone' | 'kubelet';
/** What lies in the root of a container runtime is in use by it, whoever wrote it. */
function sayToDo(mode: Mode, runtimeRoots: readonly string[], hasOthers: boolean): string {
  const scratch = mode === 'kubelet' ? '' : '; declare what may be deleted with a pod as nodewarden.dev/scratch';
  const others = hasOthers ? [`Delete or move what is not needed, or enlarge the file system${scratch}`] : [];
  const remove =
    mode === 'kubelet' ? 'delete pods, remove images through it' : 'remove containers and images through it';
  const enlarge = hasOthers ? '' : ', or enlarge the file system';
  const roots = runtimeRoots.map(sayPath).join(' or ');
  const runtimes = `Delete no file of the container runtime below ${roots}, which would damage containers that run: ${remove}${enlarge}`;
  return [...others, ...(runtimeRoots.length === 0 ? [] : [runtimes])].join('. ');
}

export const sayReadOnly = (root: string): string =>
  `The file system at ${sayPath(root)} is read-only: nothing in it can be removed, whatever is stopped. The kernel may have made it so after an error (see its log): repair it, or mount it writable again`;

type Bytes = { readonly bytes: number; readonly owner: string };
type Tmpfs = {
  readonly path: string;
  readonly usedBytes: number;
  /** The pod that has it as a volume; absent: none, or not known. */
  readonly pod?: string | undefined;
  readonly files: readonly (Bytes & Owned)[];
};
/** Null: nothing. */
export function sayFilledMemory(
  mounts: readonly Tmpfs[],
  segments: readonly (Bytes & { readonly id: number })[],
): string | null {
  if (mounts.length + segments.length === 0) return null;
  const files = mounts.map(({ path, usedBytes, pod, files: largest }) => {
    if (pod !== undefined)
      return `the tmpfs at ${sayPath(path)} with ${sayBytes(usedBytes)}, which the pod ${pod} still has as a volume`;
    const those = largest.map(({ bytes, path: file, owner }) => `${sayBytes(bytes)} in ${sayPath(file)}, ${owner}`);
    return `the tmpfs at ${sayPath(path)} with ${sayBytes(usedBytes)}${those.length === 0 ? '' : ` (${those.join('; ')})`}`;
  });
  const shared = segments.map(
    ({ id, bytes, owner }) => `the SysV segment ${id} with ${sayBytes(bytes)} (${owner}; ipcrm -m ${id} removes it)`,
  );
  const canDelete = segments.length > 0 || mounts.some(({ pod }) => pod === undefined);
  const then = canDelete ? '. Delete the files that are not needed' : '. It is freed when the pod is gone';
  return `This memory outlives the processes that filled it: ${[...files, ...shared].join(', ')}${then}`;
}

/** Its owner chooses the name: a path that could be read as part of the sentence is quoted. */
const sayPath = (path: string): string => (/^[\w./@:+-]+$/.test(path) ? path : JSON.stringify(path));
