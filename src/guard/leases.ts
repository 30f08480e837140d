import type { Dated, LeaseView } from '../core/guard/observation.ts';
import { known, type MonoMs, type Reading, unknown } from '../core/reading.ts';
import { isObject } from '../core/shape.ts';
import type { ApiGet } from '../kube/api/connection.ts';
import { messageOf } from '../kube/api/line-stream.ts';
import { isBefore } from '../kube/api/object-watch.ts';
import type { Clock, Findings } from '../ports.ts';
import { NODES_NOT_LISTED, nodesRefused } from '../words/finding-guard.ts';
import { nameIn, readLease, versionIn } from './read-node.ts';

export const LIST_DEADLINE_MS = 20_000;

/** `version` and `atMs`: of the list that had it. */
type ListedLease = { readonly lease: LeaseView; readonly version: string; readonly atMs: MonoMs };
type Leases = {
  readonly refresh: () => Promise<void>;
  /** By name of the node, as of when the last answered list was sent. */
  readonly all: () => Reading<Dated<ReadonlyMap<string, ListedLease>>>;
};

/** guard.md 5.1: in one answer of what the server has at hand, which cannot be half stale. */
const LEASES = '/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases?resourceVersion=0';
const LEASES_EVERY_MS = 5_000;
const MANY_EVERY_MS = 10_000;
const MANY_NODES = 500;

/** The leases of all nodes, listed again and again. */
export function createLeases(needs: {
  readonly connection: { readonly get: ApiGet };
  readonly clock: Clock;
  readonly findings: Findings;
  /** Others are foreign, and there may be any number of them. */
  readonly isNode: (name: string) => boolean;
  readonly count: () => number;
}): Leases {
  const { connection, clock, findings, isNode } = needs;
  let listed: Reading<Dated<ReadonlyMap<string, ListedLease>>> = unknown('not-asked', LEASES, 'not listed yet');
  let sentMs: MonoMs | null = null;
  let underWay: Promise<void> | null = null;

  async function list(atMs: MonoMs): Promise<void> {
    const answer = await connection.get(LEASES, LIST_DEADLINE_MS);
    if (answer.kind === 'none') return;
    const items = isObject(answer.body) ? answer.body['items'] : undefined;
    // Some servers send null for an empty list.
    if (answer.status !== 200 || (items !== null && !Array.isArray(items))) {
      findings.raise(nodesRefused('leases', answer.status, answer.problem ?? messageOf(answer.body)));
      return;
    }
    findings.clear(NODES_NOT_LISTED.leases);
    const before = listed.known ? listed.value.value : null;
    const leases = new Map<string, ListedLease>();
    for (const item of items ?? []) {
      const name = nameIn(item);
      if (isNode(name)) leases.set(name, newerOf(before?.get(name), item, atMs));
    }
    listed = known({ value: leases, asOfMs: atMs });
  }

  return {
    refresh: () => {
      const nowMs = clock.monoMs();
      const everyMs = needs.count() > MANY_NODES ? MANY_EVERY_MS : LEASES_EVERY_MS;
      if (underWay === null && (sentMs === null || nowMs - sentMs >= everyMs)) {
        sentMs = nowMs;
        underWay = list(nowMs).finally(() => {
          underWay = null;
        });
      }
      return underWay ?? Promise.resolve();
    },
    all: () => listed,
  };
}

/**
 * Of several API servers behind one address, one may have a cache that stands still: what a dead node wrote before it wrote its last
 * would be a sign of life, list after list. Where the newer one is not listed any more, as after a restore of etcd, the older one is it.
 */
function newerOf(before: ListedLease | undefined, item: unknown, atMs: MonoMs): ListedLease {
  const version = versionIn(item);
  if (before !== undefined && atMs - before.atMs < STALE_FOR_MS && isBefore(version, before.version)) return before;
  return { lease: sameOr(before?.lease, readLease(item)), version, atMs };
}
/** Shorter than any node can be silent for and be dead: by this alone, none is. */
const STALE_FOR_MS = 60_000;

/** The same object as before, so that thousands that did not change cost no memory. */
function sameOr(before: LeaseView | undefined, now: LeaseView): LeaseView {
  return before?.renewed === now.renewed && before.durationMs === now.durationMs ? before : now;
}
