import { known, type Reading, unknown } from '../../core/reading.ts';
import type { Clock } from '../../ports.ts';
import { sandboxesOf } from './checked-answers.ts';
import { type CriClient, openCriClient } from './client.ts';

export type FoundRuntime = {
  readonly client: CriClient;
  readonly socket: string;
  /** It runs a pod known to belong to this node. */
  readonly isProven: boolean;
};

/** D11; the last three unverified there. */
const WELL_KNOWN = [
  '/run/containerd/containerd.sock',
  '/run/crio/crio.sock',
  '/run/k3s/containerd/containerd.sock',
  '/run/k0s/containerd.sock',
  '/var/snap/microk8s/common/run/containerd.sock',
  '/run/cri-dockerd.sock',
];
/** Of a sockaddr_un, without the byte that ends it. */
const SOCKET_PATH_MAX = 107;
const WHERE = 'the container runtime';
const NOBODY_LISTENS = /\b(?:ENOENT|ECONNREFUSED)\b/;

/** Sockets to try, in order: the configured endpoint (`unix:///run/x.sock`, or the path), then the well-known paths. */
export function socketsOf(endpoint: string): Reading<readonly string[]> {
  const path = endpoint.replace(/^unix:(?:\/\/)?(?=\/)/, '');
  if (!path.startsWith('/') || path.includes('\0') || Buffer.byteLength(path) > SOCKET_PATH_MAX) {
    const detail = `only unix:///path of at most ${SOCKET_PATH_MAX} bytes is supported`;
    return unknown('malformed', 'containerRuntimeEndpoint', detail);
  }
  return known([path, ...WELL_KNOWN.filter((other) => other !== path)]);
}

/**
 * D11: the first runtime that answers Version and runs a known pod; else the first socket (the configured one), if it
 * answers. Any other one without a pod of ours may be someone else's runtime. A runtime that does not support CRI v1 is
 * reported as such. The connections to all others are closed.
 */
export async function findRuntime(needs: {
  readonly clock: Clock;
  readonly sockets: readonly string[];
  readonly isKnownPod: (uid: string) => boolean;
}): Promise<Reading<FoundRuntime>> {
  const { clock, sockets, isKnownPod } = needs;
  const asked = await Promise.all(
    sockets.map(async (socket) => {
      const client = openCriClient(socket, clock);
      const version = await client.version();
      return { socket, client, version, isProven: version.known && (await runsKnown(client, isKnownPod)) };
    }),
  );
  const [configured] = asked;
  const chosen = asked.find(({ isProven }) => isProven) ?? (configured?.version.known ? configured : undefined);
  for (const other of asked) if (other !== chosen) other.client.close();
  if (chosen !== undefined) return known(chosen);
  const said = asked.map(({ socket, version }) => sayNo(socket, version));
  const worth = said.filter((text, index) => index === 0 || !NOBODY_LISTENS.test(text));
  return unknown('unreadable', WHERE, worth.join('; '));
}

async function runsKnown(client: CriClient, isKnownPod: (uid: string) => boolean): Promise<boolean> {
  const list = await client.sandboxes();
  const sandboxes = list.known ? sandboxesOf(list.value) : list;
  return sandboxes.known && sandboxes.value.items.some(({ podUid }) => isKnownPod(podUid));
}

function sayNo(socket: string, version: Reading<unknown>): string {
  if (version.known) return `${socket} answers, but runs no pod of this node`;
  if (version.why !== 'not-applicable') return version.detail;
  return `${socket} speaks no CRI v1: its CRI plugin is off, or it serves only v1alpha2, which is not supported`;
}
