import type { Removed } from '../../core/outcome.ts';
import { ifKnown, known, type MonoMs, type Reading, unknown } from '../../core/reading.ts';
import type { ReclaimCall } from '../../core/reclaim/calls.ts';
import { deadContainers } from '../../core/reclaim/dead-containers.ts';
import {
  type ImageUse,
  type ListedImage,
  type Sightings,
  seeImages,
  unmatched,
  unusedImages,
  usedIn,
} from '../../core/reclaim/unused-images.ts';
import { sleep } from '../../host/clock.ts';
import type { Clock, Findings, Log, NodeReclaim } from '../../ports.ts';
import {
  imagesTooYoung,
  NO_CONTAINER,
  RUNTIME_RECLAIM,
  runtimeReclaimFailed,
  SANDBOX_UNKNOWN,
} from '../../words/finding-kube.ts';
import { configuredSandboxImage, containersOf, ENTRIES_MAX, imageOfSandbox, sandboxesOf } from './checked-answers.ts';
import type { CriClient } from './client.ts';
import { type Container, ContainerState, type Image, type ImageSpec, type PodSandbox } from './cri_pb.ts';
import type { OpenRuntime } from './open-runtime.ts';

/** Images seen since the agent started: their age counts from the first sighting. `at`: the runtime. */
export type SeenImages = { sightings: Sightings; at?: string };
type RuntimeReclaim = { readonly reclaim: NodeReclaim; readonly close: () => void };

/** How often images are listed, so that their age and last use are known when needed. */
const SEE_MS = 60_000;
/** [design] Until they were seen once. */
const SEE_FIRST_MS = 2_000;
/** [design] How long after the start to wait for the first list of pods, which proves that the runtime is this node's. */
const PROOF_MS = 5_000;
const PROOF_AGAIN_MS = 200;
/** [design] The longest a reclaim may hold up evictions for the file system. */
const RECLAIM_MS = 60_000;

/**
 * Removes dead containers and unused images (kubelet-eviction.md 6.5, 6.6), with the guards that the runtime lacks
 * (beside-a-kubelet.md A12). One reclaim at a time. As in the kubelet, images age from the agent's first sighting: none is
 * removed for `minImageAgeMs` after the runtime's first answer.
 */
export function openRuntimeReclaim(needs: {
  readonly clock: Clock;
  readonly log: Log;
  readonly findings: Findings;
  readonly runtime: Pick<OpenRuntime, 'connect' | 'connectProven'>;
  readonly seen: SeenImages;
  readonly minImageAgeMs: () => number;
  /** Whether the pod with this uid (the kubelet's) has left the node. False if in doubt. */
  readonly isGone: (podUid: string) => boolean;
}): RuntimeReclaim {
  const { clock, log, findings, runtime, seen: kept, minImageAgeMs, isGone } = needs;
  const provenByMs = clock.monoMs() + PROOF_MS;
  const volumes: Volumes = new Map();
  let last: Promise<unknown> = Promise.resolve();
  let cancel = (): void => undefined;
  let isClosed = false;

  async function see(client: CriClient): Promise<Reading<Seen>> {
    const images = listedOf(await client.images());
    const uses = images.known ? await usesNow(client, images.value, volumes) : images;
    if (!images.known) return images;
    if (!uses.known) return uses;
    // Images that another runtime has had for a long time may be new here.
    const before: Sightings = kept.at === client.socket ? kept.sightings : new Map();
    kept.at = client.socket;
    kept.sightings = seeImages(before, images.value, uses.value, clock.monoMs());
    return known({ images: images.value, uses: uses.value });
  }

  async function reclaim(calls: readonly ReclaimCall[], endMs: MonoMs): Promise<Removed> {
    const client = await proven();
    if (!client.known) return { containers: 0, images: 0, problem: client.detail };
    const tally = createTally(() => clock.monoMs() >= endMs);
    for (const call of calls) {
      if (call === 'containers') await removeContainers(client.value, isGone, tally);
      else await removeImages(client.value, tally);
    }
    return tally.removed();
  }

  /** "Not proven yet" is not "no": shortly after the start, it is retried, and no pod is evicted meanwhile. */
  async function proven(): Promise<Reading<CriClient>> {
    for (;;) {
      const client = await runtime.connectProven();
      if (client.known || isClosed || clock.monoMs() >= provenByMs) return client;
      await sleep(clock, PROOF_AGAIN_MS);
    }
  }

  async function removeImages(client: CriClient, tally: Tally): Promise<void> {
    const seen = await see(client);
    const sandbox = await sandboxNames(client);
    if (!seen.known) return tally.fail(seen.detail);
    if (!sandbox.known) return tally.fail(sandbox.detail);
    const { images, uses } = seen.value;
    const plan = unusedImages({
      images,
      uses,
      sandbox: sandbox.value,
      sightings: kept.sightings,
      atMs: clock.monoMs(),
      minAgeMs: minImageAgeMs(),
    });
    if (plan.kind === 'none') return tally.fail(plan.because === 'no-container' ? NO_CONTAINER : SANDBOX_UNKNOWN);
    if (plan.tooYoung > 0) {
      log.info({ event: 'reclaim', tooYoung: plan.tooYoung }, imagesTooYoung(plan.tooYoung, minImageAgeMs()));
    }
    for (const image of plan.images) {
      if (tally.isOver()) return;
      const isFree = await isStillFree(client, image, images, volumes);
      if (!isFree.known) return tally.fail(isFree.detail);
      if (isFree.value) tally.count('images', await client.removeImage(image.id));
    }
  }

  /** One after another; `run` never rejects. */
  function inTurn<T>(run: () => Promise<T>): Promise<T> {
    const mine = last.then(run);
    last = mine;
    return mine;
  }

  async function seeAgain(): Promise<void> {
    const client = await runtime.connect();
    const seen = client.known ? await see(client.value) : client;
    const isFirst = !seen.known && kept.at === undefined;
    if (!isClosed) cancel = clock.after(isFirst ? SEE_FIRST_MS : SEE_MS, () => void inTurn(seeAgain));
  }

  void inTurn(seeAgain);
  return {
    reclaim: async (calls) => {
      const endMs = clock.monoMs() + RECLAIM_MS;
      const removed = await inTurn(() => reclaim(calls, endMs));
      if (removed.problem === null) findings.clear(RUNTIME_RECLAIM);
      else findings.raise(runtimeReclaimFailed(removed.problem));
      return removed;
    },
    close: () => {
      isClosed = true;
      cancel();
    },
  };
}

