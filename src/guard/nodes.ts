import type { Dated, NodeView } from '../core/guard/observation.ts';
import { known, type MonoMs, type Reading, unknown } from '../core/reading.ts';
import { hostName } from '../host/host-name.ts';
import { pathWith } from '../kube/api/object-list.ts';
import { type WatchConnection, watchObjects } from '../kube/api/object-watch.ts';
import type { Clock, Findings } from '../ports.ts';
import { NODES_NOT_LISTED, nodesRefused, OWN_NODE, ownNodeUnclear } from '../words/finding-guard.ts';
import { createLeases, LIST_DEADLINE_MS } from './leases.ts';
import { type KnownNode, readNode } from './read-node.ts';

export type Nodes = {
  /** Lists the leases if that is due; resolves when they are there, or will not come. */
  readonly refresh: () => Promise<void>;
  /** Every node with its lease, as of the last answered list of leases, or as of the last word of a watch that ended. */
  readonly views: () => Reading<Dated<readonly NodeView[]>>;
  readonly byUid: (uid: string) => KnownNode | null;
  readonly all: () => Iterable<KnownNode>;
  /** When the API server last said anything of the Nodes themselves; null: never. */
  readonly heardMs: () => MonoMs | null;
  readonly close: () => void;
};

/** kube-apiserver sends a bookmark about once a minute. */
export const SILENCE_MS = 90_000;

/** All nodes by list and watch, and their leases by list (guard.md 5.1). */
export function watchNodes(needs: {
  readonly connection: WatchConnection;
  readonly clock: Clock;
  readonly findings: Findings;
}): Nodes {
  const { connection, clock, findings } = needs;
  let byName = new Map<string, KnownNode>();
  let uids: ReadonlyMap<string, KnownNode> | null = null;
  let hasListed = false;
  let asOfMs: MonoMs | null = null;

  const put = (node: KnownNode | null): void => {
    if (node === null) return;
    byName.set(node.object.name, node);
    uids = null;
  };
  const watch = watchObjects<KnownNode | null>({
    ...{ connection, clock, from: 'newest', listDeadlineMs: LIST_DEADLINE_MS, silenceMs: SILENCE_MS },
    path: pathWith('/api/v1/nodes'),
    reduce: readNode,
    replace: (all) => {
      const before = byName;
      byName = new Map();
      for (const node of all) {
        const same = node === null ? undefined : before.get(node.object.name);
        // The core takes an object for changed if it is another one.
        put(same?.version === node?.version && same?.object.uid === node?.object.uid ? (same ?? null) : node);
      }
      uids = null;
      hasListed = true;
    },
    put,
    remove: (node) => {
      if (node === null || byName.get(node.object.name)?.object.uid !== node.object.uid) return;
      byName.delete(node.object.name);
      uids = null;
    },
    refused: (status, detail) => findings.raise(nodesRefused('nodes', status, detail)),
    answered: () => findings.clear(NODES_NOT_LISTED.nodes),
    late: () => undefined,
  });
  const leases = createLeases({
    ...{ connection, clock, findings },
    isNode: (name) => byName.has(name),
    count: () => byName.size,
  });

  /** Leases alone do not show that a node was deleted, or marked by somebody else. */
  function asOf(leasesMs: MonoMs): MonoMs {
    const watchMs = watch.isOpen() ? leasesMs : (watch.atMs() ?? leasesMs);
    asOfMs = Math.max(asOfMs ?? Number.NEGATIVE_INFINITY, Math.min(leasesMs, watchMs));
    return asOfMs;
  }
  function uidsNow(): ReadonlyMap<string, KnownNode> {
    uids ??= new Map([...byName.values()].map((node) => [node.object.uid, node]));
    return uids;
  }

  return {
    refresh: async () => {
      if (hasListed) await leases.refresh();
    },
    views: () => {
      if (!hasListed) return unknown('not-asked', '/api/v1/nodes', watch.failure());
      const listed = leases.all();
      if (!listed.known) return listed;
      const { value, asOfMs: leasesMs } = listed.value;
      const views = [...byName.values()].map(({ object }) => ({
        object,
        lease: value.get(object.name)?.lease ?? null,
      }));
      return known({ value: views, asOfMs: asOf(leasesMs) });
    },
    byUid: (uid) => uidsNow().get(uid) ?? null,
    all: () => byName.values(),
    heardMs: watch.heardMs,
    close: watch.close,
  };
}

/**
 * The name of the node that this process runs on; null: there is none. NODE_NAME says it, also in a sandbox with a kernel of its
 * own; else it is the one that says it has this machine's boot id. A node may say what it wants, so of several the one of this
 * machine's name counts, else the first.
 */
export function createOwnNode(needs: {
  readonly nodes: Pick<Nodes, 'all'>;
  readonly findings: Findings;
  readonly bootId: string;
  readonly env: NodeJS.ProcessEnv;
}): () => string | null {
  const { nodes, findings, bootId } = needs;
  const told = needs.env['NODE_NAME'];
  const own = told ?? hostName().toLowerCase();
  return () => {
    const names: string[] = [];
    for (const { object } of nodes.all()) {
      if (object.name === told || (bootId !== '' && object.bootId === bootId)) names.push(object.name);
    }
    if (names.includes(own) || names.length < 2) findings.clear(OWN_NODE);
    else findings.raise(ownNodeUnclear(names));
    return names.includes(own) ? own : (names.sort()[0] ?? null);
  };
}
