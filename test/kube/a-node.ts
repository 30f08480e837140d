import { create } from '@bufbuild/protobuf';
import { known, type Reading, type Unknown, unknown } from '../../src/core/reading.ts';
import type { CriClient } from '../../src/kube/cri/client.ts';
import {
  ContainerSchema,
  ContainerState,
  ContainerStatusSchema,
  ImageSchema,
  PodSandboxSchema,
  PodSandboxState,
} from '../../src/kube/cri/cri_pb.ts';

export type ModelImage = { readonly n: number; isPinned?: boolean; tags?: readonly string[] };
export type ModelContainer = {
  readonly n: number;
  readonly image: string;
  readonly podUid: string;
  readonly name?: string;
  state?: ContainerState;
  readonly createdAt?: number;
  /** Images that are mounted into it. */
  readonly volumes?: readonly string[];
};
export const hex = (n: number): string => n.toString(16).padStart(64, '0');
export const imageId = (n: number): string => `sha256:${hex(n)}`;
export const uid = (n: number): string => `00000000-0000-0000-0000-${String(n).padStart(12, '0')}`;

/** A node's runtime in memory, whose calls a test may see, delay and answer otherwise. It refuses nothing, as containerd. */
export function aNode(given: {
  images: ModelImage[];
  containers: ModelContainer[];
  /** As the runtime's configuration names it; null: it does not. */
  sandboxImage?: string | null;
  readyPods?: readonly string[];
}) {
  const node = { sandboxImage: 'pause', readyPods: [] as readonly string[], ...given };
  const did: string[] = [];
  /** Runs before a call is answered: what it changes is in the answer. */
  let before = (_call: string): Unknown | undefined => undefined;
  const answer = async <T>(call: string, value: () => T): Promise<Reading<T>> => before(call) ?? known(value());
  const messageOf = ({ n, isPinned = false, tags = [`reg/app:${n}`] }: ModelImage) =>
    create(ImageSchema, { id: imageId(n), repoTags: [...tags], pinned: isPinned });
  const named = (ref: string) =>
    node.images.find(({ n, tags = [`reg/app:${n}`] }) =>
      [imageId(n), ...tags, ...(n === 0 ? ['pause'] : [])].includes(ref),
    );
  const absent = unknown('absent', 'CRI', 'not found');
  const client: CriClient = {
    socket: '/run/cri.sock',
    version: async () => absent,
    info: () =>
      answer('Status', () =>
        node.sandboxImage === null ? {} : { config: JSON.stringify({ sandboxImage: node.sandboxImage }) },
      ),
    config: async () => absent,
    sandboxes: () =>
      answer('ListPodSandbox', () =>
        node.readyPods.map((podUid) =>
          create(PodSandboxSchema, {
            id: hex(1),
            state: PodSandboxState.SANDBOX_READY,
            labels: {
              'io.kubernetes.pod.uid': podUid,
              'io.kubernetes.pod.name': 'p',
              'io.kubernetes.pod.namespace': 'shop',
            },
          }),
        ),
      ),
    sandboxInfo: async () => absent,
    containers: () =>
      answer('ListContainers', () =>
        node.containers.map(
          ({ n, image, podUid, name = 'app', state = ContainerState.CONTAINER_RUNNING, createdAt = 0 }) =>
            create(ContainerSchema, {
              id: hex(n),
              podSandboxId: hex(1),
              imageRef: image,
              state,
              createdAt: BigInt(createdAt) * 1_000_000n,
              labels: { 'io.kubernetes.pod.uid': podUid, 'io.kubernetes.container.name': name },
            }),
        ),
      ),
    container: async (id) => {
      const failed = before(`ContainerStatus ${Number.parseInt(id, 16)}`);
      if (failed !== undefined) return failed;
      const found = node.containers.find(({ n }) => hex(n) === id);
      if (found === undefined) return absent;
      const { state = ContainerState.CONTAINER_RUNNING, volumes = [] } = found;
      return known(
        create(ContainerStatusSchema, { id, state, mounts: volumes.map((image) => ({ image: { image } })) }),
      );
    },
    containerInfo: async () => absent,
    stats: async () => absent,
    images: () => answer('ListImages', () => node.images.map(messageOf)),
    image: (ref) =>
      answer(`ImageStatus ${ref}`, () => {
        const found = named(ref);
        return found === undefined ? null : messageOf(found);
      }),
    imageFilesystems: async () => absent,
    removeImage: async (id) => {
      const n = Number.parseInt(id.slice('sha256:'.length), 16);
      const failed = before(`RemoveImage ${n}`);
      if (failed !== undefined) return failed;
      did.push(`image ${n}`);
      node.images = node.images.filter((image) => image.n !== n);
      return known(null);
    },
    removeContainer: async (id) => {
      const n = Number.parseInt(id, 16);
      const failed = before(`RemoveContainer ${n}`);
      if (failed !== undefined) return failed;
      did.push(`container ${n}`);
      node.containers = node.containers.filter((container) => container.n !== n);
      return known(null);
    },
    stopContainer: async () => absent,
    stopSandbox: async () => absent,
    close: () => {},
    cancel: () => undefined,
  };
  return {
    node,
    client,
    did,
    onCall: (run: typeof before) => {
      before = run;
    },
  };
}