type Seen = { readonly images: readonly ListedImage[]; readonly uses: readonly ImageUse[] };
/** Container id -> the images that are mounted into it, which never change. */
type Volumes = Map<string, readonly ImageUse[]>;

type Tally = ReturnType<typeof createTally>;
/** The result; only the first problem is reported. */
function createTally(isOutOfTime: () => boolean) {
  const counts = { containers: 0, images: 0 };
  let problem: string | null = null;
  let hangs = false;
  const fail = (why: string): void => {
    problem ??= why;
  };
  return {
    fail,
    count: (what: keyof typeof counts, removed: Reading<null>): void => {
      if (removed.known) counts[what]++;
      else fail(removed.detail);
      // The next removal would hang as well, while pods that could be evicted fill the disk.
      hangs ||= !removed.known && removed.why === 'timed-out';
    },
    isOver: (): boolean => {
      if (hangs) return true;
      const isOver = isOutOfTime();
      if (isOver) fail(`it took longer than ${RECLAIM_MS / 1_000} s`);
      return isOver;
    },
    removed: (): Removed => ({ ...counts, problem }),
  };
}

async function removeContainers(client: CriClient, isGone: (podUid: string) => boolean, tally: Tally): Promise<void> {
  const containers = ifKnown(await client.containers(), containersOf);
  const sandboxes = ifKnown(await client.sandboxes(), sandboxesOf);
  if (!containers.known) return tally.fail(containers.detail);
  if (!sandboxes.known) return tally.fail(sandboxes.detail);
  const ready = new Set(sandboxes.value.items.filter(({ isReady }) => isReady).map(({ podUid }) => podUid));
  const dead = deadContainers(containers.value.items, (uid) => !ready.has(uid) && isGone(uid));
  for (const id of dead) {
    if (tally.isOver()) return;
    const now = await client.container(id);
    // The kubelet removes them, too.
    if (!now.known && now.why === 'absent') continue;
    if (!now.known) tally.fail(now.detail);
    else if (now.value.state === ContainerState.CONTAINER_EXITED) {
      tally.count('containers', await client.removeContainer(id));
    }
  }
}

/** A12, right before its removal: the image is unchanged since it was chosen, and no container uses it. */
async function isStillFree(
  client: CriClient,
  image: ListedImage,
  images: readonly ListedImage[],
  volumes: Volumes,
): Promise<Reading<boolean>> {
  const now = await client.image(image.id);
  if (!now.known) return now;
  // A name was added or removed: it is being pulled for a container that does not exist yet.
  if (now.value === null || !isSame(listedImage(now.value), image)) return known(false);
  const uses = await usesNow(client, images, volumes);
  return uses.known ? known(!usedIn(uses.value)(image)) : uses;
}

