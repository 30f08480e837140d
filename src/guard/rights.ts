import { type RightAttributes, reviewAttributes } from '../kube/api/access-review.ts';
import type { GuardSend } from '../kube/api/connection.ts';
import { LEADER_LEASE } from './api-writes.ts';

/** One right of guard.md 13.1; `where`: the Role or ClusterRole of config/kubernetes/guard/rbac.yaml that gives it. */
export type GuardRight = {
  readonly attributes: RightAttributes;
  readonly where: string;
  /** In dry run nothing is written but the lease. */
  readonly isForArmed: boolean;
};
/** `isAllowed` null: the server did not say, for the reason in `said`. */
export type ReviewedGuardRight = GuardRight & { readonly isAllowed: boolean | null; readonly said: string };

type Row = Omit<RightAttributes, 'verb'> & { readonly verbs: readonly string[]; readonly armed?: readonly string[] };

/** `armed`: the verbs that only an armed guard needs. */
const needed = (own: string): readonly (readonly [where: string, rows: readonly Row[]])[] => [
  [
    'ClusterRole nodewarden-guard',
    [
      { group: '', resource: 'nodes', verbs: ['get', 'list', 'watch'], armed: ['patch'] },
      { group: '', resource: 'nodes', subresource: 'status', verbs: [], armed: ['patch'] },
      { group: '', resource: 'pods', verbs: ['list'] },
      { group: 'storage.k8s.io', resource: 'volumeattachments', verbs: ['list'] },
    ],
  ],
  [
    'Role kube-node-lease/nodewarden-guard',
    [{ group: 'coordination.k8s.io', resource: 'leases', namespace: 'kube-node-lease', verbs: ['get', 'list'] }],
  ],
  [
    'Role default/nodewarden-guard',
    [{ group: '', resource: 'events', namespace: 'default', verbs: [], armed: ['create'] }],
  ],
  [
    `Role ${own}/nodewarden-guard`,
    [
      { group: 'coordination.k8s.io', resource: 'leases', namespace: own, verbs: ['create'] },
      {
        group: 'coordination.k8s.io',
        resource: 'leases',
        namespace: own,
        name: LEADER_LEASE,
        verbs: ['get', 'update'],
      },
      {
        group: '',
        resource: 'configmaps',
        namespace: own,
        verbs: ['get', 'list', 'watch'],
        armed: ['create', 'update', 'delete'],
      },
    ],
  ],
];

/** What the guard must not be able to do: it deletes nothing (G10), and reads no Secret through the API (G12). */
const TOO_MUCH: readonly RightAttributes[] = [
  { verb: 'delete', group: '', resource: 'pods' },
  { verb: 'create', group: '', resource: 'pods', subresource: 'eviction' },
  { verb: 'create', group: '', resource: 'pods', subresource: 'exec' },
  { verb: 'delete', group: '', resource: 'nodes' },
  { verb: 'get', group: '', resource: 'nodes', subresource: 'proxy' },
  { verb: 'get', group: '', resource: 'secrets' },
  { verb: 'delete', group: 'storage.k8s.io', resource: 'volumeattachments' },
];

/** The rights that the guard needs in its namespace. */
export function guardRights(namespace: string): readonly GuardRight[] {
  return needed(namespace).flatMap(([where, rows]) =>
    rows.flatMap(({ verbs, armed = [], ...attributes }) => [
      ...verbs.map((verb) => ({ attributes: { verb, ...attributes }, where, isForArmed: false })),
      ...armed.map((verb) => ({ attributes: { verb, ...attributes }, where, isForArmed: true })),
    ]),
  );
}

export type ReviewedRights = {
  readonly needed: readonly ReviewedGuardRight[];
  /** What it may do and must not be able to. */
  readonly tooMuch: readonly RightAttributes[];
};

/** Asks the server for all of them; it stores nothing. Never rejects. */
export async function reviewGuardRights(send: GuardSend, namespace: string): Promise<ReviewedRights> {
  const reviewed = await Promise.all(
    guardRights(namespace).map(async (right) => ({
      ...right,
      ...(await reviewAttributes({ send }, right.attributes)),
    })),
  );
  const forbidden = await Promise.all(
    TOO_MUCH.map(async (attributes) => ({ attributes, ...(await reviewAttributes({ send }, attributes)) })),
  );
  return { needed: reviewed, tooMuch: forbidden.flatMap((one) => (one.isAllowed === true ? [one.attributes] : [])) };
}
