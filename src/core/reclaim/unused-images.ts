import type { MonoMs } from '../reading.ts';

export type ListedImage = {
  readonly id: string;
  /** Tags and digests. */
  readonly names: readonly string[];
  /** The runtime has been asked to keep it. */
  readonly isPinned: boolean;
};
/** The names that a container gives for one image it uses: its own, or that of a volume. Any of them may be the real one. */
export type ImageUse = readonly string[];
/** `usedMs`: when it was last seen in use; null: never. */
type Sighting = { readonly firstMs: MonoMs; readonly usedMs: MonoMs | null };
/** By image id. Only what this run of the agent saw: after its start every image is new (as after a restart of the kubelet). */
export type Sightings = ReadonlyMap<string, Sighting>;
type ImagePlan =
  | { readonly kind: 'remove'; readonly images: readonly ListedImage[]; readonly tooYoung: number }
  /**
   * Nothing may be removed. `sandbox-unknown`: none of them is known to be the image of the sandboxes, so any could be the one
   * without which no pod starts; a pin on another image proves nothing. `no-container`: a node that runs pods has containers;
   * a list without any may come from a runtime that has not read its own state yet.
   */
  | { readonly kind: 'none'; readonly because: 'sandbox-unknown' | 'no-container' };

const DIGEST = /[0-9a-f]{64}/g;

/** A name has several spellings (`sha256:…`, `name@sha256:…`, `docker://…`): the same digest is the same image. */
function keysOf(names: readonly string[]): readonly string[] {
  return names.flatMap((name) => (name === '' ? [] : [name, ...(name.match(DIGEST) ?? [])]));
}
const keysOfImage = ({ id, names }: ListedImage): readonly string[] => keysOf([id, ...names]);

/** Whether an image is one of those. If in doubt, yes. */
export function usedIn(uses: readonly ImageUse[]): (image: ListedImage) => boolean {
  const used = new Set(uses.flatMap(keysOf));
  return (image) => keysOfImage(image).some((key) => used.has(key));
}

/** Uses that match none of the images: the runtime must resolve them. */
export function unmatched(images: readonly ListedImage[], uses: readonly ImageUse[]): readonly ImageUse[] {
  const keys = new Set(images.flatMap(keysOfImage));
  return uses.filter((use) => !keysOf(use).some((key) => keys.has(key)));
}

/** The present images, with what is remembered of them. */
export function seeImages(
  before: Sightings,
  images: readonly ListedImage[],
  uses: readonly ImageUse[],
  atMs: MonoMs,
): Sightings {
  const isUsed = usedIn(uses);
  return new Map(
    images.map((image) => {
      const seen = before.get(image.id) ?? { firstMs: atMs, usedMs: null };
      return [image.id, isUsed(image) ? { ...seen, usedMs: atMs } : seen];
    }),
  );
}

/**
 * kubelet-eviction.md 6.6: every image that no container uses, that is not pinned and that was first seen `minAgeMs`
 * ago or longer; never-used ones first, then by last use, then by first sight. beside-a-kubelet.md A12 for the sandbox
 * image, which containerd before 1.7 does not pin and no container names. `sandbox`: its names, empty if unknown.
 */
export function unusedImages(facts: {
  readonly images: readonly ListedImage[];
  /** The uses of all containers, dead or alive. */
  readonly uses: readonly ImageUse[];
  readonly sandbox: ImageUse;
  readonly sightings: Sightings;
  readonly atMs: MonoMs;
  readonly minAgeMs: number;
}): ImagePlan {
  const { images, uses, sandbox, sightings, atMs, minAgeMs } = facts;
  if (uses.length === 0) return { kind: 'none', because: 'no-container' };
  const isSandbox = usedIn([sandbox]);
  if (!images.some(isSandbox)) return { kind: 'none', because: 'sandbox-unknown' };
  const isUsed = usedIn(uses);
  const unused = images.filter((image) => !image.isPinned && !isSandbox(image) && !isUsed(image));
  const seen = unused.flatMap((image) => {
    const sighting = sightings.get(image.id);
    return sighting !== undefined && atMs - sighting.firstMs >= minAgeMs ? [{ image, ...sighting }] : [];
  });
  seen.sort(
    (a, b) => (a.usedMs ?? -1) - (b.usedMs ?? -1) || a.firstMs - b.firstMs || (a.image.id < b.image.id ? -1 : 1),
  );
  return { kind: 'remove', images: seen.map(({ image }) => image), tooYoung: unused.length - seen.length };
}
