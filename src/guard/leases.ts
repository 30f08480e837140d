import type { Dated, LeaseView } from '../core/guard/observation.ts';
import { known, type MonoMs, type Reading, unknown } from '../core/reading.ts';
import { isObject } from '../core/shape.ts';
import type { ApiGet } from '../kube/connection.ts';
import { messageOf } from '../kube/line-stream.ts';
import type { Clock, Findings } from '../ports.ts';
import { NODES_NOT_LISTED, nodesRefused } from '../words/finding-guard.ts';
import { nameIn, readLease } from './read-node.ts';

export type Leases = {
  readonly refresh: () => Promise<void>;
  /** By name of the node, as of when the last answered list was sent. */
  readonly all: () => Reading<Dated<ReadonlyMap<string, LeaseView>>>;
};

/** guard.md 5.1: in one answer of what the server has at hand, which cannot be half stale. */
const PATH = '/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases?resourceVersion=0';
const DEADLINE_MS = 20_000;
const EVERY_MS = 5_000;
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
  let listed: Reading<Dated<ReadonlyMap<string, LeaseView>>> = unknown('not-asked', PATH, 'not listed yet');
  let sentMs: MonoMs | null = null;
  let underWay: Promise<void> | null = null;

  async function list(atMs: MonoMs): Promise<void> {
    const answer = await connection.get(PATH, DEADLINE_MS);
    if (answer.kind === 'none') return;
    const items = isObject(answer.body) ? answer.body['items'] : undefined;
    // Some servers send null for an empty list.
    if (answer.status !== 200 || (items !== null && !Array.isArray(items))) {
      findings.raise(nodesRefused('leases', answer.status, answer.problem ?? messageOf(answer.body)));
      return;
    }
    findings.clear(NODES_NOT_LISTED.leases);
    const before = listed.known ? listed.value.value : null;
    const leases = new Map<string, LeaseView>();
    for (const item of items ?? []) {
      const name = nameIn(item);
      if (isNode(name)) leases.set(name, sameOr(before?.get(name), readLease(item)));
    }
    listed = known({ value: leases, asOfMs: atMs });
  }

  return {
    refresh: () => {
      const nowMs = clock.monoMs();
      const everyMs = needs.count() > MANY_NODES ? MANY_EVERY_MS : EVERY_MS;
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

/** The same object as before, so that thousands that did not change cost no memory. */
function sameOr(before: LeaseView | undefined, now: LeaseView): LeaseView {
  return before?.renewed === now.renewed && before.durationMs === now.durationMs ? before : now;
}