/** Every use of an image by a container, dead or alive. Unknown as soon as one use is unknown. */
async function usesNow(
  client: CriClient,
  images: readonly ListedImage[],
  volumes: Volumes,
): Promise<Reading<readonly ImageUse[]>> {
  const containers = await client.containers();
  if (!containers.known) return containers;
  if (containers.value.length > ENTRIES_MAX) return unknown('malformed', 'CRI ListContainers', 'too many containers');
  const mounted = await readVolumes(client, containers.value, volumes);
  if (!mounted.known) return mounted;
  const own = containers.value.map(({ image, imageRef, imageId }) => [imageRef, imageId, ...namesOf(image)]);
  const uses: ImageUse[] = [...own, ...mounted.value].map((use) => use.filter((name) => name !== ''));
  for (const use of unmatched(images, uses)) {
    const resolved = await resolve(client, use);
    if (!resolved.known) return resolved;
    uses.push(resolved.value);
  }
  return known(uses);
}

/** Images as volumes: only the status of a container names them. */
async function readVolumes(
  client: CriClient,
  containers: readonly Container[],
  volumes: Volumes,
): Promise<Reading<readonly ImageUse[]>> {
  const listed = new Set(containers.map(({ id }) => id));
  for (const id of volumes.keys()) if (!listed.has(id)) volumes.delete(id);
  for (const { id } of containers) {
    if (volumes.has(id)) continue;
    const status = await client.container(id);
    if (!status.known && status.why !== 'absent') return status;
    const mounts = status.known ? status.value.mounts : [];
    volumes.set(
      id,
      mounts.flatMap(({ image }) => (image === undefined ? [] : [namesOf(image)])),
    );
  }
  return known([...volumes.values()].flat());
}

/** Lets the runtime resolve names that are in no list: a short name, or an image that is gone. */
async function resolve(client: CriClient, use: ImageUse): Promise<Reading<ImageUse>> {
  if (use.length === 0) return unknown('malformed', 'CRI ListContainers', 'a container does not name its image');
  const names = new Set<string>();
  for (const name of use) {
    const image = await client.image(name);
    if (!image.known) return image;
    if (image.value !== null) for (const other of [image.value.id, ...listedImage(image.value).names]) names.add(other);
  }
  return known([...names]);
}

/**
 * The names of the image that every sandbox needs (A12): the one in the runtime's configuration, if given, and that of the
 * newest sandbox. Empty: the runtime reports neither.
 */
async function sandboxNames(client: CriClient): Promise<Reading<ImageUse>> {
  const sandboxes = await client.sandboxes();
  if (!sandboxes.known) return sandboxes;
  const newest = sandboxes.value.reduce<PodSandbox | null>(
    (best, sandbox) => (best === null || sandbox.createdAt > best.createdAt ? sandbox : best),
    null,
  );
  const named = [ifKnown(await client.info(), configuredSandboxImage)];
  if (newest !== null) named.push(ifKnown(await client.sandboxInfo(newest.id), imageOfSandbox));
  const names: string[] = [];
  for (const name of named) {
    if (!name.known && name.why !== 'absent' && name.why !== 'not-applicable') return name;
    const resolved = name.known ? await resolve(client, [name.value]) : known([]);
    if (!resolved.known) return resolved;
    names.push(...(name.known ? [name.value] : []), ...resolved.value);
  }
  return known(names);
}

function listedOf(images: Reading<readonly Image[]>): Reading<readonly ListedImage[]> {
  if (!images.known) return images;
  if (images.value.length > ENTRIES_MAX) return unknown('malformed', 'CRI ListImages', 'too many images');
  return known(images.value.map(listedImage));
}

const listedImage = ({ id, repoTags, repoDigests, pinned }: Image): ListedImage => ({
  id,
  names: [...repoTags, ...repoDigests],
  isPinned: pinned,
});

const namesOf = (spec: ImageSpec | undefined): ImageUse =>
  spec === undefined ? [] : [spec.image, spec.imageRef, spec.userSpecifiedImage];

const isSame = (a: ListedImage, b: ListedImage): boolean =>
  a.id === b.id && a.isPinned === b.isPinned && [...a.names].sort().join('\n') === [...b.names].sort().join('\n');
